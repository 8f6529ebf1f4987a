"""The consumer against the real broker and database: effects once, in order, and nothing skipped in silence."""

import gc
import signal
from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox import Event, RecordedEvent
from cdc_outbox.consumer import Consumer, Outcome
from cdc_outbox.errors import (
    TransactionEndedError,
)
from cdc_outbox.message import Message
from tests.support.pipeline import Pipeline
from tests.support.rig import Connection, eventually, one
from tests.support.service import HASTY, Service, apply_effect, effects_of

EVENTS_TOTAL = "cdc_outbox_consumer_events_total"


@pytest.fixture
def service(pipeline: Pipeline) -> Service:
    """A consuming service whose events the test sends; no connector has to start."""
    pipeline.create_topics()
    return Service(pipeline)


@pytest.fixture
def connected(deployed: Pipeline) -> Service:
    """One behind a connector."""
    return Service(deployed)


def wait_for_topic(pipeline: Pipeline, count: int) -> list[Message]:
    eventually(lambda: len(pipeline.messages()) >= count, f"{count} messages")
    return pipeline.messages()


def reasons(service: Service) -> list[tuple[int | None, str]]:
    """Return sequence number and reason of each parked event."""
    return [(sequence, reason) for sequence, _, reason in service.parked()]


def error_of(service: Service) -> str:
    return str(service.one("select error from inbox_parked"))


def retry(service: Service) -> None:
    """Decide that what is parked is applied."""
    with service.connect() as connection:
        connection.execute("update inbox_parked set state = 'waiting', forced = true, retry_at = clock_timestamp()")


def with_headers(message: Message, **headers: str) -> Message:
    changed = [(name, headers[name].encode() if name in headers else value) for name, value in message.headers]
    return replace(message, headers=tuple(changed))


def test_effects_come_once_and_in_order(connected: Service) -> None:
    connected.pipeline.write(20)
    connected.consume(20)
    assert connected.effects() == effects_of(20)
    assert connected.watermark() == 20
    assert connected.metrics.total(EVENTS_TOTAL, consumer=connected.name, outcome="applied", type="OrderPlaced") == 20


def test_a_rolled_back_business_transaction_has_no_effect(connected: Service) -> None:
    from cdc_outbox import Outbox

    with psycopg.connect(connected.dsn) as connection:
        Outbox().add(connection, Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={"no": 1}))
        connection.rollback()
    connected.pipeline.write(2)
    connected.consume(2)
    assert connected.effects() == effects_of(2)
    assert all(b'"no"' not in (message.value or b"") for message in connected.pipeline.messages())


def test_a_second_run_goes_on_where_the_first_ended(service: Service) -> None:
    service.pipeline.write_and_send(3)
    service.consume(3)
    service.pipeline.write_and_send(2)
    service.pipeline.write_and_send(1, "2", "OrderViewed")
    options = "-c search_path=mine,public -c row_security=off"
    consumer = service.consumer(connect=lambda: psycopg.connect(service.dsn, options=options))
    seen: list[str] = []
    threshold, *_ = gc.get_threshold()

    @consumer.on("OrderViewed")
    def look(_event: RecordedEvent, connection: Connection) -> None:
        shown = "select current_setting('search_path') || ' ' || current_setting('row_security')"
        seen.append(f"{one(connection, shown)} {gc.get_threshold()[0]}")

    with service.running(consumer):
        eventually(lambda: len(service.effects()) == 5 and seen, "two effects more")
    assert service.effects() == effects_of(5)
    assert seen == ["mine,public off 100000"]  # the handler's session is its own; garbage is collected seldom
    assert gc.get_threshold()[0] == threshold


def test_a_duplicate_is_skipped_and_counted(service: Service) -> None:
    service.pipeline.write_and_send(3)
    messages = wait_for_topic(service.pipeline, 3)
    service.send(*messages)
    service.pipeline.write_and_send(1)
    with service.running() as consumer:
        eventually(lambda: consumer.outcomes[Outcome.DUPLICATE] == 3, "three duplicates")
        eventually(lambda: len(service.effects()) == 4, "four effects")
    assert service.effects() == effects_of(4)
    assert service.metrics.total(EVENTS_TOTAL, outcome="duplicate") == 3


