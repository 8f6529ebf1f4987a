"""How a driver is found, and what the server's codes become."""

import socket
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import django.db.utils
import psycopg
import psycopg2
import psycopg2.errors
import pymysql
import pytest
import sqlalchemy.orm
from asyncpg import InternalClientError
from django.db.transaction import TransactionManagementError
from sqlalchemy.exc import PendingRollbackError, ResourceClosedError

from cdc_outbox import Event, NotInTransactionError, Outbox
from cdc_outbox.databases import drivers
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import asyncpg, find_async_driver, find_driver, sqlstate
from cdc_outbox.databases.drivers.immediate import ImmediateTransactions, sends_at_once
from cdc_outbox.databases.drivers.psycopg import connect
from cdc_outbox.databases.drivers.sqlite3 import Sqlite3
from cdc_outbox.databases.drivers.transactions import session_settings
from cdc_outbox.databases.sql import NUMBERED, numbered
from cdc_outbox.errors import (
    ConfigError,
    DatabaseAccessError,
    DatabaseError,
    DatabaseUnavailableError,
    OutboxError,
    TableNotFoundError,
    TransactionConflictError,
    TransactionTimeoutError,
)
from tests.support.threads import Threads

ORDER = Event(aggregate_type="order", aggregate_id="42", type="OrderPlaced", payload={})


class OwnSession(sqlalchemy.orm.Session):
    """A user's own."""


class OwnerSession(OwnSession):
    """Of a user's own."""


def test_a_type_is_known_by_what_it_is_derived_from() -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    assert isinstance(find_driver(OwnerSession(engine)), type(find_driver(sqlalchemy.orm.Session(engine))))


