"""A pipeline's heartbeats in topic and database: breaks after a restore, and their acceptance by an operator."""

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.topic_reader import TopicReader
from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver
from cdc_outbox.databases.heartbeats import Acceptance, Break, Chain, Heartbeat, HeartbeatKind, Stored, read_record
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.table import TableName
from cdc_outbox.debezium.explanations import explained
from cdc_outbox.debezium.java_regex import literal
from cdc_outbox.errors import BrokerError
from cdc_outbox.finding import Finding, Location
from cdc_outbox.kafka import clients as kafka_clients
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka.broker_errors import translate
from cdc_outbox.operations.connections import OpenDatabase

CODES: Mapping[HeartbeatKind, str] = {
    HeartbeatKind.WENT_BACK: "OP401",
    HeartbeatKind.NONE: "OP401",
    HeartbeatKind.GAP: "OP402",
    HeartbeatKind.TWO: "OP403",
    HeartbeatKind.ANEW: "OP404",
    HeartbeatKind.SILENT: "OP405",
}
"""The code of the finding for each break."""
_ACTION = re.compile(
    r'select ("(?:[^"]|"")+")\.("(?:[^"]|"")+")\(cast\(\'(?:[^\']|\'\')*\' as text\), interval \'1 minute\'\)'
)
_LOG = logging.getLogger(__name__)
_PRODUCED_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Beating:
    """The topic and the function of a connector's heartbeats, from its configuration.

    Args:
        name: The connector's name.
        function: Writes a heartbeat; the table of the last day's heartbeats is named after it.
    """

    name: str
    topic: str
    function: TableName

    @classmethod
    def of(cls, config: Mapping[str, str]) -> "Beating | None":
        """Return it for a connector that writes heartbeats to its outbox."""
        action = _ACTION.fullmatch(config.get("heartbeat.action.query", ""))
        topic = literal(config.get("topic.creation.heartbeat.include", ""))
        if action is None or topic is None:
            return None
        schema, function = (quoted[1:-1].replace('""', '"') for quoted in action.groups())
        return cls(config.get("name", ""), topic, TableName(schema=schema, name=function))

    @property
    def table(self) -> TableName:
        """The table with the last day's heartbeats."""
        return self.function.named(f"{self.function.name}s")


class HeartbeatTopic:
    """The topic of a connector's heartbeats; later reads continue where the last one ended.

    Args:
        settings: librdkafka settings of a consumer.
    """

    def __init__(self, topic: str, settings: Mapping[str, Any]) -> None:
        self._topic_partition, self._settings = TopicPartition(topic, 0), dict(settings)
        self._next = 0
        self.chain = Chain()

    def read(self) -> Chain:
        """Read new heartbeats, and return the chain.

        Raises:
            BrokerError: The topic cannot be read.
        """
        with TopicReader.opened(self._settings) as reader:
            if self._topic_partition not in reader.partitions([self._topic_partition.topic]):
                return self.chain
            first, end = reader.bounds([self._topic_partition])[self._topic_partition]
            if end < self._next:  # the topic was created again, and is shorter than before
                self._next, self.chain = 0, Chain()
            if self.chain.head is None:
                self.chain.starts_at = first
            for message in reader.read({self._topic_partition: (max(first, self._next), end)}):
                record = read_record(message)
                if record is not None:
                    self.chain.add(record)
            self._next = end
        return self.chain

    def accept(self, name: str, acceptance: Acceptance) -> None:
        """Write an acceptance after the heartbeats.

        Raises:
            BrokerError: Kafka did not confirm it.
        """
        failed: list[Any] = []
        connection = kafka_clients.connection_settings(self._settings)
        producer = confluent.Producer(
            connection
            | {"bootstrap.servers": self._settings["bootstrap.servers"], "enable.idempotence": True, "acks": "all"},
            logger=_LOG,
        )
        try:
            producer.produce(
                self._topic_partition.topic,
                partition=0,
                key=name.encode(),
                value=json.dumps(acceptance.content()).encode(),
                headers=[("eventType", b"HeartbeatsAccepted")],
                on_delivery=lambda error, _: failed.append(error),
            )
            producer.flush(_PRODUCED_SECONDS)
        except confluent.KafkaException as error:
            raise translate(error.args[0]) from error
        if failed != [None]:
            reason = failed[0].str() if failed else f"no answer within {_PRODUCED_SECONDS:g} s"
            raise BrokerError(f"the acceptance could not be written to {self._topic_partition.topic}: {reason}")


