"""SQL that is sent to SQLite: by the writer, the consumer and the operator's commands."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, NullPool, create_engine, event
from sqlalchemy.orm import Session

from cdc_outbox.consumer import InboxTable, inbox_component
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import find_transaction_driver
from cdc_outbox.databases.migrations import upgrade
from tests.contract.inbox_contract import CONSUMER, Opened, failed, gap, opened_on
from tests.support.commands import run_command
from tests.support.golden import golden
from tests.support.sql_trace import TABLES, SqlTrace, trace_stores, use
from tests.support.sqlite import SqliteStore

SPEC = "version: 1\nname: orders\ndatabase: {kind: sqlite}\naggregates: {order: {}}\n"
COMMANDS = (
    "init x.yaml --check --inbox",
    f"parked list --consumer {CONSUMER}",
    "parked list --state waiting --reason gap --aggregate order/a",
    f"parked show 1 --consumer {CONSUMER}",
    f"parked export --consumer {CONSUMER}",
    f"parked retry 1 --consumer {CONSUMER}",
    f"parked retry --all --consumer {CONSUMER}",
    f"parked skip 1 --consumer {CONSUMER} --note because",
    f"baseline --consumer {CONSUMER} --note because",
    f"baseline --consumer {CONSUMER} --aggregate order/a --source orders.1 --note because",
    "purge-inbox --horizon 30d --consumed-topic orders --accept-shorter-horizon",
    "init x.yaml --new-incarnation --from-source orders.1",
)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    monkeypatch.chdir(tmp_path)
    with closing(SqliteStore(tmp_path / "x.db")) as store:
        for table in TABLES:
            store.make_tables(table)
        upgrade(store.query, inbox_component(InboxTable.on(Dialect.SQLITE)))
        yield store


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> SqlTrace:
    """What cursors of sqlite3 execute from now on."""

    class Recording(sqlite3.Cursor):
        def execute(self, sql: str, parameters: Any = (), /) -> "Recording":
            recorded.add(sql, parameters)
            super().execute(sql, parameters)
            return self

    recorded = SqlTrace()
    monkeypatch.setattr(sqlite3, "Cursor", Recording)
    return recorded


def test_writer_and_consumer_on_sqlite3(store: SqliteStore, trace: SqlTrace) -> None:
    with closing(sqlite3.connect(store.path)) as connection:
        connection.execute("begin")
        use(trace, connection, messages=False)
        connection.rollback()
    golden("sql/sqlite3.txt").check(str(trace))


def test_consumers_statements_on_sqlite3(store: SqliteStore, trace: SqlTrace) -> None:
    trace.heading("prepare and begin")
    connection = sqlite3.connect(store.path, isolation_level=None)
    find_transaction_driver(connection).prepare(connection, idle_seconds=60)
    with opened_on(connection) as opened:
        trace_stores(trace, opened)
        trace.heading("end")
    golden("sql/sqlite3-consumer.txt").check(str(trace))


def test_writer_and_consumer_on_sqlalchemy(store: SqliteStore) -> None:
    trace = SqlTrace()

    def record(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_others: Any) -> None:
        trace.add(statement, parameters)

    engine: Engine = create_engine(f"sqlite:///{store.path}", poolclass=NullPool)
    event.listen(engine, "before_cursor_execute", record)
    with Session(engine) as session:
        use(trace, session, messages=False)
        session.rollback()
    golden("sql/sqlalchemy-sqlite.txt").check(str(trace))


def park(opened: Opened) -> None:
    """Leave three parked events of a consumer that has used the inbox."""
    opened.claim("1")
    opened.issue()
    for sequence, failure in ((2, failed(None)), (4, gap()), (5, gap())):
        opened.add(sequence, failure)
    opened.commit()


def test_operators_commands_on_sqlite(store: SqliteStore, trace: SqlTrace) -> None:
    with opened_on(sqlite3.connect(store.path, isolation_level=None)) as opened:
        park(opened)
    Path("x.yaml").write_text(SPEC)
    trace.clear()
    for command in COMMANDS:
        trace.heading(command)
        done = run_command(*command.split(), env={"CDC_OUTBOX_DSN": "sqlite:///x.db"})
        trace.heading(f"exit {done.returncode}")
    golden("sql/sqlite3-commands.txt").check(str(trace))
