"""The benchmarks in short: they run and report; how fast is none of a test's business."""

import pytest

from benchmarks import cli, writer
from benchmarks.latency import DEFAULTS, Plan, config_of, measure, report, spec_of
from benchmarks.writers import WRITERS
from cdc_outbox.spec import Latency
from cdc_outbox.testing import Stack


def test_the_latency_benchmark_reports_every_side(outbox_stack: Stack) -> None:
    brief = {"seconds": 0.2, "idle_seconds": 0.1, "warm_up_seconds": 0, "stable_seconds": 0}
    sides = measure(outbox_stack, Plan(sides=(Latency.BALANCED, Latency.LOW), rates=(50,), **brief))
    assert [side.name for side in sides] == ["balanced", "low"]
    for side in sides:
        [load] = side.loads.values()
        assert 0 < load.p50 <= load.p99
        assert load.mean <= load.p99
    table = report(sides)
    assert all(side.row() in table for side in sides)
    assert sides[1].ratio(sides[0]) in table


def test_the_side_of_the_defaults_has_nothing_of_a_profile() -> None:
    config = config_of(DEFAULTS, spec_of(DEFAULTS))
    assert not {"poll.interval.ms", "producer.override.linger.ms"} & config.keys()
    assert config_of("low", spec_of("low"))["producer.override.linger.ms"] == "0"
    assert set(Plan().sides) == {DEFAULTS, *Latency}


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
