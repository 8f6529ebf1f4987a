"""The seams in memory: for unit tests that want no database."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from cdc_outbox.event import RecordedEvent
from cdc_outbox.monitoring.series import SERIES, SeriesKind
from cdc_outbox.telemetry import Arrival

_Key = tuple[str, tuple[tuple[str, str], ...]]


class MemoryMetrics:
    """Store metrics in memory, by name and labels.

    It refuses a series that is not in :data:`cdc_outbox.monitoring.series.SERIES`, so a test finds a misspelled label.
    """

    def __init__(self) -> None:
        self.counts: Counter[_Key] = Counter()
        self.values: defaultdict[_Key, list[float]] = defaultdict(list)
        """The values that were measured, in order."""
        self.gauges: dict[_Key, float] = {}
        self.refused: list[str] = []
        """What it refused: a consumer lets nothing that metrics raise come to the surface."""

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Add to a counter.

        Raises:
            LookupError: There is no such counter, or its labels are others.
        """
        self.counts[self._key(name, SeriesKind.COUNTER, labels)] += amount

    def measure(self, name: str, /, *values: float, **labels: str) -> None:
        """Keep the values; raises what :meth:`count` raises."""
        self.values[self._key(name, SeriesKind.HISTOGRAM, labels)] += values

    def set(self, name: str, value: float | None, /, **labels: str) -> None:
        """Keep the latest value; raises what :meth:`count` raises."""
        key = self._key(name, SeriesKind.GAUGE, labels)
        if value is None:
            self.gauges.pop(key, None)
        else:
            self.gauges[key] = value

    def total(self, name: str, **labels: str) -> int:
        """Return the sum over every counter of this name that has these labels."""
        wanted = labels.items()
        return sum(n for (known, found), n in self.counts.items() if known == name and wanted <= dict(found).items())

    def measured(self, name: str, **labels: str) -> list[float]:
        """Return the values of one histogram, in order."""
        return list(self.values.get(self._key(name, SeriesKind.HISTOGRAM, labels), ()))

    def gauge(self, name: str, **labels: str) -> float | None:
        """Return the latest value of one gauge, if it has one."""
        return self.gauges.get(self._key(name, SeriesKind.GAUGE, labels))

    def _key(self, name: str, kind: SeriesKind, labels: Mapping[str, str]) -> _Key:
        if not any(one.name == name and one.kind is kind and set(one.labels) == set(labels) for one in SERIES):
            self.refused.append(f"there is no {kind} {name} with the labels {', '.join(labels) or 'none'}")
            raise LookupError(self.refused[-1])
        return name, tuple(sorted(labels.items()))


class MemorySpans:
    """Store spans in memory, in the order of their ends."""

    def __init__(self) -> None:
        self.ended: list[MemorySpan] = []

    @contextmanager
    def process(self, consumer: str, arrivals: Sequence[Arrival]) -> Iterator[None]:
        """Keep the span at its end."""
        events = tuple(event for event, _ in arrivals)
        try:
            yield
        except BaseException as error:
            self.ended.append(MemorySpan(consumer, events, type(error)))
            raise
        self.ended.append(MemorySpan(consumer, events, None))


class MemorySpan(NamedTuple):
    """One call of a handler: the consumer's name, what the handler was given, and the class of what it raised."""

    consumer: str
    events: tuple[RecordedEvent, ...]
    error: type[BaseException] | None
