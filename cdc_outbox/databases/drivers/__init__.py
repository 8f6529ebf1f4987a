"""The seam to database drivers: one thin file each, found by the type of the connection it is given."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import Enum, auto
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, Protocol, TypeAlias, runtime_checkable

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import sqlstate
from cdc_outbox.databases.sql import ParameterStyle
from cdc_outbox.errors import (
    CdcOutboxError,
    DatabaseError,
    DatabaseUnavailableError,
    OutboxError,
    TransactionConflictError,
)

AnyConnection: TypeAlias = Any
"""A connection of any database driver, or what holds one: a session, a cursor. Its driver knows its type."""
Parameters = Mapping[str, Any] | None
Row = tuple[Any, ...]
Fetch = Callable[[AnyConnection, str, Parameters], list[Row]]
AsyncFetch = Callable[[AnyConnection, str, Parameters], Awaitable[list[Row]]]

_DRIVERS = {
    "MySQLdb": "mysql",
    "asyncpg": "asyncpg",
    "django": "django",
    "psycopg": "psycopg",
    "psycopg2": "psycopg2",
    "pymysql": "mysql",
    "sqlalchemy": "sqlalchemy",
    "sqlite3": "sqlite3",
}
"""The package that a connection's class lives in → our module that knows it. Subclasses are found by their bases."""
ENTRY_POINTS = "cdc_outbox.drivers"
"""The group under which other packages register a driver: the name of the package that a connection's class lives in,
and a module with the functions ``find``, ``find_async`` and ``translate``, as the modules here have them, and perhaps
``sqlstate_of``."""


class TransactionState(Enum):
    """What became of the transaction that was begun on a connection, as far as the client knows."""

    OPEN = auto()
    """A transaction is open; whether it is still the same one, only the database can say."""
    ABORTED = auto()
    """A statement failed in it, so that nothing but a rollback can end it."""
    ENDED = auto()
    """None is open: it was committed or rolled back, or the connection was closed."""
    LOST = auto()
    """The connection broke, and the server undid it."""
    UNKNOWN = auto()
    """The client waits for an answer: the connection broke, or something was left open. ``resolved`` asks for it."""


