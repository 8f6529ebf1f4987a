"""PyMySQL and mysqlclient, for MariaDB and MySQL; neither is imported before it is needed.

Under every isolation level the second of two writers of one aggregate waits for the first one's end and numbers on,
also where its own snapshot is older than what the first one wrote. With ``innodb_snapshot_isolation``, MariaDB's
default from 11.6, it fails instead with error 1020 under REPEATABLE READ and SERIALIZABLE. If an aggregate's first
event is rolled back while two others wait for it, one of them is chosen as the victim of a deadlock, error 1213. Both
are a TransactionConflictError of ``add``: the transaction may be tried again.

MariaDB's ``json`` takes no payload that is nested deeper than 31 levels. MySQL's keeps no text but values: white space,
the order of keys and digits beyond a double's are not what was written.
"""

from contextlib import closing, suppress
from importlib import import_module
from typing import Any

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import (
    AnyConnection,
    AsyncDriver,
    Driver,
    Parameters,
    Row,
    TransactionState,
    as_texts,
    translated,
    wrong_kind,
)
from cdc_outbox.databases.drivers.mysql_dsn import options_of
from cdc_outbox.databases.drivers.sqlstate import CANCELED, NO_DATABASE, UNIQUE_VIOLATION
from cdc_outbox.databases.drivers.transactions import (
    SendsAtOnce,
    already_open,
    refuse_commit,
    session_settings,
    transaction,
)
from cdc_outbox.databases.sql import PYFORMAT
from cdc_outbox.errors import (
    DatabaseAccessError,
    DatabaseError,
    DatabaseUnavailableError,
    TableNotFoundError,
    TransactionConflictError,
)

_NUMBERS: tuple[tuple[type[DatabaseError], frozenset[int]], ...] = (
    # 0 is PyMySQL's own for a connection that it has closed. MariaDB has none for an idle timeout.
    (DatabaseUnavailableError, frozenset({0, 1040, 1053, 1203, 1927, 2002, 2003, 2005, 2006, 2013, 2055, 4031})),
    (DatabaseAccessError, frozenset({1044, 1045, 1049, 1130, 1142, 1143, 1227, 1698, 2026})),
    (TableNotFoundError, frozenset({1054, 1146})),
    # Changed since it was read, waited too long for a lock, deadlock.
    (TransactionConflictError, frozenset({1020, 1205, 1213})),
)
_BY_NUMBER = {number: kind for kind, numbers in _NUMBERS for number in numbers}

_SQLSTATES = {
    1022: UNIQUE_VIOLATION,
    1062: UNIQUE_VIOLATION,
    **dict.fromkeys((1048, 3819, 4025), "23000"),  # NOT NULL, CHECK of MySQL's and of MariaDB's
    **dict.fromkeys((1264, 1366, 1406), "22000"),  # out of range, no such character, too long
    **dict.fromkeys((1290, 1792, 1836), "25006"),  # read-only: the server, the transaction, once more the server
    **dict.fromkeys((1317, 1969, 3024), CANCELED),  # by hand, and after the longest time of MariaDB's and of MySQL's
}
"""By number: PyMySQL and mysqlclient keep the server's code to themselves, and it says less."""

_NO_DATABASE = 1049
_IN_TRANSACTION = 0x0001
"""A bit of the status that the server sends with each answer; PyMySQL shows it."""


def connect(url: str) -> AnyConnection:
    """Open a connection of PyMySQL's in autocommit mode.

    Args:
        url: ``mysql://user:password@host:port/database``, or ``mariadb://…``; in each part % escapes. What may follow
            says :func:`~cdc_outbox.databases.drivers.mysql_dsn.options_of`.

    Raises:
        ConfigError: The URL cannot be read, or not as it was meant.
        DatabaseUnavailableError: No server answers within ten seconds.
        DatabaseAccessError: The server refused the user, the password or the database, offers no TLS though the URL
            asks for it, or its certificate is not trusted.
    """
    options = options_of(url)
    package = import_module("pymysql")
    try:
        with translated():
            connection = package.connect(**options, charset="utf8mb4", autocommit=True, connect_timeout=10)
    except DatabaseUnavailableError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise DatabaseAccessError(str(error), hint="ssl_ca in the DSN names the CA to trust.") from error
        raise
    if "ssl" in options:
        _refuse_plaintext(connection)
    return connection


def _refuse_plaintext(connection: AnyConnection) -> None:
    """Refuse a connection that is not encrypted: PyMySQL before 1.2 does not where the server offers no TLS."""
    with translated(), closing(connection.cursor()) as cursor:
        cursor.execute("show session status like 'Ssl_cipher'")
        [(_, cipher)] = cursor.fetchall()
    if not cipher:
        connection.close()
        raise DatabaseAccessError(
            "the connection is not encrypted, although the DSN has ssl_… options: the server does not support TLS"
        )


def translate(error: BaseException) -> DatabaseError | None:
    """Return our error for the number of a driver's error, ``None`` where an operator can do nothing about it."""
    number, *rest = error.args or (None,)
    kind = _BY_NUMBER.get(number) if isinstance(number, int) else None
    if kind is None:
        return None
    text = rest[0] if rest and rest[0] else "the connection is closed"
    return kind(f"{' '.join(str(text).split())} (error {number})", hint=NO_DATABASE if number == _NO_DATABASE else None)


