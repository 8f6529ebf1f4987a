"""What was produced, what came of it, and what is wrong with that."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self, cast

import psycopg
from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, Producer, TopicPartition
from confluent_kafka import Message as Record

from cdc_outbox import RecordedEvent
from cdc_outbox.consumer import InboxTable, inbox_component
from cdc_outbox.event import new_event_id
from cdc_outbox.testing import Stack
from tests.faults.program import contract_of
from tests.support.patience import patience
from tests.support.rig import Connection, run_upgrade

POISONED = "z"
"""The aggregate with the event whose handler raises."""
_SOURCE = "orders.1"
_TABLES = """
create table ledger (
    number serial primary key, consumer text, member text, aggregate text, sequence bigint, event_id text,
    held bigint, owned bigint);
create index on ledger (consumer);
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A database with an inbox, beside a broker."""

    stack: Stack
    dsn: str

    @classmethod
    def make(cls, stack: Stack, name: str) -> Self:
        dsn = stack.postgres.create_database(name)
        with psycopg.connect(dsn, autocommit=True) as connection:
            run_upgrade(connection, inbox_component(InboxTable()))
            connection.execute(_TABLES)
        return cls(stack=stack, dsn=dsn)


class Ledger:
    """One topic, one consumer of it, and every event that it was given."""

    def __init__(self, ground: Ground, name: str, *, partitions: int = 2) -> None:
        self.name, self.ground = name, ground
        self.events: dict[str, list[RecordedEvent]] = {}
        self.ends: Counter[int] = Counter()
        """Offsets behind the last message, by partition."""
        self._poison: RecordedEvent | None = None
        self._contract = contract_of(name)
        broker = ground.stack.broker
        broker.create_topic(name, partitions=partitions)
        self._brokers = broker.bootstrap_servers
        self._producer = Producer({"bootstrap.servers": self._brokers, "partitioner": "murmur2_random"})
        self._group = Client({"bootstrap.servers": self._brokers, "group.id": name, "enable.auto.commit": False})

    @contextmanager
    def open(self) -> Iterator[Self]:
        """Connect to look into the tables."""
        with psycopg.connect(self.ground.dsn, autocommit=True) as connection:
            self._connection = connection
            try:
                yield self
            finally:
                self._group.close()

    @property
    def connection(self) -> Connection:
        return self._connection

    def produce(self, aggregates: Iterable[str], *, poison: bool = False, seconds: float = 0) -> None:
        """Produce the next event of each of these aggregates, in this order; its handler takes so many seconds."""
        for aggregate in aggregates:
            known = self.events.setdefault(aggregate, [])
            event = RecordedEvent(
                aggregate_type="order",
                aggregate_id=aggregate,
                type="OrderPlaced",
                payload={"poison": poison, "seconds": seconds},
                id=new_event_id(),
                sequence=len(known) + 1,
                source=_SOURCE,
                created_at=datetime.now(UTC),
            )
            if poison:
                self._poison = event
            known.append(event)
            message = self._contract.message_of(event)
            self._producer.produce(
                self.name,
                message.value,
                message.key,
                headers=cast("Any", list(message.headers)),
                timestamp=message.timestamp_ms or 0,
                on_delivery=self._delivered,
            )

    def flush(self) -> None:
        assert self._producer.flush(patience()) == 0

    def _delivered(self, error: KafkaError | None, record: "Record[bytes, bytes]") -> None:
        assert error is None, error
        self.ends[record.partition() or 0] += 1

    def applied(self) -> int:
        """Return how many effects there are."""
        [(count,)] = self.rows("select count(*) from ledger where consumer = %s")
        return int(count)

    def last(self) -> int:
        """Return the number of the last effect."""
        [(last,)] = self.rows("select coalesce(max(number), 0) from ledger where consumer = %s")
        return int(last)

    def gone_on(self, since: int, member: str | None = None) -> set[str]:
        """Return the aggregates that had an effect since that number, or those of them of which one process did it."""
        query = (
            "select distinct aggregate from ledger "
            "where consumer = %s and number > %s and member = coalesce(%s, member)"
        )
        return {aggregate for (aggregate,) in self.rows(query, since, member)}

    def epochs(self) -> dict[int, int]:
        """Return the epoch of each partition that was ever assigned."""
        return dict(self.rows('select "partition", epoch from inbox_epochs where consumer = %s'))

    def rows(self, query: str, *parameters: object) -> list[Any]:
        return self.connection.execute(query.encode(), (self.name, *parameters)).fetchall()

    @property
    def good(self) -> list[RecordedEvent]:
        """The events that are to be applied."""
        return [event for events in self.events.values() for event in events if not self._is_held_up(event)]

    @property
    def bad(self) -> list[RecordedEvent]:
        """The poison event, and those behind it."""
        return [event for events in self.events.values() for event in events if self._is_held_up(event)]

    def _is_held_up(self, event: RecordedEvent) -> bool:
        poison = self._poison
        return poison is not None and poison.aggregate_id == event.aggregate_id and number(event) >= number(poison)

    def is_done(self) -> bool:
        """Tell whether every event has come to its end, and every offset is committed."""
        [(parked,)] = self.rows("select count(*) from inbox_parked where consumer = %s")
        return self.applied() >= len(self.good) and parked >= len(self.bad) and self.committed() == self.ends

    def committed(self) -> dict[int, int]:
        places = [TopicPartition(self.name, partition) for partition in self.ends]
        return {place.partition: place.offset for place in self._group.committed(places, timeout=patience())}

    def violations(self) -> list[str]:
        """Return what is wrong with the effects, and with what the consumer remembers."""
        checks: list[Callable[[], Iterator[str]]] = [
            self._wrong_effects, self._wrong_marks, self._wrong_claims, self._wrong_park, self._wrong_owners
        ]  # fmt: skip
        return [found for check in checks for found in check()]

    def _wrong_effects(self) -> Iterator[str]:
        """Each once, in the order of their aggregate."""
        rows = self.rows("select aggregate, sequence, event_id from ledger where consumer = %s order by number")
        wanted: dict[str, list[tuple[int, str | None]]] = {aggregate: [] for aggregate in self.events}
        for event in self.good:
            wanted[event.aggregate_id].append((number(event), event.id))
        for aggregate, events in wanted.items():
            effects = [(sequence, event_id) for found, sequence, event_id in rows if found == aggregate]
            if effects != events:
                sequences = [sequence for sequence, _ in effects]
                yield f"the effects of {aggregate} are {sequences}, and should be 1 to {len(events)}"

    def _wrong_marks(self) -> Iterator[str]:
        watermarks = dict(self.rows("select aggregateid, last from inbox_watermarks where consumer = %s"))
        wanted = Counter(event.aggregate_id for event in self.good)
        if {aggregate: last for aggregate, last in watermarks.items() if last} != wanted:
            yield f"the watermarks are {watermarks}, and should be {dict(wanted)}"

    def _wrong_claims(self) -> Iterator[str]:
        claims = {event_id for (event_id,) in self.rows("select event_id from inbox where consumer = %s")}
        wanted = {event.id for event in self.good}
        if claims != wanted:
            yield f"{len(claims - wanted)} claims are of events without effects, and {len(wanted - claims)} are missing"

    def _wrong_park(self) -> Iterator[str]:
        rows = self.rows("select event_id, state, reason from inbox_parked where consumer = %s")
        wanted = {
            (event.id, *(("dead", "failed") if event is self._poison else ("waiting", "gap"))) for event in self.bad
        }
        if set(rows) != wanted:
            yield f"{sorted(set(rows) - wanted)} are parked, and {sorted(wanted - set(rows))} are not"

    def _wrong_owners(self) -> Iterator[str]:
        """What was applied by a process that did not own the partition any more."""
        count = "select count(*) from ledger where consumer = %s and held is distinct from owned"
        [(strangers,)] = self.rows(count)
        if strangers:
            yield f"{strangers} effects are of a process whose partition belonged to another one"


def number(event: RecordedEvent) -> int:
    return event.sequence or 0
