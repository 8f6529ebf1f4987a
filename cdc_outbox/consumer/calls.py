"""Calling handlers, and what a handler did to its transaction."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from inspect import isawaitable
from pathlib import Path
from typing import Any, Protocol

from cdc_outbox.consumer.handlers import Handlers, Registered
from cdc_outbox.drivers import AsyncTransactionDriver, TransactionState, translate
from cdc_outbox.errors import (
    CdcOutboxError,
    DatabaseUnavailableError,
    HandlerError,
    TransactionAbortedError,
    TransactionEndedError,
)
from cdc_outbox.event import Event

_log = logging.getLogger(__name__)


class BeforeCommit(Protocol):
    """What wants to write at the end of the handlers' transaction; an outbox that gathers events is one."""

    def gathering(self, connection: Any) -> AbstractAsyncContextManager[object]:  # noqa: ANN401
        """Enter before the first handler; leaving writes what was gathered, or nothing after an error."""


class Calls:
    """The handlers of a consumer, called in order, each in the transaction that is open.

    Args:
        before_commit: What writes after the last of them.
        pipeline: Opens the driver's pipeline, in which statements do not wait for each other's answers.
    """

    def __init__(
        self,
        *,
        driver: AsyncTransactionDriver,
        handlers: Handlers,
        before_commit: BeforeCommit | None = None,
        pipeline: Callable[[Any], AbstractAsyncContextManager[object]] | None = None,
    ) -> None:
        self._driver = driver
        self._handlers = handlers
        self._before_commit = before_commit
        self._pipeline = pipeline

    def has_handler(self, event: Event) -> bool:
        """Tell whether anybody listens."""
        return self._handlers.get(event.type) is not None

    async def run(self, events: Sequence[Event], connection: Any) -> None:  # noqa: ANN401
        """Call the handlers of these events.

        Raises:
            HandlerError: One raised.
            TransactionAbortedError, TransactionEndedError: One swallowed an SQL error, or ended the transaction.
            DatabaseUnavailableError, TransactionConflictError: Trying again may help.
        """
        gathering = self._before_commit.gathering(connection) if self._before_commit else nullcontext()
        async with gathering:
            if self._pipeline is None:
                for registered, run in self._handlers.runs(events):
                    await self._call(registered, run, connection)
            else:
                await self._call_in_pipeline(events, connection)

    async def _call_in_pipeline(self, events: Sequence[Event], connection: Any) -> None:  # noqa: ANN401
        """Send what the handlers execute without waiting for each answer; what failed shows at the end."""
        assert self._pipeline is not None  # noqa: S101 - the caller looked
        try:
            async with self._pipeline(connection):
                for registered, run in self._handlers.runs(events):
                    await _awaited(registered, run, connection)
        except Exception as error:  # noqa: BLE001 - what it means depends on what became of the transaction
            self._look(events, connection, error)
        else:
            self._look(events, connection, None)

    async def _call(self, registered: Registered, events: list[Event], connection: Any) -> None:  # noqa: ANN401
        try:
            await _awaited(registered, events, connection)
        except Exception as error:  # noqa: BLE001 - what it means depends on what became of the transaction
            self._look(events, connection, error)
        else:
            self._look(events, connection, None)

    def _look(self, events: Sequence[Event], connection: Any, failure: Exception | None) -> None:  # noqa: ANN401
        """Raise what a handler did to its transaction, and what it raised."""
        state = self._driver.state(connection)
        if failure is None and state is TransactionState.OPEN:
            return
        names = several(events)
        if state is TransactionState.ENDED:
            raise TransactionEndedError(f"the handler of {names} ended its transaction") from failure
        if failure is not None:
            ours = ours_of(failure)
            if ours is not None and ours.retryable:
                raise ours from failure
            _log.debug("handler failed", exc_info=failure, extra={"events": names})
            place = f"{type(failure).__name__}{_origin(failure)}"
            raise HandlerError(f"the handler of {names} raised {place}") from failure
        if state is TransactionState.LOST:
            raise DatabaseUnavailableError(f"the connection broke in the handler of {names}")
        raise TransactionAbortedError(f"the handler of {names} swallowed an SQL error")


def ours_of(error: Exception) -> CdcOutboxError | None:
    """Return our error for any, ``None`` where there is none."""
    return error if isinstance(error, CdcOutboxError) else translate(error)


def several(events: Sequence[Event]) -> str:
    """Name events: the first, and how many more there are."""
    if not events:
        return "no event"
    return f"{events[0]} and {len(events) - 1} more" if len(events) > 1 else str(events[0])


async def _awaited(registered: Registered, events: list[Event], connection: Any) -> None:  # noqa: ANN401
    returned = registered.call(events if registered.takes_batch else events[0], connection)
    if isawaitable(returned):
        await _result(returned)


async def _result(awaitable: Awaitable[object]) -> object:
    return await awaitable


def _origin(error: BaseException) -> str:
    """Return where an exception left the user's code, without its message, which may quote the payload."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") != __name__:
            return f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return ""
