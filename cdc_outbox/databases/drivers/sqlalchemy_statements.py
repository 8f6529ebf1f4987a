"""Our statements on a connection of SQLAlchemy's, written as the driver below it reads them.

SQLAlchemy would translate its own style at each execution, which costs as much as all else about an event.
"""

from typing import Any

from sqlalchemy import Connection, CursorResult, text
from sqlalchemy.engine import Dialect as EngineDialect

from cdc_outbox.databases.drivers import Parameters
from cdc_outbox.databases.sql import NAMED, NUMBERED, PYFORMAT, ParameterStyle, numbered

_TEXT = ParameterStyle(":{}", special=":", escape="\\")
"""SQLAlchemy's own style, for drivers that are not known here."""
_STYLES = {
    **dict.fromkeys(("psycopg", "psycopg_async", "psycopg2", "pymysql", "mysqldb", "aiomysql", "asyncmy"), PYFORMAT),
    **dict.fromkeys(("pysqlite", "aiosqlite"), NAMED),
    "asyncpg": NUMBERED,
}
"""By SQLAlchemy's name of the driver."""

_PLAIN = {"stream_results": False, "yield_per": None}
"""What a user may have set on the engine or connection that has no place here: only a SELECT can be streamed."""
_UNPARAMETRIZED = {**_PLAIN, "no_parameters": True}


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
        sql, names = numbered(sql)
        return connection.exec_driver_sql(sql, tuple([parameters[name] for name in names]), _PLAIN)
    return connection.exec_driver_sql(sql, dict(parameters), _PLAIN)
