"""Where librdkafka's records are read."""

import math
from collections.abc import Iterator
from operator import methodcaller
from typing import Any, cast

from cdc_outbox import message
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka.broker_errors import translate

_PORTION = 50
"""How many messages are taken from the client at once, before their bytes are looked at."""
_REACH_SECONDS = 5.0
"""How long the first contact with the brokers may take before they count as out of reach."""


def find_topics(
    client: "confluent.Consumer", within_seconds: float = _REACH_SECONDS, servers: str = ""
) -> dict[str, list[int]]:
    """Return the topics that there are, each with its partitions: the first contact with the brokers.

    Raises:
        BrokerUnavailableError: None of them answers; it names the ``servers``.
    """
    # Asked for all: to ask for one that does not exist makes librdkafka wait for it.
    try:
        found = client.list_topics(timeout=within_seconds).topics
    except confluent.KafkaException as error:
        raise translate(error.args[0], servers) from error
    return {name: list(topic.partitions) for name, topic in found.items()}


def polled(
    client: "confluent.Consumer", seconds: float, events: int, most_bytes: float = math.inf
) -> "Iterator[confluent.Message[bytes, bytes]]":
    """Yield up to so many messages: wait for the first, and take the rest as far as they are there.

    Args:
        most_bytes: Of keys and values, after which no more is taken; a few messages may come on top. Headers do not
            count: the client makes them when they are asked for, which takes as long as all else here. Its queue, of
            which this is a part, is bounded with them.
    """
    first = client.poll(seconds)
    if first is None:
        return
    yield first
    events, most_bytes = events - 1, most_bytes - _bytes_of(first)
    while events > 0 and most_bytes > 0:
        # A timeout here would be waited out in full, for want of as many messages.
        portion = client.consume(min(events, _PORTION), 0)
        yield from portion
        if len(portion) < _PORTION:
            return
        events, most_bytes = events - _PORTION, most_bytes - sum(map(_bytes_of, portion))


def _bytes_of(record: "confluent.Message[bytes, bytes]") -> int:
    return len(record.value() or b"") + len(record.key() or b"")


_read_headers = methodcaller("headers")
"""Not called as ``record.headers()``: the client returns a result although it set an error, and CPython, once it has
specialised that call, does not check for that. The error would appear in whatever is called next."""


_UNREADABLE: Any = object()
"""What stands for the headers of a record that the client could not return."""


def _headers_of(record: "confluent.Message[bytes, bytes]") -> list[tuple[str, bytes | None]] | None:
    """Return the headers of a record, ``None`` for those with a name that is not UTF-8.

    Kafka takes any bytes as a header's name, and the client decodes them. It says only once that it cannot, and returns
    what came before at the next call: so that is noted in the record itself.
    """
    try:
        headers = _read_headers(record) or []
    except (SystemError, UnicodeDecodeError):
        headers = _UNREADABLE
        record.set_headers(headers)
    return None if headers is _UNREADABLE else cast("list[tuple[str, bytes | None]]", headers)


def message_of(record: "confluent.Message[bytes, bytes]") -> message.Message:
    """Return a record of a topic as a value."""
    kind, timestamp = record.timestamp()
    pairs = _headers_of(record)
    return message.new_message(
        topic=record.topic() or "",
        partition=record.partition(),
        offset=record.offset(),
        key=record.key(),
        value=record.value(),
        headers=message.Headers.of(pairs or ()),
        timestamp_ms=None if kind == confluent.TIMESTAMP_NOT_AVAILABLE else timestamp,
        has_headers=pairs is not None,
        leader_epoch=record.leader_epoch(),
    )