class Driver(Protocol):
    """What a writer asks of a synchronous database driver.

    Every method works on a connection of the caller's and opens none. Errors of the database leave as
    :class:`~cdc_outbox.errors.DatabaseError` where an operator can do something about them, and as the driver's own
    otherwise; :func:`translated_for_caller` turns the rest into this package's.

    A driver may have five members more, which make a writer faster: :func:`serves_type`, :func:`serves`,
    :func:`runs_blocks`, :func:`joined` and :func:`often`.
    """

    dialect: Dialect
    style: ParameterStyle
    transaction_hint: str
    """One sentence for who is not in a transaction: how to open one."""

    def joins_transaction(self, connection: AnyConnection) -> bool:
        """Return whether what is executed next is ended by the caller's commit or rollback, and not at once."""

    def fetch(self, connection: AnyConnection, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute a statement and return its rows as plain tuples, an empty list where it returns none."""


@runtime_checkable
class TransactionDriver(Driver, Protocol):
    """What consumers and commands ask beside that: they open and end transactions of their own.

    A driver remembers what it began, so one object serves one connection from :meth:`prepare` to the last commit.
    """

    def prepare(self, connection: AnyConnection, *, idle_seconds: float) -> None:
        """Make the session's transactions READ COMMITTED, and let the server end one that idles for longer than this.

        Called once on a new connection, outside a transaction; where a pool stands behind the connection, its others
        are prepared when they come. MySQL bounds nothing (MariaDB does, in whole seconds), and SQLite neither isolates
        in another way nor has a server.

        Raises:
            ConfigError: The connection is set to another isolation level, or no server accepts the time limit.
            OutboxError: The connection already has a transaction.
        """

    def begin(self, connection: AnyConnection) -> None:
        """Open a transaction as the connection is configured to; one that has a transaction is refused.

        Until :meth:`commit` or :meth:`rollback` of the same object, the connection's own methods that would end it
        are refused where the driver can do that.

        Raises:
            OutboxError: The connection already has a transaction.
        """

    def state(self, connection: AnyConnection) -> TransactionState:
        """Return the state of the transaction without asking the server."""

    def flush(self, connection: AnyConnection) -> None:
        """Send what the connection holds back until its commit, as an ORM does; what fails now is the handler's."""

    def commit(self, connection: AnyConnection) -> None:
        """Commit, and return only if the server committed.

        Raises:
            TransactionAbortedError: A statement failed before: PostgreSQL answers COMMIT with ROLLBACK then, and
                psycopg says nothing of it.
            TransactionEndedError: There is nothing to commit any more.
        """

    def rollback(self, connection: AnyConnection) -> None:
        """Undo the transaction; send nothing if the connection broke or its state is unknown: the server undoes it."""


class AsyncDriver(Protocol):
    """What a writer asks of an asynchronous driver; the twin of :class:`Driver`.

    Where it is made of a synchronous one, it may have that as ``direct``, and a method ``run`` that calls a function
    with a connection for that one, and with further arguments: several calls at the price of one.
    """

    dialect: Dialect
    style: ParameterStyle
    transaction_hint: str

    async def joins_transaction(self, connection: AnyConnection) -> bool:
        """Return whether what is executed next is ended by the caller's commit or rollback, and not at once."""

    async def fetch(self, connection: AnyConnection, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute a statement and return its rows as plain tuples, an empty list where it returns none."""


@runtime_checkable
class AsyncTransactionDriver(AsyncDriver, Protocol):
    """The twin of :class:`TransactionDriver`, with the same promises; methods that only read memory are synchronous."""

    async def prepare(self, connection: AnyConnection, *, idle_seconds: float) -> None:
        """Make the session's transactions READ COMMITTED, and let the server end one that idles for longer."""

    async def begin(self, connection: AnyConnection) -> None:
        """Open a transaction as the connection is configured to; one that has a transaction is refused."""

    def state(self, connection: AnyConnection) -> TransactionState:
        """Return the state of the transaction without asking the server."""

    async def flush(self, connection: AnyConnection) -> None:
        """Send what the connection holds back until its commit, as an ORM does."""

    async def commit(self, connection: AnyConnection) -> None:
        """Commit, and return only if the server committed."""

    async def rollback(self, connection: AnyConnection) -> None:
        """Undo the transaction; on a broken connection do nothing, for the server has undone it."""


def find_driver(connection: object) -> Driver:
    """Return the driver for a connection, or for what holds one: a session, a cursor.

    Raises:
        OutboxError: No driver supports this type, or it is an asynchronous connection.
    """
    driver: Driver = _module(connection).find(connection)
    return driver


def find_async_driver(connection: object) -> AsyncDriver:
    """Return the driver for an asynchronous connection.

    Raises:
        OutboxError: No driver supports this type, or it is a synchronous connection.
    """
    driver: AsyncDriver = _module(connection).find_async(connection)
    return driver


def serves_type(driver: Driver | AsyncDriver) -> bool:
    """Return whether a driver that opens no transactions serves every connection of the type that it was found by."""
    return getattr(driver, "serves_type", False)


def serves(driver: Driver | AsyncDriver, connection: AnyConnection) -> bool:
    """Return whether a driver that opens no transactions serves this other connection of the type."""
    ask: Callable[[AnyConnection], bool] | None = getattr(driver, "serves", None)
    return serves_type(driver) if ask is None else ask(connection)


def runs_blocks(driver: Driver | AsyncDriver, connection: AnyConnection) -> bool:
    """Return whether a connection's server executes several statements that are sent as its dialect's ``block``."""
    ask: Callable[[AnyConnection], bool] | None = getattr(driver, "runs_blocks", None)
    return ask is not None and ask(connection)


def joined(driver: Driver) -> Callable[[AnyConnection], AnyConnection | None]:
    """Return the function that finds the connection of the caller's transaction; it returns ``None`` without one."""
    return getattr(driver, "joined", lambda connection: connection if driver.joins_transaction(connection) else None)


def often(driver: Driver) -> Fetch:
    """Return what executes a statement that is executed for every event, with the parameters of one."""
    fetch: Fetch = getattr(driver, "fetch_often", driver.fetch)
    return fetch


def often_awaited(driver: AsyncDriver) -> AsyncFetch:
    """Return what :func:`often` returns, of an asynchronous driver."""
    fetch: AsyncFetch = getattr(driver, "fetch_often", driver.fetch)
    return fetch


def find_transaction_driver(connection: object) -> TransactionDriver:
    """Return the driver for a connection whose transactions this package opens and ends.

    Raises:
        OutboxError: No driver supports this type, or its driver can only join transactions.
    """
    driver = find_driver(connection)
    if not isinstance(driver, TransactionDriver):
        raise _joins_only(connection, "a connection of psycopg, psycopg2, PyMySQL, sqlite3, SQLAlchemy or Django")
    return driver


def find_async_transaction_driver(connection: object) -> AsyncTransactionDriver:
    """Return the driver for an asynchronous connection whose transactions this package opens and ends.

    Raises:
        OutboxError: No driver supports this type, or its driver can only join transactions.
    """
    driver = find_async_driver(connection)
    if not isinstance(driver, AsyncTransactionDriver):
        raise _joins_only(connection, "an asynchronous connection of psycopg, asyncpg or SQLAlchemy")
    return driver


def translate(error: BaseException) -> DatabaseError | None:
    """Return our error for a driver's, ``None`` where the driver is unknown or an operator can do nothing."""
    module = _find_module(type(error))
    translated: DatabaseError | None = module.translate(error) if module else None
    return translated


def is_of_driver(error: BaseException) -> bool:
    """Return whether an error is of a kind that a database's driver raises, or a framework that stands on one."""
    return _find_module(type(error)) is not None


def sqlstate_of(error: BaseException) -> str:
    """Return PostgreSQL's code for a driver's error: the server's own, or the one that fits; empty where none does."""
    find: Callable[[BaseException], str] | None = getattr(_find_module(type(error)), "sqlstate_of", None)
    return find(error) if find else str(getattr(error, "sqlstate", None) or "")


def database_error(error: BaseException) -> DatabaseError | None:
    """Return our error for any of a driver's; ``None`` for our own errors, an interruption or a bug."""
    if isinstance(error, TimeoutError):  # asyncpg's ``command_timeout``
        return TransactionConflictError("the server did not answer within the connection's time limit")
    if isinstance(error, ConnectionError):  # the socket's own, which SQLAlchemy lets pass under asyncpg
        return DatabaseUnavailableError("the connection broke")
    if not is_of_driver(error):
        return None
    return translate(error) or sqlstate.describe(sqlstate_of(error), type(error).__name__)


class Translation(AbstractContextManager[None]):
    """A block that raises our errors for others. It has no state, so that each statement enters the same object.

    Args:
        ours_of: Returns our error for another; ``None`` lets it pass.
    """

    def __init__(self, ours_of: Callable[[BaseException], DatabaseError | None]) -> None:
        self._ours_of = ours_of

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise our error from the other one."""
        if isinstance(error, Exception):
            sqlstate.raise_ours(self._ours_of(error), error)


def translated_for_caller() -> AbstractContextManager[None]:
    """Translate every error of a driver, where our statements run in a transaction of the caller's."""
    return _FOR_CALLER


def translated() -> AbstractContextManager[None]:
    """Translate errors that an operator can resolve; :func:`translated_for_caller` translates the rest."""
    return _FOR_OPERATOR


def _for_an_operator(error: BaseException) -> DatabaseError | None:
    ours = translate(error)
    return None if isinstance(ours, TransactionConflictError) else ours


_FOR_CALLER, _FOR_OPERATOR = Translation(database_error), Translation(_for_an_operator)


@contextmanager
def translated_for_operator(hints: Mapping[str, str] | None = None) -> Iterator[None]:
    """Translate every error with an SQLSTATE, conflicts too: no caller retries on the driver's own error.

    Args:
        hints: What to do, by SQLSTATE, about errors that have no class of their own.
    """
    try:
        yield
    except CdcOutboxError:
        raise
    except Exception as error:
        code = getattr(error, "sqlstate", None)
        if not code:
            raise
        message, hint = str(error).partition("\n")[0], (hints or {}).get(code)
        raise translate(error) or DatabaseError(message, sqlstate=code, hint=hint) from error


def as_texts(rows: Iterable[Row]) -> list[Row]:
    """Return rows with text instead of bytes, which a connection may be set to return.

    A parked message, or an adopted table's id, may be bytes that are no text; they stay.
    """
    return [tuple(map(_text, row)) if bytes in map(type, row) else row for row in rows]


def _text(value: object) -> Any:  # noqa: ANN401 - any column's
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return value


def wrong_kind(connection: object, *, asynchronous: bool) -> OutboxError:
    """Return the error of a driver that knows the package but not this object."""
    wanted = "an asynchronous" if asynchronous else "a synchronous"
    return OutboxError(
        f"{_name(type(connection))} is not {wanted} connection",
        hint="Outbox takes synchronous connections, AsyncOutbox asynchronous ones; get a connection from a pool first.",
    )


def _joins_only(connection: object, others: str) -> OutboxError:
    name = _name(type(connection))
    return OutboxError(f"only the methods of a {name} can open its transactions", hint=f"Pass {others}.")


def _module(connection: object) -> ModuleType:
    module = _find_module(type(connection))
    if module is None:
        raise OutboxError(
            f"{_name(type(connection))} is not a supported connection",
            hint=f"Pass a connection of {', '.join(sorted({*_DRIVERS, *_registered()}))}.",
        )
    return module


def _find_module(kind: type) -> ModuleType | None:
    for ancestor in kind.__mro__:
        module = _load(ancestor.__module__.partition(".")[0])
        if module is not None:
            return module
    return None


@cache
def _load(package: str) -> ModuleType | None:
    """Return the driver's module for a package, if there is one."""
    if package in _DRIVERS:
        return import_module(f"cdc_outbox.databases.drivers.{_DRIVERS[package]}")
    return import_module(_registered()[package].value) if package in _registered() else None


@cache
def _registered() -> Mapping[str, EntryPoint]:
    """Return the drivers that other packages brought."""
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
