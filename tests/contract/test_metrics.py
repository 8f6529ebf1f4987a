"""What all that counts promises: in memory, for Prometheus and for OpenTelemetry."""

import logging
from typing import Any

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    NumberDataPoint,
    Sum,
)
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from cdc_outbox.errors import ConfigError
from cdc_outbox.monitoring.opentelemetry import OpenTelemetryMetrics
from cdc_outbox.monitoring.prometheus import PrometheusMetrics
from cdc_outbox.monitoring.series import SERIES, Series, SeriesKind
from cdc_outbox.telemetry import Metrics, NoMetrics
from cdc_outbox.testing import MemoryMetrics

EVENTS = "cdc_outbox_consumer_events_total"
HANDLER = "cdc_outbox_consumer_handler_seconds"
LAG = "cdc_outbox_consumer_lag_events"
APPLIED = {"consumer": "shipping", "type": "OrderPlaced", "outcome": "applied"}
PLACED = {"consumer": "shipping", "type": "OrderPlaced"}
FIRST = {"consumer": "shipping", "topic": "orders", "partition": "0"}
SECOND = FIRST | {"partition": "1"}

Told = dict[tuple[str, frozenset[tuple[str, str]]], Any]
"""Series and labels, in Prometheus's spelling → a number, or how many values a histogram has and their sum."""


def at(name: str, labels: dict[str, str]) -> tuple[str, frozenset[tuple[str, str]]]:
    return name, frozenset(labels.items())


class MetricsContract:
    """Subclasses say what counts, and how to see what arrived."""

    @pytest.fixture
    def metrics(self) -> Metrics:
        raise NotImplementedError

    def told(self, metrics: Any) -> Told:
        raise NotImplementedError

    def test_a_counter_adds_up(self, metrics: Metrics) -> None:
        metrics.count(EVENTS, **APPLIED)
        metrics.count(EVENTS, 41, **APPLIED)
        metrics.count(EVENTS, 0, **APPLIED | {"outcome": "duplicate"})
        assert self.told(metrics) == {at(EVENTS, APPLIED): 42, at(EVENTS, APPLIED | {"outcome": "duplicate"}): 0}

    def test_a_histogram_takes_the_values_of_a_whole_batch(self, metrics: Metrics) -> None:
        metrics.measure(HANDLER, 0.25, 0.5, **PLACED)
        metrics.measure(HANDLER, 1.25, **PLACED)
        assert self.told(metrics) == {at(HANDLER, PLACED): (3, 2.0)}

    def test_a_gauge_says_the_latest_value_of_each_set_of_labels(self, metrics: Metrics) -> None:
        metrics.set(LAG, 7, **FIRST)
        metrics.set(LAG, 3, **SECOND)
        metrics.set(LAG, 5, **FIRST)
        assert self.told(metrics) == {at(LAG, FIRST): 5, at(LAG, SECOND): 3}

    def test_a_gauge_that_is_taken_away_is_gone_until_it_is_set_again(self, metrics: Metrics) -> None:
        metrics.set(LAG, 7, **FIRST)
        metrics.set(LAG, 3, **SECOND)
        assert self.told(metrics)
        metrics.set(LAG, None, **FIRST)
        metrics.set(LAG, None, **FIRST)
        assert self.told(metrics) == {at(LAG, SECOND): 3}
        # The labels in another order are the same labels.
        metrics.set(LAG, 1, **dict(reversed(FIRST.items())))
        assert self.told(metrics) == {at(LAG, FIRST): 1, at(LAG, SECOND): 3}

    @pytest.mark.parametrize("series", SERIES, ids=lambda series: series.name)
    def test_every_series_arrives_under_its_name_and_with_its_labels(self, metrics: Metrics, series: Series) -> None:
        labels = {label: f"{label} ü\"\\\n'{{}}" for label in series.labels}
        expected: Any = 2.0
        match series.kind:
            case SeriesKind.COUNTER:
                metrics.count(series.name, 2, **labels)
            case SeriesKind.HISTOGRAM:
                metrics.measure(series.name, 2.0, **labels)
                expected = (1, 2.0)
            case SeriesKind.GAUGE:
                metrics.set(series.name, 2.0, **labels)
        assert self.told(metrics) == {at(series.name, labels): expected}


class TestMemoryMetrics(MetricsContract):
    @pytest.fixture
    def metrics(self) -> MemoryMetrics:
        return MemoryMetrics()

    def told(self, metrics: MemoryMetrics) -> Told:
        keys = {**metrics.counts, **metrics.gauges}
        measured = {key: (len(values), sum(values)) for key, values in metrics.values.items()}
        return {at(name, dict(labels)): value for (name, labels), value in (keys | measured).items()}

    def test_it_is_read_by_name_and_labels(self, metrics: MemoryMetrics) -> None:
        metrics.count(EVENTS, 3, **APPLIED)
        metrics.measure(HANDLER, 0.5, 0.25, **PLACED)
        metrics.set(LAG, 7, **FIRST)
        assert metrics.total(EVENTS) == metrics.total(EVENTS, outcome="applied") == 3
        assert metrics.total(EVENTS, outcome="duplicate") == 0
        assert metrics.measured(HANDLER, **PLACED) == [0.5, 0.25]
        assert metrics.measured(HANDLER, **PLACED | {"type": "Other"}) == []
        assert (metrics.gauge(LAG, **FIRST), metrics.gauge(LAG, **SECOND)) == (7, None)

    def test_it_refuses_what_no_dashboard_would_ever_show(self, metrics: MemoryMetrics) -> None:
        with pytest.raises(LookupError, match="there is no counter cdc_outbox_consumer_events_totl"):
            metrics.count("cdc_outbox_consumer_events_totl", **APPLIED)
        with pytest.raises(LookupError, match="with the labels consumer"):
            metrics.count(EVENTS, consumer="shipping")
        with pytest.raises(LookupError, match="there is no gauge cdc_outbox_consumer_events_total"):
            metrics.set(EVENTS, 1, **APPLIED)


