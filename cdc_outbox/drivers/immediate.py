"""A synchronous driver in an asynchronous one's clothes, so that what is built on drivers is written once.

Nothing in it ever waits for a loop: a coroutine that awaits nothing else has ended after its first step.
"""

from collections.abc import Coroutine
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

from cdc_outbox.drivers import AnyConnection, Driver, Parameters, Row, TransactionDriver, TransactionState
from cdc_outbox.drivers.overlap import Meanwhile, overlapping

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
    raise RuntimeError("a coroutine over synchronous drivers waited for something")


class Immediate(Generic[DriverT]):
    """The methods of :class:`~cdc_outbox.drivers.AsyncDriver` over a synchronous driver."""

    def __init__(self, driver: DriverT) -> None:
        self._driver = driver
        self.dialect = driver.dialect
        self.style = driver.style
        self.transaction_hint = driver.transaction_hint

    async def joins_transaction(self, connection: AnyConnection) -> bool:
        """Tell whether what is executed next is ended by the caller's commit or rollback, and not at once."""
        return self._driver.joins_transaction(connection)

    async def fetch(self, connection: AnyConnection, sql: str, parameters: Parameters = None) -> list[Row]:
        """Execute a statement and return its rows."""
        return self._driver.fetch(connection, sql, parameters)


class ImmediateTransactions(Immediate[TransactionDriver]):
    """The methods of :class:`~cdc_outbox.drivers.AsyncTransactionDriver` over a synchronous driver."""

    async def prepare(self, connection: AnyConnection, *, idle_seconds: float) -> None:
        """Make the session's transactions READ COMMITTED, and let the server end one that idles for longer."""
        self._driver.prepare(connection, idle_seconds=idle_seconds)

    async def flush(self, connection: AnyConnection) -> None:
        """Send what the connection holds back until its commit."""
        self._driver.flush(connection)

    def overlapping(self, connection: AnyConnection, meanwhile: Meanwhile) -> AbstractContextManager[None]:
        """Do something else until the server answers, if the driver can do that."""
        return overlapping(self._driver, connection, meanwhile)

    async def begin(self, connection: AnyConnection) -> None:
        """Open a transaction."""
        self._driver.begin(connection)

    def state(self, connection: AnyConnection) -> TransactionState:
        """Tell what became of it."""
        return self._driver.state(connection)

    async def commit(self, connection: AnyConnection) -> None:
        """Commit, and return only if the server committed."""
        self._driver.commit(connection)

    async def rollback(self, connection: AnyConnection) -> None:
        """Undo it."""
        self._driver.rollback(connection)
