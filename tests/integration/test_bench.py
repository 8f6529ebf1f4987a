"""The benchmarks in short: they run and report; how fast is none of a test's business."""

import pytest

from benchmarks import cli, writer
from benchmarks.latency import measure, report
from benchmarks.writers import WRITERS
from cdc_outbox.testing import Stack


def test_the_latency_benchmark_reports_both_sides(outbox_stack: Stack) -> None:
    defaults, balanced = measure(outbox_stack, 50, 1, 0.2)
    for side in (defaults, balanced):
        assert 0 < side.mean <= side.longest
        assert side.p50 <= side.p99 <= side.longest
    table = report(defaults, balanced, 50)
    assert "Debezium's defaults" in table
    assert "balanced" in table
    assert "ratio" in table


@pytest.mark.usefixtures("mariadb")
@pytest.mark.parametrize("driver", WRITERS)
def test_the_writers_benchmark_reports_every_side(outbox_stack: Stack, driver: str) -> None:
    for title, sides in writer.measure(outbox_stack, driver, 2, 2):
        assert all(len(side.seconds) == 2 and min(side.seconds) > 0 for side in sides)
        assert sides[0].ratio(sides[0]) == 1
        table = writer.report(title, sides)
        assert all(side.name in table for side in sides)


def test_the_commands_benchmark_reports_every_side() -> None:
    sides = cli.measure(1)
    assert all(len(side.seconds) == 1 and side.best > 0 for side in sides)
    table = cli.report(sides)
    assert all(side.name in table for side in sides)
    assert "ratio" in table
