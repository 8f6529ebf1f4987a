"""PostgreSQL's replication frames, and the messages of its pgoutput plugin in them: one strict reader. Pure.

Format: PostgreSQL's documentation, "Streaming Replication Protocol" and "Logical Replication Message Formats", protocol
version 1, values as text. A difference in any byte is a :class:`~cdc_outbox.errors.DecodeError`: a lenient
reader would take the bytes after it for something else.
"""

from collections.abc import Callable, Mapping
from struct import Struct, error
from typing import NamedTuple

from cdc_outbox.errors import DecodeError

WAL, KEEPALIVE = ord("w"), ord("k")
"""The kinds of frames, each frame's first byte."""
MESSAGE_AT = 25
"""Where the message of a WAL frame begins: behind the kind, two LSNs and the time."""
INSERT = ord("I")

_NULL, _TEXT = b"nt"
_NEW_TUPLE = ord("N")
_UINT16, _UINT32, _UINT64 = Struct(">H").unpack_from, Struct(">I").unpack_from, Struct(">Q").unpack_from
_INSERT, _INSERT_BYTES = Struct(">BIBH").unpack_from, 8
_KEEPALIVE = Struct(">BQqB")
_WAL_HEAD = Struct(">BQQq")
_STATUS = Struct(">cQQQqB")
_MICROSECONDS_TO_2000 = 946_684_800_000_000


class Keepalive(NamedTuple):
    """A sign of life of the server.

    Args:
        wal_end: The LSN up to which the server has sent everything.
        wants_reply: Whether the server closes the connection unless a status update comes soon.
    """

    wal_end: int
    wants_reply: bool


class Begin(NamedTuple):
    """A transaction begins.

    Args:
        commit_lsn: Where its commit record begins.
    """

    commit_lsn: int


class Commit(NamedTuple):
    """A transaction ends.

    Args:
        lsn: Where its commit record begins.
        end_lsn: Where its commit record ends: the position to confirm.
    """

    lsn: int
    end_lsn: int


class Origin(NamedTuple):
    """The transaction came from another server by replication."""

    name: bytes


class RelationColumn(NamedTuple):
    """A column of a relation.

    Args:
        type_oid: The oid of its type in ``pg_type``.
        modifier: ``atttypmod``, -1 for none.
    """

    name: str
    type_oid: int
    modifier: int


class Relation(NamedTuple):
    """A table's columns, as all following rows of this oid have them."""

    oid: int
    schema: str
    name: str
    columns: tuple[RelationColumn, ...]


class TypeName(NamedTuple):
    """The name of a type that is not built in."""

    oid: int
    schema: str
    name: str


class Insert(NamedTuple):
    """An inserted row.

    Args:
        values: In the relation's order, as PostgreSQL's text; ``None`` is null.
    """

    oid: int
    values: list[bytes | None]


class Update(NamedTuple):
    """An updated row; an outbox has none, so its values are checked and not kept."""

    oid: int


class Delete(NamedTuple):
    """A deleted row; its values are checked and not kept."""

    oid: int


class Truncate(NamedTuple):
    """Truncated tables."""

    oids: tuple[int, ...]


class LogicalMessage(NamedTuple):
    """A message of ``pg_logical_emit_message``, perhaps for another tool."""

    is_transactional: bool
    prefix: bytes
    content: bytes


PgoutputMessage = Begin | Commit | Origin | Relation | TypeName | Insert | Update | Delete | Truncate | LogicalMessage


def read_keepalive(frame: bytes) -> Keepalive:
    """Read a frame of the kind :data:`KEEPALIVE`.

    Raises:
        DecodeError: The frame has another kind or length.
    """
    if len(frame) != _KEEPALIVE.size or frame[0] != KEEPALIVE or frame[-1] > 1:
        raise DecodeError(f"a frame {frame[:1]!r} of {len(frame)} bytes is neither a message nor a keepalive")
    _, wal_end, _, wants_reply = _KEEPALIVE.unpack(frame)
    return Keepalive(wal_end, bool(wants_reply))


def wal_frame(message: bytes, *, start: int = 0, end: int = 0) -> bytes:
    """Return the WAL frame that carries a message."""
    return _WAL_HEAD.pack(WAL, start, end, 0) + message


def keepalive_frame(wal_end: int, *, wants_reply: bool = False) -> bytes:
    """Return a keepalive."""
    return _KEEPALIVE.pack(KEEPALIVE, wal_end, 0, wants_reply)


def status_update(confirmed: int, epoch_microseconds: int) -> bytes:
    """Return the frame that confirms everything before a position as written, flushed and applied; it is answered."""
    return _STATUS.pack(b"r", confirmed, confirmed, confirmed, epoch_microseconds - _MICROSECONDS_TO_2000, 1)


