"""Retries of events whose handler failed: the pauses, whose fault it was, and when an outage stops the counting.

``loop`` fetches due events, through ``session.find_due``.
"""

import logging
import re
import socket
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from cdc_outbox.backoff import Backoff
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.item import Item, unreadable
from cdc_outbox.consumer.ordering import Aggregate, aggregate_of
from cdc_outbox.consumer.parked_events import Failure, Reason
from cdc_outbox.databases.drivers import translate
from cdc_outbox.databases.drivers.listeners import ListenerError
from cdc_outbox.errors import (
    BrokerUnavailableError,
    CdcOutboxError,
    ConfigError,
    ConnectUnavailableError,
    DatabaseError,
    DatabaseUnavailableError,
    DuplicateEventError,
    HandlerError,
    MessageError,
    TransactionConflictError,
    TransactionTimeoutError,
)
from cdc_outbox.event import RecordedEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How events are retried after their handler failed, and what is stored of the error.

    Args:
        inline_retry_seconds: How long an event is tried again at once while its partition waits. Long enough for a
            hiccup, and short enough that the other aggregates hardly notice.
        first_pause_seconds: The first pause between tries at once; each is twice the one before.
        parked_pause_seconds: How long it is parked after that; twice as long after each further attempt.
        longest_pause_seconds: The longest pause of either kind: a fix is noticed within that time.
        max_attempts: After how many attempts it is dead; immediate retries count as one. With the pauses
            above 25 attempts take two to three hours: a system that one aggregate alone needs may be away for as long.
        park_at_once: Errors that another try cannot fix: the event is dead after the first one.
        error_texts: Whether the park and the log quote what a handler's exception says, up to 500 characters of it: as
            a rule it tells the cause. With ``False`` they have its class and the line that raised it: for handlers
            whose errors quote what is private.
    """

    inline_retry_seconds: float = 2.0
    first_pause_seconds: float = 0.05
    parked_pause_seconds: float = 5.0
    longest_pause_seconds: float = 600.0
    max_attempts: int = 25
    park_at_once: tuple[type[Exception], ...] = ()
    error_texts: bool = True

    def __post_init__(self) -> None:
        for name in ("first_pause_seconds", "parked_pause_seconds", "longest_pause_seconds"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be greater than 0", field=f"Retry.{name}")
        if self.inline_retry_seconds < 0:
            raise ConfigError("inline_retry_seconds must not be negative", field="Retry.inline_retry_seconds")
        if self.max_attempts < 1:
            raise ConfigError("max_attempts must be at least 1", field="Retry.max_attempts")

    def is_hopeless(self, error: BaseException | None) -> bool:
        """Return whether a retry cannot fix an error; an error of the outbox is also judged by its cause."""
        cause = error.__cause__ if isinstance(error, _JUDGED_BY_CAUSE) else None
        return isinstance(error, self.park_at_once) or isinstance(cause, self.park_at_once)

    def inline_pause(self, tries: int, elapsed_seconds: float, random: Random) -> float | None:
        """Return how long to wait before the next immediate retry, ``None`` if that would take too long.

        Args:
            tries: How many there were, at least one.
            elapsed_seconds: Since the first of them failed.
        """
        pause = Backoff(self.first_pause_seconds, self.longest_pause_seconds).pause(tries - 1, random)
        return pause if elapsed_seconds + pause <= self.inline_retry_seconds else None

    def parked_pause(self, attempts: int, random: Random) -> float | None:
        """Return how long an event is parked after so many attempts, ``None`` if it is dead."""
        if attempts >= self.max_attempts:
            return None
        return Backoff(self.parked_pause_seconds, self.longest_pause_seconds).pause(attempts - 1, random)


_log = logging.getLogger(__name__)


_JUDGED_BY_CAUSE = DatabaseError, DuplicateEventError, ListenerError
_BACKOFF = Backoff(0.1, 5.0)
"""Quick for a deadlock, patient for a database that restarts."""
_MAX_CONFLICTS = 5
"""How often an event may meet other transactions, alone in its own, before that counts as its failure."""
_MOST_LOSSES = 3
"""How often the connection may break under one event, with a working one each time, before the event did it."""


class _Tries(NamedTuple):
    """How often an event was tried, since when, and where it came from."""

    times: int
    since: float
    topic_partition: TopicPartition


class RetryTracker:
    """The retries of events that failed since they were polled, their numbers, and retries that no event caused.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        retry: Retry,
        *,
        random: Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._retry = retry
        self._random = random or Random()  # noqa: S311 - no secret
        self._clock = clock
        self._tries: dict[str, _Tries] = {}
        self._conflicts: dict[str, tuple[int, TopicPartition]] = {}
        self._losses: dict[str, int] = {}
        self._pauses = 0

    def is_hopeless(self, error: CdcOutboxError) -> bool:
        """Return whether a handler's error is one that another try cannot fix."""
        return self._retry.is_hopeless(error.__cause__)

    def excuses(self, item: Item) -> bool:
        """Note that an event conflicted with another transaction, and return whether that may be chance."""
        times = self._conflicts.get(item.event_id, (0, item.topic_partition))[0] + 1
        self._conflicts[item.event_id] = times, item.topic_partition
        return times < _MAX_CONFLICTS

    def lost(self, items: Sequence[Item]) -> bool:
        """Note that the connection broke while these were handled, and return whether one of them is to blame.

        Of several one is, if it broke before; a single one is at the third time. Without any the server is to blame,
        for the times before too.
        """
        if not items:
            self._losses.clear()
            return False
        before = [self._losses.get(item.event_id, 0) for item in items]
        is_alone = len(items) == 1
        for item, times in zip(items, before, strict=True):
            self._losses[item.event_id] = times + 1 if is_alone else max(times, 1)
        return before[0] + 1 >= _MOST_LOSSES if is_alone else any(before)

    def blamed(self, error: CdcOutboxError, begun: Sequence[Item], seconds: float, limit: float) -> CdcOutboxError:
        """Take a lost connection for a failure of the events whose handlers began, after some losses or seconds."""
        if not isinstance(error, DatabaseUnavailableError):
            return error
        if seconds >= limit:
            return TransactionTimeoutError(f"{error}, after {seconds:.0f} s in one transaction")
        if not self.lost(begun):
            return error
        return HandlerError(f"the connection broke again in the handler of {begun[0].event}: {error}")

    def judge(self, item: Item, error: CdcOutboxError, *, at_once: bool = False) -> tuple[Item, float | None]:
        """Return the event to deliver again, and how long to wait before that.

        An event that comes out of the park is not tried again at once: it has waited already.

        Args:
            at_once: Whether to park it without trying again before.
        """
        if isinstance(error, MessageError):
            return replace(unreadable(item.message, error, item.parked, item.aggregate), turn=item.turn), None
        is_crash = self._losses.get(item.event_id, 0) >= _MOST_LOSSES
        is_hopeless = is_crash or self.is_hopeless(error)
        if item.parked is not None or item.event_id not in self._tries:  # once for all tries at once
            cause = error.__cause__ if self._retry.error_texts else silenced(error.__cause__)
            _log.debug("handler failed", exc_info=cause, extra={"event_id": item.event_id})
        if item.parked is None and not is_hopeless and not at_once:
            tries, since, _ = self._tries.get(item.event_id, _Tries(0, self._clock(), item.topic_partition))
            self._tries[item.event_id] = _Tries(tries + 1, since, item.topic_partition)
            pause = self._retry.inline_pause(tries + 1, self._clock() - since, self._random)
            if pause is not None:
                return item, pause
        attempts = (item.parked.attempts if item.parked else 0) + 1
        seconds = None if is_hopeless else self._retry.parked_pause(attempts, self._random)
        fields: dict[str, object] = {"event_id": item.event_id, "reason": str(error), "attempts": attempts}
        if seconds is None:
            _log.error("event is dead", extra=fields)
        else:
            text = "event is parked" if attempts == 1 else "parked event failed again"
            _log.error(text, extra={**fields, "retry_seconds": round(seconds, 2)})
        reason = Reason.CRASHED if is_crash else Reason.FAILED
        return item.failing(Failure(reason=reason, error=str(error), attempts=attempts, retry_seconds=seconds)), None

    def next_pause(self) -> float:
        """Return how long to wait where no event is to blame: longer each time, until events are done with."""
        self._pauses += 1
        return _BACKOFF.pause(self._pauses - 1, self._random)

    def forget(self, items: Iterable[Item]) -> None:
        """Forget events that are done with, and the pauses before."""
        self._pauses = 0
        if self._tries or self._conflicts or self._losses:
            for item in items:
                self._tries.pop(item.event_id, None)
                self._conflicts.pop(item.event_id, None)
                self._losses.pop(item.event_id, None)

    def keep(self, owns: Callable[[TopicPartition], bool]) -> None:
        """Forget the events of all other partitions: one that comes again is tried as if for the first time."""
        if self._tries or self._conflicts:
            self._tries = {event_id: tried for event_id, tried in self._tries.items() if owns(tried.topic_partition)}
            self._conflicts = {event_id: met for event_id, met in self._conflicts.items() if owns(met[1])}


