"""The drivers and frameworks of PostgreSQL."""

import asyncio
from typing import Any, ClassVar

import asyncpg
import django
import psycopg
import psycopg2
from django.conf import settings
from django.db import connections, transaction
from sqlalchemy import URL, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from benchmarks.writers.database import WriterDatabase
from benchmarks.writers.dbapi import StatementCursorWriter
from benchmarks.writers.work import BY_HAND, LIST, ORDER, event, parameters, row
from cdc_outbox import AsyncOutbox, Outbox
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.psycopg2 import Psycopg2
from cdc_outbox.databases.sql import PYFORMAT

_ALL_BY_HAND = """
insert into outbox (id, aggregatetype, aggregateid, type, payload)
select * from unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::json[])
"""


def _known(database: WriterDatabase) -> dict[str, Any]:
    """Return what a DSN says as those want it who do not read one."""
    known = psycopg.conninfo.conninfo_to_dict(database.dsn)
    named = {key: known[key] for key in ("host", "user", "password")}
    return {**named, "port": int(str(known["port"])), "database": known["dbname"]}


def _url(scheme: str, database: WriterDatabase) -> URL:
    known = _known(database)
    return URL.create(scheme, username=known.pop("user"), **known)


class PsycopgWriter(StatementCursorWriter):
    """psycopg 3."""

    dialect: ClassVar = Dialect.POSTGRESQL

    def __init__(self, database: WriterDatabase) -> None:
        self.connection: psycopg.Connection[Any] = psycopg.connect(database.dsn)

    def list_by_hand(self, numbers: range) -> None:
        """Write a hundred events in one statement."""
        for number in numbers:
            rows = [row(number * LIST + index) for index in range(LIST)]
            self.connection.execute(_ALL_BY_HAND, [list(column) for column in zip(*rows, strict=True)])
            self.connection.commit()

    def list_by_outbox(self, outbox: Outbox, numbers: range) -> None:
        """Write a hundred events by one call."""
        for number in numbers:
            outbox.add_all(self.connection, [event(number * LIST + index) for index in range(LIST)])
            self.connection.commit()


class Psycopg2Writer(StatementCursorWriter):
    """psycopg2."""

    dialect: ClassVar = Dialect.POSTGRESQL
    style: ClassVar = Psycopg2.style

    def __init__(self, database: WriterDatabase) -> None:
        self.connection = psycopg2.connect(database.dsn)


_ORDER_1, _BY_HAND_1 = "insert into orders (customer, total_cents) values ($1, $2)", BY_HAND
for _number in range(1, 6):
    _BY_HAND_1 = _BY_HAND_1.replace("%s", f"${_number}", 1)


class AsyncpgWriter:
    """asyncpg."""

    dialect: ClassVar = Dialect.POSTGRESQL
    bounds: ClassVar = (1.1, 1.25)

    def __init__(self, database: WriterDatabase) -> None:
        self._runner = asyncio.Runner()
        self.connection: Any = self._runner.run(asyncpg.connect(**_known(database)))

    def by_hand(self, numbers: range) -> None:
        """Write two rows in a transaction."""

        async def write() -> None:
            for number in numbers:
                async with self.connection.transaction():
                    await self.connection.execute(_ORDER_1, number, 1999)
                    await self.connection.execute(_BY_HAND_1, *row(number))

        self._runner.run(write())

    def by_outbox(self, outbox: Outbox, twin: AsyncOutbox, numbers: range) -> None:  # noqa: ARG002
        """Write two rows in a transaction."""

        async def write() -> None:
            for number in numbers:
                async with self.connection.transaction():
                    await self.connection.execute(_ORDER_1, number, 1999)
                    await twin.add(self.connection, event(number))

        self._runner.run(write())

    def close(self) -> None:
        """Close the connection."""
        self._runner.run(self.connection.close())
        self._runner.close()


_ORDER_TEXT = text("insert into orders (customer, total_cents) values (:customer, :total_cents)")
_ROW = ("id", "aggregatetype", "aggregateid", "type", "payload")
_BY_HAND_TEXT = text(
    "insert into outbox (id, aggregatetype, aggregateid, type, payload)"
    " values (cast(:id as uuid), :aggregatetype, :aggregateid, :type, cast(:payload as json))"
)


def _order(number: int) -> dict[str, int]:
    return {"customer": number, "total_cents": 1999}


def _named(number: int) -> dict[str, str]:
    return dict(zip(_ROW, row(number), strict=True))


