"""A service's own migrations by Alembic: they make what `init` makes, and find nothing to do afterwards."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from alembic import command

from cdc_outbox import Outbox
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.errors import ConfigError, OutboxError
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.testing import Stack
from tests.support.alembic_service import BLOCKS, METADATA, ORDER, SQLMODEL, Service, dump
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline
from tests.support.planted_versions import planted
from tests.support.rig import one, postgres_program
from tests.support.sqlalchemy_clients import make_url

Make = Callable[..., tuple[Service, str]]

SHAPES = {
    "plain": "",
    "daily": "outbox: {partitions: day}\n",
    "gone": "outbox: {mode: delete, headers: {tenant: x-tenant}}\n",
    "messages": "outbox: {mode: message}\n",
    "odd": """outbox: {table: 'o"rders :x %s', format: cloudevents-structured}\n""",
}


@pytest.fixture
def make(outbox_stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Service, str]]:
    """Make a database, and a service whose spec is where the document says that it is."""
    monkeypatch.chdir(tmp_path)

    def make(name: str, extra: str = "", *, driver: str = "psycopg", template: str = "generic") -> tuple[Service, str]:
        dsn = outbox_stack.postgres.create_database(name)
        write_spec(tmp_path, extra)
        return Service(tmp_path, make_url(dsn, driver).render_as_string(hide_password=False), template=template), dsn

    return make


def write_spec(folder: Path, extra: str = "") -> Path:
    path = folder / "connectors" / "orders.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(Pipeline.text("orders", extra).replace("  name: orders\n", "  name: ${env:DATABASE}\n", 1))
    return path


def read_spec() -> Spec:
    return parse_spec(Path("connectors/orders.yaml").read_text())


@pytest.mark.parametrize("shape", SHAPES)
def test_what_alembic_makes_is_what_init_makes(outbox_stack: Stack, make: Make, shape: str) -> None:
    service, dsn = make(f"alembic_{shape}", SHAPES[shape])
    service.declare(METADATA, BLOCKS["python"])
    service.revise()
    service.upgrade()

    direct = outbox_stack.postgres.create_database(f"alembic_init_{shape}")
    assert run_command("init", "connectors/orders.yaml", "--dsn", direct).returncode == 0
    assert dump(dsn) == dump(direct)
    check = run_command("init", "connectors/orders.yaml", "--check", "--dsn", dsn)
    assert (check.returncode, check.stdout) == (0, ""), check.stderr
    assert service.is_settled()


def test_the_document_is_true_to_the_letter(make: Make) -> None:
    service, dsn = make("alembic_document")
    service.declare(SQLMODEL, BLOCKS["python"])
    ini = service.folder / "alembic.ini"
    ini.write_text(re.sub("sqlalchemy.url = .*", lambda _: f"sqlalchemy.url = {service.url}", ini.read_text()))
    done = subprocess.run(
        ["bash", "-euxc", BLOCKS["sh"]],
        env={"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "No new upgrade operations detected." in done.stdout
    with psycopg.connect(dsn) as connection:
        assert Outbox(table=read_spec().outbox).add(connection, ORDER).sequence == 1


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "daily"])
def test_the_script_makes_the_same(make: Make, shape: str) -> None:
    service, direct = make(f"alembic_direct_{shape}", SHAPES[shape])
    service.declare(METADATA, BLOCKS["python"])
    service.revise()
    script = service.run(command.upgrade, "head", sql=True)
    service.upgrade()
    with psycopg.connect(direct, autocommit=True) as connection:
        connection.execute(f"create database alembic_script_{shape}".encode())
    scripted = direct.replace(f"alembic_direct_{shape}", f"alembic_script_{shape}")
    psql = [postgres_program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", scripted]
    subprocess.run(psql, input=script, text=True, check=True)
    assert dump(scripted) == dump(direct)


@pytest.mark.parametrize(("driver", "template"), [("psycopg2", "generic"), ("asyncpg", "async")])
def test_any_driver_will_do(make: Make, driver: str, template: str) -> None:
    service, dsn = make(f"alembic_{driver}", SHAPES["daily"], driver=driver, template=template)
    service.declare(METADATA, BLOCKS["python"])
    assert "create_outbox" in service.revise()
    service.upgrade()
    assert service.is_settled()
    assert run_command("init", "connectors/orders.yaml", "--check", "--dsn", dsn).returncode == 0
    service.run(command.downgrade, "base")


def test_migrations_say_what_is_not_as_usual_and_no_more(make: Make) -> None:
    service, _ = make("alembic_words", "outbox: {partitions: day, headers: {tenant: x-tenant}, mode: delete}\n")
    service.declare(METADATA, BLOCKS["python"])
    told = service.revise()
    table = (
        "table=OutboxTable("
        "headers={'traceparent': 'traceparent', 'tracestate': 'tracestate', 'tenant': 'x-tenant'}, "
        "mode=OutboxMode.DELETE, partitions=Partitions.DAY)"
    )
    for line in (
        "import cdc_outbox.contrib.alembic",
        "from cdc_outbox import OutboxMode",
        "from cdc_outbox import OutboxTable",
        "from cdc_outbox import Partitions",
        f"op.create_outbox(first_source='orders.1', {table})",
        f"op.create_outbox_publication(publication='orders_outbox', {table})",
        f"op.drop_outbox_publication(publication='orders_outbox', {table})",
        f"op.drop_outbox({table})",
    ):
        assert line in told
    assert "create_table" not in told


def test_nothing_of_the_outboxs_own_life_is_undone(make: Make) -> None:
    service, dsn = make("alembic_life", SHAPES["daily"])
    service.declare(METADATA, BLOCKS["python"], options=", compare_server_default=True, include_schemas=True")
    service.revise()
    service.upgrade()
    begin = ["--new-incarnation", "--from-source", "orders.1", "--dsn", dsn]
    assert run_command("init", "connectors/orders.yaml", *begin).returncode == 0
    assert run_command("partitions", "connectors/orders.yaml", "--ahead=9", "--dsn", dsn).returncode == 0
    assert service.is_settled()
    with psycopg.connect(dsn, autocommit=True) as connection:
        # What is the user's is as it always was.
        connection.execute("create table heads (a int)")
        assert not service.is_settled()
        connection.execute("drop table heads")
        connection.execute("create index own on outbox (aggregateid)")
        assert "drop_index" in service.revise()


def test_another_schema_is_looked_into_where_alembic_is_told_to(make: Make, tmp_path: Path) -> None:
    service, dsn = make("alembic_schema", "outbox: {schema: own, partitions: month}\n")
    with psycopg.connect(dsn) as connection:
        connection.execute("create schema own")
    service.declare(METADATA, BLOCKS["python"], options=", include_schemas=True")
    service.revise()
    service.upgrade()
    assert service.is_settled()
    assert run_command("init", "connectors/orders.yaml", "--check", "--dsn", dsn).returncode == 0
    write_spec(tmp_path, "outbox: {schema: own, partitions: month, headers: {tenant: x-tenant}}\n")
    told = service.revise()
    assert "create_outbox" not in told, told
    assert "op.add_column('outbox', sa.Column('tenant', sa.Text()" in told, told
    assert "schema='own'" in told


def test_a_new_header_is_a_new_column(make: Make, tmp_path: Path) -> None:
    service, dsn = make("alembic_header")
    service.declare(METADATA, BLOCKS["python"])
    service.revise()
    service.upgrade()
    write_spec(tmp_path, "outbox: {headers: {tenant: x-tenant}}\n")
    told = service.revise()
    assert "op.add_column('outbox', sa.Column('tenant', sa.Text()" in told
    assert "create_outbox" not in told
    service.upgrade()
    assert service.is_settled()
    assert run_command("init", "connectors/orders.yaml", "--check", "--dsn", dsn).returncode == 0


def test_what_is_missing_is_made_again(make: Make, tmp_path: Path) -> None:
    service, dsn = make("alembic_missing", SHAPES["messages"])
    service.declare(METADATA, BLOCKS["python"])
    service.revise()
    service.upgrade()
    write_spec(tmp_path)  # from messages to rows
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop publication orders_outbox")
    told = service.revise()
    assert told.index("op.create_outbox(") < told.index("op.create_outbox_publication(")
    service.upgrade()
    assert service.is_settled()
    assert run_command("init", "connectors/orders.yaml", "--check", "--dsn", dsn).returncode == 0


def test_tables_of_an_earlier_release_are_upgraded_by_a_migration(make: Make, tmp_path: Path) -> None:
    service, dsn = make("alembic_upgrade")
    service.declare(METADATA, BLOCKS["python"])
    service.revise()
    service.upgrade()
    second = {"outbox/0002_note.sql": '-- name: note\nalter table "{heads}" add column if not exists note text;\n'}
    with planted(tmp_path / "sql", Dialect.POSTGRESQL, second):
        told = service.revise()
        assert "op.upgrade_outbox(first_source='orders.1')" in told
        assert "op.drop_outbox(" not in told
        service.upgrade()
        assert service.is_settled()
        assert run_command("init", "connectors/orders.yaml", "--check", "--dsn", dsn).returncode == 0
        service.run(command.downgrade, "-1")
        with psycopg.connect(dsn) as connection:
            assert one(connection, "select version from cdc_outbox_version") == 2


def test_tables_of_a_newer_release_are_not_touched(make: Make) -> None:
    service, dsn = make("alembic_newer")
    service.declare(METADATA, BLOCKS["python"])
    service.revise()
    service.upgrade()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("update cdc_outbox_version set version = 99")
    with pytest.raises(ConfigError, match="the tables have version 99"):
        service.revise()


def test_a_downgrade_drops_everything_unless_it_was_used(make: Make) -> None:
    service, dsn = make("alembic_downgrade", SHAPES["daily"])
    service.declare(METADATA, BLOCKS["python"])
    service.revise()
    for _ in range(2):
        service.upgrade()
        service.run(command.downgrade, "base")
        with psycopg.connect(dsn) as connection:
            names = connection.execute(
                "select relname from pg_class where relkind in ('r', 'p') and relname !~ '^pg_|^sql_'"
            )
            assert sorted(name for (name,) in names) == ["alembic_version", "cdc_outbox_version"]
            assert one(connection, "select count(*) from pg_publication") == 0
            assert one(connection, "select count(*) from cdc_outbox_version") == 0
    with pytest.raises(OutboxError, match="a script cannot check whether"):
        service.run(command.downgrade, "head:base", sql=True)

    service.upgrade()
    with psycopg.connect(dsn) as connection:
        Outbox().add(connection, ORDER)
        connection.commit()
        # Pruned, but a number was given out.
        connection.execute("delete from outbox")
    with pytest.raises(OutboxError, match=r"public.outbox_heads has rows"):
        service.run(command.downgrade, "base")
    with psycopg.connect(dsn) as connection:
        assert one(connection, "select count(*) from pg_publication") == 1
        assert Outbox().add(connection, ORDER).sequence == 2
    [migration] = (service.folder / "migrations" / "versions").glob("*.py")
    migration.write_text(migration.read_text().replace("op.drop_outbox(", "op.drop_outbox(force=True, "))
    assert "drop table if exists" in service.run(command.downgrade, "head:base", sql=True)
    service.run(command.downgrade, "base")


def test_a_publication_with_other_tables_stays(make: Make) -> None:
    service, dsn = make("alembic_publication")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table other (a int primary key)")
        connection.execute("create publication orders_outbox for table other with (publish = 'insert')")
    other = "Table('other', target_metadata, Column('a', Integer, primary_key=True))"
    service.declare(METADATA, "from sqlalchemy import Column, Integer, Table", other, BLOCKS["python"])
    service.revise()
    service.upgrade()
    assert service.is_settled()
    tables = "select string_agg(tablename, ' ' order by tablename) from pg_publication_tables"
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert one(connection, tables) == "other outbox"
        service.run(command.downgrade, "base")
        assert one(connection, tables) == "other"


def test_of_an_adopted_table_only_the_heads_are_made(make: Make) -> None:
    columns = "id: id, aggregate_type: kind, aggregate_id: thing, type: type, payload: body, sequence: n, source: src"
    service, dsn = make("alembic_adopted", f"outbox: {{table: events, columns: {{{columns}, created_at: null}}}}\n")
    own = """
