"""Upgrades of our own tables on MariaDB and SQLite: what differs there from PostgreSQL."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cdc_outbox import OutboxTable
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.mysql import PyMySql
from cdc_outbox.databases.drivers.sqlite3 import Sqlite3
from cdc_outbox.databases.migrations import Component, Migration, script, upgrade
from cdc_outbox.databases.table import TableName
from cdc_outbox.errors import OutboxError
from cdc_outbox.testing import MariaDb, MariaDbDsn
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.support.pymysql_connections import connect_pymysql
from tests.support.threads import Threads

NAME = r"o'clock\ `x` %s"


@dataclass
class Database:
    dialect: Dialect
    open: Callable[[], AbstractContextManager[Callable[[str], list[tuple[Any, ...]]]]]
    """Opens a session; what it yields executes a statement. At the end the session commits."""


@pytest.fixture(params=["mariadb", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return Database(Dialect.SQLITE, lambda: _open_sqlite(tmp_path / "orders.db"))
    mariadb: MariaDb = request.getfixturevalue("mariadb")
    dsn = mariadb.create_database(f"upgrade_{abs(hash(request.node.name)) % 10**8}")
    return Database(Dialect.MYSQL, lambda: _open_mariadb(dsn))


@contextmanager
def _open_sqlite(path: Path) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    with closing(sqlite3.connect(path, timeout=60)) as connection:
        yield lambda sql: Sqlite3().fetch(connection, sql)
        connection.commit()


@contextmanager
def _open_mariadb(dsn: MariaDbDsn) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    with closing(connect_pymysql(dsn)) as connection:
        yield lambda sql: PyMySql("pymysql").fetch(connection, sql)
        connection.commit()


def component(dialect: Dialect, *statements: str) -> Component:
    table = TableName(schema=dialect.features.default_schema, name="things", dialect=dialect)
    first = "create table if not exists things (a int)"
    steps = [Migration(version=n, statements=(sql,)) for n, sql in enumerate([first, *statements], 1)]
    return Component(kind="outbox", tables=(table,), migrations=tuple(steps))


def run(database: Database, component: Component) -> None:
    with database.open() as execute:
        upgrade(execute, component)


def version(database: Database) -> Any:
    with database.open() as execute:
        return execute("select version from cdc_outbox_version where component like 'outbox%things'")[0][0]


def test_several_releases_at_once_take_turns(database: Database) -> None:
    def upgrade_alone(_number: int) -> None:
        with database.open() as execute:
            upgrade(execute, component(database.dialect, "insert into things values (1)"))

    with Threads(4) as pool:
        list(pool.map(upgrade_alone, range(4)))
    assert version(database) == 2
    with database.open() as execute:
        assert execute("select a from things") == [(1,)]


def test_what_failed_is_gone_on_with_and_the_lock_is_free(database: Database) -> None:
    broken = component(database.dialect, "insert into nowhere values (1)")
    with pytest.raises(Exception, match="nowhere"), database.open() as execute:
        upgrade(execute, broken)
    with database.open() as execute:
        upgrade(execute, component(database.dialect, "insert into things values (1)"))
        assert execute("select a from things") == [(1,)]
    assert version(database) == 2


@pytest.mark.parametrize("schema", [None, "own"])
def test_a_table_of_somebody_elses_is_left_alone(database: Database, schema: str | None) -> None:
    schema = "main" if schema and database.dialect is Dialect.SQLITE else schema
    table = OutboxTable(schema=schema, name=NAME)
    wanted = outbox_component(table, first_source=r"it's\.1", dialect=database.dialect)
    with database.open() as execute:
        if schema == "own":
            execute("create database if not exists own")
        execute(f"create table {wanted.tables[0].quoted} (a int)")
    with pytest.raises(OutboxError, match="already exists"):
        run(database, wanted)
    with database.open() as execute:
        execute(f"drop table {wanted.tables[0].quoted}")
        assert len(upgrade(execute, wanted)) == 1
        assert upgrade(execute, wanted) == ()
        outbox = wanted.tables[0].quoted
        execute(f"insert into {outbox} (id, aggregatetype, aggregateid, type) values ('1', 'order', '1', 'X')")  # noqa: S608
        assert execute(f"select source from {outbox}") == [(r"it's\.1",)]  # noqa: S608


def test_the_script_makes_the_same_and_may_be_run_again(database: Database) -> None:
    text = script(outbox_component(OutboxTable(), first_source="orders.1", dialect=database.dialect))
    with database.open() as execute:
        for _ in range(2):
            for statement in text.split(";\n"):
                execute(statement)
        assert execute("select component, version from cdc_outbox_version") == [
            (f"outbox {'main.' if database.dialect is Dialect.SQLITE else ''}outbox", 1)
        ]
        assert execute("select count(*) from outbox_heads") == [(0,)]


def test_an_upgrade_that_waits_in_vain_says_so(mariadb: MariaDb) -> None:
    dsn = mariadb.create_database("upgrade_in_vain")
    with _open_mariadb(dsn) as holder, _open_mariadb(dsn) as other:
        assert holder("select get_lock('cdc-outbox upgrade', 30)") == [(1,)]
        with pytest.raises(OutboxError, match="another upgrade holds the lock"):
            upgrade(lambda sql: other(sql.replace(", 60)", ", 0)")), component(Dialect.MYSQL))
