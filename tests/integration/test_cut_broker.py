"""A broker that lost its controller: what asks it then, and what asks it when it is back."""

import logging
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from cdc_outbox.consumer import Consumer, RecordedEvent, SequenceMode, WireContract
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.start_offsets import KafkaPartitions
from cdc_outbox.errors import BrokerError, BrokerUnavailableError
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.kafka.clients import consumer_settings
from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.cut_broker import CutBroker, running_broker
from tests.support.events import make_event
from tests.support.patience import patience
from tests.support.rig import eventually, open_folder
from tests.support.threads import Threads

LOG = logging.getLogger("silent")
HOME = TopicPartition("orders", 0)


@pytest.fixture
def cut_broker(outbox_stack: Stack) -> Iterator[CutBroker]:
    ports = outbox_stack.folder.reserve_port(), outbox_stack.folder.reserve_port()
    with open_folder() as folder, running_broker(folder / "broker", outbox_stack.jvm, ports) as started:
        yield started


def answers(topics: Topics, partitions: KafkaPartitions) -> bool:
    try:
        return HOME in partitions.find([HOME]) and HOME.topic in topics.find([HOME.topic])
    except BrokerUnavailableError:
        return False


def has_brokers(address: str) -> bool:
    return bool(AdminClient({"bootstrap.servers": address}, logger=LOG).list_topics(timeout=patience()).brokers)


def test_clients_outlive_a_broker_that_lost_its_controller_and_read_again_within_half_a_minute(
    cut_broker: CutBroker,
) -> None:
    """The broker's answers are such that one function of librdkafka would end this process."""
    address = cut_broker.broker.bootstrap_servers
    cut_broker.broker.create_topic(HOME.topic)
    topics = Topics({"bootstrap.servers": address}, LOG)
    partitions = KafkaPartitions(consumer_settings(bootstrap_servers=address, group="g", extra={}), LOG)
    eventually(lambda: answers(topics, partitions), "the first answer")
    cut_broker.line.cut()
    eventually(lambda: not has_brokers(address), "the broker to be taken for dead", seconds=60)
    with pytest.raises(BrokerError):
        partitions.find([HOME])
    cut_broker.line.mend()
    eventually(lambda: answers(topics, partitions), "an answer")
    partitions.close()


CONTRACT = WireContract(aggregates={"order": SequenceMode.GAPLESS})
QUICK = {"session.timeout.ms": 3_000, "heartbeat.interval.ms": 500, "topic.metadata.refresh.interval.ms": 500}


def test_a_consumer_whose_client_lost_its_coordinator_reads_again(cut_broker: CutBroker, tmp_path: Path) -> None:
    address, inbox, applied = cut_broker.broker.bootstrap_servers, tmp_path / "inbox.db", list[int | None]()
    [topic] = CONTRACT.topics
    cut_broker.broker.create_topic(topic)
    inbox.touch()
    assert run_command("init", "--inbox", "--dsn", f"sqlite:///{inbox}").returncode == 0
    consumer = Consumer(
        name="shipping",
        contract=CONTRACT,
        kafka={"bootstrap.servers": address, **QUICK},
        database=lambda: sqlite3.connect(inbox, check_same_thread=False),
    )

    @consumer.on("OrderPlaced")
    def apply(event: RecordedEvent, _connection: sqlite3.Connection) -> None:
        applied.append(event.sequence)

    def send(number: int) -> None:
        message, producer = (
            CONTRACT.message_of(make_event(number)),
            Producer({"bootstrap.servers": address}, logger=LOG),
        )
        producer.produce(topic, message.value, message.key, headers=[*message.headers])
        assert producer.flush(patience()) == 0

    with Threads() as threads:
        running = threads.submit(consumer.run)
        try:
            send(1)
            eventually(lambda: applied == [1] or running.done(), "the first event")
            cut_broker.line.cut()
            eventually(lambda: not has_brokers(address), "the broker to be taken for dead", seconds=60)
            eventually(lambda: consumer.progress().outage or running.done(), "the consumer to miss the brokers")
            cut_broker.line.mend()
            eventually(lambda: has_brokers(address), "the broker to be back", seconds=60)
            send(2)
            eventually(lambda: applied == [1, 2] or running.done(), "the second event", seconds=60)
        finally:
            consumer.stop()
    assert (applied, running.exception()) == ([1, 2], None)
