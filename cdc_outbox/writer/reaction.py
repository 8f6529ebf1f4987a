"""Events that a consumer's handlers add: gathered until the end of their transaction, and told what caused them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from cdc_outbox.event import Event, new_event_id

CAUSATION, CORRELATION = "causation_id", "correlation_id"
"""The headers that carry the id of the event that was handled, and that of the first one in the chain. They are
written where the outbox has columns for them, and read from whoever wrote them."""


class Reaction:
    """What the handlers of one transaction have added so far.

    Attributes:
        events: In order, each with its id.
    """

    def __init__(self, connection: Any) -> None:  # noqa: ANN401 - any driver's
        self.connection = connection
        self.events: list[Event] = []
        self._cause: Event | None = None

    def caused_by(self, events: Sequence[Event]) -> None:
        """Take what is added from here on for a consequence of these; of several, only the last is its cause."""
        self._cause = events[-1] if events else None

    def add(self, events: Iterable[Event], headers: Iterable[str]) -> list[Event]:
        """Keep events for the end of the transaction, and return them with their ids and causes.

        Args:
            headers: Those that the outbox has columns for.
        """
        told = {name: value for name, value in self._headers().items() if name in set(headers)}
        added = [replace(event, id=event.id or new_event_id(), headers={**told, **event.headers}) for event in events]
        self.events += added
        return added

    def _headers(self) -> Mapping[str, str]:
        if self._cause is None or self._cause.id is None:
            return {}
        return {CAUSATION: self._cause.id, CORRELATION: self._cause.headers.get(CORRELATION, self._cause.id)}


_REACTIONS: ContextVar[tuple[tuple[object, Reaction], ...]] = ContextVar("cdc_outbox_reactions", default=())


@contextmanager
def reacting(outbox: object, reaction: Reaction) -> Iterator[None]:
    """Have what is added to this outbox on the reaction's connection be part of it."""
    token = _REACTIONS.set((*_REACTIONS.get(), (outbox, reaction)))
    try:
        yield
    finally:
        _REACTIONS.reset(token)


def find_reaction(outbox: object, connection: Any) -> Reaction | None:  # noqa: ANN401
    """Return what is gathered for an outbox on a connection, if anything is."""
    for owner, reaction in reversed(_REACTIONS.get()):
        if owner is outbox and reaction.connection is connection:
            return reaction
    return None