def silenced(error: BaseException | None, depth: int = 10) -> BaseException | None:
    """Return an exception whose traceback looks the same but that says nothing, nor do its causes.

    Args:
        depth: How many of them are shown; they may go round in a circle.
    """
    if error is None or not depth:
        return None
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    kind = type(error)
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__}
    silent: BaseException = type(kind.__name__, (Exception,), names)()
    silent.__cause__ = silenced(cause, depth - 1)
    silent.__traceback__ = error.__traceback__
    return silent


_AGGREGATES = 3
"""How many aggregates fail alike before it is an outage: two may be chance, and each one more is parked first."""
_MOST_TRIES = 10_000
"""Of how many events it is remembered that they were tried; more are not at hand at a time."""
_MOST_CAUSES = 100
"""How many causes are distinguished, should some error have another host or code each time."""
NETWORK_ERRORS = (ConnectionError, TimeoutError, socket.gaierror)
"""What the operating system says where nothing answers: asyncpg lets it pass, clients of HTTP have it as a cause."""
_HOST = re.compile(
    r"""(?:(?:server\ at|server\ on|on\ socket|resolve\ host|host\ name|\bhost=|call\ failed\ \()\s*["']
    |connect\ to\ host\ |connecting\ to\ )([\w.:/\\-]*[\w/])["']?(?:(?:\ \([^)]*\))?,(?:\ port)?[ =]*(\d+))?""",
    re.VERBOSE,
)
"""Where errors of libpq, psycopg, PyMySQL, asyncio, urllib3, aiohttp and redis name the host, and its port."""


