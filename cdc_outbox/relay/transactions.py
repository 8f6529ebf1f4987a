"""Replication frames as units of messages. Pure: it is given frames, and asked for units."""

from typing import Protocol

from cdc_outbox.databases.pgoutput import (
    INSERT,
    KEEPALIVE,
    MESSAGE_AT,
    WAL,
    Begin,
    Commit,
    Delete,
    LogicalMessage,
    Origin,
    Relation,
    Truncate,
    TypeName,
    Update,
    read_insert,
    read_keepalive,
    read_message,
)
from cdc_outbox.debezium.event_router.compiled import Route
from cdc_outbox.debezium.event_router.produce import RoutedEvent
from cdc_outbox.errors import DecodeError
from cdc_outbox.relay.units import Unit

MAX_EVENTS = 512
"""The most events of a unit: a larger transaction is cut, so that memory does not depend on its size."""
MAX_BYTES = 1 << 20
"""A unit ends with the event that reaches this many bytes of frames, for the same reason."""


class Routes(Protocol):
    """The messages that the relay publishes of each table.

    Errors: those of the routing, such as ``RoutingError``, and of reading the columns' types; the relay stops at them.
    """

    def find(self, relation: Relation) -> Route | None:
        """Return the route of a table's rows, ``None`` for a table that is not published.

        Called for each Relation message: the first of a session, and one after each change of the table.
        """

    def drop(self, operation: str) -> None:
        """Drop an updated (``u``), deleted (``d``) or truncated (``t``) row, or raise as Debezium would."""


class Transactions:
    """Assembles units from the frames of one replication stream.

    A unit holds whole transactions, or a part of one, and has the position behind its last commit. A keepalive between
    transactions moves that position; within one it says nothing about what may be confirmed.

    Attributes:
        is_full: Whether :meth:`take` must be called before the next frame is added.
    """

    def __init__(self, routes: Routes) -> None:
        self._routes = routes
        self._relations: dict[int, Route | None] = {}
        self._commit_lsn: int | None = None
        self._events: list[RoutedEvent] = []
        self._bytes = 0
        self._taken = self._position = 0
        self.is_full = False

    def take(self) -> Unit[int] | None:
        """Return what was added since the last call; ``None`` if that confirms and publishes nothing."""
        is_further = self._position > self._taken
        if not self._events and not is_further:
            return None
        unit = Unit(self._events, self._position if is_further else None)
        self._events, self._bytes, self._taken, self.is_full = [], 0, self._position, False
        return unit

    @property
    def is_open(self) -> bool:
        """Whether the commit of the last transaction was not read yet."""
        return self._commit_lsn is not None

    def add(self, frame: bytes) -> bool:
        """Add the frame that came next.

        Returns:
            Whether the server wants a status update at once.

        Raises:
            DecodeError: It cannot be read, or cannot come next.
            CdcOutboxError: What :class:`Routes` raises.
        """
        kind = frame[0] if frame else None
        if kind == WAL and len(frame) > MESSAGE_AT:
            if frame[MESSAGE_AT] == INSERT:
                self._insert(frame)
            else:
                self._take_message(frame)
        elif kind == KEEPALIVE:
            keepalive = read_keepalive(frame)
            # The server may have sent it before it noted that it had sent the last commit.
            if self._commit_lsn is None and keepalive.wal_end > self._position:
                self._position = keepalive.wal_end
            return keepalive.wants_reply
        else:
            raise DecodeError(f"a frame {frame[:1]!r} of {len(frame)} bytes is neither a message nor a keepalive")
        return False

    def _insert(self, frame: bytes) -> None:
        oid, values = read_insert(frame, MESSAGE_AT)
        if oid not in self._relations or self._commit_lsn is None:
            raise DecodeError("an inserted row is of a relation that was not described, or outside of a transaction")
        route, events = self._relations[oid], self._events
        if route is not None:
            events.append(route(values))
            self._bytes += len(frame)
            self.is_full = len(events) >= MAX_EVENTS or self._bytes >= MAX_BYTES

    def _take_message(self, frame: bytes) -> None:
        match read_message(frame, MESSAGE_AT):
            case Begin(commit_lsn=lsn):
                self._expect(None)
                self._commit_lsn = lsn
            case Commit(lsn=lsn, end_lsn=end):
                self._expect(lsn)
                self._commit_lsn = None
                self._position = max(self._position, end)
            case Relation() as relation:
                self._relations[relation.oid] = self._routes.find(relation)
            case Update(oid=oid):
                self._drop("u", oid)
            case Delete(oid=oid):
                self._drop("d", oid)
            case Truncate(oids=oids):
                for oid in oids:
                    self._drop("t", oid)
            case LogicalMessage() | Origin() | TypeName():
                pass

    def _expect(self, commit_lsn: int | None) -> None:
        if self._commit_lsn != commit_lsn:
            raise DecodeError("a transaction begins within another one, or ends where none began")

    def _drop(self, operation: str, oid: int) -> None:
        if oid not in self._relations or self._commit_lsn is None:
            raise DecodeError("a change is of a relation that was not described, or outside of a transaction")
        if self._relations[oid] is not None:
            self._routes.drop(operation)
