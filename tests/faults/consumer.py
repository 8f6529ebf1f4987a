"""Faults at every point of a consumer's life, consumers that come and go, their handlers', and servers that die.

Afterwards the effects are counted. `infra/faults consumer` runs all of it and prints a table; it exits 1 if an effect
was lost, repeated or out of order, if a consumer ended that should have gone on, or if nobody went on in time.
"""

import argparse
import logging
import os
import sys

from cdc_outbox.testing import Stack, StackConfig
from tests.faults import handled, server_deaths
from tests.faults.cell import Cell, Fault
from tests.faults.crowd import Crowd, Sharing
from tests.faults.ledger import Ground
from tests.faults.points import Point
from tests.faults.report import tell, tell_columns, tell_result
from tests.support.threads import Threads

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
    parser.add_argument(
        "--kinds", choices=("consumer", "server", "handler"), nargs="+", help="whose faults; all by default"
    )
    parser.add_argument("--deaths", type=int, default=200, help="how often database servers die")
    parser.add_argument("--seed", type=int, default=os.getpid(), help="of the servers' deaths; a new one by default")
    options = parser.parse_args()
    alone = bool(options.point or options.fault)
    kinds = options.kinds or (["consumer"] if alone or options.sharing else ["consumer", "server", "handler"])
    good = _break_consumers(options, alone=alone) if "consumer" in kinds else []
    if "handler" in kinds:
        logging.getLogger().addHandler(logging.NullHandler())
        tell_columns()
        good += handled.run(options.seeds)
    if "server" in kinds:
        logging.getLogger().addHandler(logging.NullHandler())  # there would be thousands of lines
        tell(f"seed {options.seed}")
        tell_columns()
        good += server_deaths.run(options.deaths, options.seed)
    tell(f"{sum(good)} of {len(good)} are good")
    return 0 if all(good) else 1


def _break_consumers(options: argparse.Namespace, *, alone: bool) -> list[bool]:
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
    day, made = 24 * 3600, Stack(StackConfig(name=f"faults-{os.getpid()}", workers=0))
    with made as stack, Threads(AT_ONCE, seconds=day) as pool:
        ground = Ground.make(stack, "faults")
        tell_columns()
        runs = [] if options.sharing and not alone else [(cell, pool.submit(cell.run, ground)) for cell in cells]
        good = [tell_result(cell.point, cell.fault, cell.seed, run.result()) for cell, run in runs]
        return [*good, *(tell_result(crowd.sharing, "come and go", crowd.seed, crowd.run(ground)) for crowd in crowds)]


if __name__ == "__main__":
    sys.exit(main())