@pytest.fixture
def acme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An installed distribution that brings a database and a driver for it."""
    files = {
        "acme_database.py": """
            class Connection:
                pass

            class Error(Exception):
                pass
        """,
        "acme_outbox.py": """
            from cdc_outbox.databases.drivers import wrong_kind
            from cdc_outbox.errors import DatabaseUnavailableError
            from cdc_outbox.databases.sql import PYFORMAT
            from cdc_outbox.databases.dialects import Dialect

            class Driver:
                dialect = Dialect.POSTGRESQL
                style = PYFORMAT
                transaction_hint = "Ask Acme for a transaction."

                def joins_transaction(self, connection):
                    return False

                def fetch(self, connection, sql, parameters=None):
                    raise AssertionError(sql)

            def find(connection):
                return Driver()

            def find_async(connection):
                raise wrong_kind(connection, asynchronous=True)

            def translate(error):
                return DatabaseUnavailableError("closed for lunch")
        """,
        "acme-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n",
        "acme-1.0.dist-info/entry_points.txt": "[cdc_outbox.drivers]\nacme_database = acme_outbox\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    for found in (drivers._registered, drivers._load):
        found.cache_clear()
    import acme_database  # type: ignore[import-not-found]

    yield acme_database
    for found in (drivers._registered, drivers._load):
        found.cache_clear()


def test_another_package_may_bring_a_driver(acme: Any) -> None:
    connection = acme.Connection()
    with pytest.raises(NotInTransactionError) as caught:
        Outbox().add(connection, ORDER)
    assert caught.value.hint == "Ask Acme for a transaction."
    with pytest.raises(OutboxError, match="is not an asynchronous connection"):
        find_async_driver(connection)
    error = acme.Error()
    assert isinstance(drivers.translate(error), DatabaseUnavailableError)
    assert drivers.sqlstate_of(error) == ""
    error.sqlstate = "23505"
    assert drivers.sqlstate_of(error) == "23505"
    with pytest.raises(OutboxError) as stranger:
        find_driver(object())
    assert "acme_database" in stranger.value.hint


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("08006", DatabaseUnavailableError),
        ("57P01", DatabaseUnavailableError),
        ("25P03", TransactionTimeoutError),
        ("28P01", DatabaseAccessError),
        ("3D000", DatabaseAccessError),
        ("42501", DatabaseAccessError),
        ("42P01", TableNotFoundError),
        ("40001", TransactionConflictError),
        ("40P01", TransactionConflictError),
    ],
)
def test_a_code_becomes_our_error(code: str, kind: type[DatabaseError]) -> None:
    error = sqlstate.translate(code, "two\n  lines")
    assert type(error) is kind
    assert (str(error), error.sqlstate) == ("two lines", code)


@pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.InvalidCatalogName("x"),
        psycopg.OperationalError('connection failed: FATAL:  database "nowhere" does not exist'),
        pymysql.err.OperationalError(1049, "Unknown database 'nowhere'"),
    ],
    ids=["its code", "at the login", "MariaDB"],
)
def test_a_database_that_does_not_exist_is_not_a_wrong_password(error: Exception) -> None:
    ours = drivers.translate(error)
    assert (type(ours), ours and ours.hint) == (
        DatabaseAccessError,
        "Create the database, or correct its name in the DSN.",
    )


@pytest.mark.parametrize(
    ("last_words", "kind"),
    [
        ("", DatabaseUnavailableError),
        ("terminating connection due to unexpected postmaster exit", DatabaseUnavailableError),
        ('password authentication failed for user "me"', DatabaseAccessError),
    ],
    ids=["a cut", "a crash", "a refusal"],
)
def test_a_login_that_is_cut_off_is_no_refusal(last_words: str, kind: type[DatabaseError]) -> None:
    """The server died after it had asked for the password: the one that starts next may take it."""

    def ask_and_die() -> None:
        accepted, _ = listener.accept()
        with accepted:
            accepted.recv(1000)
            accepted.sendall(b"R" + struct.pack("!ii", 8, 3))  # for the password in clear text
            accepted.recv(1000)
            if last_words:
                fields = b"SFATAL\0C57P01\0M" + last_words.encode() + b"\0\0"
                accepted.sendall(b"E" + struct.pack("!i", len(fields) + 4) + fields)

    with socket.create_server(("127.0.0.1", 0)) as listener, Threads() as pool:
        dying = pool.submit(ask_and_die)
        dsn = (
            f"host=127.0.0.1 port={listener.getsockname()[1]} user=me password=mine sslmode=disable gssencmode=disable"
        )
        with pytest.raises(kind, match=last_words or "closed the connection"):
            connect(dsn)
        dying.result()


def test_libpqs_question_is_left_out() -> None:
    text = "connection refused\n\tIs the server running on that host and accepting TCP/IP connections?"
    assert str(drivers.translate(psycopg.OperationalError(text))) == "connection refused"


@pytest.mark.parametrize(("code", "hint"), [("42501", "init SPEC --grants"), ("25006", "not read-only")])
def test_a_refusal_names_what_to_do(code: str, hint: str) -> None:
    error = sqlstate.translate(code, "x")
    assert error is not None
    assert hint in error.hint


@pytest.mark.parametrize("code", ["23505", "57014", "22P02", ""])
def test_a_code_that_says_nothing_to_an_operator_becomes_nothing(code: str) -> None:
    assert sqlstate.translate(code, "x") is None


def test_conflicts_leave_as_the_drivers_own_and_others_as_ours() -> None:
    with pytest.raises(psycopg.errors.SerializationFailure), drivers.translated():
        raise psycopg.errors.SerializationFailure("x")
    with pytest.raises(TableNotFoundError) as caught, drivers.translated():
        raise psycopg.errors.UndefinedTable("x")
    assert isinstance(caught.value.__cause__, psycopg.errors.UndefinedTable)
    with pytest.raises(KeyError), drivers.translated():
        raise KeyError


def unique_violation(wrapper: type[Exception]) -> Exception:
    """Return an error as frameworks raise it: the driver's is its cause."""
    error = wrapper("x")
    error.__cause__ = psycopg.errors.UniqueViolation("Key (id)=(4711) already exists.")
    return error


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (psycopg.errors.SerializationFailure("x"), TransactionConflictError, "40001"),
        (psycopg.errors.UndefinedTable("x"), TableNotFoundError, "42P01"),
        (psycopg.errors.QueryCanceled("x"), TransactionConflictError, "57014"),
        (psycopg.errors.UniqueViolation("Key (id)=(4711) already exists."), DatabaseError, "23505"),
        (psycopg.errors.NumericValueOutOfRange('value "4711" is out of range'), DatabaseError, "22003"),
        (psycopg.errors.InFailedSqlTransaction("x"), DatabaseError, "25P02"),
        (psycopg.errors.RaiseException("4711"), DatabaseError, "P0001"),
        (psycopg2.InterfaceError("connection already closed"), DatabaseUnavailableError, "08003"),
        (psycopg2.errors.UniqueViolation("4711"), DatabaseError, ""),  # made by hand, so without a code
        (pymysql.err.IntegrityError(1062, "Duplicate entry '4711'"), DatabaseError, "23505"),
        (pymysql.err.OperationalError(1213, "Deadlock found"), TransactionConflictError, ""),
        (pymysql.err.DataError(1406, "Data too long: 4711"), DatabaseError, "22000"),
        (pymysql.err.OperationalError(1792, "READ ONLY"), DatabaseUnavailableError, "25006"),
        (pymysql.err.OperationalError(1969, "max_statement_time exceeded"), TransactionConflictError, "57014"),
        (pymysql.err.ProgrammingError("4711"), DatabaseError, ""),
        (sqlite3.ProgrammingError("Cannot operate on a closed database."), DatabaseUnavailableError, "08003"),
        (unique_violation(django.db.utils.IntegrityError), DatabaseError, "23505"),
        (TransactionManagementError("x"), DatabaseError, "25P02"),
        (ResourceClosedError("x"), DatabaseUnavailableError, "08003"),
        (PendingRollbackError("x"), DatabaseError, "25P02"),
        (TimeoutError(), TransactionConflictError, ""),
        (ConnectionResetError(104, "reset"), DatabaseUnavailableError, ""),
    ],
)
def test_whatever_a_driver_raises_has_an_error_of_ours_that_quotes_no_value(
    error: Exception, kind: type[DatabaseError], code: str
) -> None:
    ours = drivers.database_error(error)
    assert ours is not None
    assert (type(ours), ours.sqlstate) == (kind, code)
    assert ours.hint
    assert "4711" not in str(ours)


