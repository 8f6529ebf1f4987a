"""What drivers that open and end transactions have in common."""

import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import (
    AnyConnection,
    AsyncTransactionDriver,
    TransactionDriver,
    TransactionState,
    find_async_driver,
    find_driver,
)
from cdc_outbox.databases.sql import load
from cdc_outbox.errors import (
    ConfigError,
    DatabaseUnavailableError,
    OutboxError,
    TransactionAbortedError,
    TransactionEndedError,
)

_MAX_IDLE_SECONDS = 86_400
"""What idles in a transaction for a day is forgotten; every server takes as much."""
UNUSABLE = {TransactionState.LOST, TransactionState.UNKNOWN}
"""When the server undoes the transaction, and psycopg would wait for the end of a COPY before it sends a ROLLBACK."""
ANSWER_SECONDS = 5.0
"""How long a server may take to answer, whose connection may be broken."""


class SendsAtOnce:
    """What a driver is made of that holds nothing back."""

    def flush(self, connection: AnyConnection) -> None:
        """Do nothing: every executed statement was sent."""


class AsyncSendsAtOnce:
    """The twin of :class:`SendsAtOnce`."""

    async def flush(self, connection: AnyConnection) -> None:
        """Do nothing: every executed statement was sent."""


@contextmanager
def changing_tables(connection: AnyConnection, driver: TransactionDriver) -> Iterator[None]:
    """Make all changes of tables or none, where the database can undo them; MySQL commits each by itself.

    Raises:
        OutboxError: The connection already has a transaction.
    """
    if not driver.dialect.features.undoes_ddl:
        yield
        return
    with transaction(connection, driver):
        yield


@contextmanager
def transaction(connection: AnyConnection, driver: TransactionDriver) -> Iterator[None]:
    """Commit at the end of the block, or undo what was done in it."""
    driver.begin(connection)
    try:
        yield
        driver.commit(connection)
    except BaseException:
        driver.rollback(connection)
        raise


@asynccontextmanager
async def async_transaction(connection: AnyConnection, driver: AsyncTransactionDriver) -> AsyncIterator[None]:
    """Commit at the end of the block, or undo what was done in it."""
    await driver.begin(connection)
    try:
        yield
        await driver.commit(connection)
    except BaseException:
        await driver.rollback(connection)
        raise


def raw_state(raw: object) -> TransactionState:
    """Return the state of the driver's connection below a framework's, OPEN if the driver hides it."""
    driver = _driver_below(raw)
    return TransactionState.OPEN if driver is None else driver.state(raw)


async def raw_answers(raw: object) -> bool:
    """Ask the server of that connection, see :func:`resolved`."""
    asking: Any = _driver_below(raw)
    return bool(await asking.answers(raw))


def _driver_below(raw: object) -> TransactionDriver | AsyncTransactionDriver | None:
    for find, kind in ((find_driver, TransactionDriver), (find_async_driver, AsyncTransactionDriver)):
        with suppress(OutboxError):
            driver = find(raw)
            return driver if isinstance(driver, kind) else None
    return None


async def resolved(driver: AsyncTransactionDriver, connection: AnyConnection) -> TransactionState:
    """Return the state of a transaction; where it is unknown, ask the server once, for at most five seconds.

    The connection is lost if it is dead or the server silent. Else the state may stay unknown: then the connection is
    busy with a statement, a COPY, a stream or a pipeline that was left open, and its owner must close it.

    A driver, also a synchronous one, has for this a coroutine method ``answers``, if its state can be unknown.
    """
    state = driver.state(connection)
    if state is TransactionState.UNKNOWN:
        asking: Any = getattr(driver, "direct", driver)
        state = driver.state(connection) if await asking.answers(connection) else TransactionState.LOST
    return state


def already_open(connectable: str = "connection") -> OutboxError:
    """Return the error about a connection that already has a transaction when one must be opened."""
    hint = "Commit or roll back first, or pass another one: the consumer opens the transaction itself."
    return OutboxError(f"the {connectable} already has a transaction", hint=hint)


def refuse_commit(state: TransactionState) -> None:
    """Raise what a commit has to say about a transaction that is not open any more."""
    match state:
        case TransactionState.ABORTED:
            raise TransactionAbortedError("a statement failed, so the server would answer COMMIT with ROLLBACK")
        case TransactionState.LOST | TransactionState.UNKNOWN:
            raise DatabaseUnavailableError("the connection broke before the commit")
        case TransactionState.ENDED:
            raise TransactionEndedError("there is no transaction to commit")


def session_settings(dialect: Dialect, *, idle_seconds: float, mariadb: bool = False) -> tuple[str, ...]:
    """Return the statements that :meth:`TransactionDriver.prepare` stands for; they take no parameters.

    Raises:
        ConfigError: No server accepts the time limit.
    """
    if not 0 < idle_seconds <= _MAX_IDLE_SECONDS:
        raise ConfigError(f"a transaction cannot be limited to {idle_seconds} idle seconds", field="idle_seconds")
    # Rounded up: 0 would be no bound at all.
    bounds = {
        "idle_seconds": str(math.ceil(idle_seconds)),
        "idle_milliseconds": str(math.ceil(idle_seconds * 1000)),
    }
    wanted = ["isolate", "bound_idling", *(["bound_idling_mariadb"] if mariadb else [])]
    statements = load(dialect, "session")
    return tuple(statements[name].render(bounds) for name in wanted if name in statements)  # SQLite has none


def other_isolation(level: str) -> ConfigError:
    """Return the error about a connection that was set to another isolation level than READ COMMITTED."""
    return ConfigError(
        f"the connection's transactions are {level.upper()}; a consumer needs READ COMMITTED",
        field="connect",
        hint="Open it without an isolation level: after waiting for another transaction, the consumer "
        "must see its changes.",
    )
