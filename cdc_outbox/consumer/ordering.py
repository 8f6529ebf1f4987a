"""What an event is to a consumer, as a function of what the consumer remembers. Pure, and always over a list.

Ids that tell their time sort by it, before all others.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from cdc_outbox.contract.outbox_options import settle
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.event import RecordedEvent, SequenceMode

_TIMED = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
"""A UUIDv7 as our writer writes it."""
_UNTIMED = "~"
UNTIMED_LAG = timedelta(days=7)
"""How much later than the purge that is noted a claim of an id without a time may be, and be forgotten by it: that one
speaks of whole weeks."""


def key_of(event_id: str) -> str:
    """Return what stands in the inbox for an id."""
    return event_id if _TIMED.fullmatch(event_id) else _UNTIMED + event_id


def time_of(event_id: str) -> datetime | None:
    """Return when an id was made, ``None`` where it does not tell."""
    if not _TIMED.fullmatch(event_id):
        return None
    milliseconds = int(event_id[:8] + event_id[9:13], 16)
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # beyond the calendar: later than any horizon
        return None


def bound_at(moment: datetime) -> str:
    """Return the key before which the ids lie that were made before a moment."""
    milliseconds = int(moment.timestamp() * 1000)
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-"


class Aggregate(NamedTuple):
    """What a watermark is kept for: one aggregate, as one source numbers it."""

    source: str
    aggregate_type: str
    aggregate_id: str


class Watermark(NamedTuple):
    """What the inbox remembers of an aggregate.

    Args:
        last: The last sequence that was applied, or skipped on purpose; 0 where there was none.
        parked: How many of its events are parked so that those after them wait.
    """

    last: int = 0
    parked: int = 0


class Verdict(StrEnum):
    """The result of checking an event's id and number."""

    NEXT = "next"
    """Its handler runs."""
    DUPLICATE = "duplicate"
    """It was applied before."""
    SUPERSEDED = "superseded"
    """A later state of the aggregate was applied before."""
    PARKED = "parked"
    """It is parked already."""
    GAP = "gap"
    """A predecessor is missing."""
    BEHIND = "behind"
    """A predecessor is parked."""
    CONFLICT = "conflict"
    """Another event holds its place."""
    EXPIRED = "expired"
    """Whether it was applied before is forgotten."""

    @property
    def is_done(self) -> bool:
        """Whether nothing remains to do but to store the id."""
        return self in {Verdict.DUPLICATE, Verdict.SUPERSEDED}

    @property
    def is_parked(self) -> bool:
        """Whether the event is parked now."""
        return self in {Verdict.GAP, Verdict.BEHIND, Verdict.CONFLICT, Verdict.EXPIRED}


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order of one aggregate type's events.

    Args:
        mode: How they are numbered.
        latest: Whether each carries the whole state, so that only the latest counts.
        by_watermark: Whether their source never goes back, so that no id is stored.
    """

    mode: SequenceMode
    latest: bool = False
    by_watermark: bool = False

    def __post_init__(self) -> None:
        settle(self, {"mode": SequenceMode})

    def successor(self, last: int) -> int | None:
        """Return the one sequence that may follow, ``None`` where whatever comes first may."""
        return None if self.latest else self.mode.successor(last)

    def predecessors(self, sequence: int) -> range:
        """Return the watermarks that an event of this sequence may follow."""
        predecessor = None if self.latest else self.mode.predecessor(sequence)
        return range(predecessor or 0, sequence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What the inbox remembers about the events of a list.

    Args:
        unseen: The ids that this transaction claimed, so that they are new.
        watermarks: Each aggregate's; missing means that it is new.
        parked: Which of the ids are parked.
        purged_before: Ids older than this may have been forgotten by this consumer; ``None`` where none ever was.
    """

    unseen: Set[str]
    watermarks: Mapping[Aggregate, Watermark]
    parked: Set[str] = frozenset()
    purged_before: datetime | None = None


class Judgement(NamedTuple):
    """One event's verdict.

    Args:
        last: The aggregate's watermark just before this event, 0 where there is none.
    """

    event: RecordedEvent
    aggregate: Aggregate
    verdict: Verdict
    last: int


class Move(NamedTuple):
    """An aggregate's watermark, before and after a list of events.

    Args:
        parked: How many more of its events are parked than before; negative where some were taken out.
    """

    aggregate: Aggregate
    before: int
    after: int
    parked: int = 0


def aggregate_of(event: RecordedEvent) -> Aggregate:
    """Return the aggregate whose watermark judges an event."""
    return Aggregate(event.source or "", event.aggregate_type, event.aggregate_id)


