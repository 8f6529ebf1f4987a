"""Bytes, as JSON and people take them."""

import base64


def octets_as_json(octets: bytes | None) -> str | dict[str, str] | None:
    """Return the text that bytes are; of those that are none, an object with ``base64`` in it."""
    try:
        return None if octets is None else octets.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(octets or b"").decode()}
