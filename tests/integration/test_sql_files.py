"""Each file of statements is SQL to PostgreSQL's, SQLite's or MariaDB's own parser, as it stands."""

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from importlib.resources import files

import psycopg
import pymysql
import pytest
from psycopg.pq import DiagnosticField

from cdc_outbox.databases import sql
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.sql import Statement, load, load_versions
from cdc_outbox.testing import Stack
from cdc_outbox.testing.mariadb import MariaDb
from tests.support.pymysql_connections import connect_pymysql

PARAMETER = re.compile(r"(?<![\w:']):[a-z_]\w*")
NOT_POSTGRESQL = b"42601"
NOT_MYSQL = 1064
NOT_SQLITE = ("syntax error", "unrecognized token", "incomplete input", "one statement")

Parse = Callable[[str], str]
"""Return why a text is no statement, empty if it is one; whether there are such tables does not matter."""


def statements(dialect: Dialect) -> Iterator[tuple[str, Mapping[str, Statement]]]:
    for path in (files(sql) / dialect).iterdir():
        if path.name.endswith(".sql"):
            yield path.name, load(dialect, path.name.removesuffix(".sql"))
    for component in ("outbox", "inbox"):
        for version, found in load_versions(dialect, component).items():
            yield f"{component} {version}", found


def mistakes(dialect: Dialect, parse: Parse) -> Iterator[str]:
    for file, found in statements(dialect):
        for name, statement in found.items():
            for step in statement.steps():
                reason = parse(step.text)
                if reason:
                    yield f"{file}, {name}: {reason}"


@pytest.fixture
def in_postgresql(outbox_stack: Stack) -> Iterator[Parse]:
    with psycopg.connect(outbox_stack.postgres.create_database("sql_files"), autocommit=True) as connection:

        def parse(text: str) -> str:
            result = connection.pgconn.prepare(b"", PARAMETER.sub("$1", text).encode())
            is_broken = result.error_field(DiagnosticField.SQLSTATE) == NOT_POSTGRESQL
            return result.error_message.decode() if is_broken else ""

        yield parse


@pytest.fixture
def in_sqlite() -> Iterator[Parse]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:

        def parse(text: str) -> str:
            try:
                connection.execute(f"explain {text}")
            except sqlite3.Error as error:
                return str(error) if any(reason in str(error) for reason in NOT_SQLITE) else ""
            return ""

        yield parse


@pytest.fixture
def in_mysql(mariadb: MariaDb) -> Iterator[Parse]:
    """Parse as MariaDB does, which skips what stands for MySQL alone in ``/*!80200 … */``.

    Unlike MySQL's and PostgreSQL's, its privileges are no identifiers.
    """
    address = mariadb.create_database("sql_files")
    with connect_pymysql(address, autocommit=True) as connection, connection.cursor() as cursor:

        def parse(text: str) -> str:
            try:
                cursor.execute("prepare parsed from %s", (PARAMETER.sub("?", text.replace("`{actions}`", "select")),))
            except pymysql.MySQLError as error:
                return str(error) if error.args[0] == NOT_MYSQL else ""
            return ""

        yield parse


@pytest.mark.parametrize("dialect", Dialect)
def test_every_statement_is_sql(dialect: Dialect, request: pytest.FixtureRequest) -> None:
    parse = request.getfixturevalue(f"in_{dialect}")
    found = list(mistakes(dialect, parse))
    assert not found, "\n".join(found)
    assert re.search("syntax|incomplete", parse("select id from outbox where"))
    assert parse("select 1; select 2")
    assert parse("select ';' from outbox where id = :id") == ""
