"""The inbox for services that own their loop and their transactions."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import NamedTuple

from cdc_outbox.consumer.claims import Claims
from cdc_outbox.consumer.delivery import Stores
from cdc_outbox.consumer.inbox_tables import InboxTable, checked_name
from cdc_outbox.consumer.ordering import (
    Aggregate,
    Judgement,
    Memory,
    Order,
    Verdict,
    Watermark,
    aggregate_of,
    judge,
    moves_of,
    orders_of,
    sentence,
    successors_of,
)
from cdc_outbox.consumer.session import sql_stores
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.drivers import (
    AnyConnection,
    AsyncDriver,
    find_async_driver,
    find_driver,
    translated_for_caller,
)
from cdc_outbox.databases.drivers.immediate import Immediate, finish
from cdc_outbox.errors import (
    ConsumerError,
    MessageError,
    NotInTransactionError,
    SequenceConflictError,
    SequenceGapError,
)
from cdc_outbox.event import RecordedEvent


class _Received(NamedTuple):
    """What the inbox knew of an event at the start of its block."""

    stores: Stores
    claims: Claims
    judgement: Judgement
    watermarks: Mapping[Aggregate, Watermark]
    order: Order


class _Inbox:
    """What both twins share: all but the waiting."""

    def __init__(
        self,
        *,
        name: str,
        contract: WireContract,
        table: InboxTable | None = None,
    ) -> None:
        self.name = checked_name(name, "Inbox.name")
        self.contract = contract
        self._table = table
        self._orders = orders_of(contract)

    def _stores(self, driver: AsyncDriver) -> Stores:
        return sql_stores(table=self._table or InboxTable.on(driver.dialect), consumer=self.name, driver=driver)

    async def _enter(self, driver: AsyncDriver, connection: AnyConnection, event: RecordedEvent) -> "_Received":
        """Claim and judge; raise if the block must not run."""
        stores = self._stores(driver)
        if event.aggregate_type not in self._orders:
            raise MessageError(f"the contract does not know the aggregate type of {event}")
        order = self._orders[event.aggregate_type]
        if not await driver.joins_transaction(connection):
            raise NotInTransactionError(
                "the connection is not in a transaction, so the claim would remain without the effects",
                hint="Open one first: `with connection.transaction(), inbox.receiving(connection, event) as verdict:`.",
            )
        claims = (
            await stores.inbox.identify(connection)
            if order.by_watermark
            else await stores.inbox.claim(connection, [event.id])
        )
        purged_before = await stores.inbox.find_purge(connection)
        watermarks = await stores.inbox.find_watermarks(connection, [aggregate_of(event)])
        memory = Memory(unseen=claims.new, watermarks=watermarks, purged_before=purged_before)
        [judgement] = judge([event], memory, self._orders.__getitem__)
        match judgement.verdict:
            case Verdict.GAP:
                raise SequenceGapError(sentence(judgement), expected=judgement.last + 1, actual=event.sequence or 0)
            case Verdict.CONFLICT:
                raise SequenceConflictError(sentence(judgement))
            case Verdict.EXPIRED | Verdict.BEHIND:
                raise ConsumerError(sentence(judgement), hint="Roll back, and keep the event for an operator.")
        return _Received(stores, claims, judgement, watermarks, order)

    @staticmethod
    async def _leave(connection: AnyConnection, received: "_Received") -> None:
        """Move the watermark last, in a statement that proves that the transaction is the one of the claim."""
        applied = [received.judgement] if received.judgement.verdict is Verdict.NEXT else []
        moves = moves_of(applied, received.watermarks)
        parked = await received.stores.inbox.advance(connection, received.claims, moves)
        # A Consumer of the same name may have parked what follows, and it alone applies it.
        await received.stores.park.wake(connection, successors_of(moves, parked, lambda _: received.order))


class Inbox(_Inbox):
    """Claim events and check their order inside your own transaction, in your own loop.

    ::

        inbox = Inbox(name="shipping", contract=contract)
        for message in messages:
            event = contract.event_of(message)
            with connection.transaction(), inbox.receiving(connection, event) as verdict:
                if verdict is Verdict.NEXT:
                    connection.execute("insert into shipments …")
            # now the offset may be committed

    It does what :class:`Consumer` does for one event, in the same order. The rest is your task: commit the offset only
    after the transaction, keep events that cannot be applied, and make sure that only one process owns a partition.

    Args:
        name: The consumer's name in the inbox.
        contract: The aggregate types, their numbering and their promises.
        table: The tables of ids and watermarks.
    """

    @contextmanager
    def receiving(self, connection: AnyConnection, event: RecordedEvent) -> Iterator[Verdict]:
        """Claim an event at the start of the block, and move its aggregate's watermark at the end.

        The caller owns the transaction, which must be READ COMMITTED. Apply the event's effects in the block if the
        verdict is ``NEXT``, and none otherwise. Roll back after an exception has left the block.

        Raises:
            NotInTransactionError: No transaction is open; nothing was claimed.
            MessageError: The contract does not know the event's aggregate type.
            SequenceGapError, SequenceConflictError, ConsumerError: The event may not be applied; roll back.
            TransactionEndedError: The block ended the transaction and began another.
            WatermarkMovedError: Another process applied an event of the same aggregate; roll back and retry.
            ConfigError: The transaction is not READ COMMITTED.
            DatabaseError: The database refused, also because the block swallowed an SQL error; the driver's own error
                is the cause. If ``retryable``, roll back and retry.

        Exceptions of the block itself are passed on.
        """
        with translated_for_caller():
            received = finish(self._enter(Immediate(find_driver(connection)), connection, event))
        yield received.judgement.verdict
        with translated_for_caller():
            finish(self._leave(connection, received))


class AsyncInbox(_Inbox):
    """An :class:`Inbox` for asynchronous connections."""

    @asynccontextmanager
    async def receiving(self, connection: AnyConnection, event: RecordedEvent) -> AsyncIterator[Verdict]:
        """Claim an event as :meth:`Inbox.receiving` does."""
        with translated_for_caller():
            received = await self._enter(find_async_driver(connection), connection, event)
        yield received.judgement.verdict
        with translated_for_caller():
            await self._leave(connection, received)
