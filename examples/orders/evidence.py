"""Count what a run of the demo left in the two databases and in the topic, and judge by that alone."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from cdc_outbox.consumer import RecordedEvent, WireContract
from cdc_outbox.testing import Broker

Row = tuple[Any, ...]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The counts, each with its meaning in :meth:`table`."""

    committed: int
    rolled_back: int
    messages: int
    duplicates: int
    effects: int
    twice: int
    lost: int
    ghosts: int
    out_of_order: int
    gaps: int
    p50_seconds: float
    p99_seconds: float

    @property
    def holds(self) -> bool:
        """Whether every promise was kept."""
        return not (self.twice or self.lost or self.ghosts or self.out_of_order or self.gaps)

    def table(self) -> str:
        """Return the counts as a table."""
        counts = [
            ("orders committed", self.committed, "rows in the orders table"),
            ("rolled back on purpose", self.rolled_back, "order ids without a row"),
            ("messages in Kafka", self.messages, "read from the first to the last offset"),
            ("duplicates delivered", self.duplicates, "messages with a known id, sent again after the kill"),
            ("effects", self.effects, "rows in the shipments table"),
            ("effects twice", self.twice, "orders shipped more than once"),
            ("lost", self.lost, "committed orders without a shipment"),
            ("ghosts", self.ghosts, "messages or shipments of orders that were never committed"),
            ("out of order", self.out_of_order, "orders published or shipped after a later one of their customer"),
            ("gaps", self.gaps, "numbers missing between a customer's first and last event"),
        ]
        lines = [f"  {name:<24}{count:>8,}   {meaning}" for name, count, meaning in counts]
        times = f"p50 {self.p50_seconds * 1000:,.0f} ms, p99 {self.p99_seconds * 1000:,.0f} ms"
        lines.append(f"  {'commit to effect':<24}{times}   by PostgreSQL's commit times, including the kills")
        return "\n".join(lines)


def gather(*, orders_dsn: str, shipping_dsn: str, broker: Broker, contract: WireContract) -> Evidence:
    """Read both databases and the whole topic."""
    with psycopg.connect(orders_dsn) as orders, psycopg.connect(shipping_dsn) as shipping:
        committed: dict[int, datetime] = dict(
            orders.execute("select id, pg_xact_commit_timestamp(xmin) from orders").fetchall()
        )
        [(given,)] = orders.execute("select last_value from orders_id_seq").fetchall()
        written = {str(row[0]) for row in orders.execute("select id from outbox")}
        sequences = orders.execute("select aggregateid, sequence from outbox order by sequence").fetchall()
        shipped = shipping.execute(
            "select order_id, customer, sequence, pg_xact_commit_timestamp(xmin) from shipments order by id"
        ).fetchall()
    messages = [contract.event_of(message) for message in broker.messages(contract.topics[0])]
    seen = Counter(event.id for event in messages)
    times = sorted((moment - committed[order]).total_seconds() for order, _, _, moment in shipped if order in committed)
    return Evidence(
        committed=len(committed),
        rolled_back=given - len(committed),
        messages=len(messages),
        duplicates=len(messages) - len(seen),
        effects=len(shipped),
        twice=sum(count > 1 for count in Counter(row[0] for row in shipped).values()),
        lost=len(committed.keys() - {row[0] for row in shipped}),
        ghosts=len(seen.keys() - written) + len({row[0] for row in shipped} - committed.keys()),
        out_of_order=_descents([(row[1], row[2]) for row in shipped]) + _descents(_first_seen(messages)),
        gaps=_gaps(sequences) + _gaps([(row[1], row[2]) for row in shipped]),
        p50_seconds=_percentile(times, 0.5),
        p99_seconds=_percentile(times, 0.99),
    )


def _first_seen(messages: list[RecordedEvent]) -> list[tuple[str, int]]:
    """Return customer and number of each event's first message."""
    seen: set[str | None] = set()
    first = [event for event in messages if not (event.id in seen or seen.add(event.id))]  # type: ignore[func-returns-value]
    return [(event.aggregate_id, event.sequence or 0) for event in first]


def _descents(numbers: list[tuple[Any, int]]) -> int:
    """Count the numbers that follow a higher one of the same customer."""
    highest: dict[Any, int] = defaultdict(int)
    descents = 0
    for customer, number in numbers:
        descents += number < highest[customer]
        highest[customer] = max(highest[customer], number)
    return descents


def _gaps(numbers: list[Row]) -> int:
    """Count the numbers that are missing from 1 to each customer's highest."""
    by_customer: dict[Any, set[int]] = defaultdict(set)
    for customer, number in numbers:
        by_customer[customer].add(number)
    return sum(max(found) - len(found) for found in by_customer.values())


def _percentile(times: list[float], share: float) -> float:
    return times[min(len(times) - 1, int(len(times) * share))] if times else 0.0
