"""What PostgreSQL's pgoutput plugin says about a transaction, an inserted row or a logical message. Pure.

Format: PostgreSQL's documentation, "Logical Replication Message Formats", protocol version 1, values as text.
"""

from cdc_outbox.errors import DecodeError

_BEGIN, _INSERT, _NEW_TUPLE, _MESSAGE = b"B", b"I", b"N", b"M"
_NULL, _TEXT = b"n", b"t"


def inserted_values(message: bytes) -> list[bytes | None] | None:
    """Return the columns of an Insert message in the table's order, as text; ``None`` for any other message.

    A column is ``None`` if it is null.

    Raises:
        DecodeError: An Insert message ends too early or too late, or a column is neither null nor text: the values
            after it would be misread.
    """
    if message[:1] != _INSERT:
        return None
    # 'I', the relation's oid, 'N', and then the tuple: a count of columns, each with a kind.
    _, tuple_kind, count = _take(message, 1, 4), _take(message, 5, 1), int.from_bytes(_take(message, 6, 2))
    if tuple_kind != _NEW_TUPLE:
        raise DecodeError(f"an Insert message holds a tuple of the unknown kind {tuple_kind!r}")
    values: list[bytes | None] = []
    at = 8
    for _ in range(count):
        kind = _take(message, at, 1)
        at += 1
        if kind == _NULL:
            values.append(None)
        elif kind == _TEXT:
            length = int.from_bytes(_take(message, at, 4))
            values.append(_take(message, at + 4, length))
            at += 4 + length
        else:
            raise DecodeError(f"column {len(values) + 1} of an Insert message is of the unexpected kind {kind!r}")
    if at != len(message):
        raise DecodeError(f"an Insert message continues for {len(message) - at} bytes after its last column")
    return values


def commit_lsn(message: bytes) -> int | None:
    """Return where the transaction that a Begin message begins was committed; ``None`` for any other message.

    Raises:
        DecodeError: The message ends too early.
    """
    return int.from_bytes(_take(message, 1, 8)) if message[:1] == _BEGIN else None


def emitted_content(message: bytes, prefix: str) -> bytes | None:
    """Return the content of a logical message with this prefix; ``None`` for any other message.

    Raises:
        DecodeError: The message ends too early or too late.
    """
    # 'M', flags, the LSN, the prefix up to a NUL, and then a length and the content.
    start = 10
    if message[:1] != _MESSAGE or message[start:].partition(b"\0")[0] != prefix.encode():
        return None
    at = start + len(prefix.encode()) + 1
    content = _take(message, at + 4, int.from_bytes(_take(message, at, 4)))
    if at + 4 + len(content) != len(message):
        raise DecodeError("a logical message continues after its content")
    return content


def _take(message: bytes, at: int, length: int) -> bytes:
    taken = message[at : at + length]
    if len(taken) != length:
        raise DecodeError(f"a message {message[:1]!r} of {len(message)} bytes ends before byte {at + length}")
    return taken
