"""The database, as the commands reach it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from cdc_outbox.drivers import translate
from cdc_outbox.errors import OutboxError, TransactionConflictError

if TYPE_CHECKING:
    from cdc_outbox.drivers.psycopg import Psycopg


@contextmanager
def connected(dsn: str) -> "Iterator[tuple[Any, Psycopg]]":
    """Open a connection in autocommit mode; its driver is imported no sooner, for most commands do without.

    Nobody here tries again, so conflicts become ours too.

    Raises:
        ConfigError: The DSN cannot be read.
        OutboxError: The driver is not installed.
        DatabaseError: The database is not to be had, or refused.
    """
    try:
        from cdc_outbox.drivers import psycopg  # noqa: PLC0415
    except ImportError as error:  # of the package, or of the libpq that it needs
        raise OutboxError(
            f"this command needs the package {error.name or 'psycopg'}",
            hint="Install it with `pip install 'cdc-outbox[postgres]'`.",
        ) from error
    with psycopg.connect(dsn) as connection:
        try:
            yield connection, psycopg.Psycopg()
        except Exception as error:
            ours = translate(error)
            if ours is None:
                raise
            if isinstance(ours, TransactionConflictError):
                ours.hint = "Another transaction was in the way; run the command again when it has ended."
            raise ours from error