class SqlAlchemyWriter:
    """SQLAlchemy's Session on psycopg."""

    dialect: ClassVar = Dialect.POSTGRESQL
    style: ClassVar = PYFORMAT
    bounds: ClassVar = (1.1, 1.25)

    def __init__(self, database: WriterDatabase) -> None:
        self._engine = create_engine(_url("postgresql+psycopg", database))
        self.session = Session(self._engine)

    def by_hand(self, numbers: range) -> None:
        """Write two rows and commit."""
        for number in numbers:
            self.session.execute(_ORDER_TEXT, _order(number))
            self.session.execute(_BY_HAND_TEXT, _named(number))
            self.session.commit()

    def by_outbox(self, outbox: Outbox, twin: AsyncOutbox, numbers: range) -> None:  # noqa: ARG002
        """Write two rows and commit."""
        for number in numbers:
            self.session.execute(_ORDER_TEXT, _order(number))
            outbox.add(self.session, event(number))
            self.session.commit()

    def by_statement(self, sql: str, numbers: range) -> None:
        """Write two rows and commit."""
        for number in numbers:
            self.session.execute(_ORDER_TEXT, _order(number))
            self.session.connection().exec_driver_sql(sql, parameters(number)).all()
            self.session.commit()

    def close(self) -> None:
        """Close the session and its connection."""
        self.session.close()
        self._engine.dispose()


class AsyncSqlAlchemyWriter:
    """SQLAlchemy's AsyncSession on asyncpg."""

    dialect: ClassVar = Dialect.POSTGRESQL
    bounds: ClassVar = (1.1, 1.25)

    def __init__(self, database: WriterDatabase) -> None:
        self._runner = asyncio.Runner()
        self._engine = create_async_engine(_url("postgresql+asyncpg", database))
        self.session = AsyncSession(self._engine)

    def by_hand(self, numbers: range) -> None:
        """Write two rows and commit."""

        async def write() -> None:
            for number in numbers:
                await self.session.execute(_ORDER_TEXT, _order(number))
                await self.session.execute(_BY_HAND_TEXT, _named(number))
                await self.session.commit()

        self._runner.run(write())

    def by_outbox(self, outbox: Outbox, twin: AsyncOutbox, numbers: range) -> None:  # noqa: ARG002
        """Write two rows and commit."""

        async def write() -> None:
            for number in numbers:
                await self.session.execute(_ORDER_TEXT, _order(number))
                await twin.add(self.session, event(number))
                await self.session.commit()

        self._runner.run(write())

    def close(self) -> None:
        """Close the session and its connection."""

        async def end() -> None:
            await self.session.close()
            await self._engine.dispose()

        self._runner.run(end())
        self._runner.close()


_ALIAS = "bench"


class DjangoWriter:
    """Django on psycopg."""

    dialect: ClassVar = Dialect.POSTGRESQL
    style: ClassVar = PYFORMAT
    bounds: ClassVar = (1.15, 1.3)

    def __init__(self, database: WriterDatabase) -> None:
        known = _known(database)
        server = {key.upper(): known[key] for key in ("host", "port", "user", "password")}
        alias = {"ENGINE": "django.db.backends.postgresql", "NAME": known["database"], **server}
        if not settings.configured:
            settings.configure(DATABASES={"default": {}}, LOGGING_CONFIG=None)
            django.setup()
        complete = connections.configure_settings({"default": {}, _ALIAS: alias})
        connections.settings[_ALIAS] = complete[_ALIAS]
        self.connection = connections[_ALIAS]

    def by_hand(self, numbers: range) -> None:
        """Write two rows in an atomic block."""
        for number in numbers:
            with transaction.atomic(using=_ALIAS), self.connection.cursor() as cursor:
                cursor.execute(ORDER, (number, 1999))
                cursor.execute(BY_HAND, row(number))

    def by_outbox(self, outbox: Outbox, twin: AsyncOutbox, numbers: range) -> None:  # noqa: ARG002
        """Write two rows in an atomic block."""
        for number in numbers:
            with transaction.atomic(using=_ALIAS):
                with self.connection.cursor() as cursor:
                    cursor.execute(ORDER, (number, 1999))
                outbox.add(self.connection, event(number))

    def by_statement(self, sql: str, numbers: range) -> None:
        """Write two rows in an atomic block."""
        for number in numbers:
            with transaction.atomic(using=_ALIAS), self.connection.cursor() as cursor:
                cursor.execute(ORDER, (number, 1999))
                cursor.execute(sql, parameters(number))
                cursor.fetchall()

    def close(self) -> None:
        """Close the connection and forget its alias."""
        self.connection.close()
        del connections[_ALIAS], connections.settings[_ALIAS]