class Cause(NamedTuple):
    """What a handler could not use: two errors that are alike have equal causes.

    Args:
        kind: The error's class.
        code: Its SQLSTATE or number, empty where it has none.
        host: The host that it names, with its port if that is known; empty where it names none.
        is_conflict: Whether another transaction was in the way, which is over in a moment as a rule.
    """

    kind: str
    code: str
    host: str
    is_conflict: bool = False

    def __str__(self) -> str:
        return " ".join(filter(None, [self.kind, self.code, self.host and f"at {self.host}"]))


def cause_of(error: BaseException | None) -> Cause | None:
    """Return what a handler's error says of a system that is away or in the way; ``None`` where it says nothing.

    A handler that took too long, for the server or for us, has only itself to blame.
    """
    links = list(_chain(error))
    for link in links:
        if isinstance(link, TransactionConflictError) and link.__cause__ is not None:
            continue  # an outbox's: the driver's own comes next, and decides as where a handler executes it
        ours = link if isinstance(link, CdcOutboxError) else translate(link)
        if isinstance(ours, TransactionTimeoutError):
            return None
        if not _is_away(link, ours):
            continue
        code = ours.sqlstate if isinstance(ours, DatabaseError) and ours.sqlstate else _number(link)
        is_conflict = isinstance(ours, TransactionConflictError)
        return Cause(type(link).__qualname__, code, _host_in(links), is_conflict)
    return None


