"""Events of a real topic become one row each: consumers written by hand against `Consumer`, in one run.

Every contestant is a process of its own that reads the whole topic with a new group; the database says when it is done
and how long it took from the first effect to the last. They take turns in rounds of one run, so that what else the
machine does meets all of them. `infra/bench consumer` runs it; it exits 1 if a bound is missed.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from uuid import uuid4

from benchmarks.consumers import CONTESTANTS, SLOW
from benchmarks.consumers.effects import Effects
from benchmarks.consumers.ours import HAS_BATCHES
from benchmarks.consumers.topic import Topic, fill
from benchmarks.consumers.work import Work
from cdc_outbox.testing import Stack, StackConfig

MAX_MEGABYTES = 150
"""Resident, of our consumers, what the Kafka client has fetched ahead included."""
BOUNDS = (
    ("ours, per event", "bare, per event", 0.85),
    ("ours, pipeline", "bare, pipeline", 0.6),
    ("ours, on_batch", "bare, one statement", 0.6),
    ("ours, on_batch", "one transaction a message", 12),
)
"""How many times as fast as another one a contestant shall be."""
_WAIT_SECONDS = 0.02
_FIRST_SECONDS, _SLOWEST = 60, 200
"""A contestant fails that needs more than the one to begin, or does fewer events a second than the other."""
_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured.

    Args:
        slow_events: For those that wait for the disk at every message.
    """

    contestants: Sequence[str] = tuple(CONTESTANTS)
    events: int = 500_000
    slow_events: int = 20_000
    aggregates: int = 50_000
    rounds: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one process took.

    Args:
        cpu: Microseconds of its own for each event.
    """

    rate: float
    cpu: float
    peak_megabytes: float


@dataclass
class Side:
    """One contestant and its runs."""

    name: str
    runs: list[Run] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Events a second, of the median round."""
        return statistics.median(run.rate for run in self.runs)

    @property
    def peak_megabytes(self) -> float:
        """The most of all rounds."""
        return max(run.peak_megabytes for run in self.runs)

    def ratio(self, base: "Side") -> float:
        """Return the median over the rounds of this side's rate in times of the other's in the same round."""
        return statistics.median(ours.rate / theirs.rate for ours, theirs in zip(self.runs, base.runs, strict=True))

    def row(self) -> str:
        """Return a line of the table."""
        cpu = statistics.median(run.cpu for run in self.runs)
        return f"  {self.name:<28}{self.rate:>12,.0f}{cpu:>12.1f}{self.peak_megabytes:>10.0f}"


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a bound is met."""

    sentence: str
    met: bool

    def __str__(self) -> str:
        return f"  {'met' if self.met else 'MISSED':<8}{self.sentence}"


def main() -> int:
    """Run every contestant and print them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    plan = Plan()
    parser.add_argument("--events", type=int, default=plan.events)
    parser.add_argument("--slow-events", type=int, default=plan.slow_events, help="for one transaction a message")
    parser.add_argument("--aggregates", type=int, default=plan.aggregates)
    parser.add_argument("--rounds", type=int, default=plan.rounds)
    parser.add_argument("--only", choices=sorted(CONTESTANTS), action="append", help="contestants; default all")
    options = vars(parser.parse_args())
    plan = Plan(contestants=options.pop("only") or plan.contestants, **options)
    with Stack(StackConfig(name="bench", workers=0)) as stack:
        sides = measure(stack, plan)
    print(report(sides))
    return 0 if all(finding.met for finding in findings(sides)) else 1


def measure(stack: Stack, plan: Plan) -> list[Side]:
    """Run every contestant once a round, each time beginning with another."""
    effects = Effects.create(stack, "bench_consumer")
    topics = {
        slow: fill(stack, f"bench-{uuid4().hex}", events=count, aggregates=plan.aggregates)
        for slow, count in ((True, plan.slow_events), (False, plan.events))
    }
    sides = [Side(name) for name in plan.contestants if HAS_BATCHES or name not in {"ours, pipeline", "ours, on_batch"}]
    for number in range(plan.rounds):
        for index in range(len(sides)):
            side = sides[(number + index) % len(sides)]
            effects.forget()
            side.runs.append(run(stack, side.name, topics[side.name in SLOW], effects))
    effects.connection.close()
    return sides


def run(stack: Stack, contestant: str, topic: Topic, effects: Effects, *, group: str | None = None) -> Run:
    """Let one contestant read the whole topic.

    Raises:
        RuntimeError: It ended early or is too slow, or an event has not exactly one effect.
    """
    servers, group = stack.broker.bootstrap_servers, group or f"bench-{uuid4().hex}"
    work = Work(bootstrap_servers=servers, topic=topic.name, group=group, dsn=effects.dsn)
    command = [sys.executable, "-m", "benchmarks.consumers", contestant, json.dumps(asdict(work))]
    with subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:  # noqa: S603
        deadline = time.monotonic() + _FIRST_SECONDS + topic.events / _SLOWEST
        while not effects.are_complete(topic):
            if child.poll() is not None or time.monotonic() > deadline:
                child.kill()
                raise RuntimeError(f"{contestant} did not come to its end")
            time.sleep(_WAIT_SECONDS)
        output, _ = child.communicate()
    took = json.loads(output)
    return Run(
        rate=topic.events / effects.seconds(topic),
        cpu=took["cpu_seconds"] / topic.events * 1e6,
        peak_megabytes=took["peak_bytes"] / 2**20,
    )


def findings(sides: Sequence[Side]) -> list[Finding]:
    """Return which bounds are met, of the contestants that there are."""
    by_name = {side.name: side for side in sides}
    rates = [
        Finding(f"{name}: {ratio:.2f} x {base}, bound {bound}", ratio >= bound)
        for name, base, bound in BOUNDS
        if name in by_name and base in by_name
        for ratio in [by_name[name].ratio(by_name[base])]
    ]
    peaks = [
        Finding(f"{side.name}: {peak:.0f} MB resident, bound {MAX_MEGABYTES}", peak <= MAX_MEGABYTES)
        for side in sides
        if side.name.startswith("ours")
        for peak in [side.peak_megabytes]
    ]
    return rates + peaks


def report(sides: Sequence[Side]) -> str:
    """Return the table, and what it means."""
    heading = f"  {f'median of {len(sides[0].runs)} rounds':<28}{'events/s':>12}{'CPU us/event':>14}{'peak MB':>10}"
    load = f"{os.cpu_count()} CPUs, load of the last minutes {', '.join(f'{load:.1f}' for load in os.getloadavg())}"
    return "\n".join([heading, *(side.row() for side in sides), "", *map(str, findings(sides)), "", load])


if __name__ == "__main__":
    sys.exit(main())
