"""Whole transactions (business row, event, commit, fsync on): hand-written SQL against `Outbox`, per driver.

The hand-written side also makes an id and encodes the payload, and numbers nothing. In each round the sides of a driver
take turns of five transactions, forwards and backwards, so that what else the machine does meets all of them; a ratio
is the median over the rounds. The hand-written side is there twice: how far its second ratio is from 1 is the error.
On PostgreSQL, where an event is one statement, that statement is measured without the outbox, too: the floor.
Before each round is a pause: how idle the machine is then tells whether the ratios mean anything. `infra/bench writer`
runs it; it exits 1 if a ratio is worse than its bound, and 75 if the machine was too busy to tell.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.durable import demand_durable, make_durable
from benchmarks.machine import IdleTime
from benchmarks.writers import LIST, WRITERS, ListWriter, StatementWriter
from benchmarks.writers.database import make_database
from cdc_outbox import AsyncOutbox, Outbox, OutboxTable, SequenceMode, WireContract
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.testing import Stack, StackConfig
from cdc_outbox.writer.outbox_statements import OutboxStatements

_NUMBERED = WireContract(aggregates={"order": SequenceMode.GAPLESS})
_UNNUMBERED = WireContract(aggregates={"order": SequenceMode.NONE})
NUMBERED = Outbox(table=OutboxTable(), contract=_NUMBERED), AsyncOutbox(table=OutboxTable(), contract=_NUMBERED)
UNNUMBERED = Outbox(table=OutboxTable(), contract=_UNNUMBERED), AsyncOutbox(table=OutboxTable(), contract=_UNNUMBERED)
_TURN = 5
"""Transactions of one side in a row. Fifty, in a fixed order, made the same code differ by 6 %."""


@dataclass
class Side:
    """One way of writing, its bound in times of the hand-written side, and what its rounds took."""

    name: str
    write: Callable[[range], None]
    bound: float | None = None
    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)

    def begin(self) -> None:
        """Begin a round."""
        self.seconds.append(0.0)
        self.cpu_seconds.append(0.0)

    def run(self, first: int, count: int) -> None:
        """Time so many transactions, and add them to the round."""
        clock, cpu = time.perf_counter(), time.process_time()
        self.write(range(first, first + count))
        self.seconds[-1] += time.perf_counter() - clock
        self.cpu_seconds[-1] += time.process_time() - cpu

    def ratio(self, base: "Side") -> float:
        """Return the median over the rounds of this side's time in times of the other's in the same round."""
        return statistics.median(ours / theirs for ours, theirs in zip(self.seconds, base.seconds, strict=True))

    def row(self, base: "Side") -> str:
        """Return a line of the table."""
        wall, cpu = (statistics.median(times) * 1e6 for times in (self.seconds, self.cpu_seconds))
        bound = "" if self.bound is None else f"{self.bound:>8.2f}"
        return f"  {self.name:<34}{wall:>12.0f}{cpu:>12.0f}{self.ratio(base):>9.2f}{bound}"


def main() -> int:
    """Measure every driver and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--transactions", type=int, default=50, help="of one round")
    parser.add_argument("--driver", choices=sorted(WRITERS), action="append")
    options = parser.parse_args()
    good, idle = True, IdleTime()
    drivers = options.driver or list(WRITERS)
    mariadb = any(WRITERS[driver].dialect is Dialect.MYSQL for driver in drivers)
    with Stack(StackConfig(name="bench", kafka=False, workers=0, mariadb=mariadb)) as stack:
        demand_durable(stack)
        if mariadb:
            make_durable(stack)
        for driver in drivers:
            for title, sides in measure(stack, driver, options.rounds, options.transactions, idle):
                print(report(title, sides), flush=True)
                good &= all(side.bound is None or side.ratio(sides[0]) <= side.bound for side in sides)
    print(idle)
    return idle.exit_code(met=good)


def measure(stack: Stack, driver: str, rounds: int, transactions: int, idle: IdleTime) -> list[tuple[str, list[Side]]]:
    """Run the sides of a driver in turns; return each table's title and sides, the hand-written one first."""
    kind = WRITERS[driver]
    bound, numbered = kind.bounds
    writer = kind(make_database(stack, kind.dialect, f"bench_{driver.replace('-', '_')}"))
    try:
        sides = [
            Side("by hand, unsequenced", writer.by_hand),
            Side("by hand, again", writer.by_hand),
            Side("Outbox.add, unsequenced", lambda numbers: writer.by_outbox(*UNNUMBERED, numbers), bound),
            Side("Outbox.add, sequenced", lambda numbers: writer.by_outbox(*NUMBERED, numbers), numbered),
        ]
        if isinstance(writer, StatementWriter):
            sides += [
                Side("its statement alone, unsequenced", _alone(writer, kind.dialect, SequenceMode.NONE)),
                Side("its statement alone, sequenced", _alone(writer, kind.dialect, SequenceMode.GAPLESS)),
            ]
        tables = [(f"{driver}: one order and one event a transaction", sides)]
        if isinstance(writer, ListWriter):
            listing = writer
            tables.append(
                (
                    f"{driver}: {LIST} events a transaction",
                    [
                        Side("insert … select from unnest, by hand", listing.list_by_hand),
                        Side("by hand, again", listing.list_by_hand),
                        Side(
                            "Outbox.add_all, sequenced",
                            lambda numbers: listing.list_by_outbox(NUMBERED[0], numbers),
                            1 / 0.8,
                        ),
                    ],
                )
            )
        for _, sides in tables:
            take_turns(sides, rounds, transactions, idle)
    finally:
        writer.close()
    return tables


def _alone(writer: StatementWriter, dialect: Dialect, mode: SequenceMode) -> Callable[[range], None]:
    """Return what executes the outbox's own statement without the outbox: what no writer could be faster than."""
    statements = OutboxStatements(table=OutboxTable(), contract=None, dialect=dialect, style=writer.style)
    (step,) = statements.without_headers.plan_of(mode).steps
    return lambda numbers: writer.by_statement(step.sql, numbers)


def take_turns(sides: list[Side], rounds: int, transactions: int, idle: IdleTime) -> None:
    """Run every side in every round; the first round warms up and does not count."""
    for number in range(rounds + 1):
        idle.pause()
        for side in sides:
            side.begin()
        end = (number + 1) * transactions
        for turn, first in enumerate(range(number * transactions, end, _TURN)):
            # A transaction right after the pause takes half as long as one at the end of a round.
            for side in sides if (number + turn) % 2 else reversed(sides):
                side.run(first, min(_TURN, end - first))
    for side in sides:
        side.seconds, side.cpu_seconds = (
            [total / transactions for total in totals[1:]] for totals in (side.seconds, side.cpu_seconds)
        )


def report(title: str, sides: list[Side]) -> str:
    """Return a table."""
    heading = f"  {'microseconds a transaction, median':<34}{'wall':>12}{'client CPU':>12}{'ratio':>9}{'bound':>8}"
    return "\n".join([title, heading, *(side.row(sides[0]) for side in sides), ""])


if __name__ == "__main__":
    sys.exit(main())
