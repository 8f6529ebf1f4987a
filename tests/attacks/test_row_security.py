"""Row-level security, as docs/security.md sets it up."""

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cdc_outbox import Event, Outbox, OutboxTable
from cdc_outbox.consumer import InboxTable
from cdc_outbox.consumer.inbox_tables import consumer_role
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.roles import roles_script
from cdc_outbox.errors import DatabaseAccessError
from cdc_outbox.operations.connections import OpenInbox
from cdc_outbox.operations.stages import InboxStage, OutboxStage
from cdc_outbox.testing import Stack
from cdc_outbox.writer.outbox_schema import connector_role, pruner_role, writer_role
from tests.support.commands import run_command
from tests.support.rig import one
from tests.support.specs import MINIMAL, for_any_database

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
SECTION = PAGE[PAGE.index("## Row-level security") : PAGE.index("## Kafka and Connect")]
BLOCKS = re.findall(r"^```sql\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)
# Roles are the whole server's, which other tests use too.
POLICIES = re.sub(r"orders_(?=writer|connector|pruner|verifier|shipping)", "policed_", "\n".join(BLOCKS))
NAMES = ("policed_writer", "policed_connector", "policed_pruner", "policed_verifier", "policed_shipping")
INSERT = "insert into outbox_heads values (%s, 'order', '7', 1)"

Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = tmp_path_factory.mktemp("row_security") / "orders.yaml"
    spec.write_text(for_any_database(MINIMAL))
    return spec


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack, spec: Path) -> Iterator[str]:
    """A database with the policies of the page, and a connection string without a user."""
    dsn = outbox_stack.postgres.create_database("row_security")
    writer, connector, pruner, _, consumer = NAMES
    roles = [
        writer_role(writer, OutboxTable()),
        connector_role(connector, OutboxTable()),
        pruner_role(pruner, OutboxTable(), migrator="postgres"),
        consumer_role(consumer, InboxTable()),
    ]
    done = run_command("init", spec, "--inbox", "--dsn", dsn)
    assert done.returncode == 0, done.stderr
    with psycopg.connect(dsn, autocommit=True) as connection:
        for role in roles:
            connection.execute(roles_script([("", role)]).encode())
        connection.execute("create role policed_verifier")
        connection.execute("grant select on all tables in schema public to policed_verifier")
        connection.execute(POLICIES.encode())
        connection.execute(INSERT, ["billing.1"])
        connection.execute("insert into outbox_heads values ('orders.1', 'order', '1', 1)")
    yield dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        for name in NAMES:
            connection.execute(f"drop owned by {name}".encode())
            connection.execute(f"drop role {name}".encode())


@pytest.fixture
def connection(dsn: str) -> Iterator[Connection]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def become(connection: Connection, role: str) -> None:
    connection.execute(f"set role {role}".encode())


def test_a_writer_writes_its_own_events_and_no_others(connection: Connection) -> None:
    become(connection, "policed_writer")
    with connection.transaction():
        Outbox().add(connection, Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={}))
    for statement in (
        INSERT,
        "insert into outbox_heads (source, aggregatetype, aggregateid, last) values (%s, 'a', 'b', 1)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode(), ["billing.2"])
    connection.execute("update outbox_heads set last = 999999 where source = 'billing.1'")
    assert one(connection, "select count(*) from outbox_heads where source = 'billing.1'") == 0
    connection.execute("reset role")
    assert one(connection, "select last from outbox_heads where source = 'billing.1'") == 1


def test_a_consumer_sees_its_own_claims(connection: Connection) -> None:
    connection.execute("insert into inbox (consumer, event_id) values ('billing', 'x')")
    become(connection, "policed_shipping")
    connection.execute("insert into inbox (consumer, event_id) values ('shipping', 'x')")
    assert one(connection, "select string_agg(consumer, ' ') from inbox") == "shipping"
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("insert into inbox (consumer, event_id) values ('billing', 'y')")


def test_what_counts_rows_sees_all_of_them(connection: Connection) -> None:
    become(connection, "policed_verifier")
    heads = {source for source, *_ in OutboxStage(connection, Psycopg(), OutboxTable()).heads()}
    assert heads == {"billing.1", "orders.1"}
    become(connection, "policed_connector")
    assert one(connection, "select row_security_active('outbox')") is False


@pytest.mark.parametrize("role", ["policed_verifier", "policed_pruner"])
def test_what_would_count_too_few_rows_refuses(dsn: str, connection: Connection, role: str, spec: Path) -> None:
    connection.execute(f"alter role {role} nobypassrls login password 'x'".encode())
    try:
        become(connection, role)
        if role == "policed_verifier":
            with pytest.raises(DatabaseAccessError, match="row-level security"):
                OutboxStage(connection, Psycopg(), OutboxTable())
            with pytest.raises(DatabaseAccessError, match="row-level security"):
                InboxStage(OpenInbox(connection, Psycopg(), table=InboxTable(), consumer="shipping"))
        else:
            own = f"{dsn} user={role} password=x"
            done = run_command("prune", spec, "--keep", "7d", "--without-topics", "--dsn", own)
            assert "row-level security may hide rows" in done.stderr
            assert done.returncode == 1
    finally:
        connection.execute("reset role")
        connection.execute(f"alter role {role} bypassrls".encode())
