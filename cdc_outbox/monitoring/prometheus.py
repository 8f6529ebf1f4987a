"""Metrics for Prometheus; needs the extra ``metrics``."""

import contextlib
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

from cdc_outbox.errors import ConfigError
from cdc_outbox.monitoring.series import SERIES, Labels, Series, SeriesKind


class PrometheusMetrics:
    """Report the components' metrics to a registry of prometheus_client.

    One is enough for a process: a label distinguishes consumers. A process that forks is not supported: give each
    consumer process a port of its own.

    Args:
        registry: The process's own by default, so that whatever shows that one shows these too.
        max_types: How many event types get series of their own; later types are reported as ``other``.

    Raises:
        ConfigError: The registry has these series already.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY, *, max_types: int = 200) -> None:
        self._registry = registry
        self._labels = Labels(max_types=max_types)
        try:
            self._families = {series.name: _family(series, registry) for series in SERIES}
        except ValueError as error:
            raise ConfigError(
                f"the registry already has series of this package: {error}",
                field="PrometheusMetrics.registry",
                hint="Create one PrometheusMetrics and pass it to every consumer of the process.",
            ) from error

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Add to a counter."""
        values = self._labels.values(name, SeriesKind.COUNTER, labels)
        if values is not None and amount >= 0:
            self._families[name].labels(*values).inc(amount)

    def measure(self, name: str, /, *measured: float, **labels: str) -> None:
        """Put values into a histogram."""
        values = self._labels.values(name, SeriesKind.HISTOGRAM, labels)
        if values is not None:
            histogram = self._families[name].labels(*values)
            for value in measured:
                histogram.observe(value)

    def set(self, name: str, value: float | None, /, **labels: str) -> None:
        """Set a gauge, or take it away."""
        values = self._labels.values(name, SeriesKind.GAUGE, labels)
        if values is None:
            return
        if value is None:
            with contextlib.suppress(KeyError):  # some releases mind that it never was there
                self._families[name].remove(*values)
        else:
            self._families[name].labels(*values).set(value)

    def exposition(self, accept: str = "") -> tuple[str, bytes]:
        """Return the registry's whole content as a scrape gets it: the content type, and the text in it.

        Args:
            accept: The header of that name, which chooses the format.
        """
        encode, content_type = choose_encoder(accept)
        return content_type, encode(self._registry)


def _family(series: Series, registry: CollectorRegistry) -> Any:  # noqa: ANN401 - three classes without a common one
    arguments: dict[str, Any] = {"labelnames": series.labels, "registry": registry}
    match series.kind:
        case SeriesKind.COUNTER:
            return Counter(series.name, series.meaning, **arguments)
        case SeriesKind.HISTOGRAM:
            return Histogram(series.name, series.meaning, buckets=series.buckets, **arguments)
        case SeriesKind.GAUGE:
            return Gauge(series.name, series.meaning, **arguments)
