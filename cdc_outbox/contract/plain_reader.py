"""Read the message of a plain event, which is what nearly every message is.

It does what ``WireContract.event_of`` does, without asking each message what the contract settles. A message that is
unusual in anything, or wrong, is left to that: here it is never refused. ``tests/unit/test_plain_reader.py`` compares
both.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cdc_outbox.event import KafkaRecord, RecordedEvent, SequenceMode, new_recorded_event
from cdc_outbox.formats import payload
from cdc_outbox.formats.attributes import HeaderNames
from cdc_outbox.formats.cloudevents import is_attribute
from cdc_outbox.formats.event_format import PayloadType
from cdc_outbox.formats.timestamps import from_header
from cdc_outbox.message import Headers, Message

_NUMBER = re.compile(r"[1-9][0-9]{0,18}")
_MAX_SEQUENCE = 2**63 - 1
_MAX_LAYOUTS = 100
"""Layouts that are cached: a topic has a few, unless a producer changes the order of headers with each message."""
_MISSING = -1


class _Layout(NamedTuple):
    """Where the values are in messages that have the same headers in the same order."""

    id: int = _MISSING
    type: int = _MISSING
    aggregate_type: int = _MISSING
    sequence: int = _MISSING
    source: int = _MISSING
    created_at: int = _MISSING
    extra: tuple[tuple[str, int], ...] = ()


_UNUSUAL = _Layout()


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
    _layouts: dict[tuple[str, ...], _Layout] = field(default_factory=dict, init=False, compare=False)

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
        pairs = Headers.of(message.headers)
        layout = self._layouts.get(pairs.names) or self._find_layout(pairs.names)
        at_id, at_type, at_aggregate_type, at_sequence, at_source, at_created_at, extra = layout
        try:
            texts = [None if value is None else value.decode() for value in pairs.values]
            texts.append(None)  # in the place of what is missing
            event_id, event_type, aggregate_type = texts[at_id], texts[at_type], texts[at_aggregate_type]
            sequence, source, created = texts[at_sequence], texts[at_source], texts[at_created_at]
            if not (event_id and event_type and aggregate_type and created and message.has_headers):
                return None
            is_numbered, created_at = self.numbered[aggregate_type], from_header(created)
            aggregate_id = (message.key or b"").decode()
            content = message.value if message.value is None or not self.is_json else payload.decode(message.value)
        except (KeyError, ValueError):
            return None
        number = sequence_of(sequence) if is_numbered else None
        if not aggregate_id or (is_numbered and not (number and source)):
            return None
        return new_recorded_event(
            id=event_id,
            type=event_type,
            aggregate_type=aggregate_type,
            aggregate_id=aggregate_id,
            payload=content,
            sequence=number,
            source=source,
            created_at=created_at,
            headers={name: text for name, place in extra if (text := texts[place]) is not None},
            record=record_of(message, attempt),
        )

    def _find_layout(self, names: tuple[str, ...]) -> _Layout:
        """Return the layout of messages with these header names, and cache it if the contract knows all of them."""
        places = {name: place for place, name in enumerate(names)}
        is_plain = len(places) == len(names)  # a name may appear twice
        own = {role: places.pop(name, _MISSING) for role, name in {"id": "id", **self.names.placed()}.items()}
        if not is_plain or not places.keys() <= self.extra_headers:
            return _UNUSUAL  # not cached: a producer could fill the memory with long names
        if len(self._layouts) >= _MAX_LAYOUTS:
            self._layouts.clear()
        layout = self._layouts[names] = _Layout(**own, extra=tuple(places.items()))
        return layout


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
