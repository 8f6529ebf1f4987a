"""A role that may create functions gets nothing from the superuser that runs commands in the same database."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from cdc_outbox import OutboxTable
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.migrations import drop, turn
from cdc_outbox.debezium.render import render
from cdc_outbox.errors import ConfigError, DatabaseAccessError
from cdc_outbox.testing import Stack
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline, create_service_tables
from tests.support.rig import eventually, one, postgres_program, run_upgrade
from tests.support.specs import MINIMAL, for_any_database

MIGRATOR = "planted_migrator"
STEAL = f"""
    if pg_catalog.current_setting('is_superuser') = 'on' then
        execute 'alter role {MIGRATOR} superuser';
    end if;
"""
PLANTED = {
    "format": "format(text, name, text) returns text language plpgsql as $$ begin {steal}"
    " return pg_catalog.format($1, $2, $3); end $$",
    "unnest": "unnest(text[]) returns setof text language plpgsql as $$ begin {steal}"
    " return query select pg_catalog.unnest($1); end $$",
    "hashtextextended": "hashtextextended(text, integer) returns bigint language plpgsql as $$ begin {steal}"
    " return 0; end $$",
}
"""Functions that fit the calls of the scripts better than those of pg_catalog."""
OVERLOADS = {
    "row_security_active": ("row_security_active(regclass)", "boolean", "null::regclass"),
    "has_table_privilege": ("has_table_privilege(regclass, text)", "boolean", "null::regclass, 'select'"),
    "pg_has_role": ("pg_has_role(text, text)", "boolean", "'pg_read_all_settings', 'usage'"),
    "format_type": ("format_type(oid, text)", "text", "0::oid, null"),
    "has_function_privilege": (
        "has_function_privilege(oid, regprocedure, text)",
        "boolean",
        "0::oid, null::regprocedure, 'execute'",
    ),
    "has_database_privilege": ("has_database_privilege(oid, name, text)", "boolean", "0::oid, ''::name, 'connect'"),
    "quote_ident": ("quote_ident(name)", "text", "''::name"),
    "make_interval": ("make_interval(secs float)", "interval", "secs => 1::float"),
    "to_jsonb": ("to_jsonb(pg_replication_slots)", "jsonb", "null::pg_replication_slots"),
    "concat": ("concat(text, name)", "text", "'', ''::name"),
    "concat_ws": ("concat_ws(text, integer, numeric)", "text", "' ', 1, 1.0"),
    "unnest": ("unnest(text[])", "text", "array['']"),
    "oid_is_regclass": ("oid_is_regclass(oid, regclass)", "boolean", "0::oid, null::regclass"),
    "oid_is_regtype": ("oid_is_regtype(oid, regtype)", "boolean", "0::oid, null::regtype"),
    "bits_of": ("bits_of(smallint, integer)", "integer", "1::smallint, 1"),
}
"""What fits the calls of operators' commands better: a function's head, its result, and arguments that call it."""
OPERATORS = {
    "=": [("oid_is_regclass", "oid", "regclass"), ("oid_is_regtype", "oid", "regtype")],
    "&": [("bits_of", "smallint", "integer")],
}
PLANTER = "planted_developer"


def psql(dsn: str, text: str) -> None:
    command = [postgres_program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn]
    subprocess.run(command, input=text, text=True, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_function_makes_no_superuser(outbox_stack: Stack, planted: str, tmp_path: Path) -> None:
    spec = tmp_path / "orders.yaml"
    spec.write_text(for_any_database(MINIMAL))
    dsn = outbox_stack.postgres.create_database(f"planted_{planted}")
    grants = run_command("init", spec, "--inbox", "--grants", "--migrator-role", MIGRATOR).stdout
    script = run_command("init", spec, "--inbox", "--sql").stdout
    psql(dsn, script)
    psql(dsn, grants)
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"set role {MIGRATOR}")
            body = PLANTED[planted].format(steal=STEAL)
            connection.execute(f"create function public.{body}".encode())
            psql(dsn, grants)
            psql(dsn, script)
            psql(dsn, grants)
            done = run_command("init", spec, "--inbox", "--dsn", dsn)
            assert done.returncode == 0, done.stderr
            assert one(connection, "select rolsuper from pg_roles where rolname = %s", MIGRATOR) is False
    finally:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"alter role {MIGRATOR} nosuperuser")


def test_settings_of_the_callers_transaction_come_back(outbox_stack: Stack) -> None:
    dsn = outbox_stack.postgres.create_database("planted_settings")
    shown = "select current_setting('search_path') || ' ' || current_setting('row_security')"
    with psycopg.connect(dsn) as connection:
        connection.execute('set search_path = public, "it\'s"')
        before = one(connection, shown)
        run_upgrade(connection, outbox_component(OutboxTable(), first_source="orders.1"))
        assert one(connection, shown) == before

        def execute(sql: str) -> list[tuple[object, ...]]:
            return Psycopg().fetch(connection, sql)

        seen = []
        with suppress(ConfigError), turn(execute, Dialect.POSTGRESQL):
            seen.append(one(connection, shown))
            raise ConfigError("no")
        assert seen == ["pg_catalog, pg_temp off"]
        assert one(connection, shown) == before


def test_rows_that_a_policy_hides_are_not_dropped(outbox_stack: Stack) -> None:
    dsn = outbox_stack.postgres.create_database("planted_policy")
    component = outbox_component(OutboxTable(), first_source="orders.1")
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create role planted_owner")
        connection.execute("grant all on schema public to planted_owner")
        connection.execute("set role planted_owner")
        run_upgrade(connection, component)
        connection.execute("insert into outbox_heads values ('orders.1', 'order', '1', 1)")
        connection.execute("alter table outbox_heads enable row level security")
        connection.execute("alter table outbox_heads force row level security")
        with pytest.raises(DatabaseAccessError), connection.transaction():
            drop(lambda sql: Psycopg().fetch(connection, sql), component)
        connection.execute("reset role")
        assert one(connection, "select count(*) from outbox_heads") == 1


def plant(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Create functions, and operators of them, that tell of each call, and make this role a superuser if one calls."""
    steal = STEAL.replace(MIGRATOR, PLANTER).replace(
        "'on'", "'on' and current_setting('transaction_read_only') = 'off'"
    )
    for name, (head, result, _) in OVERLOADS.items():
        body = f"$$ begin perform pg_notify('planted', '{name}'); {steal} return null; end $$"
        connection.execute(f"create function public.{head} returns {result} language plpgsql as {body}".encode())
    for operator, functions in OPERATORS.items():
        for function, left, right in functions:
            arguments = f"function = public.{function}, leftarg = {left}, rightarg = {right}"
            connection.execute(f"create operator public.{operator} ({arguments})".encode())


