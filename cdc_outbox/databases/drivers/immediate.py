"""A synchronous driver in an asynchronous one's clothes, so that what is built on drivers is written once.

And work for the client while the server works.
"""

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from cdc_outbox.databases.drivers import (
    AnyConnection,
    Driver,
    Parameters,
    Row,
    TransactionDriver,
    TransactionState,
    often,
    runs_blocks,
    serves,
    serves_type,
)
from cdc_outbox.databases.drivers.transactions import AsyncSendsAtOnce, SendsAtOnce

Meanwhile = Callable[[], bool]
"""Do a little of what comes next, and return whether there is more to do; it touches no connection. Once it returns
false, it is not called again in the same block."""


def nothing_else() -> bool:
    """Have nothing else to do."""
    return False


@runtime_checkable
class Overlapping(Protocol):
    """A driver that can do something else until the server answers."""

    def overlapping(self, connection: AnyConnection, meanwhile: Meanwhile) -> AbstractContextManager[None]:
        """Call this again and again while a statement of the block waits for its answer, until it returns false."""


def overlapping(driver: object, connection: AnyConnection, meanwhile: Meanwhile) -> AbstractContextManager[None]:
    """Return the block in which that is done, where the driver can do it."""
    return driver.overlapping(connection, meanwhile) if isinstance(driver, Overlapping) else nullcontext()


ResultT = TypeVar("ResultT")
DriverT = TypeVar("DriverT", bound=Driver)


def finish(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a coroutine that never waits, and return its result or raise its error."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: ResultT = end.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine over synchronous drivers had to wait")


class Immediate(Generic[DriverT]):
    """The methods of :class:`~cdc_outbox.databases.drivers.AsyncDriver` over a synchronous driver.

    Attributes:
        direct: The synchronous driver.
    """

    def __init__(self, driver: DriverT) -> None:
        self.direct = driver
        self.dialect = driver.dialect
        self.style = driver.style
        self.transaction_hint = driver.transaction_hint
        self.serves_type = serves_type(driver)

    def serves(self, connection: AnyConnection) -> bool:
        """Return whether the driver serves another connection of the type that it was found by."""
        return serves(self.direct, connection)

    def runs_blocks(self, connection: AnyConnection) -> bool:
        """Return whether the server executes several statements that are sent as one."""
        return runs_blocks(self.direct, connection)

    async def joins_transaction(self, connection: AnyConnection) -> bool:
        """Return whether what is executed next is ended by the caller's commit or rollback, and not at once."""
        return self.direct.joins_transaction(connection)

    async def fetch(self, connection: AnyConnection, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute a statement and return its rows."""
        return self.direct.fetch(connection, sql, parameters)

    async def fetch_often(self, connection: AnyConnection, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute a statement that is executed for every event."""
        return often(self.direct)(connection, sql, parameters)


class ImmediateTransactions(Immediate[TransactionDriver]):
    """The methods of :class:`~cdc_outbox.databases.drivers.AsyncTransactionDriver` over a synchronous driver."""

    async def prepare(self, connection: AnyConnection, *, idle_seconds: float) -> None:
        """Make the session's transactions READ COMMITTED, and let the server end one that idles for longer."""
        self.direct.prepare(connection, idle_seconds=idle_seconds)

    async def flush(self, connection: AnyConnection) -> None:
        """Send what the connection holds back until its commit."""
        self.direct.flush(connection)

    def overlapping(self, connection: AnyConnection, meanwhile: Meanwhile) -> AbstractContextManager[None]:
        """Do something else until the server answers, if the driver can do that."""
        return overlapping(self.direct, connection, meanwhile)

    async def begin(self, connection: AnyConnection) -> None:
        """Open a transaction."""
        self.direct.begin(connection)

    def state(self, connection: AnyConnection) -> TransactionState:
        """Return the state of the transaction."""
        return self.direct.state(connection)

    async def commit(self, connection: AnyConnection) -> None:
        """Commit, and return only if the server committed."""
        self.direct.commit(connection)

    async def rollback(self, connection: AnyConnection) -> None:
        """Undo it."""
        self.direct.rollback(connection)


def sends_at_once(driver: object) -> bool:
    """Return whether a driver is known to hold nothing back, so that it need not be flushed."""
    kind = type(driver.direct if isinstance(driver, ImmediateTransactions) else driver)
    return getattr(kind, "flush", None) in {SendsAtOnce.flush, AsyncSendsAtOnce.flush}
