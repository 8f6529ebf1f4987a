"""The orders service: an order and its event in one transaction."""

from pathlib import Path

import psycopg

from cdc_outbox import Event, Outbox, RecordedEvent, load_spec

outbox = Outbox(spec=load_spec(Path(__file__).parents[2] / "connectors/orders.yaml"))


def place_order(connection: psycopg.Connection, customer: int, total_cents: int) -> RecordedEvent:
    """Insert an order and its event; both are committed with the caller's transaction, or neither."""
    [order] = connection.execute(
        "insert into orders (customer, total_cents) values (%s, %s) returning id", (customer, total_cents)
    ).fetchall()
    return outbox.add(
        connection,
        Event(
            aggregate_type="customer",
            aggregate_id=str(customer),
            type="OrderPlaced",
            payload={"order": order[0], "customer": customer, "total_cents": total_cents},
        ),
    )
