"""A connection and its driver in one, so that a contract asks synchronous drivers and their twins in the same words."""

import asyncio
from contextlib import suppress
from typing import Any

import psycopg
import psycopg.rows
import psycopg2
import psycopg2.extensions

from cdc_outbox.databases.drivers import (
    Parameters,
    Row,
    TransactionState,
    find_async_transaction_driver,
    find_driver,
    find_transaction_driver,
)
from cdc_outbox.databases.drivers.immediate import ImmediateTransactions, finish
from cdc_outbox.databases.drivers.transactions import resolved


class Client:
    """A connection and the driver that was found for it."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.driver: Any = find_transaction_driver(connection)

    def prepare(self, *, idle_seconds: float = 60) -> None:
        self.driver.prepare(self.connection, idle_seconds=idle_seconds)

    def begin(self) -> None:
        self.driver.begin(self.connection)

    def state(self) -> TransactionState:
        state: TransactionState = self.driver.state(self.connection)
        return state

    def resolved(self) -> TransactionState:
        return finish(resolved(ImmediateTransactions(self.driver), self.connection))

    def joins_transaction(self) -> bool:
        joins: bool = self.driver.joins_transaction(self.connection)
        return joins

    def fetch(self, sql: str, parameters: Parameters = None) -> list[Row]:
        rows: list[Row] = self.driver.fetch(self.connection, sql, parameters)
        return rows

    def commit(self) -> None:
        self.driver.commit(self.connection)

    def rollback(self) -> None:
        self.driver.rollback(self.connection)

    def hang_up(self) -> None:
        self.connection.close()

    def close(self) -> None:
        with suppress(Exception):  # it was closed before, or cut
            self.connection.close()

    def rows(self, number: int) -> list[Row]:
        """Return the rows of this number that another transaction finds."""
        self.begin()
        try:
            return self.fetch(f"select a from t where a = {number}")  # noqa: S608
        finally:
            self.rollback()


class AsyncClient(Client):
    """The same, waiting on a loop of its own."""

    def __init__(self, runner: asyncio.Runner, connection: Any) -> None:
        self.runner = runner
        self.connection = connection
        self.driver = find_async_transaction_driver(connection)

    def prepare(self, *, idle_seconds: float = 60) -> None:
        self.runner.run(self.driver.prepare(self.connection, idle_seconds=idle_seconds))

    def begin(self) -> None:
        self.runner.run(self.driver.begin(self.connection))

    def resolved(self) -> TransactionState:
        return self.runner.run(resolved(self.driver, self.connection))

    def joins_transaction(self) -> bool:
        joins: bool = self.runner.run(self.driver.joins_transaction(self.connection))
        return joins

    def fetch(self, sql: str, parameters: Parameters = None) -> list[Row]:
        rows: list[Row] = self.runner.run(self.driver.fetch(self.connection, sql, parameters))
        return rows

    def commit(self) -> None:
        self.runner.run(self.driver.commit(self.connection))

    def rollback(self) -> None:
        self.runner.run(self.driver.rollback(self.connection))

    def hang_up(self) -> None:
        self.runner.run(self.connection.close())

    def close(self) -> None:
        with suppress(Exception):
            self.runner.run(self.connection.close())
        self.runner.close()


def start_copy(client: Client) -> object:
    """Leave a connection in the midst of a COPY, for as long as what is returned is kept."""
    begun = getattr(getattr(client.driver, "direct", client.driver), "_begun", None)
    raw: Any = begun.raw if begun else getattr(client.connection, "connection", client.connection)
    sql = "copy t from stdin"
    if isinstance(raw, psycopg2.extensions.connection):
        with suppress(psycopg2.ProgrammingError), raw.cursor() as cursor:
            cursor.execute(sql)
        return cursor
    copy = raw.cursor().copy(sql)
    if isinstance(client, AsyncClient):
        client.runner.run(copy.__aenter__())
    else:
        copy.__enter__()
    return copy


def joins_outside(connection: Any) -> bool:
    """Tell whether a connection that nobody began a transaction on joins one."""
    return find_driver(connection).joins_transaction(connection)


def asyncpg_options(dsn: str) -> dict[str, Any]:
    found = psycopg.conninfo.conninfo_to_dict(dsn)
    return {key: found[key] for key in ("host", "port", "user", "password")} | {"database": found["dbname"]}
