"""Proofs by connectors that run: what is done at a place, and what is then seen there."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from cdc_outbox.testing import Stack
from tests.proofs.place import PostgresPlace, Topics
from tests.proofs.proof import Changes, Proof

Act = Callable[[PostgresPlace], object]
Seen = Callable[[PostgresPlace], object]

SLOTS = 15
"""Places at a time: the stack's server has 20 slots, and some proofs make one more."""


class Room:
    """So many at a time; whoever needs two gets both, or waits for both."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, places: int) -> Iterator[None]:
        """Take some, and give them back."""
        with self._changed:
            self._changed.wait_for(lambda: self._free >= places)
            self._free -= places
        try:
            yield
        finally:
            with self._changed:
                self._free += places
                self._changed.notify_all()


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where places are made: the stack, a database, and what is read from every topic.

    Args:
        opened: What is closed at the end.
    """

    stack: Stack
    topics: Topics
    database: str
    opened: ExitStack
    room: Room = field(default_factory=lambda: Room(SLOTS))
    _clean: list[PostgresPlace] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def place(self, code: str, *, apart: bool, prepare: str = "") -> Iterator[PostgresPlace]:
        """Make a place, and clear it away.

        Args:
            apart: In a database of its own.
            prepare: What is done before the slot is there.
        """
        name = f"{code.lower()}_{uuid4().hex[:8]}"
        if apart:
            self.stack.postgres.create_database(name)
        with closing(PostgresPlace(self.stack, self.topics, name, name if apart else self.database)) as place:
            for statement in prepare.split(";\n"):
                place.sql(statement)
            place.make_slot()
            yield place

    def clean(self) -> PostgresPlace:
        """Return a place where a connector without any hazard runs and an event was written; one for all who ask."""
        with self._lock:
            if not self._clean:
                place = self.opened.enter_context(self.place("cc000", apart=False))
                run(place, Proof(code="CC000", changes={}), {}, write)
                self._clean.append(place)
            return self._clean[0]


def run(place: PostgresPlace, proof: Proof, changes: Changes, act: Act) -> None:
    """Run a connector, and do something."""
    place.deploy(proof.config(changes, name=place.name, database=place.database))
    act(place)
    place.mark()


def write(place: PostgresPlace) -> None:
    """Write one event."""
    place.event()


def arrives(place: PostgresPlace) -> object:
    """See the event come to its topic."""
    return place.messages()


def nothing(place: PostgresPlace) -> bool:
    """See nothing come, though the connector has read on."""
    return place.has_read() and not place.messages()


def fails(exception: str, text: str = "") -> Seen:
    """See the connector or its task fail."""

    def seen(place: PostgresPlace) -> bool:
        trace = place.trace()
        return exception in trace and text in trace

    return seen


@dataclass(frozen=True, kw_only=True)
class Ran(Proof):
    """A hazard that shows when the connector runs.

    Args:
        act: What is done when the connector is there.
        shows: Whether the hazard is seen.
        instead: What is seen of a fixed one; ``None`` for a hazard that is nothing but an option that does nothing.
        prepare: What is done before the slot is there.
        apart: Whether it needs a database of its own.
    """

    shows: Seen
    act: Act = write
    instead: Seen | None = arrives
    prepare: str = ""
    apart: bool = False

    def prove(self, site: Site) -> None:
        """Run it, and then the fixed one."""
        with site.room.taken(1):
            with self.acted(site, self.changes) as place:
                place.until(lambda: self.shows(place))
            if self.instead is None:
                return
            if self.act is write and not (self.fixed or self.prepare or self.apart):
                self._clears(self.instead, site.clean())
                return
            with self.acted(site, self.fixed) as place:
                self._clears(self.instead, place)

    def _clears(self, instead: Seen, place: PostgresPlace) -> None:
        place.until(lambda: instead(place))
        assert not self.shows(place)

    @contextmanager
    def acted(self, site: Site, changes: Changes) -> Iterator[PostgresPlace]:
        """Make a place, run a connector there, and do what is to be done."""
        with site.place(self.code, apart=self.apart, prepare=self.prepare) as place:
            run(place, self, changes, self.act)
            yield place
