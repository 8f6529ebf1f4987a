"""The consumer against the real broker and database: effects once, in order, and nothing skipped in silence."""

import signal
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox import Event
from cdc_outbox.consumer import Consumer, InboxTable, Outcome
from cdc_outbox.errors import (
    BrokerUnavailableError,
    ConfigError,
    DatabaseAccessError,
    DatabaseUnavailableError,
    TableNotFoundError,
    TransactionEndedError,
)
from cdc_outbox.message import Message
from tests.support.desk import HASTY, numbered
from tests.support.rig import Connection, Pipeline, Shop, apply_effect, eventually, one

EVENTS_TOTAL = "cdc_outbox_consumer_events_total"


def wait_for_topic(pipeline: Pipeline, count: int) -> list[Message]:
    eventually(lambda: len(pipeline.messages()) >= count, f"{count} messages")
    return pipeline.messages()


def parked(shop: Shop) -> list[tuple[int, str]]:
    """Return sequence and reason of what is parked."""
    with shop.pipeline.connect() as connection:
        return connection.execute("select sequence, reason from inbox_parked order by place").fetchall()


def error_of(shop: Shop) -> str:
    with shop.pipeline.connect() as connection:
        return str(one(connection, "select error from inbox_parked"))


def retry(shop: Shop) -> None:
    """Decide that what is parked is applied."""
    with shop.pipeline.connect() as connection:
        connection.execute("update inbox_parked set state = 'waiting', forced = true, retry_at = clock_timestamp()")


def with_headers(message: Message, **headers: str) -> Message:
    changed = [(name, headers[name].encode() if name in headers else value) for name, value in message.headers]
    return replace(message, headers=tuple(changed))


def test_effects_come_once_and_in_order(shop: Shop) -> None:
    shop.pipeline.write(20)
    shop.consume(20)
    assert shop.effects() == numbered(20)
    assert shop.watermark() == 20
    assert shop.metrics.total(EVENTS_TOTAL, consumer=shop.name, outcome="applied", type="OrderPlaced") == 20


def test_a_rolled_back_business_transaction_has_no_effect(shop: Shop) -> None:
    from cdc_outbox import Outbox

    with psycopg.connect(shop.pipeline.dsn) as connection:
        Outbox().add(connection, Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={"no": 1}))
        connection.rollback()
    shop.pipeline.write(2)
    shop.consume(2)
    assert shop.effects() == numbered(2)
    assert all(b'"no"' not in (message.value or b"") for message in shop.pipeline.messages())


def test_a_second_run_goes_on_where_the_first_ended(shop: Shop) -> None:
    shop.pipeline.write(3)
    shop.consume(3)
    shop.pipeline.write(2)
    shop.consume(5)
    assert shop.effects() == numbered(5)


def test_a_duplicate_is_skipped_and_counted(shop: Shop) -> None:
    shop.pipeline.write(3)
    messages = wait_for_topic(shop.pipeline, 3)
    shop.pipeline.produce(*messages)
    shop.pipeline.write(1)
    with shop.running() as consumer:
        eventually(lambda: consumer.outcomes[Outcome.DUPLICATE] == 3, "three duplicates")
        eventually(lambda: len(shop.effects()) == 4, "four effects")
    assert shop.effects() == numbered(4)
    assert shop.metrics.total(EVENTS_TOTAL, outcome="duplicate") == 3


def test_an_event_that_is_not_numbered_is_known_by_its_id_alone(shop: Shop) -> None:
    from cdc_outbox import Outbox

    pipeline = shop.pipeline
    with psycopg.connect(pipeline.dsn) as connection:
        metric = Event(aggregate_type="metric", aggregate_id="cpu", type="OrderPlaced", payload=1)
        Outbox(contract=pipeline.spec.contract).add(connection, metric)
    topic = pipeline.spec.contract.topic_of("metric")
    eventually(lambda: pipeline.stack.broker.messages(topic), "the message")
    pipeline.produce(*pipeline.stack.broker.messages(topic))
    with shop.running() as consumer:
        eventually(lambda: consumer.outcomes[Outcome.DUPLICATE] == 1, "the duplicate")
    assert [aggregate for aggregate, _ in shop.effects()] == ["cpu"]


def test_a_type_without_a_handler_moves_the_watermark_and_is_counted(shop: Shop) -> None:
    shop.pipeline.write(1)
    shop.pipeline.write(2, event_type="NobodyListens")
    shop.pipeline.write(1)
    shop.consume(2)
    assert shop.effects() == [("1", 1), ("1", 4)]
    assert shop.watermark() == 4
    assert shop.metrics.total(EVENTS_TOTAL, outcome="unhandled", type="NobodyListens") == 2


