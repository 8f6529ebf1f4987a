"""What every inbox promises: in memory, and on each database."""

import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pymysql.constants import CLIENT

from cdc_outbox.consumer import InboxTable, inbox_component
from cdc_outbox.consumer.claims import ClaimedNext, IdClaimedError
from cdc_outbox.consumer.ordering import Move
from cdc_outbox.consumer.session import sql_stores
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.immediate import ImmediateTransactions, finish
from cdc_outbox.databases.drivers.mysql import PyMySql
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.drivers.sqlite3 import Sqlite3
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.errors import ConfigError, MessageError, OutboxError, TransactionEndedError, WatermarkMovedError
from cdc_outbox.testing import MariaDb, MariaDbDsn, MemoryDatabase, Stack
from tests.contract.inbox_contract import CONSUMER, A, B, Opened, opened_on
from tests.contract.stores_contract import ServerStoresContract, SqlStoresContract, StoresContract
from tests.support.mariadb import MariaDbStore
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import eventually, one, run_upgrade
from tests.support.threads import Threads

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class TestMemory(StoresContract):
    CLAIMS_NEXT = True

    @pytest.fixture
    def opened(self) -> Opened:
        database = MemoryDatabase()
        finish(database.begin(None))
        return Opened(None, database, database.stores)


class TestPostgresql(ServerStoresContract):
    CLAIMS_NEXT = True

    @pytest.fixture(scope="class")
    @classmethod
    def dsn(cls, outbox_stack: Stack) -> str:
        dsn = outbox_stack.postgres.create_database("inbox_contract")
        with psycopg.connect(dsn) as connection:
            run_upgrade(connection, inbox_component(InboxTable()))
        return dsn

    @pytest.fixture
    def opened(self, dsn: str) -> Iterator[Opened]:
        with opened_on(psycopg.connect(dsn, autocommit=True)) as opened:
            yield opened

    @pytest.fixture
    def opens(self, dsn: str) -> Iterator[Callable[[], AbstractContextManager[Opened]]]:
        yield lambda: opened_on(psycopg.connect(dsn, autocommit=True))
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
        opened.connection.execute(
            "insert into inbox_purges (consumer, purged_before)"
            " values ('shipping', %s), ('shipping', '2020-01-01'), ('other', '2026-12-01')",
            (NOW,),
        )
        assert finish(opened.inbox.find_purge(opened.connection)) == NOW

    def test_a_snapshot_that_is_not_renewed_is_refused(self, dsn: str) -> None:
        with psycopg.connect(dsn) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            driver = ImmediateTransactions(Psycopg())
            inbox = sql_stores(table=InboxTable(), consumer=CONSUMER, driver=driver).inbox
            for asked in (inbox.find_purge(connection), inbox.claim_next(connection, ["1"], {A: range(1)}, {})):
                with pytest.raises(ConfigError, match="the inbox needs READ COMMITTED"):
                    finish(asked)

    @pytest.mark.parametrize("change", ["advance", "lock"])
    def test_a_watermark_that_another_transaction_changed_since_it_was_read_does_not_move(
        self, opens: Callable[[], AbstractContextManager[Opened]], change: str
    ) -> None:
        with opens() as first, opens() as second:
            first.advance(Move(A, 0, 1), Move(B, 0, 1))
            first.commit()
            claimed = self.claim_next(first, [secrets.token_hex()], range(2), range(2))
            assert claimed is not None
            if change == "advance":
                second.advance(Move(B, 1, 2))
            else:  # which changes no number, but moves the row
                finish(second.inbox.lock_watermarks(second.connection, [B]))
            second.commit()
            with pytest.raises(WatermarkMovedError):
                finish(first.inbox.advance(first.connection, claimed.claims, [Move(A, 1, 2), Move(B, 1, 2)]))

    @pytest.mark.parametrize("end", ["commits", "rolls back"])
    def test_a_batch_that_is_next_waits_for_who_claimed_one_of_its_ids(self, opens: Any, end: str) -> None:
        told: list[object] = []

        def claim() -> None:
            try:
                told.append(self.claim_next(second, ["1", "2"], range(1)))
            except IdClaimedError as error:
                told.append(error)

        with opens() as first, opens() as second, Threads() as threads:
            first.claim("2")
            first.advance(Move(A, 0, 1))
            claiming = threads.submit(claim)
            eventually(lambda: self.is_waiting(second), "the second to wait")
            if end == "commits":
                first.commit()
            else:
                first.roll_back()
            claiming.result()
            if end == "commits":
                assert isinstance(told[0], IdClaimedError)
            else:
                assert isinstance(told[0], ClaimedNext)
                assert finish(second.inbox.advance(second.connection, told[0].claims, [Move(A, 0, 1)])) == []

    def test_claims_of_a_transaction_that_was_ended_advance_nothing(self, opened: Opened) -> None:
        claimed = self.claim_next(opened, ["1"], range(1))
        assert claimed is not None
        opened.roll_back()
        opened.claim("2")
        with pytest.raises(TransactionEndedError):
            finish(opened.inbox.advance(opened.connection, claimed.claims, [Move(A, 0, 1)]))

    def test_another_aggregates_row_at_the_place_of_a_watermark_does_not_move(self, opened: Opened) -> None:
        opened.advance(Move(A, 0, 1), Move(B, 0, 1))
        claimed = self.claim_next(opened, ["1"], range(2), range(2))
        assert claimed is not None
        swapped = replace(claimed.claims, tids={A: claimed.claims.tids[B], B: claimed.claims.tids[A]})
        with pytest.raises(WatermarkMovedError):
            finish(opened.inbox.advance(opened.connection, swapped, [Move(A, 1, 2)]))

    @pytest.mark.parametrize("table", InboxTable().tables, ids=lambda table: table.name)
    def test_a_foreign_table_of_the_same_name_is_refused(self, opened: Opened, table: Any) -> None:
        opened.connection.execute("create schema foreign_one")
        opened.connection.execute(f"create table foreign_one.{table.name} (a int)".encode())
        with pytest.raises(OutboxError, match=f"foreign_one.{table.name} already exists"):
            run_upgrade(opened.connection, inbox_component(InboxTable(schema="foreign_one")))


