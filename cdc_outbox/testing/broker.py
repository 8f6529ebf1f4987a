"""The Kafka broker as a part of the stack, and what its topics hold."""

import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from cdc_outbox.errors import StackError
from cdc_outbox.jvm import Jvm
from cdc_outbox.kafka import PASSING_ERRORS, message_of, translate
from cdc_outbox.message import Message
from cdc_outbox.testing.folder import HOST
from cdc_outbox.testing.process import Server, ServerCommand, run_to_end
from cdc_outbox.testing.settings import settings_file

_HEAP = "512m"
"""Enough for a million small events; two stacks fit into a laptop."""
_TOPIC_SECONDS, _LEADER_SECONDS = 10.0, 0.05

_quiet = logging.getLogger(f"{__name__}.librdkafka")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class Broker(Server):
    """The Kafka broker of the stack, and how to reach it."""

    def __init__(self, folder: Path, command: ServerCommand, *, port: int) -> None:
        super().__init__(folder, command)
        self.port = port

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to."""
        return f"{HOST}:{self.port}"

    def create_topic(self, name: str, *, partitions: int = 1) -> None:
        """Create a topic, and return when it can be used."""
        admin = self._admin()  # kept: one that is collected before its answer came creates nothing
        [created] = admin.create_topics([NewTopic(name, num_partitions=partitions)]).values()
        created.result(timeout=_TOPIC_SECONDS)

    def ends(self, topic: str) -> dict[int, int]:
        """Return each partition's next offset, empty while there is no such topic."""
        with self._reader() as reader:
            return _ends(reader, topic)

    def messages(self, topic: str) -> list[Message]:
        """Return every message that a topic holds now, each partition in its order."""
        with self._reader() as reader:
            ends = _ends(reader, topic)
            reader.assign([TopicPartition(topic, partition, 0) for partition in ends])
            messages: list[Message] = []
            while len(messages) < sum(ends.values()):
                record = reader.poll(_TOPIC_SECONDS)
                if record is None or record.error():
                    raise StackError(f"the topic {topic} could not be read to its end")
                messages.append(message_of(record))
            return messages

    def answers(self) -> bool:
        """Tell whether the broker takes requests."""
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex((HOST, self.port)):
                return False
        try:
            self._admin().list_topics(timeout=2)
        except KafkaException:
            return False
        return True

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers}, logger=_quiet)

    @contextmanager
    def _reader(self) -> Iterator[Consumer]:
        settings = {"bootstrap.servers": self.bootstrap_servers, "group.id": "reader", "enable.auto.commit": False}
        reader = Consumer(settings, logger=_quiet)
        try:
            yield reader
        finally:
            reader.close()


def broker_environment(folder: Path, port: int, controller_port: int) -> dict[str, str]:
    """Return what kafka.properties takes from the environment, for a broker of the local stack."""
    return {
        "BROKER_CONTROLLER": f"{HOST}:{controller_port}",
        "BROKER_LISTENERS": f"INTERNAL://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "BROKER_ADVERTISED_LISTENERS": f"INTERNAL://{HOST}:{port}",
        "BROKER_FOLDER": str(folder / "data"),
    }


def make_broker(folder: Path, port: int, environment: Mapping[str, str], jvm: Jvm) -> Broker:
    """Format a broker's storage, unless it is formatted, and return the broker, not started yet."""
    folder.mkdir(mode=0o700, exist_ok=True)
    whole = {"PATH": os.environ.get("PATH", os.defpath), **environment}
    settings = str(settings_file("kafka.properties"))
    options = ("--ignore-formatted", "--cluster-id=cdcOutboxLocalStackKaf", f"--config={settings}")
    formatting = jvm.command("kafka.tools.StorageTool", "format", *options, heap=_HEAP)
    run_to_end(ServerCommand(arguments=formatting, environment=whole), folder, "formatting the broker's storage")
    arguments = jvm.command("kafka.Kafka", settings, heap=_HEAP, archive="kafka")
    command = ServerCommand(arguments=arguments, environment=whole)
    return Broker(folder, command, port=port)


def _ends(reader: Consumer, topic: str) -> dict[int, int]:
    # Asked for all topics: asking for one that does not exist yet makes librdkafka wait for it.
    topics = reader.list_topics(timeout=_TOPIC_SECONDS).topics
    partitions = sorted(topics[topic].partitions) if topic in topics else []
    return {partition: _end(reader, TopicPartition(topic, partition)) for partition in partitions}


def _end(reader: Consumer, partition: TopicPartition) -> int:
    deadline = time.monotonic() + _TOPIC_SECONDS
    while True:
        try:
            _, end = reader.get_watermark_offsets(partition, timeout=_TOPIC_SECONDS)
        except KafkaException as error:
            # A topic shows before its leader does.
            if error.args[0].code() not in PASSING_ERRORS or time.monotonic() >= deadline:
                raise translate(error.args[0]) from error
            time.sleep(_LEADER_SECONDS)
        else:
            return end
