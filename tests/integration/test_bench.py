"""The benchmarks in short: they run and report; how fast is none of a test's business."""

import pytest

from benchmarks import cli, consumer, writer
from benchmarks.consumers import ids
from benchmarks.consumers.effects import Effects
from benchmarks.consumers.side import table
from benchmarks.consumers.topic import Topic
from benchmarks.consumers.work import UPSERT
from benchmarks.latency import DEFAULTS, Plan, config_of, measure, report, spec_of
from benchmarks.writers import WRITERS
from cdc_outbox.event import new_event_id
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


def test_the_consumers_benchmark_counts_the_effects_of_every_side(outbox_stack: Stack) -> None:
    plan = consumer.Plan(events=400, slow_events=40, aggregates=40, rounds=1)
    sides = consumer.measure(outbox_stack, plan)
    assert {"bare, per event", "ours, per event"} <= {side.name for side in sides}
    for side in sides:
        [run] = side.runs
        assert run.rate > 0
        assert run.cpu > 0
        assert 10 < run.peak_megabytes < consumer.MAX_MEGABYTES
    found = consumer.findings(sides)
    printed = table(sides, found)
    assert all(side.row() in printed for side in sides)
    assert all(str(finding) in printed for finding in found)


def test_the_consumers_benchmark_compares_inboxes_that_remember_few_and_many(outbox_stack: Stack) -> None:
    plan = ids.Plan(counts=(100, 1_000), events=200, per_aggregate=10, claims=3, rounds=2)
    sides = ids.measure(outbox_stack, plan)
    assert [len(side.claims) for side in sides] == [2, 2]
    assert all(side.claim > 0 for side in sides)
    printed = table(sides, ids.findings(sides))
    assert all(side.row() in printed for side in sides)


def test_the_consumers_benchmark_believes_no_consumer_that_loses_an_event_or_has_an_effect_twice(
    outbox_stack: Stack,
) -> None:
    effects = Effects.create(outbox_stack, "bench_effects")
    lasts = [new_event_id() for _ in range(3)]
    topic = Topic(name="bench", events=4, last_ids=lasts)
    for event_id in lasts:
        assert not effects.are_complete(topic)
        effects.connection.execute(UPSERT, (event_id, "1", 42))
    assert effects.are_complete(topic)
    with pytest.raises(RuntimeError, match="3 effects on 3 rows, of 4 events"):
        effects.seconds(topic)
    effects.connection.execute(UPSERT, (lasts[0], "1", 42))
    with pytest.raises(RuntimeError, match="4 effects on 3 rows, of 4 events"):
        effects.seconds(topic)
    effects.connection.close()
