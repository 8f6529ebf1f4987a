"""asyncpg."""

from functools import lru_cache
from typing import TypeAlias

from asyncpg import Connection, InterfaceError, PostgresError, Record
from asyncpg.pool import PoolConnectionProxy

from cdc_outbox.drivers import AsyncDriver, Driver, Parameters, Row, sqlstate, translated, wrong_kind
from cdc_outbox.errors import DatabaseError, DatabaseUnavailableError
from cdc_outbox.sql import ParameterStyle
from cdc_outbox.table import Dialect

Place: TypeAlias = "Connection[Record] | PoolConnectionProxy[Record]"  # generic in the stubs only

_MARK = "\0"
"""Stands around a parameter's name until it gets its number. No identifier holds it, so none need be escaped."""


class Asyncpg:
    """The driver, for connections and what a pool lends."""

    dialect = Dialect.POSTGRESQL
    style = ParameterStyle(f"{_MARK}{{}}{_MARK}")
    transaction_hint = (
        "Open a transaction first, with asyncpg `async with connection.transaction():`, and add the event inside it."
    )

    async def joins_transaction(self, place: Place) -> bool:
        """Ask the protocol, which knows from the server's last answer; asyncpg opens nothing by itself."""
        return place.is_in_transaction()

    async def fetch(self, place: Place, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch; the user's class of records must not reach our rows."""
        numbered, names = _number(sql)
        values = parameters or {}
        with translated():
            try:
                rows = await place.fetch(numbered, *(values[name] for name in names), record_class=Record)
            except InterfaceError as error:
                if place.is_closed():  # asyncpg has no code for it
                    raise DatabaseUnavailableError(str(error)) from error
                raise
        return [tuple(row) for row in rows]


def find(place: object) -> Driver:
    """Refuse: asyncpg has asynchronous connections only."""
    raise wrong_kind(place, asynchronous=False)


def find_async(place: object) -> AsyncDriver:
    """Return the driver for a connection."""
    if isinstance(place, Connection | PoolConnectionProxy):
        return _DRIVER
    raise wrong_kind(place, asynchronous=True)


def translate(error: BaseException) -> DatabaseError | None:
    """Return our error for one of asyncpg's, ``None`` where an operator can do nothing about it."""
    if not isinstance(error, PostgresError) or not error.sqlstate:
        return None
    return sqlstate.translate(error.sqlstate, str(error.args[0]) if error.args else type(error).__name__)


_DRIVER = Asyncpg()


@lru_cache(maxsize=1000)
def _number(sql: str) -> tuple[str, tuple[str, ...]]:
    """Return the statement with ``$1``, ``$2`` … in it, and whose number is whose; a name has one, however often."""
    parts = sql.split(_MARK)
    names = tuple(dict.fromkeys(parts[1::2]))
    numbers = {name: f"${number}" for number, name in enumerate(names, start=1)}
    parts[1::2] = [numbers[name] for name in parts[1::2]]
    return "".join(parts), names
