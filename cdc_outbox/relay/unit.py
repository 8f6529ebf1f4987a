"""What a source reads and a sink delivers: some messages that are confirmed together."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from cdc_outbox.debezium.event_router.compiled import RoutedEvent
from cdc_outbox.relay.relay_errors import DeliveryError

__all__ = ["PositionT", "RoutedEvent", "Unit", "as_reported"]

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
