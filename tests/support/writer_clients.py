"""The user's side of a driver's connection, and the database as others see it, for the tests of every driver."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from cdc_outbox import AsyncOutbox, Event, Outbox, OutboxTable, RecordedEvent, SequenceMode, WireContract
from cdc_outbox.databases.dialects import Dialect
from tests.support.threads import Threads

ORDER = Event(aggregate_type="order", aggregate_id="42", type="OrderPlaced", payload={"total": 10})
NUMBERED_BY_CALLER = WireContract(aggregates={"order": SequenceMode.INCREASING})


class Client(ABC):
    """One connection of the user's, opened and driven as the users of that driver do it."""

    place: Any
    """What is passed to the outbox: a connection, a session, a cursor."""

    @abstractmethod
    def execute(self, sql: str) -> object:
        """Run a statement of the user's on the same connection."""

    @abstractmethod
    def begin(self) -> object:
        """Open a transaction by name on a connection in autocommit mode."""

    @abstractmethod
    def commit(self) -> object: ...

    @abstractmethod
    def rollback(self) -> object: ...

    @abstractmethod
    def close(self) -> object: ...

    def disconnect(self) -> object:
        """Close what is passed to the outbox, as a user may do too early."""
        return self.place.close()

    def add(self, event: Event = ORDER, **options: Any) -> RecordedEvent:
        return Outbox(**options).add(self.place, event)

    def add_all(self, events: Iterable[Event], **options: Any) -> list[RecordedEvent]:
        return Outbox(**options).add_all(self.place, events)

    def collect(self, body: Callable[[Any], object], **options: Any) -> list[RecordedEvent]:
        with Outbox(**options).collect(self.place) as events:
            body(events)
        return events.written


class AsyncClient(Client):
    """A client of an asynchronous driver, whose loop runs on a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._threads = Threads()
        self._threads.submit(self.loop.run_forever)

    def run(self, awaitable: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(awaitable, self.loop).result()

    def disconnect(self) -> object:
        return self.run(self.place.close())

    def add(self, event: Event = ORDER, **options: Any) -> RecordedEvent:
        written: RecordedEvent = self.run(AsyncOutbox(**options).add(self.place, event))
        return written

    def add_all(self, events: Iterable[Event], **options: Any) -> list[RecordedEvent]:
        written: list[RecordedEvent] = self.run(AsyncOutbox(**options).add_all(self.place, events))
        return written

    def collect(self, body: Callable[[Any], object], **options: Any) -> list[RecordedEvent]:
        async def collect() -> list[RecordedEvent]:
            async with AsyncOutbox(**options).collect(self.place) as events:
                await asyncio.to_thread(body, events)
            return events.written

        written: list[RecordedEvent] = self.run(collect())
        return written

    def close(self) -> object:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._threads.shutdown()
        return self.loop.close()


class Store(ABC):
    """The database, seen from outside of every client."""

    dialect: Dialect

    @abstractmethod
    def query(self, sql: str) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    def make_tables(self, table: OutboxTable) -> None: ...

    @abstractmethod
    def count_sessions(self) -> int: ...

    def numbers(self) -> list[tuple[str, int]]:
        """Return aggregate and number of each event that others can see."""
        return [(row[0], row[1]) for row in self.query("select aggregateid, sequence from outbox order by 1, 2")]

    def reset(self) -> None:
        self.query("delete from outbox")
        self.query("delete from outbox_heads")