def test_a_withheld_number_is_a_gap_behind_which_nothing_is_applied_and_others_go_on(shop: Shop) -> None:
    pipeline = shop.pipeline
    pipeline.write(1)
    [first] = wait_for_topic(pipeline, 1)
    pipeline.produce(
        with_headers(first, id=str(uuid4()), sequence="3"), with_headers(first, id=str(uuid4()), sequence="4")
    )
    for aggregate_id in "ab":  # the second time after a restart
        pipeline.write(1, aggregate_id)
        with shop.running():
            eventually(lambda: (aggregate_id, 1) in shop.effects(), "another aggregate to go on")  # noqa: B023
            eventually(lambda: parked(shop) == [(3, "gap"), (4, "gap")], "what waits")
        assert shop.watermark() == 1


def test_a_handler_that_swallows_an_sql_error_loses_nothing(shop: Shop) -> None:
    """psycopg's commit() after a failed statement says nothing and commits nothing."""
    consumer = shop.consumer(retry=HASTY)

    @consumer.on("Swallowed")
    def swallow(event: Event, connection: Connection) -> None:
        apply_effect(event, connection)
        with suppress(psycopg.Error):
            connection.execute("select 1 from nowhere")

    shop.pipeline.write(1)
    shop.pipeline.write(1, event_type="Swallowed")
    with shop.running(consumer):
        eventually(lambda: parked(shop) == [(2, "failed")], "what failed")
        shop.pipeline.write(1, "other")
        eventually(lambda: shop.effects() == [*numbered(1), ("other", 1)], "another aggregate to go on")
    assert "the handler of Swallowed order/1 #2" in error_of(shop)
    assert "swallowed an SQL error" in error_of(shop)
    assert shop.watermark() == 1

    mended = shop.consumer()
    mended.on("Swallowed")(apply_effect)
    retry(shop)
    shop.consume(3, mended)
    assert sorted(shop.effects()) == [*numbered(2), ("other", 1)]


def test_a_handler_may_fail_inside_a_savepoint_of_its_own(shop: Shop) -> None:
    consumer = shop.consumer()

    @consumer.on("Tried")
    def attempt(event: Event, connection: Connection) -> None:
        try:
            with connection.transaction():
                connection.execute("select 1 from nowhere")
        except psycopg.Error:
            apply_effect(event, connection)

    shop.pipeline.write(2, event_type="Tried")
    shop.consume(2, consumer)
    assert shop.effects() == numbered(2)


def test_a_failing_handler_has_no_effect_and_its_event_is_kept_with_a_name_and_no_payload(shop: Shop) -> None:
    consumer = shop.consumer(retry=HASTY)

    @consumer.on("Poison")
    def fail(event: Event, connection: Connection) -> None:
        apply_effect(event, connection)
        raise LookupError("hunter2")

    shop.pipeline.write(1)
    shop.pipeline.write(1, event_type="Poison")
    with shop.running(consumer):
        eventually(lambda: parked(shop) == [(2, "failed")], "what failed")
    assert "the handler of Poison order/1 #2" in error_of(shop)
    assert "raised LookupError at test_consumer.py:" in error_of(shop)
    assert "hunter2" not in error_of(shop)
    assert shop.effects() == numbered(1)

    mended = shop.consumer()
    mended.on("Poison")(apply_effect)
    retry(shop)
    shop.consume(2, mended)
    assert shop.effects() == numbered(2)
    assert parked(shop) == []


@pytest.mark.parametrize("statement", ["commit", "rollback", "commit and chain"])
def test_a_handler_that_ends_its_transaction_stops_the_consumer_and_its_event_comes_again(
    shop: Shop, statement: str
) -> None:
    consumer = shop.consumer()

    @consumer.on("Ended")
    def end(_event: Event, connection: Connection) -> None:
        connection.execute(statement.encode())

    shop.pipeline.write(1)
    shop.pipeline.write(1, event_type="Ended")
    for _ in range(2):  # the offset stays, so the next start stops at the same event
        with pytest.raises(TransactionEndedError):
            shop.run_to_its_end(consumer)
        assert shop.effects() == numbered(1)
        assert parked(shop) == []
    mended = shop.consumer()
    mended.on("Ended")(apply_effect)
    shop.consume(2, mended)
    assert shop.effects() == numbered(2)


def test_a_conflict_of_two_transactions_is_tried_again(shop: Shop) -> None:
    tries: list[int | None] = []
    consumer = shop.consumer()

    @consumer.on("Contended")
    def contend(event: Event, connection: Connection) -> None:
        tries.append(event.sequence)
        apply_effect(event, connection)
        if len(tries) < 3:
            connection.execute("do $$ begin raise exception 'deadlock' using errcode = '40P01'; end $$")

    shop.pipeline.write(2, event_type="Contended")
    shop.consume(2, consumer)
    assert tries == [1, 1, 1, 2]
    assert shop.effects() == numbered(2)


