"""SQL that is sent to PostgreSQL and MariaDB by each driver: add, add_all, receive, and a consumer's statements.

Drivers that send the same share a golden file.
"""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import asyncpg
import MySQLdb
import MySQLdb.cursors
import psycopg
import psycopg2
import pymysql.cursors
import pytest
from django.db import connections, transaction
from sqlalchemy import Engine, NullPool, create_engine, event
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from cdc_outbox.consumer import InboxTable, inbox_component
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import find_driver, find_transaction_driver
from cdc_outbox.databases.drivers.mysql import PyMySql
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.testing import MariaDb, Stack
from tests.contract.inbox_contract import opened_on
from tests.support.django_site import add_alias, remove_alias
from tests.support.driver_clients import asyncpg_options
from tests.support.golden import golden
from tests.support.mariadb import MariaDbStore
from tests.support.postgresql import PostgresStore
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import run_upgrade
from tests.support.sql_trace import TABLES, SqlTrace, trace_stores, use, use_async
from tests.support.sqlalchemy_clients import url_of

READ_COMMITTED = "set session transaction isolation level read committed"
"""What the inbox needs of connections to MariaDB, whose default is another level."""


@pytest.fixture(scope="module")
def postgresql(outbox_stack: Stack) -> Iterator[PostgresStore]:
    with closing(PostgresStore.create(outbox_stack, "golden_sql")) as store:
        for table in TABLES:
            store.make_tables(table)
        with psycopg.connect(store.dsn) as connection:
            run_upgrade(connection, inbox_component(InboxTable()))
        yield store


@pytest.fixture(scope="module")
def on_mariadb(mariadb: MariaDb) -> Iterator[MariaDbStore]:
    with closing(MariaDbStore.create(mariadb, "golden_sql")) as store:
        for table in TABLES:
            store.make_tables(table)
        with closing(connect_pymysql(store.dsn)) as connection:
            inbox = inbox_component(InboxTable.on(Dialect.MYSQL))
            upgrade(lambda sql: PyMySql("pymysql").fetch(connection, sql), inbox)
        yield store


@pytest.fixture
def trace() -> SqlTrace:
    return SqlTrace()


def test_psycopg(postgresql: PostgresStore, trace: SqlTrace, monkeypatch: pytest.MonkeyPatch) -> None:
    trace.spy(monkeypatch, psycopg.Cursor)
    with psycopg.connect(postgresql.dsn) as connection:
        use(trace, connection, messages=True)
        connection.rollback()
    golden("sql/psycopg.txt").check(str(trace))


