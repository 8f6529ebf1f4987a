"""PyMySQL and mysqlclient under the writer's contract, on MariaDB: connections and cursors."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from typing import Any

import MySQLdb
import MySQLdb.connections
import MySQLdb.cursors
import pymysql
import pymysql.cursors
import pytest
from pymysql.constants import CLIENT

from cdc_outbox import NotInTransactionError, Outbox, OutboxTable
from cdc_outbox.databases.drivers import Parameters, Row, find_async_driver, find_driver, translate
from cdc_outbox.databases.drivers.mysql import PyMySql
from cdc_outbox.errors import (
    DatabaseAccessError,
    DatabaseError,
    DatabaseUnavailableError,
    EventError,
    OutboxError,
    TransactionConflictError,
)
from cdc_outbox.testing import MariaDb
from tests.contract.writer_contract import PlaceContract
from tests.support.mariadb import MariaDbStore, MariaDbWriterContract
from tests.support.patience import patience
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import eventually
from tests.support.threads import Threads
from tests.support.writer_clients import NUMBERED_BY_CALLER, ORDER, Client


@pytest.fixture(scope="module")
def store(mariadb: MariaDb) -> Iterator[MariaDbStore]:
    with closing(MariaDbStore.create(mariadb, "writer_mysql")) as store:
        yield store


class MySqlClient(Client):
    """Both packages have the interface of PEP 249, and ``begin`` beside it."""

    connection: Any

    def execute(self, sql: str) -> object:
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def begin(self) -> object:
        return self.connection.begin()

    def commit(self) -> None:
        self.connection.commit()

    def rollback(self) -> None:
        self.connection.rollback()

    def close(self) -> None:
        if self.connection.open:
            self.connection.close()


class PyMySqlClient(MySqlClient):
    def __init__(self, store: MariaDbStore, *, autocommit: bool) -> None:
        # What users may have set on their connections must not reach our statements and rows.
        self.connection = connect_pymysql(
            store.dsn,
            autocommit=autocommit,
            cursorclass=pymysql.cursors.DictCursor,
            client_flag=CLIENT.FOUND_ROWS,
        )
        self.place = self.connection


class PyMySqlCursorClient(PyMySqlClient):
    def __init__(self, store: MariaDbStore, *, autocommit: bool) -> None:
        super().__init__(store, autocommit=autocommit)
        self.place = self.connection.cursor()


class MySqlDbClient(MySqlClient):
    def __init__(self, store: MariaDbStore, *, autocommit: bool) -> None:
        self.connection = MySQLdb.connect(
            **store.dsn.parameters(),
            autocommit=autocommit,
            cursorclass=MySQLdb.cursors.DictCursor,
            use_unicode=False,
        )
        self.place = self.connection


class MySqlDbCursorClient(MySqlDbClient):
    def __init__(self, store: MariaDbStore, *, autocommit: bool) -> None:
        super().__init__(store, autocommit=autocommit)
        self.place = self.connection.cursor()


class TestPyMySql(MariaDbWriterContract):
    library = "PyMySQL"

    def open(self, store: MariaDbStore, *, autocommit: bool = False) -> Client:
        return PyMySqlClient(store, autocommit=autocommit)


class TestPyMySqlCursor(PlaceContract):
    def open(self, store: MariaDbStore, *, autocommit: bool = False) -> Client:
        return PyMySqlCursorClient(store, autocommit=autocommit)


class TestMySqlClient(MariaDbWriterContract):
    library = "mysqlclient"

    def open(self, store: MariaDbStore, *, autocommit: bool = False) -> Client:
        return MySqlDbClient(store, autocommit=autocommit)


class TestMySqlClientCursor(PlaceContract):
    def open(self, store: MariaDbStore, *, autocommit: bool = False) -> Client:
        return MySqlDbCursorClient(store, autocommit=autocommit)


@pytest.mark.parametrize("library", [pymysql, MySQLdb])
def test_who_may_not_log_in_and_whom_nobody_answers_are_told_apart(library: Any, store: MariaDbStore) -> None:
    good = store.dsn.parameters()
    for wrong, kind in (
        ({"password": "wrong"}, DatabaseAccessError),
        ({"database": "nowhere"}, DatabaseAccessError),
        ({"port": 1}, DatabaseUnavailableError),
        ({"host": "nowhere.invalid"}, DatabaseUnavailableError),
    ):
        with pytest.raises(library.Error) as caught:
            library.connect(**good | wrong)
        assert isinstance(translate(caught.value), kind), wrong


@pytest.mark.parametrize("library", [pymysql, MySQLdb])
def test_a_connection_that_was_closed_is_our_error(library: Any, store: MariaDbStore) -> None:
    connection = library.connect(**store.dsn.parameters())
    connection.close()
    with pytest.raises(DatabaseUnavailableError, match="closed"):
        Outbox().add(connection, ORDER)


@pytest.mark.parametrize(("number", "retryable"), [(1020, True), (1205, True), (1213, True), (1142, False)])
def test_a_number_says_whether_a_retry_can_help(number: int, *, retryable: bool) -> None:
    ours = translate(pymysql.err.OperationalError(number, "some\nwords"))
    assert ours is not None
    assert (ours.retryable, str(ours)) == (retryable, f"some words (error {number})")


@pytest.mark.parametrize("error", [pymysql.err.OperationalError(), pymysql.err.IntegrityError(1062, "Duplicate")])
def test_other_errors_are_nobodys_but_the_callers(error: Exception) -> None:
    assert translate(error) is None


def test_mysqlclient_cannot_tell_on_mysql_that_a_transaction_was_opened_by_name(store: MariaDbStore) -> None:
    class OnMySql(MySQLdb.connections.Connection):
        def get_server_info(self) -> str:
            return "8.4.6"

    with closing(OnMySql(**store.dsn.parameters(), autocommit=True)) as connection:
        connection.begin()
        with pytest.raises(NotInTransactionError) as caught:
            Outbox().add(connection, ORDER)
        assert "without autocommit" in caught.value.hint
        connection.autocommit(False)
        assert Outbox().add(connection, ORDER).sequence


@pytest.mark.parametrize("library", [pymysql, MySQLdb])
def test_an_aggregate_is_one_whatever_character_set_a_connection_has(library: Any, store: MariaDbStore) -> None:
    store.reset()
    sequences = []
    for charset in ("utf8mb4", "latin1", "utf8mb3"):
        with closing(library.connect(**store.dsn.parameters() | {"charset": charset})) as connection:
            event = replace(ORDER, aggregate_id="Größe", payload={"ß": "ß"}, headers={"traceparent": "ß"})
            sequences.append(Outbox().add(connection, event).sequence)
            rising = replace(event, sequence=len(sequences), aggregate_id="groß")
            numbered_by_caller = Outbox(table=OutboxTable(), contract=NUMBERED_BY_CALLER)
            assert numbered_by_caller.add(connection, rising).sequence == len(sequences)
            connection.commit()
    assert sequences == [1, 2, 3]
    assert set(store.query("select payload, traceparent from outbox")) == {('{"ß":"ß"}', "ß")}


class Timeout(BaseException):
    """What gevent raises where a time is over."""


@pytest.mark.parametrize("error", [KeyboardInterrupt, Timeout])
def test_an_event_that_is_interrupted_behind_its_number_leaves_no_gap(
    store: MariaDbStore, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Step by step, as MySQL would execute it."""
    store.reset()
    monkeypatch.setattr(PyMySql, "runs_blocks", lambda *_: False)
    fetch, numbered = PyMySql.fetch, list[str]()

    def interrupted(driver: PyMySql, place: Any, sql: str, parameters: Parameters = None) -> list[Row]:
        if "returning" in sql:
            numbered.extend(str(row) for row in fetch(driver, place, "select last from outbox_heads"))
            raise error
        return fetch(driver, place, sql, parameters)

    with closing(connect_pymysql(store.dsn)) as connection:
        assert Outbox().add(connection, ORDER).sequence == 1
        with monkeypatch.context() as patch:
            patch.setattr(PyMySql, "fetch", interrupted)
            with pytest.raises(error):
                Outbox().add(connection, ORDER)
        connection.commit()
        assert numbered == ["(2,)"]
        assert Outbox().add(connection, ORDER).sequence == 2
        connection.commit()
    assert store.numbers() == [("42", 1), ("42", 2)]


