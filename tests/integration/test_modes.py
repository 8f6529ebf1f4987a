"""Rows that stay, rows that go, no rows at all: the same writer, topics and consumer, and what each mode cannot do."""

from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from cdc_outbox import (
    TOMBSTONE,
    Event,
    Outbox,
    OutboxMode,
    OutboxTable,
    RecordedEvent,
    SequenceMode,
    StaleSequenceError,
    WireContract,
)
from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.heartbeats import Heartbeat, read_record
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.debezium.connector_offsets import confirmed_lsn, last_lsn, own_offset
from cdc_outbox.debezium.slot_plan import EarlierEvents
from cdc_outbox.errors import ConfigError, ConnectorInvalidError, TableNotFoundError, UnpublishedEventsError
from cdc_outbox.message import Message
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.testing import Stack
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually, one, sent_statements
from tests.support.service import Service

WITHOUT_ROWS = [OutboxMode.DELETE, OutboxMode.MESSAGE]
ORDER = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={"total": 10})
VERBATIM = '{ "as":  "is", "ß": "\\u00e9 %s :x $1 \\\\ ☃😀\u2028" }'


@pytest.fixture(params=OutboxMode)
def pipeline(outbox_stack: Stack, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    yield from made(outbox_stack, request.param)


@pytest.fixture(params=WITHOUT_ROWS)
def without_rows(outbox_stack: Stack, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    yield from made(outbox_stack, request.param)


@pytest.fixture
def table_less(outbox_stack: Stack) -> Iterator[Pipeline]:
    yield from made(outbox_stack, OutboxMode.MESSAGE)


def made(stack: Stack, mode: OutboxMode) -> Iterator[Pipeline]:
    pipeline = Pipeline.make(stack, f"outbox: {{mode: {mode}}}\n")
    yield pipeline
    pipeline.close()


def in_mode(pipeline: Pipeline, mode: OutboxMode) -> Spec:
    return parse_spec(Pipeline.text(pipeline.name, f"outbox: {{mode: {mode}}}\n"))


def write_like_a_service(pipeline: Pipeline) -> list[RecordedEvent]:
    """Write in every way there is, with rollbacks between, and return what was committed."""
    outbox, written = Outbox(spec=pipeline.spec), []
    metric = Event(aggregate_type="metric", aggregate_id="cpu", type="Measured", payload="1")
    with psycopg.connect(pipeline.dsn) as connection:
        for payload in (VERBATIM, {"total": 10}, '"text"', "null", "[]", TOMBSTONE):
            written.append(outbox.add(connection, replace(ORDER, payload=payload, headers={"traceparent": "00-ü-01"})))
            connection.commit()
            outbox.add(connection, ORDER)
            connection.rollback()
        written += outbox.add_all(connection, [replace(ORDER, aggregate_id=name) for name in "2ü12ü"] + [metric])
        connection.commit()
        with outbox.collect(connection) as events:
            events.add_all([ORDER, ORDER])
        connection.commit()
    return written + events.written


def beat_twice(pipeline: Pipeline) -> list[str]:
    """Write two heartbeats with none of the connector's between them, and return their ids."""
    with pipeline.connect() as connection:
        with connection.transaction():
            connection.execute("lock table outbox_heartbeats in share row exclusive mode")
            numbers = [one(connection, "select outbox_heartbeat(%s, interval '0')", pipeline.name) for _ in range(2)]
        query = "select cast(id as text) from outbox_heartbeats where number = any(%s) order by number"
        return [event_id for (event_id,) in connection.execute(query, (numbers,)).fetchall()]


def assert_heartbeats_follow(pipeline: Pipeline, ids: list[str]) -> None:
    """Hold that both heartbeats are in their topic, that the later one names the other, and that neither left a row."""
    first, second = ids
    topic = pipeline.spec.heartbeat_topic
    assert topic is not None
    records = [read_record(message) for message in pipeline.stack.broker.messages(topic)]
    found = {each.id: each for each in records if isinstance(each, Heartbeat)}
    assert first in found
    assert found[second].previous == first
    if pipeline.spec.outbox.mode is not OutboxMode.MESSAGE:
        with pipeline.connect() as connection:
            assert not one(connection, "select count(*) from outbox where aggregatetype like 'heartbeat.%%'")


def test_topics_and_consumer_see_the_same_in_every_mode(pipeline: Pipeline) -> None:
    pipeline.deploy(stable_seconds=0)
    heartbeats = beat_twice(pipeline)
    written = write_like_a_service(pipeline)
    orders = [event for event in written if event.aggregate_type == "order"]
    with Service(pipeline).running() as consumer:
        service = Service(pipeline, name=consumer.name)
        eventually(lambda: len(service.effects()) >= 5, "the first effects")
        # What the connector repeats after it was halted has no effect again.
        pipeline.stop()
        orders += pipeline.write(3)
        pipeline.client.resume(pipeline.name)
        eventually(lambda: len(service.effects()) >= len(orders), "every effect")
    effects = service.effects()
    for aggregate_id in ("1", "2", "ü"):
        numbers = [number for name, number in effects if name == aggregate_id]
        assert numbers == list(range(1, sum(event.aggregate_id == aggregate_id for event in orders) + 1))

    contract, broker = pipeline.spec.contract, pipeline.stack.broker
    messages = [message for topic in contract.topics for message in broker.messages(topic)]
    real = {dict(message.headers)["id"]: message for message in messages}
    for event in written:
        assert_same(real[str(event.id).encode()], contract.message_of(event))
    assert not broker.ends(f"{pipeline.name}.message")
    assert_heartbeats_follow(pipeline, heartbeats)


def assert_same(real: Message, stated: Message) -> None:
    """The message is the contract's; its place and its time are the broker's."""
    assert real == replace(stated, timestamp_ms=real.timestamp_ms, partition=real.partition, offset=real.offset)


def test_each_mode_leaves_the_rows_that_it_says(pipeline: Pipeline) -> None:
    written = pipeline.write(3)
    assert all(event.created_at is not None for event in written)
    with pipeline.connect() as connection:
        exists = one(connection, "select to_regclass('public.outbox') is not null")
        rows = one(connection, "select count(*) from outbox") if exists else None
        assert rows == {OutboxMode.KEEP: 3, OutboxMode.DELETE: 0, OutboxMode.MESSAGE: None}[pipeline.spec.outbox.mode]
        assert one(connection, "select last from outbox_heads") == 3


def test_messages_keep_the_callers_own_numbers_rising(table_less: Pipeline) -> None:
    contract = WireContract(aggregates={"order": SequenceMode.INCREASING})
    outbox = Outbox(table=table_less.spec.outbox, contract=contract)
    with psycopg.connect(table_less.dsn) as connection:
        assert outbox.add(connection, replace(ORDER, sequence=7)).sequence == 7
        with pytest.raises(StaleSequenceError):
            outbox.add(connection, replace(ORDER, sequence=7))
        assert [event.sequence for event in outbox.add_all(connection, [replace(ORDER, sequence=9)])] == [9]


def test_one_statement_emits_event_and_number(table_less: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = sent_statements(monkeypatch)
    table_less.write(1)
    assert len(sent) == 1


def test_a_foreign_message_and_another_outbox_stay_off_the_topics(table_less: Pipeline) -> None:
    table_less.deploy(stable_seconds=0)
    other = OutboxTable(name="Outbox", mode=OutboxMode.MESSAGE)
    with table_less.connect() as connection:
        connection.execute('create table "Outbox_heads" (like outbox_heads including all)')
        connection.execute("select pg_logical_emit_message(true, 'somebody', 'no json')")
        connection.execute("create table busy as select 1 as a")
        with connection.transaction():
            Outbox(table=other).add(connection, replace(ORDER, aggregate_id="other"))
    table_less.write(2)
    eventually(lambda: len(table_less.messages()) >= 2, "two messages")
    assert [message.key for message in table_less.messages()] == [b"1", b"1"]


def test_what_is_written_before_the_slot_is_known_from_the_heads(without_rows: Pipeline) -> None:
    without_rows.write(2)
    with pytest.raises(UnpublishedEventsError, match="events were written, and would not be published") as caught:
        without_rows.deploy()
    assert "republish" not in caught.value.hint
    without_rows.deploy(earlier=EarlierEvents.SKIP, stable_seconds=0)
    without_rows.write(1)
    eventually(lambda: len(without_rows.messages()) == 1, "the event behind the slot")


def test_nothing_can_be_published_again(without_rows: Pipeline) -> None:
    with pytest.raises(ConfigError, match="keeps no rows") as caught:
        without_rows.deploy(earlier=EarlierEvents.REPUBLISH)
    assert caught.value.field == "earlier_events"


def test_a_slot_that_nobody_read_is_compared_with_the_numbers(without_rows: Pipeline) -> None:
    create = "select pg_create_logical_replication_slot(%s, 'pgoutput')"
    slot = without_rows.spec.database.slot
    without_rows.write(2, "old")
    without_rows.write(1, "both")
    with without_rows.connect() as connection:
        connection.execute(create, (slot,))
    without_rows.write(2, "both")
    without_rows.write(1, "new")
    with pytest.raises(UnpublishedEventsError, match="does not hold 3 events, which"):
        without_rows.deploy()
    with without_rows.connect() as connection:
        connection.execute("delete from outbox_heads where aggregateid = 'old'")
        connection.execute("delete from outbox_heads where aggregateid = 'both'")
    without_rows.deploy(stable_seconds=0)
    eventually(lambda: len(without_rows.messages()) == 3, "what the slot holds")


def test_a_running_connector_does_not_change_from_rows_to_messages(pipeline: Pipeline) -> None:
    pipeline.deploy(stable_seconds=0)
    mode = OutboxMode.KEEP if pipeline.spec.outbox.mode is OutboxMode.MESSAGE else OutboxMode.MESSAGE
    changed = in_mode(pipeline, mode)
    with pipeline.connect() as connection:
        pipeline.init(connection, changed)  # tables of one mode do not stand in the way of the other
    with pytest.raises(UnpublishedEventsError, match="would not be published"):
        pipeline.deploy(spec=changed)
    assert not pipeline.deploy().changes
    pipeline.write(2)
    eventually(lambda: len(pipeline.messages()) == 2, "the events in the old mode")
    pipeline.deploy(spec=changed, earlier=EarlierEvents.SKIP, replaces=True, stable_seconds=0)
    pipeline.spec = changed
    pipeline.write(2)
    eventually(lambda: len(pipeline.messages()) == 4, "the events in the new mode")
    numbers = [changed.contract.event_of(message).sequence for message in pipeline.messages()]
    assert numbers == [1, 2, 3, 4]


def test_preflight_asks_for_heads_and_publication_and_for_no_table(table_less: Pipeline) -> None:
    with table_less.connect() as connection:
        connection.execute("alter table outbox_heads set unlogged")
        connection.execute(f"drop publication {table_less.spec.database.publication}".encode())
    with pytest.raises(ConnectorInvalidError) as caught:
        table_less.deploy()
    assert [finding.code for finding in caught.value.findings] == ["DB323", "DB401"]
    with table_less.connect() as connection:
        connection.execute("drop table outbox_heads")
    with pytest.raises(ConnectorInvalidError) as caught:
        table_less.deploy()
    assert [finding.code for finding in caught.value.findings] == ["DB321", "DB401"]
    with pytest.raises(TableNotFoundError, match="outbox_heads"):
        table_less.write(1)


def test_what_the_slot_holds_unpublished_is_counted_in_each_mode(pipeline: Pipeline) -> None:
    name, slot = pipeline.name, pipeline.spec.database.slot
    pipeline.deploy(stable_seconds=0)
    pipeline.write(2)
    eventually(lambda: len(pipeline.messages()) == 2, "two events")
    pipeline.client.stop(name)
    with pipeline.connect() as connection:
        query = "select not active from pg_replication_slots where slot_name = %s"
        eventually(lambda: one(connection, query, slot), "the slot to be free")
        eventually(lambda: pipeline.client.find_status(name).state == "STOPPED", "the connector to stop")
        pipeline.write(3)
        offset = own_offset(pipeline.client.find_offsets(name), topic_prefix=name) or {}
        database = PostgresqlDatabase(connection, Psycopg(), pipeline.spec)
        # The connector notes a logical message as read only with what follows it.
        repeated = pipeline.spec.outbox.mode is OutboxMode.MESSAGE
        counted = database.count_undelivered(confirmed_lsn(offset), last_lsn(offset))
        assert 3 <= counted <= 3 + 2 * repeated
        assert database.count_undelivered(None, None) >= counted
        assert database.count_undelivered(Lsn(2**60), None) == 0
