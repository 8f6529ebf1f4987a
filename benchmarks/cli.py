"""How long the command takes from the shell, imports included, against an interpreter that does nothing.

All in one run and in turn, so that what else the machine does meets them alike. `infra/bench cli` runs it; it exits 1
if the best run of a command is over its limit: what else the machine does can only add to a run.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMMAND = (sys.executable, "-m", "cdc_outbox")


@dataclass(frozen=True)
class Side:
    """One command, and how long each run of it took."""

    name: str
    command: tuple[str, ...]
    limit_seconds: float | None = None
    seconds: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        """The run that was disturbed least."""
        return min(self.seconds)

    @property
    def is_within(self) -> bool:
        """Whether it keeps its limit."""
        return self.limit_seconds is None or self.best <= self.limit_seconds

    def row(self, other: "Side") -> str:
        """One line of the table, with the ratio to another side."""
        limit = "" if self.limit_seconds is None else f"{self.limit_seconds * 1000:.0f}"
        middle, ratio = statistics.median(self.seconds), self.best / other.best
        return f"{self.name:<34} {self.best * 1000:8.0f} {middle * 1000:8.0f} {ratio:8.1f} {limit:>8}"


def sides() -> list[Side]:
    """Return what is measured; the first is what the others are compared with."""
    config = ROOT / "tests" / "unit" / "golden" / "orders.json"
    spec = ROOT / "connectors" / "orders.yaml"
    return [
        Side("python -c pass", (sys.executable, "-c", "pass")),
        Side("cdc-outbox --help", (*COMMAND, "--help"), 0.15),
        Side("cdc-outbox lint orders.json", (*COMMAND, "lint", str(config)), 0.3),
        Side("cdc-outbox lint orders.yaml", (*COMMAND, "lint", str(spec)), 0.3),
        Side("cdc-outbox explain CC302", (*COMMAND, "explain", "CC302"), 0.3),
    ]


def measure(runs: int) -> list[Side]:
    """Run every side in turn, so many times, once before to warm the caches."""
    measured = sides()
    for run in range(runs + 1):
        for side in measured:
            start = time.perf_counter()
            subprocess.run(side.command, check=True, capture_output=True)  # noqa: S603 - our own
            if run:
                side.seconds.append(time.perf_counter() - start)
    return measured


def report(measured: Sequence[Side]) -> str:
    """Return the table."""
    head = f"{'':<34} {'best ms':>8} {'p50 ms':>8} {'ratio':>8} {'limit ms':>8}"
    return "\n".join([head, *(side.row(measured[0]) for side in measured)])


def main() -> int:
    """Measure, print, and say by the exit code whether the limits are kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="runs of each side (default: %(default)s)")
    measured = measure(parser.parse_args().runs)
    print(report(measured))
    return 0 if all(side.is_within for side in measured) else 1


if __name__ == "__main__":
    sys.exit(main())
