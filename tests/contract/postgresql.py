"""PostgreSQL as the writer's contract needs it."""

from typing import Any

import psycopg
from psycopg.types.string import TextLoader

from cdc_outbox.table import Dialect, OutboxTable
from cdc_outbox.testing import Stack
from cdc_outbox.writer.schema import outbox_component
from tests.contract.writer_contract import Store
from tests.rig import run_upgrade


class PostgresStore(Store):
    dialect = Dialect.POSTGRESQL

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._connection = psycopg.connect(dsn, autocommit=True)
        # As Debezium reads it: json as the text that was written.
        self._connection.adapters.register_loader("json", TextLoader)

    @classmethod
    def create(cls, stack: Stack, name: str) -> "PostgresStore":
        store = cls(stack.postgres.create_database(name))
        store.make_tables(OutboxTable())
        store.query("create table customers (id int)")
        return store

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(sql.encode())
        return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        self._connection.close()

    def make_tables(self, table: OutboxTable) -> None:
        run_upgrade(self._connection, outbox_component(table, first_source="orders.1"))

    def count_sessions(self) -> int:
        [(count,)] = self.query("select count(*) from pg_stat_activity where datname = current_database()")
        return int(count)
