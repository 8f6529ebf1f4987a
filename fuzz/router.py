"""Our EventRouter against Debezium's own, case by case: ``infra/fuzz router --cases 20000``."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import platformdirs

from cdc_outbox.debezium.event_router import ConnectRecord, Routing
from cdc_outbox.debezium.event_router.converters import to_message
from cdc_outbox.debezium.event_router.jvm import Outcome, RealRouter, fetch_plugin, find_jvm
from cdc_outbox.errors import ConfigError, RoutingError
from cdc_outbox.message import Message
from fuzz.router_cases import Case, cell, make_case, wanted_cells, wanted_marks
from fuzz.router_tables import CONVERTERS

VERSIONS = ("3.5.0.Final", "3.6.0.Final", "3.6.1.Final", "3.6.3.Final", "3.7.0.Final")
"""Every release of the PostgreSQL connector from 3.5 on whose plugin Maven has."""

_OFTEN = 20
"""How often everything must occur before a run says anything."""


@dataclass
class Tally:
    """What a run has seen.

    Args:
        refused: Records that ours refuses to imitate.
        differences: Case and record, ours and theirs.
    """

    records: int = 0
    messages: int = 0
    dropped: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    watermarks: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    @property
    def yielding(self) -> float:
        """The share of records that made a message."""
        return self.messages / max(1, self.records)

    def missing(self) -> list[str]:
        """Return what did not occur often enough."""
        return sorted(mark for mark in wanted_marks() | wanted_cells() if self.watermarks[mark] < _OFTEN)

    def count(self, theirs: Outcome) -> None:
        """Count what became of a record."""
        self.records += 1
        match theirs:
            case Message():
                self.messages += 1
            case RoutingError():
                self.errors[f"{theirs.exception} in {theirs.stage}"] += 1
            case None:
                self.dropped += 1


def run(real: RealRouter, cases: range, *, version: tuple[int, int], tally: Tally) -> None:
    """Compare the cases of these numbers, and write down what differs."""
    for seed in cases:
        case = make_case(seed)
        tally.watermarks.update(case.watermarks)
        real.ask(case.config, case.records, connector="postgresql")
        ours_all = _ours(case, version, tally)
        # What fails before the first record is one outcome for them all.
        for number, (ours, their) in enumerate(zip(ours_all, real.answer(), strict=False)):
            tally.count(their)
            if isinstance(ours, ConfigError):
                tally.refused[str(ours)] += 1
            elif _shown(ours) != _shown(their):
                tally.differences.append(f"case {seed}, record {number}:\n  {_shown(ours)}\n  {_shown(their)}, theirs")


def _ours(case: Case, version: tuple[int, int], tally: Tally) -> list[Outcome | ConfigError]:
    try:
        routing = Routing.from_config(case.config, version=version)
    except (RoutingError, ConfigError) as error:
        return [error]
    names = [
        name for wanted in (case.config.key, case.config.value) for name, one in CONVERTERS.items() if one == wanted
    ]
    return [_outcome(routing, record, names, tally) for record in case.records]


def _outcome(routing: Routing, record: ConnectRecord, names: Sequence[str], tally: Tally) -> Outcome | ConfigError:
    try:
        routed = routing.router.transform(record, routing.memory)
        if routed is None:
            return None
        return _converted(routing, routed, names, tally)
    except (RoutingError, ConfigError) as error:
        return error


def _converted(routing: Routing, routed: ConnectRecord, names: Sequence[str], tally: Tally) -> Message:
    """Return the message, and count the cells that are tried: the value's only where the key's is none that fails."""
    if not names:
        return to_message(routed, key=routing.key, value=routing.value, header=routing.header)
    tally.watermarks[cell("key", names[0], routed.key)] += 1
    to_message(replace(routed, value=None), key=routing.key, value=routing.value, header=routing.header)
    tally.watermarks[cell("value", names[1], routed.value)] += 1
    return to_message(routed, key=routing.key, value=routing.value, header=routing.header)


def _shown(outcome: Outcome | ConfigError) -> str:
    """Return what is compared: a message whole, an error's class and the place where it is thrown."""
    return f"{outcome.exception} in {outcome.stage}" if isinstance(outcome, RoutingError) else repr(outcome)


def main() -> int:
    """Run from the shell."""
    parser = argparse.ArgumentParser(prog="infra/fuzz router", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000, help="so many configurations, each with 1 to 3 records")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first case's number")
    parser.add_argument("--version", action="append", choices=VERSIONS, help="of Debezium; by default each in turn")
    arguments = parser.parse_args()
    cache = platformdirs.user_cache_path("cdc-outbox")
    return max([fuzz(cache, version, arguments.first, arguments.cases) for version in arguments.version or VERSIONS])


def fuzz(cache: Path, version: str, first: int, cases: int) -> int:
    """Compare with one release, print what was seen, and return 0 if nothing differs and nothing is missing."""
    began, tally = time.monotonic(), Tally()
    major, minor = map(int, version.split(".")[:2])
    with RealRouter.open(find_jvm(cache), fetch_plugin(cache, "postgres", version)) as real:
        run(real, range(first, first + cases), version=(major, minor), tally=tally)
    missing = tally.missing()
    print(f"Debezium {version}: {cases:,} cases in {time.monotonic() - began:.0f} s")
    print(
        f"  records      {tally.records:,}, of which {tally.yielding:.1%} make a message and {tally.dropped:,} nothing"
    )
    print(f"  errors       {', '.join(f'{error} {count:,}' for error, count in tally.errors.most_common())}")
    print(f"  not imitated {tally.refused.total():,}")
    print(f"  seen         {len(wanted_marks())} option values, {len(wanted_cells())} cells; {len(missing)} too rarely")
    print(f"  differences  {len(tally.differences):,}")
    for lines in (missing[:20], tally.differences[:20], [f"{n} {why}" for why, n in tally.refused.most_common(8)]):
        print(*(f"    {line}" for line in lines), sep="\n", file=sys.stderr)
    return int(bool(tally.differences or missing))


if __name__ == "__main__":
    sys.exit(main())
