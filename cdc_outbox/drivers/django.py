"""Django's database connections: ``connections["orders"]``, and the default one, ``django.db.connection``.

The outbox's table must be in the database of that alias, or the event would not share the fate of the business data:
a database router is not asked.
"""

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.utils import Error
from django.utils.connection import ConnectionProxy

from cdc_outbox import drivers
from cdc_outbox.drivers import AsyncDriver, Driver, Parameters, Row, translated, wrong_kind
from cdc_outbox.errors import DatabaseError, OutboxError
from cdc_outbox.sql import PYFORMAT
from cdc_outbox.table import Dialect

_DIALECTS = {
    "postgresql": Dialect.POSTGRESQL,
    "mysql": Dialect.MYSQL,
    "sqlite": Dialect.SQLITE,
}
"""By Django's word for the vendor; MariaDB's is mysql too."""


def translate(error: BaseException) -> DatabaseError | None:
    """Return our error for the one that Django wrapped, by the table of the driver that raised it."""
    if not isinstance(error, Error) or error.__cause__ is None:
        return None
    return drivers.translate(error.__cause__)


class Django:
    """The driver, for one vendor."""

    style = PYFORMAT
    transaction_hint = (
        "Open a transaction first, with Django `with transaction.atomic(using=alias):`, and add the event inside it."
    )

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def joins_transaction(self, connection: Any) -> bool:  # noqa: ANN401 - a connection, or a proxy of one
        """Ask Django, which is told of every transaction that it is to leave alone; opens the connection if need be."""
        with translated():
            return bool(connection.in_atomic_block or not connection.get_autocommit())

    def fetch(self, connection: Any, sql: str, parameters: Parameters = None) -> list[Row]:  # noqa: ANN401
        """Execute and fetch on a cursor of Django's, which takes one style of parameters everywhere."""
        with translated(), connection.cursor() as cursor:
            cursor.execute(sql, None if parameters is None else dict(parameters))
            return list(map(tuple, cursor.fetchall())) if cursor.description else []


def find(place: object) -> Driver:
    """Return the driver for a connection, or for the proxy that stands for each thread's own."""
    # Caches have proxies too, and no vendor.
    vendor = getattr(place, "vendor", None) if isinstance(place, BaseDatabaseWrapper | ConnectionProxy) else None
    if vendor is None:
        raise wrong_kind(place, asynchronous=False)
    if vendor not in _DRIVERS:
        raise OutboxError(
            f"{vendor} has no outbox here", hint=f"Databases that have one are {', '.join(sorted(_DRIVERS))}."
        )
    return _DRIVERS[vendor]


def find_async(place: object) -> AsyncDriver:
    """Refuse: Django's connections are synchronous, also under its asynchronous views."""
    raise wrong_kind(place, asynchronous=True)


_DRIVERS = {vendor: Django(dialect) for vendor, dialect in _DIALECTS.items()}
