"""Drivers of databases, as those who open and end transactions use them."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import MySQLdb
import psycopg
import psycopg.rows
import psycopg2
import psycopg2.extras
import pymysql
import pytest

from cdc_outbox.databases.drivers import (
    TransactionState,
    find_async_driver,
    find_async_transaction_driver,
    find_driver,
    find_transaction_driver,
)
from cdc_outbox.errors import ConfigError, DatabaseUnavailableError, OutboxError
from cdc_outbox.testing import MariaDb, MariaDbDsn, Stack
from tests.contract.driver_contract import CopyingContract, MariaDbContract, PostgresContract, SqliteContract
from tests.support.driver_clients import AsyncClient, Client, asyncpg_options, joins_outside
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import eventually


class TestPsycopg(CopyingContract):
    def open(self, dsn: str) -> Client:
        # The user's own row factory must not reach our rows.
        return Client(psycopg.connect(dsn, autocommit=self.autocommit, row_factory=psycopg.rows.dict_row))

    def test_nobody_else_ends_the_transaction_by_the_connections_own_methods(self, client: Client) -> None:
        client.begin()
        client.fetch("insert into t values (7)")
        connection = client.connection
        for end in (connection.commit, connection.rollback, lambda: connection.__exit__(None, None, None)):
            with pytest.raises(psycopg.ProgrammingError, match="forbidden"):
                end()
        client.commit()
        assert client.rows(7) == [(7,)]

    def test_a_session_that_idles_outside_a_transaction_stays(self, client: Client, dsn: Any) -> None:
        client.prepare(idle_seconds=0.2)
        client.begin()
        [(session,)] = client.fetch(self.who)
        client.commit()
        other = self.open(dsn)
        other.prepare(idle_seconds=0.2)
        other.begin()
        [(idle,)] = other.fetch(self.who)
        eventually(lambda: not self.is_connected(dsn, idle), "the server to end the other's transaction")
        other.close()
        assert self.is_connected(dsn, session)

    def test_a_block_that_was_left_open_inside_is_undone_too(self, client: Client) -> None:
        client.begin()
        client.fetch("insert into t values (8)")
        psycopg.Transaction(client.connection).__enter__()
        client.rollback()
        assert client.state() is TransactionState.ENDED

    def test_a_transaction_begins_as_the_connection_is_set(self, client: Client) -> None:
        client.connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        client.connection.read_only = True
        client.begin()
        assert client.fetch("show transaction_isolation") == [("serializable",)]
        assert client.fetch("show transaction_read_only") == [("on",)]
        client.rollback()

    def test_another_isolation_level_is_refused(self, client: Client) -> None:
        client.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with pytest.raises(ConfigError, match="are REPEATABLE READ; a consumer needs READ COMMITTED"):
            client.prepare()
        client.connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        client.prepare()

    def test_a_transaction_on_a_closed_connection_is_no_transaction_already(self, client: Client) -> None:
        client.hang_up()
        with pytest.raises(DatabaseUnavailableError, match="closed"):
            client.begin()


class TestPsycopgInAutocommit(TestPsycopg):
    autocommit = True

    def test_it_does_not_join_a_transaction_that_is_none(self, client: Client) -> None:
        assert not joins_outside(client.connection)


class TestAsyncPsycopg(CopyingContract):
    def open(self, dsn: str) -> Client:
        runner = asyncio.Runner()
        connect = psycopg.AsyncConnection.connect
        return AsyncClient(
            runner, runner.run(connect(dsn, autocommit=self.autocommit, row_factory=psycopg.rows.dict_row))
        )

    def test_another_isolation_level_is_refused(self, client: AsyncClient) -> None:
        client.runner.run(client.connection.set_isolation_level(psycopg.IsolationLevel.SERIALIZABLE))
        with pytest.raises(ConfigError, match="are SERIALIZABLE"):
            client.prepare()

    def test_nobody_else_ends_the_transaction_by_the_connections_own_methods(self, client: AsyncClient) -> None:
        client.begin()
        for end in (client.connection.commit, client.connection.rollback):
            with pytest.raises(psycopg.ProgrammingError, match="forbidden"):
                client.runner.run(end())
        client.rollback()


class TestAsyncPsycopgInAutocommit(TestAsyncPsycopg):
    autocommit = True


class TestPsycopg2(CopyingContract):
    copying = TransactionState.ABORTED
    timed_out = DatabaseUnavailableError  # it keeps the server's last words to itself

    def open(self, dsn: str) -> Client:
        connection = psycopg2.connect(dsn, cursor_factory=psycopg2.extras.RealDictCursor)
        connection.autocommit = self.autocommit
        return Client(connection)

    def test_another_isolation_level_is_refused(self, client: Client) -> None:
        for level in ("READ UNCOMMITTED", "REPEATABLE READ", "SERIALIZABLE"):
            client.connection.set_session(isolation_level=level)
            with pytest.raises(ConfigError, match=f"are {level}"):
                client.prepare()
        client.connection.set_session(isolation_level="READ COMMITTED")
        client.prepare()

    def test_a_handlers_own_block_ends_the_transaction_and_is_noticed(self, client: Client) -> None:
        client.begin()
        if not self.autocommit:
            with client.connection:
                client.fetch("insert into t values (7)")
            assert client.state() is TransactionState.ENDED


class TestPsycopg2InAutocommit(TestPsycopg2):
    autocommit = True


async def open_pool(pool: Any) -> None:
    await pool


async def lend(pool: Any) -> Any:
    return await pool.acquire()


class TestAsyncpg(PostgresContract):
    timed_out = DatabaseUnavailableError
    tells_closed_from_lost = False
    sees_aborts = False

    def open(self, dsn: str) -> Client:
        runner = asyncio.Runner()
        return AsyncClient(runner, runner.run(asyncpg.connect(**asyncpg_options(dsn))))

    def test_a_block_of_a_handlers_is_a_savepoint(self, client: AsyncClient) -> None:
        async def apply() -> None:
            for number in (7, 8):
                async with client.connection.transaction():
                    await client.connection.execute("insert into t values ($1)", number)
                    if number == 7:
                        raise LookupError

        client.begin()
        with pytest.raises(LookupError):
            client.runner.run(apply())
        client.fetch("insert into t values (9)")
        client.commit()
        assert (client.rows(7), client.rows(9)) == ([], [(9,)])

    def test_a_pools_connection_will_do(self, dsn: str) -> None:
        with asyncio.Runner() as runner:
            pool = asyncpg.create_pool(**asyncpg_options(dsn), min_size=1, max_size=1)
            runner.run(open_pool(pool))
            client = AsyncClient(runner, runner.run(lend(pool)))
            client.prepare(idle_seconds=9)
            client.begin()
            assert client.fetch("show idle_in_transaction_session_timeout") == [("9s",)]
            client.commit()
            runner.run(pool.release(client.connection))
            assert client.state() is TransactionState.LOST
            client.rollback()
            runner.run(pool.close())


class TestPyMySql(MariaDbContract):
    def open(self, dsn: MariaDbDsn) -> Client:
        return Client(connect_pymysql(dsn, autocommit=self.autocommit, cursorclass=pymysql.cursors.DictCursor))


class TestPyMySqlInAutocommit(TestPyMySql):
    autocommit = True

    def test_it_does_not_join_a_transaction_that_is_none(self, client: Client) -> None:
        assert not joins_outside(client.connection)


class TestSqlite3(SqliteContract):
    def open(self, dsn: Path) -> Client:
        connection = sqlite3.connect(dsn)
        connection.row_factory = sqlite3.Row
        if self.autocommit:
            connection.isolation_level = None
        return Client(connection)


class TestSqlite3InAutocommit(TestSqlite3):
    autocommit = True

    def test_it_does_not_join_a_transaction_that_is_none(self, client: Client) -> None:
        assert not joins_outside(client.connection)


def test_a_driver_that_only_joins_transactions_is_named(mariadb: MariaDb) -> None:
    with (
        closing(MySQLdb.connect(**mariadb.dsn().parameters())) as connection,
        pytest.raises(OutboxError, match="open its transactions") as caught,
    ):
        find_transaction_driver(connection)
    assert "PyMySQL, sqlite3, SQLAlchemy or Django" in caught.value.hint


@pytest.mark.parametrize("stranger", [object(), "a string", 7])
def test_a_stranger_is_refused_by_its_type(stranger: object) -> None:
    for find in (find_driver, find_async_driver, find_transaction_driver, find_async_transaction_driver):
        with pytest.raises(OutboxError, match=f"{type(stranger).__qualname__} is not a supported connection"):
            find(stranger)


def test_an_asynchronous_connection_needs_the_other_class(outbox_stack: Stack) -> None:
    with psycopg.connect(outbox_stack.postgres.dsn()) as connection:
        with pytest.raises(OutboxError, match=r"psycopg\.Connection is not an asynchronous connection") as caught:
            find_async_transaction_driver(connection)
        assert "Outbox takes synchronous connections" in caught.value.hint
