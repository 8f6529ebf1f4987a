"""What was delivered from a MariaDB outbox goes, and nothing else; the connector is Debezium's own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_outbox.databases.binlog import BinlogPosition
from cdc_outbox.errors import UnprovenDeliveryError
from cdc_outbox.operations.delivery_proof import Checkpoint
from cdc_outbox.operations.prune_by_offset import OffsetProofSource
from cdc_outbox.spec import Spec
from cdc_outbox.testing import Stack
from tests.support.commands import connect_of, run_command
from tests.support.mariadb_pruning import ARCHIVE, NAME, SPEC, Orders, running_orders
from tests.support.patience import patience
from tests.support.pruning import WEEK
from tests.support.rig import eventually
from tests.support.threads import Threads


class Nobody(Orders):
    """The same outbox under a spec whose connector was never made."""

    @property
    def spec(self) -> Spec:
        return replace(super().spec, name="nobody")


@pytest.fixture(scope="module")
def orders(outbox_stack: Stack) -> Iterator[Orders]:
    with running_orders(outbox_stack) as made:
        yield made


@pytest.fixture(autouse=True)
def clean(orders: Orders) -> None:
    orders.wait_for_messages()
    orders.query("drop table if exists archived")
    orders.query("delete from outbox")


def test_what_was_delivered_goes_and_what_came_after_the_mark_or_is_not_committed_stays(
    orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.write(5)
    look = OffsetProofSource.look

    def look_and_write(self: OffsetProofSource, reader: str) -> Checkpoint[BinlogPosition]:
        mark = look(self, reader)
        orders.write(2)
        return mark

    with orders.connect() as writer:
        orders.add(writer, "slow")
        with monkeypatch.context() as patched:
            patched.setattr(OffsetProofSource, "look", look_and_write)
            pruned = orders.run()
        assert (pruned.deleted, pruned.young, pruned.unproven, orders.rows) == (5, 0, 2, 2)
        writer.commit()
        orders.written += 1
    assert pruned.verdict.held_back == ""
    assert orders.rows == 3
    orders.wait_for_messages()
    assert orders.run().deleted == 3
    assert (orders.rows, orders.messages()) == (0, orders.written)


def test_nothing_goes_while_the_connector_is_paused(orders: Orders) -> None:
    orders.client.pause(NAME)
    eventually(lambda: orders.client.find_status(NAME).tasks[0].state == "PAUSED", "the task to pause")
    try:
        orders.write(3)
        pruned = orders.run(wait_seconds=1)
        assert (pruned.deleted, orders.rows) == (0, 3)
        assert f"the connector {NAME} (PAUSED) is at binlog.0" in pruned.verdict.held_back
        assert "before the checkpoint binlog.0" in pruned.verdict.held_back
    finally:
        orders.client.resume(NAME)
    assert orders.run().deleted == 3
    orders.wait_for_messages()


def test_nothing_goes_while_the_connector_is_stopped(orders: Orders) -> None:
    orders.write(3)
    before = orders.reader()
    orders.halt()
    pruned = orders.run()
    assert (pruned.deleted, orders.rows) == (0, 3)
    assert pruned.verdict.held_back == f"the connector {NAME} does not run (STOPPED)"
    orders.go_on()
    # Its old connection to the binlog may still be there: the server has not noticed that nobody reads it.
    eventually(lambda: orders.reader() not in {"", before}, "the connector to read the binlog again")
    assert orders.run().deleted == 3


def test_an_offset_that_is_moved_by_hand_does_not_pass_the_mark(orders: Orders) -> None:
    orders.client.pause(NAME)
    eventually(lambda: orders.client.find_status(NAME).tasks[0].state == "PAUSED", "the task to pause")
    orders.write(3)

    def move_offset(step: str) -> None:
        if step == "wait":
            orders.halt()
            [(file, end, *_)] = orders.query("show master status")
            orders.patch_offset(file=file, pos=end)

    pruned = orders.run(on_report=move_offset, wait_seconds=2)
    [mark] = [int(report.rpartition(":")[2]) for report in orders.reports if report.startswith("wait")]
    assert orders.client.find_offsets(NAME)[0]["offset"]["pos"] >= mark
    assert (pruned.deleted, orders.rows) == (0, 3)
    orders.client.reset_offsets(NAME)
    orders.go_on()  # it publishes the rows
    assert orders.run().deleted == 3
    orders.wait_for_messages()


def test_age_keeps_a_limit_stops_and_an_archive_gets_what_the_outbox_loses(orders: Orders) -> None:
    orders.write(5)
    orders.query("update outbox set created_at = created_at - interval 8 day where sequence % 5 <> 0")
    orders.query("create table before_it as select * from outbox")  # which is a transaction
    dry = orders.run(dry=True, keep_seconds=WEEK, limit_rows=3, archive=ARCHIVE)
    assert (dry.deleted, dry.young, dry.stopped_early, orders.rows) == (3, 1, True, 5)
    pruned = orders.run(keep_seconds=WEEK, limit_rows=3, batch_rows=2, archive=ARCHIVE)
    assert (pruned.deleted, pruned.stopped_early, orders.rows) == (3, True, 2)
    assert "archive: archived created" in orders.reports
    pruned = orders.run(keep_seconds=WEEK, archive=ARCHIVE)
    assert (pruned.deleted, pruned.young, pruned.unproven) == (1, 1, 0)
    assert "archive: archived created" not in orders.reports
    both = "select * from archived union all select * from outbox order by id"
    assert orders.query(both) == orders.query("select * from before_it order by id")
    orders.query("drop table before_it")


def test_an_event_whose_number_another_one_had_goes_once_it_is_published(orders: Orders) -> None:
    orders.write(3)
    orders.query("delete from outbox")
    orders.query("update outbox_heads set last = last - 2 where last > 2")  # as a restore does
    orders.write(4)
    orders.wait_for_messages()
    assert orders.run(topics=True).deleted == 4


def test_two_runs_at_once_delete_each_row_once(orders: Orders) -> None:
    orders.query("create table archived like outbox")
    orders.query("alter table archived drop primary key")
    orders.write(60)
    with Threads(2) as pool:
        runs = [pool.submit(orders.run, archive=ARCHIVE, batch_rows=rows) for rows in (1, 3)]
        assert sum(run.result(patience()).deleted for run in runs) == 60
    assert orders.query("select count(*), count(distinct id) from archived") == [(60, 60)]
    assert orders.rows == 0


def test_a_run_that_is_killed_leaves_whole_batches(orders: Orders, tmp_path: Path) -> None:
    # Before the events: the connector counts a statement that is no transaction as read with the next one only.
    orders.query("create table archived like outbox")
    orders.write(300)
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    dsn = orders.pruner.url("mysql").partition("?")[0]
    options = [
        "--keep=0s",
        "--without-topics",
        "--batch=1",
        "--archive=archived",
        "--dsn",
        dsn,
    ]
    connect = connect_of(orders.stack)
    archived = "select count(*) from archived"
    command = [f"{sys.prefix}/bin/cdc-outbox", "prune", str(spec), *options]
    with subprocess.Popen(
        command, env={**os.environ, **connect}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        eventually(lambda: orders.query(archived)[0][0] > 1, "the run to be under way")
        process.kill()
    sessions = "select count(*) from information_schema.processlist where user = 'pruner'"
    eventually(lambda: orders.query(sessions) == [(0,)], "its connections to end")
    rows = orders.rows
    assert 0 < rows < 300
    assert orders.query("select count(*) from outbox join archived using (id)") == [(0,)]
    assert orders.query(archived) == [(300 - rows,)]
    done = run_command("prune", str(spec), *options, env=connect)
    assert (done.returncode, done.stdout.startswith(f"{rows} event")) == (0, True), done.stderr
    assert f"connector  {NAME} at binlog.0" in done.stderr
    assert (orders.rows, orders.query(archived)) == (0, [(300,)])
    orders.wait_for_messages()


def test_a_connector_without_offsets_or_in_a_snapshot_proves_nothing(orders: Orders) -> None:
    orders.write(3)
    orders.halt()
    orders.client.reset_offsets(NAME)
    for dry in (False, True):
        with pytest.raises(UnprovenDeliveryError, match="has stored no offset; nothing was deleted"):
            orders.run(dry=dry)
    assert orders.rows == 3
    orders.go_on()  # it publishes the rows again
    assert orders.run().deleted == 3


def test_a_place_in_the_binlog_that_is_not_there_is_refused(orders: Orders) -> None:
    orders.write(3)
    orders.halt()
    orders.patch_offset(file="binlog.000999")
    with pytest.raises(UnprovenDeliveryError, match=r"is at binlog.000999:\d+, but the server has no such file"):
        orders.run()
    orders.client.reset_offsets(NAME)
    orders.go_on()
    assert orders.run().deleted == 3


def test_a_table_or_a_connector_that_is_not_there_is_refused(orders: Orders) -> None:
    with pytest.raises(UnprovenDeliveryError, match="there is no table outbox here"):
        orders.run(dsn=orders.server.dsn("mysql"))
    orders.query("create database elsewhere")
    orders.query("create table elsewhere.outbox like outbox")
    with pytest.raises(UnprovenDeliveryError, match=r"does not read elsewhere.outbox; nothing was deleted"):
        orders.run(dsn=orders.server.dsn("elsewhere"))
    nobody = Nobody(orders.stack, orders.server, orders.dsn)
    with pytest.raises(UnprovenDeliveryError, match="the connector nobody does not exist"):
        nobody.run()


def test_an_earlier_place_in_the_binlog_repeats_events_and_a_later_one_leaves_them_out(orders: Orders) -> None:
    """Not of pruning: of `cdc-outbox offsets`, on the connector that is here anyway."""
    env = orders.stack.environment()
    orders.halt()
    first = json.dumps(orders.client.find_offsets(NAME)[0]["offset"])
    before = orders.messages()
    orders.go_on()
    orders.write(2)
    eventually(lambda: orders.messages() == before + 2, "both to come")
    orders.halt()
    had = orders.messages()
    done = run_command("offsets", "set", NAME, "--to-offset", first, env=env)
    assert (done.returncode, "published again" in done.stdout) == (0, True), done.stdout
    orders.go_on()
    eventually(lambda: orders.messages() == had + 2, "both to come again")
    orders.written = had + 2

    orders.halt()
    orders.query("insert into outbox (id, aggregatetype, aggregateid, type) values (uuid(), 'order', 'x', 'Skipped')")
    file, place, *_ = orders.query("show master status")[0]
    [(gtids,)] = orders.query("select @@gtid_binlog_pos")
    end = json.dumps({"file": file, "pos": place, "gtids": gtids})
    refused = run_command("offsets", "set", NAME, "--to-offset", end, env=env)
    assert (refused.returncode, "never published" in refused.stderr) == (1, True)
    done = run_command("offsets", "set", NAME, "--to-offset", end, "--yes", env=env)
    assert done.returncode == 0, done.stderr
    orders.go_on()
    orders.write(1)
    orders.wait_for_messages()
    assert orders.messages() == orders.written


def test_what_an_offset_was_moved_over_stays(orders: Orders) -> None:
    orders.write(2)
    orders.wait_for_messages()
    orders.halt()
    orders.write(3)
    [(file, end, *_)] = orders.query("show master status")
    [(gtids,)] = orders.query("select @@global.gtid_binlog_pos")
    # Without the numbers of events and rows in a transaction, which it would pass over in the next one.
    moved = json.dumps({"file": file, "pos": end, "gtids": gtids})
    done = run_command("offsets", "set", NAME, "--to-offset", moved, "--yes", env=orders.stack.environment())
    assert done.returncode == 0, done.stderr
    orders.go_on()
    orders.written -= 3
    orders.write(1)
    orders.wait_for_messages()
    with pytest.raises(UnprovenDeliveryError, match="3 events are not in the topics"):
        orders.run(topics=True)
    assert orders.rows == 6
    orders.halt()
    orders.client.reset_offsets(NAME)
    orders.go_on()  # it publishes the rows
    assert orders.run(topics=True).deleted == 6
    orders.written = orders.messages()


def test_a_binlog_that_was_reset_proves_nothing(orders: Orders) -> None:
    """The last test of this module: the connector does not recover by itself."""
    orders.write(3)
    orders.wait_for_messages()
    orders.halt()
    orders.query("reset master")
    orders.write(3)
    with pytest.raises(UnprovenDeliveryError, match=r"but that file ends at \d+; nothing was deleted"):
        orders.run()
    assert orders.rows == 6
    # Not even when it has grown longer than the old one was: the connector cannot go on there.
    [(_, end, *_)] = orders.query("show master status")
    old = int(orders.client.find_offsets(NAME)[0]["offset"]["pos"])
    orders.query("create table filler (content longblob)")
    orders.query(f"insert into filler values (repeat('x', {max(0, old - end) + 1000}))")  # noqa: S608 - a number
    assert orders.run().deleted == 0
    orders.client.resume(NAME)
    pruned = orders.run(wait_seconds=5)
    assert (pruned.deleted, orders.rows) == (0, 6)
