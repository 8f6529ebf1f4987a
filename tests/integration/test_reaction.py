"""A consumer that produces: what its handlers add is written with their effects, told what caused it, or not at all."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any, TypeVar
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox import AsyncOutbox, Event, EventError, Outbox, RecordedEvent
from cdc_outbox.consumer import AsyncConsumer, Consumer, EffectsDatabase, InboxTable, Outcome, inbox_component
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import HandlerError
from cdc_outbox.testing import Stack
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.support.events import make_event
from tests.support.reactions import CAUSES, CONTRACT, deliver
from tests.support.rig import Connection, run_upgrade, sent_statements
from tests.support.service import apply_effect

ResultT = TypeVar("ResultT")
TABLE = OutboxTable(headers={header: header for header in CAUSES})


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> str:
    dsn = outbox_stack.postgres.create_database("reactions")
    with psycopg.connect(dsn) as connection:
        run_upgrade(connection, inbox_component(InboxTable()))
        run_upgrade(connection, outbox_component(TABLE, first_source="shop.1"))
        connection.execute("create table effects (aggregate text, sequence bigint, event_id text)")
    return dsn


@pytest.fixture
def own(dsn: str) -> Iterator[Connection]:
    """Somebody else's connection, and tables without rows."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("truncate outbox, outbox_heads, effects")
        yield connection


@pytest.fixture
def outbox() -> Outbox:
    return Outbox(table=TABLE, contract=CONTRACT)


def reaction(aggregate_id: str, **attributes: Any) -> Event:
    return Event(aggregate_type="order", aggregate_id=aggregate_id, type="Answered", payload={}, **attributes)


def new_consumer(dsn: str, outbox: Outbox, *, pipeline: bool = False) -> Consumer:
    database = EffectsDatabase(connect=lambda: psycopg.connect(dsn), pipeline=pipeline, before_commit=outbox)
    return Consumer(name=uuid4().hex, contract=CONTRACT, kafka="nowhere", database=database)


def written(own: Connection) -> list[tuple[Any, ...]]:
    return own.execute("select aggregateid, sequence, type from outbox order by aggregateid, sequence").fetchall()


def causes(own: Connection) -> dict[str, tuple[str | None, str | None]]:
    rows = own.execute("select aggregateid, causation_id, correlation_id from outbox").fetchall()
    return {aggregate_id: (cause, correlation) for aggregate_id, cause, correlation in rows}


