"""sqlite3 under the writer's contract: connection and cursor."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cdc_outbox import Outbox, execute_with_events
from cdc_outbox.databases.drivers import find_async_driver, translate
from cdc_outbox.databases.drivers.sqlite3 import Sqlite3
from cdc_outbox.errors import DatabaseAccessError, DatabaseUnavailableError, OutboxError, TransactionConflictError
from tests.contract.writer_contract import PlaceContract, WriterContract
from tests.contract.writer_errors_contract import WriterErrorsContract
from tests.support.sqlite import BUSY_SECONDS, SqliteStore
from tests.support.writer_clients import ORDER, Client


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path_factory.mktemp("sqlite") / "orders.db")) as store:
        yield store


class Sqlite3Client(Client):
    def __init__(self, store: SqliteStore, *, autocommit: bool) -> None:
        # What users may have set on their connections must not reach our rows.
        self.connection = sqlite3.connect(store.path, timeout=BUSY_SECONDS)
        self.connection.row_factory = sqlite3.Row
        self.connection.text_factory = bytes
        if autocommit:
            self.connection.isolation_level = None
        self.place: sqlite3.Connection | sqlite3.Cursor = self.connection

    def execute(self, sql: str) -> object:
        return self.connection.execute(sql).fetchall()

    def begin(self) -> object:
        return self.execute("begin")

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def close(self) -> None:
        self.connection.close()


class Sqlite3CursorClient(Sqlite3Client):
    def __init__(self, store: SqliteStore, *, autocommit: bool) -> None:
        super().__init__(store, autocommit=autocommit)
        self.place = self.connection.cursor()


class TestSqlite3(WriterErrorsContract, WriterContract):
    has_row_locks = False

    def open(self, store: SqliteStore, *, autocommit: bool = False) -> Client:
        return Sqlite3Client(store, autocommit=autocommit)


class TestSqlite3Cursor(PlaceContract):
    has_row_locks = False

    def open(self, store: SqliteStore, *, autocommit: bool = False) -> Client:
        return Sqlite3CursorClient(store, autocommit=autocommit)


class Transactional(sqlite3.Connection):
    """As Python 3.12 has it: a transaction is always open, and isolation_level is not asked."""

    autocommit = False


class Autocommitting(Transactional):
    autocommit = True


@pytest.mark.parametrize(("kind", "joins"), [(Transactional, True), (Autocommitting, False)])
def test_the_newer_attribute_counts_more_than_the_older(store: SqliteStore, kind: Any, *, joins: bool) -> None:
    for isolation_level in (None, "DEFERRED"):
        with closing(sqlite3.connect(store.path, isolation_level=isolation_level, factory=kind)) as connection:
            assert Sqlite3().joins_transaction(connection) is joins
            connection.execute("begin")
            assert Sqlite3().joins_transaction(connection)


def test_a_file_that_may_only_be_read_is_our_error(store: SqliteStore) -> None:
    reading = sqlite3.connect(f"file:{store.path}?mode=ro", uri=True)
    with closing(reading), pytest.raises(DatabaseAccessError, match="readonly"):
        Outbox().add(reading, ORDER)


def test_a_transaction_that_read_before_another_wrote_is_a_conflict(store: SqliteStore) -> None:
    store.reset()
    with (
        closing(sqlite3.connect(store.path, timeout=0)) as first,
        closing(sqlite3.connect(store.path, timeout=0)) as second,
    ):
        Outbox().add(first, ORDER)
        second.execute("begin")
        second.execute("select * from customers")  # what it writes would rest on what is old by now
        first.commit()
        with pytest.raises(TransactionConflictError) as stale:
            Outbox().add(second, ORDER)
        assert isinstance(stale.value.__cause__, sqlite3.OperationalError)
        assert stale.value.__cause__.sqlite_errorname == "SQLITE_BUSY_SNAPSHOT"
        second.rollback()
        assert Outbox().add(second, ORDER).sequence == 2
        second.rollback()


def test_a_function_that_opens_the_transaction_raises_our_errors_and_the_operations_own(store: SqliteStore) -> None:
    store.reset()

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute("select 1 from nowhere")

    with (
        closing(sqlite3.connect(store.path, timeout=0)) as first,
        closing(sqlite3.connect(store.path, timeout=0, isolation_level=None)) as second,
    ):
        Outbox().add(first, ORDER)
        with pytest.raises(TransactionConflictError) as locked:
            execute_with_events(second, lambda _: None, [ORDER])
        assert isinstance(locked.value.__cause__, sqlite3.OperationalError)
        first.rollback()
        with pytest.raises(sqlite3.OperationalError, match="nowhere"):
            execute_with_events(second, fail, [ORDER])
        execute_with_events(second, lambda _: None, [ORDER])
    assert store.numbers() == [("42", 1)]


def test_what_cannot_be_opened_or_is_no_database_is_our_error(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError) as caught:
        sqlite3.connect(tmp_path / "nowhere" / "orders.db")
    assert isinstance(translate(caught.value), DatabaseUnavailableError)
    (tmp_path / "text.db").write_text("no database, " * 100)
    with closing(sqlite3.connect(tmp_path / "text.db")) as connection, pytest.raises(DatabaseAccessError):
        Outbox().add(connection, ORDER)
    assert translate(ValueError()) is None


def test_only_synchronous_use_is_offered(store: SqliteStore) -> None:
    connection = sqlite3.connect(store.path)
    with closing(connection), pytest.raises(OutboxError, match="is not an asynchronous connection"):
        find_async_driver(connection)
