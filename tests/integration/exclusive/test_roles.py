"""The least roles, as `init --grants` prints them: each can do its work, and nothing beside it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege
from psycopg.sql import SQL, Identifier, Literal

from cdc_outbox import Event, Outbox
from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.debezium.slot_plan import EarlierEvents
from cdc_outbox.spec import parse_spec
from cdc_outbox.writer.outbox_schema import writer_role
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline
from tests.support.planted_versions import planted
from tests.support.pruning import Pruner
from tests.support.rig import CONNECTOR_PASSWORD, Connection, eventually, one
from tests.support.service import Service

PASSWORD = "secret"
KINDS = ("writer", "consumer", "connector", "relay", "pruner", "migrator")


@pytest.fixture
def granted(pipeline: Pipeline, tmp_path: Path) -> Iterator[Pipeline]:
    """A pipeline whose parties have the roles that the command prints; the connector's is new, too."""
    spec = tmp_path / "spec.yaml"
    text = Pipeline.text(pipeline.name).replace("user: connector", f"user: {pipeline.name}_connector")
    spec.write_text(text)
    pipeline.spec = parse_spec(text)
    assert run_command("init", str(spec), "--inbox", "--dsn", pipeline.dsn).returncode == 0
    printed = run_command("init", str(spec), "--inbox", "--grants")
    assert printed.returncode == 0, printed.stderr
    with pipeline.connect() as connection:
        for _ in range(2):
            connection.execute(printed.stdout.encode())
        for kind in KINDS:
            password = CONNECTOR_PASSWORD if kind == "connector" else PASSWORD
            statement = SQL("alter role {} password {}")
            connection.execute(statement.format(Identifier(f"{pipeline.name}_{kind}"), Literal(password)))
    yield pipeline
    pipeline.close()
    with pipeline.connect() as connection:
        for kind in KINDS:
            for cleanup in ("reassign owned by {} to postgres", "drop owned by {}", "drop role {}"):
                connection.execute(SQL(cleanup).format(Identifier(f"{pipeline.name}_{kind}")))


def test_roles_of_a_partitioned_outbox_are_made_on_a_server_that_has_none(pipeline: Pipeline, tmp_path: Path) -> None:
    """Its pruner is a member of its migrator, who has to be made before."""
    name = f"{pipeline.name}_days"
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        Pipeline.text(name, "outbox: {partitions: day}\n").replace("user: connector", f"user: {name}_connector")
    )
    dsn = pipeline.stack.postgres.create_database(name)
    assert run_command("init", str(spec), "--dsn", dsn).returncode == 0
    printed = run_command("init", str(spec), "--grants")
    assert printed.returncode == 0, printed.stderr
    kinds = [kind for kind in KINDS if kind != "consumer"]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(printed.stdout.encode())
        for kind in kinds:
            for cleanup in ("reassign owned by {} to postgres", "drop owned by {}"):
                connection.execute(SQL(cleanup).format(Identifier(f"{name}_{kind}")))
        for kind in kinds:
            connection.execute(SQL("drop role {}").format(Identifier(f"{name}_{kind}")))


def dsn_of(pipeline: Pipeline, kind: str) -> str:
    return pipeline.stack.postgres.dsn(pipeline.name, user=f"{pipeline.name}_{kind}", password=PASSWORD)


def assert_refused(connection: Connection, *statements: bytes) -> None:
    for statement in statements:
        with pytest.raises(InsufficientPrivilege):
            connection.execute(statement)
        connection.rollback()


def order(aggregate_id: str = "1", aggregate_type: str = "order") -> Event:
    return Event(aggregate_type=aggregate_type, aggregate_id=aggregate_id, type="OrderPlaced", payload={"a": 1})


def test_the_writer_adds_and_neither_reads_payloads_nor_changes_nor_deletes(granted: Pipeline) -> None:
    outbox = Outbox(spec=granted.spec)
    with psycopg.connect(dsn_of(granted, "writer")) as connection:
        assert outbox.add(connection, order()).sequence == 1
        written = outbox.add_all(connection, [order("1"), order("2"), order("cpu", "metric")])
        assert [event.sequence for event in written] == [2, 1, None]
        connection.commit()
        assert_refused(
            connection,
            b"select payload from outbox",
            b"select aggregateid from outbox",
            b"select * from outbox",
            b"update outbox set type = 'x'",
            b"delete from outbox",
            b"truncate outbox",
            b"delete from outbox_heads",
            b"update outbox_heads set source = 'x'",
            b"select * from cdc_outbox_version",
            b"select outbox_heartbeat('orders')",
            b"create table mine (a int)",
        )


