"""Consumers of one group under all that can happen to them: each event's effects happen once and in order.

The suite tells 200 stories; `infra/fuzz consumer` tells five thousand longer ones. It exits 1 if a law of
:mod:`fuzz.consumer_oracle` was broken, and prints the shortest story that it found.
"""

import argparse
import logging
import sys
import time
import traceback

from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from fuzz.consumer_story import Story


def explore(stories: int, steps: int) -> None:
    """Tell so many random stories; raise what Hypothesis raises, with the shortest one that breaks a law."""
    run_state_machine_as_test(
        Story,
        settings=settings(
            max_examples=stories,
            stateful_step_count=steps,
            database=None,
            deadline=None,
            report_multiple_bugs=False,
            suppress_health_check=list(HealthCheck),
        ),
    )


def main() -> int:
    """Run the long way and print the shortest story that breaks a law, if there is one."""
    parser = argparse.ArgumentParser(prog="infra/fuzz consumer", description=__doc__.partition("\n")[0])
    parser.add_argument("--examples", type=int, default=5_000, help="so many stories")
    parser.add_argument("--steps", type=int, default=100, help="each of at most so many steps")
    options = parser.parse_args()
    logging.disable()  # nearly all that is told is wanted here
    began = time.monotonic()
    try:
        explore(options.examples, options.steps)
    except Exception:  # noqa: BLE001 - told below
        traceback.print_exc()
        return 1
    seconds = time.monotonic() - began
    print(f"{options.examples:,} stories of up to {options.steps} steps in {seconds:.0f} s: no law was broken")
    return 0


if __name__ == "__main__":
    sys.exit(main())
