"""`cdc-outbox preflight` against a real PostgreSQL in every state that it shall find; nothing is changed by looking."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.testing import Stack
from tests.support.commands import findings, run_here
from tests.support.pipeline import Pipeline
from tests.support.preflight_states import INSERT, MAKE_SLOT, NAME, OUTBOX, ROLE, SLOT, STATES
from tests.support.rig import Connection, eventually, one


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> str:
    return outbox_stack.postgres.create_database(NAME)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return write_spec(tmp_path)


def write_spec(folder: Path, extra: str = "") -> Path:
    path = folder / f"{NAME}.yaml"
    path.write_text(Pipeline.text(NAME, extra).replace("user: connector", f"user: {ROLE}"))
    return path


@pytest.fixture
def fresh(dsn: str, spec: Path) -> Iterator[Connection]:
    """Everything as `init` makes it, and a superuser to change it."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        clear(connection)
        assert run_here("init", str(spec), "--dsn", dsn).returncode == 0
        connection.execute(run_here("init", str(spec), "--grants").stdout.encode())
        yield connection
        clear(connection)


def clear(connection: Connection) -> None:
    drop = "select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = %s"
    connection.execute(drop, (SLOT,))
    connection.execute(f"drop publication if exists {SLOT}, others")
    connection.execute("drop schema public cascade")
    connection.execute("create schema public")
    connection.execute("drop role if exists rds_replication")
    if one(connection, "select count(*) from pg_roles where rolname = %s", ROLE):
        connection.execute(f"drop owned by {ROLE}")
        connection.execute(f"drop role {ROLE}")


def found(spec: Path, dsn: str, *options: str) -> list[tuple[str, str]]:
    """Return code and place of each finding, but for the note that Connect was not asked."""
    return [(item["code"], item["path"]) for item in findings(spec, dsn, *options) if item["code"] != "DB601"]


def test_what_init_made_is_in_order_and_what_was_not_asked_is_said(fresh: Connection, dsn: str, spec: Path) -> None:
    for change in ("select", MAKE_SLOT, "create table others as select 1 as a"):
        fresh.execute(change.encode())
        assert [(item["code"], item["severity"]) for item in findings(spec, dsn)] == [("DB601", "note")]


@pytest.mark.parametrize(("change", "codes", "place"), STATES)
def test_each_state_is_found_with_its_place(
    fresh: Connection, dsn: str, spec: Path, change: str, codes: str, place: str
) -> None:
    for statement in re.split(";(?! end)", change):  # the end of a function's body
        fresh.execute(statement.encode())
    listed = [item for item in findings(spec, dsn) if item["code"] != "DB601"]
    assert [item["code"] for item in listed] == codes.split()
    assert place in {item["path"] for item in listed}
    # A remedy that is a statement helps.
    pasted = [item for item in listed if re.match("(alter|begin|create|grant|select) ", item["remedy"])]
    for item in pasted:
        for statement in item["remedy"].removesuffix(", and deploy again.").split("; "):
            fresh.execute(statement.encode())
    assert {item["code"] for item in pasted}.isdisjoint(code for code, _ in found(spec, dsn))


@pytest.mark.parametrize(
    "change",
    [
        "create extension citext; alter table outbox alter column type type citext",
        "create domain short as varchar; create domain kind as short; alter table outbox alter column type type kind",
        "alter table outbox enable row level security; alter table outbox owner to {role}",
        "alter table outbox enable row level security; alter role {role} bypassrls",
        "create table kin (id uuid not null); alter table outbox inherit kin",
        "alter role {role} noreplication; create role rds_replication; grant rds_replication to {role}",
        "create unique index on outbox (id); alter table outbox drop constraint outbox_pkey",
        "alter table outbox alter column sequence set not null",
        "create rule mute as on insert to outbox do instead nothing; alter table outbox enable replica rule mute",
        (
            "create function mute() returns trigger language plpgsql as 'begin return null; end';"
            "create trigger mute before insert on outbox for each row execute function mute();"
            "alter table outbox enable replica trigger mute"
        ),
    ],
)
def test_what_works_is_not_found(fresh: Connection, dsn: str, spec: Path, change: str) -> None:
    fresh.execute(change.format(role=ROLE).encode())
    assert found(spec, dsn) == []


