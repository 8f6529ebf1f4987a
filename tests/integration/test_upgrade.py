"""Upgrades of our own tables on a real database: once, in order, and one at a time."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from cdc_outbox import Event, Outbox
from cdc_outbox.consumer.database import sql_stores
from cdc_outbox.consumer.ordering import Aggregate, Mark
from cdc_outbox.consumer.schema import inbox_component
from cdc_outbox.consumer.table import InboxTable
from cdc_outbox.drivers.immediate import ImmediateTransactions, finish
from cdc_outbox.drivers.psycopg import Psycopg
from cdc_outbox.migrations import Component, Migration
from cdc_outbox.table import OutboxTable, TableName
from cdc_outbox.testing import Stack
from cdc_outbox.writer.catalog import Catalog
from cdc_outbox.writer.schema import HEADS_SETTINGS, outbox_component
from tests.support.commands import run_command
from tests.support.rig import Connection, one, run_upgrade

SCHEMAS = Path(__file__).parents[1] / "schemas"
SPEC = Path(__file__).parents[2] / "connectors" / "orders.yaml"

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

    with ThreadPoolExecutor(4) as pool:
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


def test_tables_of_the_first_release_are_upgraded_beside_live_writers(outbox_stack: Stack, tmp_path: Path) -> None:
    dsn = outbox_stack.postgres.create_database("first_release")
    spec = tmp_path / "orders.yaml"
    spec.write_text(SPEC.read_text().replace("  name: orders\n", "  name: first_release\n"))
    with psycopg.connect(dsn) as connection:
        connection.execute((SCHEMAS / "version_1.sql").read_bytes())
    over = threading.Event()
    with ThreadPoolExecutor(3) as pool, psycopg.connect(dsn) as holder:
        # A business transaction that has written and takes its time must not be waited for.
        Outbox().add(holder, order("long"))
        writers = [pool.submit(write_until, dsn, over, f"{number}") for number in range(3)]
        try:
            done = run_command("init", str(spec), "--inbox", "--dsn", dsn)
        finally:
            over.set()
        assert done.returncode == 0, done.stderr
        assert "outbox public.outbox: now at version 4" in done.stderr
        assert all(writer.result() > 0 for writer in writers)
    with psycopg.connect(dsn, autocommit=True) as connection:
        # The aggregate that the first release numbered goes on where it was.
        with connection.transaction():
            assert Outbox().add(connection, order("42")).sequence == 4
        assert one(connection, "select version from cdc_outbox_version where component = 'outbox public.outbox'") == 4
    check = run_command("init", str(spec), "--inbox", "--check", "--dsn", dsn)
    assert (check.returncode, check.stdout) == (0, ""), check.stdout


def test_what_an_inbox_of_the_first_release_claimed_is_known_afterwards(dsn: str) -> None:
    timed = "01a1fde3-2757-7ff4-9746-05b2befd6070"
    ids = [timed, timed.upper(), "5f0d8c4e-9d3a-4b60-8a55-0d7c3d1f2a10", "42", "~7", "ünï", ""]
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute((SCHEMAS / "version_1.sql").read_bytes())
        connection.execute("set search_path to public")
        connection.cursor().executemany(
            "insert into inbox (consumer, event_id) values ('shipping', %s)", [(event_id,) for event_id in ids]
        )
        connection.execute("insert into inbox_watermarks values ('shipping', 'orders.1', 'order', '1', 7)")
        for _ in range(2):
            run_upgrade(connection, inbox_component(InboxTable()))
            assert one(connection, "select version from cdc_outbox_version where component like 'inbox%%'") == 3
        stores = sql_stores(table=InboxTable(), consumer="shipping", driver=ImmediateTransactions(Psycopg()))
        aggregate = Aggregate("orders.1", "order", "1")
        assert finish(stores.inbox.claim(connection, [*ids, "43"])).new == {"43"}
        assert finish(stores.inbox.find_marks(connection, [aggregate])) == {aggregate: Mark(7)}


COMPONENTS = [outbox_component(OutboxTable(), first_source="orders.1"), inbox_component(InboxTable())]


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.kind)
def test_upgraded_tables_are_those_that_a_new_database_gets(outbox_stack: Stack, component: Component) -> None:
    names = (f"upgraded_{component.kind}", f"made_new_{component.kind}")
    old, new = (outbox_stack.postgres.create_database(name) for name in names)
    with psycopg.connect(old, autocommit=True) as connection:
        connection.execute((SCHEMAS / "version_1.sql").read_bytes())
    shapes = []
    for dsn in (old, new):
        with psycopg.connect(dsn, autocommit=True) as connection:
            run_upgrade(connection, component)
            catalog = Catalog(connection, Psycopg())
            shapes.append([catalog.find_table(table) for table in component.tables])
    assert shapes[0] == shapes[1]
    assert None not in shapes[0]
    if component.kind == "outbox":
        assert shapes[0][1] is not None
        assert shapes[0][1].settings == HEADS_SETTINGS


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
    spec.write_text(SPEC.read_text().replace("  name: orders\n", "  name: ${env:DATABASE}\n"))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute((SCHEMAS / "version_1.sql").read_bytes())
    with psycopg.connect(dsn) as holder:
        # As a vacuum by hand does.
        holder.execute("lock table public.outbox_heads in share update exclusive mode")
        done = run_command("init", str(spec), "--dsn", dsn)
    assert done.returncode == 75
    assert "lock timeout" in done.stderr
    assert "run the command again when it has ended" in done.stderr
    assert "Traceback" not in done.stderr


def order(aggregate_id: str) -> Event:
    return Event(aggregate_type="customer", aggregate_id=aggregate_id, type="OrderPlaced", payload={})


def write_until(dsn: str, over: threading.Event, aggregate_id: str) -> int:
    """Write until told to stop, and return how many; a writer that waits for long fails."""
    written = 0
    with psycopg.connect(dsn) as connection:
        connection.execute("set lock_timeout = '2s'")
        connection.commit()
        while not over.is_set():
            Outbox().add(connection, order(aggregate_id))
            connection.commit()
            written += 1
    return written
