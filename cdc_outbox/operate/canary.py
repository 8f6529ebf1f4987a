"""An event that is written, seen in its topic, and leaves nothing behind."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from cdc_outbox.drivers import TransactionDriver
from cdc_outbox.errors import BrokerError, ConfigError, ConnectorFailedError
from cdc_outbox.event import Event
from cdc_outbox.kafka import make_consumer, translate
from cdc_outbox.operate.database import OpenDatabase
from cdc_outbox.spec import Spec
from cdc_outbox.writer import Outbox

CANARY = "cdc-outbox.canary"
"""The aggregate type whose events prove that a pipeline carries events."""

_DECLARE = f"Add `{CANARY}: {{sequence: none}}` to aggregates, and a topic that nobody minds to topics.name."
_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.2
_META_SECONDS = 10.0


class Canary:
    """One event through a whole pipeline.

    Args:
        connection: To the outbox's database, of that driver, in no transaction.
        settings: librdkafka's, for a consumer.
        timeout_seconds: How long the event may take.

    Raises:
        ConfigError: The spec declares no such aggregate type, so that its event would go to somebody's topic unasked.
    """

    def __init__(
        self,
        spec: Spec,
        connection: Any,  # noqa: ANN401 - any driver's connection
        driver: TransactionDriver,
        settings: Mapping[str, Any],
        *,
        timeout_seconds: float = 30.0,
    ) -> None:
        if CANARY not in spec.contract.aggregates:
            raise ConfigError(
                f"the spec of {spec.name} declares no aggregate type {CANARY}", field="aggregates", hint=_DECLARE
            )
        self._spec = spec
        self._connection = connection
        self._database = OpenDatabase(connection, driver, spec.outbox.names(driver.dialect), file="canary")
        self._settings = dict(settings)
        self._timeout_seconds = timeout_seconds
        self.topic = spec.contract.topic_of(CANARY)

    def sing(self) -> str:
        """Write the event, delete it in the same transaction, and wait until it is seen; say where and how fast.

        Raises:
            ConnectorFailedError: It was not seen in time.
            BrokerError: The topic cannot be read.
        """
        with self._reader() as reader:
            began = time.monotonic()
            ends = _ends(reader, self.topic)
            event_id = self._write()
            place = self._wait(reader, ends, event_id.encode())
        return f"seen at {place} after {time.monotonic() - began:.1f} s"

    def _write(self) -> str:
        outbox = Outbox(table=self._spec.outbox, contract=self._spec.contract)
        event = Event(aggregate_type=CANARY, aggregate_id="canary", type="CanarySang", payload={"at": time.time()})
        with self._database.transaction():
            added = outbox.add(self._connection, event)
            if self._spec.outbox.mode.keeps_rows:
                self._database.ask("delete", id=added.id)
        return str(added.id)

    def _wait(self, reader: Consumer, ends: dict[int, int], event_id: bytes) -> str:
        deadline = time.monotonic() + self._timeout_seconds
        assigned: set[int] = set()
        while time.monotonic() < deadline:
            if set(partitions := _partitions(reader, self.topic)) - assigned:
                # One that is new since begins at its beginning.
                assigned |= set(partitions)
                reader.assign([TopicPartition(self.topic, each, ends.get(each, 0)) for each in sorted(assigned)])
            while (record := reader.poll(_POLL_SECONDS)) is not None:
                if record.error():
                    continue
                if dict(record.headers() or ()).get("id") == event_id:
                    return f"{self.topic}[{record.partition()}]@{record.offset()}"
        raise ConnectorFailedError(
            f"{self._spec.name} runs, but its canary was not seen in {self.topic} within {self._timeout_seconds:g} s",
            hint="Do the connector and --bootstrap-servers lead to the same Kafka, and the DSN to the connector's "
            "database? If so, look into the worker's log.",
        )

    @contextmanager
    def _reader(self) -> Iterator[Consumer]:
        reader = make_consumer(self._settings, _LOG)
        try:
            yield reader
        except KafkaException as error:
            raise translate(error.args[0]) from error
        finally:
            reader.close()


def _partitions(reader: Consumer, topic: str) -> list[int]:
    # Asked for all topics: asking for one that does not exist yet would make some brokers create it.
    topics = reader.list_topics(timeout=_META_SECONDS).topics
    return sorted(topics[topic].partitions) if topic in topics else []


def _ends(reader: Consumer, topic: str) -> dict[int, int]:
    found = {}
    for partition in _partitions(reader, topic):
        _, end = reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=_META_SECONDS)
        if end < 0:
            raise BrokerError(f"the end of {topic}[{partition}] is not known")
        found[partition] = end
    return found
