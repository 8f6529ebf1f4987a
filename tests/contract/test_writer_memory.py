"""The outboxes in memory under the writer's contract, and what only they do."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from unittest.mock import Mock

import pytest

from cdc_outbox import (
    AsyncOutbox,
    Event,
    EventError,
    EventFormat,
    EventSchemas,
    NotInTransactionError,
    Outbox,
    OutboxColumns,
    OutboxError,
    OutboxMode,
    OutboxTable,
    PayloadType,
    RecordedEvent,
    StaleSequenceError,
)
from cdc_outbox.contract.outbox_options import Partitions
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.testing import AsyncMemoryOutbox, MemoryOutbox, OutboxEvents, assert_event
from cdc_outbox.testing import memory_outbox as memory
from tests.contract.writer_contract import NOT_NUMBERED, WriterContract
from tests.support.events import make_event
from tests.support.threads import Threads
from tests.support.writer_clients import NUMBERED_BY_CALLER, ORDER, Client, Store


class MemoryStore(Store):
    dialect = Dialect.SQLITE

    def __init__(self) -> None:
        self.outbox = MemoryOutbox(source="orders.1")
        self.query("create table customers (id int)")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return self.outbox._database.connection.execute(sql).fetchall()

    def make_tables(self, table: OutboxTable) -> None:
        self.outbox._database.make_tables(table, "orders.1")

    def count_sessions(self) -> int:
        return 0

    def outbox_with(self, options: dict[str, Any]) -> MemoryOutbox:
        """Return an outbox of other options on the same tables."""
        outbox = MemoryOutbox(**options)
        outbox._database = self.outbox._database
        return outbox


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    return MemoryStore()


class MemoryClient(Client):
    """Opens a transaction before its first statement, as drivers do."""

    def __init__(self, store: MemoryStore, *, autocommit: bool) -> None:
        self.store, self.autocommit = store, autocommit
        self._block: AbstractContextManager[Any] | None = None
        with store.outbox.transaction() as ended:
            self.place = ended

    def joined(self) -> Any:
        if self._block is None and not self.autocommit:
            self.begin()
        return self.place

    def begin(self) -> None:
        self._block = self.store.outbox.transaction()
        self.place = self._block.__enter__()

    def execute(self, sql: str) -> object:
        return self.store.query(sql)

    def commit(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(None, None, None)

    def rollback(self) -> None:
        block, self._block = self._block, None
        if block is not None:
            with suppress(LookupError):
                block.__exit__(LookupError, LookupError(), None)

    def close(self) -> None:
        self.rollback()

    def add(self, event: Event = ORDER, **options: Any) -> RecordedEvent:
        return self.store.outbox_with(options).add(self.joined(), event)

    def add_all(self, events: Any, **options: Any) -> list[RecordedEvent]:
        return self.store.outbox_with(options).add_all(self.joined(), events)

    def collect(self, body: Any, **options: Any) -> list[RecordedEvent]:
        with self.store.outbox_with(options).collect(self.joined()) as events:
            body(events)
        return events.written


@contextmanager
def awaited(loop: asyncio.AbstractEventLoop, block: AbstractAsyncContextManager[Any]) -> Iterator[Any]:
    """Enter and leave an asynchronous block from where nothing can be awaited."""
    entered = loop.run_until_complete(block.__aenter__())
    try:
        yield entered
    except BaseException as error:
        if not loop.run_until_complete(block.__aexit__(type(error), error, error.__traceback__)):
            raise
    else:
        loop.run_until_complete(block.__aexit__(None, None, None))


class AsyncMemoryClient(MemoryClient):
    def __init__(self, store: MemoryStore, *, autocommit: bool) -> None:
        super().__init__(store, autocommit=autocommit)
        self._loop = asyncio.new_event_loop()

    def begin(self) -> None:
        self._block = awaited(self._loop, self._outbox({}).transaction())
        self.place = self._block.__enter__()

    def close(self) -> None:
        super().close()
        self._loop.close()

    def add(self, event: Event = ORDER, **options: Any) -> RecordedEvent:
        written: RecordedEvent = self._loop.run_until_complete(self._outbox(options).add(self.joined(), event))
        return written

    def add_all(self, events: Any, **options: Any) -> list[RecordedEvent]:
        written: list[RecordedEvent] = self._loop.run_until_complete(
            self._outbox(options).add_all(self.joined(), events)
        )
        return written

    def collect(self, body: Any, **options: Any) -> list[RecordedEvent]:
        async def collect(place: Any) -> list[RecordedEvent]:
            async with self._outbox(options).collect(place) as events:
                body(events)
            return events.written

        written: list[RecordedEvent] = self._loop.run_until_complete(collect(self.joined()))
        return written

    def _outbox(self, options: dict[str, Any]) -> AsyncMemoryOutbox:
        outbox = AsyncMemoryOutbox(**options)
        outbox._twin = self.store.outbox_with(options)
        outbox._database = outbox._twin._database
        return outbox


class TestMemoryOutbox(WriterContract):
    has_row_locks = False

    def open(self, store: MemoryStore, *, autocommit: bool = False) -> Client:
        return MemoryClient(store, autocommit=autocommit)


class TestAsyncMemoryOutbox(TestMemoryOutbox):
    def open(self, store: MemoryStore, *, autocommit: bool = False) -> Client:
        return AsyncMemoryClient(store, autocommit=autocommit)


class Twin:
    """Both outboxes by one way of calling."""

    def __init__(self, **options: Any) -> None:
        self.outbox: Any = MemoryOutbox(**options)

    def add(self, connection: Any, event: Event = ORDER) -> RecordedEvent:
        written: RecordedEvent = self.outbox.add(connection, event)
        return written

    def add_all(self, connection: Any, *events: Event) -> list[RecordedEvent]:
        written: list[RecordedEvent] = self.outbox.add_all(connection, events)
        return written


class AsyncTwin(Twin):
    def __init__(self, **options: Any) -> None:
        self.outbox = AsyncMemoryOutbox(**options)

    def add(self, connection: Any, event: Event = ORDER) -> RecordedEvent:
        written: RecordedEvent = asyncio.run(self.outbox.add(connection, event))
        return written

    def add_all(self, connection: Any, *events: Event) -> list[RecordedEvent]:
        written: list[RecordedEvent] = asyncio.run(self.outbox.add_all(connection, events))
        return written


both = pytest.mark.parametrize("kind", [Twin, AsyncTwin], ids=["sync", "async"])


@both
@pytest.mark.parametrize("connection", [None, Mock(), object(), "a text"], ids=["None", "mock", "object", "text"])
def test_whatever_is_passed_as_the_connection_stands_for_a_transaction(kind: type[Twin], connection: Any) -> None:
    twin = kind()
    first = twin.add(connection)
    assert (first.sequence, first.source) == (1, "memory.1")
    assert first.id
    rest = twin.add_all(connection, replace(ORDER, aggregate_id="b"), ORDER)
    assert [event.sequence for event in rest] == [1, 2]
    assert twin.outbox.events == [first, *rest]
    assert twin.outbox.events.types == ["OrderPlaced"] * 3
    assert assert_event(twin.outbox.events, "OrderPlaced", aggregate_id="b", payload={"total": 10}) == rest[0]


def test_they_are_outboxes_of_the_kind_that_the_code_under_test_asks_for() -> None:
    assert isinstance(MemoryOutbox(), Outbox)
    assert isinstance(AsyncMemoryOutbox(), AsyncOutbox)


@both
def test_what_the_outbox_refuses_is_refused_and_leaves_no_gap(kind: type[Twin]) -> None:
    schemas = EventSchemas({("OrderPlaced", None): {"required": ["total"]}})
    twin = kind(schemas=schemas, policy=lambda event: event.type != "OrderSeen", max_message_bytes=100)
    seen = replace(ORDER, type="OrderSeen")
    assert [event.is_written for event in (twin.add(None, seen), *twin.add_all(None, seen))] == [False, False]
    deep = replace(ORDER, type="Deep", payload="[" * 101 + "]" * 101)
    for wrong in ({}, {"total": float("nan")}, {"total": "x" * 100}, '{"total": 1, "total": 2}', None, b"bytes"):
        with pytest.raises(EventError):
            twin.add(None, replace(ORDER, payload=wrong))
    for event in (deep, replace(ORDER, headers={"tenant": "a"}), replace(ORDER, sequence=1)):
        with pytest.raises(EventError):
            twin.add_all(None, ORDER, event)
    assert twin.outbox.events == []
    with pytest.raises(EventError, match="event must be an Event, not RecordedEvent") as caught:
        twin.add(None, cast("Any", make_event(1)))
    assert caught.value.hint == "Pass an Event."
    assert twin.add(None).sequence == 1


@both
def test_numbers_are_given_or_compared_as_the_contract_says(kind: type[Twin]) -> None:
    increasing = kind(table=OutboxTable(), contract=NUMBERED_BY_CALLER)
    assert increasing.add(None, replace(ORDER, sequence=5)).sequence == 5
    with pytest.raises(StaleSequenceError):
        increasing.add(None, replace(ORDER, sequence=5))
    with pytest.raises(EventError, match="nowhere"):
        increasing.add(None, replace(ORDER, aggregate_type="nowhere"))
    assert kind(table=OutboxTable(), contract=NOT_NUMBERED).add(None).sequence is None


def test_a_transaction_left_by_an_exception_takes_its_events_along() -> None:
    outbox = MemoryOutbox()
    with outbox.transaction() as connection:
        outbox.add(connection, ORDER)
        assert outbox.events == []
    with pytest.raises(LookupError), outbox.transaction() as connection:  # noqa: PT012 - what the block is about
        assert outbox.add(connection, ORDER).sequence == 2
        with outbox.collect(connection) as collected:
            collected.add(ORDER)
        raise LookupError
    with outbox.transaction() as connection:
        assert outbox.add(connection, ORDER).sequence == 2
        with pytest.raises(EventError):
            outbox.add(connection, replace(ORDER, payload=None))
        with pytest.raises(ZeroDivisionError), outbox.collect(connection) as collected:
            collected.add(replace(ORDER, sequence=1 // 0))
    assert [event.sequence for event in outbox.events] == [1, 2]


def test_a_call_that_fails_in_a_transaction_leaves_nothing() -> None:
    outbox = MemoryOutbox(table=OutboxTable(), contract=NUMBERED_BY_CALLER)
    first, second = (replace(ORDER, aggregate_id=name, sequence=5) for name in ("41", "42"))
    with outbox.transaction() as connection:
        outbox.add(connection, second)
        with pytest.raises(StaleSequenceError):
            outbox.add_all(connection, [first, second])
        assert outbox.add(connection, replace(first, sequence=1)).sequence == 1
    assert [(event.aggregate_id, event.sequence) for event in outbox.events] == [("42", 5), ("41", 1)]


def test_after_its_end_a_transaction_takes_no_event() -> None:
    async def write(outbox: AsyncMemoryOutbox) -> None:
        async with outbox.transaction() as connection:
            await outbox.add(connection, ORDER)
        for write in (outbox.add(connection, ORDER), outbox.add_all(connection, [ORDER])):
            with pytest.raises(NotInTransactionError):
                await write
        with pytest.raises(NotInTransactionError):
            async with outbox.collect(connection):
                pass

    outbox = AsyncMemoryOutbox()
    asyncio.run(write(outbox))
    assert len(outbox.events) == 1


def test_a_transaction_is_one_outboxs_and_real_outboxes_do_not_know_it() -> None:
    outbox = MemoryOutbox()
    with outbox.transaction() as connection:
        for other in (MemoryOutbox(), Outbox()):
            with pytest.raises(OutboxError):
                other.add(connection, ORDER)
    assert outbox.events == []


def test_transactions_take_turns_and_who_waits_for_himself_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "TURN_SECONDS", 0.05)

    async def write(outbox: AsyncMemoryOutbox) -> None:
        async with outbox.transaction():
            await outbox.add(None, ORDER)

    outbox = MemoryOutbox()
    with pytest.raises(OutboxError, match="one can be open at a time") as caught, outbox.transaction():
        outbox.add(Mock(), ORDER)
    assert "pass the connection that it returned" in caught.value.hint
    with pytest.raises(OutboxError, match="one can be open at a time"):
        asyncio.run(write(AsyncMemoryOutbox()))
    assert outbox.add(Mock(), ORDER).sequence == 1


def test_tasks_of_one_loop_wait_for_each_others_transactions() -> None:
    async def write(outbox: AsyncMemoryOutbox, number: int) -> None:
        async with outbox.transaction() as connection:
            await outbox.add(connection, replace(ORDER, payload={"n": number}))
            await asyncio.sleep(0)
            await outbox.add(connection, replace(ORDER, payload={"n": number}))

    async def write_all(outbox: AsyncMemoryOutbox) -> None:
        await asyncio.gather(*(write(outbox, number) for number in range(5)))

    outbox = AsyncMemoryOutbox()
    asyncio.run(write_all(outbox))
    written = [event.payload["n"] for event in outbox.events]
    assert written[::2] == written[1::2]
    assert sorted(written) == sorted([*range(5), *range(5)])
    assert [event.sequence for event in outbox.events] == list(range(1, 11))


def test_a_transaction_may_be_written_to_from_another_thread() -> None:
    outbox = MemoryOutbox()
    with outbox.transaction() as connection, Threads(4) as pool:
        list(pool.map(lambda _: outbox.add(connection, ORDER), range(20)))
    assert [event.sequence for event in outbox.events] == list(range(1, 21))
    with Threads() as pool:
        pool.submit(outbox.add, None, ORDER)
    assert len(outbox.events) == 21


@dataclass(frozen=True)
class Placed:
    total: int


ADOPTED = OutboxTable(
    schema="shop", name="Events", adopted=True, columns=OutboxColumns(sequence=None, source=None, created_at=None)
)


@pytest.mark.parametrize(
    ("table", "payload", "sequence"),
    [
        (OutboxTable(schema="shop", partitions=Partitions.DAY), {"total": 1}, 1),
        (OutboxTable(mode=OutboxMode.MESSAGE), {"total": 1}, 1),
        (OutboxTable(mode=OutboxMode.DELETE), Placed(1), 1),
        (OutboxTable(payload_type=PayloadType.BYTES), b"\xff", 1),
        (OutboxTable(format=EventFormat.CLOUDEVENTS_STRUCTURED), {"total": 1}, 1),
        (OutboxTable(headers={"tenant": "tenant-id"}), {"total": 1}, 1),
        (ADOPTED, {"total": 1}, None),
    ],
    ids=["partitions", "message", "delete", "bytes", "cloudevents", "headers", "adopted"],
)
@both
def test_a_table_may_be_of_every_kind(kind: type[Twin], table: OutboxTable, payload: Any, sequence: int | None) -> None:
    headers = {"tenant-id": "acme"} if "tenant" in table.headers else {}
    contract = NOT_NUMBERED if table is ADOPTED else None
    twin = kind(table=table, contract=contract)
    event = twin.add(None, replace(ORDER, payload=payload, headers=headers))
    assert (event.payload, event.headers, event.sequence) == (payload, headers, sequence)
    assert abs(event.created_at - datetime.now(UTC)) < timedelta(minutes=1)  # a column for it or not
    assert twin.outbox.events == [event]


def test_the_fixture_lists_what_was_written_to_memory_too(outbox_events: OutboxEvents) -> None:
    MemoryOutbox().add(None, ORDER)
    assert outbox_events.types == ["OrderPlaced"]
