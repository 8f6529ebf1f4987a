"""A consuming service: the tables in its database, and the consumer whose effects are rows of ``effects``."""

import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import psycopg
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import TopicPartition
from psycopg.sql import SQL, Identifier

from cdc_outbox.consumer import Consumer, EffectsDatabase, InboxTable, RecordedEvent, Retry, Telemetry
from cdc_outbox.message import Message
from cdc_outbox.testing import MemoryMetrics
from tests.support.patience import patience
from tests.support.pipeline import Pipeline, create_service_tables
from tests.support.rig import Connection, eventually
from tests.support.threads import Threads
from tests.support.timings import QUICK_LIMITS

QUICK = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500, "topic.metadata.refresh.interval.ms": 300}
"""Settings of a consumer that notices everything soon; a thread of a busy machine may stand still for seconds."""
QUICKLY_MISSED = QUICK | {"session.timeout.ms": 2000}
"""The same for one that dies without leaving its group, and whose successor is waited for."""
PATIENT = Retry(inline_retry_seconds=0, parked_pause_seconds=3600)
"""What fails is parked at once, and stays there as long as a test takes."""
HASTY = Retry(inline_retry_seconds=0, parked_pause_seconds=0.05, longest_pause_seconds=0.05, max_attempts=3)
"""What fails is parked at once, tried again soon, and given up soon."""


def effects_of(count: int, aggregate_id: str = "1", start: int = 1) -> list[tuple[str, int]]:
    """Return the effects of so many events of an aggregate, whose sequence numbers begin with ``start``."""
    return [(aggregate_id, sequence) for sequence in range(start, start + count)]


def by_aggregate(effects: Iterable[Any]) -> dict[str, list[int]]:
    """Return the sequence numbers of each aggregate, in the order in which their effects were committed."""
    found: dict[str, list[int]] = {}
    for aggregate, sequence in effects:
        found.setdefault(aggregate, []).append(sequence)
    return found


def apply_effect(event: RecordedEvent, connection: Connection) -> None:
    """Insert a row that names the event."""
    connection.execute(
        "insert into effects (aggregate, sequence, event_id) values (%s, %s, %s)",
        (event.aggregate_id, event.sequence, event.id),
    )


def run_to_its_end(consumer: Consumer) -> None:
    """Run a consumer until it ends; after a while it is stopped, so that a test fails instead of hanging."""
    with Threads() as threads:
        running = threads.submit(consumer.run)
        wait([running], patience())
        if not running.done():
            consumer.stop()
        running.result(patience())


def _new_name() -> str:
    return f"service-{uuid4().hex[:8]}"


