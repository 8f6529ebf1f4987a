"""The shipping service: one shipment for each order, in the order in which the customer placed them.

Run it with `cdc-outbox consume examples.orders.shipping:consumer`.
"""

import os
from pathlib import Path

import psycopg

from cdc_outbox.consumer import Consumer, RecordedEvent, load_contract

consumer = Consumer(
    name="shipping",
    # Written by `cdc-outbox contract export connectors/orders.yaml`.
    contract=load_contract(Path(__file__).parent / "orders.contract.json"),
    kafka={
        "bootstrap.servers": os.environ["CDC_OUTBOX_BOOTSTRAP_SERVERS"],
        # A killed consumer's partitions go to the others after this time; the default is 45 s.
        "session.timeout.ms": 6000,
    },
    database=lambda: psycopg.connect(os.environ["SHIPPING_DSN"]),
)


@consumer.on("OrderPlaced")
def ship(event: RecordedEvent, connection: psycopg.Connection) -> None:
    """Ship an order; the shipment is committed together with the inbox's claim on the event."""
    connection.execute(
        "insert into shipments (order_id, customer, sequence) values (%s, %s, %s)",
        (event.payload["order"], event.payload["customer"], event.sequence),
    )