def span_of(
    events: Sequence[RecordedEvent], aggregates: Iterable[Aggregate], order_of: Callable[[str], Order]
) -> tuple[Mapping[Aggregate, range], Mapping[Aggregate, int]] | None:
    """Return where the watermarks must be for all events to be next, and where they are then.

    ``None`` if that cannot be; if one has no number, because whether it was applied before may be forgotten; and if one
    has no claim.
    """
    expected: dict[Aggregate, range] = {}
    lasts: dict[Aggregate, int] = {}
    ids = set()
    for event, aggregate in zip(events, aggregates, strict=True):
        sequence, last = event.sequence, lasts.get(aggregate)
        if sequence is None:
            return None
        if last is None or sequence != last + 1:  # which follows in every order
            order = order_of(event.aggregate_type)
            if not order.mode.is_numbered or order.by_watermark:
                return None
            predecessors = order.predecessors(sequence)
            if last is not None and last not in predecessors:
                return None
            expected.setdefault(aggregate, predecessors)
        lasts[aggregate] = sequence
        ids.add(event.id)
    return (expected, lasts) if len(ids) == len(events) else None


def judge(
    events: Sequence[RecordedEvent],
    memory: Memory,
    order_of: Callable[[str], Order],
    *,
    aggregates: Iterable[Aggregate] | None = None,
    failed: Set[str] = frozenset(),
    redone: Set[str] = frozenset(),
    forced: Set[str] = frozenset(),
    behind: Set[str] = frozenset(),
) -> list[Judgement]:
    """Return each event's verdict, as if they were applied one after the other.

    Args:
        aggregates: Those of the events, one for each; by default they are found out.
        failed: Ids of events whose handlers failed, so that they are set aside when they are next.
        redone: Ids of events that come out of the park, an aggregate's in order from its first.
        forced: Ids among them that an operator decided to apply in spite of their verdict.
        behind: Ids among them that wait for one that is not in the list, because it cannot be read any more.
    """
    state = _State(memory, redone, behind)
    # Without failed, forced and parked ids, a new event with the successor's number is next, whatever else is known.
    is_plain = not (failed or forced or memory.parked)
    judgements = []
    for event, aggregate in zip(events, aggregates or map(aggregate_of, events), strict=True):
        event_id, sequence, last = event.id, event.sequence, state.last(aggregate)
        order = order_of(event.aggregate_type)
        is_next = sequence is not None and sequence == order.successor(last)
        if is_next and not order.by_watermark and event_id in state.left and is_plain and not state.parked:
            verdict = _NEXT
            state.left.discard(event_id)
        elif event_id in forced:
            verdict = Verdict.NEXT if state.take(event_id) else Verdict.DUPLICATE
        elif event_id in state.parked or (event_id in memory.parked and event_id not in redone):
            verdict = Verdict.PARKED
        else:
            verdict = _verdict(event, aggregate, last, order, state)
        if verdict is _NEXT and event_id not in failed:
            if sequence is not None:
                state.lasts[aggregate] = max(last, sequence)
        elif not verdict.is_done:
            state.parked.add(event_id)
            if verdict not in _BESIDE:
                state.stopped.add(aggregate)
        judgements.append(Judgement(event, aggregate, verdict, last))
    return judgements


def moves_of(
    applied: Iterable[Judgement],
    watermarks: Mapping[Aggregate, Watermark],
    parked: Mapping[Aggregate, int] | None = None,
) -> list[Move]:
    """Return how what is remembered of aggregates changes: one move each, sorted.

    Args:
        applied: The events that were judged next and applied.
        watermarks: Where they stand.
        parked: How many more events of an aggregate are parked than before, where the number changes.
    """
    lasts: dict[Aggregate, int] = {}
    for event, aggregate, _, last in applied:
        sequence = event.sequence
        if sequence is not None and sequence > last:
            lasts[aggregate] = sequence
    parked = parked or {}
    moves = []
    for aggregate in sorted(lasts.keys() | parked.keys()):
        before = watermarks.get(aggregate, _NEW).last
        moves.append(Move(aggregate, before, lasts.get(aggregate, before), parked.get(aggregate, 0)))
    return moves


def successors_of(
    moves: Iterable[Move], parked: Iterable[Aggregate], order_of: Callable[[str], Order]
) -> dict[Aggregate, int | None]:
    """Return the one sequence that may follow, of each aggregate that moved and has events parked.

    Args:
        parked: Those that have.
    """
    moved = {move.aggregate: move.after for move in moves if move.after != move.before or move.parked < 0}
    return {
        aggregate: order_of(aggregate.aggregate_type).successor(moved[aggregate])
        for aggregate in parked
        if aggregate in moved
    }


