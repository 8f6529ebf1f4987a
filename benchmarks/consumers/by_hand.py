"""Consumers as they are written by hand, with the settings that ours gives to its Kafka client.

Those that take batches are our loop without what it remembers: they read each message by the contract, as ours does,
and neither claim ids nor look at sequences, except for the one that executes our statements. Those with a transaction a
message read as little as will do.
"""

import json
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias, cast

import confluent_kafka
import psycopg

from benchmarks.consumers.work import BATCH, EVENT_TYPE, Row, Work, contract_of, upsert, upsert_all
from cdc_outbox.consumer import InboxTable, RecordedEvent
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.drivers.statements import NamedStatements
from cdc_outbox.event import KafkaRecord
from cdc_outbox.kafka.clients import consumer_settings
from cdc_outbox.kafka.reading import message_of

_POLL_SECONDS = 0.1
_REMEMBERED = "select 1 from processed where id = %s"
_REMEMBER = "insert into processed (id) values (%s)"
_TYPE = EVENT_TYPE.encode()

Record: TypeAlias = "confluent_kafka.Message[bytes, bytes]"


class Batched:
    """Poll a batch, apply it in one transaction with a statement for each event, commit, commit the offsets."""

    size: ClassVar[int] = BATCH

    def __init__(self, work: Work) -> None:
        settings = consumer_settings(bootstrap_servers=work.bootstrap_servers, group=work.group, extra={})
        self._client = confluent_kafka.Consumer({**settings, "enable.auto.offset.store": True})
        self._client.subscribe([work.topic])
        self._contract = contract_of(work.topic)
        self._connection: psycopg.Connection[Any] = psycopg.connect(work.dsn)
        self._stopping = threading.Event()

    def run(self) -> None:
        """Go on until :meth:`stop` is called."""
        while not self._stopping.is_set():
            records = self._poll()
            if records:
                self._apply([row for record in records if (row := self._row(record)) is not None])
                self._connection.commit()
                self._client.commit(asynchronous=True)
        self._client.close()
        self._connection.close()

    def stop(self) -> None:
        """End after the batch at hand."""
        self._stopping.set()

    def _poll(self) -> list[Record]:
        """Return what is there, up to a batch; wait for the first only."""
        records: list[Record] = []
        while len(records) < self.size and (record := self._client.poll(0 if records else _POLL_SECONDS)) is not None:
            if record.error():
                raise confluent_kafka.KafkaException(record.error())
            records.append(record)
        return records

    def _apply(self, rows: list[Row]) -> None:
        for row in rows:
            upsert(self._connection, row)

    def _row(self, record: Record) -> Row | None:
        """Return what the handler needs of an event."""
        event = self._contract.event_of(message_of(record))
        return (event.id, event.aggregate_id, event.payload["customer"]) if event.type == EVENT_TYPE else None


class Pipelined(Batched):
    """The same, without waiting for the answer to each statement."""

    def _apply(self, rows: list[Row]) -> None:
        with self._connection.pipeline():
            for row in rows:
                upsert(self._connection, row)


class OneStatement(Batched):
    """The same, with one statement for all events."""

    def _apply(self, rows: list[Row]) -> None:
        upsert_all(self._connection, rows)


class OurStatements(Batched):
    """The first one, with all statements of our consumer around its own: what these cost by themselves.

    It judges nothing: it takes every event for the next of its aggregate.
    """

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._driver, self._group = Psycopg(), work.group
        self._sql = {
            name: steps[0]
            for file in ("inbox", "epochs")
            for name, steps in NamedStatements(self._driver, file, InboxTable().names()).all_steps().items()
        }
        self._events: list[tuple[RecordedEvent, KafkaRecord]] = []
        self._held: dict[tuple[str, int], int] = {}

    def _row(self, record: Record) -> Row | None:
        event = self._contract.event_of(message_of(record))
        if event.record is not None:
            self._events.append((event, event.record))
        return event.id, event.aggregate_id, event.payload["customer"]

    def _apply(self, rows: list[Row]) -> None:
        events, self._events = self._events, []
        offsets = {(record.topic, record.partition): record.offset + 1 for _, record in events}
        of_events = [(event.source, event.aggregate_type, event.aggregate_id) for event, _ in events]
        lasts = {key: event.sequence or 0 for key, (event, _) in zip(of_events, events, strict=True)}
        counts = Counter(of_events)
        aggregates = sorted(lasts)
        of_each = _columns(aggregates, "sources", "aggregate_types", "aggregate_ids")
        self._take(sorted(offsets.keys() - self._held.keys()))
        epochs = [self._held[tp] for tp in offsets]
        of_partitions = {**_columns(list(offsets), "topics", "partitions"), "epochs": epochs}
        ids = sorted([event.id for event, _ in events])
        before = [lasts[each] - counts[each] for each in aggregates]
        expected = {"lowest": before, "highest": before}
        [(*_, befores, tids)] = self._execute("claim_next", event_ids=ids, **of_each, **expected, **of_partitions)
        super()._apply(rows)
        numbers = {"befores": json.loads(befores), "afters": [lasts[each] for each in aggregates]}
        parked = [0] * len(aggregates)
        self._execute("advance", **of_each, **numbers, parked=parked, tids=json.loads(tids))
        nothing: list[int | None] = [None] * len(offsets)
        self._execute(
            "store_offsets", **of_partitions, befores=nothing, afters=list(offsets.values()), leader_epochs=nothing
        )

    def _take(self, partitions: list[tuple[str, int]]) -> None:
        """Take partitions that are read for the first time."""
        if partitions:
            names = {"cluster_ids": [""] * len(partitions), "topic_ids": [""] * len(partitions)}
            rows = self._execute("issue", **_columns(partitions, "topics", "partitions"), **names)
            self._held.update({(topic, partition): epoch for topic, partition, epoch, *_ in rows})

    def _execute(self, statement: str, **parameters: object) -> list[Any]:
        return self._driver.fetch(self._connection, self._sql[statement], {"consumer": self._group, **parameters})


class OurStatementsPipelined(OurStatements, Pipelined):
    """The same, without waiting for the answer to each statement of its own."""


class OurStatementsOnBatch(OurStatements, OneStatement):
    """The same, with one statement of its own for all events."""


def _columns(rows: Sequence[Sequence[object]], *names: str) -> dict[str, list[object]]:
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


class OnePerTransaction(Batched):
    """The same, with a transaction and an offset for each message."""

    size = 1

    def _row(self, record: Record) -> Row | None:
        """Return what the handler needs of a message, if it is one for it."""
        headers = dict(cast("list[tuple[str, bytes]]", record.headers()))
        if headers["eventType"] != _TYPE:
            return None
        payload = json.loads(record.value() or b"")
        return headers["id"].decode(), (record.key() or b"").decode(), payload["customer"]


class CheckThenAct(OnePerTransaction):
    """One transaction a message that first looks whether its id was there."""

    def _apply(self, rows: list[Row]) -> None:
        for row in rows:
            if self._connection.execute(_REMEMBERED, row[:1]).fetchone() is None:
                upsert(self._connection, row)
                self._connection.execute(_REMEMBER, row[:1])
