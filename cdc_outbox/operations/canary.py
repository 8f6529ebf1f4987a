"""An event that is written, seen in its topic, and leaves nothing behind."""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver
from cdc_outbox.errors import BrokerError, ConfigError, ConnectorFailedError
from cdc_outbox.event import Event
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka.broker_errors import raise_lasting, translate
from cdc_outbox.kafka.clients import make_consumer
from cdc_outbox.kafka.reading import find_topics
from cdc_outbox.operations.connections import OpenDatabase
from cdc_outbox.spec import Spec
from cdc_outbox.writer import Outbox

CANARY = "cdc-outbox.canary"
"""The aggregate type whose events prove that a pipeline carries events."""

_DECLARE = f"Add `{CANARY}: {{sequence: none}}` to aggregates, and a separate topic to topics.name."
_LOG = logging.getLogger(__name__)
_POLL_SECONDS = 0.2
_END_SECONDS = 10.0


class Canary:
    """One event through a whole pipeline.

    Args:
        connection: To the outbox's database, of that driver, in no transaction.
        settings: librdkafka's, for a consumer.
        timeout_seconds: How long the event may take.

    Raises:
        ConfigError: The spec does not declare the canary's aggregate type, so its event might go to a topic of others.
    """

    def __init__(
        self,
        spec: Spec,
        connection: AnyConnection,
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
        self._topic = spec.contract.topic_of(CANARY)

    def sing(self) -> str:
        """Write the event, delete it in the same transaction, and wait until it is seen; return where and how fast.

        Raises:
            ConnectorFailedError: It was not seen in time.
            BrokerError: The topic cannot be read.
        """
        with self._reader() as reader:
            began = time.monotonic()
            ends = _ends(reader, self._topic)
            event_id = self._write()
            location = find_event(reader, self._topic, event_id, ends, timeout_seconds=self._timeout_seconds)
        if location is None:
            raise ConnectorFailedError(
                f"{self._spec.name} runs, but its canary did not reach {self._topic} within {self._timeout_seconds:g} "
                "s",
                hint="Check that the connector and --bootstrap-servers lead to the same Kafka, and that the DSN "
                "leads to the connector's database. Otherwise check the worker's log.",
            )
        return f"reached {location} after {time.monotonic() - began:.1f} s"

    def _write(self) -> str:
        outbox = Outbox(spec=self._spec)
        event = Event(aggregate_type=CANARY, aggregate_id="canary", type="CanarySang", payload={"at": time.time()})
        with self._database.transaction():
            added = outbox.add(self._connection, event)
            if self._spec.outbox.mode.keeps_rows:
                self._database.ask("delete", id=added.id)
        return added.id

    @contextmanager
    def _reader(self) -> "Iterator[confluent.Consumer]":
        reader = make_consumer(self._settings, _LOG)
        try:
            yield reader
        except confluent.KafkaException as error:
            raise translate(error.args[0]) from error
        finally:
            reader.close()


def find_event(
    reader: "confluent.Consumer", topic: str, event_id: str, ends: Mapping[int, int], *, timeout_seconds: float
) -> str | None:
    """Return the place of an event that comes to a topic behind its ends, ``None`` if it does not within the time.

    Raises:
        BrokerError: The topic cannot be read.
    """
    deadline = time.monotonic() + timeout_seconds
    assigned: set[int] = set()
    record: confluent.Message[bytes, bytes] | None = None
    while time.monotonic() < deadline:
        # While messages come there is no need to ask, and in a busy topic they always do.
        partitions = [] if record else find_topics(reader).get(topic, [])
        if set(partitions) - assigned:
            # One that is new since begins at its beginning.
            assigned |= set(partitions)
            reader.assign([confluent.TopicPartition(topic, each, ends.get(each, 0)) for each in sorted(assigned)])
        record = reader.poll(_POLL_SECONDS)
        if record is None:
            continue
        if error := record.error():
            raise_lasting(error)
        elif dict(record.headers() or ()).get("id") == event_id.encode():
            return f"{topic}[{record.partition()}]@{record.offset()}"
    return None


def _ends(reader: "confluent.Consumer", topic: str) -> dict[int, int]:
    found = {}
    for partition in find_topics(reader).get(topic, []):
        _, end = reader.get_watermark_offsets(confluent.TopicPartition(topic, partition), timeout=_END_SECONDS)
        if end < 0:
            raise BrokerError(f"the end of {topic}[{partition}] is unknown")
        found[partition] = end
    return found
