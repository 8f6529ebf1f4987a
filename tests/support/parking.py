"""A consumer without a broker: it is handed its messages, and applies them in a real database."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import Any
from uuid import UUID, uuid4

import psycopg

from cdc_outbox.consumer import Event, InboxTable, Limits, Outcome, SequenceMode, WireContract
from cdc_outbox.consumer.database import ConsumerDatabase
from cdc_outbox.consumer.epochs import Place
from cdc_outbox.consumer.handlers import Handlers
from cdc_outbox.consumer.item import Item, item_of
from cdc_outbox.consumer.orders import orders_of
from cdc_outbox.consumer.park import Failure, Reason
from cdc_outbox.consumer.schema import inbox_component
from cdc_outbox.consumer.session import Session
from cdc_outbox.drivers.immediate import finish
from cdc_outbox.errors import HandlerError
from cdc_outbox.message import Message
from cdc_outbox.metrics import NoMetrics
from cdc_outbox.tracing import OpenTelemetrySpans
from tests.support.rig import Connection, apply_effect, one, run_upgrade

CONTRACT = WireContract(
    aggregates={
        "order": SequenceMode.GAPLESS,
        "price": SequenceMode.INCREASING,
        "visit": SequenceMode.NONE,
    },
    topic="events",
)
SOURCE = "orders.1"
PLACE = Place("events", 0)


def make_inbox(dsn: str) -> None:
    """Create the inbox, and a table for the effects."""
    with psycopg.connect(dsn) as connection:
        run_upgrade(connection, inbox_component(InboxTable()))
        connection.execute(
            "create table effects (number serial, aggregate text, sequence bigint, event_id text)",
        )


def id_made_at(moment: datetime) -> str:
    """Return a new UUIDv7 of a time."""
    milliseconds = int(moment.timestamp() * 1000)
    random = int.from_bytes(os.urandom(10), "big")
    number = milliseconds << 80 | 0x7 << 76 | (random >> 68 & 0xFFF) << 64 | 0b10 << 62 | random & (1 << 62) - 1
    return str(UUID(int=number))


def _nothing() -> None:
    """Happen."""


@dataclass
class Receiver:
    """One consumer of the contract's topics.

    Args:
        broken: Aggregate ids whose events its handler fails on.
    """

    dsn: str
    name: str = field(default_factory=lambda: f"shop-{uuid4().hex[:8]}")
    contract: WireContract = CONTRACT
    broken: set[str] = field(default_factory=set)
    offsets: Iterator[int] = field(default_factory=count)

    def event(self, sequence: int | None, kind: str = "order", number: str = "1", **more: Any) -> Event:
        """Return an event as it is read from a topic."""
        return Event(
            aggregate_type=kind,
            aggregate_id=number,
            type="OrderPlaced",
            payload={"secret": "hunter2"},
            id=more.pop("id", None) or str(uuid4()),
            sequence=sequence,
            source=SOURCE,
            **more,
        )

    def message(self, event: Event) -> Message:
        """Return the message that an event comes in."""
        written = self.contract.message_of(event)
        return replace(written, topic="events", partition=0, offset=next(self.offsets))

    def take(self, *arrived: Event | Message) -> list[Outcome]:
        """Receive events, each in a transaction of its own; what fails is parked, dead."""
        messages = [self.message(each) if isinstance(each, Event) else each for each in arrived]
        return [self._apply(item_of(message, self.contract)) for message in messages]

    def look(self, meanwhile: Callable[[], object] = _nothing) -> list[Outcome]:
        """Look into the park until nothing is due, and return what became of what was.

        Args:
            meanwhile: What happens between a look and the transaction.
        """
        outcomes: list[Outcome] = []
        with self._session() as (session, held):
            while True:
                due, _ = finish(session.find_due(held, 100))
                if not due:
                    return outcomes
                items = [item_of(row.message, self.contract, row) for row in due]
                meanwhile()
                meanwhile = _nothing
                try:
                    outcomes += finish(session.apply(items, held, 100)).outcomes
                except HandlerError:
                    outcomes += [self._apply(item) for item in items]

    def ask(self, query: str, *parameters: object) -> Any:
        """Return the one value that a query returns."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return one(connection, query, *parameters)

    def rows(self, query: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return what a query returns."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            return connection.execute(query.encode(), parameters).fetchall()

    def effects(self) -> list[tuple[str, int | None]]:
        """Return aggregate and sequence of each effect of this consumer, in the order in which they came."""
        return self.rows("select aggregate, sequence from effects where event_id like %s order by number", "%")

    def mark(self, kind: str = "order", number: str = "1") -> tuple[int, int]:
        """Return where an aggregate stands, and how many of its events are parked so that others wait."""
        [row] = self.rows(
            "select last, parked from inbox_watermarks where consumer = %s and aggregatetype = %s and aggregateid = %s",
            self.name,
            kind,
            number,
        )
        return row[0], row[1]

    def parked(self) -> dict[int, tuple[str, str, int | None]]:
        """Return state, reason and sequence of what is parked, by place."""
        query = "select place, state, reason, sequence from inbox_parked where consumer = %s order by place"
        return {place: (state, reason, sequence) for place, state, reason, sequence in self.rows(query, self.name)}

    def place_of(self, sequence: int | None) -> int:
        """Return the place at which an event of this sequence is parked."""
        [place] = [place for place, (_, _, found) in self.parked().items() if found == sequence]
        return place

    def _apply(self, item: Item) -> Outcome:
        with self._session() as (session, held):
            try:
                [outcome] = finish(session.apply([item], held, 100)).outcomes
            except HandlerError as error:
                failed = item.failing(Failure(reason=Reason.FAILED, error=str(error), attempts=1))
                [outcome] = finish(session.apply([failed], held, 100)).outcomes
            return outcome

    @contextmanager
    def _session(self) -> Iterator[tuple[Session, Mapping[Place, int]]]:
        session = Session(lambda: psycopg.connect(self.dsn), self._know)
        try:
            yield session, {place: tenure.epoch for place, tenure in finish(session.issue([PLACE])).items()}
        finally:
            finish(session.close())

    def _know(self, connection: Connection) -> ConsumerDatabase:
        handlers = Handlers()
        handlers.add(["OrderPlaced"], self._effect, takes_batch=False)
        return ConsumerDatabase(
            connection,
            table=None,
            consumer=self.name,
            handlers=handlers,
            order_of=orders_of(self.contract, (), ()).__getitem__,
            limits=Limits(),
            before_commit=None,
            pipeline=False,
            asynchronous=False,
            metrics=NoMetrics(),
            spans=OpenTelemetrySpans(),
        )

    def _effect(self, event: Event, connection: Connection) -> None:
        if event.aggregate_id in self.broken:
            raise ValueError(event.aggregate_id)
        apply_effect(event, connection)
