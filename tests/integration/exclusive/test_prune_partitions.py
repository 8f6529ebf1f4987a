"""Partitions that are over and delivered go as a whole."""

from dataclasses import replace

import pytest

from cdc_outbox.contract.outbox_options import Partitions
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.roles import check_role, migrator_role
from cdc_outbox.writer.outbox_schema import outbox_component, pruner_role
from tests.support.pipeline import Pipeline
from tests.support.pruning import ARCHIVE, Pruner, add
from tests.support.rig import Connection

OLD = "01800000-0000-7000-8000-000000000000"
"""An id of April 2022."""
PARTITIONED = """
alter table outbox rename to outbox_default;
alter table outbox_default drop constraint outbox_pkey;
create table outbox (like outbox_default including defaults, primary key (id)) partition by range (id);
create table outbox_old partition of outbox for values from (minvalue) to ('01900000-0000-7000-8000-000000000000');
create table outbox_ahead partition of outbox
    for values from ('03000000-0000-7000-8000-000000000000') to ('03100000-0000-7000-8000-000000000000');
alter table outbox attach partition outbox_default default;
alter publication {publication} set (publish_via_partition_root = true);
alter publication {publication} set table outbox;
"""


@pytest.fixture
def partitioned(pruner: Pruner) -> Pruner:
    """An outbox in parts: one that is over, one of days to come, and one for all the rest."""
    pruner.execute(PARTITIONED.format(publication=pruner.spec.database.publication))
    pruner.pipeline.write(5)
    pruner.execute(f"insert into outbox (id, aggregatetype, aggregateid, type) values ('{OLD}', 'a', 'b', 'c')")  # noqa: S608 - our own id
    assert pruner.query("select count(*) from outbox_old") == 1
    pruner.prove()
    return pruner


def partitions(pruner: Pruner) -> int:
    return int(pruner.query("select count(*) from pg_inherits where inhparent = 'outbox'::regclass"))


def test_a_partition_that_is_over_is_dropped_and_the_rest_goes_row_by_row(
    partitioned: Pruner, pipeline: Pipeline
) -> None:
    dry = partitioned.run(wait_seconds=0, dry=True)
    assert (dry.deleted, partitions(partitioned)) == (6, 3)
    pruned = partitioned.run(wait_seconds=0, archive=ARCHIVE, batch_rows=2)
    assert (pruned.deleted, partitioned.query("select count(*) from archived"), partitioned.rows) == (6, 6, 0)
    assert "partition: public.outbox_old dropped with 1 event" in partitioned.reports
    # The one of days to come is empty too, and is what the writers will need.
    assert partitions(partitioned) == 2
    pipeline.write(1)
    assert (partitioned.run(wait_seconds=0).deleted, partitioned.rows) == (0, 1)


def test_a_partition_stays_while_a_row_of_it_does(partitioned: Pruner, pipeline: Pipeline) -> None:
    worker = pipeline.stack.workers[0]
    worker.pause()  # so that what is written now stays unproven
    try:
        later = OLD.replace("0180", "0181")
        insert = f"insert into outbox (id, aggregatetype, aggregateid, type) values ('{later}', 'a', 'b', 'c')"  # noqa: S608 - our own id
        partitioned.execute(insert)
        pruned = partitioned.run(wait_seconds=0)
        assert (pruned.deleted, pruned.unproven, partitioned.rows, partitions(partitioned)) == (6, 1, 1, 3)
        assert partitioned.run(wait_seconds=0, limit_rows=1).deleted == 0
    finally:
        worker.resume()


def test_a_partition_is_not_waited_for(partitioned: Pruner, writer: Connection, pipeline: Pipeline) -> None:
    add(pipeline, writer, "open")  # which holds the outbox against being changed
    pruned = partitioned.run(wait_seconds=0)
    assert (pruned.deleted, partitioned.rows, partitions(partitioned)) == (6, 0, 3)
    assert any("outbox_old is in use; its rows are deleted one by one" in report for report in partitioned.reports)
    writer.commit()
    assert partitioned.rows == 1


def test_rows_of_a_partition_of_another_owner_go_one_by_one(partitioned: Pruner, pipeline: Pipeline) -> None:
    role = f"parts_{pipeline.name}"
    partitioned.execute(f"create role {role} login password 'secret' in role pg_read_all_stats")
    partitioned.execute(f"grant select, delete on outbox to {role}")
    partitioned.execute(f"grant select, insert, delete on outbox_checkpoints to {role}")
    as_role = pipeline.stack.postgres.dsn(pipeline.name, user=role, password="secret")
    assert partitioned.run(wait_seconds=0, dsn=as_role).deleted == 6
    assert partitions(partitioned) == 3


def test_a_role_that_is_a_member_of_the_migrators_drops_partitions(partitioned: Pruner, pipeline: Pipeline) -> None:
    table = replace(pipeline.spec.outbox, partitions=Partitions.DAY)
    component = outbox_component(table, first_source=pipeline.spec.first_source)
    migrator = migrator_role(f"owner_{pipeline.name}", [component], publication=None)
    role = pruner_role(f"drops_{pipeline.name}", table, migrator=migrator.name)
    for statement in (*migrator.statements(), *role.statements()):
        partitioned.execute(statement)
    partitioned.execute(f"alter role {role.name} password 'secret'")
    # Only so does it see the same reader as the checkpoint that is there.
    partitioned.execute(f"grant pg_read_all_stats to {role.name}")
    with pipeline.connect() as connection:
        catalog = Catalog(connection, Psycopg())
        assert list(check_role(role, catalog.find_role(role))) == []
        as_role = pipeline.stack.postgres.dsn(pipeline.name, user=role.name, password="secret")
        assert partitioned.run(wait_seconds=0, dsn=as_role).deleted == 6
        assert partitions(partitioned) == 2
        partitioned.execute(f"revoke {migrator.name} from {role.name}")
        [finding] = check_role(role, catalog.find_role(role))
        assert (finding.code, str(finding.severity)) == ("DB215", "warning")
