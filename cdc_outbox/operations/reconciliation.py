"""What an outbox gave out, what its topics hold and what a consumer applied, compared. Pure: values in, and out."""

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple
from zlib import crc32

from cdc_outbox.consumer.ordering import Aggregate
from cdc_outbox.consumer.parked_events import Reason
from cdc_outbox.event import SequenceMode

Span = tuple[int, int]
"""First and last number, both counted in."""


def fingerprint(event_id: str) -> int:
    """Return four bytes that stand for an id: other bytes are another id, the same ones nearly always the same id."""
    return crc32(event_id.encode())


class Numbers:
    """The sequences that a topic holds of one aggregate, each with its id's fingerprint.

    Numbers that come one after the other take four bytes each, whichever is the first; others about a hundred.
    """

    __slots__ = ("_first", "_odd", "_row")

    def __init__(self) -> None:
        self._first = 0
        self._row = array("I")
        self._odd: dict[int, int] = {}
        """What does not follow the row."""

    def add(self, sequence: int, id_fingerprint: int) -> int:
        """Take a number, and return the fingerprint of the first id that came with it."""
        row = self._row
        if not row:
            self._first = sequence
        index = sequence - self._first
        if 0 <= index < len(row):
            return row[index]
        if index != len(row):
            return self._odd.setdefault(sequence, id_fingerprint)
        row.append(id_fingerprint)
        while self._odd and self._first + len(row) in self._odd:
            row.append(self._odd.pop(self._first + len(row)))
        return id_fingerprint

    def get(self, sequence: int) -> int | None:
        """Return the fingerprint of a number's id, ``None`` where there is no such number."""
        index = sequence - self._first
        return self._row[index] if 0 <= index < len(self._row) else self._odd.get(sequence)

    def __contains__(self, sequence: int) -> bool:
        return self.get(sequence) is not None

    def __len__(self) -> int:
        return len(self._row) + len(self._odd)

    @property
    def first(self) -> int:
        """The lowest number, 0 where there is none."""
        return min(self._odd.keys() | ({self._first} if self._row else set()), default=0)

    @property
    def last(self) -> int:
        """The highest number, 0 where there is none."""
        return max(self._first + len(self._row) - 1 if self._row else 0, max(self._odd, default=0))

    def spans(self) -> Iterator[Span]:
        """Return what is there, in order; neighbours that do not touch."""
        parts = [(number, number) for number in sorted(self._odd)]
        if self._row:
            parts.append((self._first, self._first + len(self._row) - 1))
        joined: list[Span] = []
        for first, last in sorted(parts):
            if joined and joined[-1][1] == first - 1:
                joined[-1] = joined[-1][0], last
            else:
                joined.append((first, last))
        yield from joined

    def absent(self, wanted: range) -> list[Span]:
        """Return what is not there of some numbers in a row."""
        gaps, expected, until = [], wanted.start, wanted.stop - 1
        for first, last in self.spans():
            if first > until:
                break
            if first > expected:
                gaps.append((expected, first - 1))
            expected = max(expected, last + 1)
        return [*gaps, (expected, until)] if expected <= until else gaps

    def between(self, after: int, until: int) -> list[Span]:
        """Return what is there above ``after`` and up to ``until``."""
        cut = ((max(first, after + 1), min(last, until)) for first, last in self.spans())
        return [(first, last) for first, last in cut if first <= last]


def count(spans: "list[Span]") -> int:
    """Return how many numbers lie in spans."""
    return sum(last - first + 1 for first, last in spans)


def without(spans: list[Span], numbers: list[int]) -> list[Span]:
    """Return spans without some numbers."""
    left = list(spans)
    for number in numbers:
        for index, (first, last) in enumerate(left):
            if first <= number <= last:
                left[index : index + 1] = [
                    part for part in ((first, number - 1), (number + 1, last)) if part[0] <= part[1]
                ]
                break
    return left


def written(spans: list[Span]) -> str:
    """Return spans as a person writes them, no more than three of them."""
    parts = [str(first) if first == last else f"{first} to {last}" for first, last in spans[:3]]
    more = f" and {count(spans[3:]):,} more" if len(spans) > 3 else ""
    return ", ".join(parts) + more


LATE_OR_LOST = (
    "Check `cdc-outbox status` first: while the connector does not run, they are late. If it runs and has caught up, "
    "they are lost."
)
"""The beginning of a remedy for events that may still come."""
_NOTHING = Numbers()
_WAITING = frozenset({Reason.GAP, Reason.BEHIND})
"""Why an event is parked that waits for an earlier one of its aggregate."""


