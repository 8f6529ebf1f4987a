"""Deploying a real connector: what is refused, what is made, what is taken back."""

from dataclasses import replace

import psycopg
import pytest

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.deployed_connector import DeployedConnector
from cdc_outbox.connect.wait import Condition, condition_of
from cdc_outbox.debezium.render import owes_rows, render, render_republishing
from cdc_outbox.debezium.slot_plan import EarlierEvents, SlotStep
from cdc_outbox.errors import (
    ConnectorFailedError,
    ConnectorInvalidError,
    ConnectorNotFoundError,
    UnpublishedEventsError,
)
from cdc_outbox.testing import Stack
from tests.support.deployments import break_transform, broken, halt_and_drop_slot, sequences, slot_exists, spec_with
from tests.support.pipeline import SELDOM, Pipeline
from tests.support.rig import eventually, one


def test_the_first_deployment_makes_slot_and_connector_and_the_second_changes_nothing(pipeline: Pipeline) -> None:
    plan = pipeline.deploy()
    assert plan.creates
    assert plan.slot is not None
    assert plan.slot.step is SlotStep.CREATE
    assert any(report.startswith("slot: ") for report in pipeline.reports)
    assert condition_of(pipeline.client.find_status(pipeline.name)) is Condition.UP

    tasks = pipeline.client.find_status(pipeline.name)
    assert pipeline.deploy().is_empty
    assert "plan: nothing to change" in pipeline.reports
    assert pipeline.client.find_status(pipeline.name) == tasks

    pipeline.write(3)
    eventually(lambda: sequences(pipeline) == [1, 2, 3], "three events")


def test_a_dry_run_changes_nothing(pipeline: Pipeline) -> None:
    plan = pipeline.deploy(dry_run=True)
    assert plan.creates
    assert plan.slot is not None
    assert plan.slot.step is SlotStep.CREATE
    assert pipeline.client.find_config(pipeline.name) is None
    assert not slot_exists(pipeline)


def test_a_change_is_shown_applied_and_kept(deployed: Pipeline) -> None:
    spec = spec_with(deployed, SELDOM, "latency: economy\n")
    assert [str(change) for change in deployed.deploy(dry_run=True, spec=spec).changes] == [
        "~ poll.interval.ms = 100 -> 500"
    ]
    plan = deployed.deploy(spec=spec)
    assert not plan.creates
    assert (deployed.client.find_config(deployed.name) or {})["poll.interval.ms"] == "500"


def test_what_is_written_before_the_slot_stops_the_deployment(pipeline: Pipeline) -> None:
    pipeline.write(2)
    with pytest.raises(UnpublishedEventsError, match="the table already contains 2 events"):
        pipeline.deploy()
    assert pipeline.client.find_config(pipeline.name) is None
    assert not slot_exists(pipeline)


def test_heads_tell_that_something_was_written_and_pruned(pipeline: Pipeline) -> None:
    pipeline.write(1)
    with pipeline.connect() as connection:
        connection.execute("truncate outbox")
    with pytest.raises(UnpublishedEventsError, match="sequence numbers were already assigned"):
        pipeline.deploy()


def test_earlier_events_can_be_left_out(pipeline: Pipeline) -> None:
    pipeline.write(2)
    pipeline.deploy(earlier=EarlierEvents.SKIP)
    pipeline.write(2)
    eventually(lambda: sequences(pipeline) == [3, 4], "the later events and no others")


def test_earlier_events_can_be_published_in_order_and_nothing_behind_them_is_lost(pipeline: Pipeline) -> None:
    for _ in range(20):
        for aggregate_id in ("1", "2", "3"):
            pipeline.write(1, aggregate_id)
    with pipeline.connect() as connection:
        # Rows need not lie in the order in which they were written.
        connection.execute("cluster outbox using outbox_pkey")
        connection.execute("update outbox set source = source where sequence = 1")
    pipeline.deploy(earlier=EarlierEvents.REPUBLISH)
    assert (pipeline.client.find_config(pipeline.name) or {})["snapshot.mode"] == "no_data"
    pipeline.write(5)
    eventually(lambda: max(sequences(pipeline), default=0) == 25, "the events behind the snapshot")
    by_aggregate: dict[str, list[int]] = {}
    for message in pipeline.messages():
        event = pipeline.spec.contract.event_of(message)
        seen = by_aggregate.setdefault(event.aggregate_id, [])
        if event.sequence not in seen:
            seen.append(event.sequence or 0)
    assert by_aggregate == {"1": list(range(1, 26)), "2": list(range(1, 21)), "3": list(range(1, 21))}


@pytest.fixture
def without_slot(deployed: Pipeline) -> Pipeline:
    """A pipeline that ran, whose slot is gone while Connect holds its offset."""
    halt_and_drop_slot(deployed)
    deployed.client.delete(deployed.name)
    return deployed


def test_a_lost_slot_with_stored_offsets_stops_the_deployment(without_slot: Pipeline) -> None:
    without_slot.write(1)
    with pytest.raises(UnpublishedEventsError, match="the table already contains 3 events"):
        without_slot.deploy()
    assert without_slot.client.find_config(without_slot.name) is None
    assert not slot_exists(without_slot)


