"""The protocols between the components and their observers: metrics, progress and spans.

Nothing is imported for tracing: a service that traces has imported ``opentelemetry`` itself, and one that has not
pays a look into a dictionary for each event.
"""

import logging
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from cdc_outbox.event import RecordedEvent
from cdc_outbox.message import Message
from cdc_outbox.redaction import shortened

if TYPE_CHECKING:
    from opentelemetry.propagators.textmap import TextMapPropagator
    from opentelemetry.trace import Link, Tracer, TracerProvider


_log = logging.getLogger(__name__)


class Metrics(Protocol):
    """The metrics that a component reports about its work.

    Called on the component's own thread, and after the reported fact is durable. Names and labels are those of
    one of :data:`~cdc_outbox.monitoring.series.SERIES`. An implementation must not block, and what it raises is logged
    once; several components may share one.
    """

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Add to a counter, 0 or more: 0 makes it exist, so that its first increase is seen as one."""

    def measure(self, name: str, /, *values: float, **labels: str) -> None:
        """Put values into a histogram: those of a whole batch cost one call."""

    def set(self, name: str, value: float | None, /, **labels: str) -> None:
        """Set a gauge; ``None`` takes it away, as for a partition that belongs to another consumer now."""


class NoMetrics:
    """Count nothing."""

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Forget it."""

    def measure(self, name: str, /, *values: float, **labels: str) -> None:
        """Forget them."""

    def set(self, name: str, value: float | None, /, **labels: str) -> None:
        """Forget it."""


