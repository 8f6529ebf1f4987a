"""What `init`, `preflight` and `doctor` say of events that were written while no publication contained the outbox."""

import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cdc_outbox.testing import Stack
from tests.support.commands import connect_of, findings, run_here
from tests.support.deployments import sequences
from tests.support.pipeline import Pipeline
from tests.support.rig import Connection, eventually, one

WARNING = "warning: the slot late_outbox existed already: events that were written while late_outbox did not contain"


@pytest.mark.parametrize("loss", ["drop publication {}", "alter publication {} drop table outbox"])
def test_events_that_no_publication_contained_are_found_as_soon_as_the_connector_reads_on(
    deployed: Pipeline, tmp_path: Path, loss: str
) -> None:
    spec, publication = tmp_path / "spec.yaml", deployed.spec.database.publication
    spec.write_text(Pipeline.text(deployed.name))
    env = connect_of(deployed.stack) | {"CDC_OUTBOX_DSN": deployed.dsn}
    brokers = ("--bootstrap-servers", deployed.stack.broker.bootstrap_servers)
    with deployed.connect() as connection:
        one(connection, "select outbox_heartbeat(%s, interval '0')", deployed.name)
        deployed.write(1)
        eventually(lambda: sequences(deployed) == [1], "the event before")
        connection.execute(loss.format(publication).encode())
        deployed.write(1)
        [before] = [found for found in findings(spec, deployed.dsn, *brokers, env=env) if found["severity"] == "error"]
        assert before["code"] in {"DB401", "DB402"}
        assert "although the slot exists: events that are written now are never published." in before["message"]
    made = run_here("init", spec, env=env)
    assert made.returncode == 0, made.stderr
    assert f"warning: the slot {deployed.spec.database.slot} existed already: " in made.stderr
    assert "`cdc-outbox verify`, which lists the missing events." in made.stderr
    deployed.write(1)
    eventually(lambda: sequences(deployed) == [1, 3], "the event after")

    [found] = findings(spec, deployed.dsn, *brokers, env=env)
    assert (found["code"], "did not arrive" in found["message"]) == ("OP402", True)
    done = run_here("doctor", spec, *brokers, env=env)
    assert (done.returncode, done.stdout.count("OP402")) == (1, 1), done.stdout
    assert run_here("verify", spec, *brokers, "--settle", "0s", env=env).returncode == 3

    done = run_here("deploy-connector", spec, *brokers, "--earlier-events", "republish", "--stable-for", "0s", env=env)
    assert done.returncode == 0, done.stderr
    eventually(lambda: set(sequences(deployed)) == {1, 2, 3}, "the event that was missing")
    accepted = run_here("recover", spec, *brokers, "--accept", "--yes", env=env)
    assert accepted.returncode == 0, accepted.stderr
    assert findings(spec, deployed.dsn, *brokers, env=env) == []
    assert "warning" not in run_here("init", spec, env=env).stderr


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> Iterator[str]:
    """A database whose slot is removed at the end."""
    dsn = outbox_stack.postgres.create_database("late")
    yield dsn
    with psycopg.connect(dsn, autocommit=True) as connection:
        drop_slot(connection)


def drop_slot(connection: Connection) -> None:
    connection.execute(
        "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = 'late_outbox'"
    )


MAKE_SLOT = "select pg_create_logical_replication_slot('late_outbox', 'pgoutput')"
INSERT = (
    "insert into outbox (id, aggregatetype, aggregateid, type, payload)"
    " values (gen_random_uuid(), 'order', '1', 'x', '{}')"
)


@pytest.mark.parametrize(
    ("changes", "mode", "is_late"),
    [
        ([], "keep", False),
        ([INSERT, MAKE_SLOT], "keep", False),
        ([INSERT, "drop publication late_outbox"], "keep", False),
        ([MAKE_SLOT, INSERT, "drop table outbox"], "keep", False),
        ([MAKE_SLOT, "drop publication late_outbox", INSERT], "keep", True),
        ([MAKE_SLOT, "alter publication late_outbox drop table outbox", INSERT], "keep", True),
        ([MAKE_SLOT, "drop publication late_outbox"], "message", False),
    ],
)
def test_init_warns_only_where_slot_and_table_were_there_and_the_publication_was_not(
    dsn: str, tmp_path: Path, changes: list[str], mode: str, *, is_late: bool
) -> None:
    spec = tmp_path / "late.yaml"
    spec.write_text(Pipeline.text("late", f"outbox: {{mode: {mode}}}\n"))
    with psycopg.connect(dsn, autocommit=True) as connection:
        drop_slot(connection)
        connection.execute("drop publication if exists late_outbox")
        connection.execute("drop schema public cascade; create schema public")
        first = run_here("init", spec, "--dsn", dsn)
        assert (first.returncode, "warning" in first.stderr) == (0, False), first.stderr
        for change in changes:
            connection.execute(change.encode())
        done = run_here("init", spec, "--dsn", dsn, "--output", "json")
    assert (done.returncode, WARNING in done.stderr) == (0, is_late), done.stderr
    assert json.loads(done.stdout)["publication"]["isYoungerThanSlot"] == is_late


def test_a_slot_of_another_database_is_not_older(dsn: str, outbox_stack: Stack, tmp_path: Path) -> None:
    other, spec = outbox_stack.postgres.create_database("late_restored"), tmp_path / "late.yaml"
    spec.write_text(Pipeline.text("late").replace("name: late\n  user", "name: ${env:NAME}\n  user"))
    with psycopg.connect(dsn, autocommit=True) as connection:
        drop_slot(connection)
        connection.execute(MAKE_SLOT)
    with psycopg.connect(other, autocommit=True) as connection:
        assert run_here("init", spec, "--dsn", other).returncode == 0
        connection.execute("drop publication late_outbox")
    again = run_here("init", spec, "--dsn", other)
    assert (again.returncode, "warning" in again.stderr) == (0, False), again.stderr


def test_messages_pass_while_there_is_no_publication(dsn: str) -> None:
    held = (
        "select count(*) from pg_logical_slot_peek_binary_changes('late_outbox', null, null, 'proto_version', '1',"
        " 'publication_names', 'late_outbox', 'messages', 'true') where get_byte(data, 0) = ascii('M')"
    )
    with psycopg.connect(dsn, autocommit=True) as connection:
        drop_slot(connection)
        connection.execute("drop publication if exists late_outbox")
        connection.execute(MAKE_SLOT)
        connection.execute("select pg_logical_emit_message(true, 'late', 'x')")
        connection.execute("create publication late_outbox")
        assert one(connection, held) == 1