def test_an_event_that_is_interrupted_behind_its_block_is_there_with_its_number(
    store: MariaDbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.reset()
    fetch = PyMySql.fetch

    def interrupted(driver: PyMySql, place: Any, sql: str, parameters: Parameters = None) -> list[Row]:
        rows = fetch(driver, place, sql, parameters)
        if "returning" in sql:
            raise KeyboardInterrupt
        return rows

    with closing(connect_pymysql(store.dsn)) as connection:
        with monkeypatch.context() as patch:
            patch.setattr(PyMySql, "fetch", interrupted)
            with pytest.raises(KeyboardInterrupt):
                Outbox().add(connection, ORDER)
        assert Outbox().add(connection, ORDER).sequence == 2
        connection.commit()
    assert store.numbers() == [("42", 1), ("42", 2)]


def test_a_block_that_never_began_undoes_nothing_of_the_event_before(
    store: MariaDbStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after `kill query`: the savepoint of the event before must not be there any more."""
    store.reset()
    fetch = PyMySql.fetch

    def killed(driver: PyMySql, place: Any, sql: str, parameters: Parameters = None) -> list[Row]:
        if "returning" in sql:
            raise pymysql.err.OperationalError(1317, "Query execution was interrupted")
        return fetch(driver, place, sql, parameters)

    with closing(connect_pymysql(store.dsn)) as connection:
        Outbox().add(connection, ORDER)
        with monkeypatch.context() as patch:
            patch.setattr(PyMySql, "fetch", killed)
            with pytest.raises(DatabaseError):
                Outbox().add(connection, ORDER)
        connection.commit()
    assert store.numbers() == [("42", 1)]


def test_only_connections_and_cursors_are_known(store: MariaDbStore) -> None:
    with closing(connect_pymysql(store.dsn)) as connection:
        with pytest.raises(OutboxError, match="is not an asynchronous connection"):
            find_async_driver(connection)
        with pytest.raises(OutboxError, match="is not a synchronous connection"):
            find_driver(pymysql.err.OperationalError())


def test_a_driver_for_one_package_does_not_import_the_other() -> None:
    code = "import sys, pymysql; from cdc_outbox.databases.drivers import mysql; print('MySQLdb' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"]


def test_the_victim_of_a_deadlock_may_try_again(store: MariaDbStore) -> None:
    # An aggregate's first event is rolled back while two others wait for its number.
    store.reset()
    first = PyMySqlClient(store, autocommit=False)
    others = [PyMySqlClient(store, autocommit=False) for _ in range(2)]

    def add(client: PyMySqlClient) -> int:
        try:
            client.add()
        except TransactionConflictError as error:
            assert "error 1213" in str(error)  # noqa: PT017 - the other one does not raise
            client.rollback()
            client.add()
            client.commit()
            return 1
        client.commit()
        return 0

    with ExitStack() as stack, Threads(2) as pool:
        for client in (first, *others):
            stack.enter_context(closing(client))
        first.add()
        waiting = [pool.submit(add, client) for client in others]
        sessions = {client.connection.thread_id() for client in others}
        eventually(lambda: store.waiting() == sessions, "both to wait")
        first.rollback()
        assert sum(future.result(patience()) for future in waiting) <= 1
    assert store.numbers() == [("42", 1), ("42", 2)]


@pytest.mark.parametrize("connect", [partial(pymysql.connect, ssl_disabled=True), MySQLdb.connect])
def test_an_encoding_that_cannot_carry_the_payload_is_our_error_before_anything_is_written(
    store: MariaDbStore, connect: Callable[..., Any]
) -> None:
    store.reset()
    with closing(connect(**store.dsn.parameters() | {"charset": "latin1"})) as connection:
        connection.begin()
        with pytest.raises(EventError, match=r"encoding .+ cannot carry the event") as caught:
            Outbox().add(connection, replace(ORDER, payload={"name": "Ωμέγα"}))
        assert "charset=utf8mb4" in caught.value.hint
        connection.commit()
    assert store.numbers() == []
