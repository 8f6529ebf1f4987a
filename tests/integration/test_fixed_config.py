"""What `cdc-outbox lint --fix` writes runs."""

import json
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.wait import wait_until_up
from cdc_outbox.debezium.lint.fixes import fix
from cdc_outbox.errors import ConnectError
from cdc_outbox.testing import Stack
from tests.support.configs import D5
from tests.support.rig import eventually, one
from tests.support.timings import QUICK_TIMINGS

TABLE = """
create table outbox (
    id uuid primary key, aggregate_type text not null, aggregate_id text not null, event_type text not null,
    payload jsonb not null, created_at timestamptz not null default now()
)
"""


EVENT = """
insert into outbox (id, aggregate_type, aggregate_id, event_type, payload)
values (gen_random_uuid(), %s, '42', 'OrderPlaced', '{"total": 1}')
"""


def here(text: str, stack: Stack, name: str) -> dict[str, str]:
    """Return a configuration as it is, but for where the database is."""
    server = psycopg.conninfo.conninfo_to_dict(stack.postgres.dsn(name))
    config: dict[str, str] = json.loads(text)["config"]
    return config | {
        "name": name,
        "database.hostname": str(server["host"]),
        "database.port": str(server["port"]),
        "database.user": str(server["user"]),
        "database.password": stack.postgres.password,
        "database.dbname": name,
    }


def test_the_configuration_that_everybody_copies_publishes_events_with_their_type(outbox_stack: Stack) -> None:
    name = f"d{uuid4().hex[:10]}"
    dsn, client = outbox_stack.postgres.create_database(name), ConnectClient(outbox_stack.connect_cluster)
    with pytest.raises(ConnectError, match=r"topic\.prefix"):
        client.put_config(here(D5, outbox_stack, name))

    # It leaves topics to the broker, and the broker here makes none.
    outbox_stack.broker.create_topic(f"{name}-events")
    rewritten, _ = fix(D5, name="d5.json")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(TABLE)
        client.put_config(here(rewritten, outbox_stack, name))
        try:
            wait_until_up(client, name, stable_seconds=0, timings=QUICK_TIMINGS, report=lambda _: None)
            connection.execute(EVENT, (name,))
            eventually(lambda: outbox_stack.broker.messages(f"{name}-events"), "the event")
        finally:
            client.delete(name)
            active = "select count(*) from pg_replication_slots where active and database = %s"
            eventually(lambda: not one(connection, active, name), "the slot to be free")
            drop = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = %s"
            connection.execute(drop, (name,))
    [message] = outbox_stack.broker.messages(f"{name}-events")
    assert (message.key, json.loads(message.value or b"")) == (b"42", {"total": 1})
    assert dict(message.headers)["eventType"] == b"OrderPlaced"
