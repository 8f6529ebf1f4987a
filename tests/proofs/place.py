"""Where a proof is run: a schema, a slot and a publication of its own, and what can be seen there."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

import psycopg
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource  # type: ignore[attr-defined]

from cdc_outbox.connect.client import ConnectClient, ConnectorStatus
from cdc_outbox.connect.wait import PASSING
from cdc_outbox.kafka.reading import message_of
from cdc_outbox.message import Message
from cdc_outbox.testing import Stack
from tests.support.patience import patience
from tests.support.pymysql_connections import connect_pymysql
from tests.support.rig import CONNECTOR_PASSWORD, eventually, one
from tests.support.threads import Threads

_PAUSE_SECONDS = 0.25


def wait(holds: Callable[[], object], what: Callable[[], object]) -> None:
    """Wait until a condition holds, and fail with what is the case instead if it does not."""
    eventually(lambda: _holds_now(holds), lambda: f"the hazard, and saw {what()}", seconds=90)


def _holds_now(holds: Callable[[], object]) -> bool:
    try:
        return bool(holds())
    except PASSING:  # a rebalance, of which connectors that come and go make many
        return False


def _taken(client: ConnectClient, config: dict[str, str]) -> bool:
    try:
        client.put_config(config)
    except PASSING:
        return False
    return True


class Topics(AbstractContextManager["Topics"]):
    """Every message of some topics, read as it comes.

    Args:
        wanted: Whether a topic is read; by default those of the proofs are.
    """

    def __init__(self, bootstrap_servers: str, wanted: Callable[[str], bool] = lambda topic: "cc" in topic) -> None:
        self._wanted = wanted
        settings = {"bootstrap.servers": bootstrap_servers, "group.id": "proofs", "enable.auto.commit": False}
        self._consumer = Consumer({**settings, "auto.offset.reset": "earliest"})
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        self._messages: dict[str, list[Message]] = {}
        self.partitions: dict[str, int] = {}
        self._ended = threading.Event()
        self._threads = Threads()

    def __enter__(self) -> Self:
        self._threads.submit(self._read)
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._threads.shutdown()
        self._consumer.close()

    def messages(self, topic: str) -> list[Message]:
        """Return what a topic holds."""
        return list(self._messages.get(topic, ()))

    def setting(self, topic: str, name: str) -> str:
        """Return one of a topic's settings."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        [described] = self._admin.describe_configs([resource]).values()
        return str(described.result(timeout=patience())[name].value)

    def _read(self) -> None:
        while not self._ended.is_set():
            for topic, described in self._consumer.list_topics(timeout=patience()).topics.items():
                if topic not in self.partitions and described.partitions and self._wanted(topic):
                    # A new one each time: other threads look through the old one.
                    self.partitions = {**self.partitions, topic: len(described.partitions)}
                    self._consumer.incremental_assign([TopicPartition(topic, n, 0) for n in described.partitions])
            for record in self._consumer.consume(500, _PAUSE_SECONDS):
                if record.error() is None:
                    message = message_of(record)
                    self._messages.setdefault(message.topic, []).append(message)


