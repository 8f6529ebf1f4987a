"""The few habits of Java's strings that options and payloads meet."""

_BLANKS = "".join(map(chr, range(0x21)))
"""What Java's ``String.trim`` takes away, other characters than Python's ``str.strip``."""


def trim(text: str) -> str:
    """Trim as ``String.trim`` does."""
    return text.strip(_BLANKS)


def split(text: str, separator: str) -> list[str]:
    """Split as ``String.split`` does: empty parts at the end are dropped, but for a text without a separator."""
    parts = text.split(separator)
    if len(parts) > 1:
        while parts and not parts[-1]:
            parts.pop()
    return parts


def encode(text: str) -> bytes:
    """Encode as ``String.getBytes`` does: half a surrogate pair becomes a question mark."""
    return text.encode("utf-8", "replace")
