"""The relay's loop: source → sink, in the caller's thread or beside an event loop."""

import asyncio
import inspect
import logging
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from time import monotonic
from types import TracebackType
from typing import Any, Protocol, Self

from cdc_outbox.backoff import Backoff
from cdc_outbox.errors import CdcOutboxError
from cdc_outbox.relay.relay_errors import DeliveryError, SlotInUseError
from cdc_outbox.relay.relay_stats import RelayStats
from cdc_outbox.relay.sinks import Sink
from cdc_outbox.relay.units import Unit
from cdc_outbox.telemetry import Metrics, NoMetrics, RelayProgress, RelayState

RETRIES = Backoff(first_seconds=0.25, longest_seconds=10.0)
"""A relay whose broker is down asks this seldom."""
_STANDBY_SECONDS = 2.0
"""The longest pause of a standby, which takes over within it when the slot is free."""
STOP_SECONDS = 10.0
"""How long the sink may still deliver after a stop; the rest is read again after the next start. All else that a relay
ends with is bounded too, so that it has ended in less than the 30 s after which most supervisors kill it."""
_IDLE_SECONDS, _BUSY_SECONDS, _FULL_SECONDS = 0.5, 0.01, 0.05
"""How long to wait for events with nothing under way, for deliveries with nothing to read, and for room in the sink.

Deliveries take less than the second as a rule. With 1 ms, brokers that needed longer got more and more requests of a
few events, and librdkafka's thread waited for the sixth in a busy loop: up to 750 microseconds of CPU for an event.
"""

_RESUMABLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

logger = logging.getLogger(__name__)


class UnitSource(Protocol):
    """Committed events in their order.

    Order: units come in commit order. Durability: reading gives nothing away. Repetition: after :meth:`open`, what was
    not confirmed comes again. Errors: after any of them, :meth:`close`; after a retryable one :meth:`open` helps.
    """

    lag_bytes: int | None
    """How much of the log is not confirmed; ``None`` where that is not known."""
    has_more: bool
    """Whether the last :meth:`read` may have left something that had arrived."""

    @property
    def warning(self) -> str:
        """What needs the operator's attention; empty if nothing does."""

    @property
    def silent(self) -> Mapping[str, float | None]:
        """Since when each connection has not answered what it was asked; ``None`` for one that has."""

    def open(self, is_stopping: Callable[[], bool]) -> None:
        """Start to read where everything before was confirmed; once the relay is stopped, wait for nothing for long."""

    def read(self, seconds: float) -> Unit[Any] | None:
        """Return what was read next, after waiting at most so long; ``None`` if nothing came."""

    def settle(self, now: float) -> bool:
        """Confirm what is delivered; called in every round, and cheap. Returns whether anything is under way.

        Raises:
            Exception: What a unit failed with.
        """

    def close(self) -> None:
        """Confirm what is delivered, and close."""


