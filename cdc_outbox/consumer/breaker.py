"""Whether failing handlers are the fault of their events, or of a system that is away. Pure.

A handler that meets a database, a broker or a service that refuses it fails like any other, and its event is tried
again and parked. Where several aggregates fail alike, the events are innocent: then the circuit opens, nothing is
counted or parked, and one event is tried again and again until it can be applied.
"""

import re
import socket
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from cdc_outbox.consumer.ordering import Aggregate, aggregate_of
from cdc_outbox.drivers import translate
from cdc_outbox.errors import (
    BrokerUnavailableError,
    CdcOutboxError,
    ConnectUnavailableError,
    DatabaseError,
    TransactionConflictError,
    TransactionTimeoutError,
)
from cdc_outbox.event import Event

_AGGREGATES = 3
"""How many aggregates fail alike before it is an outage: two may be chance, and each one more is parked first."""
_MOST_CAUSES = 100
"""How many causes are told apart, should some error have another host or code each time."""
_NETWORK_ERRORS = (ConnectionError, TimeoutError, socket.gaierror)
"""What the operating system says where nothing answers; clients of HTTP raise their own because of one of these."""
_HOST = re.compile(r"""(?:\bat|\bon|\bhost=|failed \()\s*["']([\w.:/\\-]+)["']""")
"""Where errors of libpq, PyMySQL, asyncio and urllib3 name the host."""


class Cause(NamedTuple):
    """What a handler could not use: two errors that are alike have equal causes.

    Args:
        kind: The error's class.
        code: Its SQLSTATE or number, empty where it has none.
        host: The host that it names, empty where it names none.
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
        ours = link if isinstance(link, CdcOutboxError) else translate(link)
        if isinstance(ours, TransactionTimeoutError):
            return None
        if not _is_away(link, ours):
            continue
        code = ours.sqlstate if isinstance(ours, DatabaseError) and ours.sqlstate else _number(link)
        hosts = (found[1] for found in map(_HOST.search, map(str, links)) if found)
        is_conflict = isinstance(ours, TransactionConflictError)
        return Cause(type(link).__qualname__, code, next(hosts, ""), is_conflict)
    return None


def _is_away(error: BaseException, ours: CdcOutboxError | None) -> bool:
    if isinstance(ours, DatabaseError | BrokerUnavailableError | ConnectUnavailableError):
        return ours.retryable
    return isinstance(error, _NETWORK_ERRORS)


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
        self.cause: Cause | None = None
        """What is waited for; ``None`` while the circuit is closed."""

    @property
    def is_open(self) -> bool:
        """Whether there is an outage, so that one event is tried, and nothing counts."""
        return self.cause is not None

    def failed(self, event: Event, cause: Cause) -> bool:
        """Note that an event's handler failed, and return whether the circuit is open.

        An open circuit stays open whatever is in the way: what was unreachable is starting up, or full, a moment later.
        """
        if self.cause is None and len(self._failed) >= _MOST_CAUSES:
            self._failed.clear()
        alike = self._failed.setdefault(self.cause or cause, {})
        alike[aggregate_of(event)] = event.type
        if self.cause is None and len(alike) >= self._aggregates:
            self.cause = cause
        return self.is_open

    def succeeded(self, event_types: Iterable[str]) -> None:
        """Note that events of these types were applied: what failed of the same types is no evidence any more.

        Events of another type may need nothing of what is away.
        """
        if not self._failed:
            return
        types = set(event_types)
        left = {
            cause: {aggregate: event_type for aggregate, event_type in alike.items() if event_type not in types}
            for cause, alike in self._failed.items()
        }
        self._failed = {cause: alike for cause, alike in left.items() if alike}
        if self.cause is not None and len(self._failed.get(self.cause, ())) < self._aggregates:
            self.close()

    def close(self) -> None:
        """Forget all failures."""
        self._failed.clear()
        self.cause = None
