"""One contestant: its runs, and what they amount to."""

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

from benchmarks.consumers.effects import Effects
from benchmarks.consumers.topic import Topic
from benchmarks.consumers.work import Work
from benchmarks.machine import IdleTime
from cdc_outbox.testing import Stack

_WAIT_SECONDS = 0.02
_FIRST_SECONDS, _SLOWEST = 60, 200
"""A contestant fails that needs more than the one to begin, or does fewer events a second than the other."""
_ROOT = Path(__file__).parents[2]


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
        peak_megabytes=took["peak_bytes"] / 1e6,
    )


def table(sides: Sequence[Side], findings: Sequence[Finding], idle: IdleTime) -> str:
    """Return what the sides took, whether that is within the bounds, and how idle the machine was."""
    rounds = f"median of {len(sides[0].runs)} rounds"
    heading = f"  {rounds:<28}{'events/s':>12}{'CPU us':>12}{'peak MB':>10}"
    machine = f"{os.cpu_count()} CPUs; {idle}"
    return "\n".join([heading, *(side.row() for side in sides), "", *map(str, findings), "", machine])
