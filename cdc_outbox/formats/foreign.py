"""An outbox that is not of this package: what its messages leave unsaid, and what converters put around the rest.

An EventRouter with nothing but its defaults writes the id into a header and no more. Connect's JsonConverter, at the
key, the headers or the value, writes texts in quotation marks, or everything beside its schema; JSON that lies in a
text column is then encoded twice. Here all that is taken off, and what was underneath comes out as a column held it.

A wrapper that is certain (a schema of Connect's, an envelope) is always taken off, and a text in it is what the
column held: JSON where it is JSON. Quotation marks alone are no certain sign, for a payload may be a text: they are
taken off if an object or a list is underneath. So a row's object is the same payload whichever converter wrote it; of
texts and numbers that is true with schemas only.
"""

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from cdc_outbox.formats import cloudevents, payload
from cdc_outbox.formats.attributes import ATTRIBUTES, AttributeKind
from cdc_outbox.formats.envelope import PAYLOAD
from cdc_outbox.message import Message
from cdc_outbox.text_files.document import JsonValue

_CONNECT_TYPE = re.compile("int(8|16|32|64)|float|double|boolean|string|bytes|array|map|struct")
_CLOUD_EVENT = {
    name: attribute.cloud_event
    for name, attribute in ATTRIBUTES.items()
    if attribute.header and attribute.kind is not AttributeKind.TIME
}
"""An event's attribute → a CloudEvent's; aggregate type and sequence are this package's extensions. The time of
creation is the record's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignOutbox:
    """How to read the messages of an outbox that another tool writes.

    Args:
        default_type: The type of events without a type; may contain ``{aggregate_type}``. Default ``None``: such events
            are parked, because an event whose type is in another header would otherwise find no handler and be skipped.
        id_header: The header of the event's id. Debezium's EventRouter always writes ``id``; other relays may not.
    """

    default_type: str | None = None
    id_header: str = "id"


def unwrapped(message: Message) -> Message:
    """Return the message with key and headers as a StringConverter writes them; the value is left as it is.

    JSON's null is no value. A header that says that the value is a CloudEvent is gone: :func:`opened` knows one.
    """
    headers = tuple((name, _plain(value)) for name, value in message.headers)
    kept = tuple((name, value) for name, value in headers if not cloudevents.says_envelope(name, value))
    return replace(message, key=_plain(message.key), headers=kept)


def opened(value: bytes, names: Mapping[str, str], *, id_header: str, typed: bool) -> tuple[Any, Mapping[str, str]]:
    """Return the payload, and what stands beside it, as headers.

    Args:
        names: Attribute → header, or field of the EventRouter's envelope. What says no type is no envelope.
        typed: A header says the type already, so an object with such fields is the payload.

    Raises:
        ValueError: It is not JSON.
    """
    content = _revealed(payload.decode(value)) if value.strip() else None
    if not isinstance(content, dict):
        return content, {}
    if _is_cloud_event(content):
        said = {id_header: content["id"]} | {names[role]: content.get(name) for role, name in _CLOUD_EVENT.items()}
        return _revealed(content["data"]), _texts(said)
    if not typed and PAYLOAD in content and _texts({"type": content.get(names["type"])}):
        beside = {name: held for name, held in content.items() if name != PAYLOAD}
        return _underneath(_as_json(content[PAYLOAD])), _texts(beside)
    return content, {}


def opened_bytes(value: bytes) -> bytes | None:
    """Return a payload of bytes: what a schema says to be base64, or the value as it is.

    Raises:
        ValueError: It is no base64.
    """
    content: Any = _json_or_none(value) if b'"schema"' in value else None
    if not (_has_schema(content) and _is_bytes(content["schema"])):
        return value
    held = content["payload"]
    return base64.b64decode(held, validate=True) if isinstance(held, str) else None


def _plain(octets: bytes | None) -> bytes | None:
    """Return a key or a header without what JsonConverter puts around it; a number or a truth value as JSON."""
    if not octets or octets[:1] not in b'"{n':
        return octets
    content = _json_or_none(octets)
    if octets == b"null" or (_has_schema(content) and content["payload"] is None):
        return None
    content = content["payload"] if _has_schema(content) else content
    if not isinstance(content, (str, int, float)):
        return octets
    try:
        return _text(content).encode()
    except UnicodeEncodeError:  # half a surrogate pair, which no header holds
        return octets


def _revealed(content: JsonValue) -> JsonValue:
    if not _has_schema(content):
        return _underneath(content)
    schema, held = content["schema"], content["payload"]
    if isinstance(held, str) and _is_bytes(schema):
        return payload.decode(base64.b64decode(held, validate=True))
    return _underneath(_as_json(held))


def _underneath(content: object) -> JsonValue:
    """Return the object or the list that a text holds, however often it was encoded, ``None`` for an empty text."""
    if not isinstance(content, str):
        return content
    held: Any = content
    while isinstance(held, str) and held.lstrip()[:1] in {"{", "[", '"'}:
        around, held = held, _as_json(held)
        if held == around:  # it merely begins like JSON
            break
    return held if isinstance(held, (dict, list)) else content if content.strip() else None


def _as_json(content: object) -> JsonValue:
    """Return what a text says as JSON, or the text if it is none."""
    if not isinstance(content, str):
        return content
    try:
        return payload.decode(content.encode())
    except ValueError:
        return content


def _json_or_none(octets: bytes) -> JsonValue:
    try:
        return payload.decode(octets)
    except ValueError:
        return None


def _has_schema(content: object) -> bool:
    """Return whether JsonConverter wrote it with ``schemas.enable``: a Connect schema, the payload, nothing else."""
    if not isinstance(content, dict) or content.keys() != {"schema", "payload"}:
        return False
    schema = content["schema"]
    return schema is None or (isinstance(schema, dict) and bool(_CONNECT_TYPE.fullmatch(str(schema.get("type")))))


def _is_bytes(schema: Mapping[str, Any] | None) -> bool:
    return schema is not None and schema["type"] == "bytes" and not schema.get("name")  # a decimal has a name


def _is_cloud_event(content: Mapping[str, Any]) -> bool:
    return (
        content.get("specversion") == "1.0"
        and "data" in content
        and all(isinstance(content.get(name), str) for name in ("id", "source", "type"))
    )


def _texts(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return fields as headers, without those that are null, empty or no scalar."""
    return {name: _text(held) for name, held in fields.items() if isinstance(held, (str, int, float)) and held != ""}


def _text(scalar: str | float) -> str:
    return scalar if isinstance(scalar, str) else json.dumps(scalar)