@pytest.mark.parametrize(
    ("setting", "code"),
    [("wal_sender_timeout=0", "DB108"), ("output_plugin_libraries=test_decoding", "DB110")],
)
def test_a_servers_setting_is_found(fresh: Connection, dsn: str, spec: Path, setting: str, code: str) -> None:
    del fresh
    assert found(spec, make_conninfo(dsn, options=f"-c {setting}")) == [(code, setting.partition("=")[0])]


@pytest.mark.parametrize(
    ("setting", "code", "place"),
    [
        ("idle_replication_slot_timeout = '2d'", "DB111", "idle_replication_slot_timeout"),
        ("synchronized_standby_slots = 'of_a_standby'", "DB510", SLOT),
    ],
)
def test_a_setting_that_the_whole_server_has_is_found(
    fresh: Connection, dsn: str, spec: Path, setting: str, code: str, place: str
) -> None:
    name = setting.partition(" ")[0]
    fresh.execute(MAKE_SLOT.encode())
    try:
        fresh.execute(f"alter system set {setting}".encode())
        fresh.execute("select pg_reload_conf()")
        eventually(lambda: found(spec, dsn) == [(code, place)], code)
    finally:
        fresh.execute(f"alter system reset {name}".encode())
        fresh.execute("select pg_reload_conf()")
    eventually(lambda: found(spec, dsn) == [], "the setting to be reset")


@pytest.mark.parametrize("waits", [True, False])
def test_a_slot_is_created_so_that_standbys_keep_it_where_slots_wait_for_them(
    fresh: Connection, dsn: str, spec: Path, *, waits: bool
) -> None:
    setting = "synchronized_standby_slots"
    try:
        if waits:
            fresh.execute(f"alter system set {setting} = 'of_a_standby'")
            fresh.execute("select pg_reload_conf()")
            eventually(lambda: one(fresh, f"select current_setting('{setting}')"), "the setting")
        done = run_here("relay", str(spec), "--create-slot", "--dsn", dsn)
        assert done.returncode == 0, done.stderr
        assert one(fresh, "select failover from pg_replication_slots where slot_name = %s", SLOT) is waits
    finally:
        fresh.execute(f"alter system reset {setting}")
        fresh.execute("select pg_reload_conf()")


