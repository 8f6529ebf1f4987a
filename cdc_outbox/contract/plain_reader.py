"""Read the message of a plain event, which is what nearly every message is.

It does what ``WireContract.event_of`` does, without asking each message what the contract settles. A message that is
unusual in anything, or wrong, is left to that: here it is never refused. ``tests/unit/test_plain_reader.py`` compares
both.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cdc_outbox.event import KafkaRecord, RecordedEvent, SequenceMode
from cdc_outbox.formats import payload
from cdc_outbox.formats.attributes import HeaderNames
from cdc_outbox.formats.cloudevents import is_attribute
from cdc_outbox.formats.event_format import PayloadType
from cdc_outbox.formats.timestamps import from_header
from cdc_outbox.message import Message

_NUMBER = re.compile(r"[1-9][0-9]{0,18}")
_MAX_SEQUENCE = 2**63 - 1


@dataclass(frozen=True, slots=True)
class PlainReader:
    """Reads plain messages, by what a contract settles about them.

    Args:
        names: The headers of the attributes.
        numbered: Every aggregate type, and whether its events are numbered.
        extra_headers: Headers that are the event's own.
        is_json: Whether payloads are JSON, and not bytes.
    """

    names: HeaderNames
    numbered: Mapping[str, bool]
    extra_headers: frozenset[str]
    is_json: bool

    @classmethod
    def of(
        cls,
        names: HeaderNames,
        aggregates: Mapping[str, SequenceMode],
        extra_headers: Collection[str],
        payload_type: PayloadType,
    ) -> "PlainReader | None":
        """Return it for a contract of our own pipelines, ``None`` where its names are those of CloudEvents."""
        if any(map(is_attribute, names.placed().values())):
            return None
        return cls(
            names=names,
            numbered={aggregate_type: mode.is_numbered for aggregate_type, mode in aggregates.items()},
            extra_headers=frozenset(name for name in extra_headers if not is_attribute(name)),
            is_json=payload_type is not PayloadType.BYTES,
        )

    def event_of(self, message: Message, attempt: int) -> RecordedEvent | None:
        """Return the event that a message carries, ``None`` where the message must be looked at closer."""
        names, pairs = self.names, message.headers
        if not message.has_headers or len(dict(pairs)) != len(pairs):  # a name may appear twice
            return None
        try:
            headers = {name: value.decode() for name, value in pairs if value is not None}
            event_id, event_type = headers.pop("id"), headers.pop(names.type)
            aggregate_type = headers.pop(names.aggregate_type)
            is_numbered = self.numbered[aggregate_type]
            created_at = from_header(headers.pop(names.created_at))
            sequence, source = headers.pop(names.sequence, None), headers.pop(names.source, None)
            aggregate_id = (message.key or b"").decode()
            content = message.value if message.value is None or not self.is_json else payload.decode(message.value)
        except (KeyError, ValueError):
            return None
        number = sequence_of(sequence) if is_numbered else None
        if not (event_id and event_type and aggregate_id) or (is_numbered and not (number and source)):
            return None
        if headers and not headers.keys() <= self.extra_headers:
            return None
        return RecordedEvent(
            id=event_id,
            type=event_type,
            aggregate_type=aggregate_type,
            aggregate_id=aggregate_id,
            payload=content,
            sequence=number,
            source=source,
            created_at=created_at,
            headers=headers,
            record=record_of(message, attempt),
        )


def sequence_of(text: str | None) -> int | None:
    """Return the sequence number that a header says, ``None`` where it says none."""
    if text is None or not _NUMBER.fullmatch(text) or (number := int(text)) > _MAX_SEQUENCE:
        return None
    return number


def record_of(message: Message, attempt: int) -> KafkaRecord | None:
    """Return where a message was read, ``None`` of one that was not read from a topic."""
    if message.partition is None or message.offset is None:
        return None
    return KafkaRecord(message.topic, message.partition, message.offset, attempt)
