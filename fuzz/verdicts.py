"""Mutated configurations: whether lint says of each what becomes of events on a real worker.

A right configuration of a PostgreSQL pipeline gets one mutation or two. Lint says whether it has errors, and its
simulator where a typical row goes. Every second one is deployed, past all that `deploy` refuses, and two events of
different types are written: does each arrive once in its topic with its key, headers and payload? `infra/fuzz
verdicts` takes 200. It exits 1 if events arrived as intended although lint has errors, or if lint agrees with less than
95 % of what happened.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum

import psycopg

from cdc_outbox.debezium.config_texts import find_in_text
from cdc_outbox.debezium.event_router import Change
from cdc_outbox.debezium.lint import Config, lint_all
from cdc_outbox.debezium.lint.path import find_exclusion, paths_of
from cdc_outbox.debezium.lint.records import change
from cdc_outbox.finding import Severity
from cdc_outbox.testing import Stack, StackConfig
from fuzz.verdicts_mutations import Mutated, mutated
from fuzz.verdicts_seen import Happened, Seen, is_of_a_verdict, observe
from tests.proofs.place import Topics
from tests.support.rig import CONNECTOR_PASSWORD, make_connector_role

LEAST_AGREEMENT = 0.95
_NAME = "orders"


class Foreseen(StrEnum):
    """Where lint's simulator sees a typical row go."""

    ARRIVES = "arrives"
    ELSEWHERE = "goes elsewhere"
    DROPPED = "is dropped"
    FAILS = "fails the task"
    NOT_CAPTURED = "is not captured"
    UNKNOWN = "is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What was said of a configuration, and what happened.

    Args:
        errors: Lint's.
        others: The codes of its warnings and notes.
        seen: ``None`` where it was not run.
    """

    mutated: Mutated
    errors: tuple[str, ...]
    others: tuple[str, ...]
    foreseen: Foreseen
    seen: Seen | None = None

    @property
    def word(self) -> str:
        """Lint's, in a table."""
        return "errors" if self.errors else "none"

    @property
    def agrees(self) -> bool:
        """Whether events arrived as intended if lint has no errors, and did not if it has any."""
        return self.seen is not None and (self.seen.happened is Happened.ARRIVES) is not bool(self.errors)

    @property
    def is_false_alarm(self) -> bool:
        """Whether lint has errors, and events arrived as intended."""
        return bool(self.errors) and not self.agrees


def judge(case: Mutated) -> Verdict:
    """Ask lint and its simulator about a configuration."""
    configs, refused = find_in_text(json.dumps(case.options(_NAME)), name="x.json")
    found = [*refused, *lint_all(configs)]
    errors = tuple(dict.fromkeys(finding.code for finding in found if finding.severity is Severity.ERROR))
    others = tuple(dict.fromkeys(finding.code for finding in found if finding.severity is not Severity.ERROR))
    return Verdict(mutated=case, errors=errors, others=others, foreseen=foresee(case, configs))


def foresee(case: Mutated, configs: Sequence[Config]) -> Foreseen:
    """Ask the simulator where a typical row of the outbox goes, which is an order's."""
    if not configs:
        return Foreseen.UNKNOWN
    config, table = configs[0], f"{_NAME}.outbox"
    if find_exclusion(config, table) is not None:
        return Foreseen.NOT_CAPTURED
    paths = paths_of(config)
    topics = config.topics_of(table) or ("",)
    path = paths.walk(change(topics[0], paths.row), table, is_outbox=True)
    end = path.steps[-1].after if path.steps else path.start
    if end is None:
        return Foreseen.FAILS if path.steps[-1].failure else Foreseen.DROPPED
    if len(path.steps) < len(config.transforms) or not end.topic:
        return Foreseen.UNKNOWN
    arrives = end.topic == case.topic_of(_NAME, "order") and not isinstance(end.value, Change)
    return Foreseen.ARRIVES if arrives else Foreseen.ELSEWHERE


