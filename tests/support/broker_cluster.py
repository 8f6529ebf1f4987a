"""Three Kafka brokers and their controller: leaders are killed, and followers paused."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from cdc_outbox.debezium.event_router.jvm import Jvm
from cdc_outbox.testing.broker import Broker
from cdc_outbox.testing.process import ServerCommand, run_to_end
from tests.support.rig import eventually

CONTROLLER = 1
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
replica.lag.time.max.ms=2000
broker.heartbeat.interval.ms=500
broker.session.timeout.ms=3000
"""
"""A follower that is paused leaves the replicas in sync within seconds."""


@dataclass(frozen=True, slots=True)
class BrokerCluster:
    """The brokers by their ids; the controller is a broker too, which holds no replica."""

    brokers: Mapping[int, Broker]

    @property
    def replicas(self) -> Sequence[int]:
        """The ids of the brokers that hold replicas."""
        return [node for node in self.brokers if node != CONTROLLER]

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    def create_topic(self, name: str, config: Mapping[str, str]) -> int:
        """Create a topic of one partition on the three, and return its leader."""
        admin = self._admin()  # it must outlive its answers
        [created] = admin.create_topics(
            [NewTopic(name, num_partitions=1, replica_assignment=[[*self.replicas]], config=dict(config))]
        ).values()
        created.result(timeout=30)
        eventually(lambda: len(self.in_sync(name)) == len(self.replicas), "the replicas to be in sync")
        return self.leader(name)

    def in_sync(self, topic: str) -> list[int]:
        """Return the replicas that are in sync."""
        return sorted(self._partition(topic).isrs)

    def leader(self, topic: str) -> int:
        """Return the partition's leader, -1 if there is none."""
        return int(self._partition(topic).leader)

    def _partition(self, topic: str):  # type: ignore[no-untyped-def] # noqa: ANN202 - the client has no type for it
        return self._admin().list_topics(topic, timeout=30).topics[topic].partitions[0]

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.brokers[CONTROLLER].bootstrap_servers})


@contextmanager
def running_cluster(folder: Path, jvm: Jvm) -> Iterator[BrokerCluster]:
    """Start the controller and three brokers, and stop them at the end."""
    controller_port, *ports = _free_ports(5)
    with ExitStack() as stack:
        brokers = {}
        for node, port in enumerate(ports, CONTROLLER):
            brokers[node] = broker = _make_broker(folder / f"broker-{node}", jvm, node, port, controller_port)
            stack.callback(broker.stop)
            broker.start()
        yield BrokerCluster(brokers)


def _make_broker(folder: Path, jvm: Jvm, node: int, port: int, controller_port: int) -> Broker:
    folder.mkdir()
    text = _COMMON.format(
        controller=CONTROLLER, host=_HOST, controller_port=controller_port, node=node, port=port, folder=folder
    )
    roles, listeners = "broker", f"INTERNAL://{_HOST}:{port}"
    if node == CONTROLLER:
        roles, listeners = "broker,controller", f"{listeners},CONTROLLER://{_HOST}:{controller_port}"
    settings = folder / "kafka.properties"
    settings.write_text(f"{text}process.roles={roles}\nlisteners={listeners}\n")
    options = ("--ignore-formatted", "--cluster-id=cdcOutboxThreeBrokers1", f"--config={settings}")
    formatting = jvm.command("kafka.tools.StorageTool", "format", *options, heap="128m", archive="kafka")
    run_to_end(ServerCommand(arguments=formatting, environment={}), folder, "formatting a broker's storage")
    arguments = jvm.command("kafka.Kafka", str(settings), heap="256m", archive="kafka")
    return Broker(folder, ServerCommand(arguments=arguments, environment={}), port=port)


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((_HOST, 0))
        return [probe.getsockname()[1] for probe in probes]
