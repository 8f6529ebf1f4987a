"""A consumer's connection to the database, opened when it is needed and closed after it failed."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from inspect import isawaitable
from typing import Any, Protocol

from cdc_outbox.consumer.delivery import Delivered, Delivery, Stores
from cdc_outbox.consumer.epochs import Place, Tenure
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.ordering import Memory, aggregate_of
from cdc_outbox.consumer.park import ParkedCount, ParkedEvent, unbroken
from cdc_outbox.drivers import AsyncTransactionDriver, translate
from cdc_outbox.event import Event


class Database(Protocol):
    """What is known of a connection once it is open."""

    driver: AsyncTransactionDriver
    stores: Stores
    delivery: Delivery

    async def prepare(self, connection: Any) -> None:  # noqa: ANN401
        """Make its transactions READ COMMITTED, and bound how long they may be idle."""


class Session:
    """The one connection of a consumer.

    Args:
        connect: Opens a connection, or returns something to await that does.
        know: Finds out how to talk to it.
    """

    def __init__(self, connect: Callable[[], Any], know: Callable[[Any], Database]) -> None:
        self._connect = connect
        self._know = know
        self._connection: Any = None
        self._database: Database | None = None

    async def open(self) -> Database:
        """Connect unless that was done.

        Raises:
            DatabaseError: It cannot be reached, or refused the role.
        """
        if self._connection is None or self._database is None:
            try:
                opened = self._connect()
                connection = await opened if isawaitable(opened) else opened
                database = self._know(connection)
                await database.prepare(connection)
            except Exception as error:
                ours = translate(error)
                if ours is None:
                    raise
                raise ours from error
            self._connection, self._database = connection, database
        return self._database

    async def close(self) -> None:
        """Close the connection; one that is broken is forgotten."""
        connection, self._connection, self._database = self._connection, None, None
        if connection is not None:
            await _close(connection)

    async def apply(self, items: Sequence[Item], held: Mapping[Place, int], room: int) -> Delivered:
        """Apply events in one transaction; see :meth:`Delivery.apply`."""
        database = await self.open()
        return await database.delivery.apply(items, self._connection, held, room)

    async def recall(self, events: Sequence[Event]) -> Memory:
        """Return what is remembered of events, and claim none."""
        ids = [event.id or "" for event in events]
        async with self._transaction() as (stores, connection):
            seen = await stores.inbox.find_claims(connection, ids)
            return Memory(
                unseen=set(ids) - seen,
                marks=await stores.inbox.find_marks(connection, {aggregate_of(event) for event in events}),
                parked=await stores.park.find_parked(connection, ids),
                purged_before=await stores.inbox.find_purge(connection),
            )

    async def issue(self, places: Iterable[Place]) -> Mapping[Place, Tenure]:
        """Take partitions; who had them before is stale from now on."""
        async with self._transaction() as (stores, connection):
            return await stores.epochs.issue(connection, places)

    async def finish(self, held: Mapping[Place, int]) -> None:
        """Note that work on these partitions gets done."""
        async with self._transaction() as (stores, connection):
            await stores.epochs.finish(connection, held)

    async def start(self, event_id: str) -> int:
        """Note that an event is begun, and return how often it was."""
        async with self._transaction() as (stores, connection):
            return await stores.epochs.start(connection, event_id)

    async def find_due(self, owned: Iterable[Place], limit: int) -> tuple[list[ParkedEvent], list[ParkedCount]]:
        """Return what is due in these partitions, and how much is parked altogether."""
        places = set(owned)
        async with self._transaction() as (stores, connection):
            counts = await stores.park.count(connection)
            due = await stores.park.find_due(connection, places, limit) if counts else []
            return unbroken(due, places), counts

    @contextlib.asynccontextmanager
    async def _transaction(self) -> AsyncIterator[tuple[Stores, Any]]:
        database = await self.open()
        connection = self._connection
        try:
            await database.driver.begin(connection)
            yield database.stores, connection
            await database.driver.commit(connection)
        except BaseException as error:
            await database.driver.rollback(connection)
            ours = translate(error)
            if ours is None:
                raise
            raise ours from error


async def _close(connection: Any) -> None:  # noqa: ANN401
    with contextlib.suppress(Exception):  # it is broken, or about to be gone
        closed = connection.close()
        if isawaitable(closed):
            await closed
