"""What happens while the broker does not answer."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from benchmarks import relay_transaction
from benchmarks.relay import MAX_MEGABYTES
from cdc_outbox import Event, Outbox
from cdc_outbox.consumer.offsets import _FINISH_SECONDS, _LEAVE_SECONDS
from cdc_outbox.kafka.tail import PartitionTail
from cdc_outbox.monitoring.health import health_of
from cdc_outbox.relay.kafka_sink import KafkaSink
from cdc_outbox.relay.relay_errors import DeliveryError
from cdc_outbox.relay.units import Unit
from cdc_outbox.testing import Stack
from cdc_outbox.testing.broker import Broker
from tests.support.events import make_event
from tests.support.patience import patience
from tests.support.pipeline import Pipeline
from tests.support.relay_parts import Reported
from tests.support.rig import Connection, eventually, one
from tests.support.service import QUICK, Service, effects_of

PLACED = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={})


def ids(connection: Connection) -> set[str]:
    return {event_id for (event_id,) in connection.execute("select id::text from outbox")}


def arrived(pipeline: Pipeline) -> set[str | None]:
    return {pipeline.spec.contract.event_of(message).id for message in pipeline.messages()}


def test_a1_c1_what_is_committed_while_the_broker_is_down_is_published_afterwards(deployed: Pipeline) -> None:
    """A1: stored in the business data's own transaction, published by another process, never lost while the broker is
    down. C1: at least once, by the same transaction.

    The other process is Debezium, which reads the log instead of the table.
    """
    broker = deployed.stack.broker
    with deployed.connect() as connection:
        connection.execute("create table orders (id int primary key)")
        deployed.write(1)
        eventually(lambda: len(deployed.messages()) == 1, "the pipeline to run")
        broker.pause()
        try:
            assert broker.state() == "paused"
            for number in range(20):
                with connection.transaction(force_rollback=number % 5 == 4):
                    connection.execute("insert into orders values (%s)", (number,))
                    Outbox(spec=deployed.spec).add(connection, PLACED)
        finally:
            broker.resume()
        committed = ids(connection)
        assert (one(connection, "select count(*) from orders"), len(committed)) == (16, 17)
        eventually(lambda: arrived(deployed) >= committed, "every committed event", seconds=60)
        assert arrived(deployed) == committed


def test_a_consumer_is_degraded_while_no_broker_answers_and_well_again_afterwards(fed_service: Service) -> None:
    broker = fed_service.pipeline.stack.broker
    fed_service.send(make_event(1))
    # What librdkafka waits for on a connection that does not answer is a minute by default.
    settings = QUICK | {"statistics.interval.ms": 200, "socket.timeout.ms": 1000}
    consumer = fed_service.consumer(kafka_settings=settings)
    with fed_service.running(consumer):
        fed_service.wait_for_effects(("1", 1))
        assert health_of(consumer.progress(), now=time.monotonic()).reasons == ()
        broker.pause()
        try:
            eventually(lambda: consumer.progress().outage, "the consumer to miss its broker")
            health = health_of(consumer.progress(), now=time.monotonic())
            assert (health.status, health.reasons) == ("degraded", ("waiting for the brokers",))
        finally:
            broker.resume()
        eventually(lambda: not consumer.progress().outage, "the consumer to find its broker again", seconds=60)
        fed_service.send(make_event(2))
        fed_service.wait_for_effects(*effects_of(2))


@pytest.mark.parametrize(
    ("lose", "bring_back"), [(Broker.kill, Broker.start), (Broker.pause, Broker.resume)], ids=["killed", "paused"]
)
def test_a_consumer_whose_brokers_are_gone_stops_before_it_is_killed(
    fed_service: Service, lose: Callable[[Broker], None], bring_back: Callable[[Broker], None]
) -> None:
    """Kubernetes waits 30 seconds; librdkafka would wait for its commits as long as a session lasts."""
    assert _FINISH_SECONDS + _LEAVE_SECONDS < 15
    settings = {"session.timeout.ms": 1_800_000, "max.poll.interval.ms": 1_800_000}
    broker = fed_service.pipeline.stack.broker
    fed_service.send(make_event(1))
    try:
        with fed_service.running(fed_service.consumer(kafka_settings=settings)) as consumer:
            # The broker goes as soon as the effect is there, before the next poll sends its offset.
            eventually(fed_service.effects, "the effect")
            lose(broker)
            consumer.stop()
    finally:
        bring_back(broker)


def test_a_relay_holds_little_of_a_transaction_that_the_broker_does_not_take(outbox_stack: Stack) -> None:
    outcome = relay_transaction.measure(outbox_stack, relay_transaction.Plan(events=50_000, paused_seconds=5))
    assert outcome.is_kept
    assert outcome.peak_megabytes < MAX_MEGABYTES, outcome


@contextmanager
def sink_of_paused_broker(broker: Broker, sent: Unit[int], topic: str) -> Iterator[KafkaSink]:
    """Send a unit to a broker that was paused after its first acknowledgement, so that batches are in flight."""
    broker.create_topic(topic)
    first = unit_of(topic, 1)
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    sink = KafkaSink(kafka, topics=[topic], logger=logging.getLogger("silent"))

    def first_arrived() -> bool:
        sink.poll(0.05)
        return first.undelivered == 0

    try:
        assert sink.send(first, 0) == 1
        eventually(first_arrived, "the connection to the broker")
        broker.pause()
        try:
            assert sink.send(sent, 0) == len(sent.events)
            sink.poll(0.5)  # sends the batches, which are not answered
            yield sink
        finally:
            broker.resume()
    finally:
        sink.close(0)


def unit_of(topic: str, size: int) -> Reported:
    now = int(time.time() * 1000)
    return Reported([(topic, b"%01000d" % number, b"k", -1, now, []) for number in range(size)])


def test_a_producer_that_fails_while_it_is_waited_for_is_a_delivery_error(outbox_stack: Stack) -> None:
    topic = f"sink.{uuid4().hex}"
    unit = unit_of(topic, 3000)
    with sink_of_paused_broker(outbox_stack.broker, unit, topic) as sink:
        sink._producer.purge(in_flight=True, in_queue=True)
        with pytest.raises(DeliveryError):
            eventually(lambda: sink.poll(0.05), "the error")
        assert sink.send(unit, 0) == 0


def test_messages_that_are_under_way_are_given_up_and_reported_when_a_sink_is_closed(outbox_stack: Stack) -> None:
    topic = f"sink.{uuid4().hex}"
    unit = unit_of(topic, 3000)
    with sink_of_paused_broker(outbox_stack.broker, unit, topic) as sink:
        assert unit.reports == 0
        sink.close(0)
        assert unit.reports == 3000
    assert isinstance(unit.failure, DeliveryError)


def test_brokers_that_do_not_answer_have_nothing_new_in_a_topic_that_did_not_exist(outbox_stack: Stack) -> None:
    broker, topic = outbox_stack.broker, f"tail.{uuid4().hex}"
    kafka = {"bootstrap.servers": broker.bootstrap_servers}
    with closing(PartitionTail(topic, kafka, most=5, group="tail", logger=logging.getLogger("silent"))) as tail:
        assert list(tail.read()) == []
        broker.pause()
        try:
            assert list(tail.read()) == []
        finally:
            broker.resume()
        broker.create_topic(topic)
        producer = Producer(kafka)
        producer.produce(topic, b"first")
        assert producer.flush(patience()) == 0
        eventually(lambda: [message.value for message in tail.read()] == [b"first"], "the message")
