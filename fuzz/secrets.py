"""Random secrets wherever one may stand, and every output, log and error searched for them.

The suite plants five sets in each kind of place; `infra/fuzz secrets` plants a thousand. It exits 1 if one was said,
and prints where.
"""

import argparse
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, Phase, example, given, settings

from fuzz.secrets_laws import LAWS, Law
from fuzz.secrets_said import impatient


def explore(law: Law, examples: int) -> None:
    """Plant so many sets of secrets; raise what Hypothesis raises where one is said again."""

    def explored(planted: object) -> None:
        law.check(planted, Path(folder))

    for found_before in law.examples:
        explored = example(found_before)(explored)
    # What is random is a secret: one that is shorter says nothing more.
    phases = [Phase.explicit, Phase.generate]
    planting = settings(
        max_examples=examples, phases=phases, database=None, deadline=None, suppress_health_check=list(HealthCheck)
    )
    with tempfile.TemporaryDirectory() as folder, impatient():
        planting(given(law.drawn)(explored))()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the long way and print what held."""
    parser = argparse.ArgumentParser(prog="infra/fuzz secrets", description=__doc__.partition("\n")[0])
    parser.add_argument("--examples", type=int, default=1_000, help="so many sets of secrets in each place")
    parser.add_argument("--places", nargs="+", choices=list(LAWS), default=list(LAWS), help="in these alone")
    options = parser.parse_args(arguments)
    held = [_held(place, options.examples) for place in options.locations]
    return 0 if all(held) else 1


def _held(place: str, examples: int) -> bool:
    """Explore one place, and say so at its end: it may take minutes."""
    began = time.monotonic()
    try:
        explore(LAWS[place], examples)
    except Exception:  # noqa: BLE001 - whatever it is, the other places are worth a look too
        traceback.print_exc()
        print(f"{place:<14} FAILED, see above", flush=True)
        return False
    print(f"{place:<14} {examples:>7,} examples in {time.monotonic() - began:.0f} s: no secret was said", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
