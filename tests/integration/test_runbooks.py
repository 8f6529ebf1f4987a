"""The pages about a lost slot and a lost topic, followed step by step."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from cdc_outbox.connect.wait import Condition, condition_of
from cdc_outbox.databases.heartbeats import Heartbeat, read_record
from cdc_outbox.errors import TopicReplacedError
from cdc_outbox.testing import Stack
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually
from tests.support.runbooks import Runbook, blocks, separate_service
from tests.support.service import Service, effects_of

HEARTBEATS = "overrides: {heartbeat.interval.ms: '500', poll.interval.ms: '100'}\n"
"""A connector writes its first one that long after its start, and a slot advances with them."""


@pytest.fixture
def pipeline(outbox_stack: Stack) -> Iterator[Pipeline]:
    made = Pipeline.make(outbox_stack, extra=HEARTBEATS)
    yield made
    made.close()


@pytest.fixture
def service(deployed: Pipeline) -> Service:
    return separate_service(deployed)


@pytest.fixture
def runbook(deployed: Pipeline, service: Service, tmp_path: Path) -> Runbook:
    spec = tmp_path / "orders.yaml"
    spec.write_text(Pipeline.text(deployed.name, HEARTBEATS))
    return Runbook(deployed, spec, service)


def drop_slot(pipeline: Pipeline) -> None:
    with pipeline.connect() as connection:
        connection.execute("select pg_drop_replication_slot(%s)", (pipeline.spec.database.slot,))


def create_slot_again(pipeline: Pipeline) -> None:
    drop_slot(pipeline)
    with pipeline.connect() as connection:
        slot = pipeline.spec.database.slot
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))


def advance_slot(pipeline: Pipeline) -> None:
    with pipeline.connect() as connection:
        slot = pipeline.spec.database.slot
        connection.execute("select pg_replication_slot_advance(%s, pg_current_wal_lsn())", (slot,))


@pytest.mark.parametrize(
    ("lose", "code"), [(drop_slot, "DB512"), (create_slot_again, "DB513"), (advance_slot, "DB513")]
)
def test_what_a_lost_slot_held_is_published(runbook: Runbook, lose: Callable[[Pipeline], None], code: str) -> None:
    pipeline, service = runbook.pipeline, runbook.service
    (publish, accept), [prove] = blocks("lost-slot.md", "Steps"), blocks("lost-slot.md", "Proof")
    heartbeats = str(pipeline.spec.heartbeat_topic)
    with service.running(), ExitStack() as kept:
        if lose is advance_slot:  # a slot that is made anew would wait for the end of the transaction
            kept.enter_context(pipeline.keep_log())
        pipeline.write(3)
        service.wait_for_effects(*effects_of(3))
        # Without the first heartbeat the topic would begin with a later one, which is a finding of its own.
        eventually(lambda: pipeline.stack.broker.messages(heartbeats), "the first heartbeat")
        pipeline.stop()
        pipeline.write(4)
        if lose is advance_slot:  # as it happens to a connector that ran a moment ago
            with pipeline.connect() as connection:
                connection.execute("select public.outbox_heartbeat(%s, interval '0')", (pipeline.name,))
        lose(pipeline)
        kept.close()
        assert code in runbook.run("cdc-outbox preflight connectors/orders.yaml  # exits 1")
        pipeline.write(2)
        pipeline.client.resume(pipeline.name)
        if lose is advance_slot:  # the connector goes on, and no position tells of it any more
            eventually(lambda: len(pipeline.messages()) == 5, "what follows the slot")
            found = runbook.run("cdc-outbox verify connectors/orders.yaml  # exits 3")
            assert f"missing: order/1 ({pipeline.name}.1): 4 to 7" in found
            eventually(lambda: len(pipeline.stack.broker.messages(heartbeats)) == 2, "a heartbeat behind the hole")
            assert "heartbeat 2 did not arrive" in runbook.run("cdc-outbox recover connectors/orders.yaml  # exits 1")
        else:
            eventually(
                lambda: condition_of(pipeline.client.glance_at(pipeline.name)) is Condition.FAILED, "the failure"
            )
        runbook.run(publish)
        accepted = runbook.run(accept)
        assert ("accepted: heartbeat 2 did not arrive" in accepted) == (lose is advance_slot)
        service.wait_for_effects(*effects_of(9))
        found = runbook.run(prove)
    assert [line in found for line in ("nothing found", "nothing found", "no differences")] == [True] * 3, found
    assert service.parked() == []


@pytest.mark.parametrize("others", [0, 1], ids=["the events", "the heartbeats too"])
def test_what_a_lost_topic_held_is_published(runbook: Runbook, others: int) -> None:
    pipeline, service = runbook.pipeline, runbook.service
    pipeline.write(3)
    service.consume_and_commit(3)
    broker, heartbeats = pipeline.stack.broker, pipeline.spec.heartbeat_topic
    assert heartbeats is not None
    eventually(lambda: broker.messages(heartbeats), "a heartbeat")
    pipeline.write(2)
    eventually(lambda: len(pipeline.messages()) == 5, "what the consumer has not read")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for answer in admin.delete_topics([pipeline.topic, heartbeats][: 1 + others]).values():
        answer.result()
    pipeline.write(2)
    assert "missing: order/1" in runbook.run("cdc-outbox verify connectors/orders.yaml  # exits 3")
    stop, publish, reset, accept = blocks("lost-topic.md", "Steps")
    [prove] = blocks("lost-topic.md", "Proof")
    runbook.run(stop)
    runbook.run(publish)
    with pytest.raises(TopicReplacedError, match=f"{pipeline.topic} is not the topic"):
        service.run_to_its_end()
    assert "deleted: the offsets of" in runbook.run(reset)
    service.consume(7)
    eventually(lambda: broker.messages(heartbeats), "a heartbeat of the connector's start")
    first = read_record(broker.messages(heartbeats)[0])
    assert isinstance(first, Heartbeat)
    # Where the slot still held all heartbeats, they were published again.
    assert ("accepted: the topic begins with heartbeat" in runbook.run(accept)) == (first.previous is not None)
    found = runbook.run(prove)
    assert [line in found for line in ("nothing found", "no differences")] == [True] * 2, found
    assert service.effects() == effects_of(7)
    assert service.parked() == []