def test_an_event_that_is_not_numbered_is_known_by_its_id_alone(connected: Service) -> None:
    from cdc_outbox import Outbox

    pipeline = connected.pipeline
    with psycopg.connect(pipeline.dsn) as connection:
        metric = Event(aggregate_type="metric", aggregate_id="cpu", type="OrderPlaced", payload=1)
        Outbox(spec=pipeline.spec).add(connection, metric)
    topic = pipeline.spec.contract.topic_of("metric")
    eventually(lambda: pipeline.stack.broker.messages(topic), "the message")
    pipeline.send(*pipeline.stack.broker.messages(topic))
    with connected.running() as consumer:
        eventually(lambda: consumer.outcomes[Outcome.DUPLICATE] == 1, "the duplicate")
    assert [aggregate for aggregate, _ in connected.effects()] == ["cpu"]


def test_a_type_without_a_handler_moves_the_watermark_and_is_counted(service: Service) -> None:
    service.pipeline.write_and_send(1)
    service.pipeline.write_and_send(2, event_type="NobodyListens")
    service.pipeline.write_and_send(1)
    service.consume(2)
    assert service.effects() == [("1", 1), ("1", 4)]
    assert service.watermark() == 4
    assert service.metrics.total(EVENTS_TOTAL, outcome="unhandled", type="NobodyListens") == 2


