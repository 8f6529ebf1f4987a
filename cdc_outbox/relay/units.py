"""What a source reads and a sink delivers: some messages that are confirmed together, in their order. Pure."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from cdc_outbox.debezium.event_router.produce import RoutedEvent
from cdc_outbox.relay.relay_errors import DeliveryError

PositionT = TypeVar("PositionT")

_NO_EVENTS: Sequence[RoutedEvent] = ()


def as_reported(error: object, _: object) -> Exception:
    """Return the error itself if it is an exception, else a ``DeliveryError`` with its text."""
    return error if isinstance(error, Exception) else DeliveryError(str(error))


class Unit(Generic[PositionT]):
    """Messages that are confirmed together: of whole transactions, or a part of one.

    A unit knows nothing of what it belongs to. A report that arrives after the source was opened again changes its own
    unit, and no unit that was read since.

    Args:
        events: The messages in their order; may be empty.
        position: The position to confirm once this unit and all before it are delivered; ``None`` in the midst of a
            transaction.

    Attributes:
        undelivered: The number of events that are not reported yet.
        failure: The first error that was reported.
        translate: Makes an exception of a reported error and its record. A sink whose client reports errors that are
            no exceptions replaces it when it takes the first event of the unit.
    """

    __slots__ = ("events", "failure", "position", "translate", "undelivered")

    def __init__(self, events: Sequence[RoutedEvent] = _NO_EVENTS, position: PositionT | None = None) -> None:
        self.events = events
        self.position = position
        self.undelivered = len(events)
        self.failure: Exception | None = None
        self.translate: Callable[[object, object], Exception] = as_reported

    def delivered(self, error: object = None, record: object = None) -> None:
        """Report one event, exactly once: delivered, or failed with an error.

        Clients call this directly for each event, as confluent-kafka's ``on_delivery``.
        """
        if error is None:
            self.undelivered -= 1
        elif self.failure is None:
            self.failure = self.translate(error, record)


class Outstanding(Generic[PositionT]):
    """Units in the order in which they were read; each leaves when it and all before it are delivered.

    A keepalive is a unit without events, so it cannot be confirmed while a transaction before it is under way.
    One object serves one opening of a source: after that, reports of its units change nothing that is read later.

    Attributes:
        confirmable: The last position before which everything was delivered; ``None`` before the first.
    """

    def __init__(self) -> None:
        self._units: deque[Unit[PositionT]] = deque()
        self.confirmable: PositionT | None = None

    def __len__(self) -> int:
        """Return the number of units that are not delivered, or wait for one that is not."""
        return len(self._units)

    def push(self, unit: Unit[PositionT]) -> None:
        """Add the unit that was read last."""
        self._units.append(unit)

    def settle(self) -> PositionT | None:
        """Drop what is delivered, and return the last position that may be confirmed; ``None`` before the first.

        Raises:
            Exception: What the first unit that is not delivered failed with.
        """
        units = self._units
        while units:
            first = units[0]
            if first.failure is not None:
                raise first.failure
            if first.undelivered:
                break
            if first.position is not None:
                self.confirmable = first.position
            units.popleft()
        return self.confirmable
