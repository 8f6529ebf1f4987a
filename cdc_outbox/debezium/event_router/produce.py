"""What Connect's worker and its producer make of a converted message: a partition, a refusal. Pure."""

import re

from cdc_outbox.debezium.event_router.java import java_partition
from cdc_outbox.message import Message

_TOPIC = re.compile(r"(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}")
NO_TIMESTAMP = -1
"""The value that Connect's worker reads as no timestamp: the producer's clock gives the record one."""

Headers = list[tuple[str, bytes | None]]
RoutedEvent = tuple[str, bytes | None, bytes | None, int, int, Headers]
"""A message to produce: topic, value, key, partition (-1: by the key), milliseconds since 1970 (above 0), headers.

A tuple, because there is one for each event: a named tuple costs 0.4 µs more, a dataclass 1.5 µs.
"""


def chosen_partition(message: Message, partitions: int) -> int | None:
    """Return the partition of a topic with so many, ``None`` where a message without a key may go to any."""
    if message.partition is not None or message.key is None:
        return message.partition
    return java_partition(message.key, partitions)


def find_refusal(message: Message, partitions: int) -> str:
    """Return why Connect's worker or the broker would not take the message, empty if they would."""
    if not _TOPIC.fullmatch(message.topic):
        return f"Kafka does not accept the topic name {message.topic!r}"
    if message.timestamp_ms is not None and message.timestamp_ms < NO_TIMESTAMP:
        return "Connect does not accept times before 1970"
    if message.partition is not None and not 0 <= message.partition < partitions:
        return f"the topic has {partitions} partitions, and none has the number {message.partition}"
    return ""


def message_of_event(event: RoutedEvent) -> Message:
    """Return a routed event as a value."""
    topic, value, key, partition, timestamp_ms, headers = event
    return Message(
        topic=topic,
        value=value,
        key=key,
        partition=None if partition < 0 else partition,
        timestamp_ms=timestamp_ms,
        headers=tuple(headers),
    )
