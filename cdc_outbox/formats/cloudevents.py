"""CloudEvents 1.0: what an event says besides, and the way back.

In binary mode the payload is the value and the attributes are headers; the row's own columns are placed as ``ce_type``,
``ce_source``, ``ce_id``, ``ce_subject`` (the aggregate id) and the extensions ``ce_aggregatetype`` and ``ce_sequence``.
In structured mode the value is an envelope around the payload; numbers stay in the headers that they always have,
because the envelope is made before the database gives them. A tombstone has no envelope: it has no value.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from cdc_outbox.event import Event, EventT, RecordedEvent
from cdc_outbox.formats import payload
from cdc_outbox.formats.attributes import ATTRIBUTES
from cdc_outbox.formats.event_format import FORMAT_HEADERS, EventFormat
from cdc_outbox.formats.payload import TOMBSTONE

_CONTENT_TYPE, _JSON, _ENVELOPE = "content-type", "application/json", "application/cloudevents"
_BYTES = "application/octet-stream"
_SPECVERSION = "1.0"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ROW_HEADERS: Mapping[EventFormat, Mapping[str, str]] = {
    EventFormat.PLAIN: {},
    EventFormat.ENVELOPE: {},
    EventFormat.CLOUDEVENTS_BINARY: {
        f"ce_{attribute.cloud_event}": name
        for name, attribute in ATTRIBUTES.items()
        if attribute.cloud_event and not attribute.header
    },
    EventFormat.CLOUDEVENTS_STRUCTURED: {},
}
"""Headers that a format makes of columns which are placed anyway or nowhere, each with the event's attribute."""


def encoded(event: EventT, event_format: EventFormat, event_id: str, created_at: datetime) -> EventT:
    """Return the event with the headers and the payload that its format adds.

    Args:
        event_id: The event's; one that a service gives may have none yet.
        created_at: The event's, or now where it is not written yet.

    Raises:
        EventError: The payload is not JSON.
    """
    if event_format in {EventFormat.PLAIN, EventFormat.ENVELOPE}:
        return event
    time = time_of(event_id, created_at)
    if event_format is EventFormat.CLOUDEVENTS_BINARY:
        kind = _BYTES if isinstance(event.payload, (bytes, bytearray, memoryview)) else _JSON
        added = {"ce_specversion": _SPECVERSION, "ce_time": time, _CONTENT_TYPE: kind}
        return replace(event, headers={**event.headers, **added})
    if event.payload is TOMBSTONE or event.payload is None:
        return event
    headers = {**event.headers, _CONTENT_TYPE: f"{_ENVELOPE}+json"}
    return replace(event, headers=headers, payload=_envelope(event, event_id, time))


def filled(headers: Mapping[str, str], event_format: EventFormat, declared: Iterable[str]) -> Mapping[str, str]:
    """Return the headers, with an empty text for each declared one that a binary CloudEvent lacks.

    A null column is a header without a value, on which libraries of CloudEvents fail.
    """
    return {**dict.fromkeys(declared, ""), **headers} if event_format is EventFormat.CLOUDEVENTS_BINARY else headers


def decoded(event: RecordedEvent) -> RecordedEvent:
    """Return the event without what a format added, whichever it was.

    Raises:
        ValueError: It says that it is an envelope, and is none.
    """
    headers = event.headers
    if not headers:
        return event
    content_type = headers.get(_CONTENT_TYPE, "")
    if content_type.lower().startswith(_ENVELOPE):
        content = event.payload
        if event.payload is not None:
            if not isinstance(content, dict) or content.get("specversion") != _SPECVERSION or "data" not in content:
                raise ValueError(
                    "a header declares a CloudEvent, but the value is not a CloudEvents 1.0 envelope with data"
                )
            content = content["data"]
        rest = {name: value for name, value in headers.items() if name != _CONTENT_TYPE}
        return replace(event, headers=rest, payload=content)
    # A row that was written before its table had a format has no version, and is routed as if it had one.
    if "ce_specversion" not in headers and "ce_id" not in headers:
        return event
    binary = EventFormat.CLOUDEVENTS_BINARY
    added = {*ROW_HEADERS[binary], *FORMAT_HEADERS[binary].values()}
    return replace(event, headers={name: value for name, value in headers.items() if name not in added and value})


def says_bytes(headers: Mapping[str, str]) -> bool:
    """Return whether a message in binary mode says that its payload is bytes."""
    return "ce_specversion" in headers and headers.get(_CONTENT_TYPE) == _BYTES


def is_attribute(header: str) -> bool:
    """Return whether a header is one that a CloudEvent may be known by."""
    return header == _CONTENT_TYPE or header.startswith("ce_")


def says_envelope(header: str, value: bytes | None) -> bool:
    """Return whether a header says that the value is a CloudEvent in structured mode."""
    return header == _CONTENT_TYPE and value is not None and value.lower().startswith(_ENVELOPE.encode())


def time_of(event_id: str, created_at: datetime) -> str:
    """Return when an event was made, in RFC 3339: what a UUIDv7 says, so that writing it again changes nothing.

    Other ids tell no time; it is ``created_at`` then.
    """
    moment = created_at
    with suppress(ValueError, OverflowError):
        identifier = UUID(event_id)
        if identifier.version == 7:
            moment = _EPOCH + timedelta(milliseconds=identifier.int >> 80)
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _envelope(event: Event | RecordedEvent, event_id: str, time: str) -> str:
    """Return the envelope as text, with the payload in it as it was written."""
    attributes: dict[str, Any] = {
        "specversion": _SPECVERSION,
        "id": event_id,
        # Not the table's source, which the database alone knows.
        "source": f"/{event.aggregate_type}",
        "type": event.type,
        "subject": event.aggregate_id,
        "time": time,
        "datacontenttype": _JSON,
    }
    text = payload.encode(event.payload)
    content = text.decode() if isinstance(text, bytes) else text
    return f'{json.dumps(attributes, ensure_ascii=False)[:-1]}, "data": {content}}}'
