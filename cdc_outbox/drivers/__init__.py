"""The seam to database drivers: one thin file each, found by the type of the connection it is given."""

from collections.abc import Mapping
from enum import Enum, auto
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

from cdc_outbox.errors import DatabaseError, OutboxError

Parameters = Mapping[str, Any] | None
Row = tuple[Any, ...]

_DRIVERS = {"psycopg": "cdc_outbox.drivers.psycopg"}
"""The package that a connection's class lives in → the module that knows it."""


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


class Driver(Protocol):
    """What writer and consumer ask of a synchronous database driver.

    Every method works on a connection of the caller's and opens none. Errors of the database leave as
    :class:`~cdc_outbox.errors.DatabaseError` where an operator can do something about them, and as the driver's own
    otherwise, so that the caller's handling of them keeps working.
    """

    dialect: str
    """The folder of ``sql/`` that this database understands."""

    def parameter(self, name: str) -> str:
        """Return how a statement refers to the parameter ``name``."""

    def joins_transaction(self, connection: Any) -> bool:  # noqa: ANN401 - the driver knows its own type
        """Tell whether what is executed next is ended by the caller's commit or rollback, and not at once."""

    def fetch(self, connection: Any, sql: str, parameters: Parameters = None) -> list[Row]:  # noqa: ANN401
        """Execute a statement and return its rows as plain tuples, an empty list where it returns none."""

    def begin(self, connection: Any) -> None:  # noqa: ANN401
        """Open a transaction as the connection is configured to; one that has a transaction is refused.

        Until :meth:`commit` or :meth:`rollback` of the same object, the connection's own methods that would end it
        are refused where the driver can do that.

        Raises:
            OutboxError: The connection has a transaction already.
        """

    def state(self, connection: Any) -> TransactionState:  # noqa: ANN401
        """Tell what became of the transaction, without asking the server."""

    def commit(self, connection: Any) -> None:  # noqa: ANN401
        """Commit, and return only if the server committed.

        Raises:
            TransactionAbortedError: A statement failed before: PostgreSQL answers COMMIT with ROLLBACK then, and
                psycopg says nothing of it.
            TransactionEndedError: There is nothing to commit any more.
        """

    def rollback(self, connection: Any) -> None:  # noqa: ANN401
        """Undo the transaction; on a broken connection do nothing, for the server has undone it."""


class AsyncDriver(Protocol):
    """What the writer asks of an asynchronous driver; the twin of :class:`Driver`."""

    dialect: str

    def parameter(self, name: str) -> str:
        """Return how a statement refers to the parameter ``name``."""

    def joins_transaction(self, connection: Any) -> bool:  # noqa: ANN401
        """Tell whether what is executed next is ended by the caller's commit or rollback, and not at once."""

    async def fetch(self, connection: Any, sql: str, parameters: Parameters = None) -> list[Row]:  # noqa: ANN401
        """Execute a statement and return its rows as plain tuples, an empty list where it returns none."""


def find_driver(connection: object) -> Driver:
    """Return the driver for a connection.

    Raises:
        OutboxError: Nobody knows this type, or it is an asynchronous connection.
    """
    driver: Driver = _module(connection).find(connection)
    return driver


def find_async_driver(connection: object) -> AsyncDriver:
    """Return the driver for an asynchronous connection.

    Raises:
        OutboxError: Nobody knows this type, or it is a synchronous connection.
    """
    driver: AsyncDriver = _module(connection).find_async(connection)
    return driver


def translate(error: BaseException) -> DatabaseError | None:
    """Return our error for a driver's, ``None`` where the driver is unknown or an operator can do nothing."""
    module = _find_module(type(error))
    translated: DatabaseError | None = module.translate(error) if module else None
    return translated


def _module(connection: object) -> ModuleType:
    kind = type(connection)
    module = _find_module(kind)
    if module is None:
        raise OutboxError(
            f"{kind.__module__}.{kind.__qualname__} is not a connection that is known here",
            hint=f"Pass a connection of {', '.join(_DRIVERS)}.",
        )
    return module


def _find_module(kind: type) -> ModuleType | None:
    for ancestor in kind.__mro__:
        module = _DRIVERS.get(ancestor.__module__.partition(".")[0])
        if module:
            return import_module(module)
    return None
