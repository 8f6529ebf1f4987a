"""SQLAlchemy 2: sessions and connections, their asynchronous twins, and what is built on them, such as SQLModel's."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import Connection, TextClause, text
from sqlalchemy.engine import AdaptedConnection
from sqlalchemy.engine import Dialect as EngineDialect
from sqlalchemy.exc import DBAPIError, StatementError, UnboundExecutionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from cdc_outbox import drivers
from cdc_outbox.drivers import AsyncDriver, Driver, Parameters, Row, translated, wrong_kind
from cdc_outbox.errors import DatabaseError, DatabaseUnavailableError, OutboxError
from cdc_outbox.sql import ParameterStyle
from cdc_outbox.table import Dialect

Place = Connection | Session | scoped_session[Any]
AsyncPlace = AsyncConnection | AsyncSession | async_scoped_session[Any]
Result = TypeVar("Result")

_DIALECTS = {
    "postgresql": Dialect.POSTGRESQL,
    "mysql": Dialect.MYSQL,
    "mariadb": Dialect.MYSQL,
    "sqlite": Dialect.SQLITE,
}

_PLAIN = {"stream_results": False, "yield_per": None}
"""What a user may have set on the engine or connection that has no place here: only a SELECT can be streamed."""


class _SqlAlchemy:
    style = ParameterStyle(":{}", special=":", escape="\\")
    transaction_hint = (
        "Use an engine, connection or session whose isolation level is not AUTOCOMMIT, and open the transaction "
        "with SQLAlchemy `with session.begin():`."
    )

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect


class SqlAlchemy(_SqlAlchemy):
    """The synchronous driver. It works on the session's connection and never sees a mapped object, nor a flush."""

    def joins_transaction(self, place: Place) -> bool:
        """Ask the database's driver; see :class:`~cdc_outbox.drivers.Driver`.

        ``in_transaction()`` is true under AUTOCOMMIT as well, where every statement commits itself.
        """
        session = _called(place)
        if isinstance(session, Session) and not (session.autobegin or session.in_transaction()):
            return False
        with translated():
            try:
                connection = _connection(place)  # a session may open it only now
            except OSError as error:  # asyncpg lets the socket's own pass
                raise DatabaseUnavailableError(str(error)) from error
            raw: Any = connection.connection.dbapi_connection
            return not connection.dialect.detect_autocommit_setting(raw) or _has_transaction(raw)

    def fetch(self, place: Place, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch on the connection; without parameters nothing in the text is one."""
        with translated():
            try:
                connection = _connection(place)
                if parameters is None:
                    result = connection.exec_driver_sql(sql, execution_options={**_PLAIN, "no_parameters": True})
                else:
                    result = connection.execute(_text(sql), parameters, execution_options=_PLAIN)
            except StatementError as error:
                error.hide_parameters = True  # the payload is among them
                raise
            return [tuple(row) for row in result] if result.returns_rows else []


class AsyncSqlAlchemy(_SqlAlchemy):
    """The asynchronous driver: the synchronous one, run where SQLAlchemy runs its own."""

    def __init__(self, dialect: Dialect) -> None:
        super().__init__(dialect)
        self._driver = SqlAlchemy(dialect)

    async def joins_transaction(self, place: AsyncPlace) -> bool:
        """Ask as the twin does."""
        return await _run(place, self._driver.joins_transaction)

    async def fetch(self, place: AsyncPlace, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch as the twin does."""
        return await _run(place, self._driver.fetch, sql, parameters)


def find(place: object) -> Driver:
    """Return the driver for a session or connection."""
    if not isinstance(place, Connection | Session | scoped_session):
        raise wrong_kind(place, asynchronous=False)
    return _SYNC[_dialect(place)]


def find_async(place: object) -> AsyncDriver:
    """Return the driver for an asynchronous session or connection."""
    if isinstance(place, AsyncConnection):
        return _ASYNC[known_dialect(place.engine.dialect)]
    if isinstance(place, AsyncSession | async_scoped_session):
        return _ASYNC[_dialect(_called(place).sync_session)]
    raise wrong_kind(place, asynchronous=True)


def known_dialect(dialect: EngineDialect) -> Dialect:
    """Return whose statements a database of this kind understands; raises OutboxError where it has no outbox."""
    if dialect.name not in _DIALECTS:
        raise OutboxError(
            f"{dialect.name} has no outbox here", hint=f"Databases that have one are {', '.join(sorted(_DIALECTS))}."
        )
    return _DIALECTS[dialect.name]


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


_SYNC = {dialect: SqlAlchemy(dialect) for dialect in Dialect}
_ASYNC = {dialect: AsyncSqlAlchemy(dialect) for dialect in Dialect}


def _called(place: Any) -> Any:  # noqa: ANN401 - each kind yields its own
    """Return the session that a registry of sessions has for this thread or task."""
    return place() if isinstance(place, scoped_session | async_scoped_session) else place


def _connection(place: Place) -> Connection:
    return place if isinstance(place, Connection) else place.connection()


def _dialect(place: Place) -> Dialect:
    try:
        return known_dialect(place.dialect if isinstance(place, Connection) else place.get_bind().dialect)
    except UnboundExecutionError as error:
        raise OutboxError(
            "the session has no engine, or several, and nothing says which one has the outbox",
            hint='Pass its connection: `session.connection(bind_arguments={"mapper": Order})`.',
        ) from error


def _has_transaction(raw: Any) -> bool:  # noqa: ANN401 - any driver's connection
    """Tell whether somebody opened a transaction by statement, as is usual with SQLite."""
    try:
        if isinstance(raw, AdaptedConnection):
            return raw.run_async(drivers.find_async_driver(raw.driver_connection).joins_transaction)
        return drivers.find_driver(raw).joins_transaction(raw)
    except OutboxError:  # a driver that nobody knows here: what SQLAlchemy says of it must do
        return False


async def _run(place: AsyncPlace, function: Callable[..., Result], *arguments: object) -> Result:
    result: Result = await _called(place).run_sync(function, *arguments)
    return result


@lru_cache(maxsize=1000)
def _text(sql: str) -> TextClause:
    return text(sql)
