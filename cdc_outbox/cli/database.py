"""The database, as the commands reach it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from cdc_outbox.drivers import mysql, translate
from cdc_outbox.drivers.mysql import PyMySql
from cdc_outbox.errors import ConfigError, OutboxError, TransactionConflictError

if TYPE_CHECKING:
    from cdc_outbox.drivers.psycopg import Psycopg

_MYSQL = ("mysql://", "mariadb://")


@contextmanager
def connected(dsn: str) -> "Iterator[tuple[Any, Psycopg]]":
    """Open a connection to PostgreSQL in autocommit mode; its driver is imported no sooner, for most do without.

    Nobody here tries again, so conflicts become ours too.

    Raises:
        ConfigError: The DSN cannot be read.
        OutboxError: The driver is not installed.
        DatabaseError: The database is not to be had, or refused.
    """
    with _missing_package("psycopg", extra="postgres"):
        from cdc_outbox.drivers import psycopg  # noqa: PLC0415
    with psycopg.connect(dsn) as connection, _translated():
        yield connection, psycopg.Psycopg()


@contextmanager
def connected_to_mysql(dsn: str) -> "Iterator[tuple[Any, PyMySql]]":
    """Open a connection to MariaDB or MySQL; raises what :func:`connected` raises."""
    if not dsn.startswith(_MYSQL):
        raise ConfigError(
            "the spec's database is MariaDB or MySQL, and the DSN is none of theirs",
            field="--dsn",
            hint="Write mysql://user:password@host:port/database.",
        )
    with _missing_package("pymysql", extra="mysql"):
        driver = mysql.PyMySql("pymysql")
    with closing(mysql.connect(dsn)) as connection, _translated():
        yield connection, driver


@contextmanager
def _missing_package(package: str, *, extra: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:  # of the package, or of what it needs
        raise OutboxError(
            f"this command needs the package {error.name or package}",
            hint=f"Install it with `pip install 'cdc-outbox[{extra}]'`.",
        ) from error


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        ours = translate(error)
        if ours is None:
            raise
        if isinstance(ours, TransactionConflictError):
            ours.hint = "Another transaction was in the way; run the command again when it has ended."
        raise ours from error
