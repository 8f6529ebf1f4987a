"""`cdc-outbox init`: repeatable, and its script makes the same."""

import json
import subprocess
from pathlib import Path

import psycopg
import pytest

from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline
from tests.support.postgresql import objects
from tests.support.rig import one, postgres_program
from tests.support.specs import for_any_database


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "orders.yaml"
    # The worker resolves the name, so that each test has a database of its own.
    path.write_text(for_any_database(Pipeline.text("orders")))
    return path


def test_init_creates_everything_once_and_says_so(outbox_stack: Stack, spec: Path) -> None:
    dsn = outbox_stack.postgres.create_database("init_twice")
    first = run_command("init", str(spec), "--inbox", "--dsn", dsn)
    assert first.returncode == 0, first.stderr
    assert "outbox public.outbox: now at version 1" in first.stderr
    assert "inbox public.inbox: now at version 1" in first.stderr
    made = objects(dsn)
    assert ("orders_outbox", "public.outbox", "", True, "", "") in made
    assert ("orders_outbox", "publish", "tfff", True, "", "") in made

    again = run_command("init", str(spec), "--inbox", env={"CDC_OUTBOX_DSN": dsn})
    assert again.returncode == 0
    assert again.stderr.count("up to date") == 2
    assert "publication orders_outbox: in place\n" in again.stderr
    assert objects(dsn) == made

    spec.write_text(f"{spec.read_text()}outbox: {{headers: {{tenant: x-tenant, kind: kind}}}}\n")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("drop publication orders_outbox")
    more = run_command("init", str(spec), "--dsn", dsn)
    assert "public.outbox: added the columns kind, tenant\n" in more.stderr
    assert "publication orders_outbox: made\n" in more.stderr


def test_a_heartbeat_is_written_once_a_minute_and_at_each_start_and_kept_for_a_day(
    outbox_stack: Stack, spec: Path
) -> None:
    dsn = outbox_stack.postgres.create_database("init_heartbeats")
    assert run_command("init", str(spec), "--dsn", dsn).returncode == 0
    beat, now = "select outbox_heartbeat('orders')", "select outbox_heartbeat('orders', interval '0')"
    numbers = "select array_agg(number order by number) from outbox_heartbeats"
    back = "update outbox_heartbeats set written_at = clock_timestamp() - interval "
    with psycopg.connect(dsn, autocommit=True) as connection:
        arguments = one(connection, "select pg_get_function_arguments(cast('outbox_heartbeat' as regproc))")
        assert arguments.endswith("pause interval DEFAULT '00:01:00'::interval")
        assert [one(connection, beat) for _ in range(3)] == [1, None, None]
        with psycopg.connect(dsn, autocommit=True) as another:
            assert [one(another, beat) for _ in range(2)] == [2, None]
        connection.execute(f"{back}'61 seconds' where number = 2".encode())
        assert [one(connection, beat) for _ in range(2)] == [3, None]
        # What was written before the server started says nothing of who publishes now.
        connection.execute(
            b"update outbox_heartbeats set written_at = pg_postmaster_start_time() - interval '1 second'"
        )
        assert one(connection, "select outbox_heartbeat('orders', interval '1 year')") == 4
        connection.execute(f"{back}'23 hours 59 minutes'".encode())
        assert (one(connection, now), one(connection, numbers)) == (5, [1, 2, 3, 4, 5])
        connection.execute(f"{back}'24 hours 1 minute' where number = 1".encode())
        assert (one(connection, now), one(connection, numbers)) == (6, [2, 3, 4, 5, 6])
        connection.execute(f"{back}'25 hours'".encode())
        assert (one(connection, beat), one(connection, numbers)) == (7, [7])