from sqlalchemy import BigInteger, Column, JSON, Table, Text, Uuid

Table(
    "events", target_metadata, Column("id", Uuid(), primary_key=True), Column("kind", Text()), Column("thing", Text()),
    Column("type", Text()), Column("body", JSON()), Column("n", BigInteger()), Column("src", Text()),
)
"""
    service.declare(METADATA, own)
    service.revise()
    service.upgrade()
    service.declare(METADATA, own, BLOCKS["python"])
    assert "op.create_table(" not in service.revise()
    service.upgrade()
    assert service.is_settled()
    with psycopg.connect(dsn) as connection:
        assert Outbox(table=read_spec().outbox).add(connection, ORDER).sequence == 1
        connection.commit()
        connection.execute("delete from events_heads")
    service.run(command.downgrade, "-1")
    with psycopg.connect(dsn) as connection:
        assert one(connection, "select count(*) from events") == 1
        assert one(connection, "select to_regclass('events_heads') is null")


def test_a_table_that_somebody_else_made_is_not_taken_for_ours(make: Make) -> None:
    service, dsn = make("alembic_foreign")
    service.declare(METADATA, BLOCKS["python"])
    service.revise()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table outbox (a int)")
    with pytest.raises(OutboxError, match="exists, but cdc-outbox did not create it"):
        service.upgrade()
