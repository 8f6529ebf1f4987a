"""A consumer that has not begun leaves its events in the topics until one of them has a handler."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from threading import Event as Flag
from typing import Any

import pytest

from cdc_outbox.consumer import SequenceMode, WireContract
from cdc_outbox.consumer.fencing import NO_OFFSET, TopicPartition
from cdc_outbox.consumer.handlers import Handlers
from cdc_outbox.consumer.item import item_of
from cdc_outbox.consumer.start_offsets import UnhandledEvents
from cdc_outbox.consumer.waits import Blocking
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.errors import NoHandlerError
from cdc_outbox.message import Message
from tests.support.events import make_event

CONTRACT = WireContract(aggregates={"order": SequenceMode.GAPLESS}, topic="events")
PLACE = TopicPartition("events", 0)


class Topics:
    """One partition, and how many of its messages were read."""

    def __init__(self, *event_types: str) -> None:
        self.messages: list[Message] = []
        self.reads = 0
        self.group: dict[TopicPartition, int] = {}
        for event_type in event_types:
            self.write(event_type)

    def write(self, event_type: str) -> None:
        written = CONTRACT.message_of(make_event(len(self.messages) + 1, event_type=event_type))
        self.messages.append(replace(written, topic=PLACE.topic, partition=0, offset=len(self.messages)))

    def items(self) -> list[Any]:
        return [item_of(message, CONTRACT) for message in self.messages]

    @contextmanager
    def opened(self) -> Iterator[Any]:
        yield self

    def partitions(self, topics: object) -> list[TopicPartition]:
        assert topics == CONTRACT.topics
        return [PLACE]

    def committed(self, _places: list[TopicPartition]) -> dict[TopicPartition, int]:
        return self.group

    def bounds(self, places: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        return dict.fromkeys(places, (0, len(self.messages)))

    def read(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> Iterator[Message]:
        first, end = spans[PLACE]
        for message in self.messages[first:end]:
            self.reads += 1
            yield message


def unhandled(topics: Topics, *handled: str, stopping: Flag | None = None) -> UnhandledEvents:
    handlers, flag = Handlers(), stopping or Flag()
    handlers.add(handled, lambda _event, _connection: None, takes_batch=False)
    return UnhandledEvents(
        handlers=handlers, contract=CONTRACT, opened=topics.opened, waits=Blocking(flag), is_stopping=flag.is_set
    )


def refuse(events: UnhandledEvents, items: list[Any], stored: int = NO_OFFSET) -> None:
    finish(events.refuse(items, {PLACE: stored}))


def test_events_are_refused_while_the_topics_hold_none_with_a_handler() -> None:
    topics = Topics("AccountCharged", "AccountCharged", "AccountOpened")
    events = unhandled(topics, "AcountCharged")
    with pytest.raises(NoHandlerError) as refused:
        refuse(events, topics.items())
    assert refused.value.retryable
    assert str(refused.value).endswith(
        "handled: AcountCharged; in the topics: AccountCharged, AccountOpened. Did you mean 'AccountCharged'?"
    )
    with pytest.raises(NoHandlerError):
        refuse(events, topics.items())
    assert topics.reads == 3, "once each"
    topics.write("AcountCharged")
    refuse(events, topics.items()[:3])
    refuse(events, topics.items()[:3])
    assert topics.reads == 4


def test_nothing_is_read_where_a_handler_fits_or_the_consumer_has_begun() -> None:
    topics = Topics("Opened", "Charged")
    refuse(unhandled(topics, "Charged"), topics.items())
    refuse(unhandled(topics, "Other"), topics.items(), stored=1)
    refuse(unhandled(topics, "Other"), [])
    assert topics.reads == 0


def test_an_instance_that_holds_other_partitions_than_the_first_ones_waits_for_nothing() -> None:
    topics = Topics("Opened")
    topics.group = {TopicPartition("events", 1): 7}
    refuse(unhandled(topics, "Other"), topics.items())
    assert topics.reads == 0


def garbled(*event_types: str) -> Topics:
    """Return topics whose first message cannot be read."""
    topics = Topics("Garbled", *event_types)
    topics.messages[0] = replace(topics.messages[0], headers=())
    return topics


def test_unreadable_messages_say_nothing_about_handlers() -> None:
    topics = garbled()
    events = unhandled(topics, "Opened")
    refuse(events, topics.items())
    topics.write("Charged")
    # The offset behind the first one is stored by now.
    for items in (topics.items(), topics.items()[1:]):
        with pytest.raises(NoHandlerError):
            refuse(events, items, stored=1)
    refuse(events, topics.items()[:1], stored=1)
    topics.write("Opened")
    refuse(events, topics.items()[:2], stored=1)


def test_a_batch_of_unreadable_messages_is_refused_where_what_can_be_read_has_no_handler() -> None:
    topics = garbled("Charged")
    events = unhandled(topics, "Opened")
    with pytest.raises(NoHandlerError, match="in the topics: Charged"):
        refuse(events, topics.items()[:1])
    topics.write("Opened")
    refuse(events, topics.items()[:1])


def test_unreadable_messages_alone_are_left_by_a_consumer_that_stops() -> None:
    topics, stopping = garbled("Charged"), Flag()
    stopping.set()
    with pytest.raises(NoHandlerError):
        refuse(unhandled(topics, "Charged", stopping=stopping), topics.items()[:1])


def test_a_consumer_that_is_told_to_stop_reads_no_further_and_uses_up_nothing() -> None:
    topics, stopping = Topics("Opened", "Opened", "Charged"), Flag()
    stopping.set()
    with pytest.raises(NoHandlerError):
        refuse(unhandled(topics, "Charged", stopping=stopping), topics.items()[:2])
    assert topics.reads == 1