def test_a_database_connection_that_is_cut_is_opened_again(shop: Shop) -> None:
    cut: list[int | None] = []
    consumer = shop.consumer()

    @consumer.on("Cut")
    def cut_once(event: Event, connection: Connection) -> None:
        apply_effect(event, connection)
        if not cut:
            cut.append(event.sequence)
            with shop.pipeline.connect() as other:
                other.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))
            connection.execute("select 1")

    shop.pipeline.write(1)
    shop.pipeline.write(2, event_type="Cut")
    shop.consume(3, consumer)
    assert shop.effects() == numbered(3)
    assert cut == [2]


def test_two_consumers_of_one_group_share_the_work_and_two_names_do_not(shop: Shop) -> None:
    pipeline = shop.pipeline
    for aggregate_id in "abcdef":
        pipeline.write(5, aggregate_id)
    with shop.running(), shop.running():
        eventually(lambda: len(shop.effects()) >= 30, "30 effects")
    effects = shop.effects()
    assert sorted(effects) == [(aggregate_id, number) for aggregate_id in "abcdef" for number in range(1, 6)]
    for aggregate_id in "abcdef":
        assert [number for found, number in effects if found == aggregate_id] == [1, 2, 3, 4, 5]
    other = Shop(pipeline)
    other.consume(60)
    assert len(other.effects()) == 60


def test_a_zombie_that_comes_second_is_undone(shop: Shop) -> None:
    """Two transactions handle one event; whoever comes second waits for the claim and then has nothing to do."""
    pipeline = shop.pipeline
    [event] = pipeline.write(1)
    with psycopg.connect(pipeline.dsn) as zombie:
        zombie.execute("insert into inbox (consumer, event_id) values (%s, %s)", (shop.name, event.id or ""))
        with shop.running() as consumer:
            query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = %s"
            with pipeline.connect() as watcher:
                eventually(lambda: one(watcher, query, pipeline.name) == 1, "the consumer to wait for the claim")
            zombie.execute(
                "insert into inbox_watermarks (consumer, source, aggregatetype, aggregateid, last) "
                "values (%s, %s, 'order', '1', 1)",
                (shop.name, event.source),
            )
            zombie.commit()
            eventually(lambda: consumer.outcomes[Outcome.DUPLICATE] == 1, "the second to be told")
    assert shop.effects() == []


def test_offsets_follow_the_effects(shop: Shop) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
    from confluent_kafka.admin import AdminClient

    shop.pipeline.write(7)
    shop.consume(7)
    admin = AdminClient({"bootstrap.servers": shop.pipeline.stack.broker.bootstrap_servers})
    places = [TopicPartition(shop.pipeline.topic, partition) for partition in range(3)]
    [answer] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(shop.name, places)]).values()
    committed = {place.partition: place.offset for place in answer.result().topic_partitions if place.offset > 0}
    assert committed == {wait_for_topic(shop.pipeline, 7)[0].partition: 7}


def test_a_topic_that_does_not_exist_yet_is_waited_for(shop: Shop) -> None:
    with shop.running():
        shop.pipeline.write(2)
        eventually(lambda: len(shop.effects()) == 2, "two effects")


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({"bootstrap_servers": "127.0.0.1:1"}, BrokerUnavailableError, "_TRANSPORT"),
        ({"inbox": InboxTable(name="nowhere")}, TableNotFoundError, r'"public.nowhere\w*" does not exist'),
    ],
)
def test_what_cannot_be_reached_at_the_start_is_named(
    shop: Shop, options: dict[str, Any], error: type[Exception], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_outbox.kafka._REACH_SECONDS", 1.0)
    shop.pipeline.write(1)
    with pytest.raises(error, match=reason):
        shop.run_to_its_end(shop.consumer(**options))


def test_a_database_that_refuses_or_is_not_there_is_named(shop: Shop) -> None:
    dsn = shop.pipeline.dsn
    with pytest.raises(DatabaseAccessError, match="password authentication failed"):
        shop.consumer(connect=lambda: psycopg.connect(dsn, password="wrong")).run()
    with pytest.raises(DatabaseUnavailableError, match="Connection refused"):
        shop.consumer(connect=lambda: psycopg.connect(dsn, port=1)).run()


def test_mistakes_in_the_code_are_named_when_it_is_made(shop: Shop) -> None:
    consumer = shop.consumer()
    with pytest.raises(ConfigError, match="'OrderPlaced' has a handler already"):
        consumer.on("OrderPlaced")(apply_effect)
    with pytest.raises(ConfigError, match="a consumer has a name"):
        shop.consumer(name="")
    with pytest.raises(ConfigError, match="at most 255 bytes"):
        shop.consumer(name="ü" * 128)
    with pytest.raises(ConfigError, match=r"enable.auto.commit cannot be set"):
        shop.consumer(kafka_settings={"enable.auto.commit": True})


def test_stopping_from_a_signal_handler_is_safe(shop: Shop) -> None:
    consumer: Consumer = shop.consumer()
    previous = signal.signal(signal.SIGALRM, lambda _number, _frame: consumer.stop())
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        consumer.run()
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert shop.effects() == []
