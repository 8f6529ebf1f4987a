"""One pipeline on the shared stack: a database of its own, a connector of its own, topics of its own."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from uuid import uuid4

import psycopg
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from cdc_outbox import Event, Outbox, OutboxMode, RecordedEvent
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.deploy import Deployment
from cdc_outbox.connect.plan import Plan
from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.consumer import InboxTable, inbox_component
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.message import Message
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.testing import Postgres, Stack
from cdc_outbox.writer.outbox_schema import outbox_component, outbox_statements
from tests.support import raw_producer
from tests.support.patience import patience
from tests.support.rig import (
    CONNECTOR_PASSWORD,
    Connection,
    eventually,
    grant_outbox,
    make_connector_role,
    one,
    run_upgrade,
)
from tests.support.timings import QUICK_OPTIONS

SERVICE_TEMPLATE = "service_template"
"""A database with the tables of a consuming service."""
SELDOM = "overrides: {poll.interval.ms: '100'}\n"
"""A connector that looks at the log ten times a second: the default of 10 ms is most of what an idle one costs."""


def create_service_tables(dsn: str) -> None:
    """Create the inbox, and the table of effects, unless they are there."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        run_upgrade(connection, inbox_component(InboxTable()))
        connection.execute(
            "create table if not exists effects (number serial, aggregate text, sequence bigint, event_id text)"
        )


