"""What a consumer notices about itself: counts, the park's size, gaps that last, and how far it is."""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime

from cdc_outbox.consumer.delivery import Delivered
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.item import Item, Outcome
from cdc_outbox.consumer.limits import Limits, Room
from cdc_outbox.consumer.parked_events import ParkedCount, Reason, State
from cdc_outbox.errors import (
    BrokerError,
    CdcOutboxError,
    DatabaseError,
    NoHandlerError,
    PartitionLostError,
    TransactionConflictError,
)
from cdc_outbox.redaction import counted, shortened
from cdc_outbox.telemetry import Metrics, PausedPartition, Progress
from cdc_outbox.text_files.document import did_you_mean

LOG = __name__
"""The log in which a consumer reports what it reads, what it waits for, and that it resumes."""
_log = logging.getLogger(LOG)

_FULL = "the parking limit is reached"
_MAX_WARNED = 200
"""Event types without a handler that are warned of: more than a service has, unless an id stands in the type."""
_COUNT_SHARE, _LAST_COUNT_SECONDS = 0.05, 30.0
"""How much of the time may be spent on counting parked events, and how old the counts get at most."""
_DATABASE, _HANDLED, _BROKERS = "the database", "an event with a handler", "the brokers"
"""Outages besides those of systems that handlers need, whose end the loop logs."""
_SHOWN = 5
"""Topics that a record names."""
_UNASSIGNED_SECONDS = 10.0
"""How long a consumer is without a partition before it says so; to join a group takes less."""
_UNASSIGNED = (
    "waits to be assigned partitions: its topics do not exist, other members have them all, or the group still waits "
    "for a dead member until its session times out"
)


