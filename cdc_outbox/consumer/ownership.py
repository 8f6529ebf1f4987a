"""Which partitions a consumer has, under which epochs, and which of them may kill it."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping

from cdc_outbox.consumer.epochs import NO_OFFSET, Place, Tenure, TopicId

_SUSPECT_TENURES = 2
"""One unfinished assignment may be a restart at the wrong moment; two in a row have a reason."""
_IDLE_SECONDS = 5.0
"""An assignment that had nothing to do for so long has nothing that kills: what is there is fetched within a second."""
_SUSPECT_EVENTS = 2000
"""How many events are gone through one by one then: more than one assignment can have prefetched and lost."""


class Ownership:
    """The partitions that Kafka assigned, and what the database gave out for them.

    Kafka's callbacks write it, also from the thread that keeps polling while the loop is busy; the loop reads it.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.unissued: set[Place] = set()
        """Assigned, and not yet known to the database."""
        self.held: dict[Place, int] = {}
        """Epoch by partition."""
        self.stored: dict[Place, int] = {}
        """The next offset that the database was last known to have, by partition."""
        self.topic_ids: dict[Place, TopicId] = {}
        """The topic that the next offset counts in, by partition."""
        self._renewed: set[Place] = set()
        self._unfinished: dict[Place, float] = {}
        """When each was issued of which it is not known yet that work gets done."""
        self._suspects: dict[Place, int] = {}

    def owns(self, place: Place) -> bool:
        """Tell whether a partition is assigned."""
        return place in self.held or place in self.unissued

    def assign(self, places: Iterable[Place]) -> None:
        """Note what Kafka assigned."""
        with self._lock:
            for place in places:
                self.held.pop(place, None)
                self._renewed.add(place)
                self.unissued.add(place)

    def take_renewed(self) -> set[Place]:
        """Return the partitions that were assigned since this was asked last: they are read anew from what is done."""
        renewed = set()
        while self._renewed:  # one by one, for the other thread may be adding some
            renewed.add(self._renewed.pop())
        return renewed

    def issued(self, tenures: Mapping[Place, Tenure]) -> None:
        """Note what the database gave out; a partition that was lost meanwhile stays lost."""
        with self._lock:
            for place, tenure in tenures.items():
                if place in self.unissued:
                    self.unissued.discard(place)
                    self.held[place] = tenure.epoch
                    self.stored[place] = NO_OFFSET if tenure.next_offset is None else tenure.next_offset
                    self.topic_ids[place] = tenure.topic_id
                    self._unfinished[place] = self._clock()
                    if tenure.unfinished > _SUSPECT_TENURES:
                        self._suspects[place] = _SUSPECT_EVENTS

    def lose(self, places: Iterable[Place]) -> None:
        """Forget partitions that belong to another consumer now."""
        with self._lock:
            for place in places:
                self.unissued.discard(place)
                self.held.pop(place, None)
                self.stored.pop(place, None)
                self.topic_ids.pop(place, None)
                self._unfinished.pop(place, None)
                self._suspects.pop(place, None)

    def epochs_of(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the epochs of those that are still held."""
        held = dict(self.held)  # which a callback may change meanwhile
        return {place: held[place] for place in set(places) if place in held}

    def finishing(self, answered: Iterable[Place], is_fetched: Callable[[Place], bool]) -> dict[Place, int]:
        """Return the epochs under which it is known from now on that work gets done, once each.

        Args:
            answered: Partitions whose offsets were committed; others are known by having had nothing to do.
            is_fetched: Tells whether a broker said what there is in a partition.
        """
        idle_since = self._clock() - _IDLE_SECONDS
        old = [place for place, issued_at in list(self._unfinished.items()) if issued_at < idle_since]
        done = {*answered, *filter(is_fetched, old)}
        return self.epochs_of([place for place in done if self._unfinished.pop(place, None)])

    @property
    def has_suspects(self) -> bool:
        """Whether the next event of any partition may be one that kills the process."""
        return bool(self._suspects)

    def is_suspect(self, place: Place) -> bool:
        """Tell whether the next event of a partition may be one that kills the process."""
        return place in self._suspects

    def survived(self, place: Place) -> None:
        """Note that the process outlived an event of this partition."""
        left = self._suspects.pop(place, 0)
        if left > 1:
            self._suspects[place] = left - 1
