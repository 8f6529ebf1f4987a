"""What a deployment must not touch, must not take for healthy, or must refuse."""

from collections.abc import Sequence
from dataclasses import replace

import psycopg
import pytest

from cdc_outbox.cli.output import exit_code_of
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.debezium.slot_plan import EarlierEvents
from cdc_outbox.errors import (
    ConnectError,
    ConnectorFailedError,
    ConnectorInvalidError,
    DatabaseError,
    UnpublishedEventsError,
)
from tests.support.deployments import break_transform, codes, sequences, slot_exists
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually, one
from tests.support.timings import QUICK_TIMINGS


def test_a_slot_that_another_connector_reads_is_refused(deployed: Pipeline) -> None:
    timings = replace(QUICK_TIMINGS, linger_seconds=0.5)  # so long a connector that was stopped may still read it
    database = deployed.spec.database
    # By another address it is another server to who compares configurations.
    copied = replace(deployed.spec, name=f"{deployed.name}-copy", database=replace(database, host="127.0.0.1"))
    assert (copied.database.slot, copied.database.publication) == (database.slot, database.publication)
    eventually(lambda: slot_is_active(deployed), "the slot to be read")
    for dry_run in (True, False):
        with pytest.raises(ConnectorInvalidError) as caught:
            deployed.deploy(dry_run=dry_run, spec=copied, timings=timings)
        assert codes(caught.value) == ["DB503"]
        assert exit_code_of(caught.value) == 1
        assert "another connector or tool reads the slot" in str(caught.value.findings[0])
        assert "Choose another slot name" in str(caught.value.findings[0])
    assert deployed.client.find_config(copied.name) is None
    assert deployed.deploy().is_empty
    deployed.write(1)
    eventually(lambda: sequences(deployed) == [1], "an event through the one that reads it")


def test_a_renamed_pipeline_is_not_deployed_beside_its_former_self(deployed: Pipeline) -> None:
    former, slot = deployed.name, deployed.spec.database.slot
    database = replace(deployed.spec.database, slot=f"{former}_new")
    renamed = replace(deployed.spec, name=f"{former}-new", topic_prefix=f"{former}-new", database=database)
    for dry_run in (True, False):
        with pytest.raises(ConnectorInvalidError) as caught:
            deployed.deploy(dry_run=dry_run, spec=renamed, earlier=EarlierEvents.SKIP)
        assert codes(caught.value) == ["OP207"]
        assert f"{former} also publishes public.outbox from the slot {slot}" in str(caught.value.findings[0])
    assert deployed.client.find_config(renamed.name) is None
    with deployed.connect() as connection:
        assert one(connection, "select count(*) from pg_replication_slots where slot_name = %s", database.slot) == 0


def test_two_connectors_of_one_slot_are_not_said_to_publish_twice(deployed: Pipeline) -> None:
    former, slot = deployed.name, deployed.spec.database.slot
    renamed = replace(deployed.spec, name=f"{former}-new", topic_prefix=f"{former}-new")
    with pytest.raises(ConnectorInvalidError) as caught:
        deployed.deploy(spec=renamed)
    [finding] = caught.value.findings
    assert finding.code == "OP207"
    assert finding.message.endswith(f"from the same slot {slot}, and only one connector can read a slot.")
    assert finding.remedy.endswith(f"Otherwise run `cdc-outbox delete {former}`, which keeps the slot.")


def slot_is_active(pipeline: Pipeline) -> bool:
    with pipeline.connect() as connection:
        query = "select active from pg_replication_slots where slot_name = %s"
        return bool(one(connection, query, pipeline.spec.database.slot))


def test_a_deployment_ends_when_the_slot_is_read(deployed: Pipeline) -> None:
    assert slot_is_active(deployed)


