"""What an operator may decide about parked events, as functions of what is parked. Pure."""

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta

from cdc_outbox.consumer.ordering import Aggregate
from cdc_outbox.consumer.parked_events import Reason, State
from cdc_outbox.errors import InboxError

FORCED = frozenset({Reason.CONFLICT, Reason.EXPIRED})
"""What the same verdict would meet again, so that it is applied in spite of it or not at all."""
_TRIED_WITHIN = timedelta(minutes=1)
"""A consumer looks for what is due each second; the clocks of two machines differ by less."""
_PATIENT = frozenset({Reason.GAP, Reason.BEHIND})
"""Reasons of events that continue once their predecessor is applied, and not before, however often they are tried."""
_IN_TURN = frozenset({Reason.BEHIND, Reason.FAILED, Reason.CRASHED})
"""What no number was missing before when it was parked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedRow:
    """A parked event without its message.

    Args:
        parked_id: The number by which it is named.
        aggregate: Three empty texts where the message cannot be read, and does not tell it either.
        turn: By it, and then by their numbers, an aggregate's events are applied in order.
        tried_at: When it was tried last; of one that never was, when it was parked.
    """

    parked_id: int
    state: State
    reason: Reason
    aggregate: Aggregate
    event_id: str
    type: str
    sequence: int | None
    blocks: bool
    forced: bool
    attempts: int
    error: str
    parked_at: datetime
    tried_at: datetime
    retry_at: datetime | None
    topic: str
    partition: int
    offset: int
    turn: int

    @property
    def is_unreadable(self) -> bool:
        """Whether nothing is known but the message, and its aggregate at best."""
        return self.reason is Reason.UNREADABLE


def not_tried(rows: Iterable[ParkedRow], now: datetime) -> list[ParkedRow]:
    """Return the events that are due for so long that no consumer can be there which tries them."""
    return [row for row in rows if row.state is State.WAITING and row.retry_at and row.retry_at < now - _TRIED_WITHIN]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkFilter:
    """Which parked events are meant; ``None`` is any.

    Args:
        parked_ids: Their numbers.
    """

    parked_ids: tuple[int, ...] | None = None
    state: State | None = None
    reason: Reason | None = None
    source: str | None = None
    aggregate_type: str | None = None
    aggregate_id: str | None = None

    @staticmethod
    def of(aggregate: Aggregate) -> "ParkFilter":
        """Return the one that means all events of an aggregate."""
        source, aggregate_type, aggregate_id = aggregate
        return ParkFilter(source=source, aggregate_type=aggregate_type, aggregate_id=aggregate_id)


@dataclass(frozen=True, slots=True)
class Skip:
    """What it takes to give events of one aggregate up.

    Args:
        after: Where its watermark stands then.
        holes: Those that the watermark is moved over.
        unblocked: How many fewer of its events are parked so that those after them wait.
    """

    after: int
    holes: tuple[ParkedRow, ...]
    unblocked: int


def why_not_retried(row: ParkedRow, *, forced: Set[Reason], claimed: Set[str]) -> str:
    """Return why an event is not to be tried again, empty where it is.

    Args:
        forced: Reasons in spite of which it must be applied.
        claimed: Ids under which an event was applied.
    """
    if row.reason in FORCED and not row.forced and row.reason not in forced:
        return f"it is parked as {row.reason}, and would be parked again: {row.error or 'no error is recorded'}"
    if row.reason in FORCED and row.event_id in claimed:
        return "another event was applied under its id, so it can only be skipped"
    if row.reason in _PATIENT:
        return "it continues when its predecessor is applied"
    return ""


def hint_not_retried(row: ParkedRow, *, forced: Set[Reason]) -> str:
    """Return what to do about an event for which :func:`why_not_retried` has a reason."""
    if row.reason in FORCED - forced:
        return f"--force {row.reason} applies it anyway."
    if row.reason in _PATIENT:
        return "Retry or skip the predecessor; `cdc-outbox parked list` shows it if it is parked."
    return "`cdc-outbox parked skip` gives it up."


def why_not_forced(reason: Reason) -> str:
    """Return why nothing is forced that is parked for a reason which is none of :data:`FORCED`."""
    if reason in _PATIENT:
        return "it continues when its predecessor is applied; a baseline accepts a lost predecessor"
    if reason is Reason.UNREADABLE:
        return "an unreadable message cannot be applied; a retry reads it again"
    return "it is retried without --force"


def decide_skip(chosen: Sequence[ParkedRow], parked: Sequence[ParkedRow], last: int) -> Skip:
    """Return what it takes to skip events of one aggregate.

    Args:
        chosen: Those that are given up.
        parked: All of the aggregate that are parked, those among them.
        last: The aggregate's watermark.

    Raises:
        InboxError: A numbered event is not the next one.
    """
    waiting = sorted((row for row in parked if row.blocks), key=_order)
    holes = []
    after = last
    for row in sorted(chosen, key=_order):
        if row.sequence is not None and row.sequence > after:
            if not _is_next(row, waiting, after):
                raise InboxError(_not_next(row, waiting, after), hint=_hint(row, waiting))
            holes.append(row)
            after = row.sequence
        waiting = [other for other in waiting if other.parked_id != row.parked_id]
    return Skip(after, tuple(holes), sum(row.blocks for row in chosen))


def _order(row: ParkedRow) -> tuple[int, int]:
    return row.turn, row.parked_id


def _is_next(row: ParkedRow, waiting: Sequence[ParkedRow], last: int) -> bool:
    """Return whether nothing is missing before an event; where numbers may have gaps, its reason tells."""
    return row.sequence == last + 1 or (row.reason in _IN_TURN and waiting[0].parked_id == row.parked_id)


def _not_next(row: ParkedRow, waiting: Sequence[ParkedRow], last: int) -> str:
    name = f"{row.aggregate.aggregate_type}/{row.aggregate.aggregate_id}"
    first = waiting[0] if waiting else row
    if first.parked_id != row.parked_id:
        before = f"#{first.sequence}" if first.sequence is not None else f"an event without a number ({first.reason})"
        return f"{row.parked_id} is {name} #{row.sequence}, but {before}, parked as {first.parked_id}, comes first"
    return f"{row.parked_id} is {name} #{row.sequence}, but #{last + 1} has not arrived"


def _hint(row: ParkedRow, waiting: Sequence[ParkedRow]) -> str:
    if waiting and waiting[0].parked_id != row.parked_id:
        return "Retry or skip the earlier ones first."
    source, aggregate_type, aggregate_id = row.aggregate
    return (
        "Wait for the missing events, or accept their loss: `cdc-outbox baseline --aggregate "
        f"{aggregate_type}/{aggregate_id} --source {source}`."
    )
