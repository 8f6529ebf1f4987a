"""Work for the client while the server works: several statements on their way at once.

What is built on drivers awaits its statements. Here it is left waiting after it sent one, until the others have sent
theirs too; then what else there is to do is done until the server answers.
"""

from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from cdc_outbox.drivers import Parameters, Row, TransactionDriver
from cdc_outbox.drivers.immediate import ImmediateTransactions

Step = Coroutine[Any, Any, Any]
Meanwhile = Callable[[], bool]
"""Do a little of what comes next, and tell whether there is more to do; it touches no connection."""


def nothing_else() -> bool:
    """Have nothing else to do."""
    return False


@runtime_checkable
class PipelineDriver(TransactionDriver, Protocol):
    """A driver whose statements need not wait for the answers to those before them."""

    def has_pipeline(self) -> bool:
        """Tell whether the client library can do what follows."""

    def pipeline(self, connection: Any) -> AbstractContextManager[Any]:  # noqa: ANN401
        """Enter before the first :meth:`send`; the server stops at the first error until it is left."""

    def send(self, connection: Any, sql: str, parameters: Parameters = None) -> Callable[[], list[Row]]:  # noqa: ANN401
        """Send a statement, and return what waits for its rows; who sent first asks first."""

    def push(self, pipeline: Any) -> None:  # noqa: ANN401
        """Have the server answer once it has done what was sent, and bound how long the transaction idles then."""

    def is_answered(self, connection: Any) -> bool:  # noqa: ANN401
        """Tell without waiting whether it has."""


class Overlapped(ImmediateTransactions):
    """A synchronous driver in an asynchronous one's clothes that can have several statements on their way."""

    def __init__(self, driver: PipelineDriver) -> None:
        super().__init__(driver)
        self._pipelined = driver
        self._is_open = False

    async def fetch(self, connection: Any, sql: str, parameters: Parameters = None) -> list[Row]:  # noqa: ANN401
        """Execute a statement and return its rows; between the two, others send theirs."""
        if not self._is_open:
            return self._driver.fetch(connection, sql, parameters)
        receive = self._pipelined.send(connection, sql, parameters)
        await _Sent()
        return receive()

    def together(self, connection: Any, steps: Sequence[Step], meanwhile: Meanwhile) -> list[Any]:  # noqa: ANN401
        """Run steps of which none needs another's result, and return their results."""
        results: dict[int, Any] = {}
        try:
            with self._pipelined.pipeline(connection) as pipeline:
                self._is_open = True
                for number, step in enumerate(steps):
                    _go_on(number, step, results)
                self._pipelined.push(pipeline)
                while meanwhile() and not self._pipelined.is_answered(connection):
                    pass
                for number, step in enumerate(steps):
                    while number not in results:
                        _go_on(number, step, results)
                # What is sent when the pipeline is left is waited for; nobody would do it together with others.
                self._is_open = False
        finally:
            self._is_open = False
            for step in steps:
                step.close()
        return [results[number] for number in range(len(steps))]


def immediate(driver: TransactionDriver) -> ImmediateTransactions:
    """Return a synchronous driver in an asynchronous one's clothes, overlapped if it can be."""
    if isinstance(driver, PipelineDriver) and driver.has_pipeline():
        return Overlapped(driver)
    return ImmediateTransactions(driver)


async def together(driver: Any, connection: Any, *steps: Step, meanwhile: Meanwhile) -> list[Any]:  # noqa: ANN401
    """Run steps of which none needs another's result, in order, and return their results.

    Args:
        meanwhile: Called again and again while the server works, where the driver can tell.
    """
    if isinstance(driver, Overlapped):
        return driver.together(connection, steps, meanwhile)
    try:
        return [await step for step in steps]
    finally:
        for step in steps:
            step.close()


class _Sent:
    def __await__(self) -> Generator[None, None, None]:
        yield


def _go_on(number: int, step: Step, results: dict[int, Any]) -> None:
    try:
        step.send(None)
    except StopIteration as end:
        results[number] = end.value