def test_the_consumer_consumes_and_parks_and_forgets_neither_watermarks_nor_holes(granted: Pipeline) -> None:
    granted.deploy()
    service = Service(granted)
    with granted.connect() as connection:
        for grant in ("grant insert on effects to {}", "grant usage on sequence effects_number_seq to {}"):
            connection.execute(SQL(grant).format(Identifier(f"{granted.name}_consumer")))
    granted.write(3)
    with service.running(service.consumer(connect=lambda: psycopg.connect(dsn_of(granted, "consumer")))):
        eventually(lambda: len(service.effects()) == 3, "three effects")
        first, *_ = granted.messages()
        late = {"id": b"late", "sequence": b"9"}
        granted.send(replace(first, headers=tuple((name, late.get(name, text)) for name, text in first.headers)))
        with granted.connect() as connection:
            eventually(lambda: one(connection, "select count(*) from inbox_parked") == 1, "what waits")
    with psycopg.connect(dsn_of(granted, "consumer")) as connection:
        assert_refused(
            connection,
            b"update inbox set event_id = 'x'",
            b"truncate inbox",
            b"delete from inbox_watermarks",
            b"delete from inbox_holes",
            b"update inbox_holes set last = 9",
            b"delete from inbox_epochs",
            b"insert into inbox_purges (consumer, purged_before) values ('x', now())",
            b"select from outbox",
        )


def test_the_connector_streams_publishes_again_and_writes_nothing_but_heartbeats(granted: Pipeline) -> None:
    granted.write(2)
    granted.deploy(earlier=EarlierEvents.REPUBLISH)
    granted.write(1)
    eventually(lambda: len({message.headers[0] for message in granted.messages()}) == 3, "three events")
    dsn = granted.stack.postgres.dsn(granted.name, user=f"{granted.name}_connector", password=CONNECTOR_PASSWORD)
    with psycopg.connect(dsn) as connection:
        beat = "select outbox_heartbeat(%s, interval '0')"
        # Null where the connector writes its own at this very moment.
        eventually(lambda: one(connection, beat, granted.name), "a heartbeat")
        connection.commit()
        assert_refused(
            connection,
            b"insert into outbox default values",
            b"update outbox set type = 'x'",
            b"delete from outbox",
            b"insert into outbox_heads default values",
            b"update outbox_heads set last = 9",
            b"delete from outbox_heads",
            b"insert into outbox_heartbeats default values",
            b"update outbox_heartbeats set number = 9",
            b"delete from outbox_heartbeats",
            b"create table mine (a int)",
        )


def test_the_pruner_prunes_and_neither_writes_nor_numbers(granted: Pipeline) -> None:
    pruner = Pruner(granted)
    granted.write(3)
    assert pruner.run(dsn=dsn_of(granted, "pruner")).deleted == 3
    with psycopg.connect(dsn_of(granted, "pruner")) as connection:
        assert_refused(
            connection,
            b"insert into outbox (aggregatetype) values ('x')",
            b"update outbox set type = 'x'",
            b"truncate outbox",
            b"drop table outbox",
            b"select from outbox_heads",
            b"update outbox_checkpoints set slot = 'x'",
            b"create table mine (a int)",
        )


