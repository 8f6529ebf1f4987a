"""Metrics for OpenTelemetry; needs the extra ``otel``, and an SDK of the service's choice."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry.metrics import CallbackOptions, Meter, Observation, get_meter

from cdc_outbox.monitoring.series import SERIES, Labels, Series, SeriesKind

_GROUP = re.compile(r"^cdc_outbox_([a-z]+)_")
_Values = tuple[str, ...]


class OpenTelemetryMetrics:
    """Report the components' metrics to a meter.

    Names are OpenTelemetry's: ``cdc_outbox_consumer_handler_seconds`` is ``cdc_outbox.consumer.handler`` with the
    unit ``s``. What exports them to Prometheus makes the first out of the second again, so the rules that are
    written for one fit the other.

    Args:
        meter: The global provider's by default.
        max_types: How many event types get series of their own; later types are reported as ``other``.
    """

    def __init__(self, meter: Meter | None = None, *, max_types: int = 200) -> None:
        self._labels = Labels(max_types=max_types)
        self._series = {series.name: series for series in SERIES}
        self._gauges: dict[str, dict[_Values, float]] = {
            series.name: {} for series in SERIES if series.kind is SeriesKind.GAUGE
        }
        meter = meter or get_meter("cdc_outbox")
        self._instruments = {series.name: self._instrument(series, meter) for series in SERIES}

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Add to a counter."""
        values = self._labels.values(name, SeriesKind.COUNTER, labels)
        if values is not None:
            self._instruments[name].add(amount, self._attributes(name, values))

    def measure(self, name: str, /, *measured: float, **labels: str) -> None:
        """Put values into a histogram."""
        values = self._labels.values(name, SeriesKind.HISTOGRAM, labels)
        if values is not None:
            attributes = self._attributes(name, values)
            for value in measured:
                self._instruments[name].record(value, attributes)

    def set(self, name: str, value: float | None, /, **labels: str) -> None:
        """Set a gauge, or take it away."""
        values = self._labels.values(name, SeriesKind.GAUGE, labels)
        if values is None:
            return
        if value is None:
            self._gauges[name].pop(values, None)
        else:
            self._gauges[name][values] = value

    def _attributes(self, name: str, values: _Values) -> dict[str, str]:
        return dict(zip(self._series[name].labels, values, strict=True))

    def _instrument(self, series: Series, meter: Meter) -> Any:  # noqa: ANN401 - three classes without a common one
        name, unit = _named(series)
        match series.kind:
            case SeriesKind.COUNTER:
                return meter.create_counter(name, unit, series.meaning)
            case SeriesKind.HISTOGRAM:
                return meter.create_histogram(
                    name, unit, series.meaning, explicit_bucket_boundaries_advisory=series.buckets
                )
            case SeriesKind.GAUGE:
                # Observed and not set: a gauge that is set cannot be removed again.
                return meter.create_observable_gauge(name, [self._observations(series)], unit, series.meaning)

    def _observations(self, series: Series) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            # A copy, because the component continues meanwhile.
            latest = self._gauges[series.name].copy()
            return [Observation(value, self._attributes(series.name, values)) for values, value in latest.items()]

        return observe


def _named(series: Series) -> tuple[str, str]:
    """Return a series' name and unit as OpenTelemetry spells them."""
    name = _GROUP.sub(r"cdc_outbox.\1.", series.name.removesuffix("_total"))
    # Counts have no unit: the "1" that looks right becomes "_ratio" on its way to Prometheus.
    return (name.removesuffix("_seconds"), "s") if name.endswith("_seconds") else (name, "")
