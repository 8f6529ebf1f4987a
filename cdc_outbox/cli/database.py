"""The database, as the commands reach it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cdc_outbox.drivers import psycopg, translate
from cdc_outbox.errors import TransactionConflictError


@contextmanager
def connected(dsn: str) -> Iterator[tuple[Any, psycopg.Psycopg]]:
    """Open a connection in autocommit mode; nobody here tries again, so conflicts become ours too.

    Raises:
        ConfigError: The DSN cannot be read.
        DatabaseError: The database is not to be had, or refused.
    """
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
