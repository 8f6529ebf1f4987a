"""psycopg 3, synchronous and asynchronous."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, overload

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from cdc_outbox.drivers import AsyncDriver, Driver, Parameters, Row, wrong_kind
from cdc_outbox.errors import (
    ConfigError,
    DatabaseAccessError,
    DatabaseError,
    DatabaseUnavailableError,
    OutboxError,
    TableNotFoundError,
    TransactionAbortedError,
    TransactionConflictError,
)
from cdc_outbox.sql import PYFORMAT
from cdc_outbox.table import Dialect

Place = psycopg.Connection[Any] | psycopg.Cursor[Any]
AsyncPlace = psycopg.AsyncConnection[Any] | psycopg.AsyncCursor[Any]

_BY_SQLSTATE: tuple[tuple[str, type[DatabaseError]], ...] = (
    ("08", DatabaseUnavailableError),  # connection exception
    ("53300", DatabaseUnavailableError),  # too many connections
    ("57P0", DatabaseUnavailableError),  # shutting down, crashed, starting up
    ("28", DatabaseAccessError),  # wrong password, unknown role
    ("3D000", DatabaseAccessError),  # the database does not exist
    ("42501", DatabaseAccessError),  # insufficient privilege
    ("42P01", TableNotFoundError),
    ("42703", TableNotFoundError),  # a column
    ("3F000", TableNotFoundError),  # a schema
    ("40001", TransactionConflictError),
    ("40P01", TransactionConflictError),
    ("55P03", TransactionConflictError),  # a lock was not to be had within lock_timeout
)


def connect(dsn: str, **options: Any) -> psycopg.Connection[Row]:  # noqa: ANN401 - libpq's own
    """Open a connection in autocommit mode.

    Raises:
        DatabaseUnavailableError: Nobody answers, within ten seconds unless the DSN says otherwise.
        DatabaseAccessError: The server refused the role, the password or the database.
    """
    with translated():
        try:
            return psycopg.connect(dsn, autocommit=True, **({"connect_timeout": 10} | options))
        except psycopg.ProgrammingError as error:
            raise ConfigError(f"the DSN cannot be read: {_sentence(error)}", field="dsn") from error


@contextmanager
def translated() -> Iterator[None]:
    """Turn psycopg's errors into ours, but for conflicts, which the caller's own retry looks for."""
    try:
        yield
    except psycopg.Error as error:
        ours = translate(error)
        if ours is None or isinstance(ours, TransactionConflictError):
            raise
        raise ours from error


def translate(error: BaseException) -> DatabaseError | None:
    """Return our error for one of psycopg's, ``None`` where an operator can do nothing about it."""
    if not isinstance(error, psycopg.Error):
        return None
    state = error.sqlstate
    if state is None:
        return _without_sqlstate(error) if isinstance(error, psycopg.OperationalError) else None
    for prefix, kind in _BY_SQLSTATE:
        if state.startswith(prefix):
            return kind(_sentence(error), sqlstate=state)
    return None


def _without_sqlstate(error: psycopg.OperationalError) -> DatabaseError:
    # libpq keeps the SQLSTATE of a refused login to itself. That a password was asked for in vain tells as much, and
    # does not depend on the language that the server speaks.
    attempt = error.pgconn
    refused = attempt is not None and (attempt.used_password or attempt.needs_password) and not attempt.server_version
    return (DatabaseAccessError if refused else DatabaseUnavailableError)(_sentence(error))


def _sentence(error: psycopg.Error) -> str:
    """Return the server's message without its detail, which may quote a row."""
    text = error.diag.message_primary or str(error)
    return " ".join(text.split())


class _Psycopg:
    dialect = Dialect.POSTGRESQL
    style = PYFORMAT


class Psycopg(_Psycopg):
    """The synchronous driver, for connections and cursors."""

    def joins_transaction(self, place: Place) -> bool:
        """Ask libpq; see :class:`~cdc_outbox.drivers.Driver`."""
        connection = _connection(place)
        _refuse_pipeline(connection)
        return _joins(connection)

    def fetch(self, place: Place, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch on a cursor of our own: the user's factories must not reach our statements and rows."""
        with translated(), psycopg.Cursor(_connection(place), row_factory=tuple_row) as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall() if cursor.description else []

    def begin(self, connection: psycopg.Connection[Any]) -> None:
        """Open a transaction by name, so that autocommit does not matter."""
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            raise OutboxError("the connection has a transaction already")
        with translated():
            if connection.autocommit:
                connection.execute("begin")

    def is_aborted(self, connection: psycopg.Connection[Any]) -> bool:
        """Ask libpq, which knows from the server's last answer."""
        return connection.info.transaction_status is TransactionStatus.INERROR

    def commit(self, connection: psycopg.Connection[Any]) -> None:
        """Commit by statement: its command tag tells what ``Connection.commit`` keeps to itself."""
        with translated():
            tag = connection.execute("commit").statusmessage
        if tag != "COMMIT":
            raise TransactionAbortedError(f"the server answered COMMIT with {tag}")

    def rollback(self, connection: psycopg.Connection[Any]) -> None:
        """Undo what is open, if anything is."""
        if not connection.closed and connection.info.transaction_status is not TransactionStatus.IDLE:
            with suppress(psycopg.OperationalError):  # the server is gone, and so is the transaction
                connection.execute("rollback")


class AsyncPsycopg(_Psycopg):
    """The asynchronous driver, for connections and cursors."""

    async def joins_transaction(self, place: AsyncPlace) -> bool:
        """Ask libpq; see :class:`~cdc_outbox.drivers.AsyncDriver`."""
        connection = _connection(place)
        _refuse_pipeline(connection)
        return _joins(connection)

    async def fetch(self, place: AsyncPlace, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch on a cursor of our own."""
        with translated():
            async with psycopg.AsyncCursor(_connection(place), row_factory=tuple_row) as cursor:
                await cursor.execute(sql, parameters)
                return await cursor.fetchall() if cursor.description else []


def find(place: object) -> Driver:
    """Return the driver for a synchronous connection or cursor."""
    if isinstance(place, psycopg.Connection | psycopg.Cursor):
        return _SYNC
    raise wrong_kind(place, asynchronous=False)


def find_async(place: object) -> AsyncDriver:
    """Return the driver for an asynchronous connection or cursor."""
    if isinstance(place, psycopg.AsyncConnection | psycopg.AsyncCursor):
        return _ASYNC
    raise wrong_kind(place, asynchronous=True)


_SYNC, _ASYNC = Psycopg(), AsyncPsycopg()


@overload
def _connection(place: Place) -> psycopg.Connection[Any]: ...
@overload
def _connection(place: AsyncPlace) -> psycopg.AsyncConnection[Any]: ...
def _connection(place: Place | AsyncPlace) -> psycopg.Connection[Any] | psycopg.AsyncConnection[Any]:
    return place.connection if isinstance(place, psycopg.Cursor | psycopg.AsyncCursor) else place


def _joins(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
    # Outside autocommit psycopg opens a transaction before the first statement, and the caller ends it.
    status = connection.info.transaction_status
    return not connection.autocommit or status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}


def _refuse_pipeline(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    if connection.pgconn.pipeline_status != PipelineStatus.OFF:
        # Nobody knows in a pipeline whether a transaction is open before the server has answered.
        raise OutboxError(
            "the connection is in pipeline mode, in which a write could not be refused",
            hint="Add events before the pipeline begins or after it has ended.",
        )