def explore(
    stack: Stack, cases: Sequence[Mutated], *, at_once: int = 8, told: Callable[[Verdict], None] = lambda _verdict: None
) -> list[Verdict]:
    """Judge configurations, and run every second one."""
    with psycopg.connect(stack.postgres.dsn(), autocommit=True) as connection:
        make_connector_role(connection)
    with Topics(stack.broker.bootstrap_servers, is_of_a_verdict) as topics, ThreadPoolExecutor(at_once) as pool:

        def tried(place: int, case: Mutated) -> Verdict:
            verdict = judge(case)
            if place % 2:
                verdict = replace(verdict, seen=observe(stack, topics, case))
                told(verdict)
            return verdict

        return list(pool.map(tried, range(len(cases)), cases))


def agreement(verdicts: Sequence[Verdict]) -> float:
    """Return the share of what was run of which lint said what happened."""
    ran = [verdict for verdict in verdicts if verdict.seen is not None]
    return sum(verdict.agrees for verdict in ran) / len(ran)


def is_good_enough(verdicts: Sequence[Verdict]) -> bool:
    """Whether every error of lint was right, and it agrees with nearly all that happened."""
    return not any(verdict.is_false_alarm for verdict in verdicts if verdict.seen) and (
        agreement(verdicts) >= LEAST_AGREEMENT
    )


def report(verdicts: Sequence[Verdict]) -> str:
    """Return tables of what was said and what happened, and the disagreements."""
    ran = [(verdict, verdict.seen) for verdict in verdicts if verdict.seen is not None]
    disagreeing = [verdict for verdict, _ in ran if not verdict.agrees]
    wrong = sum(verdict.is_false_alarm for verdict, _ in ran)
    alarms = sum(bool(verdict.errors) for verdict, _ in ran)
    tables = (
        ("lint", "simulated", Counter((verdict.word, verdict.foreseen.value) for verdict in verdicts)),
        ("lint", "on the worker", Counter((verdict.word, seen.happened.value) for verdict, seen in ran)),
        ("simulated", "on the worker", Counter((verdict.foreseen.value, seen.happened.value) for verdict, seen in ran)),
    )
    share = f"right in {alarms - wrong} of {alarms} errors, and in {agreement(verdicts):.1%} of all"
    return "\n".join(
        [
            *(f"{_table(*table)}\n" for table in tables),
            f"{len(verdicts)} configurations, {len(ran)} of them run; lint is {share}",
            *(f"disagreement: {told(verdict)}" for verdict in disagreeing),
        ]
    )


def told(verdict: Verdict) -> str:
    """Return a line about one configuration."""
    said = (
        f"errors {' '.join(verdict.errors)}" if verdict.errors else f"no error; {' '.join(verdict.others) or 'nothing'}"
    )
    seen = "" if verdict.seen is None else f"; worker: {verdict.seen.happened} ({verdict.seen.detail})"
    return f"{verdict.mutated}\n    lint: {said}; simulator: {verdict.foreseen}{seen}"


def _table(said: str, happened: str, counts: Counter[tuple[str, str]]) -> str:
    columns = list(dict.fromkeys(column for _, column in sorted(counts)))
    rows = list(dict.fromkeys(row for row, _ in sorted(counts)))
    lines = [
        [f"{said} \\ {happened}", *columns],
        *([row, *(f"{counts[row, column]}" for column in columns)] for row in rows),
    ]
    return "\n".join("  ".join(cell.rjust(max(17, len(cell))) for cell in line) for line in lines)


def main() -> int:
    """Run the long way and print what was said and what happened."""
    parser = argparse.ArgumentParser(prog="infra/fuzz verdicts", description=__doc__.partition("\n")[0])
    parser.add_argument("--configs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at-once", type=int, default=8, help="Connectors that run at the same time.")
    options = parser.parse_args()
    began = time.monotonic()
    config = StackConfig(
        name="fuzz-verdicts",
        short_lived=True,
        worker_settings={"offset.flush.interval.ms": "500"},
        environment={"CONNECTOR_PASSWORD": CONNECTOR_PASSWORD},
    )
    with Stack(config) as stack:
        cases = [mutated(options.seed, number) for number in range(options.configs)]
        verdicts = explore(stack, cases, at_once=options.at_once, told=lambda verdict: print(told(verdict), flush=True))
    print(f"\n{report(verdicts)}\nin {time.monotonic() - began:.0f} s")
    return 0 if is_good_enough(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
