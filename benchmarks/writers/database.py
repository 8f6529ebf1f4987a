"""A database of each kind, with an orders table and an outbox, as durable as it is by default or more."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass

import psycopg
import pymysql

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.mysql import PyMySql
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.drivers.sqlite3 import Sqlite3
from cdc_outbox.databases.migrations import Component, upgrade
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.testing import MariaDbDsn, Stack
from cdc_outbox.writer.outbox_schema import outbox_component

_ORDERS = "create table orders (id {key}, customer int, total_cents bigint)"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterDatabase:
    """How a driver reaches its database; what belongs to other kinds is empty."""

    dsn: str = ""
    mariadb: MariaDbDsn | None = None

    @property
    def server(self) -> MariaDbDsn:
        """MariaDB's own way to be reached."""
        assert self.mariadb is not None  # noqa: S101 - whoever asks has one
        return self.mariadb


def make_database(stack: Stack, dialect: Dialect, name: str) -> WriterDatabase:
    """Create the database.

    Raises:
        RuntimeError: A commit would not wait for the disk, and nothing that is measured would be true.
    """
    return {Dialect.POSTGRESQL: _postgresql, Dialect.MYSQL: _mariadb, Dialect.SQLITE: _sqlite}[dialect](stack, name)


def _postgresql(stack: Stack, name: str) -> WriterDatabase:
    dsn = stack.postgres.create_database(name)
    with psycopg.connect(dsn) as connection:
        upgrade(lambda sql: Psycopg().fetch(connection, sql), _component(Dialect.POSTGRESQL))
        connection.execute(_ORDERS.format(key="bigserial primary key").encode())
    return WriterDatabase(dsn=dsn)


def _mariadb(stack: Stack, name: str) -> WriterDatabase:
    dsn = stack.mariadb.create_database(name)
    with closing(pymysql.connect(**dsn.parameters())) as connection, connection.cursor() as cursor:
        upgrade(lambda sql: PyMySql("pymysql").fetch(connection, sql), _component(Dialect.MYSQL))
        cursor.execute(_ORDERS.format(key="bigint auto_increment primary key"))
        connection.commit()
    return WriterDatabase(mariadb=dsn)


def _sqlite(stack: Stack, name: str) -> WriterDatabase:
    path = stack.folder.path / f"{name}.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = wal")
        if connection.execute("pragma synchronous").fetchone() != (2,):
            raise RuntimeError("a commit does not wait for the disk: synchronous is not FULL")
        connection.execute("begin")
        upgrade(lambda sql: Sqlite3().fetch(connection, sql), _component(Dialect.SQLITE))
        connection.execute(_ORDERS.format(key="integer primary key"))
        connection.commit()
    return WriterDatabase(dsn=str(path))


def _component(dialect: Dialect) -> Component:
    return outbox_component(OutboxTable(), first_source="bench.1", dialect=dialect)
