"""SQLAlchemy 2: sessions and connections, their asynchronous twins, and what is built on them, such as SQLModel's.

Where this package opens transactions, it resets a session after each, as ``with Session(engine) as session:`` does: its
objects are detached, nothing of one event is seen by the next, and its connection goes back to the pool.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import AdaptedConnection
from sqlalchemy.engine import Dialect as EngineDialect
from sqlalchemy.exc import DBAPIError, PendingRollbackError, ResourceClosedError, StatementError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from cdc_outbox.databases import drivers
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import (
    AnyConnection,
    AsyncDriver,
    Driver,
    Parameters,
    Row,
    TransactionState,
    translated,
    wrong_kind,
)
from cdc_outbox.databases.drivers import sqlalchemy_statements as statements
from cdc_outbox.databases.drivers.listeners import log_callback
from cdc_outbox.databases.drivers.sqlalchemy_sessions import (
    AsyncConnectable,
    Connectable,
    called,
    commit_after,
    connection_of,
    engine_dialect,
    only_connection,
)
from cdc_outbox.databases.drivers.sqlstate import CLOSED, FAILED_TRANSACTION
from cdc_outbox.databases.drivers.transactions import (
    UNUSABLE,
    already_open,
    other_isolation,
    raw_answers,
    raw_state,
    refuse_commit,
    session_settings,
)
from cdc_outbox.databases.sql import load
from cdc_outbox.errors import DatabaseError, DatabaseUnavailableError, OutboxError

Result = TypeVar("Result")

_PREPARED = "cdc_outbox.idle_seconds"
"""Where a connection of the pool's keeps what it was prepared with, for as long as it lives."""


@dataclass(frozen=True, slots=True)
class _Begun:
    """A transaction that this driver began: what must still be there for it to be the same one."""

    connection: Connection
    root: Any
    raw: Any

    @classmethod
    def on(cls, connection: Connection) -> "_Begun":
        raw: Any = connection.connection.dbapi_connection
        return cls(connection=connection, root=connection.get_transaction(), raw=getattr(raw, "driver_connection", raw))


class _SqlAlchemy:
    transaction_hint = (
        "Use an engine, connection or session whose isolation level is not AUTOCOMMIT, and open the transaction "
        "with SQLAlchemy `with session.begin():`."
    )

    def __init__(self, engine: EngineDialect) -> None:
        self.dialect = statements.known_dialect(engine)
        self.style = statements.style_of(engine)
        self._engine = engine

    def serves(self, connectable: object) -> bool:
        """Return whether the connection has the engine's dialect."""
        return engine_dialect(connectable) is self._engine

    def runs_blocks(self, connectable: object) -> bool:  # noqa: ARG002 - the driver was found by it
        """Ask SQLAlchemy, which knows MariaDB from MySQL."""
        return bool(getattr(self._engine, "is_mariadb", False))


