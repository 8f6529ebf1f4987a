"""What every inbox promises: in memory, and on each database."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from cdc_outbox.consumer import InboxTable, inbox_component
from cdc_outbox.consumer.database import sql_stores
from cdc_outbox.drivers.immediate import ImmediateTransactions, finish
from cdc_outbox.drivers.psycopg import Psycopg
from cdc_outbox.errors import ConfigError, OutboxError
from cdc_outbox.testing import MemoryDatabase, Stack
from tests.contract.inbox_contract import Opened
from tests.contract.stores_contract import SqlStoresContract, StoresContract
from tests.rig import one, run_upgrade

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class TestMemory(StoresContract):
    @pytest.fixture
    def opened(self) -> Opened:
        database = MemoryDatabase()
        finish(database.begin(None))
        return Opened(None, database, database.stores)


class TestPostgresql(SqlStoresContract):
    @pytest.fixture(scope="class")
    @classmethod
    def dsn(cls, outbox_stack: Stack) -> str:
        dsn = outbox_stack.postgres.create_database("inbox_contract")
        with psycopg.connect(dsn) as connection:
            run_upgrade(connection, inbox_component(InboxTable()))
        return dsn

    @pytest.fixture
    def opened(self, dsn: str) -> Iterator[Opened]:
        with opened_on(dsn) as opened:
            yield opened

    @pytest.fixture
    def opens(self, dsn: str) -> Iterator[Callable[[], AbstractContextManager[Opened]]]:
        yield lambda: opened_on(dsn)
        with psycopg.connect(dsn) as connection:
            tables = ", ".join(table.quoted for table in InboxTable().tables)
            connection.execute(f"truncate {tables}".encode())

    @pytest.fixture(autouse=True)
    def watcher(self, dsn: str) -> Iterator[Any]:
        with psycopg.connect(dsn, autocommit=True) as watcher:
            self._watcher = watcher
            yield watcher

    def is_waiting(self, opened: Opened) -> bool:
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and pid = %s"
        return bool(one(self._watcher, waiting, opened.connection.info.backend_pid))

    def test_claims_lie_in_partitions_by_range_of_the_id(self, opened: Opened) -> None:
        strategy = "select partstrat from pg_partitioned_table where partrelid = 'inbox'::regclass"
        assert opened.connection.execute(strategy).fetchall() == [("r",)]

    def test_the_last_purge_is_known(self, opened: Opened) -> None:
        opened.connection.execute("insert into inbox_purges (purged_before) values (%s), ('2020-01-01')", (NOW,))
        assert finish(opened.inbox.find_purge(opened.connection)) == NOW

    def test_a_snapshot_that_is_not_renewed_is_refused(self, dsn: str) -> None:
        with psycopg.connect(dsn) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            driver = ImmediateTransactions(Psycopg())
            inbox = sql_stores(table=InboxTable(), consumer="shop", driver=driver).inbox
            with pytest.raises(ConfigError, match="the inbox needs READ COMMITTED"):
                finish(inbox.find_purge(connection))

    @pytest.mark.parametrize("table", InboxTable().tables, ids=lambda table: table.name)
    def test_a_foreign_table_of_the_same_name_is_refused(self, opened: Opened, table: Any) -> None:
        opened.connection.execute("create schema foreign_one")
        opened.connection.execute(f"create table foreign_one.{table.name} (a int)".encode())
        with pytest.raises(OutboxError, match=f"foreign_one.{table.name} exists already"):
            run_upgrade(opened.connection, inbox_component(InboxTable(schema="foreign_one")))


@contextmanager
def opened_on(dsn: str) -> Iterator[Opened]:
    """Open a connection of psycopg's and a transaction on it."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        driver = ImmediateTransactions(Psycopg())
        shop, other = (sql_stores(table=InboxTable(), consumer=name, driver=driver) for name in ("shop", "other"))
        finish(driver.begin(connection))
        yield Opened(connection, driver, shop, other)
        finish(driver.rollback(connection))
