"""psycopg2."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from os import dup
from socket import SHUT_RDWR, socket
from threading import Timer

import psycopg2
from psycopg2.extensions import (
    ISOLATION_LEVEL_READ_COMMITTED,
    TRANSACTION_STATUS_ACTIVE,
    TRANSACTION_STATUS_IDLE,
    TRANSACTION_STATUS_INERROR,
    TRANSACTION_STATUS_INTRANS,
    TRANSACTION_STATUS_UNKNOWN,
)
from psycopg2.extensions import connection as Connection  # noqa: N812 - it is a class
from psycopg2.extensions import cursor as Cursor  # noqa: N812 - it is a class

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import (
    AnyConnection,
    AsyncDriver,
    Driver,
    Parameters,
    Row,
    TransactionState,
    sqlstate,
    translated,
    wrong_kind,
)
from cdc_outbox.databases.drivers.transactions import (
    ANSWER_SECONDS,
    SendsAtOnce,
    already_open,
    other_isolation,
    refuse_commit,
    session_settings,
    transaction,
)
from cdc_outbox.databases.sql import PYFORMAT_CONSTANTS
from cdc_outbox.errors import DatabaseError, DatabaseUnavailableError

Connectable = Connection | Cursor

_STATES = {
    TRANSACTION_STATUS_INTRANS: TransactionState.OPEN,
    TRANSACTION_STATUS_INERROR: TransactionState.ABORTED,
    TRANSACTION_STATUS_ACTIVE: TransactionState.UNKNOWN,
    TRANSACTION_STATUS_UNKNOWN: TransactionState.LOST,
}
_BROKEN = 2
"""The value of ``closed`` for a connection that broke."""
_LEVELS = {2: "REPEATABLE READ", 3: "SERIALIZABLE", 4: "READ UNCOMMITTED"}
"""By psycopg2's numbers."""


