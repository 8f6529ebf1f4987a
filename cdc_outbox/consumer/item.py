"""One event on its way through a consumer, and what is known of a message that cannot be read."""

import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum

from cdc_outbox.consumer.fencing import OffsetMove, TopicPartition, partition_of
from cdc_outbox.consumer.ordering import Aggregate, aggregate_of
from cdc_outbox.consumer.parked_events import Failure, ParkedEvent, Reason
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.errors import MessageError
from cdc_outbox.event import RecordedEvent
from cdc_outbox.formats import envelope, foreign
from cdc_outbox.formats.attributes import BINARY_NAMES
from cdc_outbox.message import Message

_DIGEST_DIGITS = 32
"""Of the content: 128 bits."""


def identity_of(message: Message) -> str:
    """Return the position with a digest of the content: a recreated topic gives the same positions again."""
    content = repr((message.timestamp_ms, message.key, message.value, message.headers, message.has_headers))
    return f"{message.position}#{hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_DIGITS]}"


def stray_id(message: Message, contract: WireContract) -> str | None:
    """Return the id of a message without any header of the contract, ``None`` of one that has one.

    Another producer wrote it, because every publisher writes the id: one message of each partition is parked for all.
    """
    own = {contract.id_header, *contract.headers.placed().values(), *BINARY_NAMES.placed().values(), "content-type"}
    is_stray = own.isdisjoint(name for name, value in message.headers if value is not None)
    is_known = contract.foreign is None and message.has_headers
    return f"{message.topic}[{message.partition}]#stray" if is_stray and is_known else None


def aggregate_in(message: Message, contract: WireContract) -> Aggregate | None:
    """Return the aggregate of a message that does not keep the contract, ``None`` where it is unknown.

    The id is the key. The type is the header's; where there is no such header, the topic's, if the contract's topic
    belongs to one type. The source is the header's. In an envelope both are fields. The aggregate of a numbered event
    without a source is unknown: each source counts by itself.
    """
    if contract.foreign is not None:
        message = foreign.unwrapped(message)
    present = {name for name, value in message.headers if value is not None}
    is_binary = BINARY_NAMES.type in present and contract.headers.type not in present
    names = BINARY_NAMES if is_binary else contract.headers
    fields = _fields_in(message, contract)
    try:
        aggregate_id = (message.key or b"").decode()
        aggregate_type = _text(message, names.aggregate_type) or fields.get(names.aggregate_type, "")
        source = _text(message, names.source) or fields.get(names.source, "")
        f"{source}{aggregate_type}".encode()
    except UnicodeError:  # half a surrogate pair too, which JSON can escape
        return None
    if not aggregate_type:
        here = [name for name in contract.aggregates if contract.topic_of(name) == message.topic]
        aggregate_type = here[0] if len(here) == 1 else ""
    if not aggregate_id or aggregate_type not in contract.aggregates:
        return None
    if not source and contract.mode_of(aggregate_type).is_numbered:
        return None
    return Aggregate(source, aggregate_type, aggregate_id)


def _text(message: Message, header: str) -> str:
    """Return a header's text, empty where there is none.

    Raises:
        UnicodeError: It is no text, or appears with two values.
    """
    values = {value for name, value in message.headers if name == header and value is not None}
    if len(values) > 1:
        raise UnicodeError(header)
    return "".join(value.decode() for value in values)


def _fields_in(message: Message, contract: WireContract) -> dict[str, str]:
    if not contract.fields or message.value is None:
        return {}
    try:
        opened = envelope.opened(message.value, contract.headers.placed())
    except ValueError:
        return {}
    return {} if opened is None else dict(opened[1])


_FROM_MESSAGE = TopicPartition("", -1)
_UNKNOWN = Aggregate("", "", "")
_UNKNOWN_TIME = datetime.max.replace(tzinfo=UTC)
"""Of a message that cannot be read: later than any purge, because its id was never claimed and is not forgotten."""


class Outcome(StrEnum):
    """The outcome of an event, once its transaction was committed."""

    APPLIED = "applied"
    """Its handler's effects are committed."""
    UNHANDLED = "unhandled"
    """No handler is registered for its type; it was claimed and counted all the same, so that no watermark stalls."""
    DUPLICATE = "duplicate"
    """It had been applied or parked before."""
    SUPERSEDED = "superseded"
    """A later state of its aggregate had been applied before."""
    PARKED = "parked"
    """It is set aside, durably, until it can be applied or an operator decides."""


@dataclass(frozen=True, slots=True)
class Turn:
    """When an event is applied, as compared with others of its partition.

    Args:
        resumes_at: The offset at which its partition is read on, where it is applied before earlier events of it.
        last: The last message that is done with it, where those behind it up to there were applied before it.
    """

    resumes_at: int | None = None
    last: Message | None = None

    @property
    def is_ahead(self) -> bool:
        """Whether it is applied before earlier events of its partition."""
        return self.resumes_at is not None


_IN_ORDER = Turn()


