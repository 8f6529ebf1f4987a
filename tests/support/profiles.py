"""The profiles that a payload may have: what the spec says of each, and a payload of its kind."""

from collections.abc import Mapping

from cdc_outbox import PayloadType

PROFILES: Mapping[str, str] = {
    "json": "",
    "bytes": ", payload_type: bytes",
    "envelope": ", format: envelope",
    "expanded": ", payload_type: expanded",
    "expanded-envelope": ", payload_type: expanded, format: envelope",
    "cloudevents-binary": ", format: cloudevents-binary",
    "cloudevents-bytes": ", format: cloudevents-binary, payload_type: bytes",
    "cloudevents-structured": ", format: cloudevents-structured",
}
"""Each with what stands behind the first key of a spec's outbox."""

FRAMED = b"\x00\x00\x00\x00\x07\x02\xff\xfe"
"""As a schema registry's serializer frames it; no text in any encoding that is asked about."""


def payload_of(payload_type: PayloadType) -> str | bytes:
    """Return a payload that would come out otherwise under every other payload type."""
    if payload_type is PayloadType.BYTES:
        return FRAMED
    return (
        '{"none": null, "list": [], "lines": [{"sku": "a\\u00e9", "n": 1}, {"sku": null, "n": 2}], "big": 3000000000}'
    )
