"""The two services in containers; docker-compose.yml runs this.

`python -m examples.orders.containers setup` creates tables and roles; repeating it changes nothing.
`python -m examples.orders.containers place-orders` places orders until SIGTERM.
"""

import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
from psycopg.sql import Literal

from examples.orders.orders import place_order

HERE = Path(__file__).parent
PASSWORDS = {
    "writer_password": "ORDERS_WRITER_PASSWORD",
    "connector_password": "ORDERS_CONNECTOR_PASSWORD",
    "relay_password": "ORDERS_RELAY_PASSWORD",
    "consumer_password": "SHIPPING_CONSUMER_PASSWORD",
}
"""The variables of the scripts for psql, and those of the containers."""
PLACED = Path("/tmp/placed")  # noqa: S108 - in a container of its own
"""Is touched after each order, for the health check."""
CUSTOMERS, PAUSE_SECONDS, REPORT_SECONDS = 20, 0.05, 10.0


def set_up() -> None:
    """Create the package's tables in both databases, the roles, and the services' own tables."""
    # The columns that the example needs: a table `shipments` of the README has others, and is refused.
    make_tables(
        "SHIPPING_DSN", "shipping.sql", "order_id from shipments", "--inbox", "--consumer-role=shipping_consumer"
    )
    make_tables("ORDERS_DSN", "schema.sql", "id from orders", "connectors/orders.yaml")


def make_tables(variable: str, file: str, needed: str, *what: str) -> None:
    """Create the tables and roles of one database."""
    dsn = os.environ[variable]
    command = ["cdc-outbox", "init", *what, "--dsn", dsn]
    subprocess.run(command, check=True)
    grants = subprocess.run([*command, "--grants"], check=True, stdout=subprocess.PIPE).stdout
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(grants)
        try:
            connection.execute(f"select {needed} limit 0".encode())
        except psycopg.errors.UndefinedTable:
            script = (HERE / file).read_text()
            for name, password in PASSWORDS.items():
                script = script.replace(f":'{name}'", Literal(os.environ[password]).as_string(connection))
            connection.execute(script.encode())


def place_orders() -> None:
    """Place orders of random customers, and wait for the database when it is away."""
    placed, reported = 0, time.monotonic()
    while True:
        try:
            with psycopg.connect(os.environ["ORDERS_DSN"]) as connection:
                while True:
                    place_order(connection, 1 + secrets.randbelow(CUSTOMERS), 100 + secrets.randbelow(10_000))
                    connection.commit()
                    placed += 1
                    PLACED.touch()
                    if time.monotonic() - reported >= REPORT_SECONDS:
                        reported = time.monotonic()
                        print(f"{placed:,} orders placed", flush=True)
                    time.sleep(PAUSE_SECONDS)
        except psycopg.OperationalError as error:
            print(f"waiting for the database: {error}", flush=True)
            time.sleep(1)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    {"setup": set_up, "place-orders": place_orders}[sys.argv[1]]()
