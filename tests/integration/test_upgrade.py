"""Upgrades of our own tables on a real database: once, in order, and one at a time."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from cdc_outbox.migrations import Component, Migration
from cdc_outbox.table import TableName
from cdc_outbox.testing import Stack
from tests.rig import Connection, one, run_upgrade

TABLE = TableName(schema="public", name="things")
FIRST = Migration(version=1, statements=("create table if not exists things (a int)",))
SECOND = Migration(
    version=2, statements=("alter table things add if not exists b int", "insert into things values (1, 2)")
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

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(upgrade_alone, range(4)))
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert connection.execute("select a, b from things").fetchall() == [(1, 2)]


def test_a_step_that_fails_leaves_the_version_before_it(dsn: str) -> None:
    broken = Migration(version=2, statements=("alter table things add b int", "select 1 / 0"))
    with psycopg.connect(dsn, autocommit=True) as connection:
        run_upgrade(connection, component(FIRST))
        with pytest.raises(psycopg.errors.DivisionByZero):
            run_upgrade(connection, component(FIRST, broken))
        assert version(connection) == 1
        assert (
            one(connection, "select count(*) from pg_attribute where attrelid = 'things'::regclass and attname = 'b'")
            == 0
        )
