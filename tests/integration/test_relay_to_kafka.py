"""The whole relay, from the outbox to Kafka: the messages of Debezium beside it, kills, and what stops it."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from random import Random
from types import MappingProxyType

import psycopg
import pytest

from cdc_outbox import TOMBSTONE, Event, EventFormat, Outbox, OutboxMode, PayloadType
from cdc_outbox.databases.pgoutput import Relation, RelationColumn
from cdc_outbox.errors import CdcOutboxError
from cdc_outbox.message import Message
from cdc_outbox.relay.relay import Relay
from cdc_outbox.relay.relay_errors import MessageRefusedError
from cdc_outbox.testing import Stack
from tests.support.pipeline import Pipeline
from tests.support.profiles import PROFILES, payload_of
from tests.support.publishers import publishers_of
from tests.support.relay_process import (
    PREFIX,
    let_relay_publish,
    make_relay,
    make_server,
    prepare_relay,
    relay_process,
    relay_slot,
)
from tests.support.rig import Connection, eventually, one

MODES = {
    "json": OutboxMode.KEEP,
    "bytes": OutboxMode.DELETE,
    "envelope": OutboxMode.KEEP,
    "cloudevents-binary": OutboxMode.DELETE,
    "cloudevents-bytes": OutboxMode.KEEP,
    "cloudevents-structured": OutboxMode.KEEP,
}
"""Every profile that the relay supports, each in one of its modes."""
AGGREGATE_IDS = ["42", "ä/ö", "a b", "x" * 300, "''", "{}"]
INSERTED = [
    ("order", "", "Placed", "2026-11-20 12:34:56.123456"),
    ("order", "7", "Placed", "2026-11-20 12:34:56"),
]
"""Rows that the writer never writes: aggregate type, aggregate id, type, created_at; without payload and number."""


LARGE = Random(7).randbytes(1_000_000).hex()  # noqa: S311 - a text that does not compress


class RelayThread:
    """A relay in a thread, and the error that ended it."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.error: CdcOutboxError | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.relay.run()
        except CdcOutboxError as error:
            self.error = error


@contextmanager
def relay_thread(pipeline: Pipeline) -> Iterator[RelayThread]:
    let_relay_publish(pipeline)
    started = RelayThread(make_relay(pipeline.spec, pipeline.dsn, pipeline.stack.broker.bootstrap_servers))
    started.thread.start()
    try:
        yield started
    finally:
        started.relay.stop()
        started.thread.join(60)
        assert not started.thread.is_alive()


@pytest.fixture
def made() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def make_pipeline(
    made: ExitStack, stack: Stack, extra: str = "", *, limits: Mapping[str, int] = MappingProxyType({})
) -> Pipeline:
    pipeline = Pipeline.make(stack, extra)
    made.callback(pipeline.close)
    prepare_relay(pipeline, limits)
    return pipeline


def write(connection: Connection, pipeline: Pipeline) -> int:
    """Write events in every way that the profile has, several in a transaction, and return how many."""
    outbox, payload_type = Outbox(spec=pipeline.spec), pipeline.spec.outbox.payload_type
    is_plain = pipeline.spec.outbox.format is EventFormat.PLAIN
    payloads = [payload_of(payload_type)]
    payloads += [b"", b"\x00\xff"] if payload_type is PayloadType.BYTES else ['{ "kept":  1.10 }', '"ünï"', "null"]
    count = 0
    for number, aggregate_id in enumerate(AGGREGATE_IDS * 3):
        event = Event(
            aggregate_type="order",
            aggregate_id=aggregate_id,
            type=["OrderPlaced", "Order Cancelled", "ß"][number % 3],
            payload=payloads[number % len(payloads)],
            headers={"traceparent": f"00-{number:032x}-{number:016x}-01", "x-tenant": "ü"} if number % 2 else {},
        )
        with connection.transaction():
            outbox.add(connection, event)
            outbox.add(connection, event)
        count += 2
        if pipeline.spec.outbox.format is not EventFormat.ENVELOPE and number % 5 == 0:
            with connection.transaction():
                outbox.add(connection, replace(event, payload=TOMBSTONE))
            count += 1
    if not is_plain:
        return count
    for row in INSERTED:
        connection.execute(
            "insert into outbox (id, aggregatetype, aggregateid, type, created_at) "
            "values (gen_random_uuid(), %s, %s, %s, %s)",
            row,
        )
    return count + len(INSERTED)


def by_partition(messages: list[Message]) -> dict[int | None, list[Message]]:
    """Return the messages of each partition in their order, without what differs between two topics."""
    found: dict[int | None, list[Message]] = {}
    for message in messages:
        plain = replace(message, topic=message.topic.removeprefix(PREFIX), offset=None)
        found.setdefault(message.partition, []).append(plain)
    return found


