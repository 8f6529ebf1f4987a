"""What every contestant does: one row for each event of a topic."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import psycopg

from cdc_outbox.consumer import SequenceMode, WireContract

AGGREGATE_TYPE, EVENT_TYPE = "order", "OrderPlaced"
BATCH = 500
"""Messages of one transaction at most: what our consumer takes by default, for everyone alike."""

UPSERT = """
insert into effects (id, aggregate_id, customer) values (%s, %s, %s)
on conflict (id) do update set times = effects.times + 1
"""
UPSERT_ALL = """
insert into effects (id, aggregate_id, customer) select * from unnest(%s::uuid[], %s::text[], %s::int[])
on conflict (id) do update set times = effects.times + 1
"""

Row = tuple[str, str, int]
"""The event's id, its aggregate, and something from its payload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Where the events are, and where their effects go."""

    bootstrap_servers: str
    topic: str
    group: str
    dsn: str


class Contestant(Protocol):
    """A consumer of a process of its own."""

    def __init__(self, work: Work) -> None: ...

    def run(self) -> None:
        """Read events and write their effects until :meth:`stop` is called."""

    def stop(self) -> None:
        """Make :meth:`run` return soon; safe from another thread."""


def contract_of(topic: str) -> WireContract:
    """Return what the topic's messages keep."""
    return WireContract(aggregates={AGGREGATE_TYPE: SequenceMode.GAPLESS}, topic=topic)


def upsert(connection: psycopg.Connection[Any], row: Row) -> None:
    """Have one event's effect."""
    connection.execute(UPSERT, row)


def upsert_all(connection: psycopg.Connection[Any], rows: Sequence[Row]) -> None:
    """Have the effects of many events by one statement."""
    connection.execute(UPSERT_ALL, [list(column) for column in zip(*rows, strict=True)])
