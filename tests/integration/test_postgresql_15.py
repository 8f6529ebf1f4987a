"""PostgreSQL 15, the oldest that was run: the whole way, and a preflight of what only a server of one's own can be."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc_outbox import RecordedEvent
from cdc_outbox.errors import StackError
from cdc_outbox.spec import parse_spec
from cdc_outbox.testing import Postgres, Stack
from tests.support.commands import connect_of, run_here
from tests.support.pipeline import Pipeline
from tests.support.relay_process import PREFIX, prepare_relay, relay_process
from tests.support.rig import eventually, grant_outbox, make_connector_role
from tests.support.service import Service

KEPT = "max_slot_wal_keep_size"


@pytest.fixture(scope="module")
def postgres_15(outbox_stack: Stack) -> Postgres:
    return outbox_stack.add_postgres(15)


def test_a_version_that_is_not_installed_is_named(outbox_stack: Stack, postgres_15: Postgres) -> None:
    with pytest.raises(StackError, match="no PostgreSQL 9 server is installed") as caught:
        outbox_stack.add_postgres(9)
    assert "postgresql-9" in caught.value.hint
    with pytest.raises(StackError, match="has a PostgreSQL 15"):
        outbox_stack.add_postgres(15)
    assert postgres_15 in outbox_stack.parts


@pytest.fixture
def spec(postgres_15: Postgres, tmp_path: Path) -> Path:
    return write_spec("fifteen", postgres_15, tmp_path)


def write_spec(name: str, server: Postgres, folder: Path) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(Pipeline.text(name).replace("${env:POSTGRES_PORT}", str(server.port)))
    return path


def codes(spec: Path, dsn: str) -> list[str]:
    """Return the codes of what is found, but for the note that Connect was not asked."""
    done = run_here("preflight", str(spec), "--dsn", dsn, "--output", "json")
    return [item["code"] for item in json.loads(done.stdout)["findings"] if item["code"] != "DB601"]


@pytest.fixture
def pipeline(outbox_stack: Stack, postgres_15: Postgres, spec: Path) -> Iterator[Pipeline]:
    """A pipeline whose database is there, and nothing else."""
    made = Pipeline(outbox_stack, parse_spec(spec.read_text()), postgres_15.create_database("fifteen"))
    yield made
    made.close()


def test_the_whole_way_works_on_the_oldest_server_that_was_run(pipeline: Pipeline, spec: Path) -> None:
    with pipeline.connect() as connection:
        assert connection.info.server_version // 10_000 == 15
        made = run_here("init", str(spec), "--dsn", pipeline.dsn)
        assert made.returncode == 0, made.stderr
        make_connector_role(connection)
        connection.execute(run_here("init", str(spec), "--grants").stdout.encode())
    way, env = ("--dsn", pipeline.dsn), connect_of(pipeline.stack)
    brokers = ("--bootstrap-servers", pipeline.stack.broker.bootstrap_servers)
    assert codes(spec, pipeline.dsn) == []
    deployed = run_here("deploy-connector", str(spec), *way, "--stable-for", "0s", env=env)
    assert deployed.returncode == 0, deployed.stderr
    looked = run_here("preflight", str(spec), *way, *brokers, env=env)
    assert (looked.returncode, looked.stdout) == (0, ""), looked.stdout
    written = pipeline.write(3)
    Service(pipeline).consume(3)
    assert [pipeline.spec.contract.event_of(message).id for message in pipeline.messages()] == [
        event.id for event in written
    ]
    looked = run_here("preflight", str(spec), *way, *brokers, env=env)
    # A line before it may say that Connect, whose workers share out their tasks at any time, is waited for.
    assert (looked.returncode, looked.stdout, looked.stderr.splitlines()[-1:]) == (0, "", ["nothing found"])


def test_a_relay_publishes_and_a_second_one_takes_over_when_it_is_killed(
    outbox_stack: Stack, postgres_15: Postgres, tmp_path: Path
) -> None:
    text = write_spec("relayed", postgres_15, tmp_path).read_text()
    pipeline = Pipeline(outbox_stack, parse_spec(text), postgres_15.create_database("relayed"))
    written, first_seen = list[RecordedEvent](), dict[str | None, RecordedEvent]()

    def all_arrived() -> bool:
        for message in outbox_stack.broker.messages(PREFIX + pipeline.topic):
            event = pipeline.spec.contract.event_of(message)
            first_seen.setdefault(event.id, event)
        return len(first_seen) == len(written)

    with closing(pipeline):
        with pipeline.connect() as connection:
            make_connector_role(connection)
            pipeline.init(connection)
        prepare_relay(pipeline, {})
        with relay_process(pipeline, text) as first, relay_process(pipeline, text):
            written += pipeline.write(5)
            eventually(all_arrived, "the events of the first")
            written += pipeline.write(5)
            first.kill()
            written += pipeline.write(5)
            eventually(all_arrived, "the events of the second")
    assert [*first_seen] == [event.id for event in written]


def test_a_slot_that_is_older_than_its_publication_is_found(postgres_15: Postgres, tmp_path: Path) -> None:
    spec, dsn = write_spec("younger", postgres_15, tmp_path), postgres_15.create_database("younger")
    with psycopg.connect(dsn, autocommit=True) as connection:
        make_connector_role(connection)
        assert run_here("init", str(spec), "--dsn", dsn).returncode == 0
        grant_outbox(connection)
        connection.execute("drop publication younger_outbox")
        connection.execute("select pg_create_logical_replication_slot('younger_outbox', 'pgoutput')")
        # Of whichever table: the server looks for the publication before it knows whether it is in there.
        connection.execute("create table others as select 1 as a")
        assert run_here("init", str(spec), "--dsn", dsn).returncode == 0
        assert codes(spec, dsn) == ["DB504"]
        connection.execute("select pg_drop_replication_slot('younger_outbox')")


def test_a_slot_whose_publication_was_dropped_under_the_connector_is_found(
    postgres_15: Postgres, outbox_stack: Stack, tmp_path: Path
) -> None:
    """Connect calls the connector running, while the server refuses to decode its slot."""
    spec = write_spec("dropped", postgres_15, tmp_path)
    pipeline = Pipeline(outbox_stack, parse_spec(spec.read_text()), postgres_15.create_database("dropped"))
    env = connect_of(outbox_stack) | {"CDC_OUTBOX_DSN": pipeline.dsn}
    try:
        with pipeline.connect() as connection:
            make_connector_role(connection)
            pipeline.init(connection)
            pipeline.deploy(stable_seconds=0)
            pipeline.write(1)
            eventually(lambda: pipeline.client.find_offsets(pipeline.name), "the first offset")
            connection.execute("drop publication dropped_outbox")
        pipeline.write(1)
        made = run_here("init", spec, env=env)
        assert "warning: the slot dropped_outbox existed already: " in made.stderr

        def found(command: str) -> list[str]:
            done = run_here(command, spec, "--output", "json", env=env)
            return [item["code"] for item in json.loads(done.stdout)["findings"] if item["severity"] == "error"]

        eventually(lambda: found("preflight") == ["DB504"], "the slot that cannot be read")
        eventually(lambda: found("doctor") == ["DB504"], "the same, once")
    finally:
        pipeline.close()


def test_a_slot_that_falls_behind_is_told_until_it_is_lost(postgres_15: Postgres, tmp_path: Path) -> None:
    spec, dsn = write_spec("behind", postgres_15, tmp_path), postgres_15.create_database("behind")
    with psycopg.connect(dsn, autocommit=True) as connection:
        make_connector_role(connection)
        assert run_here("init", str(spec), "--dsn", dsn).returncode == 0
        grant_outbox(connection)
        connection.execute("select pg_create_logical_replication_slot('behind_outbox', 'pgoutput')")
        assert codes(spec, dsn) == []
        # The view of what is published has such a column here, and nobody is ever sent it.
        connection.execute("alter table outbox drop column tracestate")
        connection.execute("alter table outbox add column tracestate text generated always as (type) stored")
        assert codes(spec, dsn) == ["DB313"]
        connection.execute("alter table outbox alter column tracestate drop expression")
        for setting in ("max_wal_size = '32MB'", f"{KEPT} = '512MB'"):
            connection.execute(f"alter system set {setting}".encode())
        connection.execute("select pg_reload_conf()")
        grow(connection, segments=3)
        eventually(lambda: codes(spec, dsn) == ["DB507"], "the lag")
        connection.execute(f"alter system set {KEPT} = '64MB'".encode())
        connection.execute("select pg_reload_conf()")
        eventually(lambda: codes(spec, dsn) == ["DB506", "DB507"], "the slot to be nearly lost")
        grow(connection, segments=6)
        connection.execute("checkpoint")
        eventually(lambda: codes(spec, dsn) == ["DB505"], "the slot to be lost")
        connection.execute("select pg_drop_replication_slot('behind_outbox')")
        for name in ("max_wal_size", KEPT):
            connection.execute(f"alter system reset {name}".encode())
        connection.execute("select pg_reload_conf()")


def grow(connection: psycopg.Connection[Any], *, segments: int) -> None:
    """Let the log grow by so many files of 16 MB."""
    for _ in range(segments):
        connection.execute("select pg_logical_emit_message(false, 'grow', '')")
        connection.execute("select pg_switch_wal()")


def test_what_only_a_restart_changes_is_found_and_then_a_standby(postgres_15: Postgres, tmp_path: Path) -> None:
    """Last, because the server is none that takes a write afterwards."""
    spec, dsn = write_spec("small", postgres_15, tmp_path), postgres_15.create_database("small")
    settings = {"wal_level": "replica", "max_replication_slots": "0", "max_wal_senders": "0"}
    with psycopg.connect(dsn, autocommit=True) as connection:
        make_connector_role(connection)
        assert run_here("init", str(spec), "--dsn", dsn).returncode == 0
        grant_outbox(connection)
        for name, value in {**settings, "max_prepared_transactions": "1"}.items():
            connection.execute(f"alter system set {name} = {value}".encode())
    postgres_15.restart()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("begin")
        connection.execute("create table prepared (a integer)")
        connection.execute("prepare transaction 'of a shop'")
        assert codes(spec, dsn) == ["DB102", "DB104", "DB105", "DB112"]
        connection.execute("rollback prepared 'of a shop'")
        for name in settings:
            connection.execute(f"alter system reset {name}".encode())
    postgres_15.restart()
    assert codes(spec, dsn) == []
    (postgres_15.folder / "data" / "standby.signal").touch()
    postgres_15.restart()
    assert codes(spec, dsn) == ["DB106"]