def test_what_a_batchs_handlers_add_is_written_at_its_end_in_one_statement_and_one_order(
    dsn: str, own: Connection, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = new_consumer(dsn, outbox)
    added: list[RecordedEvent] = []

    @consumer.on("OrderPlaced")
    def answer(event: RecordedEvent, connection: Connection) -> None:
        added.extend(outbox.add_all(connection, [reaction(event.aggregate_id), reaction("all")]))
        apply_effect(event, connection)

    statements = sent_statements(monkeypatch)
    assert deliver(consumer, make_event(1, "b"), make_event(1, "a")) == [Outcome.APPLIED] * 2
    told = [text for text in map(str, statements) if '"outbox"' in text or "into effects" in text]
    assert ['"outbox"' in text for text in told] == [False, False, True]
    assert written(own) == [("a", 1, "Answered"), ("all", 1, "Answered"), ("all", 2, "Answered"), ("b", 1, "Answered")]
    assert [event.sequence for event in added] == [None] * 4
    ids = own.execute("select id::text from outbox").fetchall()
    assert {event.id for event in added} == {event_id for (event_id,) in ids}


def test_a_batch_that_fails_writes_nothing_and_each_event_once_when_it_comes_again(
    dsn: str, own: Connection, outbox: Outbox
) -> None:
    consumer = new_consumer(dsn, outbox)
    fails = True

    @consumer.on("OrderPlaced")
    def answer(event: RecordedEvent, connection: Connection) -> None:
        outbox.add(connection, reaction(event.aggregate_id))
        if fails and event.aggregate_id == "b":
            raise LookupError

    batch = [make_event(1, "a"), make_event(1, "b")]
    with pytest.raises(HandlerError):
        deliver(consumer, *batch)
    assert written(own) == []
    deliver(consumer, batch[0])
    fails = False
    deliver(consumer, batch[1])
    assert deliver(consumer, *batch) == [Outcome.DUPLICATE] * 2
    assert written(own) == [("a", 1, "Answered"), ("b", 1, "Answered")]


def test_a_chain_of_consumers_keeps_its_first_event_and_names_each_cause(
    dsn: str, own: Connection, outbox: Outbox
) -> None:
    first = make_event(1, "first")

    def answering(aggregate_id: str) -> Consumer:
        consumer = new_consumer(dsn, outbox)

        @consumer.on("OrderPlaced", "Answered")
        def answer(_event: RecordedEvent, connection: Connection) -> None:
            outbox.add(connection, reaction(aggregate_id))

        return consumer

    deliver(answering("second"), first)
    [second] = read(own)
    deliver(answering("third"), second)
    third = next(event for event in read(own) if event.aggregate_id == "third")
    assert second.headers == {"causation_id": first.id, "correlation_id": first.id}
    assert third.headers == {"causation_id": second.id, "correlation_id": first.id}


def read(own: Connection) -> list[RecordedEvent]:
    """Return the outbox's events as they come out of Kafka."""
    query = "select aggregateid, type, id::text, sequence, source, created_at, causation_id, correlation_id from outbox"
    return [
        CONTRACT.event_of(
            CONTRACT.message_of(
                RecordedEvent(
                    aggregate_type="order",
                    aggregate_id=aggregate_id,
                    type=event_type,
                    payload={},
                    id=event_id,
                    created_at=created_at.replace(tzinfo=UTC),
                    sequence=sequence,
                    source=source,
                    headers=dict(zip(CAUSES, headers, strict=True)),
                )
            )
        )
        for aggregate_id, event_type, event_id, sequence, source, created_at, *headers in own.execute(query)
    ]


def test_what_an_event_says_of_its_cause_itself_stays(dsn: str, own: Connection, outbox: Outbox) -> None:
    consumer = new_consumer(dsn, outbox)

    @consumer.on("OrderPlaced")
    def answer(_event: RecordedEvent, connection: Connection) -> None:
        outbox.add(connection, reaction("own", headers={"correlation_id": "mine"}))

    cause = make_event(1)
    deliver(consumer, cause)
    assert causes(own) == {"own": (cause.id, "mine")}


def test_where_the_outbox_has_no_such_columns_nothing_is_told(dsn: str, own: Connection) -> None:
    outbox = Outbox(table=OutboxTable(headers={}))
    consumer = new_consumer(dsn, outbox)

    @consumer.on("OrderPlaced")
    def answer(_event: RecordedEvent, connection: Connection) -> None:
        outbox.add(connection, reaction("plain"))

    deliver(consumer, make_event(1))
    assert causes(own) == {"plain": (None, None)}


@pytest.mark.parametrize("pipeline", [False, True])
def test_a_handler_of_batches_is_caused_by_the_last_of_them(
    dsn: str, own: Connection, outbox: Outbox, *, pipeline: bool
) -> None:
    consumer = new_consumer(dsn, outbox, pipeline=pipeline)

    @consumer.on_batch("OrderPlaced")
    def answer(events: Sequence[RecordedEvent], connection: Connection) -> None:
        rows = [(event.aggregate_id, event.sequence, event.id) for event in events]
        connection.cursor().executemany("insert into effects values (%s, %s, %s)", rows)
        with outbox.collect(connection) as collected:
            collected.add(reaction("all"))
        assert [event.sequence for event in collected.written] == [None]

    batch = [make_event(1, "a"), make_event(1, "b")]
    deliver(consumer, *batch)
    assert causes(own) == {"all": (batch[-1].id, batch[-1].id)}
    assert own.execute("select count(*) from effects").fetchall() == [(2,)]


def test_each_event_is_caused_by_the_one_whose_handler_added_it_in_pipeline_mode_too(
    dsn: str, own: Connection, outbox: Outbox
) -> None:
    consumer = new_consumer(dsn, outbox, pipeline=True)

    @consumer.on("OrderPlaced")
    def answer(event: RecordedEvent, connection: Connection) -> None:
        apply_effect(event, connection)
        outbox.add(connection, reaction(event.aggregate_id))

    batch = [make_event(1, "a"), make_event(1, "b")]
    deliver(consumer, *batch)
    assert causes(own) == {event.aggregate_id: (event.id, event.id) for event in batch}


def test_a_cursor_leads_to_the_same_transaction_and_another_connection_does_not(
    dsn: str, own: Connection, outbox: Outbox
) -> None:
    consumer = new_consumer(dsn, outbox)
    numbers: list[int | None] = []

    @consumer.on("OrderPlaced")
    def answer(_event: RecordedEvent, connection: Connection) -> None:
        numbers.append(outbox.add(connection.cursor(), reaction("cursor")).sequence)
        with own.transaction():
            numbers.append(outbox.add(own, reaction("other")).sequence)

    deliver(consumer, cause := make_event(1))
    assert numbers == [None, 1]
    assert causes(own) == {"cursor": (cause.id, cause.id), "other": (None, None)}


@pytest.mark.parametrize(
    "wrong",
    [
        replace(reaction("1"), payload={"total": float("nan")}),
        replace(reaction("1"), sequence=4),
        replace(reaction("1"), aggregate_type="unknown"),
        replace(reaction("1"), headers={"no-such": "column"}),
    ],
    ids=["payload", "sequence", "aggregate type", "header"],
)
def test_what_cannot_be_written_is_refused_in_the_handler_that_adds_it(
    dsn: str, own: Connection, outbox: Outbox, wrong: Event
) -> None:
    consumer = new_consumer(dsn, outbox)
    refused: list[str] = []

    @consumer.on("OrderPlaced")
    def answer(event: RecordedEvent, connection: Connection) -> None:
        outbox.add(connection, reaction("right"))
        if event.aggregate_id == "bad":
            with pytest.raises(EventError):
                outbox.add(connection, wrong)
            refused.append(event.aggregate_id)

    deliver(consumer, make_event(1, "good"), make_event(1, "bad"))
    assert refused == ["bad"]
    assert written(own) == [("right", 1, "Answered"), ("right", 2, "Answered")]


def test_a_number_that_is_too_low_is_the_events_own_failure_and_stops_no_consumer(
    dsn: str, own: Connection, outbox: Outbox
) -> None:
    consumer = new_consumer(dsn, outbox)
    with own.transaction():
        outbox.add(own, replace(reaction("1"), aggregate_type="price", sequence=7))

    @consumer.on("OrderPlaced")
    def answer(_event: RecordedEvent, connection: Connection) -> None:
        outbox.add(connection, replace(reaction("1"), aggregate_type="price", sequence=7))

    event = make_event(1)
    with pytest.raises(HandlerError, match=rf"{event.id}\) cannot be written"):
        deliver(consumer, event)


def test_the_payload_is_that_of_the_moment_in_which_it_was_added(dsn: str, own: Connection, outbox: Outbox) -> None:
    consumer = new_consumer(dsn, outbox)

    @consumer.on("OrderPlaced")
    def answer(_event: RecordedEvent, connection: Connection) -> None:
        payload = {"total": 1}
        outbox.add(connection, replace(reaction("1"), payload=payload))
        payload["total"] = 2

    deliver(consumer, make_event(1))
    assert own.execute("select payload from outbox").fetchall() == [({"total": 1},)]


def test_the_policy_is_asked_once_for_each_event(dsn: str, own: Connection) -> None:
    asked: list[str] = []

    def policy(event: Event) -> bool:
        asked.append(event.aggregate_id)
        return event.aggregate_id != "declined"

    outbox = Outbox(table=TABLE, contract=CONTRACT, policy=policy)
    consumer = new_consumer(dsn, outbox)

    @consumer.on("OrderPlaced")
    def answer(_event: RecordedEvent, connection: Connection) -> None:
        declined, wanted = outbox.add_all(connection, [reaction("declined"), reaction("wanted")])
        assert [event.is_written for event in (declined, wanted)] == [False, False]
        assert declined.id != wanted.id

    deliver(consumer, make_event(1))
    assert asked == ["declined", "wanted"]
    assert written(own) == [("wanted", 1, "Answered")]


def test_asynchronous_handlers_add_to_an_asynchronous_outbox(dsn: str, own: Connection) -> None:
    outbox = AsyncOutbox(table=TABLE, contract=CONTRACT)

    async def connect() -> psycopg.AsyncConnection[Any]:
        return await psycopg.AsyncConnection.connect(dsn)

    consumer = AsyncConsumer(
        name=uuid4().hex,
        contract=CONTRACT,
        kafka="nowhere",
        database=EffectsDatabase(connect=connect, before_commit=outbox),
    )

    @consumer.on("OrderPlaced")
    async def answer(event: RecordedEvent, connection: psycopg.AsyncConnection[Any]) -> None:
        await asyncio.gather(*(outbox.add(connection, reaction(f"{event.aggregate_id}{one}")) for one in "xy"))
        async with outbox.collect(connection) as collected:
            collected.add(reaction(f"{event.aggregate_id}z"))
        if event.aggregate_id == "bad":
            raise LookupError

    batch = [make_event(1, "a"), make_event(1, "b")]
    assert deliver(consumer, *batch, runs=asyncio.run) == [Outcome.APPLIED] * 2
    wanted = {f"{event.aggregate_id}{one}": (event.id, event.id) for event in batch for one in "xyz"}
    assert causes(own) == wanted
    with pytest.raises(HandlerError):
        deliver(consumer, make_event(1, "c"), make_event(1, "bad"), runs=asyncio.run)
    assert causes(own) == wanted
