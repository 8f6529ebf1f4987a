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

    @classmethod
    def running(cls, stack: Stack, mariadb: MariaDb, folder: Path) -> "Orders":
        """Make the tables, and start the connector that is rendered."""
        made = cls.make(stack, mariadb, folder)
        made.init()
        assert made.client.validate(render(made.spec)) == ()
        made.client.put_config(render(made.spec))
        eventually(made.is_reading, "the connector to read", seconds=60)
        return made

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

    def add(self, connection: Any, key: str) -> RecordedEvent:
        return Outbox(spec=self.spec).add(connection, replace(events()[0], aggregate_id=key))

    def published(self, key: str) -> list[tuple[str, int | None]]:
        """Return id and number of an aggregate's published events before one that is written now."""
        with self.connect() as connection:
            last = self.add(connection, key)
            connection.commit()

        def arrived() -> list[tuple[str, int | None]]:
            messages = self.stack.broker.messages(self.spec.contract.topic_of("order"))
            found = map(self.spec.contract.event_of, messages)
            return [(event.id, event.sequence) for event in found if event.aggregate_id == key]

        eventually(lambda: (last.id, last.sequence) in arrived(), "the last event")
        return arrived()[:-1]

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
    made = Orders.running(outbox_stack, mariadb, tmp_path)
    yield made
    made.client.delete(made.spec.name)


@pytest.fixture(scope="module")
def undoing(outbox_stack: Stack, mariadb: MariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Orders]:
    """One pipeline for all tests of what is undone, with tables that have no transactions."""
    made = Orders.running(outbox_stack, mariadb, tmp_path_factory.mktemp("undoing"))
    with made.connect() as connection:
        execute(connection, *(f"create table {engine} (id int) engine = {engine}" for engine in ("Aria", "MyISAM")))
    yield made
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
    client.put_config({option: value for option, value in config.items() if option != "binlog.buffer.size"})
    assert preflight(orders) == ["DB130"]
    client.put_config(config)
    [stored] = client.find_offsets(spec.name)
    for change, code in ({"file": "binlog.000000"}, "DB521"), ({"pos": 2**40}, "DB522"):
        client.alter_offsets(spec.name, [{**stored, "offset": {**stored["offset"], **change}}])
        assert preflight(orders) == [code]


def preflight(orders: Orders) -> list[str]:
    dsn = orders.dsn.url("mysql").partition("?")[0]
    env = connect_of(orders.stack)
    done = run_here("preflight", str(orders.file), "--dsn", dsn, "--output", "json", env=env)
    return [finding["code"] for finding in json.loads(done.stdout)["findings"]]


def execute(connection: Any, *statements: str) -> None:
    with closing(connection.cursor()) as cursor:
        for statement in statements:
            cursor.execute(statement)


def is_gone(orders: Orders, session: int) -> bool:
    with orders.connect() as connection, connection.cursor() as cursor:
        return not cursor.execute("select 1 from information_schema.processlist where id = %s", (session,))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "create temporary table scratch (id int)"),
        ("create temporary table scratch (id int)", "drop temporary table scratch"),
        ("savepoint s", "insert into Aria values (1); rollback to s"),
        ("savepoint s", "insert into MyISAM values (1); rollback to s"),
    ],
    ids=["creates a temporary table", "drops a temporary table", "writes to Aria", "writes to MyISAM"],
)
@pytest.mark.parametrize("dies", [False, True], ids=["rolls back", "dies"])
def test_an_event_is_not_published_without_its_transaction_on_mariadb(
    undoing: Orders, before: str, after: str, *, dies: bool
) -> None:
    key = f"{before} {after} {dies}"
    with undoing.connect() as connection:
        execute(connection, "begin", *filter(None, before.split("; ")))
        undoing.add(connection, key)
        execute(connection, *after.split("; "))
        if dies:
            session = connection.thread_id()
            connection._force_close()
            eventually(lambda: is_gone(undoing, session), "the server to notice")
        else:
            connection.rollback()
    assert undoing.published(key) == []


@pytest.mark.parametrize("statement", ["create temporary table scratch (id int)", "insert into MyISAM values (1)"])
@pytest.mark.parametrize("order", ["before the savepoint", "after it"])
def test_what_a_committed_transaction_undid_up_to_a_savepoint_is_published_with_a_number_that_is_given_again(
    undoing: Orders, statement: str, order: str
) -> None:
    """docs/guarantees.md: no option of the connector helps."""
    key = f"{statement} {order}"
    with undoing.connect() as connection:
        first = undoing.add(connection, key)
        execute(connection, *(["savepoint s"] if order == "after it" else [statement, "savepoint s"]))
        undone = undoing.add(connection, key)
        execute(connection, *([statement] if order == "after it" else []), "rollback to s")
        second = undoing.add(connection, key)
        connection.commit()
    assert undoing.published(key) == [(first.id, 1), (undone.id, 2), (second.id, 2)]


def test_an_xa_transaction_that_the_writer_cannot_see_is_published_when_it_is_prepared(undoing: Orders) -> None:
    """docs/guarantees.md: nor does the connector's buffer work for the transaction that comes after it."""
    with undoing.connect() as connection:
        execute(connection, "xa start 'one'")
        prepared = undoing.add(connection, "xa")
        execute(connection, "xa end 'one'", "xa prepare 'one'")
    with undoing.connect() as connection:
        next_one = undoing.add(connection, "after xa")
        execute(connection, "create temporary table scratch (id int)")
        connection.rollback()
        connection.autocommit(True)  # else the server refuses it
        execute(connection, "xa rollback 'one'")
    assert undoing.published("xa") == [(prepared.id, 1)]
    assert undoing.published("after xa") == [(next_one.id, 1)]


def test_an_xa_transaction_of_one_phase_is_published_if_it_commits(undoing: Orders) -> None:
    with undoing.connect() as connection:
        execute(connection, "xa start 'three'")
        event = undoing.add(connection, "one phase")
        execute(connection, "xa end 'three'", "xa commit 'three' one phase", "xa start 'four'")
        undoing.add(connection, "one phase")
        execute(connection, "xa end 'four'", "xa rollback 'four'")
    assert undoing.published("one phase") == [(event.id, 1)]
