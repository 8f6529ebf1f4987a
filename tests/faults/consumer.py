"""Faults at every point of a consumer's life, and consumers that come and go; afterwards the effects are counted.

`infra/faults consumer` runs all of it and prints a table; it exits 1 if an effect was lost, repeated or out of order,
if a consumer ended that should have gone on, or if nobody went on in time.
"""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from cdc_outbox.testing import Stack, StackConfig
from tests.faults.cell import Cell, Fault, Result
from tests.faults.crowd import Crowd, Sharing
from tests.faults.ledger import Ground
from tests.faults.points import Point

AT_ONCE = 4
"""Cells that run at the same time: each one waits more than it works."""


def main() -> int:
    """Run what is asked for and tell how it went."""
    parser = argparse.ArgumentParser(prog="infra/faults consumer", description=__doc__.partition("\n")[0])
    parser.add_argument("--point", type=Point, choices=Point, action="append", help="only this one; may be repeated")
    parser.add_argument("--fault", type=Fault, choices=Fault, action="append", help="only this one; may be repeated")
    parser.add_argument("--seeds", type=int, default=1, help="how often each is run, by chance a little differently")
    parser.add_argument(
        "--sharing", type=Sharing, choices=Sharing, action="append", help="how the comers and goers share"
    )
    parser.add_argument("--seconds", type=float, default=40.0, help="how long they come and go")
    options = parser.parse_args()
    alone = bool(options.point or options.fault)
    cells = [
        Cell(point=point, fault=fault, seed=seed)
        for point in options.point or Point
        for fault in options.fault or Fault
        for seed in range(options.seeds)
    ]
    crowds = [
        Crowd(sharing=sharing, seed=seed, seconds=options.seconds)
        for sharing in options.sharing or (() if alone else Sharing)
        for seed in range(options.seeds)
    ]
    with Stack(StackConfig(name=f"faults-{os.getpid()}", workers=0)) as stack, ThreadPoolExecutor(AT_ONCE) as pool:
        ground = Ground.make(stack, "faults")
        _tell(f"{'point':<20}{'fault':<18}{'seed':>5}{'events':>8}{'seconds':>9}  verdict")
        runs = [] if options.sharing and not alone else [(cell, pool.submit(cell.run, ground)) for cell in cells]
        good = [_told(cell.point, cell.fault, cell.seed, run.result()) for cell, run in runs]
        good += [_told(crowd.sharing, "come and go", crowd.seed, crowd.run(ground)) for crowd in crowds]
    _tell(f"{sum(good)} of {len(good)} are good")
    return 0 if all(good) else 1


def _told(what: str, fault: str, seed: int, result: Result) -> bool:
    verdict = "VIOLATED" if result.violations else "good"
    _tell(f"{what:<20}{fault:<18}{seed:>5}{result.events:>8}{result.seconds:>9.2f}  {verdict}")
    for violation in result.violations:
        _tell(f"    {violation}")
    return not result.violations


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
