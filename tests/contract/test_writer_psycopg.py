"""psycopg 3 under the writer's contract: connection, cursor, pool, and the asynchronous ones."""

from collections.abc import Iterator
from contextlib import closing

import psycopg
import psycopg.rows
import pytest
from psycopg.types.string import TextLoader

from cdc_outbox.testing import Stack
from tests.contract.postgresql import PostgresStore, PostgresWriterContract
from tests.contract.writer_contract import AsyncClient, Client, PlaceContract


@pytest.fixture(scope="module")
def store(outbox_stack: Stack) -> Iterator[PostgresStore]:
    with closing(PostgresStore.create(outbox_stack, "writer_psycopg")) as store:
        yield store


class PsycopgClient(Client):
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