class HeartbeatTable:
    """The last day's heartbeats in the outbox's database.

    Args:
        connection: A connection of any driver, in autocommit mode.
    """

    def __init__(self, beating: Beating, connection: AnyConnection, driver: TransactionDriver) -> None:
        names = {
            "heartbeats": beating.table.quoted,
            "heartbeat": beating.function.quoted,
        }
        self._database, self._beating = OpenDatabase(connection, driver, names, file="heartbeats"), beating

    def read(self, *, runs: bool | None = None) -> Stored:
        """Return the stored heartbeats; none if the table does not exist.

        Args:
            runs: Whether the connector runs.
        """
        rows = self._database.ask("read") if self._database.catalog.exists(self._beating.table) else []
        return Stored(
            heartbeats=[
                Heartbeat(number=n, id=i, previous=p, at=at, lsn=Lsn.parse(lsn) if lsn else None)
                for n, i, p, at, lsn, _ in rows
            ],
            now=rows[0][5] if rows else datetime.now(UTC),
            runs=runs,
            table=str(self._beating.table),
        )

    def write(self) -> None:
        """Write a heartbeat now, if this role has the right to."""
        self._database.ask("write", pipeline=self._beating.name)


@dataclass
class History:
    """A pipeline's heartbeats, in its topic and in its database.

    Args:
        table: Opens the database; ``None`` without a DSN.
    """

    beating: Beating
    topic: HeartbeatTopic
    table: Callable[[], Any] | None = None
    found: list[Break] = field(default_factory=list, init=False)
    published_until: Lsn | None = field(default=None, init=False)
    """As of the last :meth:`look`; see :meth:`Chain.published_until`."""

    def look(self, *, runs: bool | None = None) -> list[Finding]:
        """Return the findings that were not accepted.

        The topic is read before the database, so the database is behind it only if it was restored.
        """
        chain = self.topic.read()
        stored = None
        if self.table is not None:
            with self.table() as table:
                stored = table.read(runs=runs)
        self.found = chain.breaks(stored)
        self.published_until = None if stored is None else chain.published_until(stored)
        return list(findings(self.beating.topic, self.found, self.beating.name))

    def accept(self, by: str) -> Acceptance:
        """Look now, accept what is found, and return the acceptance.

        If a restored database has written no heartbeat yet, it writes one first, which identifies it.
        """
        self.look()
        if self.table is not None and any(each.id.endswith("+") for each in self.found):
            with self.table() as table:
                table.write()
            self.look()
        accepted = [each for each in self.found if each.kind is not HeartbeatKind.SILENT]
        acceptance = Acceptance(
            ids=frozenset(each.id for each in accepted),
            by=by,
            at=datetime.now(UTC),
            found=tuple(each.text for each in accepted),
        )
        if accepted:
            self.topic.accept(self.beating.name, acceptance)
        return acceptance


def findings(topic: str, breaks: Iterable[Break], name: str) -> Iterator[Finding]:
    """Yield the findings of breaks. Pure."""
    location = Location(document="heartbeats", path=topic)
    for each in breaks:
        remedy = (
            f"Run `cdc-outbox doctor` for {name}: it reports a connector that does not run, and a role that cannot "
            'write heartbeats. If it finds neither, search the worker\'s log for "Could not execute heartbeat action".'
        )
        if each.kind is not HeartbeatKind.SILENT:
            remedy = (
                f"Run `cdc-outbox recover` for {name}: it reports which events can still be published. Afterwards only "
                "`cdc-outbox recover --accept` clears this finding."
            )
        if each.kind is HeartbeatKind.NONE:
            remedy = (
                "The database was restored, or is not the connector's: compare the connector with the spec by "
                f"`cdc-outbox plan`. If they agree, the database was restored. {remedy}"
            )
        yield explained(CODES[each.kind], location, f"{each.text}.", remedy)
