"""Which partitions a consumer has, under which epochs, and which of them may kill it."""

from collections.abc import Iterable, Mapping

from cdc_outbox.consumer.epochs import Place, Tenure

_SUSPECT_TENURES = 2
"""One unfinished assignment may be a restart at the wrong moment; two in a row have a reason."""
_SUSPECT_EVENTS = 2000
"""How many events are gone through one by one then: more than one assignment can have prefetched and lost."""


class Ownership:
    """The partitions that Kafka assigned, and what the database gave out for them.

    Kafka's callbacks write it, also from the thread that keeps polling while a handler runs; the loop reads it.
    """

    def __init__(self) -> None:
        self.unissued: set[Place] = set()
        """Assigned, and not yet known to the database."""
        self.held: dict[Place, int] = {}
        """Epoch by partition."""
        self._unfinished: set[Place] = set()
        self._suspects: dict[Place, int] = {}

    @property
    def places(self) -> set[Place]:
        """All partitions that are assigned."""
        return self.unissued | self.held.keys()

    def assign(self, places: Iterable[Place]) -> None:
        """Note what Kafka assigned."""
        for place in places:
            self.held.pop(place, None)
            self.unissued.add(place)

    def issued(self, tenures: Mapping[Place, Tenure]) -> None:
        """Note what the database gave out; a partition that was lost meanwhile stays lost."""
        for place, tenure in tenures.items():
            if place in self.unissued:
                self.unissued.discard(place)
                self.held[place] = tenure.epoch
                self._unfinished.add(place)
                if tenure.unfinished > _SUSPECT_TENURES:
                    self._suspects[place] = _SUSPECT_EVENTS

    def lose(self, places: Iterable[Place]) -> None:
        """Forget partitions that belong to somebody else now."""
        for place in places:
            self.unissued.discard(place)
            self.held.pop(place, None)
            self._unfinished.discard(place)
            self._suspects.pop(place, None)

    def epochs_of(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the epochs of those that are still held."""
        return {place: self.held[place] for place in set(places) if place in self.held}

    def finishing(self, places: Iterable[Place]) -> dict[Place, int]:
        """Return the epochs under which the first work got done now, once each."""
        done = {place: self.held[place] for place in places if place in self._unfinished and place in self.held}
        self._unfinished -= done.keys()
        return done

    def is_suspect(self, place: Place) -> bool:
        """Tell whether the next event of a partition may be one that kills the process."""
        return place in self._suspects

    def survived(self, place: Place) -> None:
        """Note that the process outlived an event of this partition."""
        left = self._suspects.pop(place, 0)
        if left > 1:
            self._suspects[place] = left - 1
