"""Damaged replication streams: the reader returns a message or raises `DecodeError`, and never hangs.

The suite tries 2,000 cases; `infra/fuzz pgoutput` tries 100,000.
"""

import argparse
import sys
import time
from collections import Counter
from random import Random

from cdc_outbox.databases.pgoutput import Relation, read_message
from cdc_outbox.debezium.event_router.compiled import Route
from cdc_outbox.errors import DecodeError
from cdc_outbox.relay.transactions import Transactions
from tests.support.pgoutput_messages import damaged, random_message, random_stream
from tests.support.time_limits import at_most

_SECONDS = 10.0
"""A case takes less than a millisecond; a busy machine may pause it."""


class AnyRoutes:
    """Publishes every table as it is."""

    def find(self, relation: Relation) -> Route:
        return lambda values: (relation.name, b"".join(value or b"" for value in values), None, -1, 1, [])

    def drop(self, operation: str) -> None:
        pass


def read_damaged_message(random: Random) -> str:
    """Read a damaged message and return what came of it."""
    return type(read_message(damaged(random_message(random), random))).__name__


def read_damaged_stream(random: Random) -> str:
    """Read a stream of which a frame was damaged, dropped or repeated."""
    frames = random_stream(random)
    at = random.randrange(len(frames))
    match random.randrange(4):
        case 0:
            del frames[at]
        case 1:
            frames.insert(at, frames[random.randrange(len(frames))])
        case _:
            frames[at] = damaged(frames[at], random)
    transactions = Transactions(AnyRoutes())
    position = 0
    for frame in frames:
        transactions.add(frame)
        unit = transactions.take()
        if unit is not None and unit.position is not None:
            assert unit.position > position
            position = unit.position
    return "stream"


def explore(cases: int, seed: int) -> Counter[str]:
    """Read so many damaged messages and streams; return how often what came of them."""
    found: Counter[str] = Counter()
    for number in range(cases):
        random = Random(f"{seed}/{number}")
        read = read_damaged_message if number % 2 else read_damaged_stream
        try:
            with at_most(_SECONDS):
                found[read(random)] += 1
        except DecodeError:
            found["DecodeError"] += 1
        except Exception as error:
            raise AssertionError(f"case {seed}/{number}: {error!r}") from error
    return found


def main() -> int:
    """Run the long way and print what came of the cases; an error's message names its case."""
    parser = argparse.ArgumentParser(prog="infra/fuzz pgoutput", description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    found = explore(options.cases, options.seed)
    print(f"{', '.join(f'{count:,} {name}' for name, count in found.most_common())}, {time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
