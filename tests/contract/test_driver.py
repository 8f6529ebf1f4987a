"""What consumers and commands rely on in a driver that opens and ends transactions of its own."""

import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import psycopg.rows
import psycopg2
import pymysql
import pytest

from cdc_outbox.drivers import (
    TransactionDriver,
    TransactionState,
    find_async_driver,
    find_driver,
    find_transaction_driver,
)
from cdc_outbox.errors import (
    DatabaseUnavailableError,
    OutboxError,
    TableNotFoundError,
    TransactionAbortedError,
    TransactionEndedError,
)
from cdc_outbox.testing import MariaDb, MariaDbDsn, Stack


class DriverContract:
    """Subclasses say how a connection in or out of autocommit is made, to a database with a table ``t``."""

    def open(self, dsn: Any, *, autocommit: bool) -> Any:
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def dsn(cls) -> Any:
        raise NotImplementedError

    @pytest.fixture(params=[False, True], ids=["transactional", "autocommit"])
    def connection(self, request: pytest.FixtureRequest, dsn: Any) -> Iterator[Any]:
        connection = self.open(dsn, autocommit=request.param)
        yield connection
        with suppress(pymysql.err.Error):  # who closes a connection of PyMySQL's twice is told
            connection.close()

    @pytest.fixture
    def driver(self, connection: Any) -> TransactionDriver:
        return find_transaction_driver(connection)

    def test_what_is_committed_is_there(self, driver: TransactionDriver, connection: Any) -> None:
        driver.begin(connection)
        assert driver.joins_transaction(connection)
        driver.fetch(connection, "insert into t values (1)")
        driver.commit(connection)
        driver.begin(connection)
        assert driver.fetch(connection, "select 1 from t limit 1") == [(1,)]
        driver.rollback(connection)

    def test_what_is_rolled_back_is_not_there(self, driver: TransactionDriver, connection: Any) -> None:
        driver.begin(connection)
        driver.fetch(connection, "insert into t values (2)")
        driver.rollback(connection)
        driver.begin(connection)
        assert driver.fetch(connection, "select a from t where a = 2") == []
        driver.rollback(connection)

    def test_a_second_begin_is_refused(self, driver: TransactionDriver, connection: Any) -> None:
        driver.begin(connection)
        driver.fetch(connection, "select 1")
        with pytest.raises(OutboxError, match="has a transaction already"):
            driver.begin(connection)

    def test_the_state_is_that_of_the_transaction(self, driver: TransactionDriver, connection: Any) -> None:
        assert driver.state(connection) is TransactionState.ENDED
        driver.begin(connection)
        assert driver.state(connection) is TransactionState.OPEN
        connection.close()
        assert driver.state(connection) is TransactionState.ENDED

    def test_a_commit_of_nothing_is_an_error(self, driver: TransactionDriver, connection: Any) -> None:
        with pytest.raises(TransactionEndedError):
            driver.commit(connection)
        driver.begin(connection)
        driver.fetch(connection, "rollback")
        with pytest.raises(TransactionEndedError):
            driver.commit(connection)

    def test_a_rollback_of_nothing_and_of_a_closed_connection_does_nothing(
        self, driver: TransactionDriver, connection: Any
    ) -> None:
        driver.rollback(connection)
        driver.begin(connection)
        connection.close()
        driver.rollback(connection)

    def test_parameters_go_by_name_and_rows_are_plain_tuples(self, driver: TransactionDriver, connection: Any) -> None:
        sql = f"select {driver.style.parameter('a')}, {driver.style.parameter('b')}"
        driver.begin(connection)
        assert driver.fetch(connection, sql, {"a": "x'%s", "b": 7}) == [("x'%s", 7)]
        driver.rollback(connection)

    def test_an_open_connection_outside_a_transaction_does_not_join_one(self, dsn: Any) -> None:
        connection = self.open(dsn, autocommit=True)
        assert not find_driver(connection).joins_transaction(connection)
        connection.close()


