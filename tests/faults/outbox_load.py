"""Transactions of an outbox under way, and the topic that they end in."""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager
from itertools import groupby
from random import Random
from typing import Self

import psycopg
from confluent_kafka import Consumer as Client
from confluent_kafka import TopicPartition

from cdc_outbox import Event, Outbox
from cdc_outbox.errors import DatabaseUnavailableError
from cdc_outbox.kafka.reading import message_of
from cdc_outbox.message import Message
from tests.faults.deliveries import Arrived, Committed
from tests.faults.relay_program import PRODUCER_HEADER
from tests.support.pipeline import Pipeline
from tests.support.rig import Connection, eventually
from tests.support.threads import Threads

_AGGREGATES = 36
_ROLLED_BACK = 0.1
_PAUSE_SECONDS = 0.03
_LARGE = (1_100, 1_700)
"""How many rows a large transaction has: more than two units of the relay."""
LOW_LIMIT = 60_000
"""The ``max.message.bytes`` of a topic that refuses an event."""
_MOST_RECORDS = 2_000
_LOG = logging.getLogger(f"{__name__}.librdkafka")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False


class OutboxLoad:
    """Writes into an outbox over two connections, whose transactions overlap, also when the server dies meanwhile.

    Attributes:
        committed: In the order of the commits.
    """

    def __init__(self, pipeline: Pipeline, random: Random) -> None:
        self._pipeline, self._random = pipeline, random
        self._outbox = Outbox(spec=pipeline.spec)
        self.committed: list[Committed] = []
        self._transactions = 0
        self._in_doubt: list[Committed] = []
        self._stopping, self._is_large = threading.Event(), threading.Event()
        self._opened = ExitStack()

    @contextmanager
    def open(self) -> Iterator[Self]:
        """Connect, and stop writing at the end."""
        with self._opened, Threads(1) as pool:
            self._pool = pool
            self._connect()
            self._writing: Future[None] | None = None
            try:
                yield self
            finally:
                self._stopping.set()

    def _connect(self) -> None:
        connections = [closing(psycopg.connect(self._pipeline.dsn)) for _ in range(2)]
        self._connections = [self._opened.enter_context(connection) for connection in connections]

    def begin(self) -> None:
        """Write something, and then go on in a thread."""
        for _ in range(20):
            self._round()
        self._writing = self._pool.submit(self._write)

    def write_refused(self) -> None:
        """Write an event that takes more than :data:`LOW_LIMIT`, also after compression."""
        payload = {"large": self._random.randbytes(LOW_LIMIT).hex()}
        event = Event(aggregate_type="order", aggregate_id="0", type="OrderPlaced", payload=payload)
        written = self._outbox.add(self._connections[0], event)
        self._connections[0].commit()
        self._transactions += 1
        self.committed.append(Committed(written.id, written.aggregate_id, self._transactions))

    def write_large(self) -> None:
        """Have the next transaction be a large one."""
        self._is_large.set()

    def end(self) -> None:
        """Stop writing."""
        self._stopping.set()
        if self._writing is not None:
            self._writing.result()

    def unknown(self) -> set[str]:
        """Return the ids that the outbox holds and that were not committed here, and those that it does not hold."""
        with self._pipeline.connect() as connection:
            held = {str(event_id) for (event_id,) in connection.execute("select id from outbox")}
        return held ^ {event.id for event in self.committed}

    def _write(self) -> None:
        while not self._stopping.wait(_PAUSE_SECONDS):
            try:
                self._round()
            except (psycopg.OperationalError, DatabaseUnavailableError):
                eventually(self._recover, "the server")

    def _recover(self) -> bool:
        """Connect again, and look whether what was being committed was committed."""
        try:
            self._connect()
            [connection, _] = self._connections
            held = {str(event_id) for (event_id,) in connection.execute("select id from outbox")}
            connection.rollback()
        except psycopg.OperationalError:
            return False
        self.committed += [event for event in self._in_doubt if event.id in held]
        self._in_doubt = []
        return True

    def _round(self) -> None:
        """Write one transaction on each connection, over aggregates of its own; they may commit in either order."""
        random = self._random
        sizes = [random.choice((1, 1, 1, 2, 5)) for _ in self._connections]
        is_large = self._is_large.is_set()
        if is_large:
            self._is_large.clear()
            sizes[0] = random.randint(*_LARGE)
        written = [
            (number, connection, self._add(connection, number, size))
            for number, (connection, size) in enumerate(zip(self._connections, sizes, strict=True))
        ]
        random.shuffle(written)
        for number, connection, events in written:
            if random.random() < _ROLLED_BACK and not (is_large and number == 0):
                connection.rollback()
                continue
            self._transactions += 1
            self._in_doubt = [Committed(event_id, aggregate, self._transactions) for event_id, aggregate in events]
            connection.commit()
            self.committed += self._in_doubt
            self._in_doubt = []

    def _add(self, connection: Connection, number: int, size: int) -> list[tuple[str, str]]:
        """Write events, those of an aggregate by one statement: of several, it would choose the order."""
        aggregates = sorted(str(self._random.randrange(_AGGREGATES // 2) * 2 + number) for _ in range(size))
        written = []
        for aggregate, same in groupby(aggregates):
            events = [
                Event(aggregate_type="order", aggregate_id=aggregate, type="OrderPlaced", payload={}) for _ in same
            ]
            written += self._outbox.add_all(connection, events)
        return [(event.id, event.aggregate_id) for event in written]


class TopicTail:
    """Reads a topic as it grows.

    Attributes:
        arrived: What was read.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._broker, self._topic = pipeline.stack.broker, pipeline.topic
        settings = {
            "bootstrap.servers": self._broker.bootstrap_servers,
            "group.id": "tail",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
        }
        self._client = Client(settings, logger=_LOG)
        self._next = dict.fromkeys(self._broker.ends(self._topic), 0)
        self._client.assign([TopicPartition(self._topic, partition, 0) for partition in self._next])
        self.arrived: list[Arrived] = []
        self.ids = set[str]()

    def close(self) -> None:
        self._client.close()

    def read(self) -> None:
        """Read what there is."""
        count = _MOST_RECORDS
        while count == _MOST_RECORDS:
            records = self._client.consume(_MOST_RECORDS, 0.05)
            count = len(records)
            for record in records:
                if record.error() is None:
                    self._add(message_of(record))

    def read_to_end(self) -> bool:
        """Read what there is, and return whether that is everything."""
        self.read()
        return self._next == self._broker.ends(self._topic)

    def _add(self, message: Message) -> None:
        headers = {name: (value or b"").decode() for name, value in message.headers}
        partition, offset = message.partition or 0, message.offset or 0
        self._next[partition] = offset + 1
        at = (message.timestamp_ms or 0) / 1000
        content = (message.key, message.value, *(pair for pair in message.headers if pair[0] != PRODUCER_HEADER))
        self.arrived.append(Arrived(headers["id"], partition, offset, headers[PRODUCER_HEADER], at, content))
        self.ids.add(headers["id"])
