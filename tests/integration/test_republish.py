"""Publishing the rows of the table again, all of them or none that anybody takes for all."""

import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from cdc_outbox import Event, Outbox
from cdc_outbox.connect.deployed_connector import DeployedConnector
from cdc_outbox.connect.rollback import Rollback
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.debezium.render import owes_rows
from cdc_outbox.debezium.slot_plan import EarlierEvents, stored_offset
from cdc_outbox.errors import ConnectorInvalidError, UnpublishedEventsError
from cdc_outbox.operations.prune import PruneOptions
from cdc_outbox.operations.prune_by_slot import slot_pruning
from cdc_outbox.testing import Stack
from tests.support.deployments import codes, sequences
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually

SLOW = "overrides: {max.batch.size: 10, max.queue.size: 20}\n"
MANY = 60_000


@pytest.fixture
def full(outbox_stack: Stack) -> Iterator[Pipeline]:
    """A pipeline with so many rows before its slot that publishing them takes a while."""
    pipeline = Pipeline.make(outbox_stack, extra=SLOW)
    with pipeline.connect() as connection:
        connection.execute(
            "insert into outbox (id, aggregatetype, aggregateid, type, payload, sequence)"
            " select gen_random_uuid(), 'order', '1', 'OrderPlaced', '{}', n from generate_series(1, %s) as n",
            (MANY,),
        )
    yield pipeline
    pipeline.close()


def interrupt_republishing(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deploy, and be interrupted as soon as the first rows were published."""

    def is_published(_reader: DeployedConnector, _topic_prefix: str) -> bool:
        if pipeline.stack.broker.ends(pipeline.topic):
            assert_nothing_is_pruned(pipeline)
            raise KeyboardInterrupt
        return False

    with monkeypatch.context() as patch:
        patch.setattr(DeployedConnector, "_is_published", is_published)
        with pytest.raises(KeyboardInterrupt):
            pipeline.deploy(earlier=EarlierEvents.REPUBLISH)


def assert_nothing_is_pruned(pipeline: Pipeline) -> None:
    """The slot is younger than the rows, and who publishes them does not read it."""
    with pipeline.connect() as connection:
        options = PruneOptions(wait_seconds=1)
        pruned = slot_pruning(pipeline.spec, connection, Psycopg(), options, lambda _step, _text: None).run()
    assert pruned.deleted == 0
    assert "no process reads" in pruned.verdict.held_back


def assert_refused_until_republished(pipeline: Pipeline) -> None:
    with pytest.raises(UnpublishedEventsError):
        pipeline.deploy(dry_run=pipeline.client.find_config(pipeline.name) is not None)
    with pytest.raises(UnpublishedEventsError):
        pipeline.deploy()
    pipeline.deploy(earlier=EarlierEvents.REPUBLISH)
    assert pipeline.deploy().is_empty
    published = {dict(message.headers)["id"] for message in pipeline.messages()}
    with pipeline.connect() as connection:
        written = {str(event_id).encode() for (event_id,) in connection.execute("select id from outbox")}
    assert len(written) == MANY
    assert written <= published


def test_a_republish_that_was_interrupted_leaves_nothing_that_looks_finished(
    full: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_republishing(full, monkeypatch)
    assert "undo: offsets reset, because some rows were not published" in full.reports
    eventually(lambda: full.client.find_status(full.name).state == "STOPPED", "it to be stopped")
    assert owes_rows(full.client.find_config(full.name) or {})
    assert_refused_until_republished(full)


@pytest.mark.parametrize("deleted", [False, True])
def test_a_republish_that_was_killed_is_not_taken_for_a_finished_one(
    full: Pipeline, monkeypatch: pytest.MonkeyPatch, *, deleted: bool
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Rollback, "take_back", lambda *_, **__: None)  # nobody undoes anything after a kill -9
        interrupt_republishing(full, monkeypatch)
    if deleted:
        # All that is left is the offset that Connect stored when the connector was stopped.
        full.client.stop(full.name)
        eventually(lambda: full.client.find_offsets(full.name), "Connect to store an offset")
        stored = stored_offset(full.client.find_offsets(full.name), topic_prefix=full.name)
        assert stored
        assert stored.in_snapshot
        full.client.delete(full.name)
    assert_refused_until_republished(full)


def test_who_may_not_read_the_table_cannot_publish_it_again(pipeline: Pipeline) -> None:
    pipeline.write(1)
    with pipeline.connect() as connection:
        connection.execute("revoke select on outbox from connector")
    for dry_run in (True, False):
        with pytest.raises(ConnectorInvalidError) as caught:
            pipeline.deploy(dry_run=dry_run, earlier=EarlierEvents.REPUBLISH)
        assert codes(caught.value) == ["DB203"]
    assert pipeline.client.find_config(pipeline.name) is None


def test_rows_of_long_ago_arrive_today_and_keep_the_time_of_their_creation(pipeline: Pipeline) -> None:
    written, began_ms = pipeline.write(3), int(time.time() * 1000)
    with pipeline.connect() as connection:
        connection.execute("update outbox set created_at = created_at - interval '10 days'")
    pipeline.deploy(earlier=EarlierEvents.REPUBLISH, stable_seconds=0)
    eventually(lambda: len(pipeline.messages()) == 3, "the rows")
    # Brokers delete by the records' own time: one of ten days ago would be gone at the next look.
    assert all((message.timestamp_ms or 0) >= began_ms for message in pipeline.messages())
    read = [pipeline.spec.contract.event_of(message) for message in pipeline.messages()]
    expected = [event.created_at - timedelta(days=10) for event in written]
    assert [event.created_at for event in read] == expected


def test_rows_that_consumers_have_forgotten_are_not_published_again(outbox_stack: Stack) -> None:
    pipeline = Pipeline.make(outbox_stack, extra="  horizon: 30d\n")
    pipeline.write(1)
    metric = Event(aggregate_type="metric", aggregate_id="1", type="Seen", payload={})
    with pipeline.connect() as connection:
        with connection.transaction():
            Outbox(spec=pipeline.spec).add(connection, metric)
        # The number of the first tells that it was applied.
        connection.execute("update outbox set created_at = created_at - interval '31 days'")
    with pytest.raises(ConnectorInvalidError) as caught:
        pipeline.deploy(earlier=EarlierEvents.REPUBLISH)
    assert codes(caught.value) == ["DB519"]
    assert "1 rows of types without sequence numbers are older than 30 days" in str(caught.value.findings[0])
    with pipeline.connect() as connection:
        connection.execute("update outbox set created_at = created_at + interval '2 days' where sequence is null")
    pipeline.deploy(earlier=EarlierEvents.REPUBLISH, stable_seconds=0)
    pipeline.close()


@pytest.mark.usefixtures("late_writer")
def test_what_is_written_while_the_slot_is_made_is_republished_where_that_is_wanted(pipeline: Pipeline) -> None:
    plan = pipeline.deploy(earlier=EarlierEvents.REPUBLISH)
    assert plan.slot
    assert plan.slot.republishes
    eventually(lambda: sequences(pipeline) == [1], "the event before the slot")
