"""A connector that a team configured by hand moves over to a spec, and nobody who reads its events notices."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.wait import wait_until_up
from cdc_outbox.message import Message
from cdc_outbox.testing import Stack
from tests.support.commands import connect_of, run_command
from tests.support.foreign_connector import FOREIGN
from tests.support.rig import eventually, make_connector_role, one
from tests.support.timings import QUICK_TIMINGS

TABLE = """
create schema sales;
create table sales.domain_events (
    event_id uuid primary key, entity text not null, entity_id text not null, kind text not null, who text,
    body jsonb not null, occurred_at timestamp not null default (clock_timestamp() at time zone 'UTC')
);
grant usage on schema sales to connector;
grant select on sales.domain_events to connector;
create publication shop_events for table sales.domain_events
"""
EVENT = "insert into sales.domain_events values (gen_random_uuid(), 'order', '42', 'OrderPlaced', 'ada', '{\"n\": 1}')"


@dataclass
class Team:
    """A team's database, and the connector that it put to Connect by hand."""

    stack: Stack
    name: str = field(default_factory=lambda: f"t{uuid4().hex[:10]}")

    def __post_init__(self) -> None:
        self.dsn = self.stack.postgres.create_database(self.name)
        self.client = ConnectClient(self.stack.connect_cluster)
        self.topic = f"{self.name}.order.v1"
        self.config = FOREIGN | {
            "name": f"{self.name}-connector",
            "topic.prefix": self.name,
            "database.hostname": "${env:POSTGRES_HOST}",
            "database.port": "${env:POSTGRES_PORT}",
            "database.user": "connector",
            "database.password": "${env:CONNECTOR_PASSWORD}",
            "database.dbname": self.name,
            "slot.name": f"{self.name}_by_hand",
            "transforms.events.route.topic.replacement": f"{self.name}.${{routedByValue}}.v1",
        }
        self.stack.broker.create_topic(self.topic)
        with self.connect() as connection:
            make_connector_role(connection)
            connection.execute(TABLE)

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.dsn, autocommit=True)

    def put(self) -> None:
        self.client.put_config(self.config)
        wait_until_up(self.client, self.config["name"], stable_seconds=0, timings=QUICK_TIMINGS, report=lambda _: None)

    def write(self, count: int) -> None:
        with self.connect() as connection:
            for _ in range(count):
                connection.execute(EVENT)

    def messages(self, count: int) -> list[Message]:
        eventually(lambda: len(self.stack.broker.messages(self.topic)) >= count, f"{count} messages")
        return self.stack.broker.messages(self.topic)

    def slots(self) -> list[object]:
        query = "select array_agg(slot_name::text) from pg_replication_slots where database = %s"
        with self.connect() as connection:
            found: list[object] = one(connection, query, self.name)
        return found

    def close(self) -> None:
        self.client.delete(self.config["name"])
        active = "select count(*) from pg_replication_slots where active and database = %s"
        with self.connect() as connection:
            eventually(lambda: not one(connection, active, self.name), "the slot to be free")
            drop = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = %s"
            connection.execute(drop, (self.name,))


@pytest.fixture
def team(outbox_stack: Stack) -> Iterator[Team]:
    made = Team(outbox_stack)
    made.put()
    yield made
    made.close()


def shape(message: Message) -> str:
    """Return what all messages of the team's have alike."""
    # Of the event's id, and of what Debezium says of the task's run, the names alone.
    headers = [(name, name == "id" or name.startswith("__debezium.") or value) for name, value in message.headers]
    return str((message.topic, message.key, message.value, headers))


def test_a_running_connector_moves_over_without_a_change_on_the_wire(team: Team, tmp_path: Path) -> None:
    team.write(2)
    before = team.messages(2)
    spec, name = tmp_path / "orders.yaml", team.config["name"]
    env = connect_of(team.stack)

    done = run_command("adopt", "--connector", name, "--aggregate-type", "order", "-f", str(spec), env=env)
    assert done.returncode == 0, done.stderr
    assert spec.read_text().startswith(f"# Made by `cdc-outbox adopt` from the connector {name} in Kafka Connect.\n")
    deployed = run_command("deploy-connector", str(spec), "--dsn", team.dsn, "--stable-for", "0s", env=env)
    assert deployed.returncode == 0, deployed.stderr

    team.write(2)
    messages = team.messages(4)
    assert len({dict(message.headers)["id"] for message in messages}) == len(messages) == 4
    assert {shape(message) for message in messages} == {shape(before[0])}
    assert dict(messages[-1].headers)["entity"] == b"order"
    assert "__debezium.context.connectorName" in dict(messages[-1].headers)
    assert team.slots() == [f"{team.name}_by_hand"]

    again = run_command("adopt", "--connector", name, "--aggregate-type", "order", env=env)
    assert (again.returncode, "CC952" in again.stderr) == (0, False)


def test_a_connector_that_is_not_there_is_told_with_those_that_are(outbox_stack: Stack) -> None:
    done = run_command("adopt", "--connector", "nobody", env=connect_of(outbox_stack))
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no connector 'nobody'\nhint: Existing connectors: " in done.stderr
