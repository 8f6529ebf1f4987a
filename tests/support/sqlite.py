"""SQLite as the writer's contract needs it: a database file."""

import os
import sqlite3
from pathlib import Path
from typing import Any

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.sqlite3 import Sqlite3
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.support.writer_clients import Store

BUSY_SECONDS = 60


class SqliteStore(Store):
    dialect = Dialect.SQLITE

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        # Readers and a writer at a time; with the older journal a reader would keep a writer from its commit.
        self.query("pragma journal_mode = wal")
        # No test pulls the plug.
        self.query("pragma synchronous = off")
        self.make_tables(OutboxTable())
        self.query("create table customers (id int)")

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql).fetchall()

    def close(self) -> None:
        self._connection.close()

    def make_tables(self, table: OutboxTable) -> None:
        self.query("begin")
        component = outbox_component(table, first_source="orders.1", dialect=Dialect.SQLITE)
        upgrade(lambda sql: Sqlite3().fetch(self._connection, sql), component)
        self.query("commit")

    def count_sessions(self) -> int:
        """Count this process's open files: SQLite has no sessions."""
        opened = Path("/proc/self/fd")
        return sum(os.path.realpath(link) == str(self.path) for link in opened.iterdir())
