"""What an event is to a consumer: next, a duplicate, a conflict or a gap. Pure, and always over a list.

========== ============ ================= ============ =============
sequence   id unseen    id seen before    id unseen    id seen
           (gapless)    (gapless)         (increasing) (increasing)
========== ============ ================= ============ =============
≤ last     conflict     duplicate         conflict     duplicate
last + 1   next         conflict          next         conflict
> last + 1 gap          conflict          next         conflict
none       next         duplicate         next         duplicate
========== ============ ================= ============ =============

A stale event with an unseen id is never taken for a duplicate: two events claim one place, and to skip one would be to
lose it. Nor is a known id with a sequence that was never applied.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from cdc_outbox.event import Event, SequenceMode


class Aggregate(NamedTuple):
    """What a watermark is kept for: one aggregate, as one source numbers it."""

    source: str
    aggregate_type: str
    aggregate_id: str


class Verdict(StrEnum):
    """What an event is to a consumer."""

    NEXT = "next"
    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    GAP = "gap"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One event's verdict.

    Args:
        last: The aggregate's watermark just before this event, 0 where there is none.
    """

    event: Event
    verdict: Verdict
    last: int


@dataclass(frozen=True, slots=True)
class Move:
    """An aggregate's watermark, before and after a list of events."""

    aggregate: Aggregate
    before: int
    after: int


def aggregate_of(event: Event) -> Aggregate:
    """Return the aggregate whose watermark judges an event."""
    return Aggregate(event.source or "", event.aggregate_type, event.aggregate_id)


def judge(
    events: Sequence[Event],
    *,
    unseen: Set[str],
    watermarks: Mapping[Aggregate, int],
    mode_of: Callable[[str], SequenceMode],
) -> list[Judgement]:
    """Return each event's verdict, as if they were handled one after the other.

    Args:
        unseen: The ids that were claimed by this transaction, so that nobody had them before.
        watermarks: The last sequence applied of each aggregate; missing means none.
    """
    left, last = set(unseen), dict(watermarks)
    judgements = []
    for event in events:
        aggregate = aggregate_of(event)
        before = last.get(aggregate, 0)
        is_new = event.id in left
        left.discard(event.id or "")
        verdict = _verdict(event.sequence, before, mode_of(event.aggregate_type), is_new=is_new)
        if verdict is Verdict.NEXT and event.sequence is not None:
            last[aggregate] = event.sequence
        judgements.append(Judgement(event, verdict, before))
    return judgements


def moves_of(judgements: Sequence[Judgement]) -> list[Move]:
    """Return how the watermarks move: one move an aggregate, sorted by it."""
    moves: dict[Aggregate, Move] = {}
    for judgement in judgements:
        if judgement.verdict is Verdict.NEXT and judgement.event.sequence is not None:
            aggregate = aggregate_of(judgement.event)
            before = moves[aggregate].before if aggregate in moves else judgement.last
            moves[aggregate] = Move(aggregate, before, judgement.event.sequence)
    return [moves[aggregate] for aggregate in sorted(moves)]


def _verdict(sequence: int | None, last: int, mode: SequenceMode, *, is_new: bool) -> Verdict:
    if sequence is None or mode is SequenceMode.NONE:
        return Verdict.NEXT if is_new else Verdict.DUPLICATE
    if sequence <= last:
        return Verdict.CONFLICT if is_new else Verdict.DUPLICATE
    if not is_new:
        return Verdict.CONFLICT
    if mode is SequenceMode.GAPLESS and sequence > last + 1:
        return Verdict.GAP
    return Verdict.NEXT