class Psycopg2(SendsAtOnce):
    """The driver, for connections and cursors."""

    dialect = Dialect.POSTGRESQL
    serves_type = True
    style = replace(PYFORMAT_CONSTANTS, casts_times=True)
    transaction_hint = "Open a transaction first, with psycopg2 `with connection:`, and add the event inside it."

    def joins_transaction(self, connectable: Connectable) -> bool:
        """Ask libpq; see :class:`~cdc_outbox.databases.drivers.Driver`."""
        return self.joined(connectable) is not None

    def joined(self, connectable: Connectable) -> AnyConnection | None:
        """Return the connection, which a cursor has, if it executes in the caller's transaction."""
        connection = _connection(connectable)
        if connection.async_:
            raise wrong_kind(connectable, asynchronous=False)
        if not connection.autocommit:
            return connection
        if connection.get_transaction_status() == TRANSACTION_STATUS_IDLE:
            # `with connection:` opens a transaction in autocommit mode too, but at the first statement, and keeps to
            # itself that it will. So there is a first statement.
            self.fetch(connectable, "select 1")
        is_open = connection.get_transaction_status() in {TRANSACTION_STATUS_INTRANS, TRANSACTION_STATUS_INERROR}
        return connection if is_open else None

    def fetch(self, connectable: Connectable, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch on a cursor of our own: the user's factories must not reach our rows."""
        with translated(), Cursor(_connection(connectable)) as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall() if cursor.description else []

    def fetch_often(self, connectable: Connectable, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch; times that the statement casts to text are returned in ISO 8601.

        psycopg2 sets that format in each new session; a session that changed it costs two more round trips. The
        alternative is ``to_char``, which takes the server a tenth of the time of inserting an event.
        """
        connection = _connection(connectable)
        date_style = connection.get_parameter_status("DateStyle")
        if date_style is None or not date_style.startswith("ISO"):
            with _iso_times(connection, date_style):
                return self.fetch(connection, sql, parameters)
        cursor = Cursor(connection)  # it has no resources on the server, so it need not be closed
        cursor.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []

    def prepare(self, connection: AnyConnection, *, idle_seconds: float) -> None:
        """Set the session, and refuse a level that psycopg2 would put into each BEGIN."""
        if connection.isolation_level not in {None, ISOLATION_LEVEL_READ_COMMITTED}:
            raise other_isolation(_LEVELS[connection.isolation_level])
        settings = session_settings(self.dialect, idle_seconds=idle_seconds)
        with transaction(connection, self):
            for sql in settings:
                self.fetch(connection, sql)

    def begin(self, connection: AnyConnection) -> None:
        """Open a transaction now: psycopg2 would wait for the first statement, and look as if there were none."""
        if not connection.closed and connection.get_transaction_status() != TRANSACTION_STATUS_IDLE:
            raise already_open()
        self.fetch(connection, "begin" if connection.autocommit else "select 1")

    def state(self, connection: AnyConnection) -> TransactionState:
        """Ask libpq, which knows from the server's last answer."""
        if connection.closed:
            return TransactionState.LOST if connection.closed == _BROKEN else TransactionState.ENDED
        return _STATES.get(connection.get_transaction_status(), TransactionState.ENDED)

    async def answers(self, connection: AnyConnection) -> bool:
        """Execute a statement, before which libpq ends a COPY; the state shows what came of it."""
        with suppress(psycopg2.Error, OSError), socket(fileno=dup(connection.fileno())) as line:
            timer = Timer(ANSWER_SECONDS, line.shutdown, [SHUT_RDWR])  # after which libpq finds the connection broken
            timer.start()
            with suppress(psycopg2.Error, DatabaseError):
                self.fetch(connection, "select 1")
            timer.cancel()
            timer.join()
        return True

    def commit(self, connection: AnyConnection) -> None:
        """Commit, after a look at what the server said last: psycopg2 keeps COMMIT's answer to itself."""
        refuse_commit(self.state(connection))
        if connection.autocommit:  # where its own method does nothing
            self.fetch(connection, "commit")
        else:
            with translated():
                connection.commit()

    def rollback(self, connection: AnyConnection) -> None:
        """Undo what is open, if anything is."""
        with suppress(psycopg2.Error):  # the server is gone, and so is the transaction
            if not connection.autocommit:
                connection.rollback()
            elif self.state(connection) in {TransactionState.OPEN, TransactionState.ABORTED}:
                with Cursor(connection) as cursor:
                    cursor.execute("rollback")


def find(connectable: object) -> Driver:
    """Return the driver for a connection or cursor."""
    # psycopg2's own asynchronous mode answers before the server does.
    if isinstance(connectable, Connection | Cursor) and not _connection(connectable).async_:
        return _DRIVER
    raise wrong_kind(connectable, asynchronous=False)


def find_async(connectable: object) -> AsyncDriver:
    """Refuse: asyncio and psycopg2 do not go together."""
    raise wrong_kind(connectable, asynchronous=True)


def translate(error: BaseException) -> DatabaseError | None:
    """Return our error for one of psycopg2's, ``None`` where an operator can do nothing about it."""
    if not isinstance(error, psycopg2.Error):
        return None
    message = error.diag.message_primary or " ".join(str(error).split())
    if error.pgcode:
        return sqlstate.translate(error.pgcode, message)
    # libpq lost the server, or never reached it.
    return DatabaseUnavailableError(message) if isinstance(error, psycopg2.OperationalError) else None


def sqlstate_of(error: BaseException) -> str:
    """Return the server's code; psycopg2's own interface refuses what was closed."""
    if isinstance(error, psycopg2.InterfaceError):
        return sqlstate.CLOSED
    return (isinstance(error, psycopg2.Error) and error.pgcode) or ""


@contextmanager
def _iso_times(connection: AnyConnection, date_style: str | None) -> Iterator[None]:
    """Set the format of times to ISO 8601 for a block; for the rest of the transaction if DateStyle is not reported."""
    with Cursor(connection) as cursor:
        cursor.execute("set local datestyle = iso")
        try:
            yield
        finally:
            # The rollback of an aborted transaction restores it. An error of the client aborts no transaction.
            if date_style is not None and connection.get_transaction_status() == TRANSACTION_STATUS_INTRANS:
                cursor.execute("set local datestyle = %s", (date_style,))


_DRIVER = Psycopg2()


def _connection(connectable: Connectable) -> AnyConnection:
    return connectable.connection if isinstance(connectable, Cursor) else connectable
