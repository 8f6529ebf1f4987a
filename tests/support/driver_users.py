"""Users of each driver, as a consumer's handlers are: how they connect, and how they execute.

Handlers are written once, as coroutines; a synchronous driver's never wait.
"""

import sqlite3
from collections.abc import AsyncIterator, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import asyncpg
import psycopg
import psycopg2
from django.db import connections
from pymysql.constants import CLIENT
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from tests.support.django_site import add_entry, entry
from tests.support.driver_clients import asyncpg_options
from tests.support.pymysql_connections import connect_pymysql
from tests.support.sqlalchemy_clients import url_of


class Users:
    """Subclasses say which driver they use."""

    asynchronous: ClassVar[bool] = False
    copies: ClassVar[bool] = False
    """Whether :meth:`copy` does something."""
    pipeline: ClassVar[bool] = False
    """Whether the handlers run in the driver's pipeline mode."""

    def connect(self, address: Any) -> Any:
        """Return what the consumer's ``connect`` returns."""
        raise NotImplementedError

    async def execute(self, connection: Any, sql: str) -> Any:
        """Execute as a handler does, and return the rows if there are any."""
        raise NotImplementedError

    async def copy(self, connection: Any, table: str, columns: Sequence[str], parts: Iterable[str]) -> None:
        """Send text to COPY … FROM STDIN, part by part."""
        raise NotImplementedError

    async def raw(self, connection: Any) -> Any:
        """Return the connection of the database's driver."""
        return connection


def _copy_sql(table: str, columns: Sequence[str]) -> str:
    return f"copy {table} ({', '.join(columns)}) from stdin"


class CursorUsers(Users):
    """Those whose connections have cursors."""

    async def execute(self, connection: Any, sql: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []


class PsycopgUsers(CursorUsers):
    copies = True

    def connect(self, address: Any) -> Any:
        return psycopg.connect(address)

    async def copy(self, connection: Any, table: str, columns: Sequence[str], parts: Iterable[str]) -> None:
        with connection.cursor() as cursor, cursor.copy(_copy_sql(table, columns)) as copy:
            for part in parts:
                copy.write(part)


class PipelineUsers(PsycopgUsers):
    copies = False  # which psycopg refuses in a pipeline
    pipeline = True


class AsyncPsycopgUsers(Users):
    asynchronous = True
    copies = True

    async def connect(self, address: Any) -> Any:
        return await psycopg.AsyncConnection.connect(address)

    async def execute(self, connection: Any, sql: str) -> Any:
        cursor = await connection.execute(sql)
        return await cursor.fetchall() if cursor.description else []

    async def copy(self, connection: Any, table: str, columns: Sequence[str], parts: Iterable[str]) -> None:
        async with connection.cursor() as cursor, cursor.copy(_copy_sql(table, columns)) as copy:
            for part in parts:
                await copy.write(part)


class Psycopg2Users(CursorUsers):
    copies = True

    def connect(self, address: Any) -> Any:
        return psycopg2.connect(address)

    async def copy(self, connection: Any, table: str, columns: Sequence[str], parts: Iterable[str]) -> None:
        left = iter(parts)
        with connection.cursor() as cursor:
            cursor.copy_expert(_copy_sql(table, columns), SimpleNamespace(read=lambda _bytes: next(left, "")))


class AsyncpgUsers(Users):
    asynchronous = True
    copies = True

    async def connect(self, address: Any) -> Any:
        return await asyncpg.connect(**asyncpg_options(address))

    async def execute(self, connection: Any, sql: str) -> Any:
        return [tuple(row) for row in await connection.fetch(sql)]

    async def copy(self, connection: Any, table: str, columns: Sequence[str], parts: Iterable[str]) -> None:
        async def source() -> AsyncIterator[bytes]:
            for part in parts:
                yield part.encode()

        await connection.copy_to_table(table, columns=columns, source=source())


class SessionUsers(Users):
    """Those who use a session of SQLAlchemy's."""

    def __init__(self, library: str) -> None:
        self.library = library

    def connect(self, address: Any) -> Any:
        return Session(create_engine(url_of(address, self.library), poolclass=NullPool))

    async def execute(self, connection: Any, sql: str) -> Any:
        result = connection.execute(text(sql))
        return result.fetchall() if result.returns_rows else []

    async def raw(self, connection: Any) -> Any:
        return connection.connection().connection.driver_connection


class AsyncSessionUsers(SessionUsers):
    asynchronous = True

    async def connect(self, address: Any) -> Any:
        return AsyncSession(create_async_engine(url_of(address, self.library), poolclass=NullPool))

    async def execute(self, connection: Any, sql: str) -> Any:
        result = await connection.execute(text(sql))
        return result.fetchall() if result.returns_rows else []

    async def raw(self, connection: Any) -> Any:
        return (await (await connection.connection()).get_raw_connection()).driver_connection


class DjangoUsers(CursorUsers):
    """Each thread has a connection of its own, which is reached through the project's registry."""

    def __init__(self) -> None:
        self._aliases: dict[Any, str] = {}

    def connect(self, address: Any) -> Any:
        if address not in self._aliases:
            self._aliases[address] = add_entry(entry(address))
        return connections[self._aliases[address]]

    async def raw(self, connection: Any) -> Any:
        return connection.connection


class PyMySqlUsers(CursorUsers):
    def connect(self, address: Any) -> Any:
        return connect_pymysql(address, client_flag=CLIENT.FOUND_ROWS)


class Sqlite3Users(Users):
    def connect(self, address: Any) -> Any:
        return sqlite3.connect(address)

    async def execute(self, connection: Any, sql: str) -> Any:
        return connection.execute(sql).fetchall()


POSTGRES_USERS: dict[str, Users] = {
    "psycopg": PsycopgUsers(),
    "psycopg pipeline": PipelineUsers(),
    "psycopg async": AsyncPsycopgUsers(),
    "psycopg2": Psycopg2Users(),
    "asyncpg": AsyncpgUsers(),
    "sqlalchemy psycopg": SessionUsers("psycopg"),
    "sqlalchemy psycopg2": SessionUsers("psycopg2"),
    "sqlalchemy psycopg async": AsyncSessionUsers("psycopg_async"),
    "sqlalchemy asyncpg": AsyncSessionUsers("asyncpg"),
    "django": DjangoUsers(),
}
MARIADB_USERS: dict[str, Users] = {
    "pymysql": PyMySqlUsers(),
    "sqlalchemy pymysql": SessionUsers("pymysql"),
    "sqlalchemy mysqlclient": SessionUsers("mysqldb"),
    "django": DjangoUsers(),
}
SQLITE_USERS: dict[str, Users] = {
    "sqlite3": Sqlite3Users(),
    "sqlalchemy": SessionUsers("pysqlite"),
    "sqlalchemy async": AsyncSessionUsers("aiosqlite"),
    "django": DjangoUsers(),
}
"""All whose drivers open and end transactions, by name."""