@dataclass
class ServiceTables:
    """What a consuming service keeps in its database: effects, watermarks and parked events.

    Args:
        name: The consumer's name.
    """

    dsn: str
    name: str = field(default_factory=_new_name)
    _close: Callable[[], object] = field(default=lambda: None, init=False, repr=False, compare=False)
    _connection: Connection | None = field(default=None, init=False, repr=False, compare=False)

    def _kept(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self.dsn, autocommit=True)
            self._close = weakref.finalize(self, self._connection.close)
        return self._connection

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Connect in autocommit mode."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            yield connection

    def create_tables(self) -> None:
        """Create the inbox, and the table of effects."""
        create_service_tables(self.dsn)

    def rows(self, query: str, *parameters: object) -> list[Any]:
        """Return what a query returns, on a connection that is kept: conditions are asked a dozen times each."""
        try:
            return self._kept().execute(query.encode(), parameters).fetchall()
        except psycopg.OperationalError:  # what ends servers and sessions ended this one too
            self._close()
            return self._kept().execute(query.encode(), parameters).fetchall()

    def one(self, query: str, *parameters: object) -> Any:
        """Return the one value that a query returns."""
        [(value,)] = self.rows(query, *parameters)
        return value

    def effects(self) -> list[tuple[str, int]]:
        """Return aggregate and sequence number of each effect, in the order in which they were committed."""
        return self.rows("select aggregate, sequence from effects order by number")

    def watermark(self, aggregate_id: str = "1", aggregate_type: str = "order") -> int:
        """Return the last applied sequence number of an aggregate; 0 if it has no watermark."""
        query = (
            "select coalesce(max(last), 0) from inbox_watermarks"
            " where consumer = %s and aggregatetype = %s and aggregateid = %s"
        )
        return int(self.one(query, self.name, aggregate_type, aggregate_id))

    def parked_behind(self, aggregate_id: str = "1", aggregate_type: str = "order") -> int:
        """Return how many parked events the watermark of an aggregate counts; there must be a watermark."""
        query = "select parked from inbox_watermarks where consumer = %s and aggregatetype = %s and aggregateid = %s"
        return int(self.one(query, self.name, aggregate_type, aggregate_id))

    def parked(self) -> list[tuple[int | None, str, str]]:
        """Return sequence number, state and reason of each parked event, in the order in which they were parked."""
        return list(self.parked_by_id().values())

    def parked_by_id(self) -> dict[int, tuple[int | None, str, str]]:
        """Return the same by ``parked_id``, in the same order."""
        query = "select parked_id, sequence, state, reason from inbox_parked where consumer = %s order by parked_id"
        return {
            parked_id: (sequence, state, reason) for parked_id, sequence, state, reason in self.rows(query, self.name)
        }

    def parked_id_of(self, sequence: int | None) -> int:
        """Return the ``parked_id`` of the one parked event with this sequence number."""
        [parked_id] = [parked_id for parked_id, (found, _, _) in self.parked_by_id().items() if found == sequence]
        return parked_id


