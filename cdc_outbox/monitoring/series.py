"""The series of the components: names, labels and meanings, and a limit on the number of labels."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cdc_outbox.redaction import shortened


class SeriesKind(StrEnum):
    """The kind of a series; each has its method of :class:`Metrics`."""

    COUNTER = "counter"
    """A total that only grows until the process ends: ``count``."""
    HISTOGRAM = "histogram"
    """The number of values in each bucket: ``measure``."""
    GAUGE = "gauge"
    """The latest value: ``set``."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series.

    Args:
        name: In Prometheus's form: it ends with the unit, and with ``_total`` for a counter.
        labels: Every value has all of them. Each has few values, known beforehand, except :data:`OPEN_LABEL`.
        meaning: One sentence for operators.
        buckets: The upper bounds of a histogram's buckets; a further bucket takes the rest.
    """

    name: str
    kind: SeriesKind
    labels: tuple[str, ...]
    meaning: str
    buckets: tuple[float, ...] = ()


OPEN_LABEL = "type"
"""The one label whose values come from messages: the event's type. Implementations limit their number."""

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
        "Events that are finished, by outcome.",
    ),
    Series(
        "cdc_outbox_consumer_batches_total",
        SeriesKind.COUNTER,
        ("consumer", "result"),
        "Transactions, `committed` or `undone`; undone ones are tried again in smaller ones.",
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
        "Time from the start of a transaction to the answer to its commit.",
        _WORK_SECONDS,
    ),
    Series(
        "cdc_outbox_consumer_handler_seconds",
        SeriesKind.HISTOGRAM,
        ("consumer", "type"),
        "Duration of one call of a handler, including calls that raised.",
        _WORK_SECONDS,
    ),
    Series(
        "cdc_outbox_consumer_end_to_end_seconds",
        SeriesKind.HISTOGRAM,
        ("consumer",),
        "Time from an event's `created_at` to the commit of its effects, by the clocks of two machines.",
        _WAY_SECONDS,
    ),
    Series(
        "cdc_outbox_consumer_retries_total",
        SeriesKind.COUNTER,
        ("consumer", "reason"),
        "Retries, by the class of the error.",
    ),
    Series(
        "cdc_outbox_consumer_parked_events",
        SeriesKind.GAUGE,
        ("consumer", "state", "reason"),
        "Events that are parked now, `waiting` or `dead`. Counted in the database, so every process of the consumer "
        "reports the same: use `max`, not `sum`.",
    ),
    Series(
        "cdc_outbox_consumer_parked_bytes",
        SeriesKind.GAUGE,
        ("consumer",),
        "Bytes of the keys, values and headers of the events that are parked now. Use `max`.",
    ),
    Series(
        "cdc_outbox_consumer_oldest_gap_seconds",
        SeriesKind.GAUGE,
        ("consumer",),
        "How long the oldest missing event has been awaited; 0 if none is missing. Use `max`.",
    ),
    Series(
        "cdc_outbox_consumer_lag_events",
        SeriesKind.GAUGE,
        ("consumer", "topic", "partition"),
        "Messages of a partition from the current one to its end. Reported only by the process that owns the "
        "partition.",
    ),
    Series(
        "cdc_outbox_consumer_partition_paused",
        SeriesKind.GAUGE,
        ("consumer", "topic", "partition", "reason"),
        "1 while no messages are taken from a partition, with the reason; absent otherwise.",
    ),
    Series(
        "cdc_outbox_consumer_assigned_partitions",
        SeriesKind.GAUGE,
        ("consumer",),
        "Partitions that this process owns; the sum over all processes is the number of partitions of the topics.",
    ),
    Series(
        "cdc_outbox_consumer_rebalances_total",
        SeriesKind.COUNTER,
        ("consumer", "change"),
        "Partitions `assigned`, `revoked` or `lost`.",
    ),
    Series(
        "cdc_outbox_consumer_fenced_total",
        SeriesKind.COUNTER,
        ("consumer",),
        "Transactions refused because another process now owns the partition.",
    ),
    Series(
        "cdc_outbox_consumer_offset_commits_total",
        SeriesKind.COUNTER,
        ("consumer", "result"),
        "Results of offset commits, `committed` or `failed`; failed commits are repeated.",
    ),
    Series(
        "cdc_outbox_consumer_last_progress_timestamp_seconds",
        SeriesKind.GAUGE,
        ("consumer",),
        "Time of the last committed transaction, or of the start, in seconds since 1970.",
    ),
    Series(
        "cdc_outbox_relay_events_total",
        SeriesKind.COUNTER,
        ("relay",),
        "Events that were delivered, including those that a restart repeats.",
    ),
    Series(
        "cdc_outbox_relay_errors_total",
        SeriesKind.COUNTER,
        ("relay", "error"),
        "Errors after which the relay starts to read again, by their class.",
    ),
    Series(
        "cdc_outbox_relay_reading",
        SeriesKind.GAUGE,
        ("relay",),
        "1 while this process reads the slot, otherwise 0; the sum over all processes is at most 1.",
    ),
    Series(
        "cdc_outbox_relay_lag_bytes",
        SeriesKind.GAUGE,
        ("relay",),
        "WAL from the slot's confirmed position to its end. Reported only by the process that reads the slot.",
    ),
    Series(
        "cdc_outbox_relay_oldest_undelivered_seconds",
        SeriesKind.GAUGE,
        ("relay",),
        "How long ago the oldest event was read that is not delivered; 0 if there is none.",
    ),
    Series(
        "cdc_outbox_relay_silent_seconds",
        SeriesKind.GAUGE,
        ("relay", "connection"),
        "How long the connection `stream`, `database` or `sink` has not answered a question; 0 while it answers.",
    ),
    Series(
        "cdc_outbox_relay_last_delivery_timestamp_seconds",
        SeriesKind.GAUGE,
        ("relay",),
        "Time of the last delivery, or of the start, in seconds since 1970.",
    ),
)
"""Every series of the consumer and of the relay."""


_log = logging.getLogger(__name__)

OTHER = "other"
"""The label of event types beyond the limit."""


class Labels:
    """Turn the labels of a series into values in the series' own order.

    Args:
        max_types: How many event types have series of their own. A service has dozens. A writer that puts an id into
            the type by mistake has one for each event, and each series would stay for ever. 200 is far from both.
    """

    def __init__(self, *, max_types: int = 200) -> None:
        self._max_types = max_types
        self._types: set[str] = set()
        self._refused: set[str] = set()
        self._known = {series.name: (series, frozenset(series.labels)) for series in SERIES}

    def values(self, name: str, kind: SeriesKind, labels: Mapping[str, str]) -> tuple[str, ...] | None:
        """Return the values of the labels, or ``None`` for an unknown series, which is logged once."""
        series, wanted = self._known.get(name, (None, frozenset()))
        if series is None or series.kind is not kind or labels.keys() != wanted:
            if name not in self._refused:
                self._refused.add(name)
                _log.warning("unknown series is not reported", extra={"series": name, "labels": sorted(labels)})
            return None
        if OPEN_LABEL in labels:
            return tuple(
                self._bounded(labels[label]) if label == OPEN_LABEL else labels[label] for label in series.labels
            )
        return tuple(labels[label] for label in series.labels)

    def _bounded(self, event_type: str) -> str:
        event_type = shortened(event_type)
        if event_type in self._types:
            return event_type
        if len(self._types) >= self._max_types:
            return OTHER
        self._types.add(event_type)
        return event_type
