"""Faults at ten points of a relay's loop; afterwards outbox and topic are counted.

`infra/faults relay` runs all of it and prints a table; it exits 1 if an event was lost, invented or out of order, if
more was repeated than the last second and the transaction under way, or if nothing was published within a minute.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future

from cdc_outbox.testing import Stack, StackConfig
from tests.faults.broker_outage import BrokerOutage
from tests.faults.relay_cell import BEFORE_DELIVERY, RelayCell, RelayFault
from tests.faults.relay_points import RelayPoint
from tests.faults.report import Result, tell, tell_columns, tell_result
from tests.support.threads import Threads

AT_ONCE = 4
"""Cells that run at the same time: each one waits more than it works."""
_LONG_OUTAGE_SECONDS = 60.0
"""Of the second seed; elsewhere eight."""


def run_cells(stack: Stack, cells: Sequence[RelayCell], at_once: int = AT_ONCE) -> Iterator[tuple[RelayCell, Result]]:
    """Run cells, first those that leave the broker alone; those in which it is down have one outage for each seed."""
    alone = [cell for cell in cells if cell.fault is not RelayFault.BROKER_DOWN]
    with Threads(at_once, seconds=24 * 3600) as pool:
        yield from _results([(cell, pool.submit(cell.run, stack)) for cell in alone])
    for seed in sorted({cell.seed for cell in cells}):
        together = [cell for cell in cells if cell.fault is RelayFault.BROKER_DOWN and cell.seed == seed]
        if not together:
            continue
        seconds = _LONG_OUTAGE_SECONDS if seed == 1 else 8.0
        with Threads(seconds=1800) as pool:
            outage = BrokerOutage(stack.broker, len(together), pool, seconds=seconds, kills=seed % 4 == 3)
            yield from _results([(cell, pool.submit(cell.run, stack, outage)) for cell in together])


def _results(runs: Sequence[tuple[RelayCell, "Future[Result]"]]) -> Iterator[tuple[RelayCell, Result]]:
    for cell, run in runs:
        try:
            yield cell, run.result()
        except Exception as error:  # noqa: BLE001 - the others are worth knowing
            yield cell, Result(events=0, seconds=0, violations=[f"{type(error).__name__}: {error}"])


def _selected(only: Sequence[str], seeds: Sequence[int]) -> list[RelayCell]:
    return [
        RelayCell(point=point, fault=fault, seed=seed)
        for seed in seeds
        for point in RelayPoint
        for fault in RelayFault
        if (not only and (fault is not RelayFault.REFUSED or point in BEFORE_DELIVERY)) or f"{point}/{fault}" in only
    ]


def main() -> int:
    """Run what is asked for and tell how it went."""
    names = [f"{point}/{fault}" for point in RelayPoint for fault in RelayFault]
    parser = argparse.ArgumentParser(prog="infra/faults relay", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--only", metavar="POINT/FAULT", choices=names, action="append", default=[], help="only this; may be repeated"
    )
    parser.add_argument("--seeds", type=int, default=1, help="how often each is run, by chance a little differently")
    parser.add_argument("--seed", type=int, help="only this one")
    options = parser.parse_args()
    seeds = range(options.seeds) if options.seed is None else [options.seed]
    with Stack(StackConfig(name=f"faults-relay-{os.getpid()}", workers=0, short_lived=True)) as stack:
        tell_columns()
        good = [
            tell_result(cell.point, cell.fault, cell.seed, result)
            for cell, result in run_cells(stack, _selected(options.only, seeds))
        ]
    tell(f"{sum(good)} of {len(good)} are good")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