def test_a_connector_that_failed_is_not_healthy_when_deployed_again(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_transform(monkeypatch)
    with pytest.raises(ConnectorFailedError):
        pipeline.deploy(undoes=False)
    plan = pipeline.deploy(dry_run=True)
    assert (str(plan), plan.is_empty) == ("restart what failed", False)
    with pytest.raises(ConnectorFailedError) as caught:
        pipeline.deploy(undoes=False)
    assert "ConfigException" in caught.value.trace


def test_who_loses_the_race_of_two_deployments_leaves_the_winner_alone(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_stopped = ConnectClient.create_stopped

    def create_twice(client: ConnectClient, config: dict[str, str]) -> None:
        create_stopped(client, config)
        create_stopped(client, config)

    monkeypatch.setattr(ConnectClient, "create_stopped", create_twice)
    with pytest.raises(ConnectError, match="another process created the connector"):
        pipeline.deploy()
    assert pipeline.client.find_config(pipeline.name) is not None


def test_a_publication_that_leaves_something_out_is_refused(pipeline: Pipeline) -> None:
    publication = psycopg.sql.Identifier(pipeline.spec.database.publication)
    for table, code in {
        "outbox where (aggregatetype = 'metric')": "DB404",
        "outbox (id, aggregatetype, aggregateid, payload)": "DB405",
    }.items():
        with pipeline.connect() as connection:
            statement = psycopg.sql.SQL("alter publication {} set table " + table)
            connection.execute(statement.format(publication))
        with pytest.raises(ConnectorInvalidError) as caught:
            pipeline.deploy()
        assert codes(caught.value) == [code]


def test_a_publication_may_leave_out_what_is_not_ours(pipeline: Pipeline) -> None:
    """And rows that a slot holds are still recognised, though their columns come in other places."""
    with pipeline.connect() as connection:
        connection.execute("drop table outbox_heads, outbox")
        connection.execute("create table outbox (note text)")
        for column, kind in {
            "id": "uuid primary key",
            "aggregatetype": "text not null",
            "aggregateid": "text not null",
            "type": "text not null",
            "payload": "json",
            "sequence": "bigint",
            "source": "text default 'x.1'",
            "traceparent": "text",
            "tracestate": "text",
            "created_at": "timestamp not null default now()",
        }.items():
            connection.execute(f"alter table outbox add {column} {kind}".encode())
        columns = "id, aggregatetype, aggregateid, type, payload, sequence, source, traceparent, tracestate, created_at"
        connection.execute(
            f"alter publication {pipeline.spec.database.publication} set table outbox ({columns})".encode()
        )
        connection.execute("grant select on outbox to connector")
        slot = (pipeline.spec.database.slot,)
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", slot)
        connection.execute(
            "insert into outbox (note, id, aggregatetype, aggregateid, type, payload, sequence)"
            " values ('x', gen_random_uuid(), 'order', '1', 'OrderPlaced', '{}', 1)"
        )
    pipeline.deploy()
    eventually(lambda: sequences(pipeline) == [1], "the event")


def test_a_partitioned_outbox_is_published_as_one_table(pipeline: Pipeline) -> None:
    with pipeline.connect() as connection:
        connection.execute("alter table outbox rename to old")
        connection.execute(
            "create table outbox (like old including defaults, primary key (aggregatetype, id))"
            " partition by list (aggregatetype)"
        )
        connection.execute("create table outbox_rest partition of outbox default")
        publication = pipeline.spec.database.publication
        connection.execute(f"alter publication {publication} set table outbox".encode())
        connection.execute("grant select on outbox to connector")
    with pytest.raises(ConnectorInvalidError) as caught:
        pipeline.deploy()
    assert codes(caught.value) == ["DB402"]
    assert "publish_via_partition_root" in caught.value.findings[0].remedy
    with pipeline.connect() as connection:
        connection.execute(f"alter publication {publication} set (publish_via_partition_root = true)".encode())
    pipeline.deploy()
    pipeline.write(2)
    eventually(lambda: sequences(pipeline) == [1, 2], "two events")


def test_rows_outside_the_slot_are_found_wherever_they_lie(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline.write(1)
    with pipeline.connect() as connection:
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (pipeline.spec.database.slot,))
    pipeline.write(5)
    with pipeline.connect() as connection:
        connection.execute("update outbox set source = source where sequence = 1")  # now it lies behind the others
    monkeypatch.setattr("cdc_outbox.databases.facts.COUNTED_ROWS", 3)
    with pytest.raises(UnpublishedEventsError, match="does not hold 1 event"):
        pipeline.deploy()


def test_what_a_slot_holds_from_before_the_publication_is_not_published(pipeline: Pipeline) -> None:
    publication = pipeline.spec.database.publication
    with pipeline.connect() as connection:
        connection.execute(f"drop publication {publication}".encode())
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (pipeline.spec.database.slot,))
    pipeline.write(1)
    with pipeline.connect() as connection:
        connection.execute(f"create publication {publication} for table outbox with (publish = 'insert')".encode())
    with pytest.raises(UnpublishedEventsError, match="does not hold 1 event"):
        pipeline.deploy()


def test_a_slot_that_cannot_be_decoded_for_its_age_is_named(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before PostgreSQL 18, which only warns, a slot older than the publication could not be decoded at all."""

    def cannot(_database: PostgresqlDatabase, _columns: Sequence[str]) -> int:
        raise DatabaseError("publication does not exist", sqlstate="42704")

    monkeypatch.setattr(PostgresqlDatabase, "count_events_outside_slot", cannot)
    with pipeline.connect() as connection:
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (pipeline.spec.database.slot,))
    pipeline.write(1)
    with pytest.raises(ConnectorInvalidError) as caught:
        pipeline.deploy()
    assert codes(caught.value) == ["DB504"]
    assert pipeline.client.find_config(pipeline.name) is None


def test_an_error_that_no_driver_translates_is_a_database_error(deployed: Pipeline) -> None:
    with deployed.connect() as connection:
        database = PostgresqlDatabase(connection, Psycopg(), deployed.spec)
        with pytest.raises(DatabaseError, match="is active for PID") as caught:
            database.drop_slot()
        assert (caught.value.sqlstate, "stop it" in caught.value.hint) == ("55006", True)
        with pytest.raises(DatabaseError, match="already exists"):
            database.create_slot(timeout_seconds=30)
        assert one(connection, "show statement_timeout") == "0"


def test_a_transaction_that_does_not_end_keeps_the_slot_from_being_made_only_for_a_while(pipeline: Pipeline) -> None:
    with psycopg.connect(pipeline.dsn) as other:
        other.execute("select pg_current_xact_id()")
        with pytest.raises(DatabaseError) as caught:
            pipeline.deploy(timings=replace(QUICK_TIMINGS, timeout_seconds=1.0))
    assert caught.value.sqlstate == "57014"
    assert "pg_stat_activity" in caught.value.hint
    assert any("once the transactions that are open now have ended" in report for report in pipeline.reports)
    assert pipeline.client.find_config(pipeline.name) is None
    assert not slot_exists(pipeline)


def test_a_connector_that_somebody_stopped_is_stopped_again_when_its_change_does_not_come_up(
    deployed: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed.client.stop(deployed.name)
    eventually(lambda: deployed.client.find_status(deployed.name).state == "STOPPED", "the connector to stop")
    break_transform(monkeypatch)
    with pytest.raises(ConnectorFailedError):
        deployed.deploy()
    eventually(lambda: deployed.client.find_status(deployed.name).state == "STOPPED", "the connector to stop again")


def test_a_refusal_leaves_no_connector_even_where_nothing_shall_be_undone(pipeline: Pipeline) -> None:
    pipeline.write(1)
    with pytest.raises(UnpublishedEventsError):
        pipeline.deploy(undoes=False)
    assert pipeline.client.find_config(pipeline.name) is None


def test_a_dry_run_refuses_what_is_certain_to_be_refused(pipeline: Pipeline) -> None:
    pipeline.write(1)
    with pytest.raises(UnpublishedEventsError, match="the table already contains 1 event"):
        pipeline.deploy(dry_run=True)
    assert pipeline.client.find_config(pipeline.name) is None


def test_what_is_written_right_after_the_slot_stops_nobody(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    create_slot = PostgresqlDatabase.create_slot

    def write_after(database: PostgresqlDatabase, *, timeout_seconds: float) -> object:
        lsn = create_slot(database, timeout_seconds=timeout_seconds)
        pipeline.write(1)
        return lsn

    monkeypatch.setattr(PostgresqlDatabase, "create_slot", write_after)
    pipeline.deploy()
    eventually(lambda: sequences(pipeline) == [1], "the event behind the slot")
