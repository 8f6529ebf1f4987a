"""The database, as the commands reach it."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver, find_transaction_driver, translate
from cdc_outbox.databases.drivers.sqlstate import raise_ours
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.errors import CdcOutboxError, ConfigError, OutboxError, TransactionConflictError

_SCHEMES = {scheme: dialect for dialect in Dialect for scheme in dialect.features.schemes}


@contextmanager
def connected(
    dsn: str, kind: DatabaseKind | None = None, *, spec: Path | None = None
) -> Iterator[tuple[Any, TransactionDriver]]:
    """Open a connection in autocommit mode; its driver is imported no sooner, for most commands do without.

    Nothing here tries again, so conflicts are translated too.

    Args:
        kind: What the database must be; ``None`` takes any.
        spec: Which file wants it so, where there may be several.

    Raises:
        ConfigError: The DSN cannot be read, or leads to a database of another kind.
        OutboxError: The driver is not installed.
        DatabaseError: The database is not to be had, or refused.
    """
    dialect = dialect_of(dsn)
    if kind is not None and kind.dialect is not dialect:
        asked_by = "" if spec is None else f"{spec}: "
        found, wanted = dialect.features.title, kind.dialect.features.title
        raise ConfigError(
            f"{asked_by}the DSN leads to {found}, but {wanted} is required",
            field="--dsn",
            hint="Correct the DSN, or database.kind in the spec.",
        )
    with closing(_open(dsn, dialect)) as connection:
        try:
            yield connection, find_transaction_driver(connection)
        except Exception as error:
            raise_ours(_translated(error), error)
            raise


def _translated(error: Exception) -> CdcOutboxError | None:
    ours = translate(error)
    if isinstance(ours, TransactionConflictError):
        ours.hint = "Another transaction blocked this one; run the command again when it has ended."
    return ours


def require_driver(dsn: str) -> None:
    """Refuse before anything else is asked where the driver is not installed that opens this database.

    PyMySQL is found missing when a connection is opened: its module here is mysqlclient's too.

    Raises:
        ConfigError: The DSN cannot be read.
        OutboxError: The driver is not installed.
    """
    with _driver_of(dialect_of(dsn)):
        pass


def database_name(connection: AnyConnection, driver: TransactionDriver, dsn: str) -> str:
    """Return what people call the database that a connection leads to: its name, or its file."""
    return Catalog(connection, driver).find_database() or dsn.removeprefix("sqlite:///")


def dialect_of(dsn: str) -> Dialect:
    """Return what a DSN leads to, by its scheme; one without is libpq's ``host=… dbname=…``.

    Raises:
        ConfigError: The scheme is not known.
    """
    found = re.match(r"([a-z][a-z0-9+.]*)://", dsn, re.IGNORECASE)
    if found is None:
        return Dialect.POSTGRESQL
    scheme, plus, _ = found[1].lower().partition("+")
    if plus or scheme not in _SCHEMES:
        known = ", ".join(f"{name}://" for name in sorted(_SCHEMES))
        hint = f"Write {scheme}://, without a driver." if scheme in _SCHEMES else f"Known are {known}."
        raise ConfigError(f"a DSN cannot begin with {found[0]}", field="--dsn", hint=hint)
    return _SCHEMES[scheme]


def _open(dsn: str, dialect: Dialect) -> AnyConnection:
    with _driver_of(dialect) as driver:
        return driver.connect(dsn)


@contextmanager
def _driver_of(dialect: Dialect) -> Iterator[Any]:
    module, extra = dialect.features.driver, dialect.features.extra
    try:
        yield import_module(f"cdc_outbox.databases.drivers.{module}")
    except ImportError as error:  # of the package, or of the libpq that it needs
        raise OutboxError(
            f"this command needs the package {error.name or module}",
            hint=f"Install it with `pip install 'cdc-outbox[{extra}]'`.",
        ) from error
