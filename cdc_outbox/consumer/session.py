"""A consumer's connection to the database, opened when it is needed and closed after it failed, and what it can do."""

import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, Generic, Protocol, TypeVar

from cdc_outbox.consumer.claims import SqlInbox
from cdc_outbox.consumer.delivery import NOTHING_STORED, Delivered, Delivery, Stores
from cdc_outbox.consumer.fencing import (
    NO_IDS,
    NO_OFFSET,
    Assignment,
    OffsetMove,
    SqlEpochs,
    TopicId,
    TopicPartition,
    refuse_stale,
)
from cdc_outbox.consumer.handlers import BeforeCommit, origin_of
from cdc_outbox.consumer.inbox_tables import InboxTable, Statements
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.limits import Room
from cdc_outbox.consumer.ordering import Memory, aggregate_of
from cdc_outbox.consumer.parked_events import ParkedCount, ParkedEvent, unbroken
from cdc_outbox.consumer.retries import NETWORK_ERRORS
from cdc_outbox.consumer.savepoint_inbox import SavepointInbox
from cdc_outbox.consumer.sql_parked_events import SqlPark
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import (
    AnyConnection,
    AsyncDriver,
    AsyncTransactionDriver,
    TransactionState,
    find_async_transaction_driver,
    find_transaction_driver,
    translate,
)
from cdc_outbox.databases.drivers.immediate import ImmediateTransactions, Meanwhile, nothing_else
from cdc_outbox.databases.drivers.sqlstate import raise_ours
from cdc_outbox.databases.drivers.transactions import async_transaction
from cdc_outbox.databases.sql import load
from cdc_outbox.errors import (
    CdcOutboxError,
    ConfigError,
    DatabaseAccessError,
    DatabaseError,
    DatabaseUnavailableError,
    TableNotFoundError,
)
from cdc_outbox.event import RecordedEvent

_log = logging.getLogger(__name__)

_NO_LOGINS = "55000"
"""What PostgreSQL says to a login while a database allows no connections; to a statement it says other things by it."""
_NO_INBOX = "Create the inbox with `cdc-outbox init --inbox --dsn …`, in the database that the consumer connects to."
_COMPARE_SECONDS = 30.0
"""How late lost commits of a quiet partition are noticed where a pooler reconnects behind the consumer's back."""


class Database(Protocol):
    """What the consumer knows of a connection once it is open."""

    driver: AsyncTransactionDriver
    stores: Stores
    delivery: Delivery

    async def prepare(self, connection: AnyConnection) -> None:
        """Make its transactions READ COMMITTED, and bound how long they may be idle."""


