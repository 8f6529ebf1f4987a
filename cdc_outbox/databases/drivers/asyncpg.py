"""asyncpg.

It keeps to itself whether a transaction is aborted, and whether a connection that is closed broke or was closed. So an
aborted transaction looks open until the next statement, and the commit executes one; and each closed connection
counts as lost.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

from asyncpg import (
    Connection,
    InFailedSQLTransactionError,
    InterfaceError,
    InternalClientError,
    PostgresError,
    Record,
)
from asyncpg.pool import PoolConnectionProxy
from asyncpg.transaction import Transaction

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import (
    AsyncDriver,
    Driver,
    Parameters,
    Row,
    TransactionState,
    sqlstate,
    translated,
    wrong_kind,
)
from cdc_outbox.databases.drivers.transactions import AsyncSendsAtOnce, already_open, refuse_commit, session_settings
from cdc_outbox.databases.sql import NUMBERED, load, numbered
from cdc_outbox.errors import DatabaseError, DatabaseUnavailableError, TransactionEndedError

Connectable: TypeAlias = "Connection[Record] | PoolConnectionProxy[Record]"  # generic in the stubs only

_CONSUMES_ERROR = "another operation (2) is in progress"
"""PROTOCOL_ERROR_CONSUME of asyncpg/protocol/coreproto.pxd: a fatal error came while nothing was asked."""


class Asyncpg(AsyncSendsAtOnce):
    """The driver, for connections and what a pool lends."""

    serves_type = True
    dialect = Dialect.POSTGRESQL
    style = NUMBERED
    transaction_hint = (
        "Open a transaction first, with asyncpg `async with connection.transaction():`, and add the event inside it."
    )

    def __init__(self) -> None:
        self._block: Transaction | None = None
        self._aborted = False

    async def joins_transaction(self, connectable: Connectable) -> bool:
        """Ask the protocol, which knows from the server's last answer; asyncpg opens nothing by itself."""
        return connectable.is_in_transaction()

    async def fetch(self, connectable: Connectable, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch; the user's class of records must not reach our rows."""
        text, names = numbered(sql)
        values = parameters or {}
        with _translated(connectable):
            try:
                rows = await connectable.fetch(text, *(values[name] for name in names), record_class=Record)
            except InFailedSQLTransactionError:
                self._aborted = True
                raise
        self._aborted = False
        return [tuple(row) for row in rows]

    async def prepare(self, connectable: Connectable, *, idle_seconds: float) -> None:
        """Set the session; a level is nothing that a connection of asyncpg's would remember."""
        _refuse_open(connectable)
        for sql in session_settings(self.dialect, idle_seconds=idle_seconds):
            await self.fetch(connectable, sql)

    async def begin(self, connectable: Connectable) -> None:
        """Start asyncpg's own transaction, so that the blocks of a handler are savepoints in it."""
        _refuse_open(connectable)
        with _translated(connectable):
            block = connectable.transaction()  # which looks whether the connection is closed
            await block.start()
        self._block, self._aborted = block, False

    def state(self, connectable: Connectable) -> TransactionState:
        """Combine the protocol's state with whether our last statement found the transaction aborted."""
        if _is_closed(connectable):
            return TransactionState.LOST
        if not connectable.is_in_transaction():
            return TransactionState.ENDED
        return TransactionState.ABORTED if self._aborted else TransactionState.OPEN

    async def commit(self, connectable: Connectable) -> None:
        """Ask whether the transaction is aborted, and commit; asyncpg keeps COMMIT's answer to itself."""
        refuse_commit(self.state(connectable))
        with suppress(InFailedSQLTransactionError):
            await self.fetch(connectable, _ASK)
        refuse_commit(self.state(connectable))
        block, self._block = self._block, None
        if block is None:
            raise TransactionEndedError("there is no transaction to commit")
        with _translated(connectable):
            await block.commit()

    async def rollback(self, connectable: Connectable) -> None:
        """Undo what is open, if anything is."""
        block, self._block = self._block, None
        if block is not None and not _is_closed(connectable):
            # The connection may break now, or a handler may have ended the transaction already.
            with suppress(InterfaceError, PostgresError, OSError):
                await block.rollback()


def find(connectable: object) -> Driver:
    """Refuse: asyncpg has asynchronous connections only."""
    raise wrong_kind(connectable, asynchronous=False)


def find_async(connectable: object) -> AsyncDriver:
    """Return the driver for a connection."""
    if isinstance(connectable, Connection | PoolConnectionProxy):
        return Asyncpg()
    raise wrong_kind(connectable, asynchronous=True)


def translate(error: BaseException) -> DatabaseError | None:
    """Return our error for one of asyncpg's, ``None`` where an operator can do nothing about it."""
    if not isinstance(error, PostgresError) or not error.sqlstate:
        return None
    return sqlstate.translate(error.sqlstate, str(error.args[0]) if error.args else type(error).__name__)


def sqlstate_of(error: BaseException) -> str:
    """Return the server's code."""
    return (isinstance(error, PostgresError) and error.sqlstate) or ""


_ASK = load(Dialect.POSTGRESQL, "session")["begin"].text


def _refuse_open(connectable: Connectable) -> None:
    if not _is_closed(connectable) and connectable.is_in_transaction():
        raise already_open()


def _is_closed(connectable: Connectable) -> bool:
    """Return whether nothing can be asked of the connection; what a pool has taken back raises."""
    try:
        return connectable.is_closed()
    except InterfaceError:
        return True


@contextmanager
def _translated(connectable: Connectable) -> Iterator[None]:
    with translated():
        try:
            yield
        except InterfaceError as error:
            if _is_closed(connectable):  # asyncpg has no code for it
                raise DatabaseUnavailableError(str(error)) from error
            raise
        except ConnectionError as error:  # the socket's own, which asyncpg lets pass
            raise DatabaseUnavailableError(str(error)) from error
        except InternalClientError as error:
            # The server's last words were read, and the connection is about to be closed.
            if _CONSUMES_ERROR in str(error):
                raise DatabaseUnavailableError(str(error)) from error
            raise