class ForeignMetricsContract(MetricsContract):
    """What goes to another library bears the mistakes of components and of messages."""

    def bounded(self, max_types: int) -> Metrics:
        raise NotImplementedError

    def test_what_is_no_series_is_left_out_and_logged_once(
        self, metrics: Metrics, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                metrics.count("cdc_outbox_consumer_evnts_total", **APPLIED)
                metrics.measure(HANDLER, 1.0, consumer="shipping")
                metrics.set(EVENTS, 1, **APPLIED)
        assert [vars(record)["series"] for record in caplog.records] == [
            "cdc_outbox_consumer_evnts_total",
            HANDLER,
            EVENTS,
        ]
        assert self.told(metrics) == {}

    def test_event_types_beyond_the_bound_are_told_as_one(self) -> None:
        metrics = self.bounded(2)
        for number in (1, 2, 3, 4, 2):
            metrics.count(EVENTS, **APPLIED | {"type": f"T{number}"})
        counted = {dict(labels)["type"]: n for (_, labels), n in self.told(metrics).items()}
        assert counted == {"T1": 1, "T2": 2, "other": 2}


class TestPrometheusMetrics(ForeignMetricsContract):
    @pytest.fixture
    def metrics(self) -> PrometheusMetrics:
        return PrometheusMetrics(CollectorRegistry())

    def bounded(self, max_types: int) -> PrometheusMetrics:
        return PrometheusMetrics(CollectorRegistry(), max_types=max_types)

    def told(self, metrics: PrometheusMetrics) -> Told:
        return scraped(metrics.exposition()[1].decode())

    def test_a_histogram_has_the_buckets_of_its_series(self, metrics: PrometheusMetrics) -> None:
        [series] = [series for series in SERIES if series.name == HANDLER]
        metrics.measure(HANDLER, 0.3, **PLACED)
        families = text_string_to_metric_families(metrics.exposition()[1].decode())
        [bounds] = [
            [float(sample.labels["le"]) for sample in family.samples if sample.name.endswith("_bucket")]
            for family in families
            if family.name == HANDLER
        ]
        assert bounds == [*series.buckets, float("inf")]

    def test_a_scrape_chooses_the_format(self, metrics: PrometheusMetrics) -> None:
        metrics.count(EVENTS, **APPLIED)
        content_type, text = metrics.exposition("application/openmetrics-text; version=1.0.0")
        assert content_type.startswith("application/openmetrics-text")
        assert text.endswith(b"# EOF\n")

    def test_a_registry_takes_one_of_them(self) -> None:
        registry = CollectorRegistry()
        PrometheusMetrics(registry)
        with pytest.raises(ConfigError, match="has series of this package") as caught:
            PrometheusMetrics(registry)
        assert "Create one PrometheusMetrics" in caught.value.hint


class TestOpenTelemetryMetrics(ForeignMetricsContract):
    @pytest.fixture
    def metrics(self) -> OpenTelemetryMetrics:
        return self.bounded(200)

    def bounded(self, max_types: int) -> OpenTelemetryMetrics:
        self.reader = InMemoryMetricReader()
        return OpenTelemetryMetrics(MeterProvider([self.reader]).get_meter("tests"), max_types=max_types)

    def told(self, metrics: OpenTelemetryMetrics) -> Told:
        found: Told = {}
        collected = self.reader.get_metrics_data()
        for metric in (
            metric
            for resource in (collected.resource_metrics if collected else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        ):
            unit = {"s": "_seconds", "": ""}[metric.unit or ""]
            name = metric.name.replace(".", "_") + unit + ("_total" if isinstance(metric.data, Sum) else "")
            for point in metric.data.data_points:
                key = at(name, {label: str(value) for label, value in (point.attributes or {}).items()})
                match point:
                    case HistogramDataPoint():
                        found[key] = (point.count, point.sum)
                    case NumberDataPoint():
                        found[key] = point.value
        return found

    def test_through_its_exporter_the_rules_for_prometheus_fit(self) -> None:
        through, direct = CollectorRegistry(), CollectorRegistry()
        provider = MeterProvider([PrometheusMetricReader(registry=through, scope_info_enabled=False)])
        for metrics in (OpenTelemetryMetrics(provider.get_meter("tests")), PrometheusMetrics(direct)):
            metrics.count(EVENTS, 2, **APPLIED)
            metrics.measure(HANDLER, 0.5, **PLACED)
            metrics.set(LAG, 7, **FIRST)
        exported, scrape = (scraped(generate_latest(registry).decode()) for registry in (through, direct))
        provider.shutdown()
        assert exported == scrape != {}


def scraped(text: str) -> Told:
    """Return the series of this package in what Prometheus would get."""
    samples = {
        at(sample.name, sample.labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    found: Told = {}
    for (name, labels), value in samples.items():
        if name.endswith("_count"):
            of = name.removesuffix("_count")
            found[of, labels] = (value, samples[f"{of}_sum", labels])
        elif name.startswith("cdc_outbox_") and not name.endswith(("_sum", "_bucket", "_created")):
            found[name, labels] = value
    return found


def test_nothing_is_counted_by_default() -> None:
    metrics: Metrics = NoMetrics()
    metrics.count(EVENTS, **APPLIED)
    metrics.measure(HANDLER, 1.0, **PLACED)
    metrics.set(LAG, None, **FIRST)
