"""The seams in memory: for unit tests that want no database."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cdc_outbox.consumer import Aggregate, Claims, Move
from cdc_outbox.errors import WatermarkMovedError


class MemoryMetrics:
    """Keep the counts, by name and labels."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()

    def count(self, name: str, **labels: str) -> None:
        """Add one."""
        self.counts[name, tuple(sorted(labels.items()))] += 1

    def total(self, name: str, **labels: str) -> int:
        """Return the sum over every series of this name that has these labels."""
        wanted = labels.items()
        return sum(n for (known, found), n in self.counts.items() if known == name and wanted <= dict(found).items())


class MemoryInbox:
    """An inbox without a database: it has no transactions, so what it takes it keeps."""

    def __init__(self) -> None:
        self.claimed: set[str] = set()
        self.watermarks: dict[Aggregate, int] = {}

    def claim(self, connection: Any, event_ids: Sequence[str]) -> Claims:  # noqa: ANN401, ARG002
        """Claim ids and return those that were new."""
        new = frozenset(event_ids) - self.claimed
        self.claimed |= new
        return Claims(new)

    def find_watermarks(
        self,
        connection: Any,  # noqa: ANN401, ARG002
        aggregates: Sequence[Aggregate],
    ) -> Mapping[Aggregate, int]:
        """Return the watermarks of those aggregates that have one."""
        return {aggregate: self.watermarks[aggregate] for aggregate in aggregates if aggregate in self.watermarks}

    def advance(self, connection: Any, claims: Claims, moves: Sequence[Move]) -> None:  # noqa: ANN401, ARG002
        """Move the watermarks, or none of them."""
        wrong = [move for move in moves if self.watermarks.get(move.aggregate, 0) != move.before]
        if wrong:
            raise WatermarkMovedError(f"{len(wrong)} of {len(moves)} watermarks were moved by another consumer")
        self.watermarks |= {move.aggregate: move.after for move in moves}

    def take_back(self, connection: Any, claims: Claims) -> bool:  # noqa: ANN401, ARG002
        """Find nothing: without a transaction nobody can commit one before its time."""
        return False
