"""psycopg2."""

from typing import Any

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_IDLE, TRANSACTION_STATUS_INERROR, TRANSACTION_STATUS_INTRANS
from psycopg2.extensions import connection as Connection  # noqa: N812 - it is a class
from psycopg2.extensions import cursor as Cursor  # noqa: N812 - it is a class

from cdc_outbox.drivers import AsyncDriver, Driver, Parameters, Row, sqlstate, translated, wrong_kind
from cdc_outbox.errors import DatabaseError, DatabaseUnavailableError
from cdc_outbox.sql import PYFORMAT
from cdc_outbox.table import Dialect

Place = Connection | Cursor


class Psycopg2:
    """The driver, for connections and cursors."""

    dialect = Dialect.POSTGRESQL
    style = PYFORMAT
    transaction_hint = "Open a transaction first, with psycopg2 `with connection:`, and add the event inside it."

    def joins_transaction(self, place: Place) -> bool:
        """Ask libpq; see :class:`~cdc_outbox.drivers.Driver`."""
        connection = _connection(place)
        if not connection.autocommit:
            return True
        if connection.get_transaction_status() == TRANSACTION_STATUS_IDLE:
            # `with connection:` opens a transaction in autocommit mode too, but at the first statement, and keeps to
            # itself that it will. So there is a first statement.
            self.fetch(place, "select 1")
        return connection.get_transaction_status() in {TRANSACTION_STATUS_INTRANS, TRANSACTION_STATUS_INERROR}

    def fetch(self, place: Place, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute and fetch on a cursor of our own: the user's factories must not reach our rows."""
        with translated(), Cursor(_connection(place)) as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall() if cursor.description else []


def find(place: object) -> Driver:
    """Return the driver for a connection or cursor."""
    # psycopg2's own asynchronous mode answers before the server does.
    if isinstance(place, Connection | Cursor) and not _connection(place).async_:
        return _DRIVER
    raise wrong_kind(place, asynchronous=False)


def find_async(place: object) -> AsyncDriver:
    """Refuse: asyncio and psycopg2 do not go together."""
    raise wrong_kind(place, asynchronous=True)


def translate(error: BaseException) -> DatabaseError | None:
    """Return our error for one of psycopg2's, ``None`` where an operator can do nothing about it."""
    if not isinstance(error, psycopg2.Error):
        return None
    message = error.diag.message_primary or " ".join(str(error).split())
    if error.pgcode:
        return sqlstate.translate(error.pgcode, message)
    # libpq lost the server, or never reached it.
    return DatabaseUnavailableError(message) if isinstance(error, psycopg2.OperationalError) else None


_DRIVER = Psycopg2()


def _connection(place: Place) -> Any:  # noqa: ANN401 - its stubs miss some of what it has
    return place.connection if isinstance(place, Cursor) else place