@dataclass
class Pipeline:
    """An outbox, the connector that publishes it, and an inbox in the same database."""

    stack: Stack
    spec: Spec
    dsn: str
    reports: list[str] = field(default_factory=list)

    @classmethod
    def make(cls, stack: Stack, extra: str = "") -> "Pipeline":
        """Create database and tables; the connector is deployed by :meth:`deploy`."""
        return cls.on(stack.postgres, stack, extra)

    @classmethod
    def on(cls, server: Postgres, stack: Stack, extra: str = "") -> "Pipeline":
        """Create them on a server of the test's own."""
        name = f"p{uuid4().hex[:10]}"
        dsn = server.create_database(name)
        pipeline = cls(stack, parse_spec(cls.text(name, extra), name=f"{name}.yaml"), dsn)
        with pipeline.connect() as connection:
            make_connector_role(connection)
            pipeline.init(connection)
        return pipeline

    def init(self, connection: Connection, spec: Spec | None = None) -> None:
        """Make what ``cdc-outbox init`` makes."""
        spec = spec or self.spec
        outbox, source = spec.outbox, spec.first_source
        run_upgrade(connection, outbox_component(outbox, first_source=source))
        for statement in outbox_statements(outbox, spec.database.publication, first_source=source):
            connection.execute(statement.encode())
        if spec.heartbeat_topic is not None:
            connection.execute(f"grant execute on function {outbox.heartbeat.quoted} to connector".encode())
        if outbox.mode is not OutboxMode.MESSAGE:
            grant = psycopg.sql.SQL("grant select on {} to connector")
            connection.execute(grant.format(psycopg.sql.Identifier("public", outbox.name)))

    @staticmethod
    def text(name: str, extra: str = "") -> str:
        """Return the spec's YAML, with :data:`SELDOM` unless ``extra`` sets overrides or the latency."""
        overrides = "" if re.search("^(overrides|latency):", extra, re.MULTILINE) else SELDOM
        return f"""\
version: 1
name: {name}
database:
  kind: postgresql
  host: ${{env:POSTGRES_HOST}}
  port: ${{env:POSTGRES_PORT}}
  name: {name}
  user: connector
  password: ${{env:CONNECTOR_PASSWORD}}
{overrides}aggregates:
  order: {{}}
  metric: {{sequence: none}}
topics:
  name: {name}.{{aggregate_type}}
{extra}"""

    @property
    def name(self) -> str:
        """The pipeline's, the connector's and the database's name."""
        return self.spec.name

    @property
    def topic(self) -> str:
        """The topic of the aggregate type ``order``."""
        return self.spec.contract.topic_of("order")

    @cached_property
    def client(self) -> ConnectClient:
        """The stack's Connect."""
        return ConnectClient(self.stack.connect_cluster)

    @contextmanager
    def keep_log(self) -> Iterator[None]:
        """Have the server keep its log from here on, for a transaction that does not end.

        A slot that is moved may otherwise begin behind Connect's offset, and Debezium does not start there.
        """
        with self.connect() as connection, connection.transaction(force_rollback=True):
            connection.execute("create table unfinished ()")
            yield

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Connect as superuser, in autocommit mode."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            yield connection

    @contextmanager
    def role_of_its_own(self) -> Iterator[str]:
        """Create a role that may do what ``connector`` may, which all pipelines of the stack share; drop it again."""
        role = f"{self.name}_reader"
        create = psycopg.sql.SQL("create role {} login replication password {}").format(
            psycopg.sql.Identifier(role), psycopg.sql.Literal(CONNECTOR_PASSWORD)
        )
        with self.connect() as connection:
            connection.execute(create)
            grant_outbox(connection, role)
        yield role
        with self.connect() as connection:
            connection.execute(f"drop owned by {role}; drop role {role}".encode())

    def deploy(self, *, dry_run: bool = False, spec: Spec | None = None, **options: Any) -> Plan:
        """Deploy the connector; what it reports is in ``reports``."""
        self.reports.clear()
        wanted = replace(QUICK_OPTIONS, **options)
        with self.connect() as connection:
            database = PostgresqlDatabase(connection, Psycopg(), spec or self.spec)
            deployment = Deployment(
                spec or self.spec,
                self.client,
                database,
                wanted,
                lambda step, text: self.reports.append(f"{step}: {text}"),
            )
            return deployment.dry_run() if dry_run else deployment.run()

    def stop(self) -> None:
        """Stop the connector, and wait until nothing reads its slot: Connect says STOPPED before its task ends."""
        self.client.stop(self.name)
        with self.connect() as connection:
            query = "select not active from pg_replication_slots where slot_name = %s"
            eventually(lambda: one(connection, query, self.spec.database.slot), "the slot to be free")

    def write(self, count: int = 1, aggregate_id: str = "1", event_type: str = "OrderPlaced") -> list[RecordedEvent]:
        """Write events of one aggregate, each in a transaction of its own."""
        outbox, written = Outbox(spec=self.spec), []
        with psycopg.connect(self.dsn) as connection:
            for number in range(count):
                event = Event(
                    aggregate_type="order", aggregate_id=aggregate_id, type=event_type, payload={"number": number}
                )
                written.append(outbox.add(connection, event))
                connection.commit()
        return written

    def messages(self) -> list[Message]:
        """Return what the topic of orders holds."""
        return self.stack.broker.messages(self.topic)

    def write_and_send(
        self, count: int = 1, aggregate_id: str = "1", event_type: str = "OrderPlaced"
    ) -> list[RecordedEvent]:
        """Write events of one aggregate, and send them as a connector would."""
        events = self.write(count, aggregate_id, event_type)
        self.send(*events)
        return events

    def send(self, *sent: RecordedEvent | Message, partition: int | None = None) -> list[Message]:
        """Put events or messages into their topics past the connector, and return the messages.

        Args:
            partition: The partition of events; by default the one of their aggregate.
        """
        messages = [
            each if isinstance(each, Message) else replace(self.spec.contract.message_of(each), partition=partition)
            for each in sent
        ]
        producer = Producer({"bootstrap.servers": self.stack.broker.bootstrap_servers, "partitioner": "murmur2_random"})
        for message in messages:
            producer.produce(
                message.topic,
                message.value,
                message.key,
                headers=list(message.headers),
                timestamp=message.timestamp_ms or 0,
                partition=-1 if message.partition is None else message.partition,
            )
        assert producer.flush(patience()) == 0
        return messages

    def send_raw(self, message: Message, *headers: tuple[bytes, bytes]) -> None:
        """Put a message into its topic with further headers, whose names may be any bytes."""
        encoded = [(name.encode(), value or b"") for name, value in message.headers]
        raw_producer.produce(
            self.stack.broker.bootstrap_servers,
            message.topic,
            message.partition or 0,
            key=message.key or b"",
            value=message.value or b"",
            headers=[*encoded, *headers],
        )

    def create_topics(self, partitions: int = 3) -> None:
        """Create the topics, where no connector does it."""
        for topic in self.spec.contract.topics:
            self.stack.broker.create_topic(topic, partitions=partitions)

    def delete_first_messages(self, count: int) -> None:
        """Delete the first messages of the topic's first partition that holds any, as retention does."""
        partition = self.messages()[0].partition or 0
        admin = AdminClient({"bootstrap.servers": self.stack.broker.bootstrap_servers})
        [answer] = admin.delete_records([TopicPartition(self.topic, partition, count)]).values()
        answer.result()

    def delete_topics(self) -> None:
        """Delete the pipeline's topics: many requests ask for all topics, and take longer the more there are."""
        broker = self.stack.broker
        broker.delete_topics(*(topic for topic in broker.topics() if self.name in topic))

    def close(self) -> None:
        """Remove connector and slot, which the stack has only so many of, and the topics."""
        if self.client.find_config(self.name) is not None:
            self.client.delete(self.name)
        with self.connect() as connection:
            eventually(lambda: self._drop_slots(connection), "the slot to be free")
        self.delete_topics()

    def _drop_slots(self, connection: Connection) -> bool:
        """Drop the database's slots, and tell whether that went; a task that was starting may take one once more."""
        drop = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = %s"
        with suppress(psycopg.errors.ObjectInUse):
            connection.execute(drop, (self.name,))
            return True
        return False


class FedPipeline(Pipeline):
    """A pipeline without an outbox and a connector: its topics hold what the test sends, and nothing else."""

    @classmethod
    def make(cls, stack: Stack, extra: str = "", *, partitions: int = 1) -> "FedPipeline":
        """Create the database and the topics."""
        name = f"f{uuid4().hex[:10]}"
        spec = parse_spec(cls.text(name, extra), name=f"{name}.yaml")
        stack.postgres.create_template(SERVICE_TEMPLATE, create_service_tables)
        pipeline = cls(stack, spec, stack.postgres.create_database(name, template=SERVICE_TEMPLATE))
        pipeline.create_topics(partitions)
        return pipeline

    def close(self) -> None:
        """Remove the topics."""
        self.delete_topics()

    @staticmethod
    def text(name: str, extra: str = "") -> str:
        """Return the spec's YAML: one aggregate type for each way to number events."""
        aggregates = "order: {}\n  invoice: {sequence: increasing}"
        return Pipeline.text(name, extra).replace("order: {}", aggregates)