def test_a_slot_that_was_made_again_by_hand_does_not_fit_the_offsets(without_slot: Pipeline) -> None:
    with without_slot.connect() as connection:
        connection.execute(
            "select pg_create_logical_replication_slot(%s, 'pgoutput')", (without_slot.spec.database.slot,)
        )
    with pytest.raises(UnpublishedEventsError, match="ahead of Connect's offset"):
        without_slot.deploy()


@pytest.mark.parametrize("earlier", EarlierEvents)
def test_a_lost_slot_is_mended_together_with_the_offsets(without_slot: Pipeline, earlier: EarlierEvents) -> None:
    without_slot.write(1)
    plan = without_slot.deploy(earlier=earlier)
    assert plan.slot is not None
    assert plan.slot.resets_offsets
    assert any(report.startswith("offsets: ") for report in without_slot.reports)
    without_slot.write(1)
    expected = [1, 2, 3, 4] if earlier is EarlierEvents.REPUBLISH else [1, 2, 4]
    eventually(lambda: sequences(without_slot) == expected, f"the events {expected}")
    assert without_slot.deploy().is_empty


def test_a_task_that_failed_over_its_slot_runs_again(deployed: Pipeline) -> None:
    """The failure of a running connector: the slot is dropped under it, and making it again does not help."""
    client = deployed.client
    halt_and_drop_slot(deployed)
    with deployed.connect() as connection:
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (deployed.spec.database.slot,))
    client.resume(deployed.name)
    eventually(lambda: condition_of(client.find_status(deployed.name)) is Condition.FAILED, "the task to fail")
    deployed.deploy(earlier=EarlierEvents.SKIP)
    deployed.write(1)
    eventually(lambda: sequences(deployed) == [1, 2, 3], "the event behind the new slot")


def test_what_is_committed_between_slot_and_connector_is_published(pipeline: Pipeline) -> None:
    with pipeline.connect() as connection:
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (pipeline.spec.database.slot,))
    pipeline.write(3)
    pipeline.deploy()
    eventually(lambda: sequences(pipeline) == [1, 2, 3], "the events between slot and connector")


def test_rows_older_than_a_slot_that_nobody_read_stop_the_deployment(pipeline: Pipeline) -> None:
    pipeline.write(2)
    with pipeline.connect() as connection:
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (pipeline.spec.database.slot,))
    pipeline.write(3)
    with pytest.raises(UnpublishedEventsError, match="does not hold 2 events"):
        pipeline.deploy()


def test_a_database_that_is_not_ready_is_refused_with_findings(pipeline: Pipeline) -> None:
    with pipeline.connect() as connection:
        connection.execute(f"drop publication {pipeline.spec.database.publication}".encode())
        connection.execute("alter table outbox alter created_at type timestamptz")
    with pytest.raises(ConnectorInvalidError, match="the database is not ready") as caught:
        pipeline.deploy()
    assert [finding.code for finding in caught.value.findings] == ["DB304", "DB401"]


def test_a_wrong_table_is_named(pipeline: Pipeline) -> None:
    with pytest.raises(ConnectorInvalidError) as caught:
        pipeline.deploy(spec=spec_with(pipeline, "aggregates:", "outbox: {table: nowhere}\naggregates:"))
    assert str(caught.value.findings[0]).startswith(
        "database public.nowhere: error DB301: the outbox table does not exist."
    )


def test_a_password_that_the_database_refuses_is_found_before_anything_is_made(pipeline: Pipeline) -> None:
    with pytest.raises(ConnectorInvalidError, match="Connect refuses the configuration") as caught:
        pipeline.deploy(spec=spec_with(pipeline, "CONNECTOR_PASSWORD", "POSTGRES_PORT"))
    assert any("password authentication failed" in finding.message for finding in caught.value.findings)
    assert pipeline.client.find_config(pipeline.name) is None
    assert not slot_exists(pipeline)


