"""Events that a consumer's handlers add: gathered until the end of their transaction, with what caused them."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime

from cdc_outbox.databases.drivers import AnyConnection
from cdc_outbox.event import Event, RecordedEvent
from cdc_outbox.writer.draft import Draft

CAUSATION, CORRELATION = "causation_id", "correlation_id"
"""The headers that carry the id of the event that was handled, and that of the first one in the chain. They are
written where the outbox has columns for them, and read whichever producer wrote them."""


class Reaction:
    """What the handlers of one transaction have added so far.

    Attributes:
        drafts: In order; each was checked when it was added, so that its own handler gets the error.
    """

    def __init__(self, connection: AnyConnection) -> None:
        self.connection = connection
        self.drafts: list[Draft] = []
        self._cause: RecordedEvent | None = None

    def caused_by(self, events: Sequence[RecordedEvent]) -> None:
        """Take what is added from here on for a consequence of these; of several, only the last is its cause."""
        self._cause = events[-1] if events else None

    def with_cause(self, event: Event, headers: Collection[str]) -> Event:
        """Return an event with what caused it, unless it says so itself.

        Args:
            headers: Those that the outbox has columns for.
        """
        if self._cause is None:
            return event
        known = {CAUSATION: self._cause.id, CORRELATION: self._cause.headers.get(CORRELATION, self._cause.id)}
        added = {name: value for name, value in known.items() if name in headers}
        return replace(event, headers={**added, **event.headers}) if added else event


def unwritten(event: Event, event_id: str) -> RecordedEvent:
    """Return what ``add`` returns of an event that it has not inserted: without what the database adds."""
    return event.recorded(event_id, datetime.now(UTC), sequence=event.sequence, is_written=False)


_REACTIONS: ContextVar[tuple[tuple[object, Reaction], ...]] = ContextVar("cdc_outbox_reactions", default=())


@contextmanager
def reacting(outbox: object, reaction: Reaction) -> Iterator[None]:
    """Have what is added to this outbox on the reaction's connection be part of it."""
    token = _REACTIONS.set((*_REACTIONS.get(), (outbox, reaction)))
    try:
        yield
    finally:
        _REACTIONS.reset(token)


def is_reacting() -> bool:
    """Return whether anything is gathered here, for any outbox."""
    return bool(_REACTIONS.get())


def find_reaction(outbox: object, connection: AnyConnection) -> Reaction | None:
    """Return what is gathered for an outbox on a connection, or on a cursor of it, if anything is."""
    for owner, reaction in reversed(_REACTIONS.get()):
        if owner is outbox and _leads_to(connection, reaction.connection):
            return reaction
    return None


def _leads_to(connectable: object, connection: object) -> bool:
    return connectable is connection or getattr(connectable, "connection", None) is connection
