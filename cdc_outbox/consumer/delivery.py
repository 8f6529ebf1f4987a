"""The inbox transaction: a list of events and their effects, all or nothing."""

import logging
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType

from cdc_outbox.consumer.claims import Claims, IdClaimedError, InboxStore
from cdc_outbox.consumer.failures import error_of
from cdc_outbox.consumer.fencing import EpochStore, TopicPartition, refuse_stale
from cdc_outbox.consumer.handlers import HandlerRunner, ours_of, several
from cdc_outbox.consumer.item import Item, Outcome
from cdc_outbox.consumer.limits import ENDLESS, Room
from cdc_outbox.consumer.ordering import (
    Aggregate,
    Judgement,
    Memory,
    Move,
    Order,
    Verdict,
    Watermark,
    judge,
    moves_of,
    span_of,
    successors_of,
)
from cdc_outbox.consumer.parked_events import ParkStore, Reason
from cdc_outbox.consumer.parking import ParkingPlan, behind_unreadable, refuse_ids_of_others
from cdc_outbox.consumer.role_watch import RoleWatch
from cdc_outbox.databases.drivers import AnyConnection, AsyncTransactionDriver
from cdc_outbox.databases.drivers.immediate import Meanwhile, nothing_else, overlapping
from cdc_outbox.databases.drivers.sqlstate import raise_ours
from cdc_outbox.databases.drivers.transactions import UNUSABLE
from cdc_outbox.errors import (
    CdcOutboxError,
    DatabaseUnavailableError,
    HandlerError,
    TransactionEndedError,
)

_log = logging.getLogger(__name__)