class GuardedMetrics:
    """Pass calls to other metrics, and keep their errors from the caller; the first error is logged."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._has_failed = False

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Add to a counter."""
        self._call(name, lambda: self._metrics.count(name, amount, **labels))

    def measure(self, name: str, /, *values: float, **labels: str) -> None:
        """Put values into a histogram."""
        self._call(name, lambda: self._metrics.measure(name, *values, **labels))

    def set(self, name: str, value: float | None, /, **labels: str) -> None:
        """Set a gauge."""
        self._call(name, lambda: self._metrics.set(name, value, **labels))

    def _call(self, name: str, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:  # noqa: BLE001 - whatever it is, it is not worth an event's effects
            if not self._has_failed:
                _log.exception("metrics backend raised; further errors are suppressed", extra={"series": name})
            self._has_failed = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedPartition:
    """A paused partition.

    Args:
        reason: A few words, such as ``park is full``.
    """

    topic: str
    partition: int
    reason: str

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A consumer's progress. Moments are those of ``time.monotonic()``, and ``None`` before the first one.

    Args:
        consumer: Its name.
        events: The number of processed events since it started.
        started_at: When its last run began; before the first run, when the object was created.
        polled_at: When it last polled the brokers, also by the thread that polls during a long handler.
        committed_at: When a transaction was last committed.
        waiting_since: Since when it has had unprocessed messages without a break; ``None`` while it is idle, not stuck.
        lag_events: Messages from the current ones to the ends of its partitions; ``None`` before that is known.
        paused: The paused partitions.
        waiting_events: Events that are parked until a missing one arrives or a retry is due.
        dead_events: Events that are parked until an operator decides.
        max_parked_events: The maximum of parked events; then partitions are paused. ``None`` means no limit.
        parked_bytes: The bytes of their messages.
        max_parked_bytes: The maximum of these bytes before partitions are paused. ``None`` means no limit.
        gap_seconds: How long the oldest missing event has been missing, once that raises the alarm.
        outage: The system that it waits for, such as ``the database``; empty if it reaches all.
        stopping: Whether it was stopped, and finishes the current batch.
        absent_since: Since when the brokers answer that it is no member of its group; ``None`` if it is one.
        unassigned_reason: Why it has no partition although it is a member; empty if it has some.
    """

    consumer: str
    events: int = 0
    started_at: float
    polled_at: float | None = None
    committed_at: float | None = None
    waiting_since: float | None = None
    lag_events: int | None = None
    paused: tuple[PausedPartition, ...] = ()
    waiting_events: int = 0
    dead_events: int = 0
    max_parked_events: int | None = None
    parked_bytes: int = 0
    max_parked_bytes: int | None = None
    gap_seconds: float | None = None
    outage: str = ""
    stopping: bool = False
    absent_since: float | None = None
    unassigned_reason: str = ""


class RelayState(StrEnum):
    """What a relay does."""

    STANDBY = "standby"
    """Another process reads the source; this one takes over when it ends."""
    READING = "reading"
    WAITING = "waiting"
    """An error ended the last attempt, or there was none yet; the next one follows."""
    STOPPING = "stopping"
    """It was stopped, and delivers what it has read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayProgress:
    """A relay's progress. Moments are those of ``time.monotonic()``, and ``None`` before the first one.

    Args:
        relay: Its name.
        events: The number of delivered events since it started, repeated ones too.
        started_at: When it was created.
        polled_at: When its loop last ran, or an attempt began.
        delivered_at: When an event was last delivered.
        waiting_since: When the oldest event was read that is not delivered; ``None`` while it is idle.
        failing_since: Since when every attempt has ended with an error; ``None`` while it reads or stands by.
        error: The class of that error; empty if there is none.
        lag_bytes: How much of the log is not confirmed; ``None`` where that is not known.
        warning: What needs the operator's attention at the source; empty if nothing does.
        silent: The connection that has not answered for longest: ``stream``, ``database`` or ``sink``; empty if all do.
        silent_since: Since when.
    """

    relay: str
    state: RelayState
    events: int = 0
    started_at: float
    polled_at: float | None = None
    delivered_at: float | None = None
    waiting_since: float | None = None
    failing_since: float | None = None
    error: str = ""
    lag_bytes: int | None = None
    warning: str = ""
    silent: str = ""
    silent_since: float | None = None


class Monitored(Protocol):
    """A consumer or a relay, which reports its progress as :class:`HasProgress` says."""

    def progress(self) -> Progress | RelayProgress:
        """Return the progress, without waiting."""


class HasProgress(Protocol):
    """An object that reports its progress."""

    def progress(self) -> Progress:
        """Return the progress at any time, from any thread; it waits for no server and no lock of a handler."""


Arrival = tuple[RecordedEvent, Message]
"""An event, and the message that brought it."""
_Attributes = dict[str, str | int | bool]
_LONGEST = 300
"""Characters of an id that a span tells: a text of a message is as long as its writer likes."""


class Spans(Protocol):
    """What a consumer tells about the time that a handler takes.

    Entered before the handler and left after it, on the handler's thread; not yet committed then, and perhaps never.
    What the handler raises passes through. An implementation itself must not raise and must not block, and keeps
    nothing of payloads.
    """

    def process(self, consumer: str, arrivals: Sequence[Arrival]) -> AbstractContextManager[object]:
        """Return the span of one call of a handler: with one event, or with a batch of them, at least one."""


class NoSpans:
    """Trace nothing."""

    def process(self, consumer: str, arrivals: Sequence[Arrival]) -> AbstractContextManager[object]:  # noqa: ARG002
        """Return nothing to trace with."""
        return NO_SPAN


NO_SPAN: AbstractContextManager[object] = nullcontext()
"""Traces nothing. One object for all calls, because it has no state."""


class OpenTelemetrySpans:
    """Make a ``process`` span, as OpenTelemetry's conventions for messaging have it, where an SDK runs.

    It is linked to the span whose context came in ``traceparent`` and ``tracestate``, and current while the handler
    runs: what the handler does, events that it adds among it, becomes its child. Of an error only the class is kept.

    Args:
        provider: Default: the global one, read at each transaction, so that the service may set it late.
    """

    def __init__(self, provider: "TracerProvider | None" = None) -> None:
        self._provider = provider

    @property
    def provider(self) -> "TracerProvider | None":
        """The provider that makes the spans, ``None`` where there is none yet."""
        return self._provider or running_provider()

    def process(self, consumer: str, arrivals: Sequence[Arrival]) -> AbstractContextManager[object]:
        """Return the span of one call of a handler."""
        provider = self.provider
        return NO_SPAN if provider is None else _span(tracer_of(provider), consumer, arrivals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """Receivers of a consumer's metrics and spans.

    Args:
        metrics: Receives the series of :data:`cdc_outbox.monitoring.series.SERIES`. By default nothing is counted: the
            service chooses the library that exports metrics.
        spans: Receives the duration of handlers. Default: OpenTelemetry, if its SDK runs; without one it costs nothing.
    """

    metrics: Metrics = field(default_factory=NoMetrics)
    spans: Spans = field(default_factory=OpenTelemetrySpans)


class HandlerTelemetry:
    """Spans and metrics of the calls of a consumer's handlers.

    Args:
        consumer: Its name.
        begins: Called before each handler.
    """

    def __init__(self, consumer: str, telemetry: Telemetry, begins: Callable[[], None] = lambda: None) -> None:
        self.begins = begins
        self._consumer, self._telemetry = consumer, telemetry
        self._seconds: defaultdict[str, list[float]] = defaultdict(list)

    @property
    def is_traced(self) -> bool:
        """Whether a handler's call may have a span now; read once for a transaction."""
        spans = self._telemetry.spans
        # The exact types, because a subclass may trace more.
        if type(spans) is OpenTelemetrySpans:
            return spans.provider is not None
        return type(spans) is not NoSpans

    def process(self, arrivals: Sequence[Arrival]) -> AbstractContextManager[object]:
        """Return the span of one call of a handler."""
        return self._telemetry.spans.process(self._consumer, arrivals)

    def took(self, event_type: str, seconds: float) -> None:
        """Note how long a call took."""
        self._seconds[event_type].append(seconds)

    def measure(self) -> None:
        """Report how long calls took since the last report; after their transaction, which must not wait for it."""
        seconds, self._seconds = self._seconds, defaultdict(list)
        for event_type, values in seconds.items():
            name = "cdc_outbox_consumer_handler_seconds"
            self._telemetry.metrics.measure(name, *values, consumer=self._consumer, type=event_type)


def running_provider() -> "TracerProvider | None":
    """Return the tracer provider of this process's SDK, or ``None`` where there is none."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    provider = trace.get_tracer_provider()
    # The API without an SDK has these.
    return None if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider) else provider


@lru_cache(maxsize=4)
def tracer_of(provider: "TracerProvider") -> "Tracer":
    """Return this package's tracer."""
    return provider.get_tracer("cdc_outbox")


@contextmanager
def _span(tracer: "Tracer", consumer: str, arrivals: Sequence[Arrival]) -> Iterator[None]:
    trace: Any = sys.modules["opentelemetry.trace"]
    topics = {message.topic for _, message in arrivals}
    destination: _Attributes = {"messaging.destination.name": topics.pop()} if len(topics) == 1 else {}
    alone = len(arrivals) == 1
    # https://opentelemetry.io/docs/specs/semconv/messaging: a package of constants would be one more dependency.
    attributes: _Attributes = {
        "messaging.system": "kafka",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.consumer.group.name": consumer,
        **destination,
        **(_of_one(*arrivals[0]) if alone else {"messaging.batch.message_count": len(arrivals)}),
    }
    # All at its start and not later: samplers decide by what a span starts with.
    with tracer.start_as_current_span(
        " ".join(["process", *map(str, destination.values())]),
        kind=trace.SpanKind.CONSUMER,
        attributes=attributes,
        links=_links(trace, arrivals),
        record_exception=False,  # its text and its trace may quote the payload
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except BaseException as error:
            kind = type(error)
            span.set_attribute("error.type", f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."))
            span.set_status(trace.StatusCode.ERROR)
            raise


def _links(trace: ModuleType, arrivals: Sequence[Arrival]) -> "list[Link]":
    """Return a link to the span under which each event was written, where it says so."""
    alone = len(arrivals) == 1
    made = []
    for event, message in arrivals:
        if "traceparent" in event.headers:
            around = _propagator().extract(event.headers)
            context = trace.get_current_span(around).get_span_context()
            if context.is_valid:
                made.append(trace.Link(context, None if alone else _of_one(event, message)))
    return made


def _of_one(event: RecordedEvent, message: Message) -> _Attributes:
    """Return what tells one message from others: a span's attributes, or those of a batch's link."""
    attributes: dict[str, str | int | bool | None] = {
        "messaging.message.id": shortened(event.id, _LONGEST),
        "messaging.destination.name": message.topic,
        "messaging.destination.partition.id": None if message.partition is None else str(message.partition),
        "messaging.kafka.message.key": shortened(event.aggregate_id, _LONGEST),
        "messaging.kafka.offset": message.offset,
        "messaging.kafka.message.tombstone": True if message.value is None else None,
        "cdc_outbox.event.type": shortened(event.type),
        "cdc_outbox.event.sequence": event.sequence,
    }
    return {name: value for name, value in attributes.items() if value is not None}


@lru_cache(maxsize=1)
def _propagator() -> "TextMapPropagator":
    module: Any = import_module("opentelemetry.trace.propagation.tracecontext")
    return module.TraceContextTextMapPropagator()  # type: ignore[no-any-return]
