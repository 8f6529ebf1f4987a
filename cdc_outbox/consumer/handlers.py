"""Which handler an event goes to, calling it, and what it did to its transaction."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack
from dataclasses import dataclass
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.waits import is_cancelled
from cdc_outbox.databases.drivers import (
    AnyConnection,
    AsyncTransactionDriver,
    TransactionState,
    is_of_driver,
    translate,
)
from cdc_outbox.databases.drivers.immediate import sends_at_once
from cdc_outbox.databases.drivers.sqlstate import raise_ours
from cdc_outbox.databases.drivers.transactions import resolved
from cdc_outbox.errors import (
    CdcOutboxError,
    ConfigError,
    DatabaseUnavailableError,
    EventError,
    HandlerError,
    OutboxError,
    TransactionAbortedError,
    TransactionEndedError,
    TransactionTimeoutError,
)
from cdc_outbox.event import RecordedEvent
from cdc_outbox.redaction import SecretRedactor, shortened, visible_controls
from cdc_outbox.telemetry import NO_SPAN, HandlerTelemetry, NoSpans, Telemetry

if TYPE_CHECKING:  # Python 3.13 has it; type checkers know it without the package
    from typing_extensions import TypeVar

    ConnectionT = TypeVar("ConnectionT", default=Any)
else:
    from typing import TypeVar

    ConnectionT = TypeVar("ConnectionT")

Handler = Callable[[RecordedEvent, ConnectionT], object]
"""The user's callback: the event, and the connection whose transaction is open. What it returns is ignored."""
BatchHandler = Callable[[list[RecordedEvent], ConnectionT], object]
"""The same for several events at once, in order."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A handler as it was registered, which takes an event, or a list of events where it ``takes_batch``."""

    call: Callable[[Any, Any], object]
    takes_batch: bool


def check_event_types(event_types: Sequence[object]) -> None:
    """Check the types of a handler before it is known: `@consumer.on` without parentheses passes the handler instead.

    Raises:
        ConfigError: None is named, or one is not a str.
    """
    if not event_types:
        raise ConfigError("a handler needs at least one event type", field="Consumer.on")
    if not all(isinstance(event_type, str) for event_type in event_types):
        raise ConfigError(
            "event types of a handler must be str",
            field="Consumer.on",
            hint='Write @consumer.on("OrderPlaced"), with parentheses.',
        )


class Handlers:
    """The handlers of a consumer, by event type.

    Args:
        asynchronous: Whether coroutine functions may be among them.
    """

    def __init__(self, *, asynchronous: bool = False) -> None:
        self._asynchronous = asynchronous
        self._by_type: dict[str, Registered] = {}

    def __bool__(self) -> bool:
        return bool(self._by_type)

    @property
    def types(self) -> list[str]:
        """The event types that have a handler."""
        return list(self._by_type)

    def get(self, event_type: str) -> Registered | None:
        """Return the handler of an event type, if it has one."""
        return self._by_type.get(event_type)

    def add(self, event_types: Sequence[str], call: Callable[[Any, Any], object], *, takes_batch: bool) -> None:
        """Register a handler.

        Raises:
            ConfigError: One of the types has a handler already, the handler must be awaited and cannot be, or it cannot
                be called with an event and a connection.
        """
        is_awaited = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004
        if self._asynchronous and not is_awaited:
            raise ConfigError(
                f"{getattr(call, '__name__', call)} is not a coroutine function, so its result would not be awaited",
                field="Consumer.on",
                hint="Define it with async def, or use Consumer.",
            )
        if not self._asynchronous and is_awaited:
            raise ConfigError(
                f"{getattr(call, '__name__', call)} is a coroutine function, which Consumer does not await",
                field="Consumer.on",
                hint="Use AsyncConsumer, or define it as a plain function.",
            )
        if not _takes_two(call):
            raise ConfigError(
                f"{getattr(call, '__name__', call)} must accept {'events' if takes_batch else 'an event'} and a "
                "connection",
                field="Consumer.on",
                hint=f"Define it as def handler({'events' if takes_batch else 'event'}, connection).",
            )
        registered = Registered(call, takes_batch)
        for event_type in event_types:
            if event_type in self._by_type:
                raise ConfigError(f"the event type {event_type!r} already has a handler", field="Consumer.on")
            self._by_type[event_type] = registered

    def runs(self, items: Iterable[Item]) -> Iterator[tuple[Registered, list[Item]]]:
        """Return the calls that a list of events makes, in order: a batch handler's neighbours are one call."""
        run: list[Item] = []
        runner: Registered | None = None
        for item in items:
            registered = self._by_type.get(item.event.type)
            if runner is not None and not (registered is runner and runner.takes_batch):
                yield runner, run
                run = []
            if registered is not None:
                run.append(item)
            runner = registered
        if runner is not None:
            yield runner, run


