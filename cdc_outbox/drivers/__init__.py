"""The seam to database drivers: one thin file each, found by the type of the connection it is given."""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

from cdc_outbox.errors import DatabaseError, OutboxError

Parameters = Mapping[str, Any] | None
Row = tuple[Any, ...]

_DRIVERS = {"psycopg": "cdc_outbox.drivers.psycopg"}
"""The package that a connection's class lives in → the module that knows it."""


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
        """Open a transaction; a connection that has one already is refused with an OutboxError."""

    def is_aborted(self, connection: Any) -> bool:  # noqa: ANN401
        """Tell whether a statement failed in the transaction, so that nothing but a rollback can end it."""

    def commit(self, connection: Any) -> None:  # noqa: ANN401
        """Commit, and return only if the server said that it committed.

        PostgreSQL answers COMMIT with ROLLBACK when a statement failed before, and psycopg says nothing of it.
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
