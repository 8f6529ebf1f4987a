"""A MariaDB outbox from the spec to the effects: what is rendered runs, and loses or changes nothing on the way."""

import json
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox import Event, Outbox, OutboxMode, RecordedEvent
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.wait import PASSING, Condition, condition_of
from cdc_outbox.consumer import Consumer, InboxTable, inbox_component
from cdc_outbox.debezium.render import render
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.testing import MariaDb, MariaDbDsn, Stack
from tests.support.commands import connect_of, run_here
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import CONNECTOR_PASSWORD, eventually, run_upgrade
from tests.support.service import QUICK, run_to_its_end

PAYLOADS: list[Any] = [
    {"plain": 1},
    '{ "kept":  "verbatim", "twice": 1.10 }',
    {"ünï": "cödé \U0001f600", "quote": "'\"\\"},
    {"long": "x" * 100_000},
    "null",
]
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass(frozen=True)
class Orders:
    """An outbox on the shared MariaDB server, and the connector that its spec becomes."""

    stack: Stack
    spec: Spec
    file: Path
    dsn: MariaDbDsn

    @classmethod
    def make(cls, stack: Stack, mariadb: MariaDb, folder: Path) -> "Orders":
        name = f"p{uuid4().hex[:10]}"
        file = folder / "orders.yaml"
        file.write_text(f"""\
version: 1
name: {name}
database:
  kind: mariadb
  host: 127.0.0.1
  port: {mariadb.port}
  name: {name}
  user: {name}_connector
  password: ${{env:CONNECTOR_PASSWORD}}
aggregates:
  order: {{}}
  metric: {{sequence: none}}
outbox:
  headers: {{tenant: tenant}}
topics:
  name: {name}.{{aggregate_type}}
overrides:
  heartbeat.interval.ms: 200
  connect.keep.alive.interval.ms: 2000
""")
        return cls(stack, parse_spec(file.read_text()), file, mariadb.create_database(name))

    @property
    def client(self) -> ConnectClient:
        return ConnectClient(self.stack.connect_cluster)

    @contextmanager
    def connect(self) -> Iterator[Any]:
        with closing(connect_pymysql(self.dsn)) as connection:
            yield connection

    def init(self) -> None:
        """Make the tables and the connector's role as `init` makes them."""
        dsn = self.dsn.url("mysql").partition("?")[0]
        made = run_here("init", str(self.file), "--dsn", dsn)
        assert made.returncode == 0, made.stderr
        printed = run_here("init", str(self.file), "--grants")
        assert printed.returncode == 0, printed.stderr
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in printed.stdout.rstrip().removesuffix(";").split(";\n"):
                cursor.execute(statement)
            account = f"alter user {self.spec.database.user} identified by %s account unlock"
            cursor.execute(account, (CONNECTOR_PASSWORD,))

    def write(self, events: Iterable[Event], mode: OutboxMode) -> list[RecordedEvent]:
        """Write events, and beside each one that is rolled back."""
        outbox, written = Outbox(table=replace(self.spec.outbox, mode=mode), contract=self.spec.contract), []
        with self.connect() as connection:
            for event in events:
                outbox.add(connection, event)
                connection.rollback()
                written.append(outbox.add(connection, event))
                connection.commit()
        return written

    def is_reading(self) -> bool:
        try:
            status, offsets = self.client.find_status(self.spec.name), self.client.find_offsets(self.spec.name)
        except PASSING:
            return False
        return condition_of(status) is Condition.UP and bool(offsets) and "snapshot" not in offsets[0]["offset"]

    def consume(self, dsn: str, count: int) -> list[RecordedEvent]:
        """Return the events whose effects were committed, in that order."""
        consumer = Consumer(
            name="shipping",
            contract=self.spec.contract,
            kafka={"bootstrap.servers": self.stack.broker.bootstrap_servers, **QUICK},
            database=lambda: psycopg.connect(dsn),
        )
        seen: list[RecordedEvent] = []

        @consumer.on("OrderPlaced")
        def keep(event: RecordedEvent, connection: psycopg.Connection[Any]) -> None:
            del connection
            seen.append(event)
            if len(seen) == count:
                consumer.stop()

        run_to_its_end(consumer)
        return seen


