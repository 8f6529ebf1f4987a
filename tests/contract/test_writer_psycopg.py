"""psycopg 3 under the writer's contract: connection, cursor, pool, and the asynchronous ones."""

import asyncio
import weakref
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC
from typing import Any

import psycopg
import psycopg.rows
import pytest
from psycopg.types.string import TextLoader
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from cdc_outbox import AsyncOutbox, Outbox, RecordedEvent
from cdc_outbox.databases.drivers import find_driver
from cdc_outbox.errors import DatabaseError, OutboxError
from cdc_outbox.testing import Stack
from tests.contract.writer_contract import PlaceContract
from tests.support.postgresql import PostgresStore, PostgresWriterContract
from tests.support.writer_clients import ORDER, AsyncClient, Client


@pytest.fixture(scope="module")
def store(outbox_stack: Stack) -> Iterator[PostgresStore]:
    with closing(PostgresStore.create(outbox_stack, "writer_psycopg")) as store:
        yield store


class PsycopgClient(Client):
    connection: psycopg.Connection[Any]

    def __init__(self, dsn: str, *, autocommit: bool) -> None:
        # What users may have set on their connections must not reach our statements and rows.
        self.connection = psycopg.connect(dsn, autocommit=autocommit, row_factory=psycopg.rows.dict_row)
        self.connection.cursor_factory = psycopg.RawCursor
        self.connection.adapters.register_loader("timestamp", TextLoader)
        self.place = self.connection

    def execute(self, sql: str) -> object:
        return self.connection.execute(sql.encode())

    def begin(self) -> object:
        return self.execute("begin")

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def close(self) -> None:
        self.connection.close()


class PsycopgCursorClient(PsycopgClient):
    def __init__(self, dsn: str, *, autocommit: bool) -> None:
        super().__init__(dsn, autocommit=autocommit)
        self.place = self.connection.cursor()


class AsyncPsycopgClient(AsyncClient):
    def __init__(self, dsn: str, *, autocommit: bool) -> None:
        super().__init__()
        self.connection = self.run(psycopg.AsyncConnection.connect(dsn, autocommit=autocommit))
        self.place = self.connection

    def execute(self, sql: str) -> object:
        return self.run(self.connection.execute(sql.encode()))

    def begin(self) -> object:
        return self.execute("begin")

    def commit(self) -> object:
        return self.run(self.connection.commit())

    def rollback(self) -> object:
        return self.run(self.connection.rollback())

    def close(self) -> object:
        self.run(self.connection.close())
        return super().close()


class AsyncPsycopgCursorClient(AsyncPsycopgClient):
    def __init__(self, dsn: str, *, autocommit: bool) -> None:
        super().__init__(dsn, autocommit=autocommit)
        self.place = self.connection.cursor()


class PsycopgPoolClient(PsycopgClient):
    def __init__(self, dsn: str, *, autocommit: bool) -> None:
        self.pool = ConnectionPool(dsn, min_size=1, max_size=1, kwargs={"autocommit": autocommit}, open=True)
        self.connection = self.place = self.pool.getconn()

    def close(self) -> None:
        self.connection.rollback()
        self.pool.putconn(self.connection)
        self.pool.close()


class AsyncPsycopgPoolClient(AsyncPsycopgClient):
    def __init__(self, dsn: str, *, autocommit: bool) -> None:
        AsyncClient.__init__(self)
        self.run(self.connect(dsn, autocommit=autocommit))

    async def connect(self, dsn: str, *, autocommit: bool) -> None:
        self.pool = AsyncConnectionPool(dsn, min_size=1, max_size=1, kwargs={"autocommit": autocommit}, open=False)
        await self.pool.open()
        self.connection = self.place = await self.pool.getconn()

    async def give_back(self) -> None:
        await self.connection.rollback()
        await self.pool.putconn(self.connection)
        await self.pool.close()

    def close(self) -> object:
        self.run(self.give_back())
        return AsyncClient.close(self)


