"""Our statements on a connection of SQLAlchemy's, written as the driver below it reads them.

SQLAlchemy would translate its own style at each execution, which takes as long as the rest of adding an event. Its
execution context and result take as long again; :func:`fetch_below` avoids them.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, CursorResult, TwoPhaseTransaction, text
from sqlalchemy.engine import Dialect as EngineDialect
from sqlalchemy.exc import DBAPIError

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import Parameters, Row
from cdc_outbox.databases.sql import NAMED, NUMBERED, PYFORMAT, PYFORMAT_CONSTANTS, ParameterStyle, numbered
from cdc_outbox.errors import OutboxError

_TEXT = ParameterStyle(":{}", special=":", escape="\\")
"""SQLAlchemy's own style, for drivers that are not known here."""
_STYLES = {
    **dict.fromkeys(("psycopg", "psycopg_async", "pymysql", "mysqldb", "aiomysql", "asyncmy"), PYFORMAT),
    "psycopg2": PYFORMAT_CONSTANTS,
    **dict.fromkeys(("pysqlite", "aiosqlite"), NAMED),
    "asyncpg": NUMBERED,
}
"""By SQLAlchemy's name of the driver."""

_DIALECTS = {
    "postgresql": Dialect.POSTGRESQL,
    "mysql": Dialect.MYSQL,
    "mariadb": Dialect.MYSQL,
    "sqlite": Dialect.SQLITE,
}

_PLAIN = {"stream_results": False, "yield_per": None}
"""What a user may have set on the engine or connection that has no place here: only a SELECT can be streamed."""
_UNPARAMETRIZED = {**_PLAIN, "no_parameters": True}


def known_dialect(dialect: EngineDialect) -> Dialect:
    """Return whose statements a database of this kind understands; raises OutboxError where it has no outbox."""
    if dialect.name not in _DIALECTS:
        raise OutboxError(
            f"{dialect.name} cannot have an outbox here", hint=f"Supported databases: {', '.join(sorted(_DIALECTS))}."
        )
    return _DIALECTS[dialect.name]


def refuse_two_phases(connection: Connection) -> None:
    """Raise OutboxError for an XA transaction: a connector publishes what it has prepared."""
    if isinstance(connection.get_transaction(), TwoPhaseTransaction):
        raise OutboxError(
            "the event would be published when the XA transaction is prepared, even if it is then rolled back",
            hint="Add events in a transaction of one phase: without `twophase=True` or `begin_twophase()`.",
        )


def style_of(engine: EngineDialect) -> ParameterStyle:
    """Return how statements for :func:`execute` name their parameters."""
    return _STYLES.get(engine.driver, _TEXT)


def execute(connection: Connection, sql: str, parameters: Parameters, style: ParameterStyle) -> CursorResult[Any]:
    """Execute a statement in the style of the connection's engine; without parameters nothing in the text is one."""
    if parameters is None:
        return connection.exec_driver_sql(sql, execution_options=_UNPARAMETRIZED)
    if style is _TEXT:
        return connection.execute(text(sql), parameters, execution_options=_PLAIN)
    if style is NUMBERED:
        return connection.exec_driver_sql(*_numbered(sql, parameters), _PLAIN)
    return connection.exec_driver_sql(sql, dict(parameters), _PLAIN)


def _numbered(sql: str, parameters: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]]:
    sql, names = numbered(sql)
    return sql, tuple([parameters[name] for name in names])


def fetched(result: CursorResult[Any]) -> list[Row]:
    """Return a result's rows from the driver's cursor, because SQLAlchemy's ``Row`` objects take longer."""
    if not result.returns_rows or result.cursor is None:
        return []
    rows = [tuple(row) for row in result.cursor.fetchall()]
    result.close()
    return rows


def may_fetch_below(connection: Connection, style: ParameterStyle) -> bool:
    """Return whether :func:`fetch_below` does what :func:`execute` would.

    It does not before SQLAlchemy has begun the transaction, and would hide the statement from a listener, such as a
    tracer, and from the engine's log.
    """
    if style is _TEXT or not connection.in_transaction():
        return False
    if getattr(connection, "_echo", True):
        return False
    # SQLAlchemy itself checks these attributes. If a version has other names for them, assume that there are listeners.
    listened_to = (connection, connection.engine, connection.dialect)
    return not any(getattr(each, "_has_events", True) for each in listened_to)


def fetch_below(connection: Connection, sql: str, parameters: Mapping[str, Any], style: ParameterStyle) -> list[Row]:
    """Execute a statement in the transaction of a connection, by the driver, and return the rows.

    An error leaves as SQLAlchemy would raise it, and a connection that broke or was interrupted is given up.
    """
    raw = connection.connection
    cursor = raw.cursor()
    try:
        cursor.execute(*(_numbered(sql, parameters) if style is NUMBERED else (sql, parameters)))
        return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
    except BaseException as error:
        dialect: Any = connection.dialect
        is_driver_error = isinstance(error, dialect.loaded_dbapi.Error)
        is_lost = dialect.is_disconnect(error, raw.dbapi_connection, cursor) if is_driver_error else False
        if is_lost or not isinstance(error, Exception):
            connection.invalidate(error)
        if not is_driver_error:
            raise
        raise DBAPIError.instance(
            sql,
            None,
            error,
            dialect.loaded_dbapi.Error,
            hide_parameters=True,  # the payload is among them
            connection_invalidated=is_lost,
            dialect=dialect,
        ) from error
    finally:
        with suppress(Exception):  # of a connection that broke
            cursor.close()
