"""A second version of outbox and inbox, on populated tables, beside writers and a consumer that know the first."""

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox import Event, Outbox, RecordedEvent
from cdc_outbox.cli.database import connected
from cdc_outbox.consumer import InboxTable, Outcome, inbox_component
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.transactions import changing_tables
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import DatabaseUnavailableError
from cdc_outbox.testing import MariaDb, MariaDbDsn, Stack
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.contract.consumer_contract import MariaDbLedger, PostgresLedger, Service, SqliteLedger
from tests.support.commands import run_here
from tests.support.driver_users import Users
from tests.support.events import make_event
from tests.support.patience import patience
from tests.support.pipeline import Pipeline
from tests.support.places import Place
from tests.support.planted_versions import planted
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import eventually
from tests.support.specs import for_any_database
from tests.support.threads import Threads

COUNTED = """
-- name: count_runs
create table if not exists {runs} (component varchar(9));
-- then
insert into {runs} values ('{component}');
"""
"""Not what a migration may do, for it counts what may be repeated."""
FAILS = "-- name: fail\nselect * from nowhere;\n"


def second_version(dialect: Dialect, more: str = "") -> dict[str, str]:
    """Return what adds a column to one table of each component, and fills it."""
    column = "column" if dialect is Dialect.SQLITE else "column if not exists"
    runs = "public.runs" if dialect is Dialect.POSTGRESQL else "runs"
    return {
        f"{component}/0002_add_note.sql": f"-- name: add_note{condition}\nalter table {table} add {column} note text;\n"
        f"-- then\nupdate {table} set note = 'old' where note is null;\n"
        f"{COUNTED.format(component=component, runs=runs)}{more}"
        for component, table, condition in (("outbox", '"{outbox}"', " if has_table"), ("inbox", '"{watermarks}"', ""))
    }


