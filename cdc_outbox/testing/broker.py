"""The Kafka broker as a part of the stack, and what its topics hold."""

import logging
import os
import socket
import threading
import time
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path

from cdc_outbox.debezium.event_router.jvm import Jvm
from cdc_outbox.errors import StackError
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka.broker_errors import answered, translate
from cdc_outbox.kafka.clients import connection_settings
from cdc_outbox.kafka.reading import message_of
from cdc_outbox.message import Message
from cdc_outbox.testing.folder import HOST
from cdc_outbox.testing.process import Server, ServerCommand, run_to_end
from cdc_outbox.testing.settings import settings_file

_HEAP = "512m"
"""Enough for a million small events; two stacks fit into a laptop."""
_TOPIC_SECONDS = 10.0

_quiet = logging.getLogger(f"{__name__}.librdkafka")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class Broker(Server):
    """The Kafka broker of the stack."""

    def __init__(self, folder: Path, command: ServerCommand, *, port: int) -> None:
        super().__init__(folder, command)
        self.port = port

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients."""
        return f"{HOST}:{self.port}"

    def create_topic(self, name: str, *, partitions: int = 1) -> None:
        """Create a topic, and return when it is usable."""
        admin = _admin(self.bootstrap_servers)  # another thread may have made the one that is kept
        [created] = admin.create_topics([confluent.NewTopic(name, num_partitions=partitions)]).values()
        created.result(timeout=_TOPIC_SECONDS)
        _wait_for_topic(admin, name)

    def topics(self) -> list[str]:
        """Return the names of all topics, in their order."""
        return sorted(_admin(self.bootstrap_servers).list_topics(timeout=_TOPIC_SECONDS).topics)

    def delete_topics(self, *names: str) -> None:
        """Delete topics; the broker may list them for another moment."""
        admin = _admin(self.bootstrap_servers)
        deleted = admin.delete_topics(list(names)) if names else {}
        for answer in deleted.values():
            answer.result(timeout=_TOPIC_SECONDS)

    def ends(self, topic: str) -> dict[int, int]:
        """Return each partition's next offset, empty while there is no such topic."""
        try:
            return answered(partial(_ends, _admin(self.bootstrap_servers), topic), _TOPIC_SECONDS)
        except confluent.KafkaException as error:
            raise translate(error.args[0]) from error

    def messages(self, topic: str) -> list[Message]:
        """Return every message of a topic, each partition in its order."""
        ends = self.ends(topic)
        if not any(ends.values()):
            return []
        with _reading:
            messages = _read(_reader(self.bootstrap_servers), topic, ends)
            if messages is None:
                # What the kept reader knows of a topic or a broker may be out of date.
                _reader.cache_clear()
                messages = _read(_reader(self.bootstrap_servers), topic, ends)
        if messages is None:
            raise StackError(f"the topic {topic} could not be read to its end")
        return messages

    def answers(self) -> bool:
        """Return whether the broker takes requests."""
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex((HOST, self.port)):
                return False
        try:
            _make_admin(self.bootstrap_servers).list_topics(timeout=2)
        except confluent.KafkaException:
            return False
        return True


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
    confluent.require()
    folder.mkdir(mode=0o700, exist_ok=True)
    whole = {"PATH": os.environ.get("PATH", os.defpath), **environment}
    settings = str(settings_file("kafka.properties"))
    options = ("--ignore-formatted", "--cluster-id=cdcOutboxLocalStackKaf", f"--config={settings}")
    formatting = jvm.command("kafka.tools.StorageTool", "format", *options, heap=_HEAP, archive="kafka")
    run_to_end(ServerCommand(arguments=formatting, environment=whole), folder, "formatting the broker's storage")
    arguments = jvm.command("kafka.Kafka", settings, heap=_HEAP, archive="kafka")
    command = ServerCommand(arguments=arguments, environment=whole)
    return Broker(folder, command, port=port)


def _make_admin(servers: str) -> "confluent.AdminClient":
    settings = connection_settings({"reconnect.backoff.max.ms": 200})
    return confluent.AdminClient({"bootstrap.servers": servers, **settings}, logger=_quiet)


_admin = lru_cache(maxsize=2)(_make_admin)
"""The client of a broker that is up, kept: each new one asks for all topics. A test seldom has more than two stacks."""


def _make_reader(servers: str) -> "confluent.Consumer":
    settings = {
        "bootstrap.servers": servers,
        "group.id": "reader",
        "enable.auto.commit": False,
        "reconnect.backoff.max.ms": 200,
        # The next reading begins when the last fetch of this one has been answered, and that waits for new messages.
        "fetch.wait.max.ms": 1,
    }
    return confluent.Consumer(settings, logger=_quiet)


_reader = lru_cache(maxsize=2)(_make_reader)
"""The reader of a broker that is up, kept: a new one asks six questions, and conditions read a topic a dozen times."""
_reading = threading.Lock()
"""A reader reads one topic at a time."""


def _read(reader: "confluent.Consumer", topic: str, ends: Mapping[int, int]) -> list[Message] | None:
    """Return the messages below the ends, ``None`` if they do not come."""
    unread = {partition for partition, end in ends.items() if end}
    reader.assign([confluent.TopicPartition(topic, partition, 0) for partition in unread])
    try:
        messages: list[Message] = []
        while unread:
            record = reader.poll(_TOPIC_SECONDS)
            if record is None or record.error():
                return None
            partition, next_offset = record.partition() or 0, (record.offset() or 0) + 1
            if next_offset <= ends[partition]:
                messages.append(message_of(record))
            if next_offset >= ends[partition]:
                unread.discard(partition)
        return messages
    finally:
        reader.unassign()


def _wait_for_topic(admin: "confluent.AdminClient", name: str) -> None:
    """Wait until the broker knows a topic: it follows the controller, which has answered already."""
    deadline = time.monotonic() + _TOPIC_SECONDS
    while True:
        [described] = admin.describe_topics(confluent.TopicCollection([name]), request_timeout=_TOPIC_SECONDS).values()
        try:
            described.result()
        except confluent.KafkaException as error:
            if error.args[0].code() != confluent.KafkaError.UNKNOWN_TOPIC_OR_PART or time.monotonic() > deadline:
                raise translate(error.args[0]) from error
            time.sleep(0.02)
        else:
            return


def _ends(admin: "confluent.AdminClient", topic: str) -> dict[int, int]:
    [described] = admin.describe_topics(confluent.TopicCollection([topic]), request_timeout=_TOPIC_SECONDS).values()
    try:
        partitions = [confluent.TopicPartition(topic, partition.id) for partition in described.result().partitions]
    except confluent.KafkaException as error:
        if error.args[0].code() == confluent.KafkaError.UNKNOWN_TOPIC_OR_PART:
            return {}
        raise
    wanted = {tp: confluent.OffsetSpec.latest() for tp in partitions}  # type: ignore[no-untyped-call]
    asked = admin.list_offsets(wanted, request_timeout=_TOPIC_SECONDS) if wanted else {}
    return {tp.partition: answer.result().offset for tp, answer in asked.items()}