class ConsumerStats:
    """The counts of one consumer.

    Args:
        handled: Returns the event types that have a handler.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        name: str,
        limits: Limits,
        metrics: Metrics,
        handled: Callable[[], Iterable[str]] = tuple,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._limits, self._metrics, self._clock = name, limits, metrics, clock
        self._handled = handled
        self._unhandled: set[str] = set()
        self._handled_types: set[str] = set()
        """Event types whose handler was called: it is not misspelt."""
        self._unassigned_since: float | None = None
        self.outcomes: Counter[Outcome] = Counter()
        """How many events came to which end since this object was made."""
        self.is_due = False
        """Whether there is something in the park that can be applied now."""
        self.polled_at: float | None = None
        self.handler_at = clock()
        """When the last handler began."""
        self._started_at = clock()
        self._committed_at: float | None = None
        self._waiting_since: float | None = None
        self._count_at = -math.inf
        self._looked_at = -limits.parked_poll_seconds
        self._parked: Counter[tuple[State, Reason]] = Counter()
        self._parked_bytes = 0
        self._gap_seconds: float | None = None
        self._lags: dict[TopicPartition, int] = {}
        self._assigned: set[TopicPartition] = set()
        self._has_caught_up = False
        self._paused: set[TopicPartition] = set()
        self._outage = ""
        self._last_reason = ""
        """The text of the last error that led to a retry."""
        self._is_connected = True
        self.has_joined = False
        """Whether the group has given it partitions since the run began."""
        self.is_renewed = False
        """Whether its client was made because the one before was no member of the group; until this one is one."""
        self._absent_since: float | None = None
        self._unassigned_reason = ""
        self._is_stopping = False

    @property
    def room(self) -> Room:
        """How much more may be parked."""
        return self._limits.room.without(self._parked.total(), self._parked_bytes)

    def wants_a_look(self) -> bool:
        """Return whether it is time to look into the park."""
        if self.is_due or self._clock() - self._looked_at >= self._limits.parked_poll_seconds:
            self.is_due = False
            self._looked_at = self._clock()
            return True
        return False

    def started(self) -> None:
        """Note that a run begins."""
        self._started_at, self._is_stopping, self.polled_at = self._clock(), False, None
        self._unassigned_since, self._is_connected = self._started_at, True
        self.has_joined = self.has_joined and self.is_renewed
        self._assigned, self._last_reason, self._absent_since, self._unassigned_reason = set(), "", None, ""
        _log.info("joining the group", extra={"consumer": self._name})
        self._metrics.set("cdc_outbox_consumer_last_progress_timestamp_seconds", time.time(), consumer=self._name)

    def stopping(self) -> None:
        """Note that the run ends."""
        self._is_stopping = True

    def has_work(self, *, waits: bool) -> None:
        """Note whether messages are at hand that are not done with."""
        if not waits:
            self._waiting_since = None
        elif self._waiting_since is None:
            self._waiting_since = self._clock()

    def wants_counts(self) -> bool:
        """Return whether it is time to count what is parked."""
        return self._clock() >= self._count_at

    def looked(self, counts: Sequence[ParkedCount], seconds: float = 0.0) -> None:
        """Take what is in the park, and tell of a gap that lasts.

        Args:
            seconds: How long it took to count; to count takes the longer the more is parked.
        """
        self._count_at = self._clock() + min(_LAST_COUNT_SECONDS, seconds / _COUNT_SHARE)
        parked = Counter({(count.state, count.reason): count.events for count in counts})
        for state, reason in self._parked.keys() | parked.keys():
            self._metrics.set(
                "cdc_outbox_consumer_parked_events",
                parked[state, reason],
                consumer=self._name,
                state=state,
                reason=reason,
            )
        self._parked, self._parked_bytes = parked, sum(count.bytes for count in counts)
        self._metrics.set("cdc_outbox_consumer_parked_bytes", self._parked_bytes, consumer=self._name)
        oldest = max((count.gap_seconds for count in counts), default=0.0)
        self._metrics.set("cdc_outbox_consumer_oldest_gap_seconds", oldest, consumer=self._name)
        is_alarm = oldest >= self._limits.gap_alarm_seconds
        if is_alarm and self._gap_seconds is None:
            waiting = sum(count.gap_events for count in counts)
            _log.warning("events wait for a missing one", extra={"events": waiting, "seconds": round(oldest, 2)})
        self._gap_seconds = oldest if is_alarm else None

    def lagged(self, lags: Mapping[TopicPartition, int], *, assigned: Collection[TopicPartition]) -> None:
        """Note how many messages are left in each partition, where that is known, and which are assigned.

        Called after a look into the database.
        """
        self._goes_on(_DATABASE)
        if self._assigned != set(assigned):
            self._assigned, self._has_caught_up = set(assigned), False
            topics = sorted({tp.topic for tp in assigned})
            names = ", ".join(topics[:_SHOWN]) + (f" and {len(topics) - _SHOWN} more" if topics[_SHOWN:] else "")
            _log.info("reads", extra={"consumer": self._name, "partitions": len(assigned), "topics": names})
        if assigned and not self._has_caught_up and lags.keys() >= self._assigned and not any(lags.values()):
            self._has_caught_up = True
            _log.info("has read everything, and waits for new events", extra={"consumer": self._name})
        for tp in self._lags.keys() - lags.keys():
            self._set("cdc_outbox_consumer_lag_events", None, tp)
        for tp, lag in lags.items():
            self._set("cdc_outbox_consumer_lag_events", lag, tp)
        self._lags = dict(lags)
        self._metrics.set("cdc_outbox_consumer_assigned_partitions", len(assigned), consumer=self._name)
        if assigned or self._unassigned_reason:
            self._unassigned_since = None
        elif self._unassigned_since is not None and self._clock() - self._unassigned_since >= _UNASSIGNED_SECONDS:
            seconds, self._unassigned_since = self._clock() - self._unassigned_since, None
            _log.warning(_UNASSIGNED, extra={"consumer": self._name, "seconds": round(seconds, 2)})

    def paused(self, partitions: set[TopicPartition]) -> None:
        """Take which partitions wait for room in the park."""
        for tp in partitions ^ self._paused:
            value = 1 if tp in partitions else None
            self._set("cdc_outbox_consumer_partition_paused", value, tp, reason=_FULL)
        self._paused = partitions

    def rebalanced(self, change: str) -> None:
        """Count that partitions were ``assigned``, ``revoked`` or ``lost``."""
        self.has_joined = self.has_joined or change == "assigned"
        self._metrics.count("cdc_outbox_consumer_rebalances_total", consumer=self._name, change=change)

    def members_described(self, members: Mapping[str, int] | None, member_id: str | None, now: float) -> float:
        """Take how many partitions each member of the group has, and return for how long this consumer is none of them.

        Args:
            members: ``None`` where the brokers do not tell.
        """
        owned = None if members is None else members.get(member_id or "")
        reason = ""
        if members is None:
            self._absent_since = None
        elif owned is None:
            self._absent_since = now if self._absent_since is None else self._absent_since
        else:
            self._absent_since, self.is_renewed = None, False
            self.reads()
            if not owned and 0 < (partitions := sum(members.values())) < len(members):
                reason = f"the group has {len(members)} members for {counted(partitions, 'partition')}"
        if reason and not self._unassigned_reason:
            _log.info("has no partition until another member leaves", extra={"reason": reason})
        self._unassigned_reason = reason
        return 0.0 if self._absent_since is None else now - self._absent_since

    def reads(self) -> None:
        """Note that the brokers answered."""
        self._goes_on(_BROKERS)

    def connected(self, is_connected: bool) -> None:  # noqa: FBT001 - librdkafka's statistics say no more
        """Note whether any broker is connected."""
        if is_connected is not self._is_connected:
            _log.warning("a broker is connected again" if is_connected else "no broker is connected")
        self._is_connected = is_connected

    def offsets_committed(self, *, is_done: bool) -> None:
        """Count the answer to a commit of offsets."""
        result = "committed" if is_done else "failed"
        self._metrics.count("cdc_outbox_consumer_offset_commits_total", consumer=self._name, result=result)

    def applied(self, items: Sequence[Item], delivered: Delivered, seconds: float) -> None:
        """Count a committed transaction.

        Args:
            seconds: How long it took.
        """
        now, applied, outcomes = datetime.now(UTC), Outcome.APPLIED, delivered.outcomes
        done, counts = items, Counter([(item.event.type, applied) for item in items])
        if outcomes.count(applied) < len(items):  # as a rule all are
            done = [item for item, outcome in zip(items, outcomes, strict=True) if outcome is applied]
            counts = Counter(
                (item.event.type, outcome)
                for item, outcome in zip(items, outcomes, strict=True)
                if item.parked is None or outcome is not Outcome.PARKED  # which stays where it is
            )
        ends: Counter[tuple[str, Outcome]] = Counter()
        for (event_type, outcome), events in counts.items():
            ends[shortened(event_type), outcome] += events
        ways = [(now - item.event.created_at).total_seconds() for item in done]
        for (event_type, outcome), events in ends.items():
            self.outcomes[outcome] += events
            self._metrics.count(
                "cdc_outbox_consumer_events_total", events, consumer=self._name, outcome=outcome, type=event_type
            )
            if outcome is Outcome.APPLIED:
                self._handled_types.add(event_type)
        for event_type, outcome in ends:
            if outcome is Outcome.UNHANDLED:
                self._warn_once(event_type)
        self._tell_fixed(items, delivered)
        self._metrics.count("cdc_outbox_consumer_batches_total", consumer=self._name, result="committed")
        self._metrics.measure("cdc_outbox_consumer_batch_events", len(items), consumer=self._name)
        self._metrics.measure("cdc_outbox_consumer_batch_seconds", seconds, consumer=self._name)
        self._metrics.measure("cdc_outbox_consumer_end_to_end_seconds", *ways, consumer=self._name)
        self._metrics.set("cdc_outbox_consumer_last_progress_timestamp_seconds", time.time(), consumer=self._name)
        for reason, events in delivered.parked.items():
            # Of a handler that fails, each attempt is logged where it is made.
            if reason.state is State.DEAD and reason is not Reason.FAILED:
                _log.error("events are dead", extra={"reason": reason, "events": events})
        # By state it is known with the next look.
        self._parked.update({(reason.state, reason): events for reason, events in delivered.parked.items()})
        self._parked_bytes += delivered.parked_bytes
        self.is_due = self.is_due or delivered.woken > 0
        self._committed_at = self._clock()
        self._goes_on(_DATABASE, _HANDLED)
        self._outage = ""

    def handler_begins(self) -> None:
        """Note that a handler begins."""
        self.handler_at = self._clock()

    def failed(self) -> None:
        """Count a transaction that was undone for what its events are."""
        self._metrics.count("cdc_outbox_consumer_batches_total", consumer=self._name, result="undone")

    def retried(self, error: CdcOutboxError, outage: str = "", *, seconds: float | None = None) -> None:
        """Count what is tried again for no fault of an event's.

        Args:
            outage: The system that the consumer waits for, where that is not its own database.
            seconds: In how many it is tried again; ``None`` where the caller tells of it.
        """
        if seconds is not None and self._is_news(error):
            _log.warning("will be tried again", extra={"reason": str(error), "retry_seconds": round(seconds, 2)})
        if isinstance(error, NoHandlerError):
            outage = outage or _HANDLED
        elif isinstance(error, BrokerError):
            outage = outage or _BROKERS
        elif isinstance(error, DatabaseError) and not isinstance(error, TransactionConflictError):  # which it answered
            outage = outage or _DATABASE
        self._outage = outage or self._outage
        self._metrics.count("cdc_outbox_consumer_retries_total", consumer=self._name, reason=type(error).__name__)
        if isinstance(error, PartitionLostError):
            self._metrics.count("cdc_outbox_consumer_fenced_total", consumer=self._name)

    def progress(self) -> Progress:
        """Return how far it is; asked by other threads."""
        parked = dict(self._parked)
        return Progress(
            consumer=self._name,
            events=sum(dict(self.outcomes).values()),
            started_at=self._started_at,
            polled_at=self.polled_at,
            committed_at=self._committed_at,
            waiting_since=self._waiting_since,
            lag_events=sum(dict(self._lags).values()) if self._lags else None,
            paused=tuple(
                PausedPartition(topic=topic, partition=partition, reason=_FULL)
                for topic, partition in sorted(self._paused)
            ),
            waiting_events=sum(events for (state, _), events in parked.items() if state is State.WAITING),
            dead_events=sum(events for (state, _), events in parked.items() if state is State.DEAD),
            max_parked_events=self._limits.max_parked_events,
            parked_bytes=self._parked_bytes,
            max_parked_bytes=self._limits.max_parked_bytes,
            gap_seconds=self._gap_seconds,
            outage=" and ".join(dict.fromkeys(filter(None, [self._outage, "" if self._is_connected else _BROKERS]))),
            absent_since=self._absent_since,
            unassigned_reason=self._unassigned_reason,
            stopping=self._is_stopping,
        )

    def _is_news(self, error: CdcOutboxError) -> bool:
        """Return whether to log an error: a missing handler is logged once, for it stays missing until it is fixed."""
        before, self._last_reason = self._last_reason, str(error)
        return not isinstance(error, NoHandlerError) or self._last_reason != before

    def _goes_on(self, *outages: str) -> None:
        """Tell that one of these is over, if it is what was waited for."""
        if self._outage in outages:
            _log.warning("resumed", extra={"consumer": self._name, "waited_for": self._outage})
            self._outage = ""

    def _tell_fixed(self, items: Sequence[Item], delivered: Delivered) -> None:
        """Tell of events that failed, so that the log has them, and are applied at last."""
        for item, outcome in zip(items, delivered.outcomes, strict=True):
            if item.parked is not None and item.parked.attempts and outcome is Outcome.APPLIED:
                known = {"event_id": item.event_id, "attempts": item.parked.attempts + 1}
                _log.info("parked event applied", extra=known)

    def _warn_once(self, event_type: str) -> None:
        if event_type not in self._unhandled and len(self._unhandled) < _MAX_WARNED:
            self._unhandled.add(event_type)
            handled = sorted(self._handled())
            near = did_you_mean(event_type, [name for name in handled if name not in self._handled_types])
            details = {"type": event_type, "handled": ", ".join(handled)} | ({"hint": near} if near else {})
            _log.warning("no handler has this event type", extra=details)

    def _set(self, name: str, value: float | None, tp: TopicPartition, **labels: str) -> None:
        self._metrics.set(name, value, consumer=self._name, topic=tp.topic, partition=str(tp.partition), **labels)
