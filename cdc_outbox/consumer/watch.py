"""What a consumer notices about itself: counts, the park's size, and gaps that last."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence

from cdc_outbox.consumer.delivery import Delivered, Outcome
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.limits import Limits
from cdc_outbox.consumer.park import ParkedCount, Reason
from cdc_outbox.errors import CdcOutboxError
from cdc_outbox.metrics import Metrics

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
"""How late a parked event may be tried again that somebody else made due."""


class Watch:
    """The counts of one consumer.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(
        self, *, name: str, limits: Limits, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name, self._limits, self._metrics, self._clock = name, limits, metrics, clock
        self.outcomes: Counter[Outcome] = Counter()
        """How many events came to which end since this object was made."""
        self.parked = 0
        """How many events are parked, as far as is known here."""
        self.paused: set[tuple[str, int]] = set()
        """Partitions that wait for room in the park."""
        self.is_due = False
        """Whether there is something in the park that can be applied now."""
        self._looked_at = -_LOOK_SECONDS
        self._is_alarmed = False

    @property
    def room(self) -> int:
        """How many more events may be parked."""
        return max(0, self._limits.max_parked_events - self.parked)

    @property
    def is_full(self) -> bool:
        """Whether none may be."""
        return self.room == 0

    def wants_a_look(self) -> bool:
        """Tell whether it is time to look into the park."""
        if self.is_due or self._clock() - self._looked_at >= _LOOK_SECONDS:
            self.is_due = False
            self._looked_at = self._clock()
            return True
        return False

    def looked(self, counts: Sequence[ParkedCount]) -> None:
        """Take what is in the park, and tell of a gap that lasts."""
        self.parked = sum(count.events for count in counts)
        oldest = max((count.oldest_seconds for count in counts if count.reason is Reason.GAP), default=0.0)
        if oldest >= self._limits.gap_alarm_seconds and not self._is_alarmed:
            gaps = sum(count.events for count in counts if count.reason is Reason.GAP)
            _log.warning("events wait for one that is missing", extra={"events": gaps, "seconds": round(oldest)})
        self._is_alarmed = oldest >= self._limits.gap_alarm_seconds

    def applied(self, items: Sequence[Item], delivered: Delivered) -> None:
        """Count a committed transaction."""
        for item, outcome in zip(items, delivered.outcomes, strict=True):
            if item.parked is not None and outcome is Outcome.PARKED:
                continue  # it stays where it is
            self.outcomes[outcome] += 1
            self._metrics.count(
                "cdc_outbox_consumer_events_total", consumer=self._name, outcome=outcome, type=item.event.type
            )
        self.parked += sum(delivered.parked.values())
        self.is_due = self.is_due or delivered.woken > 0

    def failed(self, items: Sequence[Item], error: CdcOutboxError) -> None:
        """Count a transaction that an event of it made fail."""

    def retried(self, error: CdcOutboxError) -> None:
        """Count a transaction that is tried again for no fault of its events."""
