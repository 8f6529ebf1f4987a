"""What is to become of an event whose handler failed."""

import logging
import time
from collections.abc import Callable, Iterable
from random import Random
from typing import NamedTuple

from cdc_outbox.consumer.epochs import Place
from cdc_outbox.consumer.item import Item, unreadable
from cdc_outbox.consumer.park import Failure, Reason
from cdc_outbox.consumer.retry import Retry
from cdc_outbox.errors import CdcOutboxError, MessageError

_log = logging.getLogger(__name__)


_MAX_CONFLICTS = 5
"""How often an event may meet other transactions, alone in its own, before that counts as its failure."""


class _Tries(NamedTuple):
    """How often an event was tried, since when, and where it came from."""

    times: int
    since: float
    place: Place


class Poison:
    """The events that failed since they were polled, and how often.

    Args:
        error_texts: Whether the log quotes what a handler's exception says.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        retry: Retry,
        *,
        error_texts: bool = True,
        random: Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._retry, self._error_texts = retry, error_texts
        self._random = random or Random()  # noqa: S311 - no secret
        self._clock = clock
        self._tries: dict[str, _Tries] = {}
        self._conflicts: dict[str, tuple[int, Place]] = {}

    def is_hopeless(self, error: CdcOutboxError) -> bool:
        """Tell whether a handler's error is one that another try cannot mend."""
        return self._retry.is_hopeless(error.__cause__)

    def excuses(self, item: Item) -> bool:
        """Note that another transaction was in an event's way, and tell whether that may be chance."""
        times = self._conflicts.get(item.event_id, (0, item.place))[0] + 1
        self._conflicts[item.event_id] = times, item.place
        return times < _MAX_CONFLICTS

    def judge(self, item: Item, error: CdcOutboxError) -> tuple[Item, float | None]:
        """Return the event as it is to be delivered again, and how long to wait before that.

        An event that comes out of the park is not tried again at once: it has waited already.
        """
        if isinstance(error, MessageError):
            return unreadable(item.message, error, item.parked, item.aggregate), None
        is_hopeless = self.is_hopeless(error)
        if item.parked is not None or item.event_id not in self._tries:  # once for all tries at once
            cause = error.__cause__ if self._error_texts else silenced(error.__cause__)
            _log.debug("handler failed", exc_info=cause, extra={"event_id": item.event_id})
        if item.parked is None and not is_hopeless:
            tries, since, _ = self._tries.get(item.event_id, _Tries(0, self._clock(), item.place))
            self._tries[item.event_id] = _Tries(tries + 1, since, item.place)
            pause = self._retry.inline_pause(tries + 1, self._clock() - since, self._random)
            if pause is not None:
                return item, pause
        attempts = (item.parked.attempts if item.parked else 0) + 1
        seconds = None if is_hopeless else self._retry.parked_pause(attempts, self._random)
        fields: dict[str, object] = {"event_id": item.event_id, "reason": str(error), "attempts": attempts}
        if seconds is None:
            _log.error("event is dead", extra=fields)
        else:
            told = "event is parked" if attempts == 1 else "parked event failed again"
            _log.error(told, extra={**fields, "retry_seconds": round(seconds, 2)})
        return item.failing(
            Failure(reason=Reason.FAILED, error=str(error), attempts=attempts, retry_seconds=seconds)
        ), None

    def forget(self, items: Iterable[Item]) -> None:
        """Forget events that are done with."""
        if self._tries or self._conflicts:
            for item in items:
                self._tries.pop(item.event_id, None)
                self._conflicts.pop(item.event_id, None)

    def keep(self, owns: Callable[[Place], bool]) -> None:
        """Forget the events of all other partitions: one that comes again is tried as if for the first time."""
        if self._tries or self._conflicts:
            self._tries = {event_id: tried for event_id, tried in self._tries.items() if owns(tried.place)}
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
