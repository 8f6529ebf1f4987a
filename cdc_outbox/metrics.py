"""The seam between the components and whatever counts, and every series that crosses it."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

_log = logging.getLogger(__name__)


class Metrics(Protocol):
    """What a component tells about its work.

    Called on the component's own thread, and after the fact that is told is durable. Names and labels are those of
    one of :data:`SERIES`. An implementation must not block, and what it raises is logged once; several components may
    share one.
    """

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Add to a counter, 0 or more: 0 makes it exist, so that its first increase is seen as one."""

    def measure(self, name: str, /, *values: float, **labels: str) -> None:
        """Put values into a histogram: those of a whole batch cost one call."""

    def set(self, name: str, value: float | None, /, **labels: str) -> None:
        """Set a gauge; ``None`` takes it away, as for a partition that belongs to another consumer now."""


class NoMetrics:
    """Count nothing."""

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Forget it."""

    def measure(self, name: str, /, *values: float, **labels: str) -> None:
        """Forget them."""

    def set(self, name: str, value: float | None, /, **labels: str) -> None:
        """Forget it."""


class GuardedMetrics:
    """Tell another's, and let nothing that it raises reach whoever tells; the first of it is logged."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._has_failed = False

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Add to a counter."""
        self._tell(name, lambda: self._metrics.count(name, amount, **labels))

    def measure(self, name: str, /, *values: float, **labels: str) -> None:
        """Put values into a histogram."""
        self._tell(name, lambda: self._metrics.measure(name, *values, **labels))

    def set(self, name: str, value: float | None, /, **labels: str) -> None:
        """Set a gauge."""
        self._tell(name, lambda: self._metrics.set(name, value, **labels))

    def _tell(self, name: str, tell: Callable[[], None]) -> None:
        try:
            tell()
        except Exception:  # noqa: BLE001 - whatever it is, it is not worth an event's effects
            if not self._has_failed:
                _log.exception("metrics fail, which is said once", extra={"series": name})
            self._has_failed = True


class SeriesKind(StrEnum):
    """How the values of a series belong together; each has its method of :class:`Metrics`."""

    COUNTER = "counter"
    """Only grows, until the process ends: ``count``."""
    HISTOGRAM = "histogram"
    """How often a value fell into which bucket: ``measure``."""
    GAUGE = "gauge"
    """The latest value: ``set``."""


@dataclass(frozen=True, slots=True)
class Series:
    """One thing that is told.

    Args:
        name: As Prometheus has it; its end is the unit, and ``_total`` for a counter.
        labels: All of them are given each time. Each has few values, known beforehand, but :data:`OPEN_LABEL`.
        meaning: For the one who looks at it at night.
        buckets: Where a histogram's end, but for the last one, which takes all the rest.
    """

    name: str
    kind: SeriesKind
    labels: tuple[str, ...]
    meaning: str
    buckets: tuple[float, ...] = ()


OPEN_LABEL = "type"
"""The one label whose values come from the messages: the event's type. Implementations bound how many there are."""

_WORK_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""From a statement to what no handler should take."""
_WAY_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
"""From the quickest pipeline to one that was down for a lunch."""
_BATCH_EVENTS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)

SERIES: tuple[Series, ...] = (
    Series(
        "cdc_outbox_consumer_events_total",
        SeriesKind.COUNTER,
        ("consumer", "type", "outcome"),
        "Events that are done with, by what became of them.",
    ),
    Series(
        "cdc_outbox_consumer_batches_total",
        SeriesKind.COUNTER,
        ("consumer", "result"),
        "Transactions, `committed` or `undone`; what is undone is tried again in smaller ones.",
    ),
    Series(
        "cdc_outbox_consumer_batch_events",
        SeriesKind.HISTOGRAM,
        ("consumer",),
        "Events in a committed transaction.",
        _BATCH_EVENTS,
    ),
    Series(
        "cdc_outbox_consumer_batch_seconds",
        SeriesKind.HISTOGRAM,
        ("consumer",),
        "From a transaction's begin to the answer to its commit.",
        _WORK_SECONDS,
    ),
    Series(
        "cdc_outbox_consumer_handler_seconds",
        SeriesKind.HISTOGRAM,
        ("consumer", "type"),
        "One call of a handler, also where it raised.",
        _WORK_SECONDS,
    ),
    Series(
        "cdc_outbox_consumer_end_to_end_seconds",
        SeriesKind.HISTOGRAM,
        ("consumer",),
        "From an event's `created_at` to the commit of its effects, by the clocks of two machines.",
        _WAY_SECONDS,
    ),
    Series(
        "cdc_outbox_consumer_retries_total",
        SeriesKind.COUNTER,
        ("consumer", "reason"),
        "Times that something was tried again, by the class of the error.",
    ),
    Series(
        "cdc_outbox_consumer_parked_events",
        SeriesKind.GAUGE,
        ("consumer", "state", "reason"),
        "Events set aside now, `waiting` or `dead`. It is counted in the database, so every process of the consumer "
        "says the same: take `max`, not `sum`.",
    ),
    Series(
        "cdc_outbox_consumer_parked_bytes",
        SeriesKind.GAUGE,
        ("consumer",),
        "Bytes of the keys, values and headers of the events set aside now. Take `max` here too.",
    ),
    Series(
        "cdc_outbox_consumer_oldest_gap_seconds",
        SeriesKind.GAUGE,
        ("consumer",),
        "For how long the oldest missing event has been waited for; 0 where none is. Take `max` here too.",
    ),
    Series(
        "cdc_outbox_consumer_lag_events",
        SeriesKind.GAUGE,
        ("consumer", "topic", "partition"),
        "Messages of a partition from the one at hand to its end. Only the process that owns the partition says it.",
    ),
    Series(
        "cdc_outbox_consumer_partition_paused",
        SeriesKind.GAUGE,
        ("consumer", "topic", "partition", "reason"),
        "1 while nothing is taken from a partition, and why; there is none where it flows.",
    ),
    Series(
        "cdc_outbox_consumer_assigned_partitions",
        SeriesKind.GAUGE,
        ("consumer",),
        "Partitions that this process owns; their sum over all processes is what the topics have.",
    ),
    Series(
        "cdc_outbox_consumer_rebalances_total",
        SeriesKind.COUNTER,
        ("consumer", "change"),
        "Times that partitions were `assigned`, `revoked` or `lost`.",
    ),
    Series(
        "cdc_outbox_consumer_fenced_total",
        SeriesKind.COUNTER,
        ("consumer",),
        "Transactions that were refused because another process owns the partition by now.",
    ),
    Series(
        "cdc_outbox_consumer_offset_commits_total",
        SeriesKind.COUNTER,
        ("consumer", "result"),
        "Answers to commits of offsets, `committed` or `failed`; what failed is asked for again.",
    ),
    Series(
        "cdc_outbox_consumer_last_progress_timestamp_seconds",
        SeriesKind.GAUGE,
        ("consumer",),
        "When a transaction was last committed, or the run began, in seconds since 1970.",
    ),
)
"""Every series of the consumer."""
