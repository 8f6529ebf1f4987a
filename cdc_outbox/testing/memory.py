"""The seams in memory: for unit tests that want no database."""

from collections import Counter


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
