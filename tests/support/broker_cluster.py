"""Three Kafka brokers and their controller: leaders are killed, and followers paused."""

import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from cdc_outbox.debezium.event_router.jvm import Jvm
from cdc_outbox.testing.broker import Broker
from cdc_outbox.testing.process import ServerCommand, run_to_end
from tests.support.patience import patience
from tests.support.rig import eventually

_LOG = logging.getLogger(f"{__name__}.librdkafka")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False
_CONTROLLER = 1
_CLUSTER_ID = "cdcOutboxThreeBrokers1"
_HOST = "127.0.0.1"
_COMMON = """\
controller.quorum.voters={controller}@{host}:{controller_port}
node.id={node}
listener.security.protocol.map=INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INTERNAL
controller.listener.names=CONTROLLER
advertised.listeners=INTERNAL://{host}:{port}
log.dirs={folder}/data
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
log.cleaner.enable=false
metadata.max.idle.interval.ms=0
num.network.threads=1
num.io.threads=2
replica.lag.time.max.ms=4000
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=6000
"""
"""A follower that is paused leaves the replicas in sync within seconds; one that is merely slow seldom does."""


class PartitionState(NamedTuple):
    """The leader, -1 if there is none, and the replicas in sync."""

    leader: int
    in_sync: Sequence[int]


@dataclass(frozen=True, slots=True)
class BrokerCluster:
    """The brokers by their ids; the controller is a broker too, which holds no replica, and is never paused."""

    brokers: Mapping[int, Broker]

    @property
    def replicas(self) -> Sequence[int]:
        """The ids of the brokers that hold replicas."""
        return [node for node in self.brokers if node != _CONTROLLER]

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    @property
    def controller(self) -> Broker:
        """The broker that always answers."""
        return self.brokers[_CONTROLLER]

    def create_topic(self, name: str, config: Mapping[str, str]) -> None:
        """Create a topic of one partition on the three, which keeps messages of any time."""
        self._create(name, self.replicas, {"retention.ms": "-1", **config})
        eventually(lambda: self.is_complete(name), "the replicas to be in sync", seconds=120)

    def keep_offsets(self) -> None:
        """Have the groups' offsets on the controller, before a group makes their topic elsewhere."""
        self._create("__consumer_offsets", [_CONTROLLER], {"cleanup.policy": "compact"})

    def _create(self, name: str, replicas: Sequence[int], config: Mapping[str, str]) -> None:
        admin = self._connect()  # it must outlive its answers
        topic = NewTopic(name, num_partitions=1, replica_assignment=[[*replicas]], config={**config})
        [created] = admin.create_topics([topic]).values()
        created.result(timeout=patience())

    def is_complete(self, topic: str) -> bool:
        """Return whether all replicas are in sync."""
        return [state.in_sync for state in self.look(topic)] == [self.replicas]

    def look(self, *topics: str) -> list[PartitionState]:
        """Return the state of each topic's partition, as the controller knows it."""
        # A client that was kept may have connected to a broker that is paused now, and would ask that one.
        found = self._connect().list_topics(timeout=patience()).topics
        states = [found[topic].partitions[0] for topic in topics if topic in found]
        return [PartitionState(state.leader, sorted(state.isrs)) for state in states]

    def _connect(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.controller.bootstrap_servers}, logger=_LOG)


@contextmanager
def running_cluster(folder: Path, jvm: Jvm) -> Iterator[BrokerCluster]:
    """Start the controller and three brokers, and stop them at the end."""
    controller_port, *ports = _free_ports(5)
    with ExitStack() as stack:
        brokers = {}
        for node, port in enumerate(ports, _CONTROLLER):
            brokers[node] = broker = _make_broker(folder / f"broker-{node}", jvm, node, port, controller_port)
            stack.callback(broker.kill)
            broker.start()
        yield BrokerCluster(brokers)


def _make_broker(folder: Path, jvm: Jvm, node: int, port: int, controller_port: int) -> Broker:
    (folder / "data").mkdir(parents=True)
    text = _COMMON.format(
        controller=_CONTROLLER, host=_HOST, controller_port=controller_port, node=node, port=port, folder=folder
    )
    roles, listeners = "broker", f"INTERNAL://{_HOST}:{port}"
    if node == _CONTROLLER:
        roles, listeners = "broker,controller", f"{listeners},CONTROLLER://{_HOST}:{controller_port}"
    settings = folder / "kafka.properties"
    settings.write_text(f"{text}process.roles={roles}\nlisteners={listeners}\n")
    if node == _CONTROLLER:
        options = (f"--cluster-id={_CLUSTER_ID}", f"--config={settings}")
        formatting = jvm.command("kafka.tools.StorageTool", "format", *options, heap="128m", archive="kafka")
        run_to_end(ServerCommand(arguments=formatting, environment={}), folder, "formatting the controller's storage")
    else:  # the tool writes nothing else that a broker needs, and takes seconds
        (folder / "data" / "meta.properties").write_text(f"version=1\ncluster.id={_CLUSTER_ID}\nnode.id={node}\n")
    arguments = jvm.command("kafka.Kafka", str(settings), heap="256m", archive="kafka")
    return Broker(folder, ServerCommand(arguments=arguments, environment={}), port=port)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((_HOST, 0))
        return [probe.getsockname()[1] for probe in probes]