def _takes_two(call: Callable[..., object]) -> bool:
    """Return whether something can be called with two arguments, as far as it says what it takes."""
    try:
        inspect.signature(call).bind(None, None)
    except TypeError:
        return False
    except ValueError:  # a builtin that keeps it to itself
        return True
    return True


_OPEN = TransactionState.OPEN
_MAX_TEXT, _MAX_READ = 500, 20_000
"""Characters of what an exception says that are shown, and that are looked at."""
_OURS = f"{__name__.partition('.')[0]}."


class Gathered(Protocol):
    """The events that are gathered during a transaction."""

    def caused_by(self, events: Sequence[RecordedEvent]) -> None:
        """Take what comes from here on for a consequence of these events."""


class BeforeCommit(Protocol):
    """An object that writes at the end of the handlers' transaction; an outbox is one."""

    def gathering(
        self,
        connection: AnyConnection,
    ) -> AbstractContextManager[Gathered] | AbstractAsyncContextManager[Gathered]:
        """Collect from before the first handler; write at the end, or nothing after an error."""


class HandlerRunner:
    """The handlers of a consumer, called in order, each in the transaction that is open.

    Args:
        telemetry: Records each call.
        before_commit: What writes after the last of them.
        deadline_seconds: How long a coroutine function may take; ``None`` means no limit. A plain function cannot be
            interrupted.
        pipeline: Opens the driver's pipeline, in which statements do not wait for each other's answers.
        error_texts: Whether errors quote what a handler's exception says.
    """

    def __init__(
        self,
        *,
        driver: AsyncTransactionDriver,
        handlers: Handlers,
        telemetry: HandlerTelemetry | None = None,
        before_commit: BeforeCommit | None = None,
        deadline_seconds: float | None = None,
        pipeline: Callable[[Any], AbstractAsyncContextManager[object]] | None = None,
        error_texts: bool = True,
    ) -> None:
        self._driver = driver
        self._must_flush = not sends_at_once(driver)
        self._handled = getattr(getattr(driver, "direct", driver), "handled", None)
        self._handlers = handlers
        self.telemetry = telemetry or HandlerTelemetry("", Telemetry(spans=NoSpans()))
        self._before_commit = before_commit
        self._deadline_seconds = deadline_seconds
        self._pipeline = pipeline
        self._error_texts = error_texts

    def has_handler(self, event_type: str) -> bool:
        """Return whether an event type has a handler."""
        return self._handlers.get(event_type) is not None

    def text_of(self, error: BaseException) -> str:
        """Return a colon and what an exception says; nothing where it says nothing, or that is private."""
        text = text_of(error) if self._error_texts else ""
        return text and f": {text}"

    async def run(self, items: Sequence[Item], connection: AnyConnection) -> None:
        """Call the handlers of these events.

        Raises:
            HandlerError: One raised, or left its connection busy.
            TransactionAbortedError, TransactionEndedError: One swallowed an SQL error, or ended the transaction.
            DatabaseUnavailableError, TransactionTimeoutError: The connection broke.
        """
        is_gathering = True
        try:
            async with AsyncExitStack() as stack:
                gathered: Gathered | None = None
                if self._before_commit is not None:
                    gathered = await entered(stack, self._before_commit.gathering(connection))
                is_gathering = False
                if self._pipeline is None:
                    await self._run(items, connection, gathered, looks=True)
                else:
                    await self._run_in_pipeline(self._pipeline, items, connection, gathered)
                is_gathering = True
        except (EventError, OutboxError) as error:
            # An event's own fault, as it would be where its handler wrote it at once.
            names = several([item.event for item in items])
            raise HandlerError(f"events added by the handlers of {names} cannot be written: {error}") from error
        except (Exception, asyncio.CancelledError) as error:
            if not is_gathering or is_cancelled(error) or ours_of(error) is not None or is_of_driver(error):
                raise
            names = several([item.event for item in items])
            raise HandlerError(f"the hook before the commit of {names} raised {self._described(error)}") from error

    async def _run_in_pipeline(
        self,
        pipeline: Callable[[Any], AbstractAsyncContextManager[object]],
        items: Sequence[Item],
        connection: AnyConnection,
        gathered: Gathered | None,
    ) -> None:
        """Send what the handlers execute without waiting for each answer; what failed shows at the end."""
        failure: BaseException | None = None
        try:
            async with pipeline(connection):
                await self._run(items, connection, gathered, looks=False)
        except (Exception, asyncio.CancelledError) as error:
            if is_cancelled(error):
                raise
            failure = error  # what it means depends on what became of the transaction
        try:
            await self._look(items, connection, failure)
        finally:
            del failure

    async def _run(
        self, items: Sequence[Item], connection: AnyConnection, gathered: Gathered | None, *, looks: bool
    ) -> None:
        telemetry, is_traced = self.telemetry, self.telemetry.is_traced
        for registered, run in self._handlers.runs(items):
            events = [item.event for item in run]
            if gathered is not None:
                gathered.caused_by(events)
            telemetry.begins()
            begun_at = time.perf_counter()
            failure: BaseException | None = None
            try:
                with telemetry.process([(item.event, item.message) for item in run]) if is_traced else NO_SPAN:
                    returned = registered.call(events if registered.takes_batch else events[0], connection)
                    if returned is not None and isawaitable(returned):
                        await self._in_time(returned)
                    if self._must_flush:
                        await self._driver.flush(connection)
                    if self._handled is not None:
                        self._handled(connection, events)
            except (Exception, asyncio.CancelledError) as error:
                if not looks or is_cancelled(error):
                    raise
                failure = error
            finally:
                telemetry.took(events[0].type, time.perf_counter() - begun_at)
            try:
                if looks and (failure is not None or self._driver.state(connection) is not _OPEN):
                    await self._look(run, connection, failure)
            finally:
                del failure

    async def _in_time(self, awaitable: Awaitable[object]) -> None:
        if self._deadline_seconds is None:  # perhaps in no event loop
            await awaitable
            return
        limit = asyncio.timeout(self._deadline_seconds)
        try:
            async with limit:
                await awaitable
        except TimeoutError as error:
            if limit.expired():
                raise TransactionTimeoutError(f"it took longer than {self._deadline_seconds:g} s") from error
            raise

    async def _look(self, items: Sequence[Item], connection: AnyConnection, failure: BaseException | None) -> None:
        """Raise what a handler did to its transaction, and what it raised."""
        state = await resolved(self._driver, connection)
        if failure is None and state is _OPEN:
            return
        names = several([item.event for item in items])
        if state is TransactionState.UNKNOWN:
            raised = f"raised {self._described(failure)} and " if failure else ""
            # What the busy connection itself raised would look like an outage.
            cause = failure if failure and ours_of(failure) is None else None
            left = "left a statement, a COPY, a stream or a pipeline open"
            raise HandlerError(f"the handler of {names} {raised}{left}") from cause
        if state is TransactionState.ENDED:
            raise TransactionEndedError(f"the handler of {names} ended its transaction") from failure
        if failure is not None:
            if state is TransactionState.LOST:
                raise_ours(_lost_by(failure), failure)
            raise HandlerError(f"the handler of {names} raised {self._described(failure)}") from failure
        if state is TransactionState.LOST:
            raise DatabaseUnavailableError(f"the connection broke in the handler of {names}")
        raise TransactionAbortedError(f"the handler of {names} swallowed an SQL error")

    def _described(self, error: BaseException) -> str:
        return f"{type(error).__name__}{origin_of(error)}{self.text_of(error)}"


