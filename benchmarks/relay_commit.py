"""The relay of this checkout against the relay of another commit, which take turns on one stack.

The same backlog and the same steady rate as `infra/bench relay`, in pairs: the commit's files are written into a
temporary folder, and its relay runs on the same Python and packages. `infra/bench relay_commit --commit main~1` runs
it; it exits 1 if a bound is missed, and 75 if the machine was too busy to tell.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path

import psycopg

from benchmarks.consumers.side import Finding
from benchmarks.durable import demand_durable
from benchmarks.latency import PASSWORD, Load, prepare
from benchmarks.machine import IdleTime
from benchmarks.relay import (
    CHECKOUT,
    Plan,
    Run,
    Side,
    create_slot,
    drop_slot,
    latency_of_relay,
    publish_by_relay,
    spec_of,
    write_backlog,
)
from cdc_outbox.testing import Stack, StackConfig

OURS, THEIRS = "this checkout", "the commit"
MIN_RATE, MAX_CPU, MAX_P50, MAX_P99 = 0.97, 1.03, 1.05, 1.3
"""The bounds of this checkout, in times of the commit's."""


def main() -> int:
    """Measure both and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--commit", required=True, help="a revision of this repository")
    parser.add_argument("--events", type=int, default=Plan().events, help="of the backlog of each round")
    parser.add_argument("--rounds", type=int, default=Plan().rounds, help="pairs")
    parser.add_argument("--rate", type=int, default=Plan().rate, help="events a second while latency is measured")
    parser.add_argument("--seconds", type=float, default=Plan().seconds, help="of each round of latency")
    options, idle = vars(parser.parse_args()), IdleTime()
    commit = options.pop("commit")
    with tempfile.TemporaryDirectory() as folder:
        extract(commit, Path(folder))
        with Stack(StackConfig(name="bench", environment={"BENCH_PASSWORD": PASSWORD})) as stack:
            demand_durable(stack)
            sides, loads = measure(stack, Plan(**options), Path(folder), idle)
    found = findings(sides, loads)
    print(report(sides, loads, found))
    print(idle)
    return idle.exit_code(met=all(finding.met for finding in found))


def extract(commit: str, folder: Path) -> None:
    """Write a commit's files into a folder."""
    for command in (["clone", "--quiet", "--shared", str(CHECKOUT), str(folder)], ["checkout", "--quiet", commit]):
        if subprocess.run(["git", *command], cwd=folder, check=False).returncode:  # noqa: S603, S607
            raise SystemExit(2)


def measure(stack: Stack, plan: Plan, theirs: Path, idle: IdleTime) -> tuple[list[Side], dict[str, list[Load]]]:
    """Let both take turns at a backlog, then at a steady rate."""
    dsn = stack.postgres.create_database("bench_relay_commit")
    prepare(dsn, spec_of("bench"))
    checkouts = {OURS: CHECKOUT, THEIRS: theirs}
    sides, loads = {name: Side(name) for name in checkouts}, {name: list[Load]() for name in checkouts}
    for number in range(plan.rounds):
        # Who begins alternates: the second one finds warmer caches.
        names = list(checkouts) if number % 2 else [*reversed(checkouts)]
        slots = {name: f"commit_{index}_{number}" for index, name in enumerate(names)}
        with psycopg.connect(dsn, autocommit=True) as connection:
            for slot in slots.values():
                create_slot(connection, slot)
            write_backlog(connection, plan.events)
        for name, slot in slots.items():
            idle.pause()
            sides[name].runs.append(publish_by_relay(stack, dsn, slot, plan.events, checkouts[name]))
            drop_slot(dsn, slot)
        for name, slot in slots.items():
            idle.pause()
            with psycopg.connect(dsn, autocommit=True) as connection:
                create_slot(connection, f"{slot}_latency")
            loads[name].append(latency_of_relay(stack, dsn, f"{slot}_latency", plan, checkouts[name]))
            drop_slot(dsn, f"{slot}_latency")
    return [*sides.values()], loads


def findings(sides: list[Side], loads: dict[str, list[Load]]) -> list[Finding]:
    """Return whether this checkout is within its bounds."""
    ours, theirs = sides

    def ratio(figure: Callable[[Run], float]) -> float:
        return ours.ratio(theirs, figure)

    def latency(figure: Callable[[Load], float]) -> float:
        return statistics.median(figure(our) / figure(their) for our, their in zip(*loads.values(), strict=True))

    rate, cpu = ratio(lambda run: run.rate), ratio(lambda run: run.cpu)
    p50, p99 = latency(lambda load: load.p50), latency(lambda load: load.p99)
    return [
        Finding(f"rate: {rate:.3f} of the commit's, at least {MIN_RATE}", rate >= MIN_RATE),
        Finding(f"CPU: {cpu:.3f} of the commit's, at most {MAX_CPU}", cpu <= MAX_CPU),
        Finding(f"p50: {p50:.2f} of the commit's, at most {MAX_P50}", p50 <= MAX_P50),
        Finding(f"p99: {p99:.2f} of the commit's, at most {MAX_P99}", p99 <= MAX_P99),
    ]


def report(sides: list[Side], loads: dict[str, list[Load]], found: list[Finding]) -> str:
    """Return the tables and the bounds."""
    heading = f"  {f'median of {len(sides[0].runs)} rounds':<28}{'events/s':>12}{'CPU us':>12}{'peak MB':>10}"
    latency = f"  {'INSERT -> consumer, ms':<28}{'mean':>9}{'p50':>9}{'p99':>9}"
    medians = {
        name: Load(*map(statistics.median, zip(*map(astuple, rounds), strict=True))) for name, rounds in loads.items()
    }
    rows = [f"  {name:<28}{load}" for name, load in medians.items()]
    return "\n".join([heading, *(side.row() for side in sides), "", latency, *rows, "", *map(str, found), ""])


if __name__ == "__main__":
    sys.exit(main())
