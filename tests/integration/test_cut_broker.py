"""A broker that lost its controller: what asks it then, and what asks it when it is back."""

import logging
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient

from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.start_offsets import KafkaPartitions
from cdc_outbox.errors import BrokerError, BrokerUnavailableError
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.kafka.clients import consumer_settings
from cdc_outbox.testing import Stack
from tests.support.cut_broker import CutBroker, running_broker
from tests.support.patience import patience
from tests.support.rig import eventually, open_folder

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
    admin = AdminClient({"bootstrap.servers": address}, logger=LOG)
    eventually(lambda: not admin.list_topics(timeout=patience()).brokers, "no live broker")
    with pytest.raises(BrokerError):
        partitions.find([HOME])
    cut_broker.line.mend()
    eventually(lambda: answers(topics, partitions), "an answer")
    partitions.close()