class TestPsycopg(PostgresWriterContract):
    library = "psycopg"

    def open(self, store: PostgresStore, *, autocommit: bool = False) -> Client:
        return PsycopgClient(store.dsn, autocommit=autocommit)


class TestPsycopgCursor(PlaceContract):
    def open(self, store: PostgresStore, *, autocommit: bool = False) -> Client:
        return PsycopgCursorClient(store.dsn, autocommit=autocommit)


class TestAsyncPsycopg(TestPsycopg):
    def open(self, store: PostgresStore, *, autocommit: bool = False) -> Client:
        return AsyncPsycopgClient(store.dsn, autocommit=autocommit)


class TestAsyncPsycopgCursor(PlaceContract):
    def open(self, store: PostgresStore, *, autocommit: bool = False) -> Client:
        return AsyncPsycopgCursorClient(store.dsn, autocommit=autocommit)


class TestPsycopgPool(PlaceContract):
    def open(self, store: PostgresStore, *, autocommit: bool = False) -> Client:
        return PsycopgPoolClient(store.dsn, autocommit=autocommit)


class TestAsyncPsycopgPool(PlaceContract):
    def open(self, store: PostgresStore, *, autocommit: bool = False) -> Client:
        return AsyncPsycopgPoolClient(store.dsn, autocommit=autocommit)


def test_a_pool_itself_is_asked_for_a_connection(store: PostgresStore) -> None:
    with closing(PsycopgPoolClient(store.dsn, autocommit=True)) as client:
        pool = client.pool
        with pytest.raises(OutboxError, match="not a supported connection"):
            find_driver(pool)


def test_a_kept_cursor_follows_its_session_to_another_encoding(store: PostgresStore) -> None:
    outbox = Outbox()
    with psycopg.connect(store.dsn) as connection:
        for encoding, letter in (("utf8", "é"), ("latin1", "ü"), ("utf8", "ö")):
            connection.execute(f"set client_encoding to {encoding}".encode())
            written = outbox.add(connection, replace(ORDER, aggregate_id=letter))
            query = "select ascii(aggregateid) from outbox where id = %s"
            assert connection.execute(query, [written.id]).fetchone() == (ord(letter),)
        connection.rollback()


def test_an_event_is_written_in_a_session_whose_encoding_tells_nothing(store: PostgresStore) -> None:
    event, outbox = replace(ORDER, aggregate_id="é"), Outbox()
    with psycopg.connect(store.dsn, client_encoding="SQL_ASCII") as connection:
        written = [outbox.add(connection, event), outbox.add(connection, event)]
        connection.rollback()

    async def write() -> RecordedEvent:
        async with await psycopg.AsyncConnection.connect(store.dsn, client_encoding="SQL_ASCII") as connection:
            written = await AsyncOutbox().add(connection, event)
            await connection.rollback()
            return written

    written.append(asyncio.run(write()))
    assert [(each.source, each.sequence, each.created_at.tzinfo) for each in written] == [
        ("orders.1", 1, UTC),
        ("orders.1", 2, UTC),
        ("orders.1", 1, UTC),
    ]


def test_a_connection_is_freed_although_it_keeps_cursors(store: PostgresStore) -> None:
    connection = psycopg.connect(store.dsn)
    Outbox().add(connection, ORDER)
    reference = weakref.ref(connection)
    with pytest.warns(ResourceWarning, match="deleted while still open"):
        del connection
    assert reference() is None


@pytest.mark.parametrize("statement", ["deallocate all", "prepare _pg3_0 as select 1"])
def test_prepared_statements_that_a_pooler_mixes_up_name_the_pooler(store: PostgresStore, statement: str) -> None:
    """The transaction of another client on the same session of the server does both."""
    with psycopg.connect(store.dsn, prepare_threshold=0) as connection:
        if statement.startswith("deallocate"):
            Outbox().add(connection, ORDER)
            connection.commit()
        connection.pgconn.exec_(statement.encode())
        with pytest.raises(DatabaseError, match="prepared statement") as caught:
            Outbox().add(connection, ORDER)
        assert "PgBouncer" in caught.value.hint