class DifferenceKind(StrEnum):
    """How two of the three differ."""

    MISSING = "missing"
    """Given out, and not in the topic."""
    EXTRA = "extra"
    """In the topic or applied, and never given out."""
    CONFLICT = "conflict"
    """One number under two ids."""
    UNREADABLE = "unreadable"
    """In the topic, and its event cannot be identified."""
    BEHIND = "behind"
    """In the topic, and not applied."""
    PASSED_OVER = "passed over"
    """The same, and the group's offset is beyond it, so that it does not come by itself."""
    PARKED = "parked"
    """Set aside by the consumer."""
    HOLE = "hole"
    """Accepted as missing; no difference, for an operator decided so."""

    @property
    def is_difference(self) -> bool:
        """Whether the pipeline is not what it promises."""
        return self is not DifferenceKind.HOLE

    @property
    def may_pass(self) -> bool:
        """Whether a later look may find that it was on its way only."""
        return self not in {DifferenceKind.CONFLICT, DifferenceKind.UNREADABLE, DifferenceKind.HOLE}


class Parked(NamedTuple):
    """An event of an aggregate that is set aside."""

    sequence: int | None
    state: str
    reason: str


@dataclass(slots=True)
class Account:
    """One aggregate at the three stages.

    Args:
        given: The outbox's last number before the topic was read.
        given_later: The same after that.
        numbers: What the topic holds.
        partition: Where the last of them is.
        offset: Likewise.
        applied: The consumer's watermark.
    """

    given: int = 0
    given_later: int = 0
    numbers: Numbers | None = None
    partition: int = -1
    offset: int = -1
    applied: int = 0
    parked: list[Parked] | None = None
    holes: list[Span] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """The state of a topic and of the consumer beside the aggregates.

    Args:
        mode: How the aggregate type is numbered.
        consumer: Its name, ``None`` where none is looked at.
        has_heads: Whether the outbox remembers what it gave out.
        starts_later: Whether the topic has begun to forget its oldest messages.
        is_compacted: Whether it forgets all but the latest message of an aggregate.
        committed: The group's offset by partition.
        republishes: Whether `deploy-connector` publishes rows again, as it does on PostgreSQL.
    """

    mode: SequenceMode
    consumer: str | None = None
    has_heads: bool = True
    starts_later: bool = False
    is_compacted: bool = False
    committed: Mapping[int, int] = field(default_factory=dict)
    republishes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One finding about one aggregate, or about a topic.

    Args:
        events: How many it concerns.
        remedy: What to do next.
    """

    kind: DifferenceKind
    location: str
    events: int
    message: str
    remedy: str = ""


def judge(aggregate: Aggregate, account: Account, known: Circumstances, until: int | None = None) -> list[Difference]:
    """Return the differences of an aggregate.

    Args:
        until: The topic's last number at the first look: a later event is not counted as delayed.
    """
    location, found = f"{aggregate.aggregate_type}/{aggregate.aggregate_id} ({aggregate.source})", []
    missing = _missing(account, known)
    if missing:
        found.append(_missing_difference(location, missing, account, known))
    if known.has_heads:
        found.extend(_extra(location, account, known))
    if known.consumer is not None:
        found.extend(_unapplied(location, account, known, until))
    return found


def forgotten(account: Account, known: Circumstances) -> int:
    """Return how many numbers the topic may have held and forgotten, so that nothing is proven of them."""
    absent = _absent(account, known)
    return count(absent) - count(_unexplained(absent, account, known))


def _absent(account: Account, known: Circumstances) -> list[Span]:
    return (account.numbers or _NOTHING).absent(known.mode.known_sequences(account.given))


def _unexplained(absent: list[Span], account: Account, known: Circumstances) -> list[Span]:
    """Return what is absent without what the topic may have forgotten after it was applied."""
    if not (known.starts_later or known.is_compacted):
        return absent
    numbers = account.numbers or _NOTHING
    # Retention takes the oldest first, so it explains nothing behind what is there.
    forgets_until = numbers.first - 1 if numbers and not known.is_compacted else account.given
    if known.consumer is not None:
        parked = [each.sequence for each in account.parked or () if each.sequence is not None]
        absent, forgets_until = without(absent, parked), min(forgets_until, account.applied)
    cut = ((max(first, forgets_until + 1), last) for first, last in absent)
    return [(first, last) for first, last in cut if first <= last]


def _missing(account: Account, known: Circumstances) -> list[Span]:
    return _unexplained(_absent(account, known), account, known)


def _missing_difference(location: str, spans: list[Span], account: Account, known: Circumstances) -> Difference:
    events, numbers = count(spans), account.numbers or _NOTHING
    was, are = ("was", "is") if events == 1 else ("were", "are")
    given = f"{written(spans)} {was} given out and {are} not in the topic"
    republishing = "`cdc-outbox deploy-connector --earlier-events republish`"
    if not known.republishes:
        republishing = "a snapshot (`overrides: {snapshot.mode: initial}`, offsets reset)"
    first, remedy = "", f"Look for the rows in the outbox; {republishing} publishes those that exist."
    if spans[-1][0] <= numbers.last:
        message = f"{given}, which holds later ones: lost, or deleted from the topic."
    else:
        message = f"{given}: late, or lost."
        first = f"{LATE_OR_LOST} "
    if known.consumer is not None and spans[-1][1] <= account.applied:
        message = f"{message} {known.consumer} has applied them."
        first, remedy = (
            "",
            "No action for this consumer; a new one would wait for them (`cdc-outbox baseline`).",
        )
    elif known.starts_later and spans[0][0] < (numbers.first or account.given + 1):
        remedy = (
            f"The topic deletes its oldest messages: accept the missing events with `cdc-outbox baseline`. {remedy}"
        )
    return Difference(
        kind=DifferenceKind.MISSING, location=location, events=events, message=message, remedy=f"{first}{remedy}"
    )


def _extra(location: str, account: Account, known: Circumstances) -> Iterable[Difference]:
    given = max(account.given, account.given_later)
    remedy = (
        "The outbox may have been restored, or written without the writer. After a restore it needs a new "
        "incarnation: `cdc-outbox init --new-incarnation`."
    )
    numbers = account.numbers or _NOTHING
    above = numbers.between(given, numbers.last)
    if above:
        message = f"{written(above)} in the topic, and the outbox has given out no more than {given}."
        yield Difference(
            kind=DifferenceKind.EXTRA, location=location, events=count(above), message=message, remedy=remedy
        )
    elif account.applied > given:
        message = (
            f"{known.consumer} has applied up to {account.applied}, and the outbox has given out no more than {given}."
        )
        yield Difference(
            kind=DifferenceKind.EXTRA, location=location, events=account.applied - given, message=message, remedy=remedy
        )


def _unapplied(location: str, account: Account, known: Circumstances, until: int | None) -> Iterable[Difference]:
    numbers, parked = account.numbers or _NOTHING, account.parked or []
    end = numbers.last if until is None else min(until, numbers.last)
    parked_sequences = [each.sequence for each in parked if each.sequence is not None]
    waiting = without(numbers.between(account.applied, end), parked_sequences)
    if waiting:
        events = count(waiting)
        is_passed = waiting[-1][1] == numbers.last and account.offset < known.committed.get(account.partition, -1)
        message = f"{written(waiting)} in the topic, and {known.consumer} has applied up to {account.applied}"
        if is_passed:
            message += "; its offset is after them, so they are not delivered again without help."
            kind, remedy = DifferenceKind.PASSED_OVER, "`cdc-outbox replay` delivers them to the consumer again."
        else:
            kind, remedy = (
                DifferenceKind.BEHIND,
                "Check that the consumer runs. If it is far behind, raise --settle.",
            )
            message += "."
        yield Difference(kind=kind, location=location, events=events, message=message, remedy=remedy)
    if parked:
        yield parked_difference(location, parked)
    if account.holes:
        message = f"{written(sorted(account.holes))} accepted as missing."
        yield Difference(kind=DifferenceKind.HOLE, location=location, events=count(account.holes), message=message)


def parked_difference(location: str, parked: list[Parked]) -> Difference:
    """Return the difference for parked events of one aggregate."""
    first, *others = sorted(parked, key=lambda event: event.sequence or 0)
    which = f"event {first.sequence}" if first.sequence is not None else "an event"
    message = f"{which} is parked ({first.state}, {first.reason})"
    if others:
        more, one = f"{len(others):,} more", len(others) == 1
        wait = all(other.reason in _WAITING for other in others)
        message += f"; {more} wait{'s' * one} behind it" if wait else f"; {more} {'is' if one else 'are'} parked too"
    remedy = "See `cdc-outbox parked list`; fix the cause, then retry or skip."
    return Difference(
        kind=DifferenceKind.PARKED, location=location, events=len(parked), message=f"{message}.", remedy=remedy
    )
