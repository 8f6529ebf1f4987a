"""Upgrades of our own tables on a real database: once, in order, and one at a time."""

from pathlib import Path

import psycopg
import pytest

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.migrations import Component, Migration
from cdc_outbox.databases.table import TableName
from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline
from tests.support.planted_versions import planted
from tests.support.rig import Connection, one, run_upgrade
from tests.support.specs import for_any_database
from tests.support.threads import Threads

TABLE = TableName(schema="public", name="things")
FIRST = Migration(version=1, statements=("create table if not exists public.things (a int)",))
SECOND = Migration(
    version=2,
    statements=("alter table public.things add if not exists b int", "insert into public.things values (1, 2)"),
)


def component(*migrations: Migration) -> Component:
    return Component(kind="outbox", tables=(TABLE,), migrations=migrations)


@pytest.fixture
def dsn(outbox_stack: Stack, request: pytest.FixtureRequest) -> str:
    name = f"upgrade_{abs(hash(request.node.name)) % 10**8}"
    return outbox_stack.postgres.create_database(name)


def version(connection: Connection) -> int:
    return int(one(connection, "select version from cdc_outbox_version where component = 'outbox public.things'"))


def test_a_newer_release_runs_what_is_missing_once(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        run_upgrade(connection, component(FIRST))
        assert version(connection) == 1
        for _ in range(2):
            run_upgrade(connection, component(FIRST, SECOND))
            assert version(connection) == 2
            assert connection.execute("select a, b from things").fetchall() == [(1, 2)]


def test_several_releases_at_once_take_turns(dsn: str) -> None:
    def upgrade_alone(_number: int) -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            run_upgrade(connection, component(FIRST, SECOND))

    with Threads(4) as pool:
        list(pool.map(upgrade_alone, range(4)))
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert connection.execute("select a, b from things").fetchall() == [(1, 2)]


def test_a_step_that_fails_leaves_the_version_before_it(dsn: str) -> None:
    broken = Migration(version=2, statements=("alter table public.things add b int", "select 1 / 0"))
    with psycopg.connect(dsn, autocommit=True) as connection:
        run_upgrade(connection, component(FIRST))
        with pytest.raises(psycopg.errors.DivisionByZero):
            run_upgrade(connection, component(FIRST, broken))
        assert version(connection) == 1
        assert (
            one(connection, "select count(*) from pg_attribute where attrelid = 'things'::regclass and attname = 'b'")
            == 0
        )


def test_an_upgrade_that_would_make_writers_wait_gives_up(dsn: str) -> None:
    # The other limit is the test's, so that it fails instead of hanging.
    limited = psycopg.connect(dsn, autocommit=True, options="-c statement_timeout=20s")
    with limited as connection, psycopg.connect(dsn) as holder:
        run_upgrade(connection, component(FIRST))
        holder.execute("select from things")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            run_upgrade(connection, component(FIRST, SECOND))
        assert version(connection) == 1


def test_the_command_says_to_try_again(dsn: str, tmp_path: Path) -> None:
    spec = tmp_path / "orders.yaml"
    spec.write_text(for_any_database(Pipeline.text("orders")))
    assert run_command("init", str(spec), "--dsn", dsn).returncode == 0
    second = {"outbox/0002_less_room.sql": '-- name: less_room\nalter table "{heads}" set (fillfactor = 70);\n'}
    with planted(tmp_path / "sql", Dialect.POSTGRESQL, second), psycopg.connect(dsn) as holder:
        # As a vacuum by hand does.
        holder.execute("lock table public.outbox_heads in share update exclusive mode")
        done = run_command("init", str(spec), "--dsn", dsn)
    assert done.returncode == 75
    assert "lock timeout" in done.stderr
    assert "run the command again when it has ended" in done.stderr
    assert "Traceback" not in done.stderr