@dataclass
class Tables(Users):
    """A database with outbox and inbox of version 1, and how its users connect."""

    dialect: Dialect
    store: Any
    dsn: str
    spec: Path
    open: Callable[[], Any]

    def connect(self, address: Any) -> Any:
        return self.open()

    async def execute(self, connection: Any, sql: str) -> Any:
        with closing(connection.cursor()) as cursor:
            cursor.execute(sql)

    def query(self, sql: str) -> Any:
        with closing(self.open()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(sql)
            rows = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
        return rows

    def versions(self) -> list[int]:
        """Return those of inbox and outbox."""
        return [version for (version,) in self.query("select version from cdc_outbox_version order by component")]

    def columns(self, table: str) -> list[str]:
        with closing(self.open()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(f"select * from {table}")  # noqa: S608 - a name of ours
            return [column[0] for column in cursor.description]

    def init(self, *options: str) -> Any:
        return run_here("init", str(self.spec), "--inbox", *options, "--dsn", self.dsn)

    def upgrade(self, before: Callable[[], object] = lambda: None) -> list[int]:
        """Upgrade both in one transaction, as the command does; return the versions that were run.

        Args:
            before: Called once the connection is open.
        """
        outbox = outbox_component(OutboxTable(), first_source="orders.1", dialect=self.dialect)
        components = (outbox, inbox_component(InboxTable.on(self.dialect)))
        with connected(self.dsn, None) as (connection, driver):
            before()
            with changing_tables(connection, driver):
                execute = partial(driver.fetch, connection)
                return [step.version for component in components for step in upgrade(execute, component)]


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tables]:
    with closing(_ledger(request)) as ledger:
        if isinstance(ledger, PostgresLedger):
            spec, dsn = tmp_path / "orders.yaml", ledger.dsn
            spec.write_text(for_any_database(Pipeline.text("orders")))
            made = Tables(Dialect.POSTGRESQL, ledger, dsn, spec, lambda: psycopg.connect(dsn))
        else:
            place: Place = ledger.location
            made = Tables(place.dialect, ledger, place.dsn, place.spec, lambda: _open(place.address))
        assert made.init().returncode == 0
        yield made


def _open(address: Path | MariaDbDsn) -> Any:
    return connect_pymysql(address) if isinstance(address, MariaDbDsn) else sqlite3.connect(address, timeout=60)


def _ledger(request: pytest.FixtureRequest) -> Any:
    if request.param == "postgresql":
        stack: Stack = request.getfixturevalue("outbox_stack")
        return PostgresLedger(stack.postgres.create_database(f"u{uuid4().hex[:10]}"))
    folder: Path = request.getfixturevalue("tmp_path")
    ledger: Any
    if request.param == "sqlite":
        place = Place.on_sqlite(folder)
        assert isinstance(place.address, Path)
        ledger = SqliteLedger(place.address)
    else:
        mariadb: MariaDb = request.getfixturevalue("mariadb")
        place = Place.on_mariadb(folder, mariadb)
        assert not isinstance(place.address, Path)
        ledger = MariaDbLedger(place.address)
    ledger.location = place
    return ledger


class Writers:
    """Services that write events, each an aggregate of its own, and keep what was committed."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._over = threading.Event()
        self.written: dict[str, list[Any]] = {f"writer {number}": [] for number in range(2)}

    def _write(self, name: str) -> None:
        with closing(self._tables.open()) as connection:
            while not self._over.is_set():
                event = Event(aggregate_type="order", aggregate_id=name, type="OrderPlaced", payload={})
                written = Outbox().add(connection, event)
                connection.commit()
                self.written[name].append(written.sequence)

    def have_written(self, count: int) -> bool:
        return all(len(numbers) >= count for numbers in self.written.values())

    @contextmanager
    def running(self) -> Iterator["Writers"]:
        with Threads(len(self.written)) as pool:
            running = [pool.submit(self._write, name) for name in self.written]
            try:
                yield self
            finally:
                self._over.set()
        for writer in running:
            writer.result()


class Feed:
    """Events of two aggregates for a consumer, each twice and never many at a time."""

    def __init__(self, service: Service, consumer: Any) -> None:
        self._service, self._consumer = service, consumer
        self._over = threading.Event()
        self.sent = 0

    def has_applied(self, count: int) -> bool:
        return int(self._consumer.outcomes[Outcome.APPLIED]) >= count

    def _send(self) -> None:
        while not self._over.is_set():
            number = self.sent + 1
            events = [make_event(number, aggregate) for aggregate in "ab"]
            self._service.send(*events, *events)
            self.sent = number
            eventually(lambda: self._over.is_set() or self.has_applied(2 * self.sent - 10), "the consumer")

    @contextmanager
    def running(self) -> Iterator["Feed"]:
        with Threads(1) as pool:
            sending = pool.submit(self._send)
            try:
                yield self
            finally:
                self._over.set()
        sending.result()


def test_a_version_is_reached_beside_writers_and_a_consumer_of_the_version_before(
    tables: Tables, outbox_stack: Stack, tmp_path: Path
) -> None:
    service = Service(tables, outbox_stack, tables.store)

    async def fail(_event: RecordedEvent, _connection: Any) -> None:
        raise LookupError

    consumer = service.consumer({"OrderPlaced": service.apply_effect, "Poison": fail})
    service.send(make_event(1, "p"), make_event(2, "p", event_type="Poison"), make_event(3, "p"))
    writers, feed = Writers(tables), Feed(service, consumer)
    with service.running(consumer), writers.running(), feed.running():
        eventually(lambda: writers.have_written(5) and feed.has_applied(10), "populated tables")
        with planted(tmp_path / "sql", tables.dialect, second_version(tables.dialect)):
            done = tables.init()
        assert done.returncode == 0, done.stderr
        written, applied = max(map(len, writers.written.values())), consumer.outcomes[Outcome.APPLIED]
        eventually(lambda: writers.have_written(written + 5) and feed.has_applied(applied + 10), "what comes later")
    with service.running(consumer := service.consumer({"OrderPlaced": service.apply_effect, "Poison": fail})):
        numbers = list(range(1, feed.sent + 1))
        eventually(lambda: service.ledger.applied() == {"a": numbers, "b": numbers, "p": [1]}, "what was sent")
    assert done.stderr.count("now at version 2") == 2
    assert tables.versions() == [2, 2]

    rows = tables.query("select aggregateid, sequence from outbox")
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in writers.written.values())
    assert Counter(rows) == Counter((name, n) for name, numbers in writers.written.items() for n in numbers)
    assert [last for (last,) in tables.query("select last from outbox_heads order by aggregateid")] == [
        len(numbers) for _, numbers in sorted(writers.written.items())
    ]
    assert service.ledger.parked() == [("p", 2, "failed"), ("p", 3, "gap")]
    for table in ("outbox", "inbox_watermarks"):
        # What was there was changed, and what the version before writes afterwards is as good.
        assert {note for (note,) in tables.query(f"select note from {table}")} >= {"old"}  # noqa: S608 - of ours
    assert {note for (note,) in tables.query("select note from outbox")} == {"old", None}

    with planted(tmp_path / "again", tables.dialect, second_version(tables.dialect)):
        assert tables.init().stderr.count("up to date") == 2
        check = tables.init("--check")
        assert (check.returncode, check.stdout) == (0, ""), check.stdout
    assert sorted(tables.query("select component from runs")) == [("inbox",), ("outbox",)]


def test_each_release_says_whose_tables_it_finds(tables: Tables, tmp_path: Path) -> None:
    with planted(tmp_path / "sql", tables.dialect, second_version(tables.dialect)):
        assert tables.init("--check").stdout.count("DB341") == 2
        assert tables.init().returncode == 0
    refused, check = tables.init(), tables.init("--check")
    assert refused.returncode == 2
    assert "the tables have version 2, but this release supports up to 1" in refused.stderr
    assert "Upgrade cdc-outbox before you change these tables." in refused.stderr
    assert check.returncode == 3
    assert check.stdout.count("DB342") == 2
    with closing(tables.open()) as connection:
        order = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={})
        assert Outbox().add(connection, order).sequence == 1
        connection.commit()


def test_two_upgrades_at_once_do_it_once(tables: Tables, tmp_path: Path) -> None:
    populate(tables)
    waiting = {
        Dialect.POSTGRESQL: "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname ="
        " current_database()",
        Dialect.MYSQL: "select count(*) from information_schema.processlist where db = database() and state in"
        " ('User lock', 'Waiting for table metadata lock')",
        Dialect.SQLITE: "select 2",  # who waits for a file is not told
    }[tables.dialect]
    opened = threading.Barrier(3, timeout=patience())
    with (
        planted(tmp_path / "sql", tables.dialect, second_version(tables.dialect)),
        Threads(2) as pool,
        closing(tables.open()) as holder,
        closing(holder.cursor()) as cursor,
    ):
        # So that the one is in the middle when the other looks for the version.
        cursor.execute("update outbox set type = type")
        running = [pool.submit(tables.upgrade, opened.wait) for _ in range(2)]
        opened.wait()
        eventually(lambda: tables.query(waiting) == [(2,)], "both to wait")
        holder.rollback()
        assert [version for each in running for version in each.result()] == [2, 2]
    assert tables.versions() == [2, 2]
    assert sorted(tables.query("select component from runs")) == [("inbox",), ("outbox",)]


def test_one_that_fails_leaves_the_version_before_and_is_run_again(tables: Tables, tmp_path: Path) -> None:
    populate(tables)
    broken = second_version(tables.dialect, FAILS)
    with planted(tmp_path / "broken", tables.dialect, broken), pytest.raises(Exception, match="nowhere"):
        tables.upgrade()
    assert tables.versions() == [1, 1]
    # MariaDB commits with each statement that changes a table.
    assert ("note" in tables.columns("outbox")) == (not tables.dialect.features.undoes_ddl)
    with planted(tmp_path / "sql", tables.dialect, second_version(tables.dialect)):
        assert tables.upgrade() == [2, 2]
    assert tables.versions() == [2, 2]
    assert tables.query("select note from outbox") == [("old",)]


def test_an_outbox_that_comes_after_its_heads_has_every_version(outbox_stack: Stack, tmp_path: Path) -> None:
    dsn, spec = outbox_stack.postgres.create_database(f"u{uuid4().hex[:10]}"), tmp_path / "orders.yaml"
    tables = Tables(Dialect.POSTGRESQL, None, dsn, spec, lambda: psycopg.connect(dsn))
    spec.write_text(for_any_database(Pipeline.text("orders", "outbox: {mode: message}\n")))
    assert tables.init().returncode == 0
    with planted(tmp_path / "sql", tables.dialect, second_version(tables.dialect)):
        assert tables.init().returncode == 0
        assert tables.versions() == [2, 2]
        spec.write_text(for_any_database(Pipeline.text("orders")))
        assert tables.init().stderr.count("up to date") == 2
    assert "note" in tables.columns("outbox")


@pytest.mark.parametrize("tables", ["postgresql", "mariadb"], indirect=True)
def test_one_whose_connection_breaks_leaves_the_version_before(tables: Tables, tmp_path: Path) -> None:
    populate(tables)
    waiting = {
        Dialect.POSTGRESQL: "select pid from pg_stat_activity where wait_event_type = 'Lock' and datname ="
        " current_database()",
        Dialect.MYSQL: "select id from information_schema.processlist where info like 'alter table%inbox%' and"
        " db = database()",
    }[tables.dialect]
    with (
        closing(tables.open()) as holder,
        closing(holder.cursor()) as cursor,
        Threads(1) as pool,
        planted(tmp_path / "sql", tables.dialect, second_version(tables.dialect)),
    ):
        cursor.execute("update inbox_watermarks set last = last")
        done = pool.submit(tables.upgrade)
        eventually(lambda: tables.query(waiting), "the upgrade to wait")
        [(session,)] = tables.query(waiting)
        tables.store.end(session)
        with pytest.raises(DatabaseUnavailableError):
            done.result()
        # MariaDB commits each component's version by itself.
        assert tables.versions() == ([1, 2] if tables.dialect is Dialect.MYSQL else [1, 1])
        holder.rollback()
        assert tables.upgrade() == ([2] if tables.dialect is Dialect.MYSQL else [2, 2])
    assert tables.versions() == [2, 2]


def populate(tables: Tables) -> None:
    """Put a row into one table of each component."""
    with closing(tables.open()) as connection, closing(connection.cursor()) as cursor:
        order = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={})
        Outbox().add(connection, order)
        cursor.execute(
            "insert into inbox_watermarks (consumer, source, aggregatetype, aggregateid, last)"
            " values ('shipping', 'orders.1', 'order', '1', 7)"
        )
        connection.commit()