class Service(ServiceTables):
    """A consuming service in a pipeline's database, which reads the pipeline's topics."""

    def __init__(self, pipeline: Pipeline, name: str = "") -> None:
        super().__init__(pipeline.dsn, name or _new_name())
        self.pipeline = pipeline
        self.metrics = MemoryMetrics()
        self.create_tables()

    def consumer(
        self,
        *,
        connect: Callable[[], Any] | None = None,
        inbox: InboxTable | None = None,
        pipeline: bool = False,
        kafka_settings: Mapping[str, Any] = QUICK,
        **options: Any,
    ) -> Consumer:
        """Return a consumer whose handler of OrderPlaced inserts an effect."""
        connect = connect or (lambda: psycopg.connect(self.dsn))
        settings: dict[str, Any] = {
            "name": self.name,
            "contract": self.pipeline.spec.contract,
            "kafka": {"bootstrap.servers": self.pipeline.stack.broker.bootstrap_servers, **kafka_settings},
            "database": EffectsDatabase(connect=connect, inbox=inbox, pipeline=pipeline),
            "telemetry": Telemetry(metrics=self.metrics),
            "limits": QUICK_LIMITS,
        }
        consumer = Consumer(**(settings | options))
        consumer.on("OrderPlaced")(apply_effect)
        return consumer

    def send(self, *sent: RecordedEvent | Message, partition: int | None = None) -> list[Message]:
        """Put events or messages into the pipeline's topics past the connector, and return the messages."""
        return self.pipeline.send(*sent, partition=partition)

    @contextmanager
    def running(self, consumer: Consumer | None = None) -> Iterator[Consumer]:
        """Run a consumer on a thread, stop it at the end, and raise what it raised."""
        consumer = consumer or self.consumer()
        with Threads() as threads:
            threads.submit(consumer.run)
            try:
                yield consumer
            finally:
                consumer.stop()
        assert self.metrics.refused == []

    @contextmanager
    def supervised(self, ended: Callable[[BaseException], None]) -> Iterator[None]:
        """Run a consumer on a thread, and another one whenever it ends, as a supervisor does.

        Args:
            ended: Given the error that ended a consumer.
        """
        over, current = threading.Event(), [self.consumer()]

        def run() -> None:
            while not over.is_set():
                try:
                    current[0].run()
                except Exception as error:  # noqa: BLE001 - whatever it is, it is started again
                    ended(error)
                    over.wait(0.5)
                    current[0] = self.consumer()

        with Threads() as threads:
            threads.submit(run)
            try:
                yield
            finally:
                over.set()
                current[0].stop()
        assert self.metrics.refused == []

    def run_to_its_end(self, consumer: Consumer | None = None) -> None:
        """Run a consumer until it raises."""
        run_to_its_end(consumer or self.consumer())

    def consume(self, count: int, consumer: Consumer | None = None) -> None:
        """Run a consumer until there are so many effects."""
        with self.running(consumer):
            eventually(lambda: len(self.effects()) >= count, f"{count} effects")

    def consume_and_commit(self, count: int) -> None:
        """Run a consumer until there are so many effects, and the offsets behind all messages are committed."""
        self.consume(count)
        eventually(lambda: self.committed_offset() == len(self.pipeline.messages()), "the offset to follow")

    def wait_for_effects(self, *effects: tuple[str, int]) -> None:
        """Wait for exactly these effects, and in this order within each aggregate."""
        eventually(lambda: len(self.effects()) >= len(effects), f"{len(effects)} effects")
        assert by_aggregate(self.effects()) == by_aggregate(effects)

    def wait_for_parked(self, *parked: tuple[int | None, str, str]) -> None:
        """Wait until exactly these events are parked."""
        eventually(lambda: sorted(self.parked(), key=str) == sorted(parked, key=str), f"{parked} to be parked")

    def committed_offset(self) -> int:
        """Return the sum of the group's offsets in the topic of orders."""
        return sum(self.committed_offsets().values())

    def committed_offsets(self) -> dict[int, int]:
        """Return the group's offset in each partition of the topic of orders that it has committed one for."""
        with self._group_member() as member:
            partitions = [TopicPartition(self.pipeline.topic, number) for number in range(3)]
            committed = member.committed(partitions, timeout=patience())
        return {partition.partition: partition.offset for partition in committed if partition.offset > 0}

    def skip_to_the_end(self) -> None:
        """Move the group's and the database's offsets past every message, as an accident does."""
        ends = self.pipeline.stack.broker.ends(self.pipeline.topic)
        self.commit_offsets(ends)
        with self.connect() as connection:
            for partition, end in ends.items():
                connection.execute(
                    'update inbox_epochs set next_offset = %s where consumer = %s and topic = %s and "partition" = %s',
                    (end, self.name, self.pipeline.topic, partition),
                )

    def commit_offsets(self, offsets: Mapping[int, int]) -> None:
        """Set the group's offsets in partitions of the topic of orders."""
        with self._group_member() as member:
            wanted = [TopicPartition(self.pipeline.topic, partition, offset) for partition, offset in offsets.items()]
            member.commit(offsets=wanted, asynchronous=False)

    def back_up(self) -> None:
        """Copy the database to where :meth:`restore` finds it; who is connected to it connects again afterwards."""
        name = Identifier(self.pipeline.name)
        with psycopg.connect(self.pipeline.stack.postgres.dsn(), autocommit=True) as connection:
            allow = SQL("alter database {} allow_connections {}")
            connection.execute(allow.format(name, SQL("false")))
            try:
                connection.execute(
                    "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s",
                    (self.pipeline.name,),
                )
                copy = SQL("create database {} template {}")
                connection.execute(copy.format(Identifier(f"{self.pipeline.name}_copy"), name))
            finally:
                connection.execute(allow.format(name, SQL("true")))

    def restore(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Put the copy where the database was, whoever is connected to it.

        Args:
            meanwhile: What happens while there is no database.
        """
        name, server = Identifier(self.pipeline.name), self.pipeline.stack.postgres.dsn()
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(SQL("drop database {} with (force)").format(name))
            meanwhile()
            rename = SQL("alter database {} rename to {}")
            connection.execute(rename.format(Identifier(f"{self.pipeline.name}_copy"), name))

    @contextmanager
    def _group_member(self) -> Iterator[KafkaConsumer]:
        """Open a client in the consumer's group that does not join it."""
        servers = self.pipeline.stack.broker.bootstrap_servers
        client = KafkaConsumer({"bootstrap.servers": servers, "group.id": self.name})
        try:
            yield client
        finally:
            client.close()
