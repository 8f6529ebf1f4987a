"""The fault kit on a real database: it finds what is unsafe, and lets pass what is right."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.orm import Session

from cdc_outbox.consumer import AsyncConsumer, Consumer, EffectsDatabase, RecordedEvent, SequenceMode, WireContract
from cdc_outbox.errors import ConfigError
from cdc_outbox.event import Event
from cdc_outbox.testing import FaultReport, HandlerFaults, Stack
from tests.support.rig import Connection
from tests.support.sqlalchemy_clients import make_url

CONTRACT = WireContract(aggregates={"order": SequenceMode.GAPLESS, "customer": SequenceMode.NONE})
HandlerOfOne = Callable[[RecordedEvent, Connection], object]


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> str:
    dsn = outbox_stack.postgres.create_database("handlers")
    with psycopg.connect(dsn) as connection:
        connection.execute("create table totals (customer text primary key, events int not null)")
        connection.execute("create table history (aggregate text, sequence bigint, total int)")
    return dsn


def nowhere() -> Any:
    raise AssertionError("the kit connects as it is told to, and never as the consumer would")


def new_consumer(*, pipeline: bool = False) -> Consumer:
    database = EffectsDatabase(connect=nowhere, pipeline=pipeline)
    return Consumer(name="shipping", contract=CONTRACT, kafka="nowhere", database=database)


def new_event(aggregate_id: str, total: int, aggregate_type: str = "order") -> Event:
    return Event(aggregate_type=aggregate_type, aggregate_id=aggregate_id, type="Placed", payload={"total": total})


EVENTS = [new_event("a", 1), new_event("b", 2, "customer"), new_event("a", 3)]


def reset(connection: Connection) -> None:
    connection.execute("delete from totals; delete from history")


def effects(connection: Connection) -> list[tuple[Any, ...]]:
    totals = connection.execute("select customer, events from totals").fetchall()
    return [*totals, *connection.execute("select aggregate, sequence, total from history").fetchall()]


def run(handler: HandlerOfOne, dsn: str, **options: Any) -> FaultReport:
    consumer = new_consumer()
    consumer.on("Placed")(handler)
    chosen: dict[str, Any] = {
        "events": EVENTS,
        "connect": lambda: psycopg.connect(dsn),
        "effects": effects,
        "reset": reset,
    }
    return HandlerFaults().run(consumer, **(chosen | options))


def count(event: RecordedEvent, connection: Connection) -> None:
    connection.execute(
        "insert into totals values (%s, 1) on conflict (customer) do update set events = totals.events + 1",
        (event.aggregate_id,),
    )


def right(event: RecordedEvent, connection: Connection) -> None:
    count(event, connection)
    row = (event.aggregate_id, event.sequence, event.payload["total"])
    connection.execute("insert into history values (%s, %s, %s)", row)


def test_a_right_handler_is_safe(dsn: str, handler_faults: HandlerFaults) -> None:
    consumer = new_consumer()
    consumer.on("Placed")(right)
    report = handler_faults.run(
        consumer, events=EVENTS, connect=lambda: psycopg.connect(dsn), effects=effects, reset=reset
    )
    report.raise_for_problems()
    assert report.skipped == []
    assert report.repetitions == []
    for said in ("every event twice", "crash after the handler", "deadlock at the handler's statement 2", "another"):
        assert any(said in scenario for scenario in report.scenarios), said


def problem(handler: HandlerOfOne, dsn: str, **options: Any) -> str:
    """Return what is found, all of it as its reader sees it."""
    report = run(handler, dsn, **options)
    with pytest.raises(AssertionError, match="are not safe") as caught:
        report.raise_for_problems()
    return str(caught.value)


def test_a_connection_of_the_handlers_own_is_found_before_the_commit(dsn: str) -> None:
    def handler(event: RecordedEvent, connection: Connection) -> None:
        count(event, connection)
        with psycopg.connect(dsn, autocommit=True) as own:
            own.execute("insert into history values (%s, %s, 0)", (event.aggregate_id, event.sequence))

    found = problem(handler, dsn)
    assert "are visible before the commit: 1 are surplus: ('a', 1, 0)" in found
    assert "Write only through the connection that the handler gets" in found


def test_an_error_that_the_handler_swallows_is_found_though_none_occurs_by_itself(dsn: str) -> None:
    def handler(event: RecordedEvent, connection: Connection) -> None:
        with suppress(psycopg.Error):
            right(event, connection)

    found = problem(handler, dsn)
    assert "a deadlock at the handler's statement 1: the handler of" in found
    assert "swallowed an SQL error" in found


def test_an_error_that_is_swallowed_behind_a_savepoint_is_found_by_its_missing_effects(dsn: str) -> None:
    def handler(event: RecordedEvent, connection: Connection) -> None:
        count(event, connection)
        try:
            with connection.transaction():
                connection.execute("insert into history values (%s, %s, 0)", (event.aggregate_id, event.sequence))
        except psycopg.Error:
            pass

    assert "a deadlock at the handler's statement 2: the effects differ: 3 are missing" in problem(handler, dsn)


def test_a_list_that_knows_no_rollback_is_found_as_an_effect_and_noted_as_a_call(dsn: str) -> None:
    sent: list[str] = []

    def handler(event: RecordedEvent, connection: Connection) -> None:
        right(event, connection)
        sent.append(event.aggregate_id)

    def forget(connection: Connection) -> None:
        reset(connection)
        sent.clear()

    found = problem(handler, dsn, effects=lambda _: list(sent), reset=forget)
    assert "are visible before the commit" in found

    report = run(handler, dsn, calls={"mails": lambda: len(sent)})
    report.raise_for_problems()
    [times] = {one.times for one in report.repetitions if one.scenario == "a crash after the handler"}
    assert times == len(EVENTS)
    assert not [one for one in report.repetitions if one.scenario.startswith(("every event twice", "all events"))]
    [times] = {one.times for one in report.repetitions if one.scenario.startswith("another consumer")}
    assert times == 1
    assert "note: mails happen again: 3 more times" in str(report)


def test_a_variable_that_outlives_a_rollback_is_found(dsn: str) -> None:
    seen: set[str | None] = set()

    def handler(event: RecordedEvent, connection: Connection) -> None:
        if event.id not in seen:
            seen.add(event.id)
            right(event, connection)

    def forget(connection: Connection) -> None:
        reset(connection)
        seen.clear()

    assert "the same once more: the effects differ: 5 are missing" in problem(handler, dsn)
    assert "a crash after the handler: the effects differ: 5 are missing" in problem(handler, dsn, reset=forget)


def test_what_relies_on_the_order_across_aggregates_is_found(dsn: str) -> None:
    def handler(event: RecordedEvent, connection: Connection) -> None:
        [(so_far,)] = connection.execute("select count(*) from history").fetchall()
        connection.execute("insert into history values (%s, %s, %s)", (event.aggregate_id, event.sequence, so_far))

    found = problem(handler, dsn)
    assert "the last aggregate first: the effects differ" in found
    assert "Events are in order only within one aggregate" in found


def test_what_raises_until_the_other_aggregate_is_there_is_right(dsn: str) -> None:
    def handler(event: RecordedEvent, connection: Connection) -> None:
        if event.aggregate_id == "b" and not connection.execute("select from totals where customer = 'a'").fetchall():
            raise LookupError("a is not there yet")
        right(event, connection)

    run(handler, dsn).raise_for_problems()


def test_what_cannot_be_applied_alone_is_told_with_its_reason(dsn: str) -> None:
    def handler(event: RecordedEvent, connection: Connection) -> None:
        right(event, connection)
        raise LookupError("no such customer")

    found = problem(handler, dsn)
    assert "without a fault: some events are not applied" in found
    assert "raised LookupError at test_handler_faults.py:" in found
    assert "(no such customer)" in found


def test_what_ends_its_transaction_is_found(dsn: str) -> None:
    def handler(event: RecordedEvent, connection: Connection) -> None:
        right(event, connection)
        connection.execute("commit")

    assert "ended its transaction" in problem(handler, dsn)


def test_a_batch_of_which_only_the_last_event_counts_is_found(dsn: str) -> None:
    consumer = new_consumer()

    @consumer.on_batch("Placed")
    def handler(events: list[RecordedEvent], connection: Connection) -> None:
        right(events[-1], connection)

    report = HandlerFaults().run(
        consumer, events=EVENTS, connect=lambda: psycopg.connect(dsn), effects=effects, reset=reset
    )
    assert [problem.scenario for problem in report.problems[:1]] == ["all events in one transaction"]


def test_what_has_no_effects_that_anybody_sees_is_no_proof(dsn: str) -> None:
    assert "there is nothing to compare" in problem(lambda _event, _connection: None, dsn)


def test_times_that_differ_by_themselves_are_told_apart_from_faults(dsn: str) -> None:
    def handler(event: RecordedEvent, connection: Connection) -> None:
        connection.execute(
            "insert into history values (%s, 1, extract(microseconds from now()))", (event.aggregate_id,)
        )

    report = run(handler, dsn)
    assert [problem.scenario for problem in report.problems] == ["the same once more"]


def test_batches_in_pipeline_mode_are_tried_as_they_run(dsn: str) -> None:
    consumer = new_consumer(pipeline=True)

    @consumer.on_batch("Placed")
    def handler(events: list[RecordedEvent], connection: Connection) -> None:
        rows = [(event.aggregate_id, event.sequence, event.payload["total"]) for event in events]
        connection.cursor().executemany("insert into history values (%s, %s, %s)", rows)

    report = HandlerFaults().run(
        consumer, events=EVENTS, connect=lambda: psycopg.connect(dsn), effects=effects, reset=reset
    )
    report.raise_for_problems()
    assert "the connection breaks at the handler's statement 1" in report.scenarios


def test_an_asynchronous_consumer_is_tried_in_a_loop_of_its_own(dsn: str) -> None:
    async def connect() -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(dsn)

    consumer = AsyncConsumer(name="shipping", contract=CONTRACT, kafka="nowhere", database=nowhere)
    swallows = False

    @consumer.on("Placed")
    async def handler(event: RecordedEvent, connection: psycopg.AsyncConnection[Any]) -> None:
        row = (event.aggregate_id, event.sequence, event.payload["total"])
        try:
            await connection.execute("insert into history values (%s, %s, %s)", row)
        except psycopg.Error:
            if not swallows:
                raise

    async def see(connection: psycopg.AsyncConnection[Any]) -> list[Any]:
        return await (await connection.execute("select * from history")).fetchall()

    async def forget(connection: psycopg.AsyncConnection[Any]) -> None:
        await connection.execute("delete from history")

    faults = HandlerFaults()
    report = faults.run(consumer, events=EVENTS, connect=connect, effects=see, reset=forget)
    report.raise_for_problems()
    assert "another consumer takes the partition before the commit" in report.scenarios
    swallows = True
    assert "swallowed" in str(faults.run(consumer, events=EVENTS, connect=connect, effects=see, reset=forget))


def test_connections_of_other_drivers_are_tried_but_for_their_statements(dsn: str) -> None:
    consumer = new_consumer()
    engine = create_engine(make_url(dsn, "psycopg2"), poolclass=NullPool)

    @consumer.on("Placed")
    def handler(event: RecordedEvent, session: Session) -> None:
        row = {"aggregate": event.aggregate_id, "sequence": event.sequence}
        session.execute(text("insert into history values (:aggregate, :sequence, 0)"), row)

    report = HandlerFaults().run(
        consumer,
        events=EVENTS,
        connect=lambda: Session(engine),
        effects=lambda session: session.execute(text("select * from history")).all(),
        reset=lambda session: session.execute(text("delete from history")),
    )
    report.raise_for_problems()
    assert not [scenario for scenario in report.scenarios if "statement" in scenario]
    assert "note: not tried: faults within a handler" in str(report)


def test_a_connection_that_is_always_the_same_shows_nothing_and_is_refused(dsn: str) -> None:
    with psycopg.connect(dsn) as connection, pytest.raises(ConfigError, match="the same connection twice"):
        run(right, dsn, connect=lambda: connection)


def test_nothing_is_left_behind_but_what_the_handlers_did_last(dsn: str) -> None:
    threads = threading.active_count()
    run(right, dsn)
    with psycopg.connect(dsn) as connection:
        found = connection.execute("select count(*) from pg_tables where tablename like 'inbox%'").fetchall()
        sessions = "select count(*) from pg_stat_activity where datname = current_database()"
        assert connection.execute(sessions).fetchall() == [(1,)]
    assert found == [(0,)]
    assert threading.active_count() == threads
