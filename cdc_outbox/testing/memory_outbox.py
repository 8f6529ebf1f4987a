"""An outbox without a database server: for unit tests of code that writes events."""

import asyncio
import sqlite3
import time
import weakref
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import AnyConnection, AsyncDriver, find_driver
from cdc_outbox.databases.drivers.immediate import Immediate, finish
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import NotInTransactionError, OutboxError
from cdc_outbox.event import Event, RecordedEvent
from cdc_outbox.formats.attributes import ATTRIBUTES
from cdc_outbox.testing.events import OutboxEvents
from cdc_outbox.writer import AsyncOutbox, Collection, Outbox
from cdc_outbox.writer.draft import Draft
from cdc_outbox.writer.outbox_schema import outbox_component

TURN_SECONDS = 5.0
"""Longer than a unit test's transaction takes, and short enough for who waits for himself."""
_POLL_SECONDS = 0.01


class MemoryTransaction:
    """What ``transaction()`` of a memory outbox yields, to be passed as the connection.

    Attributes:
        events: The events that were added through it, in order.
        has_ended: Whether it takes no more.
    """

    def __init__(self) -> None:
        self.events = OutboxEvents()
        self.has_ended = False


class _Database:
    """The tables of one outbox, in SQLite's memory, and what was committed to them.

    Args:
        source: The default of the ``source`` columns.
    """

    def __init__(self, table: OutboxTable, source: str) -> None:
        self.events = OutboxEvents()
        # Python 3.13 warns of a connection that is not closed.
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self.connection.close)
        self._transaction: MemoryTransaction | None = None
        self._turn, self._calls = Lock(), Lock()
        self.make_tables(table, source)

    def make_tables(self, table: OutboxTable, source: str) -> None:
        """Make outbox and heads; a column that an adopted table lacks is there under a name that no caller uses."""
        lacking = ATTRIBUTES.keys() - table.columns.names()
        columns = replace(table.columns, **{role: f"no {role}" for role in lacking})
        made = outbox_component(replace(table, columns=columns), first_source=source, dialect=Dialect.SQLITE)
        for step in made.migrations:
            for statement in step.statements:
                self.connection.execute(statement)

    def take_turn(self) -> None:
        """Wait for the end of the transaction that is open.

        Raises:
            OutboxError: It did not end in time.
        """
        if not self._turn.acquire(timeout=TURN_SECONDS):
            raise _no_end()

    async def await_turn(self) -> None:
        """Wait as :meth:`take_turn` does, without blocking the loop."""
        deadline = time.monotonic() + TURN_SECONDS
        while not self._turn.acquire(blocking=False):
            if time.monotonic() >= deadline:
                raise _no_end()
            await asyncio.sleep(_POLL_SECONDS)

    @contextmanager
    def opened(self) -> Iterator[MemoryTransaction]:
        """Open a transaction for who has the turn, and end both with the block."""
        self._transaction = transaction = MemoryTransaction()
        self.connection.execute("begin")
        try:
            yield transaction
        except BaseException:
            self._end(transaction, "rollback")
            raise
        else:
            self._end(transaction, "commit")
            self.events += transaction.events
        finally:
            self._turn.release()

    def refuse_ended(self, connection: object) -> None:
        """Refuse a transaction that has ended, or is another outbox's."""
        if not isinstance(connection, MemoryTransaction) or connection is self._transaction:
            return
        if not connection.has_ended:
            raise OutboxError(
                "the transaction belongs to another outbox", hint="Each memory outbox is a separate database."
            )
        raise NotInTransactionError(
            "the transaction has ended, so the event was not written",
            hint="Call add inside the block of `with outbox.transaction() as connection`.",
        )

    @contextmanager
    def lent_to(self, transaction: MemoryTransaction) -> Iterator[sqlite3.Connection]:
        """Lend the connection for one call, which writes everything or nothing."""
        with self._calls:
            self.refuse_ended(transaction)
            self.connection.execute("savepoint call")
            try:
                yield self.connection
            except BaseException:
                self.connection.execute("rollback to call")
                raise
            finally:
                self.connection.execute("release call")

    def _end(self, transaction: MemoryTransaction, verb: str) -> None:
        with self._calls:
            self.connection.execute(verb)
            self._transaction, transaction.has_ended = None, True