def read_insert(data: bytes, start: int = 0) -> tuple[int, list[bytes | None]]:
    """Read an Insert message that begins at ``start`` and ends with the data: the relation's oid and the values.

    The relay reads each row with it; :func:`read_message` is for the others.

    Raises:
        DecodeError: It is no Insert message, ends too early or too late, or has a column that is neither null nor text.
    """
    values: list[bytes | None] = []
    append = values.append
    at = start + _INSERT_BYTES
    try:
        kind, oid, marker, count = _INSERT(data, start)
        if kind != INSERT or marker != _NEW_TUPLE:
            raise _malformed(data, start)
        for _ in range(count):
            kind = data[at]
            if kind == _TEXT:
                begin = at + 5
                at = begin + _UINT32(data, at + 1)[0]
                append(data[begin:at])
            elif kind == _NULL:
                append(None)
                at += 1
            else:
                raise DecodeError(f"column {len(values) + 1} of an Insert message is of the kind {bytes([kind])!r}")
    except (IndexError, error):
        raise _malformed(data, start) from None
    if at != len(data):  # a value that was cut off is noticed here, too
        raise _malformed(data, start)
    return oid, values


def read_message(data: bytes, start: int = 0) -> PgoutputMessage:
    """Read the message that begins at ``start`` and ends with the data.

    Raises:
        DecodeError: It is of an unknown kind, ends too early or too late, or a value in it is not allowed.
    """
    if data[start : start + 1] == b"I":
        return Insert(*read_insert(data, start))
    reader = _MessageReader(data, start)
    read = _BY_KIND.get(reader.kind)
    if read is None:
        raise DecodeError(f"a message is of the unknown kind {bytes([reader.kind])!r}")
    try:
        message = read(reader)
    except (IndexError, error):
        raise _malformed(data, start) from None
    if reader.at != len(data):
        raise _malformed(data, start)
    return message


def _malformed(data: bytes, start: int) -> DecodeError:
    return DecodeError(f"a message {data[start : start + 1]!r} of {len(data) - start} bytes is malformed")


class _MessageReader:
    """Takes a message apart from left to right; a missing byte raises ``IndexError`` or ``struct.error``."""

    def __init__(self, data: bytes, start: int) -> None:
        if len(data) <= start:
            raise DecodeError("a message is empty")
        self._data, self._start = data, start
        self.at = start + 1
        self.kind = data[start]

    def byte(self, allowed: bytes) -> int:
        """Take a byte that may only be one of these."""
        found = self._data[self.at]
        if found not in allowed:
            raise _malformed(self._data, self._start)
        self.at += 1
        return found

    def uint16(self) -> int:
        self.at += 2
        return int(_UINT16(self._data, self.at - 2)[0])

    def uint32(self) -> int:
        self.at += 4
        return int(_UINT32(self._data, self.at - 4)[0])

    def uint64(self) -> int:
        self.at += 8
        return int(_UINT64(self._data, self.at - 8)[0])

    def octets(self) -> bytes:
        """Take a length and so many bytes; with fewer of them the message's end does not fit."""
        length = self.uint32()
        self.at += length
        return self._data[self.at - length : self.at]

    def string(self) -> bytes:
        """Take what ends on a NUL."""
        end = self._data.find(0, self.at)
        if end < 0:
            raise IndexError
        found = self._data[self.at : end]
        self.at = end + 1
        return found

    def text(self) -> str:
        """Take a name that ends on a NUL."""
        try:
            return self.string().decode()
        except UnicodeDecodeError:
            raise _malformed(self._data, self._start) from None

    def skip_row(self) -> None:
        for _ in range(self.uint16()):
            if self.byte(b"ntu") == _TEXT:
                self.octets()


def _begin(reader: _MessageReader) -> Begin:
    begin = Begin(reader.uint64())
    reader.uint64(), reader.uint32()  # its time and number
    return begin


def _commit(reader: _MessageReader) -> Commit:
    reader.byte(b"\0")
    commit = Commit(reader.uint64(), reader.uint64())
    reader.uint64()
    return commit


def _origin(reader: _MessageReader) -> Origin:
    reader.uint64()
    return Origin(reader.string())


def _relation(reader: _MessageReader) -> Relation:
    oid, schema, name = reader.uint32(), reader.text(), reader.text()
    reader.byte(b"dnfi")  # its replica identity
    return Relation(oid, schema, name, tuple(_column(reader) for _ in range(reader.uint16())))


def _column(reader: _MessageReader) -> RelationColumn:
    reader.byte(b"\0\1")  # whether it belongs to the replica identity
    name, type_oid, modifier = reader.text(), reader.uint32(), reader.uint32()
    return RelationColumn(name, type_oid, modifier - (modifier >> 31 << 32))


def _type(reader: _MessageReader) -> TypeName:
    return TypeName(reader.uint32(), reader.text(), reader.text())


def _update(reader: _MessageReader) -> Update:
    oid = reader.uint32()
    if reader.byte(b"KON") != ord("N"):
        reader.skip_row()
        reader.byte(b"N")
    reader.skip_row()
    return Update(oid)


def _delete(reader: _MessageReader) -> Delete:
    oid = reader.uint32()
    reader.byte(b"KO")
    reader.skip_row()
    return Delete(oid)


def _truncate(reader: _MessageReader) -> Truncate:
    count = reader.uint32()
    reader.byte(b"\0\1\2\3")
    return Truncate(tuple(reader.uint32() for _ in range(count)))


def _logical_message(reader: _MessageReader) -> LogicalMessage:
    is_transactional = reader.byte(b"\0\1") == 1
    reader.uint64()
    return LogicalMessage(is_transactional, reader.string(), reader.octets())


_BY_KIND: Mapping[int, Callable[[_MessageReader], PgoutputMessage]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("O"): _origin,
    ord("R"): _relation,
    ord("Y"): _type,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("M"): _logical_message,
}
