"""What PostgreSQL's pgoutput plugin says about an inserted row. Pure.

Format: PostgreSQL's documentation, "Logical Replication Message Formats", protocol version 1.
"""

_INSERT, _NEW_TUPLE = ord("I"), ord("N")
_TEXT = ord("t")


def inserted_values(message: bytes) -> list[bytes | None] | None:
    """Return the columns of an Insert message in the table's order, as text; ``None`` for any other message.

    A column is ``None`` if it is null.
    """
    # 'I', the relation's oid, 'N', and then the tuple: a count of columns, each with a kind.
    if len(message) < 8 or message[0] != _INSERT or message[5] != _NEW_TUPLE:
        return None
    values: list[bytes | None] = []
    at = 8
    for _ in range(int.from_bytes(message[6:8])):
        if message[at] == _TEXT:
            length = int.from_bytes(message[at + 1 : at + 5])
            values.append(message[at + 5 : at + 5 + length])
            at += 5 + length
        else:
            values.append(None)
            at += 1
    return values