def _lost_by(error: BaseException) -> CdcOutboxError | None:
    """Return the error of a connection that broke under a handler, ``None`` where the handler raised something else."""
    ours = ours_of(error)
    if ours is not None:
        return ours if ours.retryable else None
    # The socket's own, which asyncpg lets pass; and what psycopg2 raises in a COPY has no code.
    is_of_connection = isinstance(error, ConnectionError) or is_of_driver(error)
    return DatabaseUnavailableError(f"the connection broke: {type(error).__name__}") if is_of_connection else None


def ours_of(error: BaseException) -> CdcOutboxError | None:
    """Return our error for any, ``None`` where there is none."""
    return error if isinstance(error, CdcOutboxError) else translate(error)


def several(events: Sequence[RecordedEvent]) -> str:
    """Name events: the first, and how many more there are."""
    if not events:
        return "no event"
    return f"{events[0]} and {len(events) - 1} more" if len(events) > 1 else str(events[0])


async def entered(stack: AsyncExitStack, context: Any) -> Any:  # noqa: ANN401 - any of both kinds
    """Enter a context, an asynchronous one or not."""
    return await stack.enter_async_context(context) if hasattr(context, "__aenter__") else stack.enter_context(context)


def origin_of(error: BaseException) -> str:
    """Return where an exception left the user's code."""
    trace = error.__traceback__
    while trace is not None:
        if not str(trace.tb_frame.f_globals.get("__name__")).startswith(_OURS):
            return f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return ""


def text_of(error: BaseException) -> str:
    """Return what an exception says, in one line of bounded length, which a database, a log and a terminal can take.

    What looks like a secret is hidden; a payload that it quotes is not.
    """
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - a class of the user's
        return ""
    line = " ".join(said[:_MAX_READ].split())
    return shortened(visible_controls(SecretRedactor().over(line)), _MAX_TEXT)
