"""Three brokers, of which the only replica in sync dies: what was acknowledged is there, or the finding had said so."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress

import pytest

from cdc_outbox.contract.topics import find_loss
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.relay.relay_errors import DeliveryError
from cdc_outbox.relay.sinks.kafka import KafkaSink
from cdc_outbox.relay.unit import Unit
from cdc_outbox.testing import Stack
from tests.support.broker_cluster import CONTROLLER, BrokerCluster, running_cluster
from tests.support.rig import eventually

LOG = logging.getLogger("silent")
SAFE = {"min.insync.replicas": "2"}
UNSAFE = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}


@pytest.fixture(scope="module")
def cluster(outbox_stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    with running_cluster(tmp_path_factory.mktemp("brokers"), outbox_stack.jvm) as started:
        yield started


class Numbered:
    """Messages with numbers, given to a sink of their own."""

    def __init__(self, cluster: BrokerCluster, topic: str) -> None:
        self._topic = topic
        self.sink = KafkaSink({"bootstrap.servers": cluster.bootstrap_servers}, topics=[topic], logger=LOG)

    def send(self, numbers: range) -> Unit[int]:
        unit = Unit[int]([(self._topic, b"%d" % number, b"key", -1, 1_700_000_000_000, []) for number in numbers])
        assert self.sink.send(unit, 0) == len(numbers)
        return unit

    def reported(self, unit: Unit[int]) -> bool:
        with suppress(DeliveryError):
            self.sink.poll(0.05)
        return not unit.undelivered


@pytest.mark.parametrize(("config", "loses"), [(SAFE, False), (UNSAFE, True)], ids=["safe", "unsafe"])
def test_acknowledged_messages_survive_the_only_leader_in_sync_unless_it_was_found(
    cluster: BrokerCluster, config: Mapping[str, str], *, loses: bool
) -> None:
    name = f"loses-{loses}"
    leader = cluster.create_topic(name, config)
    [topic] = Topics({"bootstrap.servers": cluster.bootstrap_servers}, LOG).find([name]).values()
    assert (find_loss(topic, brokers=len(cluster.brokers)) is not None) is loses
    messages = Numbered(cluster, name)
    first = messages.send(range(100))
    eventually(lambda: messages.reported(first), "the first messages to be acknowledged")

    followers = [node for node in cluster.replicas if node != leader]
    for node in followers:
        cluster.brokers[node].pause()
    eventually(lambda: cluster.in_sync(name) == [leader], "the followers to fall behind")
    second = messages.send(range(100, 200))
    if loses:
        eventually(lambda: messages.reported(second), "the second messages to be acknowledged by the leader alone")
    else:
        for _ in range(40):
            assert not messages.reported(second)
    acknowledged = 200 - second.undelivered
    cluster.brokers[leader].kill()
    for node in followers:
        cluster.brokers[node].resume()
    if not loses:
        eventually(lambda: messages.reported(second), "the second messages to be acknowledged by the next leader")
        acknowledged = 200
    eventually(lambda: cluster.leader(name) in followers, "the next leader")
    cluster.brokers[leader].start()
    eventually(lambda: len(cluster.in_sync(name)) == len(cluster.replicas), "the replicas to be in sync")
    messages.sink.close(0)
    found = [int(message.value or b"") for message in cluster.brokers[CONTROLLER].messages(name)]
    assert len(found) == len(set(found))
    assert found == [*range(100 if loses else acknowledged)]
