"""The sqlite3 module of the standard library: for tests, and for services that one file is enough for.

SQLite has one lock for the whole database and one isolation level, SERIALIZABLE: the second writer waits for the
first one's end, for as long as ``connect(timeout=…)`` says. A transaction that has read cannot write after another one
has written since; it fails with SQLITE_BUSY at once, so open those with ``begin immediate``.
"""

import re
import sqlite3
from contextlib import suppress
from pathlib import Path

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import (
    AsyncDriver,
    Driver,
    Parameters,
    Row,
    TransactionState,
    as_texts,
    translated,
    wrong_kind,
)
from cdc_outbox.databases.drivers.sqlstate import CANCELED, CLOSED, UNIQUE_VIOLATION
from cdc_outbox.databases.drivers.transactions import SendsAtOnce, already_open, refuse_commit, session_settings
from cdc_outbox.databases.sql import NAMED
from cdc_outbox.errors import (
    ConfigError,
    DatabaseAccessError,
    DatabaseError,
    DatabaseUnavailableError,
    TableNotFoundError,
    TransactionConflictError,
)

Connectable = sqlite3.Connection | sqlite3.Cursor

_BY_CODE: dict[int, type[DatabaseError]] = {
    sqlite3.SQLITE_CANTOPEN: DatabaseUnavailableError,
    sqlite3.SQLITE_IOERR: DatabaseUnavailableError,
    sqlite3.SQLITE_FULL: DatabaseUnavailableError,
    sqlite3.SQLITE_PERM: DatabaseAccessError,
    sqlite3.SQLITE_READONLY: DatabaseAccessError,
    sqlite3.SQLITE_AUTH: DatabaseAccessError,
    sqlite3.SQLITE_NOTADB: DatabaseAccessError,
    sqlite3.SQLITE_BUSY: TransactionConflictError,
    sqlite3.SQLITE_LOCKED: TransactionConflictError,
}
"""A missing table has no code of its own: SQLITE_ERROR says everything from a typing error on."""

_SQLSTATES = {
    sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: UNIQUE_VIOLATION,
    sqlite3.SQLITE_CONSTRAINT_UNIQUE: UNIQUE_VIOLATION,
    sqlite3.SQLITE_INTERRUPT: CANCELED,
}
_CONSTRAINT = "23000"

_MISSING = re.compile(r"no such (table|column):|has no column named")
"""What SQLite says of it, in one language."""

_PRIMARY_CODE = 0xFF
"""The bits above it give unneeded detail, for example which kind of busy."""


def connect(url: str) -> sqlite3.Connection:
    """Open a connection in autocommit mode; a file that does not exist is not made.

    Args:
        url: ``sqlite:///orders.db`` for a file here, ``sqlite:////var/lib/orders.db`` for one anywhere; nothing in it
            is escaped. SQLAlchemy reads it in the same way.

    Raises:
        ConfigError: The URL cannot be read, or there is no such file.
    """
    path = url.removeprefix("sqlite:///")
    if path in {url, "", ":memory:"} or "?" in path:
        hint = "Use sqlite:///orders.db for a file in this folder, sqlite:////var/lib/orders.db for another folder."
        raise ConfigError("the DSN cannot be read", field="dsn", hint=hint)
    if not Path(path).is_file():
        hint = "Correct the path, or start the service that creates the file. For a new database, create an empty file."
        raise ConfigError(f"there is no database file {path}", field="dsn", hint=hint)
    with translated():
        return sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)


def translate(error: BaseException) -> DatabaseError | None:
    """Return our error for one of sqlite3's, ``None`` where an operator can do nothing about it."""
    # sqlite3's own errors, such as that of a closed connection, have no code.
    code = getattr(error, "sqlite_errorcode", None)
    if not isinstance(error, sqlite3.Error) or code is None:
        return None
    if code == sqlite3.SQLITE_ERROR and _MISSING.search(str(error)):
        return TableNotFoundError(str(error))
    kind = _BY_CODE.get(code & _PRIMARY_CODE)
    return kind(str(error)) if kind else None


def sqlstate_of(error: BaseException) -> str:
    """Return the code that fits SQLite's; the module itself refuses what was closed, without a code."""
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int):
        is_constraint = code & _PRIMARY_CODE == sqlite3.SQLITE_CONSTRAINT
        return _SQLSTATES.get(code, _CONSTRAINT if is_constraint else "")
    return CLOSED if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error) else ""


class Sqlite3(SendsAtOnce):
    """The driver, for connections and cursors."""

    serves_type = True
    dialect = Dialect.SQLITE
    style = NAMED
    transaction_hint = "Run `begin` first, or keep the isolation_level that sqlite3 sets."

    def joins_transaction(self, connectable: Connectable) -> bool:
        """Ask the connection, and know when sqlite3 opens a transaction by itself before it writes."""
        connection = _connection(connectable)
        if connection.in_transaction:
            return True
        # Python 3.12 has autocommit beside the older isolation_level, which counts unless autocommit is True or False.
        autocommit: object = getattr(connection, "autocommit", None)
        return not autocommit if isinstance(autocommit, bool) else connection.isolation_level is not None

    def fetch(self, connectable: Connectable, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch on a cursor of our own: the user's factories must not reach our rows.

        A ``text_factory``, which there is for connections only, is undone.
        """
        with translated():
            cursor = sqlite3.Cursor(_connection(connectable))
            cursor.row_factory = None
            try:
                return as_texts(cursor.execute(sql, parameters or {}))
            finally:
                cursor.close()

    def prepare(self, connection: sqlite3.Connection, *, idle_seconds: float) -> None:
        """Set nothing: there is one isolation level, and no server."""
        if connection.in_transaction:
            raise already_open()
        session_settings(self.dialect, idle_seconds=idle_seconds)

    def begin(self, connection: sqlite3.Connection) -> None:
        """Open a transaction that writes: one that reads first cannot write after another one has."""
        if connection.in_transaction:
            raise already_open()
        self.fetch(connection, "begin immediate")

    def state(self, connection: sqlite3.Connection) -> TransactionState:
        """Ask the connection; errors that undo a transaction show at once."""
        with suppress(sqlite3.ProgrammingError):  # it was closed
            return TransactionState.OPEN if connection.in_transaction else TransactionState.ENDED
        return TransactionState.ENDED

    def commit(self, connection: sqlite3.Connection) -> None:
        """Commit what is still open."""
        refuse_commit(self.state(connection))
        self.fetch(connection, "commit")

    def rollback(self, connection: sqlite3.Connection) -> None:
        """Undo what is open, if anything is."""
        if self.state(connection) is TransactionState.OPEN:
            self.fetch(connection, "rollback")


def find(connectable: object) -> Driver:
    """Return the driver for a connection or cursor."""
    if isinstance(connectable, sqlite3.Connection | sqlite3.Cursor):
        return _DRIVER
    raise wrong_kind(connectable, asynchronous=False)


def find_async(connectable: object) -> AsyncDriver:
    """Refuse: there is nothing asynchronous in the module."""
    raise wrong_kind(connectable, asynchronous=True)


_DRIVER = Sqlite3()


def _connection(connectable: Connectable) -> sqlite3.Connection:
    return connectable.connection if isinstance(connectable, sqlite3.Cursor) else connectable
