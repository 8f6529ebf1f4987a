"""What `cdc-outbox preflight` says of Connect's offsets, and of types that only a connector can try."""

from pathlib import Path
from typing import Any

import pytest

from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.errors import DatabaseAccessError
from tests.support.commands import connect_of, findings, run_here
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually, one


def test_connects_offsets_are_held_against_the_slot(
    deployed: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, env = tmp_path / "orders.yaml", connect_of(deployed.stack)
    spec.write_text(Pipeline.text(deployed.name))
    slot = deployed.spec.database.slot
    way = ("--bootstrap-servers", deployed.stack.broker.bootstrap_servers)

    def look(path: Path = spec) -> list[dict[str, Any]]:
        return findings(path, deployed.dsn, *way, env=env)

    assert look() == []
    done = run_here("preflight", str(spec), "--dsn", deployed.dsn, *way, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing found\n")

    copy = tmp_path / "copy.yaml"
    named = Pipeline.text(deployed.name, f"source: {deployed.name}\n")
    copy.write_text(named.replace(f"name: {deployed.name}\n", f"name: {deployed.name}x\n", 1))
    copy.write_text(copy.read_text().replace("  user:", f"  slot: {slot}\n  publication: {slot}\n  user:"))
    assert [item["code"] for item in look(copy)] == ["DB503", "DB601"]

    deployed.write(1)
    eventually(lambda: len(deployed.messages()) == 1, "the event")
    eventually(lambda: deployed.client.find_offsets(deployed.name), "the offset")
    stop(deployed)
    assert look() == []
    with deployed.connect() as connection:
        statement = "select pg_drop_replication_slot(%s)"
        connection.execute(statement, (slot,))
        assert [(item["code"], item["path"]) for item in look()] == [("DB512", slot)]
        with monkeypatch.context() as patched:  # also where nobody may read the rows
            patched.setattr(PostgresqlDatabase, "read_written", refuse)
            assert [item["code"] for item in look()] == ["DB512", "DB602"]
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))
        assert [(item["code"], item["path"]) for item in look()] == [("DB513", slot)]


def refuse(_database: PostgresqlDatabase) -> Any:
    raise DatabaseAccessError("permission denied")


def stop(pipeline: Pipeline) -> None:
    pipeline.client.stop(pipeline.name)
    eventually(lambda: pipeline.client.find_status(pipeline.name).state == "STOPPED", "the connector to stop")
    with pipeline.connect() as connection:
        query = "select active from pg_replication_slots where slot_name = %s"
        eventually(lambda: not one(connection, query, pipeline.spec.database.slot), "the slot to be free")


def test_types_that_pass_are_published_by_the_real_connector(pipeline: Pipeline) -> None:
    """Domains, of domains too, citext, and texts that are as long as they have to be."""
    with pipeline.connect() as connection:
        for statement in (
            "create extension citext",
            "create domain short as varchar(50)",
            "create domain kind as short",
            "create domain document as json",
            (
                "alter table outbox alter column id type varchar(36), alter column aggregatetype type citext,"
                " alter column aggregateid type varchar(50), alter column type type kind,"
                " alter column payload type document, alter column sequence type integer"
            ),
        ):
            connection.execute(statement.encode())
    pipeline.deploy(stable_seconds=0)
    written = pipeline.write(2)
    eventually(lambda: len(pipeline.messages()) == 2, "two messages")
    contract = pipeline.spec.contract
    for message, event in zip(pipeline.messages(), written, strict=True):
        wanted = contract.message_of(event)
        assert (message.key, message.value, dict(message.headers)) == (wanted.key, wanted.value, dict(wanted.headers))
