"""Events of a real topic become one row each: consumers written by hand against `Consumer`, in one run.

Every contestant is a process of its own that reads the whole topic with a new group; the database says when it is done
and how long it took from the first effect to the last. They take turns in rounds of one run, so that what else the
machine does meets all of them; a ratio is the median over the rounds. Before each contestant is a pause: how idle the
machine is then tells whether the ratios mean anything. `infra/bench consumer` runs it; it exits 1 if a bound is missed,
and 75 if the machine was too busy to tell.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from benchmarks.consumers import CONTESTANTS, SLOW, ids
from benchmarks.consumers.effects import Effects
from benchmarks.consumers.side import Finding, Side, run, table
from benchmarks.consumers.topic import fill
from benchmarks.durable import demand_durable
from benchmarks.machine import IdleTime
from cdc_outbox.testing import Stack, StackConfig

MAX_MEGABYTES = 150
"""Resident, of our consumers, what the Kafka client has fetched ahead included."""
BOUNDS = (
    ("ours, per event", "bare, per event", 0.97, "statements, per event"),
    ("ours, pipeline", "bare, pipeline", 0.80, "statements, pipeline"),
    ("ours, on_batch", "bare, one statement", 0.60, "statements, on_batch"),
    ("ours, on_batch", "one transaction a message", 16, "statements, on_batch"),
)
"""How many times as fast as another one a contestant must be, and which one shows what its statements leave of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured.

    Args:
        slow_events: For those that wait for the disk at every message.
        aggregates: How many the events are about, ten events each by default, as an order has them.
        open_at_once: How many aggregates take turns, until their last event; the next ones follow then. With all of
            them at once, each event of a batch has a watermark of its own.
    """

    contestants: Sequence[str] = tuple(CONTESTANTS)
    events: int = 500_000
    slow_events: int = 20_000
    aggregates: int = 50_000
    open_at_once: int = 1_000
    rounds: int = 5


def main() -> int:
    """Run every contestant and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    plan = Plan()
    parser.add_argument("--events", type=int, default=plan.events)
    parser.add_argument("--slow-events", type=int, default=plan.slow_events, help="for one transaction a message")
    parser.add_argument("--aggregates", type=int, default=plan.aggregates)
    parser.add_argument("--open-at-once", type=int, default=plan.open_at_once, help="aggregates that take turns")
    parser.add_argument("--rounds", type=int, default=plan.rounds)
    parser.add_argument("--only", choices=sorted(CONTESTANTS), action="append", help="contestants; default all")
    parser.add_argument("--ids", type=int, nargs="*", help="measure inboxes that remember so many, nothing else")
    options, idle = vars(parser.parse_args()), IdleTime()
    remembered, only = options.pop("ids"), options.pop("only")
    plan = Plan(contestants=only or plan.contestants, **options)
    with Stack(StackConfig(name="bench", workers=0)) as stack:
        demand_durable(stack)
        if remembered is None:
            sides = measure(stack, plan, idle)
            return _judge(sides, findings(sides), idle)
        inboxes = ids.measure(stack, ids.Plan(counts=remembered or ids.COUNTS, rounds=plan.rounds), idle)
        return _judge(inboxes, ids.findings(inboxes), idle)


def _judge(sides: Sequence[Side], found: Sequence[Finding], idle: IdleTime) -> int:
    print(table(sides, found, idle))
    return idle.exit_code(met=all(finding.met for finding in found))


def measure(stack: Stack, plan: Plan, idle: IdleTime) -> list[Side]:
    """Run every contestant once a round, each time beginning with another."""
    effects = Effects.create(stack, "bench_consumer")
    per_aggregate = max(1, plan.events // plan.aggregates)
    topics = {
        slow: fill(
            stack, f"bench-{uuid4().hex}", events=count, per_aggregate=per_aggregate, open_at_once=plan.open_at_once
        )
        for slow, count in ((True, plan.slow_events), (False, plan.events))
    }
    sides = [Side(name) for name in plan.contestants]
    for number in range(plan.rounds):
        for index in range(len(sides)):
            side = sides[(number + index) % len(sides)]
            effects.forget()
            idle.pause()
            side.runs.append(run(stack, side.name, topics[side.name in SLOW], effects))
    effects.connection.close()
    return sides


def findings(sides: Sequence[Side]) -> list[Finding]:
    """Return which bounds are met, of the contestants that there are."""
    by_name = {side.name: side for side in sides}
    rates = []
    for name, base, bound, floor in BOUNDS:
        if name in by_name and base in by_name:
            ratio = by_name[name].ratio(by_name[base])
            left = f"; its statements alone: {by_name[floor].ratio(by_name[base]):.2f}" if floor in by_name else ""
            rates.append(Finding(f"{name}: {ratio:.2f} x {base}, bound {bound}{left}", ratio >= bound))
    peaks = [
        Finding(f"{side.name}: {peak:.0f} MB resident, bound {MAX_MEGABYTES}", peak <= MAX_MEGABYTES)
        for side in sides
        if side.name.startswith("ours")
        for peak in [side.peak_megabytes]
    ]
    return rates + peaks


if __name__ == "__main__":
    sys.exit(main())
