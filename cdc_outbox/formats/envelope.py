"""The envelope: an event's attributes as fields of a JSON object, beside its payload; and the way back.

The EventRouter makes it of columns that are placed so, and Connect's JsonConverter writes it. Ids are text, a sequence
and the time of creation are numbers, what a row does not have is null. A payload of JSON is a text in it, as it was
written; one that was expanded is an object.
"""

import re
from collections.abc import Mapping
from typing import Any

from cdc_outbox.formats import payload
from cdc_outbox.formats.attributes import ATTRIBUTES

PAYLOAD = "payload"
"""The first field, which the EventRouter calls so, whatever the column is called."""

_ESCAPED = re.compile(r'["\\\x00-\x1f\U00010000-\U0010ffff]')
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def json_text(text: str) -> str:
    """Return a JSON string as Jackson writes it: with large digits, and two escapes for what lies beyond 16 bits."""
    return f'"{_ESCAPED.sub(_escape, text)}"'


def fields_of(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Return attribute → field, in the order of the wire; those that are headers elsewhere have the same names."""
    fields = {name: headers.get(name, attribute.field) for name, attribute in ATTRIBUTES.items()}
    return {name: field for name, field in fields.items() if field}


def sealed(attributes: Mapping[str, str | int | None], text: str | None, *, expanded: bool) -> str:
    """Return the envelope as JsonConverter writes it.

    Args:
        attributes: By their fields.
        text: The payload as JSON text. How Debezium spells an expanded one is not imitated; it says the same.
    """
    inside = text if text is None or expanded else json_text(text)
    members = {PAYLOAD: inside} | {name: _json(value) for name, value in attributes.items()}
    return "{" + ",".join(f"{json_text(name)}:{member or 'null'}" for name, member in members.items()) + "}"


def opened(value: bytes, names: Mapping[str, str]) -> tuple[Any, Mapping[str, str]] | None:
    """Return the payload and the attributes by their fields, as text; ``None`` if it is no envelope.

    Args:
        names: Attribute → field. What says no type is no envelope.

    Raises:
        ValueError: The payload in it is not JSON.
    """
    try:
        content = payload.decode(value)
    except ValueError:
        return None
    if not isinstance(content, dict) or PAYLOAD not in content or not content.get(names["type"]):
        return None
    attributes = {name: content[name] for name in names.values() if content.get(name) is not None}
    if not all(isinstance(attribute, (str, int)) for attribute in attributes.values()):
        return None
    held = content[PAYLOAD]
    return payload.decode(held.encode()) if isinstance(held, str) else held, {
        name: str(attribute) for name, attribute in attributes.items()
    }


def _json(value: str | int | None) -> str | None:
    return json_text(value) if isinstance(value, str) else None if value is None else str(value)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be").hex().upper()
    return _ESCAPES.get(match[0]) or "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
