"""The consumer with each driver that its handlers may be given, over a real topic."""

import sqlite3
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pymysql
from django.db import connections
from pymysql.constants import CLIENT
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from tests.contract.consumer_contract import ConsumerContract, MariaDbConsumers, PostgresConsumers, SqliteConsumers
from tests.contract.django_site import add_entry, entry
from tests.contract.test_driver import asyncpg_options
from tests.contract.test_driver_sqlalchemy import url_of


class CursorUsers(ConsumerContract):
    """Those whose connections have cursors."""

    async def execute(self, connection: Any, sql: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []


class SessionUsers(ConsumerContract):
    """Those who use a session of SQLAlchemy's."""

    library: str

    def connect(self, ledger: Any) -> Any:
        return Session(
            create_engine(url_of(getattr(ledger, "dsn", None) or ledger.path, self.library), poolclass=NullPool)
        )

    async def execute(self, connection: Any, sql: str) -> Any:
        result = connection.execute(text(sql))
        return result.fetchall() if result.returns_rows else []


class AsyncSessionUsers(SessionUsers):
    asynchronous = True

    async def connect(self, ledger: Any) -> Any:
        return AsyncSession(
            create_async_engine(url_of(getattr(ledger, "dsn", None) or ledger.path, self.library), poolclass=NullPool)
        )

    async def execute(self, connection: Any, sql: str) -> Any:
        result = await connection.execute(text(sql))
        return result.fetchall() if result.returns_rows else []


class DjangoUsers(CursorUsers):
    """Each thread has a connection of its own, which is reached through the project's registry."""

    def connect(self, ledger: Any) -> Any:
        if not hasattr(ledger, "alias"):
            ledger.alias = add_entry(entry(getattr(ledger, "dsn", None) or ledger.path))
        return connections[ledger.alias]


class TestPsycopg(CursorUsers, PostgresConsumers):
    def connect(self, ledger: Any) -> Any:
        return psycopg.connect(ledger.dsn)


class TestAsyncPsycopg(PostgresConsumers):
    asynchronous = True

    async def connect(self, ledger: Any) -> Any:
        return await psycopg.AsyncConnection.connect(ledger.dsn)

    async def execute(self, connection: Any, sql: str) -> Any:
        cursor = await connection.execute(sql)
        return await cursor.fetchall() if cursor.description else []


class TestPsycopg2(CursorUsers, PostgresConsumers):
    def connect(self, ledger: Any) -> Any:
        return psycopg2.connect(ledger.dsn)


class TestAsyncpg(PostgresConsumers):
    asynchronous = True

    async def connect(self, ledger: Any) -> Any:
        return await asyncpg.connect(**asyncpg_options(ledger.dsn))

    async def execute(self, connection: Any, sql: str) -> Any:
        return [tuple(row) for row in await connection.fetch(sql)]


class TestSession(SessionUsers, PostgresConsumers):
    library = "psycopg"


class TestAsyncSession(AsyncSessionUsers, PostgresConsumers):
    library = "asyncpg"


class TestDjango(DjangoUsers, PostgresConsumers):
    pass


class TestPyMySql(CursorUsers, MariaDbConsumers):
    def connect(self, ledger: Any) -> Any:
        return pymysql.connect(**ledger.dsn.parameters(), client_flag=CLIENT.FOUND_ROWS)


class TestSessionOnPyMySql(SessionUsers, MariaDbConsumers):
    library = "pymysql"


class TestDjangoOnMariaDb(DjangoUsers, MariaDbConsumers):
    pass


class TestSqlite3(SqliteConsumers):
    def connect(self, ledger: Any) -> Any:
        return sqlite3.connect(ledger.path)

    async def execute(self, connection: Any, sql: str) -> Any:
        return connection.execute(sql).fetchall()


class TestSessionOnSqlite(SessionUsers, SqliteConsumers):
    library = "pysqlite"


class TestAsyncSessionOnSqlite(AsyncSessionUsers, SqliteConsumers):
    library = "aiosqlite"


class TestDjangoOnSqlite(DjangoUsers, SqliteConsumers):
    pass
