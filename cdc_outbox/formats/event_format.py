"""How an event travels: what its payload is, and where its attributes are."""

from collections.abc import Mapping
from enum import StrEnum


class PayloadType(StrEnum):
    """What a payload is, in its column and in the message's value."""

    JSON = "json"
    BYTES = "bytes"
    """Avro, Protobuf, anything; readers get it as it was written."""
    EXPANDED = "expanded"
    """JSON objects of a shape that Debezium can guess, so that a value that is a structure holds them as objects."""

    @property
    def stored(self) -> "PayloadType":
        """What the payload column holds."""
        return PayloadType.JSON if self is PayloadType.EXPANDED else self


class EventFormat(StrEnum):
    """How an event's attributes travel."""

    PLAIN = "plain"
    """In headers of this package's names."""
    ENVELOPE = "envelope"
    """In fields of those names, beside the payload in a JSON object; only the id is in a header as well."""
    CLOUDEVENTS_BINARY = "cloudevents-binary"
    """In the headers of CloudEvents 1.0, the payload as it is."""
    CLOUDEVENTS_STRUCTURED = "cloudevents-structured"
    """In an envelope of CloudEvents 1.0 around the payload, and in the plain headers besides."""


FORMAT_HEADERS: Mapping[EventFormat, Mapping[str, str]] = {
    EventFormat.PLAIN: {},
    EventFormat.ENVELOPE: {},
    EventFormat.CLOUDEVENTS_BINARY: {
        "ce_specversion": "ce_specversion",
        "ce_time": "ce_time",
        "content_type": "content-type",
    },
    EventFormat.CLOUDEVENTS_STRUCTURED: {"content_type": "content-type"},
}
"""Header columns that the writer fills in, each with its header."""