@pytest.fixture
def orders(outbox_stack: Stack, mariadb: MariaDb, tmp_path: Path) -> Iterator[Orders]:
    made = Orders.make(outbox_stack, mariadb, tmp_path)
    made.init()
    yield made
    if made.client.find_config(made.spec.name) is not None:
        made.client.delete(made.spec.name)


def events() -> list[Event]:
    return [
        Event(
            aggregate_type="metric" if number % 5 == 4 else "order",
            aggregate_id=["42", "ä/ö", "x" * 300][number % 3],
            type="OrderPlaced",
            payload=PAYLOADS[number % len(PAYLOADS)],
            headers={"tenant": f"tenant-{number}"} | ({"traceparent": TRACE} if number % 2 else {}),
        )
        for number in range(30)
    ]


def plain(event: RecordedEvent) -> tuple[Any, ...]:
    """Return what a consumer has to get of a written event."""
    payload = json.loads(event.payload) if isinstance(event.payload, str) else event.payload
    return event.id, event.type, event.aggregate_id, event.sequence, event.source, payload, event.created_at


def test_what_is_written_on_mariadb_has_its_effects_once_in_order_and_unchanged(orders: Orders) -> None:
    config, spec, client = render(orders.spec), orders.spec, orders.client
    assert client.validate(config) == ()
    client.put_config(config)
    eventually(orders.is_reading, "the connector to read", seconds=60)
    written = orders.write(events(), OutboxMode.KEEP)
    # What is committed while it is stopped comes too: it finds its place, and the schema in the history.
    client.stop(spec.name)
    eventually(lambda: client.find_status(spec.name).state == "STOPPED", "the connector to stop")
    written += orders.write(events(), OutboxMode.DELETE)
    client.resume(spec.name)

    dsn = orders.stack.postgres.create_database(spec.name)
    with psycopg.connect(dsn, autocommit=True) as connection:
        run_upgrade(connection, inbox_component(InboxTable()))
    seen = orders.consume(dsn, len(written))
    assert sorted(map(plain, seen), key=str) == sorted(map(plain, written), key=str)
    for aggregate_id in {event.aggregate_id for event in written}:
        mine = [event for event in seen if (event.aggregate_type, event.aggregate_id) == ("order", aggregate_id)]
        assert [event.sequence for event in mine] == list(range(1, len(mine) + 1))

    contract = spec.contract
    for aggregate_type in contract.aggregates:
        topic = contract.topic_of(aggregate_type)
        expected = {event.id: contract.message_of(event) for event in written if event.aggregate_type == aggregate_type}
        messages = {contract.event_of(message).id: message for message in orders.stack.broker.messages(topic)}
        assert messages.keys() == expected.keys()
        for event_id, message in messages.items():
            wanted = expected[event_id]
            assert (message.key, message.value) == (wanted.key, wanted.value)
            assert dict(message.headers) == dict(wanted.headers)
        assert len(orders.stack.broker.ends(topic)) == 3

    # A preflight has nothing to say while it runs, and says when the place that it has to read on at is gone.
    assert preflight(orders) == []
    client.stop(spec.name)
    eventually(lambda: client.find_status(spec.name).state == "STOPPED", "the connector to stop")
    [stored] = client.find_offsets(spec.name)
    for change, code in ({"file": "binlog.000000"}, "DB521"), ({"pos": 2**40}, "DB522"):
        client.alter_offsets(spec.name, [{**stored, "offset": {**stored["offset"], **change}}])
        assert preflight(orders) == [code]


def preflight(orders: Orders) -> list[str]:
    dsn = orders.dsn.url("mysql").partition("?")[0]
    env = connect_of(orders.stack)
    done = run_here("preflight", str(orders.file), "--dsn", dsn, "--output", "json", env=env)
    return [finding["code"] for finding in json.loads(done.stdout)["findings"]]
