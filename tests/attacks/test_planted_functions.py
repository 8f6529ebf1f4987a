"""A role that may create functions gets nothing from the superuser that runs `init`, `--sql` or `--grants`."""

import subprocess
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from cdc_outbox import OutboxTable
from cdc_outbox.drivers.psycopg import Psycopg
from cdc_outbox.errors import ConfigError, DatabaseAccessError
from cdc_outbox.migrations import drop, turn
from cdc_outbox.table import Dialect
from cdc_outbox.testing import Stack
from cdc_outbox.writer.schema import outbox_component
from tests.support.commands import run_command
from tests.support.rig import one, postgres_program, run_upgrade
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


def psql(dsn: str, text: str) -> None:
    command = [postgres_program("psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn]
    subprocess.run(command, input=text, text=True, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_function_makes_no_superuser(outbox_stack: Stack, planted: str, tmp_path: Path) -> None:
    spec = tmp_path / "orders.yaml"
    spec.write_text(for_any_database(MINIMAL))
    dsn = outbox_stack.postgres.create_database(f"planted_{planted}")
    grants = run_command("init", spec, "--inbox", "--grants", "--migrator", MIGRATOR).stdout
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