def test_consumers_statements_on_psycopg(
    postgresql: PostgresStore, trace: SqlTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace.spy(monkeypatch, psycopg.Cursor)
    connection = psycopg.connect(postgresql.dsn, autocommit=True)
    trace.heading("prepare and begin")
    find_transaction_driver(connection).prepare(connection, idle_seconds=60)
    with opened_on(connection) as opened:
        trace_stores(trace, opened)
        trace.heading("end")
    golden("sql/psycopg-consumer.txt").check(str(trace))


def test_asynchronous_psycopg(postgresql: PostgresStore, trace: SqlTrace, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with await psycopg.AsyncConnection.connect(postgresql.dsn) as connection:
            await use_async(trace, connection)
            await connection.rollback()

    trace.spy(monkeypatch, psycopg.AsyncCursor)
    asyncio.run(run())
    golden("sql/psycopg.txt").check(str(trace))


def test_psycopg2(postgresql: PostgresStore, trace: SqlTrace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cursors are written in C: what is recorded is what they are given by the driver."""
    with closing(psycopg2.connect(postgresql.dsn)) as connection:
        for method in ("fetch", "fetch_often"):
            trace.spy(monkeypatch, type(find_driver(connection)), method, skipped=1)
        use(trace, connection, messages=True)
        connection.rollback()
    golden("sql/psycopg2.txt").check(str(trace))


def test_asyncpg(postgresql: PostgresStore, trace: SqlTrace) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(**asyncpg_options(postgresql.dsn))
        begun = connection.transaction()
        await begun.start()
        try:
            with connection.query_logger(lambda query: trace.add(query.query, query.args)):
                await use_async(trace, connection)
        finally:
            await begun.rollback()
            await connection.close()

    asyncio.run(run())
    golden("sql/asyncpg.txt").check(str(trace))


def record(trace: SqlTrace, engine: Engine) -> None:
    def add(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_others: Any) -> None:
        trace.add(statement, parameters)

    event.listen(engine, "before_cursor_execute", add)


@pytest.mark.parametrize("library", ["psycopg", "psycopg2"])
def test_sqlalchemy(postgresql: PostgresStore, trace: SqlTrace, library: str) -> None:
    engine = create_engine(url_of(postgresql.dsn, library), poolclass=NullPool)
    with Session(engine) as session:
        session.connection()  # which asks the server for its version
        record(trace, engine)
        use(trace, session, messages=True)
        session.rollback()
    golden(f"sql/sqlalchemy-{library}.txt").check(str(trace))


def test_asynchronous_sqlalchemy(postgresql: PostgresStore, trace: SqlTrace) -> None:
    async def run() -> None:
        engine = create_async_engine(url_of(postgresql.dsn, "asyncpg"), poolclass=NullPool)
        async with AsyncSession(engine) as session:
            await session.connection()
            record(trace, engine.sync_engine)
            await use_async(trace, session)
            await session.rollback()
        await engine.dispose()

    asyncio.run(run())
    golden("sql/sqlalchemy-asyncpg.txt").check(str(trace))


@pytest.mark.parametrize("server", ["postgresql", "on_mariadb"])
def test_django(server: str, trace: SqlTrace, request: pytest.FixtureRequest) -> None:
    store = request.getfixturevalue(server)
    alias = add_alias(store)

    def add(execute: Any, sql: str, parameters: Any, many: Any, context: Any) -> Any:
        trace.add(sql, parameters)
        return execute(sql, parameters, many, context)

    try:
        with transaction.atomic(using=alias), connections[alias].execute_wrapper(add):
            use(trace, connections[alias], messages=server == "postgresql")
            transaction.set_rollback(True, using=alias)
    finally:
        remove_alias(alias)
    golden("sql/psycopg.txt" if server == "postgresql" else "sql/django-mariadb.txt").check(str(trace))


def test_pymysql(on_mariadb: MariaDbStore, trace: SqlTrace, monkeypatch: pytest.MonkeyPatch) -> None:
    trace.spy(monkeypatch, pymysql.cursors.Cursor)
    with closing(connect_pymysql(on_mariadb.dsn, init_command=READ_COMMITTED)) as connection:
        use(trace, connection, messages=False)
        connection.rollback()
    golden("sql/pymysql.txt").check(str(trace))


def test_consumers_statements_on_pymysql(
    on_mariadb: MariaDbStore, trace: SqlTrace, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace.spy(monkeypatch, pymysql.cursors.Cursor)
    connection = connect_pymysql(on_mariadb.dsn)
    trace.heading("prepare and begin")
    find_transaction_driver(connection).prepare(connection, idle_seconds=60)
    with opened_on(connection) as opened:
        trace_stores(trace, opened)
        trace.heading("end")
    golden("sql/pymysql-consumer.txt").check(str(trace))


def test_mysqlclient(on_mariadb: MariaDbStore, trace: SqlTrace, monkeypatch: pytest.MonkeyPatch) -> None:
    trace.spy(monkeypatch, MySQLdb.cursors.BaseCursor)
    with closing(MySQLdb.connect(**on_mariadb.dsn.parameters(), init_command=READ_COMMITTED)) as connection:
        use(trace, connection, messages=False)
        connection.rollback()  # type: ignore[no-untyped-call]
    golden("sql/mysqlclient.txt").check(str(trace))


def test_sqlalchemy_on_pymysql(on_mariadb: MariaDbStore, trace: SqlTrace) -> None:
    engine = create_engine(url_of(on_mariadb.dsn, "pymysql"), poolclass=NullPool, isolation_level="READ COMMITTED")
    with Session(engine) as session:
        session.connection()
        record(trace, engine)
        use(trace, session, messages=False)
        session.rollback()
    golden("sql/sqlalchemy-pymysql.txt").check(str(trace))
