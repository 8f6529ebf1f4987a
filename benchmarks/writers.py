"""The drivers of the writer's benchmark: each writes a business row and an event by hand, and by the outbox."""

import json
import uuid
from typing import Any, Protocol

import psycopg

from cdc_outbox import Event, Outbox

PAYLOAD = {"customer": 42, "items": [{"sku": f"sku-{n}", "quantity": n} for n in range(5)], "note": "as usual"}
"""About 200 bytes, as events are."""

ORDER = "insert into orders (customer, total_cents) values (%s, %s)"
BY_HAND = "insert into outbox (id, aggregatetype, aggregateid, type, payload) values (%s, %s, %s, %s, %s)"
ALL_BY_HAND = """
insert into outbox (id, aggregatetype, aggregateid, type, payload)
select * from unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::json[])
"""
LIST = 100
"""Events of one call of ``add_all``."""
AGGREGATES = 1_000


def event(number: int) -> Event:
    """Return an event of one of a thousand aggregates."""
    aggregate_id = str(number % AGGREGATES)
    return Event(aggregate_type="order", aggregate_id=aggregate_id, type="OrderPlaced", payload=PAYLOAD)


def row(number: int) -> tuple[str, str, str, str, str]:
    """Return what hand-written code inserts, made as it would make it."""
    return str(uuid.uuid4()), "order", str(number % AGGREGATES), "OrderPlaced", json.dumps(PAYLOAD)


class Writer(Protocol):
    """One driver's connection; each method is one whole transaction."""

    def by_hand(self, number: int) -> None:
        """Write a business row and an unsequenced event with the driver's own means."""

    def by_outbox(self, outbox: Outbox, number: int) -> None:
        """Write a business row, and the event through the outbox."""

    def close(self) -> None:
        """Close the connection."""


class PsycopgWriter:
    """psycopg 3."""

    def __init__(self, dsn: str) -> None:
        self.connection: psycopg.Connection[Any] = psycopg.connect(dsn)

    def by_hand(self, number: int) -> None:
        """Write two rows and commit."""
        self.connection.execute(ORDER, (number, 1999))
        self.connection.execute(BY_HAND, row(number))
        self.connection.commit()

    def by_outbox(self, outbox: Outbox, number: int) -> None:
        """Write two rows and commit."""
        self.connection.execute(ORDER, (number, 1999))
        outbox.add(self.connection, event(number))
        self.connection.commit()

    def list_by_hand(self, number: int) -> None:
        """Write a hundred events in one statement."""
        rows = [row(number * LIST + index) for index in range(LIST)]
        self.connection.execute(ALL_BY_HAND, [list(column) for column in zip(*rows, strict=True)])
        self.connection.commit()

    def list_by_outbox(self, outbox: Outbox, number: int) -> None:
        """Write a hundred events by one call."""
        outbox.add_all(self.connection, [event(number * LIST + index) for index in range(LIST)])
        self.connection.commit()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


WRITERS = {"psycopg": PsycopgWriter}
