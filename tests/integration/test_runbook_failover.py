"""The page about a failover, followed step by step: with and without the slot, with and without lost commits."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox.testing import Stack
from tests.support.own_server import OwnServer
from tests.support.rig import eventually, one, open_folder
from tests.support.runbooks import Runbook, blocks, separate_service

PAGE = "failover.md"


@pytest.fixture
def own(outbox_stack: Stack) -> Iterator[OwnServer]:
    with open_folder() as folder, OwnServer.started(outbox_stack, folder, f"r{uuid4().hex[:10]}") as server:
        yield server


@pytest.fixture
def runbook(own: OwnServer) -> Runbook:
    return Runbook(own.pipeline, own.spec, separate_service(own.pipeline))


def configure(own: OwnServer) -> None:
    """Set what lets a standby keep slots, and create its own."""
    with own.pipeline.connect() as connection:
        connection.execute("select pg_create_physical_replication_slot('standby', true)")
        for setting in ("sync_replication_slots = on", "hot_standby_feedback = on"):
            connection.execute(f"alter system set {setting}".encode())
        connection.execute("alter system set synchronized_standby_slots = 'standby'")
        connection.execute("select pg_reload_conf()")


def mark_slot(own: OwnServer, runbook: Runbook) -> None:
    """Run the page's commands that make standbys keep the slot."""
    runbook.run("cdc-outbox stop connectors/orders.yaml")
    slot = own.pipeline.spec.database.slot
    command = f"ALTER_REPLICATION_SLOT {slot} (FAILOVER true)"
    own.call(own.program("psql"), f"{own.pipeline.dsn} replication=database", "--command", command)
    runbook.run("cdc-outbox resume connectors/orders.yaml")


@contextmanager
def standby(own: OwnServer, *, keeps_slot: bool) -> Iterator[str]:
    """Run a standby, and yield its DSN."""
    data = own.copies / "standby"
    backup = (own.program("pg_basebackup"), "--dbname", own.server.dsn(), "--pgdata", str(data), "--checkpoint=fast")
    own.call(*backup, "--write-recovery-conf", *(["--slot=standby"] if keeps_slot else []))
    with own.beside("standby-server", data) as dsn:
        if keeps_slot:
            query = "select count(*) from pg_replication_slots where synced and not temporary"
            with psycopg.connect(dsn, autocommit=True) as connection:

                def has_slot() -> bool:
                    # The slot on the primary moves past where the copy begins: left alone, it takes half a minute.
                    with own.pipeline.connect() as primary:
                        primary.execute("select pg_log_standby_snapshot()")
                    own.beat()
                    return bool(one(connection, query))

                eventually(has_slot, "the copy of the slot")
        yield dsn


def fail_over(own: OwnServer, dsn: str) -> None:
    """Promote the standby."""
    own.server.stop()
    own.promote(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("alter system reset synchronized_standby_slots")


def move_address(own: OwnServer) -> None:
    """Run what was the standby where the primary was, as a moved address does."""
    own.restore(own.folder / "standby-server" / "data")


def test_a_clean_failover_with_the_slot_needs_no_step(own: OwnServer, runbook: Runbook) -> None:
    pipeline, service = own.pipeline, runbook.service
    compare, start = blocks(PAGE, "Steps")
    [prove] = blocks(PAGE, "Proof")
    configure(own)
    assert "DB510" in own.run("preflight").stdout
    mark_slot(own, runbook)
    with service.running():
        with standby(own, keeps_slot=True) as dsn:
            pipeline.write(3)
            eventually(lambda: len(service.effects()) == 3, "the first effects")
            fail_over(own, dsn)
        move_address(own)
        assert "DB517" in runbook.run(compare)  # the new primary has no standby yet
        assert "nothing to change" in runbook.run(start)
        pipeline.write(4)
        eventually(lambda: len(service.effects()) == 7, "the effects of what is new")
        found = runbook.run(prove)
    assert [line in found for line in ("1 warning", "nothing found", "no differences")] == [True] * 3, found


def test_a_clean_failover_without_the_slot_continues_with_the_page_about_the_slot(
    own: OwnServer, runbook: Runbook
) -> None:
    pipeline, service = own.pipeline, runbook.service
    with service.running():
        with standby(own, keeps_slot=False) as dsn:
            pipeline.write(3)
            eventually(lambda: len(service.effects()) == 3, "the first effects")
            eventually(lambda: own.caught_up(dsn), "the standby to catch up")
            fail_over(own, dsn)
        move_address(own)
        pipeline.write(2)
        assert "DB512" in own.run("preflight").stdout
        compared = own.run("recover")
        assert ("OP401" in compared.stdout, "does not exist" in compared.stderr) == (False, True), compared.stdout
        (publish, _), [prove] = blocks("lost-slot.md", "Steps"), blocks("lost-slot.md", "Proof")
        runbook.run(publish)
        eventually(lambda: len(service.effects()) == 5, "the effects of what is new")
        found = runbook.run(prove)
    assert [line in found for line in ("nothing found", "nothing found", "no differences")] == [True] * 3, found


@pytest.mark.parametrize("heartbeats", [0, 2])
def test_lost_commits_continue_with_the_page_about_a_restore(own: OwnServer, runbook: Runbook, heartbeats: int) -> None:
    pipeline, service = own.pipeline, runbook.service
    with service.running():
        with standby(own, keeps_slot=False) as dsn:
            pipeline.write(3)
            eventually(lambda: len(service.effects()) == 3, "the first effects")
            eventually(lambda: own.caught_up(dsn), "the standby to catch up")
            own.disconnect(dsn)
            pipeline.write(2)
            own.beat(heartbeats)
            eventually(lambda: len(service.effects()) == 5, "the effects of what is lost")
            fail_over(own, dsn)
        move_address(own)
        assert ("OP401" in own.run("recover").stdout) == bool(heartbeats)
        assert "extra: order/1" in own.run("verify").stdout
        stop, look, publish, accept = blocks("producer-database.md", "Steps")
        runbook.run(stop)
        if heartbeats:
            runbook.run(look)
        runbook.run(publish)
        pipeline.write(4)
        runbook.run(accept)
        eventually(lambda: len(service.effects()) == 9, "the effects of what is new")
        own.beat()
        found = runbook.run(blocks("producer-database.md", "Proof")[0])
    assert f"extra: order/1 ({pipeline.name}.1): 4 to 5" in found
    assert "missing" not in found
    assert service.parked() == []
