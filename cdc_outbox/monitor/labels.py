"""What stands between a component and a library that counts: the right labels, and not too many of them."""

import logging
from collections.abc import Mapping

from cdc_outbox.metrics import OPEN_LABEL, SERIES, SeriesKind
from cdc_outbox.safe_text import shortened

_log = logging.getLogger(__name__)

OTHER = "other"
"""The event type under which all those are told that came after the bound was reached."""


class Labels:
    """Turn the labels of a series into values in the series' own order.

    Args:
        max_types: How many event types get series of their own. A service has dozens; a writer that puts an id into
            the type by mistake makes one for each event, and each of them would be kept for ever. 200 is far from
            both.
    """

    def __init__(self, *, max_types: int = 200) -> None:
        self._max_types = max_types
        self._types: set[str] = set()
        self._refused: set[str] = set()
        self._known = {series.name: (series, frozenset(series.labels)) for series in SERIES}

    def values(self, name: str, kind: SeriesKind, labels: Mapping[str, str]) -> tuple[str, ...] | None:
        """Return them, or ``None`` where there is no such series; the log tells once."""
        series, wanted = self._known.get(name, (None, frozenset()))
        if series is None or series.kind is not kind or labels.keys() != wanted:
            if name not in self._refused:
                self._refused.add(name)
                _log.warning("unknown series is not told", extra={"series": name, "labels": sorted(labels)})
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
