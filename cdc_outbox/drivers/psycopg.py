"""psycopg 3, synchronous and asynchronous."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from cdc_outbox.drivers import AsyncDriver, Driver, Parameters, Row, TransactionState
from cdc_outbox.errors import (
    ConfigError,
    DatabaseAccessError,
    DatabaseError,
    DatabaseUnavailableError,
    OutboxError,
    TableNotFoundError,
    TransactionAbortedError,
    TransactionConflictError,
    TransactionEndedError,
)

_BY_SQLSTATE: tuple[tuple[str, type[DatabaseError]], ...] = (
    ("08", DatabaseUnavailableError),  # connection exception
    ("25006", DatabaseUnavailableError),  # read-only: a primary that became a standby
    ("25P03", DatabaseUnavailableError),  # it idled in a transaction for too long, and was cut
    ("25P04", DatabaseUnavailableError),  # the transaction took too long, and was cut
    ("53100", DatabaseUnavailableError),  # disk full
    ("53200", DatabaseUnavailableError),  # out of memory
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
    dialect = "postgresql"

    def parameter(self, name: str) -> str:
        return f"%({name})s"

    def joins_transaction(self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> bool:
        # Outside autocommit psycopg opens a transaction before the first statement, and the caller ends it.
        return not connection.autocommit or connection.info.transaction_status is not TransactionStatus.IDLE


class Psycopg(_Psycopg):
    """The synchronous driver."""

    def __init__(self) -> None:
        self._block: AbstractContextManager[object] | None = None

    def fetch(self, connection: psycopg.Connection[Any], sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch; see :class:`~cdc_outbox.drivers.Driver`."""
        with translated(), connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall() if cursor.description else []

    def begin(self, connection: psycopg.Connection[Any]) -> None:
        """Enter psycopg's own block: in it ``commit()``, ``rollback()`` and ``with connection`` raise."""
        if connection.info.transaction_status is not TransactionStatus.IDLE:
            raise OutboxError("the connection has a transaction already")
        block = connection.transaction()
        with translated():
            block.__enter__()
        self._block = block

    def state(self, connection: psycopg.Connection[Any]) -> TransactionState:
        """Ask libpq, which knows from the server's last answer."""
        if connection.broken:
            return TransactionState.LOST
        match connection.info.transaction_status:
            case TransactionStatus.INTRANS:
                return TransactionState.OPEN
            case TransactionStatus.INERROR:
                return TransactionState.ABORTED
            case _:
                return TransactionState.ENDED

    def commit(self, connection: psycopg.Connection[Any]) -> None:
        """Leave the block, after a look at what the server said last: the block keeps COMMIT's answer to itself."""
        state = self.state(connection)
        if state is TransactionState.ABORTED:
            raise TransactionAbortedError("a statement failed, and the server would answer COMMIT with ROLLBACK")
        if state is TransactionState.LOST:  # the block would end without a word
            raise DatabaseUnavailableError("the connection broke before the commit")
        if state is TransactionState.ENDED or self._block is None:
            raise TransactionEndedError("there is no transaction to commit")
        block, self._block = self._block, None
        with translated():
            block.__exit__(None, None, None)

    def rollback(self, connection: psycopg.Connection[Any]) -> None:
        """Undo what is open, if anything is."""
        block, self._block = self._block, None
        with suppress(psycopg.Error):  # the server is gone, and so is the transaction
            if block is not None:
                block.__exit__(psycopg.Rollback, psycopg.Rollback(), None)
        with suppress(psycopg.Error):  # a block that somebody left open inside ours keeps psycopg from ending it
            if self.state(connection) in {TransactionState.OPEN, TransactionState.ABORTED}:
                connection.execute("rollback")


class AsyncPsycopg(_Psycopg):
    """The asynchronous driver."""

    async def fetch(
        self, connection: psycopg.AsyncConnection[Any], sql: str, parameters: Parameters = None
    ) -> list[Row]:
        """Execute and fetch; see :class:`~cdc_outbox.drivers.AsyncDriver`."""
        with translated():
            async with connection.cursor(row_factory=tuple_row) as cursor:
                await cursor.execute(sql, parameters)
                return await cursor.fetchall() if cursor.description else []


def find(connection: object) -> Driver:
    """Return the driver for a synchronous connection."""
    if isinstance(connection, psycopg.Connection):
        return Psycopg()
    raise OutboxError(
        f"{type(connection).__qualname__} is not a synchronous psycopg connection",
        hint="AsyncOutbox takes an AsyncConnection; Outbox takes a Connection.",
    )


def find_async(connection: object) -> AsyncDriver:
    """Return the driver for an asynchronous connection."""
    if isinstance(connection, psycopg.AsyncConnection):
        return AsyncPsycopg()
    raise OutboxError(
        f"{type(connection).__qualname__} is not an asynchronous psycopg connection",
        hint="Outbox takes a Connection; AsyncOutbox takes an AsyncConnection.",
    )
