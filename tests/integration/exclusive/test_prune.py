"""What was delivered goes from the outbox, and nothing else; afterwards rows and messages are counted."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.table import OutboxTable, TableName
from cdc_outbox.errors import ConfigError, DatabaseAccessError, TableNotFoundError, UnprovenDeliveryError
from cdc_outbox.operations.prune import PruneOptions
from cdc_outbox.operations.prune_by_slot import slot_pruning
from tests.support.commands import run_command
from tests.support.patience import patience
from tests.support.pipeline import Pipeline
from tests.support.pruning import ARCHIVE, WEEK, Pruner
from tests.support.rig import Connection, eventually
from tests.support.threads import Threads


def test_what_was_delivered_goes_and_the_pipeline_goes_on(pruner: Pruner, pipeline: Pipeline) -> None:
    other = f"{pipeline.name}_other"
    pruner.query("select pg_create_logical_replication_slot(%s, 'pgoutput')::text", other)
    pipeline.write(20)
    pruned = pruner.run()
    assert (pruned.deleted, pruned.unproven, pruned.young, pruner.rows) == (20, 0, 0, 0)
    assert any(report.startswith(f"also: the slot {other} is at ") for report in pruner.reports)
    pruner.wait_for_messages(20)
    # The numbers go on, and a deployment takes the empty table for what it is.
    assert pipeline.write(1)[0].sequence == 21
    assert pipeline.deploy(spec=pruner.spec).is_empty
    assert pipeline.deploy(spec=pruner.spec, dry_run=True).is_empty
    pruner.wait_for_messages(21)
    assert pruner.run().deleted == 1
    assert pruner.run().deleted == 0
    # Only the last mark is of use.
    assert pruner.query("select count(*) from outbox_checkpoints") == 1


def test_a_mark_of_an_earlier_run_counts_once_it_was_passed(pruner: Pruner, pipeline: Pipeline) -> None:
    pipeline.write(5)
    marked = pruner.run(wait_seconds=0)
    assert (marked.deleted, pruner.rows) == (0, 5)
    position = Lsn.parse(pruner.query("select max(position)::text from outbox_checkpoints"))
    eventually(lambda: pruner.confirmed() >= position, "the slot to pass the mark")
    assert pruner.run(wait_seconds=0).deleted == 5


def test_nothing_goes_while_the_connector_is_stopped(pruner: Pruner, pipeline: Pipeline) -> None:
    pipeline.write(5)
    pruner.wait_for_messages(5)
    pruner.halt()
    pipeline.write(6)
    pruned = pruner.run()
    assert (pruned.deleted, pruner.rows) == (0, 11)
    assert "no process reads" in pruned.verdict.held_back
    pipeline.deploy(spec=pruner.spec, stable_seconds=0)
    # With a stored offset Debezium reads the slot to find its place, lets go, and reads it again: only then it sends.
    pruner.wait_for_messages(11)
    assert pruner.run().deleted == 11


def test_a_slot_that_is_gone_is_refused(pruner: Pruner, pipeline: Pipeline) -> None:
    pipeline.write(5)
    pruner.wait_for_messages(5)
    pruner.halt()
    pruner.query("select pg_drop_replication_slot(%s)::text", pruner.spec.database.slot)
    for dry in (False, True):
        with pytest.raises(UnprovenDeliveryError, match="does not exist; nothing was deleted"):
            pruner.run(dry=dry)
    assert pruner.rows == 5


def test_a_slot_that_was_made_again_proves_nothing_of_what_came_before(pruner: Pruner, pipeline: Pipeline) -> None:
    pruner.run()
    pruner.halt()
    pipeline.write(5)
    slot = pruner.spec.database.slot
    marked = pruner.query("select pg_current_wal_lsn()::text")
    pruner.run(wait_seconds=0)
    pruner.query("select pg_drop_replication_slot(%s)::text", slot)
    pruner.query("select pg_create_logical_replication_slot(%s, 'pgoutput')::text", slot)
    assert pruner.confirmed() > Lsn.parse(marked)
    assert (pruner.run().deleted, pruner.rows) == (0, 5)


def test_a_slot_of_another_kind_is_refused(pruner: Pruner, pipeline: Pipeline) -> None:
    pipeline.write(1)
    pruner.query("select pg_create_physical_replication_slot(%s)::text", f"{pipeline.name}_physical")
    try:
        for slot, words in ((f"{pipeline.name}_physical", "is a physical slot"), ("nowhere", "does not exist")):
            spec = replace(pruner.spec, database=replace(pruner.spec.database, slot=slot))
            with pytest.raises(UnprovenDeliveryError, match=words):
                pruner.run(spec=spec)
    finally:
        pruner.query("select pg_drop_replication_slot(%s)::text", f"{pipeline.name}_physical")
    other = pipeline.stack.postgres.create_database(f"{pipeline.name}_other")
    with pytest.raises(UnprovenDeliveryError, match="belongs to the database"), psycopg.connect(other) as connection:
        slot_pruning(pruner.spec, connection, Psycopg(), PruneOptions(), lambda _step, _text: None).run()
    assert pruner.rows == 1


def test_a_dry_run_counts_and_writes_nothing(pruner: Pruner, pipeline: Pipeline) -> None:
    pipeline.write(5)
    pruner.execute("update outbox set created_at = created_at - interval '8 days' where sequence <= 3")
    pruner.prove()
    pruner.execute("alter database %s set default_transaction_read_only = on" % pipeline.name)  # noqa: UP031
    for options, expected in (
        ({}, (5, 0, False)),
        ({"keep_seconds": WEEK, "archive": ARCHIVE}, (3, 2, False)),
        ({"limit_rows": 4}, (4, 0, True)),
    ):
        pruned = pruner.run(wait_seconds=0, dry=True, **options)
        assert (pruned.deleted, pruned.young, pruned.stopped_early) == expected
    assert pruner.rows == 5
    assert pruner.query("select count(*) from outbox_checkpoints") == 1


def test_an_archive_gets_what_the_outbox_loses(pruner: Pruner, pipeline: Pipeline) -> None:
    pipeline.write(5)
    pruner.prove()
    before = pruner.query("select json_agg(outbox order by id)::text from outbox")
    assert pruner.run(wait_seconds=0, archive=ARCHIVE, batch_rows=2).deleted == 5
    assert f"archive: {ARCHIVE} created" in pruner.reports
    kept = "select json_agg(archived order by id)::text from archived"
    assert pruner.query(kept) == before
    # Each batch was a transaction of its own.
    transactions = "select count(distinct xmin::text) from archived"
    assert pruner.query(transactions) == 3
    pipeline.write(2)
    pruner.prove()
    assert pruner.run(wait_seconds=0, archive=ARCHIVE).deleted == 2
    # What cannot be kept is not deleted.
    pipeline.write(2)
    pruner.execute("alter table archived drop column payload")
    with pytest.raises(TableNotFoundError, match="payload"):
        pruner.run(wait_seconds=0, archive=ARCHIVE)
    assert pruner.rows == 2


def test_a_run_ends_at_its_limit_and_the_next_goes_on(pruner: Pruner, pipeline: Pipeline) -> None:
    pipeline.write(20)
    pruner.prove()
    first = pruner.run(wait_seconds=0, limit_rows=9, batch_rows=4)
    assert (first.deleted, first.stopped_early, pruner.rows) == (9, True, 11)
    none = pruner.run(wait_seconds=0, max_seconds=0)
    assert (none.deleted, none.stopped_early) == (0, True)
    rest = pruner.run(wait_seconds=0, limit_rows=11, batch_rows=1)
    assert (rest.deleted, rest.stopped_early, pruner.rows) == (11, False, 0)


def test_two_runs_at_once_delete_each_row_once(pruner: Pruner, pipeline: Pipeline) -> None:
    pipeline.write(200)
    pruner.prove()
    pruner.run(wait_seconds=0, archive=ARCHIVE, limit_rows=1)
    with Threads(3) as pool:
        runs = [pool.submit(pruner.run, wait_seconds=0, archive=ARCHIVE, batch_rows=number) for number in (3, 5, 7)]
        assert sum(run.result().deleted for run in runs) == 199
    assert pruner.rows == 0
    ids = "select count(distinct id) = 200 and count(*) = 200 from archived"
    assert pruner.query(ids)


def test_runs_take_turns_by_the_batch(pruner: Pruner, pipeline: Pipeline, writer: Connection) -> None:
    pipeline.write(5)
    pruner.prove()
    waiting = """select count(*) = 1 from pg_locks join pg_database on pg_database.oid = database
        where locktype = 'advisory' and not granted and datname = current_database()"""
    with Threads(1) as pool:
        writer.execute('select pg_advisory_xact_lock(hashtextextended(\'cdc-outbox prune "public"."outbox"\', 0))')
        run = pool.submit(pruner.run, wait_seconds=0)
        eventually(lambda: pruner.query(waiting), "the run to wait for its turn")
        assert pruner.rows == 5
        writer.commit()
        assert run.result(patience()).deleted == 5


def test_a_run_that_is_killed_leaves_whole_batches(pruner: Pruner, pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.write(300)
    pruner.prove()
    pruner.run(wait_seconds=0, archive=ARCHIVE, limit_rows=1)
    spec = tmp_path / "spec.yaml"
    spec.write_text(Pipeline.text(pipeline.name))
    options = ["--keep=0s", "--without-topics", "--batch=1", "--archive=archived", "--wait=0s", "--dsn", pipeline.dsn]
    archived = "select count(*) from archived"
    both = "select count(*) from outbox join archived using (id)"
    command = [f"{sys.prefix}/bin/cdc-outbox", "prune", str(spec), *options]
    named = {"PGAPPNAME": "killed"}
    with subprocess.Popen(command, env=named, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        # It takes half a second.
        eventually(lambda: pruner.query(archived) > 1, "the run to be under way", longest_pause_seconds=0.01)
        process.kill()
    gone = "select count(*) = 0 from pg_stat_activity where application_name = 'killed'"
    eventually(lambda: pruner.query(gone), "its connection to end")
    assert 0 < pruner.rows < 300
    assert pruner.query(both) == 0
    assert pruner.rows + pruner.query(archived) == 300
    rows = pruner.rows
    done = run_command("prune", str(spec), *options)
    assert (done.returncode, done.stdout.startswith(f"{rows} event")) == (0, True), done.stderr
    assert (pruner.rows, pruner.query(archived)) == (0, 300)


def test_a_role_needs_no_more_than_it_uses(pruner: Pruner, pipeline: Pipeline) -> None:
    pipeline.write(5)
    role = f"pruner_{pipeline.name}"
    pruner.execute(f"create role {role} login password 'secret'")
    as_role = pipeline.stack.postgres.dsn(pipeline.name, user=role, password="secret")
    with pytest.raises(DatabaseAccessError):
        pruner.run(dsn=as_role)
    pruner.execute(f"grant select, delete on outbox to {role}")
    pruner.execute(f"grant select, insert, delete on outbox_checkpoints to {role}")
    with pytest.raises(DatabaseAccessError, match="schema public"):
        pruner.run(dsn=as_role, archive=ARCHIVE)
    pruner.execute("create table archived (like outbox)")
    pruner.execute(f"grant insert on archived to {role}")
    assert pruner.run(dsn=as_role, archive=ARCHIVE).deleted == 5


def test_a_table_may_have_any_name(pruner: Pruner, pipeline: Pipeline) -> None:
    table = OutboxTable(schema='a"b', name="50% {id} :id")
    names = table.names()
    pruner.execute(
        f"""create schema "a""b"; create table {names["outbox"]} (like outbox including all);
        create table {names["checkpoints"]} (like outbox_checkpoints including all);
        alter publication {pipeline.spec.database.publication} add table {names["outbox"]}"""
    )
    pipeline.write(3)
    pruner.execute(f"insert into {names['outbox']} select * from outbox")  # noqa: S608 - our own names
    pruner.prove()
    columns = "slot, reader, position, oldest, taken_at"
    pruner.execute(f"insert into {names['checkpoints']} ({columns}) select {columns} from outbox_checkpoints")  # noqa: S608 - as above
    archive = TableName(schema='a"b', name="kept 50% {id}")
    pruned = pruner.run(spec=replace(pruner.spec, outbox=table), archive=archive, wait_seconds=0)
    assert (pruned.deleted, pruner.rows) == (3, 3)


def test_an_outbox_is_not_its_own_archive(pruner: Pruner) -> None:
    with pytest.raises(ConfigError, match="its own archive"):
        pruner.run(archive=pruner.spec.outbox.table)
