"""asyncpg under the writer's contract: a connection, and what a pool lends."""

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import UUID

import asyncpg
import pytest
from psycopg.conninfo import conninfo_to_dict

from cdc_outbox.databases.drivers import find_async_driver, find_driver
from cdc_outbox.errors import OutboxError
from cdc_outbox.testing import Stack
from tests.contract.writer_contract import PlaceContract
from tests.support.postgresql import PostgresStore, PostgresWriterContract
from tests.support.writer_clients import AsyncClient, Client


@pytest.fixture(scope="module")
def store(outbox_stack: Stack) -> Iterator[PostgresStore]:
    with closing(PostgresStore.create(outbox_stack, "writer_asyncpg")) as store:
        yield store


class OwnRecord(asyncpg.Record):
    """A user's own, which hides the row's values."""

    def __iter__(self) -> Any:
        raise NotImplementedError


def options(dsn: str) -> dict[str, Any]:
    """Return libpq's options as asyncpg calls them, which reads no DSN but a URL."""
    found = conninfo_to_dict(dsn)
    return {"database": found.pop("dbname"), **found}


async def teach(connection: Any) -> None:
    """Set the codecs that users set, so that parameters and rows are other Python objects than they were."""
    for name, encoder, decoder in (
        ("json", json.dumps, json.loads),
        ("uuid", lambda value: value.hex, UUID),
        ("timestamp", lambda value: value.isoformat(), lambda text: f"at {text}"),
    ):
        await connection.set_type_codec(name, encoder=encoder, decoder=decoder, schema="pg_catalog")


class AsyncpgClient(AsyncClient):
    """asyncpg has no other mode than autocommit: without it, one transaction follows the other here."""

    def __init__(self, dsn: str, *, autocommit: bool) -> None:
        super().__init__()
        self.place = self.run(self.connect(dsn))
        self.follows = not autocommit
        self.transaction: Any = None
        self.follow()

    async def connect(self, dsn: str) -> Any:
        connection = await asyncpg.connect(**options(dsn), record_class=OwnRecord)
        await teach(connection)
        return connection

    async def give_back(self) -> None:
        await self.place.close()

    def follow(self) -> None:
        if self.follows:
            self.transaction = self.place.transaction()
            self.run(self.transaction.start())

    def execute(self, sql: str) -> object:
        return self.run(self.place.execute(sql))

    def begin(self) -> object:
        return self.execute("begin")

    def commit(self) -> None:
        self.run(self.transaction.commit()) if self.transaction else self.execute("commit")
        self.follow()

    def rollback(self) -> None:
        self.run(self.transaction.rollback()) if self.transaction else self.execute("rollback")
        self.follow()

    def close(self) -> object:
        self.run(self.give_back())
        return super().close()


class AsyncpgPoolClient(AsyncpgClient):
    pool: Any

    async def connect(self, dsn: str) -> Any:
        self.pool = await asyncpg.create_pool(
            **options(dsn), min_size=1, max_size=1, init=teach, record_class=OwnRecord
        )
        return await self.pool.acquire()

    async def give_back(self) -> None:
        if self.transaction and not self.place.is_closed():
            await self.transaction.rollback()
        await self.pool.release(self.place)
        await self.pool.close()


class TestAsyncpg(PostgresWriterContract):
    library = "asyncpg"

    def open(self, store: PostgresStore, *, autocommit: bool = False) -> Client:
        return AsyncpgClient(store.dsn, autocommit=autocommit)


class TestAsyncpgPool(PlaceContract):
    def open(self, store: PostgresStore, *, autocommit: bool = False) -> Client:
        return AsyncpgPoolClient(store.dsn, autocommit=autocommit)


def test_a_pool_and_synchronous_use_are_refused(store: PostgresStore) -> None:
    with closing(AsyncpgPoolClient(store.dsn, autocommit=True)) as client:
        with pytest.raises(OutboxError, match="is not an asynchronous connection") as caught:
            find_async_driver(client.pool)
        assert "a pool first" in caught.value.hint
        with pytest.raises(OutboxError, match="is not a synchronous connection"):
            find_driver(client.place)
