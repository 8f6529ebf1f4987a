"""The consumer with each driver that its handlers may be given, over a real topic."""

import asyncio
import sqlite3
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
from django.db import connections
from pymysql.constants import CLIENT
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from cdc_outbox import RecordedEvent
from cdc_outbox.consumer import AsyncConsumer
from tests.contract.consumer_contract import (
    ConsumerContract,
    OnMariaDb,
    OnPostgres,
    OnSqlite,
    Service,
)
from tests.support.django_site import add_entry, entry
from tests.support.driver_clients import asyncpg_options
from tests.support.events import make_event
from tests.support.patience import patience
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import eventually
from tests.support.sqlalchemy_clients import url_of


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
        return Session(create_engine(url_of(ledger.address, self.library), poolclass=NullPool))

    async def execute(self, connection: Any, sql: str) -> Any:
        result = connection.execute(text(sql))
        return result.fetchall() if result.returns_rows else []


class AsyncSessionUsers(SessionUsers):
    asynchronous = True

    async def connect(self, ledger: Any) -> Any:
        return AsyncSession(create_async_engine(url_of(ledger.address, self.library), poolclass=NullPool))

    async def execute(self, connection: Any, sql: str) -> Any:
        result = await connection.execute(text(sql))
        return result.fetchall() if result.returns_rows else []


class DjangoUsers(CursorUsers):
    """Each thread has a connection of its own, which is reached through the project's registry."""

    def connect(self, ledger: Any) -> Any:
        if not hasattr(ledger, "alias"):
            ledger.alias = add_entry(entry(ledger.address))
        return connections[ledger.alias]


class TestPsycopg(CursorUsers, OnPostgres):
    def connect(self, ledger: Any) -> Any:
        return psycopg.connect(ledger.dsn)


class CancelledConsumers(ConsumerContract):
    """Those whose task can be cancelled."""

    asynchronous = True

    def test_a_cancelled_task_leaves_whole_transactions_and_its_group(self, service: Service) -> None:
        async def run() -> int:
            reached, ticks = asyncio.Event(), 0

            async def apply(event: RecordedEvent, connection: Any) -> None:
                await service.apply_effect(event, connection)
                if event.sequence == 3:
                    reached.set()
                    await asyncio.Event().wait()

            async def tick() -> None:
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0.01)

            ticking = asyncio.create_task(tick())
            consumer = service.consumer({"OrderPlaced": apply}, kafka_settings={})
            assert isinstance(consumer, AsyncConsumer)
            consuming = asyncio.create_task(consumer.run())
            await asyncio.wait_for(reached.wait(), patience())
            consuming.cancel()
            with pytest.raises(asyncio.CancelledError):
                await consuming
            ticking.cancel()
            return ticks

        service.send(*(make_event(number, "a") for number in range(1, 6)))
        assert asyncio.run(run()) > 10, "nothing else went on while it polled"
        half = service.ledger.applied().get("a", [])
        assert half in ([], [1], [1, 2])
        # Had it not left, its partition would stay its own for the session's timeout, which is 45 s by default.
        with service.running(service.consumer({"OrderPlaced": service.apply_effect}, kafka_settings={})):
            eventually(lambda: len(service.ledger.applied().get("a", [])) == 5, "all five")
        assert service.ledger.applied() == {"a": [1, 2, 3, 4, 5]}


class TestAsyncPsycopg(CancelledConsumers, OnPostgres):
    async def connect(self, ledger: Any) -> Any:
        return await psycopg.AsyncConnection.connect(ledger.dsn)

    async def execute(self, connection: Any, sql: str) -> Any:
        cursor = await connection.execute(sql)
        return await cursor.fetchall() if cursor.description else []


class TestPsycopg2(CursorUsers, OnPostgres):
    def connect(self, ledger: Any) -> Any:
        return psycopg2.connect(ledger.dsn)


class TestAsyncpg(CancelledConsumers, OnPostgres):
    async def connect(self, ledger: Any) -> Any:
        return await asyncpg.connect(**asyncpg_options(ledger.dsn))

    async def execute(self, connection: Any, sql: str) -> Any:
        return [tuple(row) for row in await connection.fetch(sql)]


class TestSession(SessionUsers, OnPostgres):
    library = "psycopg"


class TestAsyncSession(AsyncSessionUsers, CancelledConsumers, OnPostgres):
    library = "asyncpg"


class TestDjango(DjangoUsers, OnPostgres):
    pass


class TestPyMySql(CursorUsers, OnMariaDb):
    def connect(self, ledger: Any) -> Any:
        return connect_pymysql(ledger.dsn, client_flag=CLIENT.FOUND_ROWS)


class TestSessionOnPyMySql(SessionUsers, OnMariaDb):
    library = "pymysql"


class TestDjangoOnMariaDb(DjangoUsers, OnMariaDb):
    pass


class TestSqlite3(OnSqlite):
    def connect(self, ledger: Any) -> Any:
        return sqlite3.connect(ledger.path)

    async def execute(self, connection: Any, sql: str) -> Any:
        return connection.execute(sql).fetchall()


class TestSessionOnSqlite(SessionUsers, OnSqlite):
    library = "pysqlite"


class TestAsyncSessionOnSqlite(AsyncSessionUsers, OnSqlite):
    library = "aiosqlite"


class TestDjangoOnSqlite(DjangoUsers, OnSqlite):
    pass