def test_what_is_told_of_a_slot_that_waits_for_no_standby_makes_it_wait(
    fresh: Connection, dsn: str, spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_outbox.connect.postgresql_database._PATIENCE_SECONDS", 0.5)
    fresh.execute(MAKE_SLOT.replace("'pgoutput'", "'pgoutput', failover => true").encode())
    [told] = [item for item in findings(spec, dsn) if item["code"] == "DB517"]
    said, _, statements = told["remedy"].partition(": ")
    assert "Replace …" in said
    fresh.execute("select pg_create_physical_replication_slot('of_a_standby')")
    try:
        for statement in statements.replace("…", "of_a_standby").split("; "):
            fresh.execute(statement.encode())
        # A look into the slot waits too: nobody reads the standby's.
        eventually(lambda: found(spec, dsn) == [("DB602", SLOT)], "the setting to count")
        assert "waits for a standby" in findings(spec, dsn)[0]["message"]
    finally:
        fresh.execute("alter system reset synchronized_standby_slots")
        fresh.execute("select pg_reload_conf(), pg_drop_replication_slot('of_a_standby')")
    eventually(lambda: found(spec, dsn) == [("DB517", SLOT)], "the setting to be reset")


def test_another_database_and_another_encoding_are_found(outbox_stack: Stack, dsn: str, spec: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create database preflight_ascii template template0 encoding 'SQL_ASCII'")
    codes = [code for code, _ in found(spec, outbox_stack.postgres.dsn("preflight_ascii"))]
    assert codes[:2] == ["DB101", "DB109"]


@pytest.mark.parametrize("mode", ["delete", "message"])
def test_events_that_left_no_row_are_known_by_their_numbers(
    fresh: Connection, dsn: str, tmp_path: Path, mode: str
) -> None:
    del fresh
    spec = write_spec(tmp_path, f"outbox: {{mode: {mode}}}\n")
    assert found(spec, dsn) == []
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("insert into outbox_heads (aggregatetype, aggregateid, last) values ('order', '1', 2)")
        assert found(spec, dsn) == [("DB511", SLOT)]
        connection.execute(MAKE_SLOT.encode())
        [told] = [item for item in findings(spec, dsn) if item["code"] == "DB511"]
        assert (told["severity"], "does not hold 2 events" in told["message"]) == ("warning", True)


def test_a_temporary_slot_is_found(fresh: Connection, dsn: str, spec: Path) -> None:
    with psycopg.connect(dsn, autocommit=True) as session:
        session.execute(f"select pg_create_logical_replication_slot('{SLOT}', 'pgoutput', true)".encode())
        assert found(spec, dsn) == [("DB508", SLOT)]
    eventually(lambda: not one(fresh, "select count(*) from pg_replication_slots where temporary"), "the slot to go")


def test_a_transaction_that_holds_back_the_slot_is_named(
    fresh: Connection, dsn: str, spec: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(dsn) as session:
        session.execute("select pg_current_xact_id()")
        assert found(spec, dsn) == []  # it may end in time
        monkeypatch.setattr("cdc_outbox.connect.postgresql_database.LONG_OPEN_SECONDS", 0.0)
        name = f"process {session.info.backend_pid}"
        assert ("DB112", name) in found(spec, dsn)
    fresh.execute(MAKE_SLOT.encode())
    with psycopg.connect(dsn) as session:
        session.execute("select pg_current_xact_id()")
        assert found(spec, dsn) == []  # the slot is there


def test_rows_that_go_need_a_key_where_deletes_are_published(fresh: Connection, dsn: str, tmp_path: Path) -> None:
    spec = write_spec(tmp_path, "outbox: {mode: delete}\n")
    fresh.execute("alter table outbox drop constraint outbox_pkey")
    assert [code for code, _ in found(spec, dsn)] == ["DB316"]
    fresh.execute("create publication others for table outbox")
    assert [code for code, _ in found(spec, dsn)] == ["DB317", "DB316"]
    fresh.execute(INSERT.encode())
    with pytest.raises(psycopg.Error, match="does not have a replica identity and publishes deletes"):
        fresh.execute("delete from outbox")
    fresh.execute("alter table outbox replica identity full")
    fresh.execute("delete from outbox")
    assert [code for code, _ in found(spec, dsn)] == ["DB316"]


def test_what_the_role_may_not_see_is_said(fresh: Connection, spec: Path, outbox_stack: Stack) -> None:
    fresh.execute(f"alter role {ROLE} password 'x'".encode())
    own = outbox_stack.postgres.dsn(NAME, user=ROLE, password="x")
    assert found(spec, own) == [("DB602", OUTBOX)]
    fresh.execute(f"grant select on outbox_heads to {ROLE}".encode())
    assert found(spec, own) == []
    fresh.execute(MAKE_SLOT.encode())
    assert found(spec, own) == []
    fresh.execute(f"alter role {ROLE} noreplication".encode())
    assert found(spec, own) == [("DB202", ROLE), ("DB602", SLOT)]


def everything(connection: Connection) -> list[Any]:
    return [
        connection.execute(statement).fetchall()
        for statement in (
            "select slot_name, confirmed_flush_lsn, restart_lsn, catalog_xmin from pg_replication_slots",
            "select oid, relname, relfilenode, relpersistence from pg_class order by oid",
            "select * from pg_publication_tables",
            "select ctid, xmin, id from outbox",
            "select * from pg_roles order by oid",
        )
    ]


def test_looking_changes_nothing(fresh: Connection, dsn: str, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for statement in (INSERT, MAKE_SLOT, INSERT):
        fresh.execute(statement.encode())
    before = everything(fresh)
    assert found(spec, dsn) == [("DB511", SLOT)]
    assert everything(fresh) == before

    # And nothing could be: what a look that went wrong would write is refused.
    read_slots = PostgresqlDatabase.read_slots

    def write(database: PostgresqlDatabase) -> Any:
        database._connection.execute(INSERT)
        return read_slots(database)

    monkeypatch.setattr(PostgresqlDatabase, "read_slots", write)
    done = run_here("preflight", str(spec), "--dsn", dsn)
    assert "cannot execute INSERT in a read-only transaction" in done.stderr
    assert everything(fresh) == before
