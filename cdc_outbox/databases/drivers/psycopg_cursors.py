"""What makes statements of psycopg's cheaper that are executed for every event: kept cursors, and dumpers of lists."""

from collections.abc import Mapping
from typing import Any, TypeVar, cast
from weakref import proxy

import psycopg
from psycopg.abc import Buffer, DumperKey
from psycopg.adapt import Dumper, Loader, PyFormat, RecursiveDumper
from psycopg.rows import tuple_row
from psycopg.types.array import ListBinaryDumper

_KEPT = "_cdc_outbox_cursors"
_MAX_KEPT = 20
"""A service has a few statements; an outbox for each request would have as many as it has tables."""

AnyPsycopg = TypeVar("AnyPsycopg", psycopg.Connection[Any], psycopg.AsyncConnection[Any])
CursorKey = tuple[str, bytes | None]


def kept_cursors(connection: AnyPsycopg, sql: str) -> tuple[dict[CursorKey, Any], CursorKey]:
    """Return the cursors that a connection keeps, and the key of the one for a statement.

    A new cursor, and what psycopg looks up at its first execution, cost half as much as the statement. Take the cursor
    out while it is used, because a thread may use the same connection; put it back unless the statement failed.
    """
    kept: dict[CursorKey, Any] = vars(connection).setdefault(_KEPT, {})
    if len(kept) > _MAX_KEPT:
        kept.clear()
    # A cursor keeps the encoding of its first execution, and a session may change it.
    return kept, (sql, connection.pgconn.parameter_status(b"client_encoding"))


def not_owned(connection: AnyPsycopg) -> AnyPsycopg:
    """Return a connection for a cursor that it keeps: with the connection itself, neither would ever be freed."""
    return cast("AnyPsycopg", proxy(connection))


def cursor_of(kind: type[Any], connection: AnyPsycopg) -> Any:  # noqa: ANN401 - a cursor of that kind
    """Return a cursor that reads texts as UTF-8 also in a session of SQL_ASCII, where psycopg returns their bytes."""
    cursor = kind(connection, row_factory=tuple_row)
    if connection.pgconn.parameter_status(b"client_encoding") == b"SQL_ASCII":
        for name in ("text", "varchar", "name"):
            cursor.adapters.register_loader(name, _TextLoader)
    return cursor


class _TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        return str(data, "utf-8")


class ListDumper(RecursiveDumper):
    """Lists as our statements take them, each of which says of what type its own are.

    psycopg looks at each element of a list in turn, which costs as much as all else about a claim.
    """

    def get_key(self, obj: list[Any], format: PyFormat) -> DumperKey:  # noqa: A002 - psycopg's name
        """Return a key for lists of texts only or of numbers only; for other lists, psycopg's own key."""
        plain = _PLAIN.get(frozenset(map(type, obj)))
        return (plain,) if plain else (list, ListBinaryDumper(list, self._tx).get_key(obj, format))

    def upgrade(self, obj: list[Any], format: PyFormat) -> Dumper:  # noqa: A002
        """Return the dumper for the list's key."""
        plain = _PLAIN.get(frozenset(map(type, obj)))
        return plain(list, self._tx) if plain else ListBinaryDumper(list, self._tx).upgrade(obj, format)

    def dump(self, obj: list[Any]) -> "Buffer | None":  # quoted, for psycopg 3.2 has a text for it
        """Leave it to the dumper that this one became."""
        raise NotImplementedError


class _NumbersDumper(Dumper):
    def dump(self, obj: list[int]) -> bytes:
        return f"{{{','.join(map(str, obj))}}}".encode()


class _TextsDumper(Dumper):
    def dump(self, obj: list[str]) -> bytes:
        # No text of PostgreSQL's has a NUL, so it stands between them until they are escaped, all at once.
        texts = "\0".join(obj)
        if texts.count("\0") >= len(obj):
            raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
        escaped = texts.replace("\\", r"\\").replace('"', r"\"").replace("\0", '","')
        encoding = self.connection.info.encoding if self.connection else "utf-8"
        # Of SQL_ASCII psycopg says ascii, and takes it for one that tells nothing about the bytes, as it does here.
        return f'{{"{escaped}"}}'.encode("utf-8" if encoding == "ascii" else encoding)


_PLAIN: Mapping[frozenset[type], type[Dumper]] = {
    frozenset(): _NumbersDumper,
    frozenset({int}): _NumbersDumper,
    frozenset({str}): _TextsDumper,
}
