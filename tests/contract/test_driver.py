"""What writer and consumer rely on in a synchronous driver."""

from collections.abc import Iterator
from typing import Any

import psycopg
import psycopg.rows
import pytest

from cdc_outbox.drivers import TransactionDriver, find_async_driver, find_driver, find_transaction_driver
from cdc_outbox.errors import OutboxError, TableNotFoundError, TransactionAbortedError
from cdc_outbox.testing import Stack


class DriverContract:
    """Subclasses say how a connection in or out of autocommit is made."""

    def open(self, dsn: str, *, autocommit: bool) -> Any:
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def dsn(cls, outbox_stack: Stack) -> str:
        dsn = outbox_stack.postgres.create_database(f"driver_{cls.__name__.lower()}")
        with psycopg.connect(dsn) as connection:
            connection.execute("create table t (a int)")
        return dsn

    @pytest.fixture(params=[False, True], ids=["transactional", "autocommit"])
    def connection(self, request: pytest.FixtureRequest, dsn: str) -> Iterator[Any]:
        connection = self.open(dsn, autocommit=request.param)
        yield connection
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

    def test_a_commit_that_the_server_turns_into_a_rollback_is_an_error(
        self, driver: TransactionDriver, connection: Any
    ) -> None:
        driver.begin(connection)
        driver.fetch(connection, "insert into t values (3)")
        with pytest.raises(TableNotFoundError):
            driver.fetch(connection, "select 1 from nowhere")
        assert driver.is_aborted(connection)
        with pytest.raises(TransactionAbortedError, match="answered COMMIT with ROLLBACK"):
            driver.commit(connection)

    def test_a_rollback_of_nothing_and_of_a_dead_connection_does_nothing(
        self, driver: TransactionDriver, connection: Any
    ) -> None:
        driver.rollback(connection)
        connection.close()
        driver.rollback(connection)

    def test_parameters_go_by_name_and_rows_are_plain_tuples(self, driver: TransactionDriver, connection: Any) -> None:
        sql = f"select cast({driver.style.parameter('a')} as text), cast({driver.style.parameter('b')} as int)"
        driver.begin(connection)
        assert driver.fetch(connection, sql, {"a": "x'%s", "b": 7}) == [("x'%s", 7)]
        driver.rollback(connection)

    def test_an_open_connection_outside_a_transaction_does_not_join_one(self, dsn: str) -> None:
        connection = self.open(dsn, autocommit=True)
        assert not find_driver(connection).joins_transaction(connection)
        connection.close()


class TestPsycopg(DriverContract):
    def open(self, dsn: str, *, autocommit: bool) -> Any:
        # The user's own row factory must not reach our rows.
        return psycopg.connect(dsn, autocommit=autocommit, row_factory=psycopg.rows.dict_row)


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