def _host_in(links: Iterable[BaseException]) -> str:
    """Return the host that errors name in their texts, or that the code knew that raised them; with a port, if any."""
    found: list[tuple[str, object]] = []
    for link in links:
        found += [(named[1], named[2]) for named in _HOST.finditer(str(link))][:1]
        frames = [frame.f_locals for frame, _ in traceback.walk_tb(link.__traceback__)]
        known = [(each["host"], each["port"]) for each in reversed(frames) if {"host", "port"} <= each.keys()]
        found += [(host, port) for host, port in known if isinstance(host, str) and isinstance(port, int)][:1]
    host, port = max(found, key=lambda each: bool(each[1]), default=("", None))
    return f"{host}:{port}" if port else host


def _is_away(error: BaseException, ours: CdcOutboxError | None) -> bool:
    if isinstance(ours, DatabaseError | BrokerUnavailableError | ConnectUnavailableError):
        return ours.retryable
    return isinstance(error, NETWORK_ERRORS)


def _number(error: BaseException) -> str:
    number = next(iter(error.args), None)
    return str(number) if isinstance(number, int) else ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Return an error and those that led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


class CircuitBreaker:
    """The failures since the last event of the same type was applied, and what they have in common.

    Args:
        aggregates: How many have to fail alike before the circuit opens.
    """

    def __init__(self, aggregates: int = _AGGREGATES) -> None:
        self._aggregates = aggregates
        self._failed: dict[Cause, dict[Aggregate, str]] = {}
        self._tries: Counter[str] = Counter()
        """How often events, and events of a type, were tried in vain."""
        self.cause: Cause | None = None
        """The cause of the outage; ``None`` while the circuit is closed."""
        self.last_host = ""
        """The host of the last outage."""

    @property
    def is_open(self) -> bool:
        """Whether there is an outage, so that one event is tried, and nothing counts."""
        return self.cause is not None

    def failed(self, event: RecordedEvent, cause: Cause) -> bool:
        """Note that an event's handler failed, and return whether an outage is the reason.

        An error that names no host is its event's own: each may have met another system. An outage is one of a host,
        whatever its errors are: a server that was unreachable is starting up, or full, a moment later.
        """
        if self.cause is not None or not cause.host:
            return self.cause is not None and self.cause.host == cause.host
        if len(self._failed) >= _MOST_CAUSES:
            self._failed.clear()
        alike = self._failed.setdefault(cause, {})
        alike[aggregate_of(event)] = event.type
        self.tried(event)
        if len(alike) >= self._aggregates:
            self.cause, self.last_host = cause, cause.host
        return self.is_open

    def tried(self, event: RecordedEvent) -> None:
        """Note that an event is tried."""
        if len(self._tries) >= _MOST_TRIES:
            self._tries.clear()
        self._tries.update((event.id, event.type))

    def rank(self, item: Item) -> tuple[int, int]:
        """Return how often an event was tried, and how often events of its type were: the lowest is tried next."""
        return self._tries[item.event.id], self._tries[item.event.type]

    def succeeded(self, event_types: Iterable[str]) -> None:
        """Note that events of these types were applied: what failed of the same types is no evidence any more.

        Events of another type may need nothing of what is away. In an outage they show that there is work to do.
        """
        if not self._failed:
            return
        types = set(event_types)
        if types and self.is_open:
            self.close()
        left = {
            cause: {aggregate: event_type for aggregate, event_type in alike.items() if event_type not in types}
            for cause, alike in self._failed.items()
        }
        self._failed = {cause: alike for cause, alike in left.items() if alike}

    def close(self) -> None:
        """Forget all failures."""
        self._failed.clear()
        self.cause = None
