"""The inbox in memory: for unit tests that want no database, and for models of a consumer."""

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from cdc_outbox.consumer.claims import ClaimedNext, Claims, IdClaimedError
from cdc_outbox.consumer.delivery import Stores
from cdc_outbox.consumer.fencing import NO_IDS, NO_OFFSET, Assignment, OffsetMove, TopicId, TopicPartition, partition_of
from cdc_outbox.consumer.ordering import Aggregate, Move, Watermark, aggregate_of
from cdc_outbox.consumer.parked_events import (
    Due,
    Failure,
    ParkedCount,
    ParkedEvent,
    Rank,
    Reason,
    State,
    choose,
    fitting,
)
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import AnyConnection, Parameters, Row, TransactionState
from cdc_outbox.databases.drivers.transactions import already_open
from cdc_outbox.databases.sql import NAMED, ParameterStyle
from cdc_outbox.errors import TransactionEndedError, WatermarkMovedError
from cdc_outbox.event import RecordedEvent
from cdc_outbox.message import Message


@dataclass(slots=True)
class MemoryRow:
    """A parked event, with what judges it."""

    parked: ParkedEvent
    event: RecordedEvent
    retry_at: float | None
    turn: int


@dataclass(slots=True)
class Remembered:
    """All that an inbox remembers, and the effects that a test wants to share its fate."""

    claims: set[str] = field(default_factory=set)
    watermarks: dict[Aggregate, Watermark] = field(default_factory=dict)
    rows: dict[int, MemoryRow] = field(default_factory=dict)
    parked_ids: int = 0
    epochs: dict[TopicPartition, Assignment] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    purged_before: datetime | None = None
    effects: list[Any] = field(default_factory=list)