class Session:
    """The one connection of a consumer.

    Args:
        connect: Opens a connection, or returns something to await that does.
        know: Finds out how to talk to it.
        refuse: Raises if events must not be applied, given the next offsets that are stored.
        isolated: Event types whose events have a transaction each.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        know: Callable[[Any], Database],
        refuse: Callable[[Sequence[Item], Mapping[TopicPartition, int]], Awaitable[None]] | None = None,
        *,
        isolated: Set[str] = frozenset(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connect, self._know, self.isolated = connect, know, isolated
        self._refuse, self._clock = refuse, clock
        self._connection: AnyConnection = None
        self._database: Database | None = None
        self._was_open = False
        self._compared_at = -math.inf
        """When what is held was compared last on this connection."""

    async def open(self) -> Database:
        """Connect unless that was done.

        Raises:
            DatabaseUnavailableError: It cannot be reached, or refuses a login that it accepted before.
            DatabaseError: It refused the first login, or something else.
            ConfigError: The user's function failed by itself, or its connection cannot be used.
        """
        if self._connection is not None and self._database is not None:
            return self._database
        try:
            database = await self._opened()
        except DatabaseAccessError as error:
            # A database that is restored does not exist for a while; libpq does not tell that from a wrong password.
            if not self._was_open:
                raise
            raise DatabaseUnavailableError(str(error), sqlstate=error.sqlstate, hint=error.hint) from error
        self._was_open = True
        return database

    async def _opened(self) -> Database:
        connection = await self._connected()
        database = self._know(connection)
        try:
            await database.prepare(connection)
        except BaseException as error:
            # A connection that the consumer itself refused stays open: other code works with it, too.
            if translate(error) or isinstance(error, DatabaseError) or not isinstance(error, Exception):
                await _close(connection)
            raise_ours(translate(error), error)
            raise
        self._connection, self._database, self._compared_at = connection, database, -math.inf
        return database

    async def _connected(self) -> AnyConnection:
        try:
            opened = self._connect()
            return await opened if isawaitable(opened) else opened
        except CdcOutboxError:
            raise
        except Exception as error:
            ours = translate(error)
            if ours is None and (isinstance(error, NETWORK_ERRORS) or getattr(error, "sqlstate", "") == _NO_LOGINS):
                ours = DatabaseUnavailableError(f"the database cannot be reached: {type(error).__name__}")
            if ours is None:
                _log.debug("connecting failed", exc_info=error)
            raise ours or ConfigError(
                f"connect() raised {type(error).__name__}{origin_of(error)}",
                field="EffectsDatabase.connect",
                hint="connect() opens the consumer's connections. Correct that function; --verbose shows the error.",
            ) from error

    async def close(self) -> None:
        """Close the connection; one that is broken is forgotten."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await _close(connection)
        self._database = None

    async def apply(
        self,
        items: Sequence[Item],
        held: Mapping[TopicPartition, int],
        room: Room,
        meanwhile: Meanwhile = nothing_else,
        *,
        stored: Mapping[TopicPartition, int] = NOTHING_STORED,
    ) -> Delivered:
        """Apply events in one transaction; see :meth:`Delivery.apply`.

        If the role may not write what the consumer writes, look in a session of its own whether a handler changed it.
        """
        if self._refuse is not None:
            await self._refuse(items, stored)
        try:
            return await self._apply(items, held, room, meanwhile, stored=stored)
        except DatabaseAccessError:
            await self.close()  # MySQL keeps a role for the session
        if (roles := (await self.open()).delivery.roles) is not None:
            roles.is_on = True
        try:
            return await self._apply(items, held, room, meanwhile, stored=stored)
        finally:
            await self.close()

    async def _apply(self, items: Sequence[Item], *options: Any, stored: Mapping[TopicPartition, int]) -> Delivered:
        database = await self.open()
        try:
            return await database.delivery.apply(items, self._connection, *options, stored=stored)
        except Exception:
            if database.driver.state(self._connection) is not TransactionState.ENDED:  # it could not be undone
                await self.close()
            raise

    async def recall(self, events: Sequence[RecordedEvent]) -> Memory:
        """Return what is remembered of events, and claim none."""
        ids = [event.id for event in events]
        async with self._transaction() as (stores, connection):
            seen = await stores.inbox.find_claims(connection, ids)
            return Memory(
                unseen=set(ids) - seen,
                watermarks=await stores.inbox.find_watermarks(connection, {aggregate_of(event) for event in events}),
                parked=(await stores.park.find_parked(connection, ids)).keys(),
                purged_before=await stores.inbox.find_purge(connection),
            )

    async def issue(
        self, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, TopicId] = NO_IDS
    ) -> Mapping[TopicPartition, Assignment]:
        """Take partitions; who had them before is stale from now on."""
        async with self._transaction() as (stores, connection):
            return await stores.epochs.issue(connection, partitions, topic_ids)

    async def compare(self, held: Mapping[TopicPartition, int], stored: Mapping[TopicPartition, int]) -> bool:
        """Look, when it has connected and every 30 s, whether the database has still what it had of held partitions.

        Returns whether it looked now.

        A database that was restored, or a standby that replication left behind, ends the connections; a pooler hides
        that. The comparison takes partitions in that no event comes of: nothing else would show that their last effects
        are gone.

        Args:
            stored: The next offset that the database was last known to have, by partition.

        Raises:
            PartitionLostError: It has lost commits of these, or gave them to another consumer.
        """
        await self.open()
        if self._clock() - self._compared_at < _COMPARE_SECONDS:
            return False
        # A partition without a next offset has no effects of this assignment that could be lost.
        offsets = {tp: stored.get(tp, NO_OFFSET) for tp in held}
        moves = {tp: OffsetMove(next_, next_) for tp, next_ in offsets.items() if next_ != NO_OFFSET}
        async with self._transaction() as (stores, connection):
            stale = await stores.epochs.store_offsets(connection, held, moves)
        self._compared_at = self._clock()
        refuse_stale(stale)
        return True

    async def finish(self, held: Mapping[TopicPartition, int]) -> None:
        """Note that work on these partitions gets done."""
        async with self._transaction() as (stores, connection):
            await stores.epochs.finish(connection, held)

    async def start(self, event_id: str) -> int:
        """Note that an event is begun, and return how often it was.

        Raises:
            MessageError: Its id is none that a database takes.
        """
        async with self._transaction() as (stores, connection):
            stores.inbox.refuse([event_id])
            return await stores.epochs.start(connection, event_id)

    async def find_due(
        self, owned: Iterable[TopicPartition], limit: int, most_bytes: float = math.inf, *, counts: bool = True
    ) -> tuple[list[ParkedEvent], list[ParkedCount] | None]:
        """Return what is due in these partitions, and how much is parked altogether: ``None`` if not asked for.

        Args:
            counts: Whether to count, which takes the longer the more is parked.
        """
        partitions = set(owned)
        async with self._transaction() as (stores, connection):
            counted = await stores.park.count(connection) if counts else None
            due = await stores.park.find_due(connection, partitions, limit, most_bytes) if counted != [] else []
            return unbroken(due, partitions), counted

    async def find_parked_partitions(self) -> set[TopicPartition]:
        """Return the topic-partitions of parked events that wait."""
        async with self._transaction() as (stores, connection):
            return await stores.park.find_partitions(connection)

    @contextlib.asynccontextmanager
    async def _transaction(self) -> AsyncIterator[tuple[Stores, Any]]:
        database = await self.open()
        connection = self._connection
        try:
            async with async_transaction(connection, database.driver):
                yield database.stores, connection
        except Exception as error:
            raise_ours(_translated(error), error)
            raise