class TestMariaDb(ServerStoresContract):
    """Under either meaning of the number of rows that a statement changed."""

    MAX_ID_BYTES, MAX_AGGREGATE_ID_BYTES = 2299, 1300

    @pytest.fixture(scope="class")
    @classmethod
    def dsn(cls, mariadb: MariaDb) -> MariaDbDsn:
        dsn = mariadb.create_database("inbox_contract")
        with closing(connect_pymysql(dsn)) as connection:
            upgrade(lambda sql: PyMySql("pymysql").fetch(connection, sql), inbox_component(INBOX))
        return dsn

    @pytest.fixture(params=[0, CLIENT.FOUND_ROWS], ids=["changed rows", "found rows"])
    def connect(self, dsn: MariaDbDsn, request: pytest.FixtureRequest) -> Callable[[], Any]:
        def connect() -> Any:
            connection = connect_pymysql(dsn, client_flag=request.param)
            PyMySql("pymysql").prepare(connection, idle_seconds=60)
            return connection

        return connect

    @pytest.fixture
    def opened(self, connect: Callable[[], Any]) -> Iterator[Opened]:
        with opened_on(connect()) as opened:
            yield opened

    @pytest.fixture
    def opens(
        self, dsn: MariaDbDsn, connect: Callable[[], Any]
    ) -> Iterator[Callable[[], AbstractContextManager[Opened]]]:
        yield lambda: opened_on(connect())
        with closing(MariaDbStore(dsn)) as store:
            for table in INBOX.tables:
                store.query(f"truncate {table.quoted}")

    @pytest.fixture(autouse=True)
    def watcher(self, dsn: MariaDbDsn) -> Iterator[MariaDbStore]:
        with closing(MariaDbStore(dsn)) as self._watcher:
            yield self._watcher

    def is_waiting(self, opened: Opened) -> bool:
        return opened.connection.thread_id() in self._watcher.waiting()

    def test_the_last_purge_is_known(self, opened: Opened) -> None:
        purges = (
            "insert into inbox_purges (consumer, purged_before) values"
            " ('shipping', '2026-11-21 12:00:00'), ('shipping', '2020-01-01'), ('other', '2026-12-01')"
        )
        finish(opened.driver.fetch(opened.connection, purges))
        assert finish(opened.inbox.find_purge(opened.connection)) == NOW

    def test_a_snapshot_that_is_not_renewed_is_refused(self, dsn: MariaDbDsn) -> None:
        with (
            opened_on(connect_pymysql(dsn)) as opened,
            pytest.raises(ConfigError, match="the inbox needs READ COMMITTED"),
        ):
            finish(opened.inbox.find_purge(opened.connection))

    def test_what_does_not_fit_is_refused_in_every_column_of_a_key(self, opened: Opened) -> None:
        for column, size in (("source", 500), ("aggregate_type", 500), ("aggregate_id", 1300)):
            assert opened.watermarks(A._replace(**{column: "a" * size})) == {}
            with pytest.raises(MessageError, match="cannot be a key of the inbox"):
                opened.watermarks(A._replace(**{column: "a" * (size + 1)}))

    def test_a_servers_mode_that_cuts_off_and_quotes_otherwise_changes_nothing(self, opened: Opened) -> None:
        finish(opened.driver.fetch(opened.connection, "set sql_mode = 'ansi_quotes,pipes_as_concat'"))
        self.test_keys_are_told_apart_by_each_byte(opened)

    def test_two_that_claim_the_same_ids_in_another_order_do_not_wait_for_each_other(self, opens: Any) -> None:
        ids = [str(number) for number in range(100)]
        with opens() as first, opens() as second, Threads() as threads:
            first.claim(*ids)
            claiming = threads.submit(lambda: second.claim(*reversed(ids), "new"))
            eventually(lambda: self.is_waiting(second), "the second to wait")
            first.roll_back()
            assert claiming.result() == {*ids, "new"}


class TestSqlite(SqlStoresContract):
    AND_CHAIN = ";begin immediate"

    @pytest.fixture
    def dsn(self, tmp_path: Path) -> Path:
        path = tmp_path / "inbox.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("begin")
            upgrade(lambda sql: Sqlite3().fetch(connection, sql), inbox_component(InboxTable.on(Dialect.SQLITE)))
            connection.commit()
        return path

    @pytest.fixture
    def opened(self, dsn: Path) -> Iterator[Opened]:
        with opened_on(sqlite3.connect(dsn)) as opened:
            yield opened

    @pytest.fixture
    def opens(self, dsn: Path) -> Callable[[], AbstractContextManager[Opened]]:
        return lambda: opened_on(sqlite3.connect(dsn))

    def test_the_last_purge_is_known(self, opened: Opened) -> None:
        opened.connection.execute(
            "insert into inbox_purges (consumer, purged_before) values"
            " ('shipping', '2026-11-21T12:00:00.000'), ('other', '2026-12-01T00:00:00.000')"
        )
        assert finish(opened.inbox.find_purge(opened.connection)) == NOW


INBOX = InboxTable.on(Dialect.MYSQL)
