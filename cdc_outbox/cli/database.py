"""The database, as the commands reach it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cdc_outbox.errors import OutboxError

if TYPE_CHECKING:
    from cdc_outbox.drivers.psycopg import Psycopg


@contextmanager
def connected(dsn: str) -> "Iterator[tuple[Any, Psycopg]]":
    """Open a connection in autocommit mode; its driver is imported no sooner, for most commands do without.

    Raises:
        ConfigError: The DSN cannot be read.
        OutboxError: The driver is not installed.
        DatabaseError: The database is not to be had.
    """
    try:
        from cdc_outbox.drivers import psycopg  # noqa: PLC0415
    except ImportError as error:  # of the package, or of the libpq that it needs
        raise OutboxError(
            f"this command needs the package {error.name or 'psycopg'}",
            hint="Install it with `pip install 'cdc-outbox[postgres]'`.",
        ) from error
    with psycopg.connect(dsn) as connection:
        yield connection, psycopg.Psycopg()
