"""Events that wait for the end of a block."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Self

from cdc_outbox.errors import OutboxError
from cdc_outbox.event import Event, RecordedEvent


class Collection:
    """The events of a block of :meth:`Outbox.collect`, which are written at its end.

    Attributes:
        events: The added events, in order.
        written: The same with id, sequence, source and time, once the block has ended; empty before.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.written: list[RecordedEvent] = []
        self._has_ended = False

    def add(self, event: Event) -> None:
        """Keep an event for the end of the block.

        Raises:
            OutboxError: The block has ended.
        """
        self.add_all([event])

    def add_all(self, events: Iterable[Event]) -> None:
        """Keep many events for the end of the block; raises as :meth:`add`."""
        if self._has_ended:
            raise OutboxError(
                "the block of collect() has ended, so the event was not written",
                hint="Add it inside the block, or with Outbox.add.",
            )
        self.events.extend(events)

    @classmethod
    @contextmanager
    def gathering(cls) -> Iterator[Self]:
        """Yield a collection that takes events until the block ends, also with an exception."""
        collection = cls()
        try:
            yield collection
        finally:
            collection._has_ended = True