# Not frozen, though nothing changes one: a frozen one takes twice as long to make, and there is one for each event.
@dataclass(slots=True, kw_only=True)
class Item:
    """An event, the message it came in, and what is known of its fate.

    Args:
        failure: Why it must be parked instead of being applied.
        parked: Its row, where it came out of the park.
        is_begun: Whether it is noted in the database that it was begun.
        turn: When it is applied, as compared with others of its partition.
        topic_partition: The topic-partition whose owner applies it; by default the one that it came from.
        size: How many bytes key, value and headers of the message have.
        aggregate: What its watermark is kept for.
    """

    event: RecordedEvent
    message: Message
    failure: Failure | None = None
    parked: ParkedEvent | None = None
    is_begun: bool = False
    turn: Turn = _IN_ORDER
    topic_partition: TopicPartition = field(default=_FROM_MESSAGE)
    size: int = field(init=False)
    aggregate: Aggregate = field(init=False)

    def __post_init__(self) -> None:
        # Once, and not whenever it is asked for: with many events in a batch that is what costs.
        self.size, self.aggregate = self.message.size, aggregate_of(self.event)
        if self.topic_partition is _FROM_MESSAGE:
            self.topic_partition = partition_of(self.message)

    @property
    def event_id(self) -> str:
        """The event's id."""
        return self.event.id

    @property
    def last(self) -> Message:
        """The last message that is done with it."""
        return self.turn.last or self.message

    @property
    def next_offset(self) -> int:
        """The offset that is stored with its effects: its partition is read on there."""
        return (self.last.offset or 0) + 1 if self.turn.resumes_at is None else self.turn.resumes_at

    @property
    def is_unreadable(self) -> bool:
        """Whether nothing is known but the message, and its aggregate at best."""
        return self.failure is not None and self.failure.reason is Reason.UNREADABLE

    @property
    def is_judged(self) -> bool:
        """Whether its place in its aggregate is judged; a parked message that is still unreadable stays parked."""
        if self.failure is None or self.failure.reason is not Reason.UNREADABLE:
            return True
        return self.failure.keeps_order and self.parked is None

    @property
    def is_redone(self) -> bool:
        """Whether it comes out of the park to the place in its aggregate that its row holds.

        Where the row of an unreadable message has no aggregate, or another one, it is a new event, readable at last.
        """
        row = self.parked
        if row is None or row.reason is not Reason.UNREADABLE:
            return row is not None
        return row.blocks and row.aggregate == self.aggregate

    @property
    def is_stuck(self) -> bool:
        """Whether it is dead in the park, and read only because others wait behind it."""
        return self.parked is not None and self.parked.state == "dead" and not self.parked.forced

    def move_from(self, before: int | None) -> OffsetMove:
        """Return how the next offset of its partition changes with its effects."""
        return OffsetMove(before, self.next_offset, None if self.turn.is_ahead else self.last.leader_epoch)

    def begun(self) -> "Item":
        """Return the same, noted as begun."""
        return replace(self, is_begun=True)

    def failing(self, failure: Failure) -> "Item":
        """Return the same, to be parked."""
        return replace(self, failure=failure)

    def disordered(self) -> "Item":
        """Return the same for an unreadable message, without its aggregate."""
        assert self.failure is not None  # noqa: S101 - that is what unreadable means
        event = replace(self.event, source=None, aggregate_type="", aggregate_id="")
        return replace(self, event=event, failure=replace(self.failure, keeps_order=False))


def item_of(
    message: Message,
    contract: WireContract,
    parked: ParkedEvent | None = None,
    topic_partition: TopicPartition = _FROM_MESSAGE,
) -> Item:
    """Read a message; one that cannot be read becomes an item that can only be parked."""
    try:
        event = contract.event_of(message, attempt=parked.attempts + 1 if parked else 1)
        return Item(event=event, message=message, parked=parked, topic_partition=topic_partition)
    except MessageError as error:
        stray = stray_id(message, contract)
        item = unreadable(message, error, parked, None if stray else aggregate_in(message, contract))
        if stray and item.failure and parked is None:
            reason = f"{error}. It has no header of the contract; later ones like it in this partition are passed over"
            failure = replace(item.failure, error=reason, is_stray=True)
            item = replace(item, event=replace(item.event, id=stray), failure=failure)
        return replace(item, topic_partition=topic_partition)


def unreadable(
    message: Message, error: MessageError, parked: ParkedEvent | None = None, aggregate: Aggregate | None = None
) -> Item:
    """Return the item of a message that cannot be read; position and content stand for its id.

    Args:
        aggregate: The message's, where it is known; a parked message's is in its row.
    """
    source, aggregate_type, aggregate_id = parked.aggregate if parked else aggregate or _UNKNOWN
    event = RecordedEvent(
        source=source or None,
        aggregate_type=aggregate_type,
        aggregate_id=aggregate_id,
        type="",
        payload=None,
        id=parked.event_id if parked else identity_of(message),
        created_at=_UNKNOWN_TIME,
    )
    failure = Failure(
        reason=Reason.UNREADABLE,
        error=str(error),
        attempts=parked.attempts + 1 if parked else 1,
        keeps_order=parked.blocks if parked else aggregate is not None,
    )
    return Item(event=event, message=message, failure=failure, parked=parked)