class MemoryOutbox(Outbox):
    """An outbox for unit tests, with a private SQLite database in memory. It refuses events as the real one does.

    Every object that the code under test passes as the connection, such as a mock or ``None``, has a transaction that
    commits at once. :meth:`transaction` yields a connection whose transaction lasts. Any thread may use it;
    transactions take turns. It lacks the properties of your database: MariaDB's limit of 31 levels, a unique index,
    lock waits.

    Args:
        source: The events' source.
        options: Those of :class:`Outbox`. Partitions and the mode ``message`` have no effect.
    """

    def __init__(self, *, source: str = "memory.1", **options: Any) -> None:
        super().__init__(**options)
        self._dialect = None  # SQLite stands for every database
        self.table = _in_memory(self.table)
        self._database = _Database(self.table, source)

    @property
    def events(self) -> OutboxEvents:
        """The committed events, in order, without those that the policy declined."""
        return OutboxEvents(self._database.events)

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        """Open a transaction: its events are committed at the end of the block, and none if an exception leaves it.

        Raises:
            OutboxError: Another one is open, and did not end within :data:`TURN_SECONDS`.
        """
        self._database.take_turn()
        with self._database.opened() as transaction:
            yield transaction

    def add(self, connection: AnyConnection, event: Event) -> RecordedEvent:
        """Write one event as :meth:`Outbox.add` does."""
        reacted = self._react(connection, [event])
        if reacted is not None:
            return reacted[0]
        with self._joined(connection) as transaction, self._database.lent_to(transaction) as sqlite:
            written = super().add(sqlite, event)
            transaction.events += [written] if written.is_written else []
        return written

    def add_all(self, connection: AnyConnection, events: Iterable[Event]) -> list[RecordedEvent]:
        """Write many events as :meth:`Outbox.add_all` does."""
        given = list(events)
        reacted = self._react(connection, given)
        if reacted is not None:
            return reacted
        with self._joined(connection) as transaction, self._database.lent_to(transaction) as sqlite:
            written = super().add_all(sqlite, given)
            transaction.events += [event for event in written if event.is_written]
        return written

    @contextmanager
    def collect(self, connection: AnyConnection) -> Iterator[Collection]:
        """Gather events as :meth:`Outbox.collect` does."""
        self._database.refuse_ended(connection)
        with Collection.gathering() as collection:
            yield collection
        collection.written = self.add_all(connection, collection.events)

    def _write_gathered(self, connection: AnyConnection, drafts: Sequence[Draft]) -> None:
        with self._joined(connection) as transaction, self._database.lent_to(transaction) as sqlite:
            transaction.events += finish(self._write(sqlite, drafts))

    def _find(self, connection: AnyConnection) -> AsyncDriver:  # noqa: ARG002
        return Immediate(find_driver(self._database.connection))

    @contextmanager
    def _joined(self, connection: AnyConnection) -> Iterator[MemoryTransaction]:
        if isinstance(connection, MemoryTransaction):
            yield connection
            return
        with self.transaction() as transaction:
            yield transaction


class AsyncMemoryOutbox(AsyncOutbox):
    """A :class:`MemoryOutbox` for asyncio."""

    def __init__(self, *, source: str = "memory.1", **options: Any) -> None:
        super().__init__(**options)
        self._dialect = None  # SQLite stands for every database
        self._twin = MemoryOutbox(source=source, **options)
        self.table, self._database = self._twin.table, self._twin._database  # noqa: SLF001 - one for both

    @property
    def events(self) -> OutboxEvents:
        """The events that were committed, in order."""
        return self._twin.events

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[MemoryTransaction]:
        """Open a transaction, as :meth:`MemoryOutbox.transaction` does."""
        await self._database.await_turn()
        with self._database.opened() as transaction:
            yield transaction

    async def add(self, connection: AnyConnection, event: Event) -> RecordedEvent:
        """Write one event."""
        reacted = self._react(connection, [event])
        if reacted is not None:
            return reacted[0]
        async with self._joined(connection) as transaction:
            return self._twin.add(transaction, event)

    async def add_all(self, connection: AnyConnection, events: Iterable[Event]) -> list[RecordedEvent]:
        """Write many events."""
        given = list(events)
        reacted = self._react(connection, given)
        if reacted is not None:
            return reacted
        async with self._joined(connection) as transaction:
            return self._twin.add_all(transaction, given)

    @asynccontextmanager
    async def collect(self, connection: AnyConnection) -> AsyncIterator[Collection]:
        """Gather events."""
        self._database.refuse_ended(connection)
        with Collection.gathering() as collection:
            yield collection
        collection.written = await self.add_all(connection, collection.events)

    def _find(self, connection: AnyConnection) -> AsyncDriver:
        return self._twin._find(connection)  # noqa: SLF001

    async def _write_gathered(self, connection: AnyConnection, drafts: Sequence[Draft]) -> None:
        async with self._joined(connection) as transaction:
            self._twin._write_gathered(transaction, drafts)  # noqa: SLF001

    @asynccontextmanager
    async def _joined(self, connection: AnyConnection) -> AsyncIterator[MemoryTransaction]:
        if isinstance(connection, MemoryTransaction):
            yield connection
            return
        async with self.transaction() as transaction:
            yield transaction


def _in_memory(table: OutboxTable) -> OutboxTable:
    """Return the table as SQLite can have it; which events it takes, and how, stays."""
    mode = OutboxMode.KEEP if table.mode is OutboxMode.MESSAGE else table.mode
    return replace(table, schema=None, partitions=None, mode=mode, adopted=False)


def _no_end() -> OutboxError:
    return OutboxError(
        "another transaction of this outbox is open; only one can be open at a time",
        hint="Inside a block of `transaction()`, pass the connection that it returned.",
    )