@pytest.mark.parametrize("error", [TableNotFoundError("x"), KeyError("x"), KeyboardInterrupt(), ValueError("x")])
def test_what_no_driver_raises_has_none(error: BaseException) -> None:
    assert drivers.database_error(error) is None


def test_where_a_caller_executes_conflicts_are_ours_too() -> None:
    with pytest.raises(TransactionConflictError) as caught, drivers.translated_for_caller():
        raise psycopg.errors.DeadlockDetected("x")
    assert isinstance(caught.value.__cause__, psycopg.errors.DeadlockDetected)
    with pytest.raises(KeyError), drivers.translated_for_caller():
        raise KeyError


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("seconds", [0, -1, 86_401, float("nan"), float("inf")])
def test_a_bound_that_no_server_takes_is_refused(dialect: Dialect, seconds: float) -> None:
    with pytest.raises(ConfigError, match="cannot be limited"):
        session_settings(dialect, idle_seconds=seconds)


def test_a_bound_is_rounded_up_because_none_is_no_bound() -> None:
    assert session_settings(Dialect.POSTGRESQL, idle_seconds=0.0001)[1].endswith("= 1")
    assert session_settings(Dialect.MYSQL, idle_seconds=1.2, mariadb=True)[1].endswith("= 2")
    assert len(session_settings(Dialect.MYSQL, idle_seconds=1)) == 1
    assert session_settings(Dialect.SQLITE, idle_seconds=1) == ()


def test_a_name_has_one_number_however_often_it_stands_there() -> None:
    style = NUMBERED
    sql = f"select {style.parameter('b')}, {style.parameter('a')}, '$1 %s :b', {style.parameter('b')}"
    assert numbered(sql) == ("select $1, $2, '$1 %s :b', $1", ("b", "a"))
    assert numbered("select 1") == ("select 1", ())


def test_what_asyncpg_lets_pass_of_a_broken_socket_is_our_error() -> None:
    place: Any = None
    with pytest.raises(DatabaseUnavailableError), asyncpg._translated(place):
        raise ConnectionResetError(104, "Connection reset by peer")
    with pytest.raises(DatabaseUnavailableError), asyncpg._translated(place):
        raise InternalClientError("cannot switch to state 11; another operation (2) is in progress")
    with pytest.raises(InternalClientError), asyncpg._translated(place):
        raise InternalClientError("cannot switch to state 11; another operation (5) is in progress")


def test_psycopg_may_be_one_that_names_types_by_texts() -> None:
    code = (
        "import psycopg.abc; psycopg.abc.Buffer = 'bytes'; import cdc_outbox.databases.drivers.psycopg"  # as 3.2 does
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_sends_at_once_need_not_be_flushed_and_what_is_unknown_must_be() -> None:
    class HoldsBack(Sqlite3):
        def flush(self, connection: Any) -> None:
            """Send what was held back."""

    assert sends_at_once(Sqlite3())
    assert sends_at_once(ImmediateTransactions(Sqlite3()))
    assert not sends_at_once(HoldsBack())
    assert not sends_at_once(ImmediateTransactions(HoldsBack()))
    assert not sends_at_once(object())