@pytest.mark.parametrize("profile", MODES)
def test_the_relays_messages_are_debeziums(
    made: ExitStack, outbox_stack: Stack, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Pipeline.text
    # CloudEvents are numbered.
    monkeypatch.setattr(
        Pipeline, "text", lambda name, extra: text(name, extra).replace("  metric: {sequence: none}\n", "")
    )
    extra = f"outbox: {{mode: {MODES[profile]}, headers: {{tenant: x-tenant}}{PROFILES[profile]}}}\n"
    pipeline = make_pipeline(made, outbox_stack, extra)
    pipeline.create_topics(pipeline.spec.topics.partitions)  # with the time of the messages
    pipeline.deploy(stable_seconds=0)
    with pipeline.connect() as connection:
        count = write(connection, pipeline)
    with relay_thread(pipeline) as running:
        eventually(lambda: running.error or len(pipeline.messages()) >= count, "Debezium's messages")
        relayed = PREFIX + pipeline.topic
        eventually(
            lambda: running.error or len(pipeline.stack.broker.messages(relayed)) >= count, "the relay's messages"
        )
        assert running.error is None
    ours, theirs = by_partition(pipeline.stack.broker.messages(relayed)), by_partition(pipeline.messages())
    assert sum(map(len, ours.values())) == count
    assert ours == theirs


def test_kills_lose_and_invent_nothing(made: ExitStack, outbox_stack: Stack) -> None:
    pipeline = make_pipeline(made, outbox_stack)
    text = Pipeline.text(pipeline.name)
    broker, topic = outbox_stack.broker, PREFIX + pipeline.topic
    outbox, written = Outbox(spec=pipeline.spec), []
    with psycopg.connect(pipeline.dsn) as connection:
        for kill in range(4):
            with relay_process(pipeline, text) as process:
                for number in range(300):
                    event = Event(aggregate_type="order", aggregate_id=str(number % 7), type="Placed", payload={})
                    written.append(outbox.add(connection, event))
                    if number % 10 == 9:
                        connection.commit()
                seen = sum(broker.ends(topic).values())
                # In the midst of the last events, which are more than a unit holds in the end.
                eventually(lambda seen=seen: sum(broker.ends(topic).values()) > seen, f"events before kill {kill}")  # type: ignore[misc]
                process.kill()
    with relay_process(pipeline, text):
        first: dict[str | None, Message] = {}

        def all_arrived() -> bool:
            first.clear()
            for message in broker.messages(topic):
                first.setdefault(pipeline.spec.contract.event_of(message).id, message)
            return len(first) >= len(written)

        eventually(all_arrived, "every event")
    assert {event.id for event in written} == first.keys()
    order = [pipeline.spec.contract.event_of(message) for message in first.values()]
    for aggregate_id in map(str, range(7)):
        expected = [event.id for event in written if event.aggregate_id == aggregate_id]
        assert [event.id for event in order if event.aggregate_id == aggregate_id] == expected


def test_a_second_relay_takes_over_when_the_first_is_killed(made: ExitStack, outbox_stack: Stack) -> None:
    pipeline = make_pipeline(made, outbox_stack)
    text, slot = Pipeline.text(pipeline.name), relay_slot(pipeline.spec)
    reader = "select active_pid is not null from pg_replication_slots where slot_name = %s"

    def epoch() -> int:
        found = publishers_of(connection, pipeline.spec.outbox).find()
        assert found is not None
        return found.epoch

    with pipeline.connect() as connection, relay_process(pipeline, text) as first:
        eventually(lambda: epoch() == 2 and one(connection, reader, slot), "the first to read")
        with relay_process(pipeline, text) as second:
            pipeline.write(3)
            eventually(lambda: len(outbox_stack.broker.messages(PREFIX + pipeline.topic)) == 3, "the first's events")
            assert epoch() == 2
            first.kill()
            pipeline.write(3)
            eventually(lambda: epoch() == 3, "the second to take over")
            relayed = PREFIX + pipeline.topic
            eventually(lambda: len({each.headers for each in outbox_stack.broker.messages(relayed)}) == 6, "all events")
            assert second.poll() is None


@pytest.mark.parametrize("refusing", ["client", "broker"])
def test_a_message_that_is_too_large_stops_the_relay(made: ExitStack, outbox_stack: Stack, refusing: str) -> None:
    # The client takes what fits into any topic.
    limits = {"metric": 2**22} if refusing == "broker" else {}
    pipeline = make_pipeline(made, outbox_stack, limits=limits)
    pipeline.write(3)
    with psycopg.connect(pipeline.dsn) as connection:
        large = Event(aggregate_type="order", aggregate_id="1", type="Placed", payload={"large": LARGE})
        Outbox(spec=pipeline.spec, max_message_bytes=3_000_000).add(connection, large)
    pipeline.write(3)
    with relay_thread(pipeline) as running:
        eventually(lambda: running.error, "the relay to stop")
    assert isinstance(running.error, MessageRefusedError)
    assert PREFIX + pipeline.topic in str(running.error)
    found = outbox_stack.broker.messages(PREFIX + pipeline.topic)
    assert len({message.headers for message in found}) <= 3


def test_columns_have_the_types_that_they_had_when_the_row_was_written(made: ExitStack, outbox_stack: Stack) -> None:
    pipeline = make_pipeline(made, outbox_stack)
    server = make_server(pipeline.spec, pipeline.dsn)
    made.callback(server.close)
    with pipeline.connect() as connection:
        connection.execute("create type colour as enum ('red')")
        connection.execute("create domain price as numeric(10, 2)")
        kinds = {
            "created_at": "timestamp(3)",
            "type": "price",
            "source": "colour",
            "dropped": "bigint",
        }
        oids = {
            name: one(connection, "select cast(to_regtype(%s) as oid)", kind.partition("(")[0])
            for name, kind in kinds.items()
        }
        relation = Relation(
            1,
            "public",
            "outbox",
            tuple(RelationColumn(name, oid, 3 if name == "created_at" else -1) for name, oid in oids.items()),
        )
        columns = {column.name: column for column in server.read_columns(relation)}
    assert {name: column.sql_type for name, column in columns.items()} == {
        "created_at": "timestamp(3) without time zone",
        "type": "numeric",
        "source": "text",
        "dropped": "bigint",
    }
    assert columns["type"].not_null
    assert not columns["dropped"].not_null
