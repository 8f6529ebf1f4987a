"""The numbers of one aggregate's events, small enough to keep those of a whole topic in memory. Pure."""

from array import array
from collections.abc import Iterator
from zlib import crc32

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
        place = sequence - self._first
        if 0 <= place < len(row):
            return row[place]
        if place != len(row):
            return self._odd.setdefault(sequence, id_fingerprint)
        row.append(id_fingerprint)
        while self._odd and self._first + len(row) in self._odd:
            row.append(self._odd.pop(self._first + len(row)))
        return id_fingerprint

    def get(self, sequence: int) -> int | None:
        """Return the fingerprint of a number's id, ``None`` where there is no such number."""
        place = sequence - self._first
        return self._row[place] if 0 <= place < len(self._row) else self._odd.get(sequence)

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

    def absent(self, until: int) -> list[Span]:
        """Return what is not there of 1 to ``until``."""
        gaps, expected = [], 1
        for first, last in self.spans():
            if first > until:
                break
            if first > expected:
                gaps.append((expected, first - 1))
            expected = last + 1
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