def _translated(error: Exception) -> CdcOutboxError | None:
    ours = error if isinstance(error, TableNotFoundError) else translate(error)
    if isinstance(ours, TableNotFoundError):  # no handler's: none runs in the inbox's own transactions
        return TableNotFoundError(str(ours), sqlstate=ours.sqlstate, hint=_NO_INBOX)
    return ours


async def _close(connection: AnyConnection) -> None:
    with contextlib.suppress(Exception):  # it is broken, or about to be gone
        closed = connection.close()
        if isawaitable(closed):
            await closed


def sql_stores(*, table: InboxTable, consumer: str, driver: AsyncDriver) -> Stores:
    """Return what a consumer remembers, in the tables of its inbox."""
    inbox, park, epochs = (
        Statements(file, table=table, consumer=consumer, driver=driver) for file in ("inbox", "park", "epochs")
    )
    features = driver.dialect.features
    claims = SqlInbox(inbox) if features.names_transactions else SavepointInbox(inbox, features.key_bytes)
    return Stores(inbox=claims, park=SqlPark(park), epochs=SqlEpochs(epochs))


OpenedT_co = TypeVar("OpenedT_co", covariant=True)
"""What ``connect`` returns: a connection, or what is awaited for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectsDatabase(Generic[OpenedT_co]):
    """The database of a consumer's effects, and the options of its transactions.

    Args:
        connect: Opens a connection; called again after it broke. The consumer closes the connection, so it must not
            come from a pool.
        inbox: The tables of ids and watermarks, which ``cdc-outbox init --inbox`` creates. Default: the names that this
            command uses.
        pipeline: Run a batch's handlers in psycopg's pipeline mode: what they execute is sent without waiting for the
            answers. For handlers that only write; one that fetches waits for its rows as usual. Not the default:
            PostgreSQL before 17 bounds nothing in it, and a process that is paused there keeps what it locked until it
            resumes.
        before_commit: Writes at the end of the handlers' transaction: an outbox that gathers their events.

    Raises:
        ConfigError: ``connect`` cannot be called.
    """

    connect: Callable[[], OpenedT_co]
    inbox: InboxTable | None = None
    pipeline: bool = False
    before_commit: BeforeCommit | None = None

    def __post_init__(self) -> None:
        if not callable(self.connect):
            raise ConfigError(
                f"database must be a function that opens a connection, not {type(self.connect).__name__}",
                field="EffectsDatabase.connect",
                hint="It is called whenever a connection is needed, for example lambda: psycopg.connect(DSN).",
            )

    def inbox_on(self, dialect: Dialect) -> InboxTable:
        """Return the inbox on a connection's database.

        Raises:
            ConfigError: It is on a database of another dialect.
        """
        table = self.inbox or InboxTable.on(dialect)
        if table.dialect is not dialect:
            raise ConfigError(
                f"the inbox is on {table.dialect}, but the consumer's connection leads to {dialect}",
                field="EffectsDatabase.inbox",
            )
        return table


def driver_of(connection: AnyConnection, *, asynchronous: bool) -> AsyncTransactionDriver:
    """Return a driver for a connection: one object from here to the last commit, for it remembers what it began."""
    if asynchronous:
        return find_async_transaction_driver(connection)
    return ImmediateTransactions(find_transaction_driver(connection))


class ConsumerDatabase:
    """A delivery, and the connection's transactions made ready for it.

    Args:
        idle_seconds: How long the database lets a transaction sit between two statements.
        pipeline: Whether handlers run in psycopg's pipeline mode.
    """

    def __init__(self, delivery: Delivery, *, idle_seconds: float, pipeline: bool = False) -> None:
        self.delivery, self.driver, self.stores = delivery, delivery.driver, delivery.stores
        self._idle_seconds, self._pipeline = idle_seconds, pipeline

    async def prepare(self, connection: AnyConnection) -> None:
        """Make its transactions READ COMMITTED, and bound how long they may be idle."""
        await self.driver.prepare(connection, idle_seconds=self._idle_seconds)
        if self._pipeline:
            # In a pipeline PostgreSQL bounds no idling. Twice as long, for a claim may wait for a bound itself.
            milliseconds = str(math.ceil(2 * self._idle_seconds * 1000))
            sql = load(self.driver.dialect, "session")["bound_transactions"].render({}, self.driver.style)
            async with async_transaction(connection, self.driver):
                await self.driver.fetch(connection, sql, {"milliseconds": milliseconds})