def test_a_consumer_uses_up_no_event_before_the_topics_hold_one_with_a_handler(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.pipeline.write_and_send(2, event_type="OrderPlacd")
    consumer = service.consumer()
    with service.running(consumer):
        eventually(
            lambda: any("Did you mean 'OrderPlacd'?" in vars(each).get("reason", "") for each in caplog.records),
            "the nearest event type",
        )
        assert consumer.outcomes == {}
        service.pipeline.write_and_send(1)
        eventually(lambda: service.effects() == [("1", 3)], "the event with a handler")
        outcomes = {Outcome.UNHANDLED: 2, Outcome.APPLIED: 1}
        eventually(lambda: consumer.outcomes == outcomes, "all of them to be counted")
    assert service.one("select count(*) from inbox") == 3


def test_a_withheld_number_is_a_gap_behind_which_nothing_is_applied_and_others_go_on(service: Service) -> None:
    pipeline = service.pipeline
    pipeline.write_and_send(1)
    [first] = wait_for_topic(pipeline, 1)
    pipeline.send(
        with_headers(first, id=str(uuid4()), sequence="3"), with_headers(first, id=str(uuid4()), sequence="4")
    )
    for aggregate_id in "ab":  # the second time after a restart
        pipeline.write_and_send(1, aggregate_id)
        with service.running():
            eventually(lambda: (aggregate_id, 1) in service.effects(), "another aggregate to go on")  # noqa: B023
            eventually(lambda: reasons(service) == [(3, "gap"), (4, "gap")], "what waits")
        assert service.watermark() == 1


def test_a_handler_that_swallows_an_sql_error_loses_nothing(service: Service) -> None:
    """psycopg's commit() after a failed statement says nothing and commits nothing."""
    consumer = service.consumer(retry=HASTY)

    @consumer.on("Swallowed")
    def swallow(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        with suppress(psycopg.Error):
            connection.execute("select 1 from nowhere")

    service.pipeline.write_and_send(1)
    service.pipeline.write_and_send(1, event_type="Swallowed")
    with service.running(consumer):
        eventually(lambda: reasons(service) == [(2, "failed")], "what failed")
        service.pipeline.write_and_send(1, "other")
        eventually(lambda: service.effects() == [*effects_of(1), ("other", 1)], "another aggregate to go on")
    assert "the handler of Swallowed order/1 #2" in error_of(service)
    assert "swallowed an SQL error" in error_of(service)
    assert service.watermark() == 1

    fixed = service.consumer()
    fixed.on("Swallowed")(apply_effect)
    retry(service)
    service.consume(3, fixed)
    assert sorted(service.effects()) == [*effects_of(2), ("other", 1)]


def test_a_handler_may_fail_inside_a_savepoint_of_its_own(service: Service) -> None:
    consumer = service.consumer()

    @consumer.on("Tried")
    def attempt(event: RecordedEvent, connection: Connection) -> None:
        try:
            with connection.transaction():
                connection.execute("select 1 from nowhere")
        except psycopg.Error:
            apply_effect(event, connection)

    service.pipeline.write_and_send(2, event_type="Tried")
    service.consume(2, consumer)
    assert service.effects() == effects_of(2)


def test_a_failing_handler_has_no_effect_and_its_event_is_kept_with_a_name_and_no_payload(service: Service) -> None:
    consumer = service.consumer(retry=replace(HASTY, error_texts=False))

    @consumer.on("Poison")
    def fail(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        raise LookupError("hunter2")

    service.pipeline.write_and_send(1)
    service.pipeline.write_and_send(1, event_type="Poison")
    with service.running(consumer):
        eventually(lambda: reasons(service) == [(2, "failed")], "what failed")
    assert "the handler of Poison order/1 #2" in error_of(service)
    assert "raised LookupError at test_consumer.py:" in error_of(service)
    assert "hunter2" not in error_of(service)
    assert service.effects() == effects_of(1)

    fixed = service.consumer()
    fixed.on("Poison")(apply_effect)
    retry(service)
    service.consume(2, fixed)
    assert service.effects() == effects_of(2)
    assert reasons(service) == []


@pytest.mark.parametrize("statement", ["commit", "rollback", "commit and chain"])
def test_a_handler_that_ends_its_transaction_stops_the_consumer_and_its_event_comes_again(
    service: Service, statement: str
) -> None:
    consumer = service.consumer()

    @consumer.on("Ended")
    def end(_event: RecordedEvent, connection: Connection) -> None:
        connection.execute(statement.encode())

    service.pipeline.write_and_send(1)
    service.pipeline.write_and_send(1, event_type="Ended")
    for _ in range(2):  # the offset stays, so the next start stops at the same event
        with pytest.raises(TransactionEndedError):
            service.run_to_its_end(consumer)
        assert service.effects() == effects_of(1)
        assert reasons(service) == []
    fixed = service.consumer()
    fixed.on("Ended")(apply_effect)
    service.consume(2, fixed)
    assert service.effects() == effects_of(2)


def test_a_conflict_of_two_transactions_is_tried_again(service: Service) -> None:
    tries: list[int | None] = []
    consumer = service.consumer()

    @consumer.on("Contended")
    def contend(event: RecordedEvent, connection: Connection) -> None:
        tries.append(event.sequence)
        apply_effect(event, connection)
        if len(tries) < 3:
            connection.execute("do $$ begin raise exception 'deadlock' using errcode = '40P01'; end $$")

    service.pipeline.write_and_send(2, event_type="Contended")
    service.consume(2, consumer)
    assert tries == [1, 1, 1, 2]
    assert service.effects() == effects_of(2)


def test_a_database_connection_that_is_cut_is_opened_again(service: Service) -> None:
    cut: list[int | None] = []
    consumer = service.consumer()

    @consumer.on("Cut")
    def cut_once(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        if not cut:
            cut.append(event.sequence)
            with service.connect() as other:
                other.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))
            connection.execute("select 1")

    service.pipeline.write_and_send(1)
    service.pipeline.write_and_send(2, event_type="Cut")
    service.consume(3, consumer)
    assert service.effects() == effects_of(3)
    assert cut == [2]


def test_two_consumers_of_one_group_share_the_work_and_two_names_do_not(service: Service) -> None:
    pipeline = service.pipeline
    for aggregate_id in "abcdef":
        pipeline.write_and_send(5, aggregate_id)
    with service.running(), service.running():
        eventually(lambda: len(service.effects()) >= 30, "30 effects")
    effects = service.effects()
    assert sorted(effects) == [(aggregate_id, number) for aggregate_id in "abcdef" for number in range(1, 6)]
    for aggregate_id in "abcdef":
        assert [number for found, number in effects if found == aggregate_id] == [1, 2, 3, 4, 5]
    other = Service(pipeline)
    other.consume(60)
    assert len(other.effects()) == 60


def test_a_zombie_that_comes_second_is_undone(service: Service) -> None:
    """Two transactions handle one event; whoever comes second waits for the claim and then has nothing to do."""
    pipeline = service.pipeline
    [event] = pipeline.write_and_send(1)
    with psycopg.connect(pipeline.dsn) as zombie:
        zombie.execute("insert into inbox (consumer, event_id) values (%s, %s)", (service.name, event.id))
        with service.running() as consumer:
            query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = %s"
            with pipeline.connect() as watcher:
                eventually(lambda: one(watcher, query, pipeline.name) == 1, "the consumer to wait for the claim")
            zombie.execute(
                "insert into inbox_watermarks (consumer, source, aggregatetype, aggregateid, last) "
                "values (%s, %s, 'order', '1', 1)",
                (service.name, event.source),
            )
            zombie.commit()
            eventually(lambda: consumer.outcomes[Outcome.DUPLICATE] == 1, "the second to be told")
    assert service.effects() == []


def test_offsets_follow_the_effects(service: Service) -> None:
    service.pipeline.write_and_send(7)
    service.consume(7)
    assert service.committed_offsets() == {wait_for_topic(service.pipeline, 7)[0].partition: 7}


def test_stopping_from_a_signal_handler_is_safe(service: Service) -> None:
    consumer: Consumer = service.consumer()
    previous = signal.signal(signal.SIGALRM, lambda _number, _frame: consumer.stop())
    try:
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        consumer.run()
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert service.effects() == []