@pytest.fixture
def planted(deployed: Pipeline) -> Iterator[None]:
    """Plant functions and operators beside a pipeline's tables; see that they work, and that the test calls none."""
    called: list[str] = []
    with deployed.connect() as connection:
        connection.add_notify_handler(lambda notify: called.append(notify.payload))
        connection.execute(
            f"listen planted; create role {PLANTER}; grant create on schema public to {PLANTER}".encode()
        )
        try:
            connection.execute(f"set role {PLANTER}".encode())
            plant(connection)
            connection.execute("reset role")
            for name, (_, _, arguments) in OVERLOADS.items():
                connection.execute(f"select public.{name}({arguments})".encode())
                assert rises(connection), name
                connection.execute(f"alter role {PLANTER} nosuperuser".encode())
            assert called == list(OVERLOADS)
            called.clear()
            yield
            assert not rises(connection)
            assert called == []
        finally:
            connection.execute(f"drop owned by {PLANTER} cascade; drop role {PLANTER}".encode())


def rises(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    return bool(one(connection, "select rolsuper from pg_roles where rolname = %s", PLANTER))


@pytest.mark.usefixtures("planted")
def test_operators_commands_call_nothing_that_was_planted(deployed: Pipeline, tmp_path: Path) -> None:
    spec = tmp_path / "orders.yaml"
    spec.write_text(deployed.text(deployed.name))
    env = {**deployed.stack.environment(), "CDC_OUTBOX_DSN": deployed.dsn, "CDC_OUTBOX_INBOX_DSN": deployed.dsn}
    create_service_tables(deployed.dsn)
    with deployed.connect() as connection:
        connection.execute("insert into inbox (consumer, event_id) values ('shipping', 'x')")
    deployed.write()
    eventually(deployed.messages, "the event in the topic")
    for command in (
        ("status", spec),
        ("preflight", spec),
        ("doctor", spec),
        ("init", spec, "--inbox", "--check"),
        ("verify", spec, "--settle", "0s"),
        ("verify", spec, "--consumer", "shipping", "--settle", "0s"),
        ("prune", spec, "--keep", "0s", "--dry-run", "--without-topics"),
        ("parked", "list", "--consumer", "shipping"),
        ("purge-inbox", "--horizon", "30d", "--accept-shorter-horizon", "--dry-run"),
    ):
        done = run_command(*command, env=env)
        assert done.returncode in {0, 3}, done.stderr
    with deployed.connect() as connection:
        connection.execute("create function outbox_heartbeat(text) returns bigint language sql as 'select 1 / 0'")
        connection.execute(render(deployed.spec)["heartbeat.action.query"].encode())