class SqlAlchemy(_SqlAlchemy):
    """The synchronous driver. It works on the session's connection and sees no mapped object before it is to commit."""

    def __init__(self, engine: EngineDialect) -> None:
        super().__init__(engine)
        self._statements = load(self.dialect, "session")
        self._idle_seconds: float | None = None
        self._begun: _Begun | None = None
        self._aborted = False
        self._events: list[object] = []

    def joins_transaction(self, connectable: Connectable) -> bool:
        """Ask the database's driver; see :class:`~cdc_outbox.databases.drivers.Driver`."""
        return self._joined(connectable) is not None

    def joined(self, connectable: Connectable) -> Connection | None:
        """Return the connection whose transaction a statement would join; finding a session's takes microseconds."""
        connection = self._joined(connectable)
        if connection is not None and self.dialect is Dialect.MYSQL:
            statements.refuse_two_phases(connection)
        return connection

    def _joined(self, connectable: Connectable) -> Connection | None:
        """Look below the session: ``in_transaction()`` is true under AUTOCOMMIT too, where each statement commits."""
        session = called(connectable)
        if isinstance(session, Session) and not (session.autobegin or session.in_transaction()):
            return None
        with translated():
            with _REACHING:
                connection = only_connection(session)  # a session may open it only now
            raw: Any = connection.connection.dbapi_connection
            joins = not connection.dialect.detect_autocommit_setting(raw) or _has_transaction(raw)
            return connection if joins else None

    def fetch(self, connectable: Connectable, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch on the connection; without parameters nothing in the text is one."""
        with translated():
            try:
                connection = connection_of(connectable)
                rows = statements.fetched(statements.execute(connection, sql, parameters, self.style))
            except StatementError as error:
                error.hide_parameters = True  # the payload is among them
                self._aborted = getattr(error.orig, "sqlstate", None) == FAILED_TRANSACTION
                raise
            self._aborted = False
            return rows

    def fetch_often(self, connectable: Connectable, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute on the driver's connection if possible: SQLAlchemy's execution takes as long as the rest."""
        connection = connection_of(connectable)
        if parameters is None or not statements.may_fetch_below(connection, self.style):
            return self.fetch(connection, sql, parameters)
        with translated():
            return statements.fetch_below(connection, sql, parameters, self.style)

    def prepare(self, connectable: Connectable, *, idle_seconds: float) -> None:
        """Remember what to set on each connection that the pool will lend, and set the first."""
        session_settings(self.dialect, idle_seconds=idle_seconds)  # which looks at the number
        self._idle_seconds = idle_seconds
        self.begin(connectable)
        self.rollback(connectable)

    def begin(self, connectable: Connectable) -> None:
        """Open the transaction of the session and, at once, that of the database."""
        session = called(connectable)
        _refuse_open(session)
        with translated(), _REACHING:
            try:
                session.begin()
                self._aborted, self._events = False, []
                connection = only_connection(session)
                self._set_session(connection)
                self._begun = _Begun.on(connection)
                self._open(connection)
            except BaseException:
                self.rollback(connectable)
                raise

    def state(self, connectable: Connectable) -> TransactionState:
        """Compare SQLAlchemy's transaction with the one that was begun, and ask the database's driver below it."""
        begun, session = self._begun, called(connectable)
        if begun is None:
            return TransactionState.ENDED
        if begun.connection.invalidated:
            return TransactionState.LOST
        if isinstance(session, Session) and not session.is_active:  # a flush failed, and undid everything
            return TransactionState.ABORTED
        if begun.connection.get_transaction() is not begun.root:
            return TransactionState.ENDED
        state = _in_transaction(begun.raw) if self.dialect is Dialect.SQLITE else raw_state(begun.raw)
        return TransactionState.ABORTED if state is TransactionState.OPEN and self._aborted else state

    async def answers(self, connectable: Connectable) -> bool:  # noqa: ARG002 - its transaction has the one to ask
        """Ask the database's driver."""
        return await raw_answers(self._begun and self._begun.raw)

    def flush(self, connectable: Connectable) -> None:
        """Send what objects of the session's have changed."""
        session = called(connectable)
        if isinstance(session, Session):
            with translated():
                session.flush()

    def handled(self, _: Connectable, events: Sequence[object]) -> None:
        """Remember these events for what a listener raises after the commit."""
        self._events += events

    def commit(self, connectable: Connectable) -> None:
        """Flush and commit, after a look at what the database's driver says: SQLAlchemy believes every commit."""
        refuse_commit(self.state(connectable))
        self.flush(connectable)
        assert self._begun is not None  # noqa: S101 - the state says so
        connection = self._begun.connection

        def look() -> None:
            self._ask(connection)
            refuse_commit(self.state(connection))

        with translated():
            raised = commit_after(look, called(connectable), connection)
        if raised is not None:
            log_callback(raised, self._events)
        self._reset(connectable)

    def rollback(self, connectable: Connectable) -> None:
        """Undo what is open, if anything is; a connection that cannot is thrown away."""
        session, begun = called(connectable), self._begun
        if self.state(connectable) in UNUSABLE:
            session.invalidate()
        try:
            session.rollback()
            if begun and not (begun.connection.closed or begun.connection.invalidated):
                begun.connection.connection.rollback()  # what is left if a listener kept SQLAlchemy from its commit
        except Exception:  # noqa: BLE001 - the server is gone, and so is the transaction
            with suppress(Exception):
                session.invalidate()
        self._reset(connectable)

    def _reset(self, connectable: Connectable) -> None:
        session, self._begun = called(connectable), None
        if isinstance(session, Session):
            with suppress(Exception):  # of a connection that breaks on its way back to the pool
                session.reset()

    def _set_session(self, connection: Connection) -> None:
        """Set what a connection of the pool's has not been set to, and commit that below SQLAlchemy's transaction."""
        if self._idle_seconds is None or connection.info.get(_PREPARED) == self._idle_seconds:
            return
        mariadb = self.runs_blocks(connection)
        for sql in session_settings(self.dialect, idle_seconds=self._idle_seconds, mariadb=mariadb):
            self.fetch(connection, sql)
        connection.connection.commit()
        # An engine may have a level of its own, which each of its transactions begins with.
        level = connection.get_isolation_level()
        if "isolate" in self._statements and level != "READ COMMITTED":
            raise other_isolation(level)
        connection.info[_PREPARED] = self._idle_seconds

    def _open(self, connection: Connection) -> None:
        raw: Any = connection.connection.dbapi_connection
        if self.dialect is Dialect.SQLITE and getattr(raw, "driver_connection", raw).in_transaction:
            return  # SQLAlchemy's own recipe for SQLite begins by an event
        if connection.dialect.detect_autocommit_setting(raw):
            raise OutboxError("each statement would commit itself", hint=self.transaction_hint)
        connection.exec_driver_sql(self._statements["begin"].text)

    def _ask(self, connectable: Connectable) -> None:
        """Look again after an answer of the server, where what is below does not show that an error ended it all."""
        connection = connection_of(called(connectable))
        if connection.dialect.driver in _SEEING:
            return
        names = ["ask_mariadb"] * self.runs_blocks(connection) + ["ask", "begin"]
        name = next(name for name in names if name in self._statements)
        try:
            rows = self.fetch(connectable, self._statements[name].text)
        except DBAPIError:
            refuse_commit(self.state(connectable))
            raise
        if name == "ask_mariadb" and rows == [(0,)]:
            refuse_commit(TransactionState.ENDED)


class AsyncSqlAlchemy(_SqlAlchemy):
    """The asynchronous driver: the synchronous one, run where SQLAlchemy runs its own."""

    def __init__(self, engine: EngineDialect) -> None:
        super().__init__(engine)
        self.direct = SqlAlchemy(engine)

    async def run(self, connectable: AsyncConnectable, function: Callable[..., Result], *arguments: object) -> Result:
        """Call a function with the connection or session below, and the arguments, where it may wait."""
        result: Result = await called(connectable).run_sync(function, *arguments)
        return result

    async def joins_transaction(self, connectable: AsyncConnectable) -> bool:
        """Ask as the twin does."""
        return await self.run(connectable, self.direct.joins_transaction)

    async def fetch(self, connectable: AsyncConnectable, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch as the twin does."""
        return await self.run(connectable, self.direct.fetch, sql, parameters)

    async def prepare(self, connectable: AsyncConnectable, *, idle_seconds: float) -> None:
        """Remember what to set on each connection that the pool will lend, and set the first."""
        await self.run(connectable, partial(self.direct.prepare, idle_seconds=idle_seconds))

    async def begin(self, connectable: AsyncConnectable) -> None:
        """Open the transaction as the twin does."""
        await self.run(connectable, self.direct.begin)

    def state(self, connectable: AsyncConnectable) -> TransactionState:
        """Compare as the twin does."""
        below = called(connectable)
        session: Any = below.sync_connection if isinstance(below, AsyncConnection) else below.sync_session
        return self.direct.state(session)

    async def flush(self, connectable: AsyncConnectable) -> None:
        """Send what objects of the session's have changed."""
        await self.run(connectable, self.direct.flush)

    async def commit(self, connectable: AsyncConnectable) -> None:
        """Flush and commit as the twin does."""
        await self.run(connectable, self.direct.commit)

    async def rollback(self, connectable: AsyncConnectable) -> None:
        """Undo as the twin does."""
        await self.run(connectable, self.direct.rollback)


def find(connectable: object) -> Driver:
    """Return the driver for a session or connection."""
    if not isinstance(connectable, Connection | Session | scoped_session):
        raise wrong_kind(connectable, asynchronous=False)
    return SqlAlchemy(engine_dialect(connectable))


def find_async(connectable: object) -> AsyncDriver:
    """Return the driver for an asynchronous session or connection."""
    if isinstance(connectable, AsyncConnection | AsyncSession | async_scoped_session):
        return AsyncSqlAlchemy(engine_dialect(connectable))
    raise wrong_kind(connectable, asynchronous=True)


def translate(error: BaseException) -> DatabaseError | None:
    """Return our error for the one that SQLAlchemy wrapped, by the table of the driver that raised it."""
    if not isinstance(error, DBAPIError) or error.orig is None:
        return None
    # Under an asynchronous driver ``orig`` is SQLAlchemy's own, too, and the driver's is its cause.
    causes = [error.orig, error.orig.__cause__]
    for cause in causes:
        if cause is not None and (ours := drivers.translate(cause)):
            return ours
    return DatabaseUnavailableError("the connection was lost") if error.connection_invalidated else None


def sqlstate_of(error: BaseException) -> str:
    """Return the code of the driver's error; SQLAlchemy itself refuses what was closed, and a session that failed."""
    if isinstance(error, ResourceClosedError):
        return CLOSED
    if isinstance(error, PendingRollbackError):
        return FAILED_TRANSACTION
    cause: BaseException | None = error.orig if isinstance(error, DBAPIError) else None
    while cause is not None:  # under an asynchronous driver the first is SQLAlchemy's own
        if code := drivers.sqlstate_of(cause):
            return code
        cause = cause.__cause__
    return ""


def _unreachable(error: BaseException) -> DatabaseUnavailableError | None:
    """Return our error for the operating system's, which asyncpg lets pass, or its adapter's, from below SQLAlchemy."""
    is_bare = isinstance(error, OSError) or type(error).__module__.startswith("sqlalchemy.dialects")
    return DatabaseUnavailableError(f"the database cannot be reached: {error}") if is_bare else None


_REACHING = drivers.Translation(_unreachable)

_SEEING = {"psycopg", "psycopg2", "psycopg_async", "pysqlite", "aiosqlite"}
"""SQLAlchemy's names of the drivers that know the transaction's state from each answer, an error too."""


def _refuse_open(session: Connection | Session) -> None:
    bind = session.get_bind() if isinstance(session, Session) else session
    if session.in_transaction() or (isinstance(bind, Connection) and bind.in_transaction()):
        raise already_open("session")


def _in_transaction(raw: AnyConnection) -> TransactionState:
    with suppress(ValueError, sqlite3.Error):  # it was closed
        return TransactionState.OPEN if raw.in_transaction else TransactionState.ENDED
    return TransactionState.ENDED


def _has_transaction(raw: object) -> bool:
    """Return whether a statement opened a transaction, as is usual with SQLite."""
    try:
        if isinstance(raw, AdaptedConnection):
            return raw.run_async(drivers.find_async_driver(raw.driver_connection).joins_transaction)
        return drivers.find_driver(raw).joins_transaction(raw)
    except OutboxError:  # an unsupported driver: SQLAlchemy's own state must do
        return False