def sqlstate_of(error: BaseException) -> str:
    """Return the code that fits the number."""
    number = next(iter(error.args), None)
    return _SQLSTATES.get(number, "") if isinstance(number, int) else ""


class _MySql:
    serves_type = True
    dialect = Dialect.MYSQL
    style = PYFORMAT

    def __init__(self, package: str) -> None:
        # Whatever class of cursors the user has chosen, the plain one returns tuples.
        self._cursor_class: Any = import_module(f"{package}.cursors").Cursor

    def fetch(self, connectable: object, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch on a cursor of our own; undo ``use_unicode=False``."""
        with translated(), closing(_connection(connectable).cursor(self._cursor_class)) as cursor:
            cursor.execute(sql, None if parameters is None else dict(parameters))
            return as_texts(cursor.fetchall()) if cursor.description else []

    def runs_blocks(self, connectable: object) -> bool:
        """Look at the server's name: MariaDB executes blocks, MySQL has them in stored procedures only."""
        return _is_mariadb(_connection(connectable))


class PyMySql(_MySql, SendsAtOnce):
    """The driver for PyMySQL's connections and cursors."""

    transaction_hint = "Connect without autocommit, or open the transaction with PyMySQL's `connection.begin()`."

    def joins_transaction(self, connectable: object) -> bool:
        """Look at what the server said last; see :class:`~cdc_outbox.databases.drivers.Driver`."""
        connection = _connection(connectable)
        return not connection.get_autocommit() or bool(connection.server_status & _IN_TRANSACTION)

    def prepare(self, connection: AnyConnection, *, idle_seconds: float) -> None:
        """Set the session, as far as the server has what to set."""
        settings = session_settings(self.dialect, idle_seconds=idle_seconds, mariadb=_is_mariadb(connection))
        with transaction(connection, self):
            for sql in settings:
                self.fetch(connection, sql)

    def begin(self, connection: AnyConnection) -> None:
        """Open a transaction; BEGIN would commit the one that is open, so that is refused."""
        if self.state(connection) is TransactionState.OPEN:
            raise already_open()
        with translated():
            connection.begin()

    def state(self, connection: AnyConnection) -> TransactionState:
        """Look at what the server said last; a deadlock, which ends the transaction, shows with the next answer."""
        if not connection.open:
            closed = connection._closed  # noqa: SLF001 - PyMySQL shows only that it is not open
            return TransactionState.ENDED if closed else TransactionState.LOST
        return TransactionState.OPEN if connection.server_status & _IN_TRANSACTION else TransactionState.ENDED

    def commit(self, connection: AnyConnection) -> None:
        """Commit what is still open; the server would commit nothing without a word."""
        refuse_commit(self.state(connection))
        with translated():
            connection.ping(reconnect=False)  # an error in between may have ended it
        refuse_commit(self.state(connection))
        with translated():
            connection.commit()

    def rollback(self, connection: AnyConnection) -> None:
        """Undo what is open, if anything is."""
        with suppress(connection.Error):  # the server is gone, and so is the transaction
            connection.rollback()


class MySqlClient(_MySql):
    """The driver for mysqlclient's connections and cursors."""

    transaction_hint = (
        "Connect mysqlclient without autocommit. In autocommit mode a transaction is visible on MariaDB only, "
        "because mysqlclient hides MySQL's transaction status."
    )

    def joins_transaction(self, connectable: object) -> bool:
        """Ask the connection, and in autocommit mode the server."""
        connection = _connection(connectable)
        with translated():
            if not connection.get_autocommit():
                return True
            if not _is_mariadb(connection):
                return False
            return self.fetch(connection, "select @@in_transaction") == [(1,)]


def find(connectable: object) -> Driver:
    """Return the driver for a connection or cursor."""
    package = _package(connectable)
    if package is None:
        raise wrong_kind(connectable, asynchronous=False)
    return _DRIVERS[package](package)


def find_async(connectable: object) -> AsyncDriver:
    """Refuse: there is nothing asynchronous in these packages."""
    raise wrong_kind(connectable, asynchronous=True)


_DRIVERS: dict[str, type[PyMySql | MySqlClient]] = {"pymysql": PyMySql, "MySQLdb": MySqlClient}
_PLACES = {
    "pymysql.connections.Connection": "pymysql",
    "pymysql.cursors.Cursor": "pymysql",
    "MySQLdb.connections.Connection": "MySQLdb",
    "MySQLdb.cursors.BaseCursor": "MySQLdb",
}


def _package(connectable: object) -> str | None:
    """Return whose connection or cursor it is, by name: the other package may not be installed."""
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(connectable).__mro__)
    return next((_PLACES[name] for name in names if name in _PLACES), None)


def _connection(connectable: object) -> AnyConnection:
    """Return a cursor's connection, or the connection that it is itself."""
    return getattr(connectable, "connection", connectable)


def _is_mariadb(connection: AnyConnection) -> bool:
    return "mariadb" in connection.get_server_info().lower()
