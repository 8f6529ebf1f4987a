"""The benchmarks in short: they run and report; how fast is none of a test's business."""

from pathlib import Path
from unittest.mock import Mock

import pytest

from benchmarks import cli, consumer, isolation, machine, parked, relay, relay_commit, writer
from benchmarks.consumers import ids
from benchmarks.consumers.effects import Effects
from benchmarks.consumers.side import table
from benchmarks.consumers.topic import Topic
from benchmarks.consumers.work import UPSERT
from benchmarks.durable import demand_durable
from benchmarks.latency import DEFAULTS, Load, Plan, config_of, measure, report, spec_of
from benchmarks.writers import WRITERS
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.event import new_event_id
from cdc_outbox.spec import Latency
from cdc_outbox.testing import MariaDb, Stack


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


def test_the_relays_benchmark_reports_every_side(outbox_stack: Stack) -> None:
    plan = relay.Plan(events=300, rounds=1, rate=50, seconds=0.2)
    sides, loads = relay.measure(outbox_stack, plan, machine.IdleTime())
    assert [side.name for side in sides] == [relay.RELAY, relay.DEBEZIUM, relay.READER]
    assert all(run.rate > 0 for side in sides for run in side.runs)
    assert all(load.p50 > 0 for rounds in loads.values() for load in rounds)
    found = relay.findings(sides, loads)
    assert len(found) == 5
    printed = relay.report(sides, loads, found)
    assert all(line in printed for line in (*(side.row() for side in sides), *map(str, found)))


def test_the_benchmark_of_two_commits_relays_measures_both(outbox_stack: Stack, tmp_path: Path) -> None:
    relay_commit.extract("HEAD", tmp_path)
    plan = relay.Plan(events=300, rounds=1, rate=50, seconds=0.2)
    sides, loads = relay_commit.measure(outbox_stack, plan, tmp_path, machine.IdleTime())
    assert [(side.name, len(side.runs)) for side in sides] == [(relay_commit.OURS, 1), (relay_commit.THEIRS, 1)]
    assert all(load.p50 > 0 for rounds in loads.values() for load in rounds)


def test_a_commit_whose_relay_is_slower_than_the_other_ones_misses_its_bounds() -> None:
    sides = [relay.Side(relay_commit.OURS), relay.Side(relay_commit.THEIRS)]
    for side, rate in zip(sides, (96, 100), strict=True):
        side.runs.append(relay.Run(rate=rate, cpu=1))
    loads = {relay_commit.OURS: [Load(1, 1.1, 1.2)], relay_commit.THEIRS: [Load(1, 1, 1)]}
    found = relay_commit.findings(sides, loads)
    assert [finding.met for finding in found] == [False, True, False, True]
    printed = relay_commit.report(sides, loads, found)
    assert all(line in printed for line in (*(side.row() for side in sides), *map(str, found)))


def test_the_benchmark_of_isolated_events_reports_every_way(outbox_stack: Stack) -> None:
    rates = isolation.measure(outbox_stack, 20, 1, machine.IdleTime())
    assert len(rates) == 2 * len(isolation.WAYS)
    printed = isolation.report(rates)
    assert all(kind in printed and way in printed for kind, way in rates)


def test_a_server_that_does_not_wait_for_the_disk_is_refused(outbox_stack: Stack) -> None:
    with pytest.raises(RuntimeError, match="fsync is off"):
        demand_durable(outbox_stack)


def test_the_side_of_the_defaults_has_nothing_of_a_profile() -> None:
    config = config_of(DEFAULTS, spec_of(DEFAULTS))
    assert not {"poll.interval.ms", "producer.override.linger.ms"} & config.keys()
    assert config_of("low", spec_of("low"))["producer.override.linger.ms"] == "0"
    assert set(Plan().sides) == {DEFAULTS, *Latency}


@pytest.mark.usefixtures("mariadb")
@pytest.mark.parametrize("driver", WRITERS)
def test_the_writers_benchmark_reports_every_side(outbox_stack: Stack, driver: str) -> None:
    idle = machine.IdleTime()
    for title, sides in writer.measure(outbox_stack, driver, 2, 2, idle):
        assert all(len(side.seconds) == 2 and min(side.seconds) > 0 for side in sides)
        assert sides[0].ratio(sides[0]) == 1
        table = writer.report(title, sides)
        assert all(side.name in table for side in sides)
    assert idle.share is None or 0 <= idle.share <= 1


