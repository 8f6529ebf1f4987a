"""Which messages a replay gives to a consumer again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cdc_outbox.consumer.epochs import Place, place_of
from cdc_outbox.consumer.ordering import Order
from cdc_outbox.consumer.topics import TopicReader
from cdc_outbox.errors import ConfigError, MessageError
from cdc_outbox.event import Event, SequenceMode
from cdc_outbox.timestamps import to_milliseconds
from cdc_outbox.wire import WireContract

_CLOCK_SKEW = timedelta(minutes=10)
"""How far the brokers' clock may be behind the database's: they find the first message by the time of its arrival."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which messages are given again: those that all of these take.

    Raises:
        ConfigError: No message can be all of it.

    Args:
        topic: One of the contract's; ``None`` for all.
        aggregate: Its type and its id.
        event_type: For example ``OrderPlaced``.
        since: Events created at this time or later (``Event.created_at``).
        before: Events created earlier than this.
        partition: With ``topic``, unless there is but one.
        first_offset: In that partition, like ``last_offset``, which is counted in.
    """

    topic: str | None = None
    aggregate: tuple[str, str] | None = None
    event_type: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None

    def __post_init__(self) -> None:
        if self.since is not None and self.before is not None and self.since.timestamp() >= self.before.timestamp():
            raise ConfigError(f"nothing is from {self.since} on and before {self.before}", field="Selection.before")
        offsets = self.first_offset, self.last_offset
        if self.partition is None and offsets != (None, None):
            raise ConfigError("of which partition the offsets are meant is not said", field="Selection.partition")
        if None not in offsets and (self.last_offset or 0) < (self.first_offset or 0):
            raise ConfigError(f"nothing is from offset {offsets[0]} to {offsets[1]}", field="Selection.last_offset")

    def topics(self, contract: WireContract) -> tuple[str, ...]:
        """Return the topics that hold such messages.

        Raises:
            ConfigError: The contract has no such topic or aggregate type, or it is not clear whose partition is meant.
        """
        topics = contract.topics
        if self.aggregate is not None:
            contract.mode_of(self.aggregate[0])
            topics = (contract.topic_of(self.aggregate[0]),)
        if self.topic is not None:
            if self.topic not in topics:
                raise ConfigError(f"the topic {self.topic!r} is none of {', '.join(topics)}", field="Selection.topic")
            topics = (self.topic,)
        if self.partition is not None and len(topics) > 1:
            raise ConfigError("of which topic the partition is meant is not said", field="Selection.topic")
        return topics

    def spans(self, reader: TopicReader, contract: WireContract) -> dict[Place, tuple[int, int]]:
        """Return first offset and end of what is to be read of each partition, as it is now."""
        known = reader.places(self.topics(contract))
        places = [place for place in known if self.partition in {None, place.partition}]
        if known and not places:
            raise ConfigError(
                f"{known[0].topic} has no partition {self.partition}: there are {len(known)}, from 0",
                field="Selection.partition",
            )
        bounds = reader.bounds(places)
        if self.since is not None:
            starts = reader.offsets_at(places, to_milliseconds(self.since.astimezone(UTC) - _CLOCK_SKEW))
            bounds = {place: (max(first, starts.get(place, end)), end) for place, (first, end) in bounds.items()}
        first_wanted, after_last = self.first_offset or 0, None if self.last_offset is None else self.last_offset + 1
        return {
            place: (max(first, first_wanted), end if after_last is None else min(end, after_last))
            for place, (first, end) in bounds.items()
        }

    def takes(self, event: Event) -> bool:
        """Tell whether an event's message is one of them; of one that tells no time, where none is asked for."""
        made = event.created_at
        return (
            self.aggregate in {None, (event.aggregate_type, event.aggregate_id)}
            and self.event_type in {None, event.type}
            and (self.since is None or (made is not None and made >= self.since.astimezone(UTC)))
            and (self.before is None or (made is not None and made < self.before.astimezone(UTC)))
        )

    @property
    def passes_over(self) -> bool:
        """Whether it may take an event of an aggregate and leave an earlier one out."""
        return any(each is not None for each in (self.event_type, self.since, self.before, self.first_offset))


def refuse_ahead(
    selection: Selection,
    reader: TopicReader,
    contract: WireContract,
    spans: Mapping[Place, tuple[int, int]],
    order_of: Callable[[str], Order],
) -> None:
    """Refuse a selection that passes over events which the consumer has not read yet, where their numbers have gaps.

    Nothing shows there that an event is missing: applied too late, it would contradict what was applied. Where numbers
    have no gaps, what is passed over is waited for.

    Raises:
        ConfigError: There is such an event.
        BrokerError: The brokers do not answer.
    """
    orders = {name: order_of(name) for name in contract.aggregates}
    increasing = {name for name, order in orders.items() if order.mode is SequenceMode.INCREASING and not order.latest}
    topics = {contract.topic_of(name) for name in increasing}
    places = [place for place in spans if place.topic in topics]
    if not selection.passes_over or not places:
        return
    committed, bounds = reader.committed(places), reader.bounds(places)
    unread = {place: (max(first, committed.get(place, 0)), spans[place][1]) for place, (first, _) in bounds.items()}
    left_out: set[tuple[str, str]] = set()
    for message in reader.read(unread):
        try:
            event = contract.event_of(message)
        except MessageError:
            continue
        aggregate = event.aggregate_type, event.aggregate_id
        first, _ = spans[place_of(message)]
        if event.aggregate_type not in increasing:
            continue
        if not ((message.offset or 0) >= first and selection.takes(event)):
            left_out.add(aggregate)
        elif aggregate in left_out:
            name = "/".join(aggregate)
            raise ConfigError(
                f"{event} at {message.position} is selected, and an earlier event of {name} is not, which the consumer "
                "has not read yet: the earlier one would be a conflict then",
                field="Selection",
                hint="Run the consumer until it has read the topics to the end, or replay whole aggregates.",
            )
