"""What is told to whoever counts."""

import logging

import pytest

from cdc_outbox.telemetry import GuardedMetrics


class Broken:
    """Metrics whose collector is gone."""

    def __init__(self) -> None:
        self.told = 0

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        self._raise(name, amount, labels)

    def measure(self, name: str, /, *values: float, **labels: str) -> None:
        self._raise(name, values, labels)

    def set(self, name: str, value: float | None, /, **labels: str) -> None:
        self._raise(name, value, labels)

    def _raise(self, *told: object) -> None:
        self.told += 1
        raise ConnectionError(told)


def test_metrics_that_raise_reach_nobody_but_the_log_and_that_once(caplog: pytest.LogCaptureFixture) -> None:
    broken = Broken()
    metrics = GuardedMetrics(broken)
    with caplog.at_level(logging.WARNING):
        metrics.count("events_total", 2, consumer="shipping")
        metrics.measure("seconds", 0.5, 0.7, consumer="shipping")
        metrics.set("lag_events", None, consumer="shipping")
    assert broken.told == 3
    [record] = caplog.records
    assert (record.message, vars(record)["series"]) == (
        "metrics backend raised; further errors are suppressed",
        "events_total",
    )
    assert record.exc_info
