"""What remembering costs: the same events for inboxes that remember few ids and many.

Beside the whole consumer, which does more than that, the claim alone is timed: a batch of new ids, and its commit.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from benchmarks.consumers.effects import Effects
from benchmarks.consumers.side import Finding, Side, run
from benchmarks.consumers.topic import fill
from benchmarks.consumers.work import BATCH
from benchmarks.machine import IdleTime
from cdc_outbox.consumer import InboxTable
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.sql import PYFORMAT, load
from cdc_outbox.event import new_event_id
from cdc_outbox.testing import Stack

COUNTS = (100_000, 1_000_000, 10_000_000)
TOLERANCE = 0.15
"""How much more or less it may cost to remember more."""
_CONTESTANT = "ours, on_batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is measured.

    Args:
        events: For each round, which begins with the ids that were there at first.
        claims: Batches that are only claimed.
    """

    counts: Sequence[int] = COUNTS
    events: int = 50_000
    per_aggregate: int = 10
    claims: int = 200
    rounds: int = 5


@dataclass
class IdsSide(Side):
    """An inbox that remembers so many, and what a claim in it took."""

    claims: list[float] = field(default_factory=list)
    """Microseconds for each id, the median of each round."""

    @property
    def claim(self) -> float:
        """Microseconds for each id, of the median round."""
        return statistics.median(self.claims)

    def claim_ratio(self, base: "IdsSide") -> float:
        """Return the median over the rounds of this side's claim in times of the other's in the same round."""
        return statistics.median(ours / theirs for ours, theirs in zip(self.claims, base.claims, strict=True))


def measure(stack: Stack, plan: Plan, idle: IdleTime) -> list[IdsSide]:
    """Run our consumer on every inbox once a round, each time beginning with another."""
    until = new_event_id()
    places: list[tuple[IdsSide, Effects, str]] = []
    for count in plan.counts:
        effects, consumer = Effects.create(stack, f"bench_{count}"), f"bench-{uuid4().hex}"
        effects.remember(consumer, count, until=until)
        places.append((IdsSide(f"{_CONTESTANT}, {count:,} ids"), effects, consumer))
    for number in range(plan.rounds):
        topic = fill(
            stack, f"bench-{uuid4().hex}", events=plan.events, per_aggregate=plan.per_aggregate, open_at_once=1_000
        )
        for index in range(len(places)):
            side, effects, consumer = places[(number + index) % len(places)]
            effects.forget_since(until)
            idle.pause()
            side.runs.append(run(stack, _CONTESTANT, topic, effects, group=consumer))
            side.claims.append(_claim(effects, consumer, plan.claims))
    for _, effects, _ in places:
        effects.connection.close()
    return [side for side, _, _ in places]


def findings(sides: Sequence[IdsSide]) -> list[Finding]:
    """Return whether remembering more costs the same."""
    base = sides[0]
    return [
        Finding(f"{side.name}: {what}, {ratio:.2f} x {base.name}, bound 1 +- {TOLERANCE}", abs(ratio - 1) <= TOLERANCE)
        for side in sides[1:]
        for what, ratio in (
            ("rate", side.ratio(base)),
            (f"{side.claim:.1f} us a claim", side.claim_ratio(base)),
        )
    ]


def _claim(effects: Effects, consumer: str, claims: int) -> float:
    """Return the median of microseconds for each id, of batches of new ones."""
    claim, driver, times = load("postgresql", "inbox")["claim"].render(InboxTable().names(), PYFORMAT), Psycopg(), []
    for _ in range(claims):
        event_ids = [new_event_id() for _ in range(BATCH)]
        begun = time.perf_counter()
        with effects.connection.transaction():
            driver.fetch(effects.connection, claim, {"consumer": consumer, "event_ids": event_ids})
        times.append((time.perf_counter() - begun) / BATCH * 1e6)
    return statistics.median(times)