class TestPsycopg(DriverContract):
    def open(self, dsn: str, *, autocommit: bool) -> Any:
        # The user's own row factory must not reach our rows.
        return psycopg.connect(dsn, autocommit=autocommit, row_factory=psycopg.rows.dict_row)

    @pytest.fixture(scope="class")
    @classmethod
    def dsn(cls, outbox_stack: Stack) -> str:
        dsn = outbox_stack.postgres.create_database(f"driver_{cls.__name__.lower()}")
        with psycopg.connect(dsn) as connection:
            connection.execute("create table t (a int)")
        return dsn

    def test_a_commit_that_the_server_turns_into_a_rollback_is_an_error(
        self, driver: TransactionDriver, connection: Any
    ) -> None:
        driver.begin(connection)
        driver.fetch(connection, "insert into t values (3)")
        with pytest.raises(TableNotFoundError):
            driver.fetch(connection, "select 1 from nowhere")
        assert driver.state(connection) is TransactionState.ABORTED
        with pytest.raises(TransactionAbortedError, match="would answer COMMIT with ROLLBACK"):
            driver.commit(connection)
        driver.rollback(connection)
        driver.begin(connection)
        assert driver.fetch(connection, "select a from t where a = 3") == []
        driver.rollback(connection)

    def test_nobody_else_ends_the_transaction_by_the_connections_own_methods(
        self, driver: TransactionDriver, connection: Any
    ) -> None:
        driver.begin(connection)
        driver.fetch(connection, "insert into t values (4)")
        for end in (connection.commit, connection.rollback, lambda: connection.__exit__(None, None, None)):
            with pytest.raises(psycopg.ProgrammingError, match="forbidden"):
                end()
        driver.commit(connection)
        driver.begin(connection)
        assert driver.fetch(connection, "select a from t where a = 4 limit 1") == [(4,)]
        driver.rollback(connection)

    def test_a_block_that_was_left_open_inside_is_undone_too(self, driver: TransactionDriver, connection: Any) -> None:
        driver.begin(connection)
        driver.fetch(connection, "insert into t values (5)")
        psycopg.Transaction(connection).__enter__()
        driver.rollback(connection)
        assert driver.state(connection) is TransactionState.ENDED

    def test_a_transaction_begins_as_the_connection_is_set(self, driver: TransactionDriver, connection: Any) -> None:
        connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        connection.read_only = True
        driver.begin(connection)
        assert driver.fetch(connection, "show transaction_isolation") == [("serializable",)]
        assert driver.fetch(connection, "show transaction_read_only") == [("on",)]
        driver.rollback(connection)

    @pytest.mark.parametrize("noticed", [False, True], ids=["unnoticed", "noticed"])
    def test_a_connection_that_the_server_cut_is_lost(
        self, driver: TransactionDriver, connection: Any, dsn: str, *, noticed: bool
    ) -> None:
        driver.begin(connection)
        driver.fetch(connection, "insert into t values (6)")
        with psycopg.connect(dsn, autocommit=True) as other:
            other.execute("select pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
        if noticed:
            with pytest.raises(DatabaseUnavailableError):
                driver.fetch(connection, "select 1")
            assert driver.state(connection) is TransactionState.LOST
        with pytest.raises(DatabaseUnavailableError):
            driver.commit(connection)
        driver.rollback(connection)


class TestPyMySql(DriverContract):
    def open(self, dsn: MariaDbDsn, *, autocommit: bool) -> Any:
        return pymysql.connect(**dsn.parameters(), autocommit=autocommit, cursorclass=pymysql.cursors.DictCursor)

    @pytest.fixture(scope="class")
    @classmethod
    def dsn(cls, mariadb: MariaDb) -> MariaDbDsn:
        dsn = mariadb.create_database("driver")
        with closing(pymysql.connect(**dsn.parameters())) as connection, connection.cursor() as cursor:
            cursor.execute("create table t (a int)")
            cursor.execute("create table locked (a int primary key) select 1 as a union select 2")
        return dsn

    def test_a_connection_that_the_server_cut_is_lost(
        self, driver: TransactionDriver, connection: Any, dsn: MariaDbDsn
    ) -> None:
        driver.begin(connection)
        driver.fetch(connection, "insert into t values (6)")
        with closing(pymysql.connect(**dsn.parameters())) as other, other.cursor() as cursor:
            cursor.execute(f"kill {connection.thread_id()}")
        with pytest.raises(DatabaseUnavailableError):
            driver.commit(connection)
        assert driver.state(connection) is TransactionState.LOST
        with pytest.raises(DatabaseUnavailableError):
            driver.commit(connection)
        driver.rollback(connection)

    def test_a_deadlock_that_somebody_swallowed_is_no_commit(self, dsn: MariaDbDsn) -> None:
        with (
            closing(self.open(dsn, autocommit=True)) as connection,
            closing(self.open(dsn, autocommit=True)) as other,
            ThreadPoolExecutor(1) as pool,
        ):
            driver = find_transaction_driver(connection)
            for place, row in ((connection, 1), (other, 2)):
                driver.begin(place)
                driver.fetch(place, "select a from locked where a = %(row)s for update", {"row": row})
            # Who has written more is not the victim.
            driver.fetch(other, "insert into locked select seq from seq_100_to_200")
            waiting = pool.submit(driver.fetch, other, "select a from locked where a = 1 for update")
            with pytest.raises(pymysql.err.OperationalError, match="Deadlock"):
                driver.fetch(connection, "select a from locked where a = 2 for update")
            with pytest.raises(TransactionEndedError):
                driver.commit(connection)
            waiting.result()
            driver.rollback(other)


class TestSqlite3(DriverContract):
    def open(self, dsn: Path, *, autocommit: bool) -> Any:
        connection = sqlite3.connect(dsn)
        connection.row_factory = sqlite3.Row
        if autocommit:
            connection.isolation_level = None
        return connection

    @pytest.fixture(scope="class")
    @classmethod
    def dsn(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        path = tmp_path_factory.mktemp("driver") / "orders.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("create table t (a int)")
        return path

    def test_a_transaction_writes_from_its_beginning(
        self, driver: TransactionDriver, connection: Any, dsn: Path
    ) -> None:
        driver.begin(connection)
        with (
            closing(sqlite3.connect(dsn, timeout=0)) as other,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            other.execute("insert into t values (1)")
        driver.rollback(connection)


def test_a_driver_that_only_joins_transactions_is_named(outbox_stack: Stack) -> None:
    with (
        closing(psycopg2.connect(outbox_stack.postgres.dsn())) as connection,
        pytest.raises(OutboxError, match="opened by its own methods only"),
    ):
        find_transaction_driver(connection)


@pytest.mark.parametrize("stranger", [object(), "a string", 7])
def test_a_stranger_is_refused_by_its_type(stranger: object) -> None:
    with pytest.raises(OutboxError, match=f"{type(stranger).__qualname__} is not a connection"):
        find_driver(stranger)
    with pytest.raises(OutboxError, match="is not a connection"):
        find_async_driver(stranger)


def test_an_asynchronous_connection_needs_the_other_class(outbox_stack: Stack) -> None:
    with psycopg.connect(outbox_stack.postgres.dsn()) as connection:
        with pytest.raises(OutboxError, match=r"psycopg\.Connection is not an asynchronous connection") as caught:
            find_async_driver(connection)
        assert "Outbox takes synchronous connections" in caught.value.hint