class MemoryDatabase:
    """A database with one connection: what a transaction did is there after its commit, and gone after a rollback.

    It is its own driver and its own stores: pass it as ``driver``, and :attr:`stores` beside it.
    """

    dialect = Dialect.SQLITE
    style: ParameterStyle = NAMED
    transaction_hint = ""

    _looks = 0
    """How often was looked for what is due."""

    def __init__(self) -> None:
        self.committed = Remembered()
        self.now: Remembered = self.committed
        """As the open transaction sees it."""
        self.clock = 0.0
        """Seconds; parked events are due by it."""
        self._is_open = False

    @property
    def stores(self) -> Stores:
        """Its stores."""
        return Stores(inbox=self, park=self, epochs=self)

    async def joins_transaction(self, connection: AnyConnection) -> bool:  # noqa: ARG002
        """Every statement joins the open transaction."""
        return self._is_open

    async def fetch(self, connection: AnyConnection, sql: str, parameters: Parameters = None) -> list[Row]:
        """Refuse: there is no SQL."""
        raise NotImplementedError(sql)

    async def prepare(self, connection: AnyConnection, *, idle_seconds: float) -> None:
        """Do nothing: no transaction idles here."""

    async def flush(self, connection: AnyConnection) -> None:
        """Do nothing: nothing is held back."""

    async def begin(self, connection: AnyConnection) -> None:  # noqa: ARG002
        """Begin."""
        if self._is_open:
            raise already_open()
        self.now, self._is_open = copy.deepcopy(self.committed), True

    def state(self, connection: AnyConnection) -> TransactionState:  # noqa: ARG002
        """Return whether one is open."""
        return TransactionState.OPEN if self._is_open else TransactionState.ENDED

    async def commit(self, connection: AnyConnection) -> None:  # noqa: ARG002
        """Keep."""
        if not self._is_open:
            raise TransactionEndedError("there is no transaction to commit")
        self.committed, self._is_open = self.now, False

    async def rollback(self, connection: AnyConnection) -> None:  # noqa: ARG002
        """Forget."""
        self.now, self._is_open = self.committed, False

    def fits(self, aggregate: Aggregate) -> bool:  # noqa: ARG002
        """There is room for any."""
        return True

    def refuse(self, event_ids: Sequence[str]) -> None:
        """Refuse nothing: there is room for any."""

    async def claim(self, connection: AnyConnection, event_ids: Sequence[str]) -> Claims:  # noqa: ARG002
        """Claim ids and return those that were new."""
        new = frozenset(event_ids) - self.now.claims
        self.now.claims |= new
        return Claims(new, "1" if new else "")

    async def claim_next(
        self,
        connection: AnyConnection,
        event_ids: Sequence[str],
        expected: Mapping[Aggregate, range],
        held: Mapping[TopicPartition, int],
    ) -> ClaimedNext | None:
        """Read watermarks and epochs, and claim ids if all watermarks are expected and none of the ids is claimed."""
        if not event_ids or not expected:
            return None
        is_stale = bool(await self.find_stale(connection, held))
        watermarks = dict.fromkeys(expected, Watermark()) | dict(await self.find_watermarks(connection, expected))
        if any(parked or last not in expected[aggregate] for aggregate, (last, parked) in watermarks.items()):
            return None
        claims = await self.claim(connection, event_ids)
        if claims.new != set(event_ids):
            raise IdClaimedError
        return ClaimedNext(claims, watermarks, is_stale)

    async def find_claims(self, connection: AnyConnection, event_ids: Sequence[str]) -> set[str]:  # noqa: ARG002
        """Return those ids that are claimed."""
        return set(event_ids) & self.now.claims

    async def identify(self, connection: AnyConnection) -> Claims:  # noqa: ARG002
        """Return the transaction's name."""
        return Claims(transaction="1")

    async def release(self, connection: AnyConnection, event_ids: Iterable[str]) -> None:  # noqa: ARG002
        """Give claims back."""
        self.now.claims -= set(event_ids)

    async def find_purge(self, connection: AnyConnection) -> datetime | None:  # noqa: ARG002
        """Return up to which time ids were forgotten."""
        return self.now.purged_before

    async def find_watermarks(
        self,
        connection: AnyConnection,  # noqa: ARG002
        aggregates: Iterable[Aggregate],
    ) -> Mapping[Aggregate, Watermark]:
        """Return what is remembered of each aggregate."""
        return {
            aggregate: self.now.watermarks[aggregate] for aggregate in aggregates if aggregate in self.now.watermarks
        }

    async def lock_watermarks(
        self,
        connection: AnyConnection,
        aggregates: Iterable[Aggregate],
    ) -> Mapping[Aggregate, Watermark]:
        """Return the same, and make those that are not there."""
        wanted = set(aggregates)
        self.now.watermarks |= {aggregate: self.now.watermarks.get(aggregate, Watermark()) for aggregate in wanted}
        return await self.find_watermarks(connection, wanted)

    async def advance(
        self,
        connection: AnyConnection,  # noqa: ARG002
        claims: Claims,  # noqa: ARG002
        moves: Sequence[Move],
    ) -> Sequence[Aggregate]:
        """Move the watermarks, or none of them."""
        watermarks = self.now.watermarks
        wrong = [move for move in moves if watermarks.get(move.aggregate, Watermark()).last != move.before]
        if wrong:
            raise WatermarkMovedError(f"{len(wrong)} of {len(moves)} watermarks were moved by another consumer")
        for move in moves:
            watermarks[move.aggregate] = Watermark(
                move.after, watermarks.get(move.aggregate, Watermark()).parked + move.parked
            )
        return [move.aggregate for move in moves if watermarks[move.aggregate].parked > 0]

    async def take_back(self, connection: AnyConnection, claims: Claims) -> bool:  # noqa: ARG002
        """Find nothing: no handler can commit a transaction before its time."""
        return False

    async def find_parked(self, connection: AnyConnection, event_ids: Sequence[str]) -> dict[str, Rank]:  # noqa: ARG002
        """Return those ids that are parked, each with its event's rank."""
        found = {row.parked.event_id: (row.parked.aggregate, row.event.sequence) for row in self.now.rows.values()}
        return {event_id: rank for event_id, rank in found.items() if event_id in set(event_ids)}

    async def add(self, connection: AnyConnection, event: RecordedEvent, message: Message, failure: Failure) -> None:
        """Park an event; one that is parked already stays as it is."""
        if await self.find_parked(connection, [event.id]):
            return
        self.now.parked_ids += 1
        parked = ParkedEvent(
            parked_id=self.now.parked_ids,
            event_id=event.id,
            state=failure.state,
            reason=failure.reason,
            blocks=failure.blocks,
            forced=False,
            attempts=failure.attempts,
            message=message,
            is_due=False,
            aggregate=aggregate_of(event),
        )
        last = max((self.now.rows[parked_id].turn for parked_id in self._chain(parked.aggregate)), default=0)
        turn = last if event.sequence is None else event.sequence
        self.now.rows[parked.parked_id] = MemoryRow(parked, event, self._due_at(failure), turn)

    async def remove(self, connection: AnyConnection, parked_ids: Sequence[int]) -> None:  # noqa: ARG002
        """Take events out."""
        for parked_id in parked_ids:
            del self.now.rows[parked_id]

    async def fail(self, connection: AnyConnection, parked_id: int, failure: Failure) -> None:  # noqa: ARG002
        """Note that an event failed again."""
        row = self.now.rows[parked_id]
        row.retry_at = self._due_at(failure)
        row.parked = replace(
            row.parked,
            state=failure.state,
            reason=failure.reason,
            blocks=failure.blocks,
            attempts=failure.attempts,
            forced=row.parked.forced and failure.state is State.WAITING,
        )

    async def rest(self, connection: AnyConnection, parked_ids: Sequence[int]) -> None:  # noqa: ARG002
        """Let events wait for their predecessors."""
        for parked_id in parked_ids:
            self.now.rows[parked_id].retry_at = None

    async def wake(self, connection: AnyConnection, successors: Mapping[Aggregate, int | None]) -> int:  # noqa: ARG002
        """Make due what can be applied now."""
        woken = 0
        for aggregate, successor in successors.items():
            rows = [row for row in self.now.rows.values() if row.parked.blocks and aggregate_of(row.event) == aggregate]
            first = min((row.parked.parked_id for row in rows), default=None)
            for row in rows:
                is_next = row.parked.parked_id == first if successor is None else (row.event.sequence or 0) <= successor
                if is_next and row.parked.state is State.WAITING and row.retry_at is None:
                    row.retry_at = self.clock
                    woken += 1
        return woken

    async def find_due(
        self,
        connection: AnyConnection,  # noqa: ARG002
        owned: Iterable[TopicPartition],
        limit: int,
        most_bytes: float = math.inf,
    ) -> list[ParkedEvent]:
        """Return what is due, each with what waits behind it, in order."""
        ours = set(owned)
        due = sorted(
            (row.retry_at, parked_id)
            for parked_id, row in self.now.rows.items()
            if row.parked.state is State.WAITING
            and row.retry_at is not None
            and row.retry_at <= self.clock
            and partition_of(row.parked.message) in ours
        )
        parked = {parked_id: self.now.rows[parked_id].parked for _, parked_id in due}
        found = [Due(parked_id, row.aggregate, row.blocks, row.message.size) for parked_id, row in parked.items()]
        heads, share = choose(found, limit, self._looks)
        self._looks += 1
        chains = [self._chain(head.aggregate)[:share] if head.blocks else [head.parked_id] for head in heads]
        sized = [[(parked_id, self.now.rows[parked_id].parked.message.size) for parked_id in chain] for chain in chains]
        in_order = sorted(
            fitting(sized, most_bytes),
            key=lambda parked_id: (self.now.rows[parked_id].parked.aggregate, self._turn(parked_id)),
        )
        return [replace(self.now.rows[parked_id].parked, is_due=parked_id in parked) for parked_id in in_order]

    def _chain(self, aggregate: Aggregate) -> list[int]:
        """Return what others wait for or wait, of one aggregate, in the order in which it is applied."""
        rows = self.now.rows.items()
        return sorted(
            (parked_id for parked_id, row in rows if row.parked.blocks and row.parked.aggregate == aggregate),
            key=self._turn,
        )

    def _turn(self, parked_id: int) -> tuple[int, int]:
        return self.now.rows[parked_id].turn, parked_id

    async def find_partitions(self, connection: AnyConnection) -> set[TopicPartition]:  # noqa: ARG002
        """Return the topic-partitions that events came from which wait."""
        parked = (row.parked for row in self.now.rows.values())
        return {partition_of(row.message) for row in parked if row.state is State.WAITING}

    async def count(self, connection: AnyConnection) -> list[ParkedCount]:  # noqa: ARG002
        """Return how many events are parked."""
        firsts: dict[Aggregate, tuple[int, bool]] = {}
        for row in self.now.rows.values():
            if row.parked.blocks:
                aggregate, waits = aggregate_of(row.event), row.parked.reason is Reason.GAP and row.retry_at is None
                found = (row.event.sequence or 0, waits)
                firsts[aggregate] = min(found, firsts.get(aggregate, found))
        return [
            ParkedCount(
                state=row.parked.state,
                reason=row.parked.reason,
                events=1,
                bytes=row.parked.message.size,
                gap_events=int(row.parked.blocks and firsts[aggregate_of(row.event)][1]),
            )
            for row in self.now.rows.values()
        ]

    async def issue(
        self,
        connection: AnyConnection,  # noqa: ARG002
        partitions: Iterable[TopicPartition],
        topic_ids: Mapping[str, TopicId] = NO_IDS,
    ) -> Mapping[TopicPartition, Assignment]:
        """Give partitions to this consumer."""
        issued = {}
        for tp in partitions:
            known = self.now.epochs.get(tp, Assignment(0, 0))
            if known.next_offset is None:
                known = known._replace(topic_id=topic_ids.get(tp.topic, TopicId()))
            known = known._replace(epoch=known.epoch + 1, unfinished=known.unfinished + 1)
            issued[tp] = self.now.epochs[tp] = known
        return issued

    async def find_stale(self, connection: AnyConnection, held: Mapping[TopicPartition, int]) -> list[TopicPartition]:  # noqa: ARG002
        """Return those partitions whose epoch is another one by now."""
        return [tp for tp, epoch in held.items() if self.now.epochs.get(tp, Assignment(0, 0)).epoch != epoch]

    async def store_offsets(
        self,
        connection: AnyConnection,
        held: Mapping[TopicPartition, int],
        moves: Mapping[TopicPartition, OffsetMove],
    ) -> list[TopicPartition]:
        """Store the next offsets of partitions, and return those held that are stale."""
        stale = set(await self.find_stale(connection, held))
        for tp in moves.keys() - stale:
            stored = self.now.epochs[tp].next_offset
            if moves[tp].before in {None, NO_OFFSET if stored is None else stored}:
                known, (_, after, leader) = self.now.epochs[tp], moves[tp]
                leader = known.leader_epoch if leader is None else leader
                self.now.epochs[tp] = known._replace(next_offset=after, leader_epoch=leader)
            else:
                stale.add(tp)
        return sorted(stale)

    async def finish(self, connection: AnyConnection, held: Mapping[TopicPartition, int]) -> None:  # noqa: ARG002
        """Note that work on these partitions gets done."""
        for tp, epoch in held.items():
            if self.now.epochs[tp].epoch == epoch:
                self.now.epochs[tp] = self.now.epochs[tp]._replace(unfinished=0)

    async def start(self, connection: AnyConnection, event_id: str) -> int:  # noqa: ARG002
        """Note that an event is begun."""
        self.now.starts[event_id] = self.now.starts.get(event_id, 0) + 1
        return self.now.starts[event_id]

    async def forget_start(self, connection: AnyConnection, event_id: str) -> None:  # noqa: ARG002
        """Forget that it was begun."""
        self.now.starts.pop(event_id, None)

    def _due_at(self, failure: Failure) -> float | None:
        return None if failure.retry_seconds is None else self.clock + failure.retry_seconds
