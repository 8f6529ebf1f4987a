"""One event on its way through a consumer."""

import hashlib
from dataclasses import dataclass, field, replace

from cdc_outbox.consumer.epochs import Place, place_of
from cdc_outbox.consumer.ordering import Aggregate, aggregate_of
from cdc_outbox.consumer.park import Failure, ParkedEvent, Reason
from cdc_outbox.errors import MessageError
from cdc_outbox.event import Event
from cdc_outbox.message import Message
from cdc_outbox.wire import WireContract

_DIGEST_DIGITS = 32
"""Of the content of a message that cannot be read: 128 bits."""
_FROM_MESSAGE = Place("", -1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An event, the message it came in, and what is known of its fate.

    Args:
        failure: Why it is to be parked instead of being applied.
        parked: Its row, where it came out of the park.
        is_begun: Whether it is noted in the database that it was begun.
        place: The topic-partition whose owner applies it; by default the one that it came from.
    """

    event: Event
    message: Message
    failure: Failure | None = None
    parked: ParkedEvent | None = None
    is_begun: bool = False
    place: Place = field(default=_FROM_MESSAGE)

    def __post_init__(self) -> None:
        # Once, and not whenever it is asked for: with many events in a batch that is what costs.
        if self.place is _FROM_MESSAGE:
            object.__setattr__(self, "place", place_of(self.message))

    @property
    def aggregate(self) -> Aggregate:
        """What its watermark is kept for."""
        return self.parked.aggregate if self.parked is not None and self.is_unreadable else aggregate_of(self.event)

    @property
    def event_id(self) -> str:
        """The event's id; every event that was read has one."""
        return self.event.id or ""

    @property
    def is_unreadable(self) -> bool:
        """Whether nothing is known but the message."""
        return self.failure is not None and self.failure.reason is Reason.UNREADABLE

    @property
    def is_redone(self) -> bool:
        """Whether it comes out of the park as the event that it was put there as.

        Of what nobody could read, the row knows neither id nor aggregate: read at last, it is a new event.
        """
        return self.parked is not None and self.parked.reason is not Reason.UNREADABLE

    @property
    def is_stuck(self) -> bool:
        """Whether it is dead in the park, and read only because others wait behind it."""
        return self.parked is not None and self.parked.state == "dead" and not self.parked.forced

    def begun(self) -> "Item":
        """Return the same, noted as begun."""
        return replace(self, is_begun=True)

    def failing(self, failure: Failure) -> "Item":
        """Return the same, to be parked."""
        return replace(self, failure=failure)


def item_of(
    message: Message, contract: WireContract, parked: ParkedEvent | None = None, place: Place = _FROM_MESSAGE
) -> Item:
    """Read a message; one that cannot be read becomes an item that can only be parked."""
    try:
        return Item(event=contract.event_of(message), message=message, parked=parked, place=place)
    except MessageError as error:
        return replace(unreadable(message, error, parked), place=place)


def unreadable(message: Message, error: MessageError, parked: ParkedEvent | None = None) -> Item:
    """Return the item of a message that cannot be read; position and content stand for its id."""
    event_id = parked.event_id if parked else _identity_of(message)
    event = Event(aggregate_type="", aggregate_id="", type="", payload=None, id=event_id)
    attempts = parked.attempts + 1 if parked else 1
    failure = Failure(reason=Reason.UNREADABLE, error=str(error), attempts=attempts)
    return Item(event=event, message=message, failure=failure, parked=parked)


def _identity_of(message: Message) -> str:
    """Return the position with a digest of the content: a topic that is created anew gives the same positions again."""
    content = repr((message.timestamp_ms, message.key, message.value, message.headers, message.has_headers))
    return f"{message.position}#{hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_DIGITS]}"
