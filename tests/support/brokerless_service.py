"""A consuming service without a broker: it is handed its messages, and applies them in a real database."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import psycopg

from cdc_outbox.consumer import Consumer, InboxTable, Outcome, RecordedEvent, SequenceMode, WireContract
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.item import Item, item_of
from cdc_outbox.consumer.limits import ENDLESS
from cdc_outbox.consumer.parked_events import Failure, Reason
from cdc_outbox.consumer.session import Session
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.databases.drivers.psycopg import Psycopg, connect
from cdc_outbox.errors import HandlerError
from cdc_outbox.message import Message
from cdc_outbox.operations.connections import OpenInbox
from tests.support.rig import Connection
from tests.support.service import ServiceTables, apply_effect

CONTRACT = WireContract(
    aggregates={
        "order": SequenceMode.GAPLESS,
        "price": SequenceMode.INCREASING,
        "visit": SequenceMode.NONE,
    },
    topic="events",
)
TOPIC_PARTITION = TopicPartition("events", 0)


def _nothing() -> None:
    """Do nothing."""


@dataclass
class BrokerlessService(ServiceTables):
    """One consumer of the contract's topics.

    Args:
        broken: Aggregate ids whose events its handler fails on.
    """

    contract: WireContract = CONTRACT
    broken: set[str] = field(default_factory=set)
    offsets: Iterator[int] = field(default_factory=count)

    def message_of(self, event: RecordedEvent) -> Message:
        """Return the message that an event comes in."""
        written = self.contract.message_of(event)
        return replace(
            written,
            topic=TOPIC_PARTITION.topic,
            partition=TOPIC_PARTITION.partition,
            offset=next(self.offsets),
        )

    def deliver(self, *arrived: RecordedEvent | Message) -> list[Outcome]:
        """Apply events, each in a transaction of its own; what fails is parked, dead."""
        messages = [self.message_of(each) if isinstance(each, RecordedEvent) else each for each in arrived]
        return [self._apply(item_of(message, self.contract)) for message in messages]

    @contextmanager
    def opened(self) -> Iterator[OpenInbox]:
        """Open its inbox as an operator does."""
        with connect(self.dsn) as connection:
            yield OpenInbox(connection, Psycopg(), table=InboxTable(), consumer=self.name)

    def holes(self) -> list[tuple[Any, ...]]:
        """Return aggregate id, first and last number, reason, event id and note of each hole, in order."""
        query = (
            "select aggregateid, first, last, reason, event_id, note from inbox_holes where consumer = %s"
            " order by first"
        )
        return self.rows(query, self.name)

    def retry_parked(self, meanwhile: Callable[[], object] = _nothing) -> list[Outcome]:
        """Apply parked events until none is due, and return the outcome of each.

        Args:
            meanwhile: What happens between the first query for what is due and the transaction.
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
                    outcomes += finish(session.apply(items, held, ENDLESS)).outcomes
                except HandlerError:
                    outcomes += [self._apply(item) for item in items]

    def _apply(self, item: Item) -> Outcome:
        with self._session() as (session, held):
            try:
                [outcome] = finish(session.apply([item], held, ENDLESS)).outcomes
            except HandlerError as error:
                failed = item.failing(Failure(reason=Reason.FAILED, error=str(error), attempts=1))
                [outcome] = finish(session.apply([failed], held, ENDLESS)).outcomes
            return outcome

    @contextmanager
    def _session(self) -> Iterator[tuple[Session, Mapping[TopicPartition, int]]]:
        connect = lambda: psycopg.connect(self.dsn)  # noqa: E731
        consumer = Consumer(name=self.name, contract=self.contract, kafka="nowhere", database=connect)
        consumer.on("OrderPlaced")(self._effect)
        session = Session(connect, consumer._know)
        try:
            tenures = finish(session.issue([TOPIC_PARTITION]))
            yield session, {topic_partition: tenure.epoch for topic_partition, tenure in tenures.items()}
        finally:
            finish(session.close())

    def _effect(self, event: RecordedEvent, connection: Connection) -> None:
        if event.aggregate_id in self.broken:
            raise ValueError(f"no carrier takes order {event.aggregate_id}")
        apply_effect(event, connection)