def test_where_no_rows_stay_there_is_no_pruner(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    for outbox, has_one in (("mode: keep", True), ("mode: delete", False), ("mode: message", False)):
        spec.write_text(Pipeline.text("orders", f"outbox: {{{outbox}}}\n"))
        assert ("orders_pruner" in run_command("init", str(spec), "--grants").stdout) is has_one


def test_the_migrator_upgrades_makes_and_begins_incarnations(granted: Pipeline, tmp_path: Path) -> None:
    spec, migrator = tmp_path / "spec.yaml", dsn_of(granted, "migrator")
    second = {"outbox/0002_note.sql": '-- name: note\nalter table "{heads}" add column if not exists note text;\n'}
    with planted(tmp_path / "sql", Dialect.POSTGRESQL, second):
        done = run_command("init", str(spec), "--inbox", "--dsn", migrator)
        assert done.returncode == 0, done.stderr
        assert "outbox public.outbox: now at version 2" in done.stderr
        done = run_command(
            "init", str(spec), "--new-incarnation", "--from-source", f"{granted.name}.1", "--dsn", migrator
        )
        assert done.returncode == 0, done.stderr
        roles = [f"--{kind}-role={granted.name}_{kind}" for kind in KINDS]
        check = run_command("init", str(spec), "--inbox", "--check", *roles, "--dsn", migrator)
        assert (check.returncode, check.stdout) == (0, ""), check.stdout + check.stderr


def test_the_migrator_makes_everything_from_nothing(granted: Pipeline, tmp_path: Path) -> None:
    name = f"{granted.name}_anew"
    granted.stack.postgres.create_database(name)
    spec = tmp_path / "anew.yaml"
    spec.write_text(Pipeline.text(name, "outbox: {partitions: day}\n"))
    with psycopg.connect(granted.stack.postgres.dsn(name), autocommit=True) as connection:
        role = Identifier(f"{granted.name}_migrator")
        connection.execute(SQL("grant create on database {} to {}").format(Identifier(name), role))
        connection.execute(SQL("grant create on schema public to {}").format(role))
    migrator = granted.stack.postgres.dsn(name, user=f"{granted.name}_migrator", password=PASSWORD)
    for command in (["init", str(spec), "--inbox"], ["partitions", str(spec), "--ahead", "9"]):
        done = run_command(*command, "--dsn", migrator)
        assert done.returncode == 0, done.stderr
    with psycopg.connect(granted.stack.postgres.dsn(name), autocommit=True) as connection:
        connection.execute(SQL("reassign owned by {} to postgres").format(role))
        connection.execute(SQL("drop owned by {}").format(role))


def test_what_a_role_lacks_and_what_it_has_beyond_is_found(granted: Pipeline, tmp_path: Path) -> None:
    spec, writer = tmp_path / "spec.yaml", f"{granted.name}_writer"
    with granted.connect() as connection:
        role = Identifier(writer)
        connection.execute(SQL("revoke insert on outbox_heads from {}").format(role))
        connection.execute(SQL("grant delete, select (payload) on outbox to {}").format(role))
    check = ["init", str(spec), "--check", f"--writer-role={writer}", "--dsn", granted.dsn]
    done = run_command(*check, "--migrator-role=nobody")
    assert done.returncode == 3
    assert f"database {writer}: error DB212: the role lacks insert on public.outbox_heads." in done.stdout
    beyond = "the role does not need delete, select (payload) on public.outbox. Revoke the privilege."
    assert f"database {writer}: warning DB213: {beyond}" in done.stdout
    assert "database nobody: error DB211: the role does not exist." in done.stdout
    done = run_command("init", str(spec), "--check", f"--migrator-role={writer}", "--dsn", granted.dsn)
    assert f"DB214: the role cannot upgrade public.outbox, which belongs to {granted.name}_migrator." in done.stdout


def test_a_writer_that_deletes_what_it_inserted_may_delete_and_see_ids(pipeline: Pipeline) -> None:
    table = OutboxTable(mode=OutboxMode.DELETE)
    role = f"{pipeline.name}_deleter"
    with pipeline.connect() as connection:
        for statement in writer_role(role, table).statements():
            connection.execute(statement.encode())
        connection.execute(SQL("alter role {} password {}").format(Identifier(role), Literal(PASSWORD)))
        with psycopg.connect(pipeline.stack.postgres.dsn(pipeline.name, user=role, password=PASSWORD)) as writer:
            assert Outbox(table=table).add(writer, order()).sequence == 1
            writer.commit()
            with pytest.raises(InsufficientPrivilege):
                writer.execute("select payload from outbox")
        assert one(connection, "select count(*) from outbox") == 0
        connection.execute(SQL("drop owned by {}").format(Identifier(role)))
        connection.execute(SQL("drop role {}").format(Identifier(role)))