def sentence(judgement: Judgement) -> str:
    """Say why an event is set aside."""
    event, last = judgement.event, judgement.last
    # A number that was not reached yet contradicts nothing by itself.
    is_known = event.sequence is not None and event.sequence > last
    why = "another event was applied under its id" if is_known else f"the aggregate is at {last}"
    return {
        Verdict.GAP: f"{event} cannot be applied before #{last + 1}",
        Verdict.BEHIND: f"{event} waits for a parked event of its aggregate",
        Verdict.CONFLICT: f"{event} contradicts what was applied: {why}",
        Verdict.EXPIRED: f"{event} is older than the last purge, so it is unknown whether it was applied",
    }[judgement.verdict]


_NEW = Watermark()
_NEXT = Verdict.NEXT  # an attribute of an enumeration is not looked up for nothing
_BESIDE = {Verdict.PARKED, Verdict.CONFLICT, Verdict.EXPIRED}
"""Verdicts that set an event aside alone: those after it do not depend on it."""


@dataclass(slots=True)
class _State:
    """What changes from one event of a list to the next."""

    memory: Memory
    redone: Set[str]
    behind: Set[str]
    left: set[str] = field(init=False)
    """Ids that are unseen still."""
    blocked: set[Aggregate] = field(init=False)
    """Aggregates of which events are parked, so that those after them wait."""
    lasts: dict[Aggregate, int] = field(default_factory=dict, init=False)
    stopped: set[Aggregate] = field(default_factory=set, init=False)
    """Aggregates of which an event of this list was set aside, so that those after it wait."""
    parked: set[str] = field(default_factory=set, init=False)
    """The ids of those events."""

    def __post_init__(self) -> None:
        self.left = set(self.memory.unseen)
        self.blocked = {aggregate for aggregate, watermark in self.memory.watermarks.items() if watermark.parked > 0}

    def last(self, aggregate: Aggregate) -> int:
        last = self.lasts.get(aggregate)
        return self.memory.watermarks.get(aggregate, _NEW).last if last is None else last

    def take(self, event_id: str) -> bool:
        """Return whether an id is unseen; it is seen from now on."""
        if event_id in self.left:
            self.left.discard(event_id)
            return True
        return False

    def is_blocked(self, aggregate: Aggregate, event_id: str) -> bool:
        if event_id in self.behind or aggregate in self.stopped:
            return True
        # What comes out of the park comes in order and from its first: nothing is before it but what stopped it.
        return aggregate in self.blocked and event_id not in self.redone

    def may_be_forgotten(self, event: RecordedEvent) -> bool:
        horizon = self.memory.purged_before
        if horizon is None or event.id in self.redone:
            return False
        made = time_of(event.id)
        if made is not None:
            return made < horizon
        # An id that tells no time was forgotten by when it was claimed, which is after the event was created.
        return event.created_at < horizon + UNTIMED_LAG


def _verdict(event: RecordedEvent, aggregate: Aggregate, last: int, order: Order, state: _State) -> Verdict:
    is_new = order.by_watermark or state.take(event.id)
    if event.sequence is None or not order.mode.is_numbered:
        return _anywhere(event, aggregate, state) if is_new else Verdict.DUPLICATE
    if event.sequence > last:
        return _later(event, aggregate, last, order, state) if is_new else Verdict.CONFLICT
    if order.by_watermark or not is_new:
        return Verdict.DUPLICATE
    if order.latest:
        return Verdict.SUPERSEDED
    if not state.may_be_forgotten(event):
        return Verdict.CONFLICT
    return Verdict.DUPLICATE if order.mode.is_passed(last, event.sequence) else Verdict.EXPIRED


def _anywhere(event: RecordedEvent, aggregate: Aggregate, state: _State) -> Verdict:
    """Return the verdict on a new event that has no place of its own among the others."""
    # An event behind another is applied after it, and then nothing checks again whether it was before.
    if state.may_be_forgotten(event):
        return Verdict.EXPIRED
    return Verdict.BEHIND if state.is_blocked(aggregate, event.id) else _NEXT


def _later(event: RecordedEvent, aggregate: Aggregate, last: int, order: Order, state: _State) -> Verdict:
    """Return the verdict on a new event whose sequence was not reached yet."""
    if order.latest:
        return _NEXT
    successor = order.mode.successor(last)
    if successor is not None:
        return _NEXT if event.sequence == successor else Verdict.GAP
    return Verdict.BEHIND if state.is_blocked(aggregate, event.id) else _NEXT


def orders_of(contract: WireContract) -> Mapping[str, Order]:
    """Return the order of each aggregate type of a contract."""
    return {
        name: Order(mode=mode, latest=name in contract.latest, by_watermark=name in contract.by_watermark)
        for name, mode in contract.aggregates.items()
    }