NOTHING_STORED: Mapping[TopicPartition, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """What a consumer remembers, in the database of the effects."""

    inbox: InboxStore
    park: ParkStore
    epochs: EpochStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What a committed transaction did.

    Args:
        outcomes: One for each item.
        parked: Why events were parked, and how many for each reason.
        parked_bytes: How many bytes they have.
        woken: How many parked events can be applied now.
    """

    outcomes: list[Outcome]
    parked: Mapping[Reason, int] = field(default_factory=dict)
    parked_bytes: int = 0
    woken: int = 0


class Delivery:
    """Apply events in the order of steps that makes their effects happen once.

    Claim the ids by inserting them; look at who owns the partitions; judge the sequences. Where the numbers of all
    events follow each other, one statement does all three. Then run the handlers, and look at the transaction
    after each; give back the claims of what is set aside, and park it under the lock of its watermark; move the
    watermarks, each from where it was read, in a statement that proves that the transaction is still the one of the
    claims; wake what was parked behind them; store the partitions' next offsets, which looks again at who owns them;
    commit, and believe the server's answer only.
    """

    def __init__(
        self,
        *,
        stores: Stores,
        driver: AsyncTransactionDriver,
        calls: HandlerRunner,
        order_of: Callable[[str], Order],
        roles: RoleWatch | None = None,
    ) -> None:
        self.stores, self.driver = stores, driver
        self.calls, self.roles = calls, roles
        self.order_of = order_of

    async def apply(
        self,
        items: Sequence[Item],
        connection: AnyConnection,
        held: Mapping[TopicPartition, int],
        room: Room = ENDLESS,
        meanwhile: Meanwhile = nothing_else,
        *,
        stored: Mapping[TopicPartition, int] = NOTHING_STORED,
    ) -> Delivered:
        """Apply events in one transaction of this connection and return after the commit.

        Args:
            held: The epoch under which each of their partitions is owned.
            room: How much more may be parked.
            meanwhile: What there is to do while the server works, also at statements of handlers.
            stored: The next offset that the database was last known to have, by partition; one that is missing is not
                compared.

        Raises:
            HandlerError: A handler raised, whatever it was, and our own connection answers.
            TransactionAbortedError: A handler swallowed an SQL error.
            TransactionEndedError: A handler committed, rolled back or closed the connection.
            ParkFullError: There is no room for an event that must be parked.
            PartitionLostError, WatermarkMovedError, DatabaseError: Trying again may help if ``retryable``.
            ConsumerError: The database refused something else, such as effects that break a deferred constraint.
            Exception: Any other exception is a bug in cdc-outbox, and is raised unchanged.

        Nothing is committed when it raises, but for what a handler committed by itself, and for a connection that
        broke during the commit: then the same events may be applied again, and the claims tell.
        """
        work = _Work(self, items, connection, held=held, room=room, stored=stored)
        try:
            with overlapping(self.driver, connection, meanwhile):
                await self.driver.begin(connection)
                delivered = await work.run()
                work.claims = Claims()  # from here on the commit alone decides about them, answered or not
                await self.driver.commit(connection)
        except BaseException as error:
            await self.driver.rollback(connection)
            if not isinstance(error, Exception):
                raise
            if await self._take_back(work.claims, connection):
                names = several([item.event for item in items])
                raise TransactionEndedError(f"a handler committed {names} itself") from error
            raise_ours(await self._ours(error, items, connection), error)
            raise
        finally:
            self.calls.telemetry.measure()
        return delivered

    async def _ours(self, error: Exception, items: Sequence[Item], connection: AnyConnection) -> CdcOutboxError | None:
        """Return what is raised for an error, ``None`` if the error itself is."""
        ours = await self._lost(error, connection)
        ours = ours or error_of(error, [item.event for item in items], self.calls.text_of)
        return None if ours is error else ours

    async def _lost(self, error: Exception, connection: AnyConnection) -> CdcOutboxError | None:
        """Return the error of our own database where a handler met that it is gone, by a connection of its own."""
        met = ours_of(error.__cause__) if isinstance(error, HandlerError) and error.__cause__ else None
        if not isinstance(met, DatabaseUnavailableError):
            return None
        try:
            await self.driver.begin(connection)
            await self.driver.rollback(connection)
        except Exception:  # noqa: BLE001 - whatever it is, no transaction can be had
            await self.driver.rollback(connection)
            return met
        return None

    async def _take_back(self, claims: Claims, connection: AnyConnection) -> bool:
        """Undo claims that a handler committed: without a watermark they would pass for events that were applied."""
        if not claims.new or self.driver.state(connection) in UNUSABLE:
            return False
        try:
            await self.driver.begin(connection)
            found = await self.stores.inbox.take_back(connection, claims)
            await self.driver.commit(connection)
        except Exception as error:  # noqa: BLE001 - the error that led here is the one to tell
            _log.warning("claims were not checked", extra={"reason": type(error).__name__})
            await self.driver.rollback(connection)
            return False
        return found


class _Work:
    """One transaction's work, step by step; the names of the steps are the names of the faults that are tested."""

    def __init__(
        self,
        delivery: Delivery,
        items: Sequence[Item],
        connection: AnyConnection,
        *,
        held: Mapping[TopicPartition, int],
        room: Room,
        stored: Mapping[TopicPartition, int],
    ) -> None:
        self._stored, self._driver = stored, delivery.driver
        stores = delivery.stores
        self._inbox, self._park, self._epochs = stores.inbox, stores.park, stores.epochs
        self._calls, self._order_of = delivery.calls, delivery.order_of
        self._connection, self._held = connection, held
        self._parking = ParkingPlan(
            inbox=self._inbox, park=self._park, epochs=self._epochs, connection=connection, room=room
        )
        self._items = [item if item.failure is None else self._ordered(item) for item in items]
        self._judged = [item for item in self._items if item.failure is None or item.is_judged]
        self._is_plain = _are_plain(items)
        self._is_common = False
        """Whether all events are plain and next, and no event of their aggregates is parked; most batches are."""
        self._behind: set[str] = set()
        self.claims = Claims()

    def _ordered(self, item: Item) -> Item:
        """Return the item, of a message that cannot be read without its aggregate where no order depends on it.

        Where numbers have no gaps, the missing one keeps the order.
        """
        if not item.is_unreadable or not item.is_judged:
            return item
        is_gapless = self._order_of(item.event.aggregate_type).mode.is_gapless
        return item.disordered() if is_gapless or not self._inbox.fits(item.aggregate) else item

    async def run(self) -> Delivered:
        """Do all but the commit."""
        judged: list[tuple[Item, Judgement]] = []
        parking = self._parking
        moves = await self._claim_next() if self._is_plain else None
        if moves is not None:
            await self._calls.run(self._judged, self._connection)
        else:
            locked = await self._lock_redone()
            self.claims = await self._claim()
            await self._fence()
            watermarks, judgements = await self._judge(locked)
            judged = list(zip(self._judged, judgements, strict=True))
            applied, handled = judgements, self._judged
            if not self._is_common:
                applied = [judgement for item, judgement in judged if _is_applied(item, judgement)]
                handled = [item for item, judgement in judged if _is_applied(item, judgement)]
            await self._calls.run(handled, self._connection)
            await self._park_events(judged, handled)
            moves = moves_of(applied, watermarks, parking.blocking)
        parked = await self._inbox.advance(self._connection, self.claims, moves)
        # As a rule nothing is parked.
        successors = successors_of(moves, parked, self._order_of) if parked else {}
        woken = await self._park.wake(self._connection, successors)
        await self._store_offsets()
        outcomes = self._outcomes(judged)
        return Delivered(outcomes=outcomes, parked=parking.reasons, parked_bytes=parking.bytes, woken=woken)

    async def _claim_next(self) -> list[Move] | None:
        """Claim and fence all events by one statement if all are next, and return how their watermarks move."""
        events, aggregates = [item.event for item in self._judged], [item.aggregate for item in self._judged]
        span = span_of(events, aggregates, self._order_of)
        if span is None:
            return None
        expected, lasts = span
        try:
            claimed = await self._inbox.claim_next(
                self._connection, [event.id for event in events], expected, self._held
            )
        except IdClaimedError:
            await self._driver.rollback(self._connection)
            await self._driver.begin(self._connection)
            return None
        if claimed is None:
            return None
        self.claims, self._is_common = claimed.claims, True
        if claimed.is_stale:
            await self._fence()  # which names the partitions
        return [Move(each, claimed.watermarks[each].last, lasts[each]) for each in sorted(lasts)]

    async def _lock_redone(self) -> Mapping[Aggregate, Watermark]:
        """Lock the watermarks of parked events, and skip events that another process removed since they were read."""
        rows = [item.parked.event_id for item in self._items if item.parked is not None]
        if not rows:
            return {}
        parked = [(item, item.parked) for item in self._judged if item.parked is not None]
        redone = {item.aggregate for item, _ in parked if item.is_redone}
        blocked = {row.aggregate for _, row in parked if row.blocks}
        watermarks = await self._inbox.lock_watermarks(self._connection, redone | blocked)
        # Under the ids that their rows have: what could not be read then has another one now.
        there = await self._park.find_parked(self._connection, rows)
        self._behind = behind_unreadable(self._items, there.keys())
        self._judged = [item for item in self._judged if item.parked is None or item.parked.event_id in there]
        return watermarks

    async def _claim(self) -> Claims:
        readable = [item.event for item in self._judged if item.failure is None or not item.is_unreadable]
        orders = {name: self._order_of(name) for name in {event.aggregate_type for event in readable}}
        if not any(order.by_watermark for order in orders.values()):
            return await self._inbox.claim(self._connection, [event.id for event in readable])
        # The park keeps every id.
        self._inbox.refuse([event.id for event in readable])
        ids = [event.id for event in readable if not orders[event.aggregate_type].by_watermark]
        claims = await self._inbox.claim(self._connection, ids)
        return claims if claims.transaction else await self._inbox.identify(self._connection)

    async def _fence(self) -> None:
        """Raise if another consumer was given one of the partitions; do not wait for a lock."""
        refuse_stale(await self._epochs.find_stale(self._connection, self._held))

    async def _store_offsets(self) -> None:
        """Store up to where the partitions' effects go, unless that is not known any more for one of them."""
        last = {item.topic_partition: item for item in self._items if item.parked is None}
        moves = {tp: item.move_from(self._stored.get(tp)) for tp, item in last.items() if tp in self._held}
        refuse_stale(await self._epochs.store_offsets(self._connection, self._held, moves))

    async def _judge(
        self, locked: Mapping[Aggregate, Watermark]
    ) -> tuple[Mapping[Aggregate, Watermark], list[Judgement]]:
        """Judge without locks, and again under lock where events are parked or must be."""
        purged_before = await self._inbox.find_purge(self._connection)
        # A lock was taken after nothing: what it read is as new as it gets.
        others = {item.aggregate for item in self._judged} - locked.keys()
        watermarks = {**await self._inbox.find_watermarks(self._connection, others), **locked}
        unseen: Set[str] = self.claims.new
        if not self._is_plain:
            unseen |= {item.event_id for item in self._judged if item.failure and item.is_unreadable}
        memory = Memory(unseen=unseen, watermarks=watermarks, purged_before=purged_before)
        judgements = self._judgements(memory)
        self._is_common = self._are_common(watermarks, judgements)
        if self._is_common:
            return watermarks, judgements
        blocked = {aggregate for aggregate, watermark in watermarks.items() if watermark.parked}
        wanted = {
            judgement.aggregate
            for item, judgement in zip(self._judged, judgements, strict=True)
            if item.failure is not None
            or (judgement.verdict is not _NEXT and judgement.verdict.is_parked)
            or (blocked and judgement.aggregate in blocked)
            # Its claim was purged: it may be parked all the same, where nothing waits behind it.
            or (judgement.verdict is _DUPLICATE and item.event_id in self.claims.new)
        }
        if wanted:
            watermarks |= await self._inbox.lock_watermarks(self._connection, wanted - locked.keys())
            ids = [item.event_id for item in self._judged if item.aggregate in wanted]
            parked = await self._park.find_parked(self._connection, ids)
            memory = Memory(unseen=unseen, watermarks=watermarks, parked=parked.keys(), purged_before=purged_before)
            judgements = self._judgements(memory)
            judged = zip(self._judged, judgements, strict=True)
            refuse_ids_of_others([judgement for item, judgement in judged if not item.is_unreadable], parked)
        return watermarks, judgements

    def _are_common(self, watermarks: Mapping[Aggregate, Watermark], judgements: Sequence[Judgement]) -> bool:
        is_free = not any(parked for _, parked in watermarks.values())
        return self._is_plain and is_free and {verdict for _, _, verdict, _ in judgements} <= {_NEXT}

    def _judgements(self, memory: Memory) -> list[Judgement]:
        special = [] if self._is_plain else [item for item in self._judged if item.failure or item.parked]
        return judge(
            [item.event for item in self._judged],
            memory,
            self._order_of,
            aggregates=[item.aggregate for item in self._judged],
            failed={item.event_id for item in special if item.failure or item.is_stuck},
            redone={item.event_id for item in special if item.is_redone},
            forced={item.event_id for item in special if item.parked and item.parked.forced},
            behind=self._behind,
        )

    async def _park_events(self, judged: Sequence[tuple[Item, Judgement]], handled: Sequence[Item]) -> None:
        for item in () if self._is_plain else self._items:
            if not item.is_judged:
                await self._parking.put_unreadable(item)
        for item, judgement in () if self._is_common else judged:
            # Most are applied, and there is nothing to do about those.
            if judgement.verdict is not _NEXT or item.failure or item.parked or item.is_begun:
                await self._parking.put(item, judgement)
        await self._parking.settle(self.claims, handled)

    def _outcomes(self, judged: Sequence[tuple[Item, Judgement]]) -> list[Outcome]:
        handled = set(filter(self._calls.has_handler, {item.event.type for item in self._items}))
        if self._is_common:
            return [_APPLIED if item.event.type in handled else Outcome.UNHANDLED for item in self._items]
        outcomes = [_outcome(item, judgement, handled) for item, judgement in judged]
        if len(judged) == len(self._items):
            return outcomes
        by_item = {id(item): outcome for (item, _), outcome in zip(judged, outcomes, strict=True)}
        return [by_item.get(id(item), Outcome.PARKED) for item in self._items]


# An attribute of an enumeration costs a look-up for each event.
_NEXT, _DUPLICATE, _APPLIED = Verdict.NEXT, Verdict.DUPLICATE, Outcome.APPLIED
_DONE = {Verdict.DUPLICATE: Outcome.DUPLICATE, Verdict.SUPERSEDED: Outcome.SUPERSEDED}


def _are_plain(items: Sequence[Item]) -> bool:
    """Return whether all are plain: none was tried before, and none comes out of the park."""
    return not any(item.failure or item.parked or item.is_begun for item in items)


def _is_applied(item: Item, judgement: Judgement) -> bool:
    return judgement.verdict is _NEXT and item.failure is None and (item.parked is None or not item.is_stuck)


def _outcome(item: Item, judgement: Judgement, handled: Set[str]) -> Outcome:
    if _is_applied(item, judgement):
        return _APPLIED if item.event.type in handled else Outcome.UNHANDLED
    came_again = judgement.verdict is Verdict.PARKED and item.parked is None
    return Outcome.DUPLICATE if came_again else _DONE.get(judgement.verdict, Outcome.PARKED)