def test_a_busy_machine_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    # user, nice, system, idle, waiting for a disk, interrupts, stolen
    monkeypatch.setattr(machine, "_read", Mock(side_effect=[[0] * 8, [80, 0, 0, 15, 5, 0, 0, 0]]))
    idle = machine.IdleTime()
    assert (idle.exit_code(met=True), idle.exit_code(met=False)) == (0, 1)
    idle.pause()
    assert idle.share == 0.2
    assert {idle.exit_code(met=True), idle.exit_code(met=False)} == {75}
    assert "20%" in str(idle)


def test_the_commands_benchmark_reports_every_side() -> None:
    sides = cli.measure(1)
    assert all(len(side.seconds) == 1 and side.best > 0 for side in sides)
    table = cli.report(sides)
    assert all(side.name in table for side in sides)
    assert "ratio" in table


def test_the_consumers_benchmark_counts_the_effects_of_every_side(outbox_stack: Stack) -> None:
    plan = consumer.Plan(events=400, slow_events=40, aggregates=40, rounds=1)
    idle = machine.IdleTime()
    sides = consumer.measure(outbox_stack, plan, idle)
    assert {"bare, per event", "ours, per event"} <= {side.name for side in sides}
    for side in sides:
        [run] = side.runs
        assert run.rate > 0
        assert run.cpu > 0
        assert 10 < run.peak_megabytes < consumer.MAX_MEGABYTES
    found = consumer.findings(sides)
    printed = table(sides, found, idle)
    assert str(idle) in printed
    assert all(side.row() in printed for side in sides)
    assert all(str(finding) in printed for finding in found)


def test_the_consumers_benchmark_compares_inboxes_that_remember_few_and_many(outbox_stack: Stack) -> None:
    plan = ids.Plan(counts=(100, 1_000), events=200, per_aggregate=10, claims=3, rounds=2)
    idle = machine.IdleTime()
    sides = ids.measure(outbox_stack, plan, idle)
    assert [len(side.claims) for side in sides] == [2, 2]
    assert all(side.claim > 0 for side in sides)
    printed = table(sides, ids.findings(sides), idle)
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


def rows_read(bench: parked.Bench) -> int:
    """Return what one look makes the database read: rows, and on SQLite the steps of its virtual machine."""
    if bench.dialect is Dialect.SQLITE:
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 1

        bench.connection.set_progress_handler(count, 1)
        bench.look()
        bench.connection.set_progress_handler(None, 1)
        return steps
    if bench.dialect is Dialect.MYSQL:
        bench.fetch("flush status")
        bench.look()
        return sum(int(rows) for _, rows in bench.fetch("show session status like 'Handler_read%'"))
    read = "select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables where relname = 'inbox_parked'"
    with bench.connection.transaction():
        for plan in ("seqscan", "hashjoin", "mergejoin"):  # which is cheaper in a park of this size
            bench.fetch(f"set local enable_{plan} = off")
        [(before,)] = bench.fetch(read)  # of earlier transactions, which the server has not added up yet
        finish(bench.park.find_due(bench.connection, [TopicPartition(parked.TOPIC, 0)], parked.LIMIT))
        [(after,)] = bench.fetch(read)
    return int(after - before)


@pytest.mark.parametrize("dialect", Dialect)
def test_a_look_for_due_events_reads_no_more_where_more_is_parked(
    outbox_stack: Stack, mariadb: MariaDb, dialect: Dialect
) -> None:
    with parked.opened(dialect, outbox_stack, mariadb) as bench:
        for due in (0, 300, None):
            work = []
            for events in (3_000, 30_000):
                bench.fill(events, aggregates=300, due=events if due is None else due)
                work.append(rows_read(bench))
            assert work[1] <= 1.2 * work[0] + 50, f"{due} due: {work}"


def test_the_benchmark_of_parked_events_reports_every_side(outbox_stack: Stack, mariadb: MariaDb) -> None:
    plan = parked.Plan(sizes=(10, 100), due=(5,), aggregates=5, looks=2)
    with parked.opened(Dialect.SQLITE, outbox_stack, mariadb) as bench:
        pairs = list(parked.measure(bench, plan))
    assert [(side.events, side.found) for side in pairs[0]] == [(10, 10), (100, 100)]
    assert "sqlite, 5 due" in parked.report(pairs)
