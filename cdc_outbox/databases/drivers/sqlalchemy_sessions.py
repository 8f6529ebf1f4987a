"""What lies below SQLAlchemy's sessions: registries of them, and the connection that our statements go to."""

from collections.abc import Callable, Set
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.engine import Dialect as EngineDialect
from sqlalchemy.event import contains, listen, remove
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, SessionTransaction, scoped_session

from cdc_outbox.databases.drivers import AnyConnection, is_of_driver
from cdc_outbox.databases.drivers.listeners import ListenerError
from cdc_outbox.databases.drivers.transactions import UNUSABLE, raw_state
from cdc_outbox.errors import CdcOutboxError, OutboxError, TransactionEndedError

Connectable = Connection | Session | scoped_session[Any]
AsyncConnectable = AsyncConnection | AsyncSession | async_scoped_session[Any]


def called(connectable: object) -> AnyConnection:
    """Return the session that a registry of sessions has for this thread or task."""
    return connectable() if isinstance(connectable, scoped_session | async_scoped_session) else connectable


def connection_of(connectable: Connectable) -> Connection:
    """Return the connection of a session, which may open it only now."""
    return connectable if isinstance(connectable, Connection) else connectable.connection()


def only_connection(connectable: Connection | Session) -> Connection:
    """Return the connection whose commit is that of events and rows alike.

    A session whose ``get_bind`` is its own may choose another one for each statement, so it is watched from here on.

    Raises:
        OutboxError: The session's transaction has, or may open, another connection: each has a commit of its own.
    """
    if isinstance(connectable, Connection):
        return connectable
    session, routes = connectable, type(connectable).get_bind is not Session.get_bind
    # 2.0 hides its binds.
    binds = getattr(session, "binds", None) or getattr(session, "_Session__binds", {})
    if binds or routes:
        choices = {session.get_bind(), *binds.values()}
        if routes:
            flushing, session._flushing = session._flushing, True  # noqa: SLF001 - by which SQLAlchemy's recipe routes
            try:
                choices.add(session.get_bind())
            finally:
                session._flushing = flushing  # noqa: SLF001
        if len(choices) > 1:
            raise _several()
    connection = session.connection()
    if len(_held(session)) > 1:
        raise _several()
    if routes:
        session.info[_SHARED] = connection
        if not contains(session, "after_begin", _refuse_other):
            listen(session, "after_begin", _refuse_other)
    return connection


_SHARED = "cdc_outbox.connection"
"""Where a session keeps the connection that has events."""


def _refuse_other(session: Session, _: SessionTransaction, connection: Connection) -> None:
    shared = session.info.get(_SHARED)
    if shared is not connection and shared in _held(session):
        raise _several()


def _held(session: Session) -> Set[Connection]:
    transaction: Any = session.get_transaction()
    held: Set[Connection] | None = getattr(transaction, "connections", None)
    return {each for each, *_ in transaction._connections.values()} if held is None else held  # noqa: SLF001 - 2.0


def _several() -> OutboxError:
    return OutboxError(
        "the session writes rows on one connection and events on another, and each has a commit of its own",
        hint='Pass the connection of the row: `session.connection(bind_arguments={"mapper": Order})`, or with a '
        '`get_bind` of your own `session.connection(bind_arguments={"bind": engine})`. Consumers need one engine.',
    )


def commit_after(look: Callable[[], None], session: Connection | Session, connection: Connection) -> Exception | None:
    """Commit after a look behind the last listener, which may have executed anything; return what a later one raised.

    Raises:
        ListenerError: A listener raised before the commit.
        TransactionEndedError: SQLAlchemy committed nothing.
    """
    begun, looks = connection.get_transaction(), []

    def look_once(_: Connection) -> None:
        looks.append(True)
        look()

    listen(connection, "commit", look_once)
    try:
        session.commit()
    except Exception as error:
        # SQLAlchemy forgets a transaction that was committed, and keeps one whose commit failed.
        if looks and connection.get_transaction() is not begun:
            return error
        if looks or isinstance(error, CdcOutboxError) or is_of_driver(error) or _is_lost(connection):
            raise
        raise ListenerError(f"a listener raised {type(error).__name__} before the commit") from error
    finally:
        remove(connection, "commit", look_once)
    if not looks:
        raise TransactionEndedError("SQLAlchemy did not commit")
    return None


def _is_lost(connection: Connection) -> bool:
    """Return whether the socket may have raised in a flush: SQLAlchemy lets its errors pass under asyncpg."""
    raw: Any = None if connection.invalidated else connection.connection.dbapi_connection
    return raw is None or raw_state(getattr(raw, "driver_connection", raw)) in UNUSABLE


def engine_dialect(connectable: object) -> EngineDialect:
    """Return the dialect of the engine that our statements go to.

    Raises:
        OutboxError: The session has no engine, or several without a default.
    """
    below = called(connectable)
    if isinstance(below, Connection | AsyncConnection):
        return below.engine.dialect
    session: Session = below.sync_session if isinstance(below, AsyncSession) else below
    try:
        return session.get_bind().dialect
    except UnboundExecutionError as error:
        raise OutboxError(
            "the session has no engine or several, so the one with the outbox is unknown",
            hint='Pass its connection: `session.connection(bind_arguments={"mapper": Order})`.',
        ) from error
