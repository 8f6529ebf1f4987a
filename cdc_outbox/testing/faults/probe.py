"""What stands between a consumer and its handlers, and lets things go wrong there."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from inspect import isawaitable
from typing import Any

from cdc_outbox.consumer.handlers import BeforeCommit, Handlers, Registered
from cdc_outbox.databases.drivers import AnyConnection
from cdc_outbox.errors import TransactionConflictError
from cdc_outbox.event import RecordedEvent
from cdc_outbox.testing.faults.scenarios import Fault, FaultKind, Point


class CrashError(BaseException):
    """The end of a process, as far as one can have it in a test: no handler of exceptions is meant to stop it."""


class StruckError(Exception):
    """An error of the kit's own making."""


class Probe:
    """Calls handlers, counts what they do, and strikes where a fault is armed.

    Args:
        instead: Statements that replace one that is struck, so that the server itself fails it.

    Attributes:
        statements: The most that one call has executed.
        is_watching: Whether statements can be seen at all.
        after_call: Awaited after each call of a handler, while its transaction is open.
    """

    def __init__(self, instead: Mapping[FaultKind, str]) -> None:
        self.statements = 0
        self.is_watching = False
        self.after_call: Callable[[Sequence[RecordedEvent]], Awaitable[None]] | None = None
        self._instead = instead
        self._fault: Fault | None = None
        self._targets: set[str] = set()
        self._struck: Fault | None = None
        """The fault of the call or transaction at hand."""
        self._executed: int | None = None

    def arm(self, fault: Fault | None, events: Iterable[RecordedEvent]) -> None:
        """Strike the first delivery of each of these events."""
        self._fault, self._targets, self._struck = fault, {event.id for event in events}, None

    def wrapped(self, handlers: Mapping[str, Registered]) -> Handlers:
        """Return the same handlers, each behind the probe."""
        types: dict[int, list[str]] = {}
        for event_type, registered in handlers.items():
            types.setdefault(id(registered), []).append(event_type)
        probed = Handlers(asynchronous=True)
        for registered in {id(registered): registered for registered in handlers.values()}.values():
            probed.add(types[id(registered)], self._probed(registered), takes_batch=registered.takes_batch)
        return probed

    def watch(self, connection: AnyConnection) -> None:
        """Watch what handlers execute on a connection of psycopg's; other drivers have no place for it."""
        if type(connection).__module__.partition(".")[0] != "psycopg":
            return
        self.is_watching = True
        probe, factory = self, connection.cursor_factory

        # One function for both kinds of cursors: what an asynchronous one returns is awaited by who called.
        def execute(cursor: object, *arguments: object, **options: object) -> Any:  # noqa: ANN401
            instead = probe._statement()
            if instead is not None:
                return factory.execute(cursor, instead)
            return factory.execute(cursor, *arguments, **options)

        def executemany(cursor: Any, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            instead = probe._statement()
            if instead is not None:
                return factory.execute(cursor, instead)
            return factory.executemany(cursor, *arguments, **options)

        connection.cursor_factory = type("WatchedCursor", (factory,), {"execute": execute, "executemany": executemany})

    def strike(self, point: Point) -> None:
        """Raise the error of the fault that strikes here, if any."""
        fault = self._struck
        if fault is None or fault.point is not point:
            return
        self._struck = None
        match fault.kind:
            case FaultKind.CRASH:
                raise CrashError
            case FaultKind.CONFLICT:
                raise TransactionConflictError("a conflict, injected by a test")
            case _:
                raise StruckError("an error, injected by a test")

    def _probed(self, registered: Registered) -> Callable[[Any, Any], Awaitable[None]]:
        async def call(given: Any, connection: AnyConnection) -> None:  # noqa: ANN401
            events: Sequence[RecordedEvent] = given if registered.takes_batch else [given]
            ids = {event.id for event in events}
            self._struck = self._fault if ids & self._targets else None
            self._targets -= ids
            self.strike(Point.CLAIMED)
            self._executed = 0
            try:
                returned = registered.call(given, connection)
                if isawaitable(returned):
                    await returned
                self.statements = max(self.statements, self._executed)
            finally:
                self._executed = None
            if self.after_call is not None:
                await self.after_call(events)
            self.strike(Point.CALLED)

        return call

    def _statement(self) -> str | None:
        """Count a statement of a handler's; return the statement that replaces one that is struck."""
        if self._executed is None:
            return None
        self._executed += 1
        fault = self._struck
        if fault is None or fault.point is not Point.STATEMENT or fault.statement != self._executed:
            return None
        if fault.kind is FaultKind.CRASH:
            raise CrashError
        return self._instead[fault.kind]


class ProbedBeforeCommit:
    """What writes at the end of the handlers' transaction, if anything does, and the last place before the commit."""

    def __init__(self, inner: BeforeCommit | None, probe: Probe) -> None:
        self._inner = inner
        self._probe = probe

    def caused_by(self, events: Sequence[RecordedEvent]) -> None:
        """Take no notice: nothing is gathered."""

    @asynccontextmanager
    async def gathering(self, connection: AnyConnection) -> AsyncIterator[Any]:
        """Gather what the inner one gathers, and strike when it is written."""
        async with AsyncExitStack() as stack:
            context: Any = self._inner.gathering(connection) if self._inner else None
            if context is None:
                yield self
            elif hasattr(context, "__aenter__"):
                yield await stack.enter_async_context(context)
            else:
                yield stack.enter_context(context)
        self._probe.strike(Point.COMMITTING)