class Place:
    """What is seen of one connector."""

    def __init__(self, stack: Stack, topics: Topics, name: str) -> None:
        self.stack, self.topics, self.name = stack, topics, name
        self.client = ConnectClient(stack.connect_cluster)
        self._log_read = stack.workers[0].log.stat().st_size
        self._said = ""

    def messages(self, topic: str = "order") -> list[Message]:
        """Return what came to a topic of this place."""
        return self.topics.messages(f"{self.name}.{topic}")

    def raw(self) -> list[Message]:
        """Return the rows that no router took."""
        return self.messages(f"{self.name}.outbox")

    def status(self, suffix: str = "") -> ConnectorStatus:
        """Return the connector's, as far as Connect knows it, or that of another one of this place."""
        try:
            return self.client.find_status(self.name + suffix)
        except PASSING:
            return ConnectorStatus("UNKNOWN", ())

    def trace(self, suffix: str = "") -> str:
        """Return why the connector or its task failed, empty if neither did."""
        status = self.status(suffix)
        return "".join([status.trace, *(task.trace for task in status.tasks if task.state == "FAILED")])

    def runs(self) -> bool:
        """Whether its task runs."""
        return [task.state for task in self.status().tasks] == ["RUNNING"]

    def until(self, holds: Callable[[], object]) -> None:
        """Wait for something."""
        wait(holds, lambda: f"{self.status().state} {self.trace()[:1500]} {self._counts()}")

    def restart(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Stop the connector, and let it go on when something else is done."""
        self.client.stop(self.name)
        self.until(lambda: self.status().state == "STOPPED" and not self.status().tasks)
        meanwhile()
        self.client.resume(self.name)

    def log(self) -> str:
        """Return what the worker has written down since the place was made."""
        with self.stack.workers[0].log.open("rb") as log:
            log.seek(self._log_read)
            said = log.read()
        # Only what is new is read: there are megabytes of it.
        self._log_read += len(said)
        self._said += said.decode(errors="replace")
        return self._said

    def deploy(self, config: dict[str, str]) -> None:
        """Let Connect run a connector; while others come and go it may have to be asked again."""
        wait(lambda: _taken(self.client, config), lambda: f"no answer to {config['name']}")

    def delete(self) -> None:
        """Delete the connectors of this place."""
        for name in [name for name in self.client.find_names() if name.startswith(self.name)]:
            self.client.delete(name)
        self.client.close()

    def _counts(self) -> dict[str, int]:
        return {topic: len(self.topics.messages(topic)) for topic in self.topics.partitions if self.name in topic}


class PostgresPlace(Place):
    """A schema with an outbox and other tables, its publication, and a slot that is older than every row."""

    def __init__(self, stack: Stack, topics: Topics, name: str, database: str) -> None:
        super().__init__(stack, topics, name)
        self.database = database
        self.connection: psycopg.Connection[Any] = psycopg.connect(stack.postgres.dsn(database), autocommit=True)
        self.marked = ""
        for statement in (Path(__file__).parent / "postgresql.sql").read_text().split(";\n"):
            self.sql(statement)

    def make_slot(self) -> None:
        """Make the slot, from which on rows are published."""
        self.sql("select pg_create_logical_replication_slot('{name}', 'pgoutput')")

    def sql(self, statement: str) -> None:
        """Run a statement; ``{name}`` is the place's."""
        if statement.strip():
            self.connection.execute(statement.replace("{name}", self.name).encode())

    def event(self, aggregate_type: str | None = "order", payload: str = '{"a":1}') -> None:
        """Write an event."""
        insert = "insert into {name}.outbox (aggregatetype, aggregateid, type, payload) values (%s, '42', 'Placed', %s)"
        self.connection.execute(insert.replace("{name}", self.name).encode(), (aggregate_type, payload))

    def mark(self) -> None:
        """Remember how far the log is."""
        self.marked = str(one(self.connection, "select pg_current_wal_insert_lsn()"))

    def has_read(self) -> bool:
        """Whether the connector has confirmed what was written before the mark."""
        return self._is_past_the_mark()[0]

    def has_given_up(self) -> bool:
        """Whether nobody could read again what was written before the mark."""
        return self._is_past_the_mark()[1]

    def _is_past_the_mark(self) -> tuple[bool, bool]:
        query = "select confirmed_flush_lsn >= %s, restart_lsn >= %s from pg_replication_slots where slot_name = %s"
        mark = self.marked or "FFFFFFFF/FFFFFFFF"
        slots = self.connection.execute(query, (mark, mark, self.name)).fetchall()
        return slots[0] if slots else (False, False)

    def reader(self, slot: str = "") -> int | None:
        """Return the process that sends a slot's changes."""
        query = "select max(active_pid) from pg_replication_slots where slot_name = %s"
        pid: int | None = one(self.connection, query, slot or self.name)
        return pid

    def has_slot(self, slot: str) -> bool:
        """Whether there is such a slot."""
        return bool(one(self.connection, "select count(*) from pg_replication_slots where slot_name = %s", slot))

    def _drops_slots(self, own: str) -> bool:
        """Tell whether no slot is left; a walsender that was on its way may still have come."""
        try:
            self.connection.execute(f"select pg_drop_replication_slot(slot_name) {own}".encode(), (self.name,))
        except psycopg.errors.ObjectInUse:
            return False
        return True

    def close(self) -> None:
        """Remove connector and slots, which the stack has only so many of."""
        self.delete()
        own = f"from pg_replication_slots where starts_with(slot_name, %s) or database = '{self.name}'"
        wait(
            lambda: one(self.connection, f"select count(*) filter (where active) {own}", self.name) == 0,
            lambda: "an active slot",
        )
        wait(lambda: self._drops_slots(own), lambda: "a slot in use")
        # Every connector reads the shape of every table of its database.
        self.sql("drop schema {name} cascade")
        self.sql("drop publication if exists {name}")
        self.connection.close()


class MariaDbPlace(Place):
    """A database with an outbox and another table, and a user of its own for the connector."""

    def __init__(self, stack: Stack, topics: Topics, name: str) -> None:
        super().__init__(stack, topics, name)
        dsn = stack.mariadb.create_database(name)
        self.connection = connect_pymysql(dsn, autocommit=True)
        for statement in (Path(__file__).parent / "mariadb.sql").read_text().split(";\n"):
            self.sql(statement)
        self.sql(f"create user {{name}} identified by {self.connection.escape(CONNECTOR_PASSWORD)}")
        self.sql("grant all on *.* to {name}")

    def sql(self, statement: str, *parameters: str) -> list[tuple[Any, ...]]:
        """Run a statement; ``{name}`` is the place's."""
        if not statement.strip():
            return []
        with self.connection.cursor() as cursor:
            cursor.execute(statement.replace("{name}", self.name), parameters or None)
            return list(cursor.fetchall())

    def event(self, aggregate_type: str = "order", payload: str = "{}") -> None:
        """Write an event."""
        self.sql(
            "insert into {name}.outbox (id, aggregatetype, aggregateid, type, payload)"
            " values (uuid(), %s, '42', 'Placed', %s)",
            aggregate_type,
            payload,
        )

    def reader(self) -> bool:
        """Whether the connector reads the binlog."""
        query = "select count(*) from information_schema.processlist where user = '{name}' and command = 'Binlog Dump'"
        return self.sql(query) != [(0,)]

    def offset(self) -> dict[str, Any]:
        """Return how far the connector has come, as Connect remembers it."""
        try:
            offsets = self.client.find_offsets(self.name)
        except PASSING:
            return {}
        return dict(offsets[0]["offset"]) if offsets else {}

    def close(self) -> None:
        """Remove connector and user; other connectors may be reading the tables."""
        self.delete()
        self.sql("drop user {name}")
        self.connection.close()