def test_the_printed_script_makes_the_same_and_can_be_repeated(outbox_stack: Stack, spec: Path) -> None:
    direct, scripted = (outbox_stack.postgres.create_database(name) for name in ("init_direct", "init_scripted"))
    assert run_command("init", str(spec), "--inbox", "--dsn", direct).returncode == 0
    script = run_command("init", str(spec), "--inbox", "--sql")
    assert script.returncode == 0
    for _ in range(2):
        subprocess.run(
            [postgres_program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", scripted],
            input=script.stdout,
            text=True,
            check=True,
        )
    # Which weeks the inbox has is no part of what is versioned: they are made by the day.
    made = [each for each in objects(direct) if not str(each[0]).startswith("inbox_20")]
    assert objects(scripted) == made


def test_init_does_not_set_back_the_incarnation(outbox_stack: Stack, spec: Path) -> None:
    dsn = outbox_stack.postgres.create_database("init_incarnation")
    run_command("init", str(spec), "--dsn", dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("alter table outbox alter source set default 'orders.2'")
    run_command("init", str(spec), "--dsn", dsn)
    with psycopg.connect(dsn) as connection:
        default = "select pg_get_expr(adbin, adrelid) from pg_attrdef where adrelid = 'outbox'::regclass and adnum = 7"
        assert "orders.2" in one(connection, default)


def test_a_publication_that_is_there_gets_the_table(outbox_stack: Stack, spec: Path) -> None:
    dsn = outbox_stack.postgres.create_database("init_publication")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table invoices (id integer primary key, payload text)")
        connection.execute("create publication orders_outbox for table invoices with (publish = 'insert')")
    done = run_command("init", str(spec), "--dsn", dsn)
    assert done.returncode == 0, done.stderr
    assert "publication orders_outbox: public.outbox added; it also publishes public.invoices\n" in done.stderr
    assert ("orders_outbox", "public.outbox", "", True, "", "") in objects(dsn)
    again = run_command("init", str(spec), "--dsn", dsn, "--output=json")
    assert json.loads(again.stdout)["publication"] == {
        "name": "orders_outbox",
        "isNew": False,
        "isTableAdded": False,
        "isYoungerThanSlot": False,
        "alsoPublishes": ["public.invoices"],
    }
    check = run_command("init", str(spec), "--check", "--dsn", dsn)
    assert (check.returncode, "note DB409: the publication also contains public.invoices." in check.stdout) == (
        0,
        True,
    )


def test_a_second_outbox_is_put_into_a_publication_only_if_that_is_meant(outbox_stack: Stack, spec: Path) -> None:
    """The name of the table is a slip."""
    dsn = outbox_stack.postgres.create_database("init_second")
    slip = spec.with_name("slip.yaml")
    slip.write_text(f"{spec.read_text()}outbox: {{table: outbux}}\n")
    assert run_command("init", str(spec), "--dsn", dsn).returncode == 0
    made = objects(dsn)
    refused = run_command("init", str(slip), "--dsn", dsn)
    assert (refused.returncode, objects(dsn)) == (1, made)
    assert (
        "belongs to another outbox, public.outbox, and does not contain public.outbux; nothing was changed"
        in refused.stderr
    )
    assert "outbox.table" in refused.stderr
    meant = run_command("init", str(slip), "--shared-publication", "--dsn", dsn)
    assert meant.returncode == 0, meant.stderr
    assert "publication orders_outbox: public.outbux added; it also publishes public.outbox\n" in meant.stderr
    for path, other in ((spec, "outbux"), (slip, "outbox")):
        again = run_command("init", str(path), "--dsn", dsn)
        assert again.returncode == 0, again.stderr
        assert f"publication orders_outbox: in place; it also publishes public.{other}\n" in again.stderr
        check = run_command("init", str(path), "--check", "--dsn", dsn)
        assert (check.returncode, check.stdout.count("DB")) == (3, 1)
        assert f"warning DB408: the publication also contains public.{other};" in check.stdout


def test_tables_of_a_newer_release_are_not_touched(outbox_stack: Stack, spec: Path) -> None:
    dsn = outbox_stack.postgres.create_database("init_newer")
    run_command("init", str(spec), "--dsn", dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("update cdc_outbox_version set version = 99")
    done = run_command("init", str(spec), "--dsn", dsn)
    assert done.returncode == 2
    assert "the tables have version 99" in done.stderr
    assert "Upgrade cdc-outbox" in done.stderr


def test_a_table_that_somebody_else_made_is_not_taken_for_ours(outbox_stack: Stack, spec: Path) -> None:
    dsn = outbox_stack.postgres.create_database("init_foreign")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table outbox_heads (a int)")
    done = run_command("init", str(spec), "--dsn", dsn)
    assert done.returncode == 1
    assert "public.outbox_heads already exists, but cdc-outbox did not create it" in done.stderr
    with psycopg.connect(dsn) as connection:
        assert one(connection, "select to_regclass('outbox') is null and to_regclass('cdc_outbox_version') is null")


def test_a_role_that_may_not_create_is_told_and_leaves_nothing(outbox_stack: Stack, spec: Path) -> None:
    dsn = outbox_stack.postgres.create_database("init_forbidden")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create role init_forbidden login password 'secret'")
    as_role = outbox_stack.postgres.dsn("init_forbidden", user="init_forbidden", password="secret")
    done = run_command("init", str(spec), "--dsn", as_role)
    assert done.returncode == 1
    assert "error: permission denied for schema public" in done.stderr
    assert "Traceback" not in done.stderr
    with psycopg.connect(dsn) as connection:
        assert one(connection, "select to_regclass('cdc_outbox_version') is null")


def test_what_is_rolled_back_is_not_told_as_done(outbox_stack: Stack, spec: Path) -> None:
    dsn = outbox_stack.postgres.create_database("init_rolled_back")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create role init_rolled_back login password 'secret'")
        connection.execute("grant create on schema public to init_rolled_back")
    # It may create tables, and may not create a publication.
    as_role = outbox_stack.postgres.dsn("init_rolled_back", user="init_rolled_back", password="secret")
    done = run_command("init", str(spec), "--dsn", as_role)
    assert done.returncode == 1
    assert "now at version" not in done.stderr
    with psycopg.connect(dsn) as connection:
        assert one(connection, "select to_regclass('outbox') is null")


def test_another_database_than_the_specs_is_refused(outbox_stack: Stack, tmp_path: Path) -> None:
    dsn = outbox_stack.postgres.create_database("init_elsewhere")
    spec = tmp_path / "orders.yaml"
    spec.write_text(Pipeline.text("orders"))
    for way in ([], ["--check"], ["--new-incarnation", "--from-source", "orders.1"]):
        done = run_command("init", str(spec), *way, "--dsn", dsn)
        assert done.returncode == 2
        assert "the DSN leads to the database 'init_elsewhere', but the spec names 'orders'" in done.stderr
    with psycopg.connect(dsn) as connection:
        assert one(connection, "select to_regclass('outbox') is null")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--check", "--sql"],
        ["--check", "--new-incarnation", "--from-source", "orders.1"],
        ["--from-source", "orders.1"],
        ["--to-source", "orders.3"],
        ["--check", "--consumer-role", "shipping_consumer"],
    ],
)
def test_what_contradicts_itself_is_refused(spec: Path, arguments: list[str]) -> None:
    assert run_command("init", str(spec), *arguments, "--dsn", "host=nowhere.invalid").returncode == 2


def test_without_a_table_there_are_heads_and_a_publication_and_a_table_may_follow(
    outbox_stack: Stack, tmp_path: Path
) -> None:
    direct, scripted = (outbox_stack.postgres.create_database(name) for name in ("init_message", "init_message_sql"))
    table_less, with_table = tmp_path / "message.yaml", tmp_path / "keep.yaml"
    table_less.write_text(for_any_database(Pipeline.text("orders", "outbox: {mode: message}\n")))
    with_table.write_text(for_any_database(Pipeline.text("orders", "outbox: {headers: {tenant: x-tenant}}\n")))
    for spec in (table_less, with_table):
        assert run_command("init", str(spec), "--dsn", direct).returncode == 0
        script = run_command("init", str(spec), "--sql").stdout
        for _ in range(2):
            subprocess.run(
                [postgres_program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", scripted],
                input=script,
                text=True,
                check=True,
            )
        made = objects(direct)
        assert objects(scripted) == made
        has_table = spec is with_table
        assert (("orders_outbox", "public.outbox", "", True, "", "") in made) == has_table
        assert any(row[:2] == ("outbox", "tenant") for row in made) == has_table
        assert ("orders_outbox", "publish", "tfff", True, "", "") in made
        assert any(row[:2] == ("outbox_heads", "last") for row in made)
