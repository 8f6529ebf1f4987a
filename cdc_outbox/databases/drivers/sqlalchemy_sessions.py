"""What lies below SQLAlchemy's sessions: registries of them, and the connection that our statements go to."""

from typing import Any

from sqlalchemy import Connection
from sqlalchemy.engine import Dialect as EngineDialect
from sqlalchemy.exc import UnboundExecutionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from cdc_outbox.databases.drivers import AnyConnection
from cdc_outbox.errors import OutboxError

Connectable = Connection | Session | scoped_session[Any]
AsyncConnectable = AsyncConnection | AsyncSession | async_scoped_session[Any]


def called(connectable: object) -> AnyConnection:
    """Return the session that a registry of sessions has for this thread or task."""
    return connectable() if isinstance(connectable, scoped_session | async_scoped_session) else connectable


def connection_of(connectable: Connectable) -> Connection:
    """Return the connection of a session, which may open it only now."""
    return connectable if isinstance(connectable, Connection) else connectable.connection()


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