def test_a_new_connector_whose_task_fails_is_reported_with_its_trace_and_taken_back(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_transform(monkeypatch)
    with pytest.raises(ConnectorFailedError, match="FAILED") as caught:
        pipeline.deploy()
    assert "ConfigException" in caught.value.trace
    assert pipeline.client.find_config(pipeline.name) is None
    assert f"undo: connector {pipeline.name}, created by this deployment, was deleted" in pipeline.reports


def test_a_change_that_does_not_come_up_gives_way_to_what_ran(
    deployed: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = deployed.client.find_config(deployed.name)
    with monkeypatch.context() as patch:
        break_transform(patch)
        with pytest.raises(ConnectorFailedError):
            deployed.deploy()
    assert "undo: the previous configuration was restored" in deployed.reports
    assert deployed.client.find_config(deployed.name) == before
    eventually(lambda: condition_of(deployed.client.find_status(deployed.name)) is Condition.UP, "the old one to run")
    deployed.write(1)
    eventually(lambda: sequences(deployed) == [1], "an event through the old one")


@pytest.mark.parametrize("fails", [False, True])
def test_what_somebody_else_deploys_meanwhile_is_neither_called_ours_nor_taken_back(
    deployed: Pipeline, monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    other = render(spec_with(deployed, SELDOM, "latency: economy\n"))
    ours = spec_with(deployed, SELDOM, "latency: low\n")

    def wait(*_asked: object, **_options: object) -> None:
        deployed.client.put_config(other)
        if fails:
            raise ConnectorFailedError("it failed")

    with monkeypatch.context() as patch:
        patch.setattr(DeployedConnector, "wait_until_reading", wait)
        with pytest.raises(ConnectorFailedError, match="it failed" if fails else "another process changed"):
            deployed.deploy(spec=ours)
    assert deployed.client.find_config(deployed.name) == other
    assert (
        f"undo: another process changed {deployed.name} in the meantime; it is left unchanged" in deployed.reports
    ) is fails


def test_what_failed_may_be_left_to_look_at(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    break_transform(monkeypatch)
    with pytest.raises(ConnectorFailedError):
        pipeline.deploy(undoes=False)
    assert condition_of(pipeline.client.find_status(pipeline.name)) is Condition.FAILED


@pytest.mark.parametrize("verb", ["stop", "pause"])
def test_a_connector_that_somebody_halted_runs_again(deployed: Pipeline, verb: str) -> None:
    client = deployed.client
    if verb == "stop":
        client.stop(deployed.name)
    else:
        client._ask("PUT", f"/connectors/{deployed.name}/pause")
    state = {"stop": "STOPPED", "pause": "PAUSED"}[verb]
    eventually(lambda: client.find_status(deployed.name).state == state, "the connector to halt")
    assert str(deployed.deploy(dry_run=True)) == "resume the connector, which is paused or stopped"
    assert not deployed.deploy().is_empty
    assert condition_of(client.find_status(deployed.name)) is Condition.UP


def test_an_idle_outbox_in_a_busy_database_holds_back_no_wal(pipeline: Pipeline) -> None:
    spec = replace(pipeline.spec, overrides={"heartbeat.interval.ms": "500"})
    pipeline.deploy(spec=spec, stable_seconds=0)
    with pipeline.connect() as connection:
        connection.execute("create table busy as select generate_series(1, 200000)")
        before = one(connection, "select pg_current_wal_lsn()")
        query = "select coalesce(confirmed_flush_lsn >= %s, false) from pg_replication_slots where slot_name = %s"
        eventually(lambda: one(connection, query, before, pipeline.spec.database.slot), "the slot to move on")
        # And somebody's own logical messages do not become records.
        connection.execute("select pg_logical_emit_message(true, 'somebody', '{}')")
    pipeline.write(1)
    eventually(lambda: sequences(pipeline) == [1], "an event behind the message")
    assert pipeline.stack.broker.ends(f"{pipeline.name}.message") == {}
    assert pipeline.spec.outbox.heartbeat.quoted in render(pipeline.spec)["heartbeat.action.query"]


def test_the_client_names_what_is_not_there(outbox_stack: Stack) -> None:
    client = ConnectClient(outbox_stack.connect_cluster)
    assert client.find_config("nobody") is None
    with pytest.raises(ConnectorNotFoundError):
        client.find_status("nobody")
    with pytest.raises(ConnectorNotFoundError):
        client.find_status("no bo dy?")


@pytest.mark.usefixtures("late_writer")
def test_somebody_who_writes_while_the_slot_is_made_stops_the_deployment(pipeline: Pipeline) -> None:
    """Between the look at the table and the slot there is a moment; what commits in it would be left out."""
    with pytest.raises(UnpublishedEventsError, match="does not hold 1 event in the table"):
        pipeline.deploy()
    assert not slot_exists(pipeline)
    assert pipeline.client.find_config(pipeline.name) is None


def test_the_least_privileged_role_is_enough_and_superuser_is_not_needed(deployed: Pipeline) -> None:
    with psycopg.connect(deployed.dsn) as connection:
        assert not one(connection, "select rolsuper from pg_roles where rolname = 'connector'")


def test_a_connector_that_stood_still_for_a_republish_is_not_started_without_it(
    without_slot: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_outbox.connect.deploy.render_republishing", lambda spec: broken(render_republishing(spec)))
    without_slot.client.create_stopped(render(without_slot.spec))
    without_slot.write(1)
    with pytest.raises(ConnectorFailedError) as caught:
        without_slot.deploy(earlier=EarlierEvents.REPUBLISH)
    assert "ConfigException" in caught.value.trace
    assert owes_rows(without_slot.client.find_config(without_slot.name) or {})
    # A change of the configuration shows as UNASSIGNED until the workers have seen it.
    eventually(lambda: without_slot.client.find_status(without_slot.name).state == "STOPPED", "it to be stopped again")
    assert without_slot.client.find_offsets(without_slot.name) == []
    with pytest.raises(UnpublishedEventsError, match="publishing the rows of the table was interrupted"):
        without_slot.deploy()