class Relay:
    """Sends what a source reads to a sink, and starts again after retryable errors.

    Args:
        source: It is opened and closed by the relay, again and again.
        open_sink: Returns a new sink. After an error the old one is closed, with what it holds.
        name: What metrics and health call it.
        metrics: Receives the series of :data:`cdc_outbox.monitoring.series.SERIES` whose names have ``relay``.
        heartbeat_topic: Its messages are sent as all others, and not counted as events.
        retries: The pauses after errors; they begin with the shortest again when something was delivered.
    """

    def __init__(
        self,
        source: UnitSource,
        open_sink: Callable[[], Sink],
        *,
        name: str = "relay",
        metrics: Metrics | None = None,
        heartbeat_topic: str | None = None,
        retries: Backoff = RETRIES,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._source, self._open_sink = source, open_sink
        self._retries, self._clock = retries, clock
        self._random = Random()  # noqa: S311 - of pauses
        self._stopping = threading.Event()
        self._deadline = 0.0
        self._failures = 0
        self._stats = RelayStats(name, metrics or NoMetrics(), clock, heartbeat_topic)

    def progress(self) -> RelayProgress:
        """Return the progress, without waiting; from any thread, also before and after the run."""
        return self._stats.progress

    def stop(self) -> None:
        """Have :meth:`run` deliver what was read, confirm it, and return; for signal handlers and other threads."""
        if not self._stopping.is_set():
            self._deadline = self._clock() + STOP_SECONDS
            self._stopping.set()

    def run(self) -> None:
        """Relay until :meth:`stop`.

        Raises:
            CdcOutboxError: An error that no retry cures.
        """
        while not self._stopping.is_set():
            try:
                self._run_once()
            except CdcOutboxError as error:
                _release_frames(error)  # one of them may keep the sink, whose clients have threads
                if not error.retryable:
                    raise
                if self._stopping.is_set():
                    logger.info("stopped after %s: %s", type(error).__name__, error)
                    break
                pause = self._retries.pause(self._failures, self._random)
                self._failures += 1
                if isinstance(error, SlotInUseError):
                    pause = min(pause, _STANDBY_SECONDS)
                    is_known = self.progress().state is RelayState.STANDBY
                    logger.log(logging.DEBUG if is_known else logging.INFO, "standing by: %s", error)
                else:
                    logger.warning("%s: %s; next attempt in %.1f s", type(error).__name__, error, pause)
                self._stats.fails(error, self._source.silent)
                self._stopping.wait(pause)

    def _run_once(self) -> None:
        self._stats.opens()
        try:
            self._source.open(self._stopping.is_set)
            sink = self._open_sink()
            self._stats.reads()
            self._relay_to(sink)
        finally:
            self._source.close()

    def _relay_to(self, sink: Sink) -> None:
        try:
            self._pump(sink)
            self._drain(sink)
        except DeliveryError:
            sink.close(0)
            # The sink failed because of a message, and only that message's own report has the cause.
            self._source.settle(self._clock())
            raise
        finally:
            sink.close(0)

    def _pump(self, sink: Sink) -> None:
        source, is_busy = self._source, False
        while not self._stopping.is_set():
            unit = source.read(0 if is_busy else _IDLE_SECONDS)
            if unit is not None and unit.events:
                self._stats.sends(unit)
                self._send(sink, unit)
                is_busy = True
            sink.poll(_BUSY_SECONDS if is_busy and not source.has_more else 0)
            is_busy = self._settle()

    def _settle(self) -> bool:
        now = self._clock()
        is_busy = self._source.settle(now)
        source = self._source
        if self._stats.settle(now, source.lag_bytes, source.warning, source.silent):
            self._failures = 0
        return is_busy

    def _send(self, sink: Sink, unit: Unit[Any]) -> None:
        """Send all of a unit; while the sink is full, nothing is read, and the server hears that the relay lives."""
        sent, count = 0, len(unit.events)
        while not self._is_late() and (sent := sent + sink.send(unit, sent)) < count:
            sink.poll(_FULL_SECONDS)
            self._settle()
        unit.events = ()  # the sink has what it needs of them

    def _drain(self, sink: Sink) -> None:
        self._stats.stops()
        while self._settle() and not self._is_late():
            sink.poll(_FULL_SECONDS)

    def _is_late(self) -> bool:
        return self._stopping.is_set() and self._clock() >= self._deadline


def _release_frames(error: BaseException) -> None:
    """Drop the variables of the functions that an error ended, and its causes: where one keeps the error, all stay.

    Generators and coroutines are left alone: one that is still used may have raised the same error before.
    """
    chain = [error]
    for each in chain:
        for frame, _ in traceback.walk_tb(each.__traceback__):
            if not frame.f_code.co_flags & _RESUMABLE:
                with suppress(RuntimeError):  # it runs
                    frame.clear()
        chain += [link for link in (each.__cause__, each.__context__) if link is not None and link not in chain]


class AsyncRelay:
    """Runs a relay's loop in a thread, so that it shares a process with a consumer or a web service.

    ::

        async with AsyncRelay(make_relay(spec, dsn=DSN, kafka="localhost:9092")):
            await consumer.run()

    The block ends with the relay's error if the relay fails first. At its end the relay delivers what it has read.
    One relay runs once.
    """

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._tasks = asyncio.TaskGroup()

    def stop(self) -> None:
        """Have :meth:`run` deliver what was read, confirm it, and return."""
        self._relay.stop()

    def progress(self) -> RelayProgress:
        """Return the progress, without waiting."""
        return self._relay.progress()

    async def run(self) -> None:
        """Relay until :meth:`stop` is called, or until the task is cancelled, after what was read is delivered.

        Raises:
            CdcOutboxError: An error that no retry cures.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="cdc-outbox relay") as executor:
            running = asyncio.get_running_loop().run_in_executor(executor, self._relay.run)
            try:
                await asyncio.shield(running)
            except asyncio.CancelledError:
                self.stop()
                while not running.done():
                    with suppress(asyncio.CancelledError):
                        await asyncio.wait({running})
                running.exception()
                raise

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        self._tasks.create_task(self.run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        try:
            await self._tasks.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if len(group.exceptions) > 1:
                raise
            raise group.exceptions[0] from None
