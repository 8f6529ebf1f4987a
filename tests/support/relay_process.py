"""A relay in a process of its own, which a test kills: ``python -m tests.support.relay_process JSON``."""

import json
import logging
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType

from cdc_outbox.backoff import Backoff
from cdc_outbox.contract.topics import Topic, raw_topic_name
from cdc_outbox.databases.publishers import PublisherKind
from cdc_outbox.debezium.event_router.compiled import RouteCompiler
from cdc_outbox.debezium.render import render
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.kafka.garbage import collecting_seldom
from cdc_outbox.relay.kafka_sink import KafkaSink
from cdc_outbox.relay.postgresql_server import PostgresqlServer
from cdc_outbox.relay.relay import Relay
from cdc_outbox.relay.wal_relay import OutboxRoutes
from cdc_outbox.relay.wal_source import SILENCE_SECONDS, WalSource
from cdc_outbox.spec import Spec, parse_spec
from tests.support.patience import patience
from tests.support.pipeline import Pipeline
from tests.support.publishers import declare, publishers_of
from tests.support.rig import eventually

ROOT = Path(__file__).parents[2]
LOG = logging.getLogger("relay")
PREFIX = "relay."
"""Stands before the topics of the relay, beside which the connector writes to those of the spec."""


def relay_slot(spec: Spec) -> str:
    """Return the slot of the relay, beside that of the connector."""
    return f"{spec.name}_relay"


def compiler_of(spec: Spec, connector: Mapping[str, str]) -> RouteCompiler:
    """Return the routes that a connector's configuration asks for, to the relay's topics."""
    config = dict(connector)
    replacement = "transforms.outbox.route.topic.replacement"
    config[replacement] = PREFIX + config[replacement]
    table = spec.outbox.table
    topic = raw_topic_name(config["topic.prefix"], table.schema or "", table.name)
    return RouteCompiler.from_config(config, raw_topic=topic)


def make_server(spec: Spec, dsn: str, silence_seconds: float = SILENCE_SECONDS) -> PostgresqlServer:
    """Return the server that the relay reads from."""
    slot, publication = relay_slot(spec), spec.database.publication
    return PostgresqlServer(
        dsn, spec.outbox, slot=slot, publication=publication, name=slot, silence_seconds=silence_seconds
    )


def make_relay(
    spec: Spec,
    dsn: str,
    bootstrap_servers: str,
    connector: Mapping[str, str] | None = None,
    silence_seconds: float = SILENCE_SECONDS,
) -> Relay:
    """Return a relay to Kafka as the command would run it.

    Args:
        connector: The configuration of the connector beside it, by default the rendered one.
    """
    server = make_server(spec, dsn, silence_seconds)
    compiler = compiler_of(spec, connector or render(spec))
    routes = OutboxRoutes(compiler, spec.outbox.table, lambda relation: source.read_columns(relation))  # noqa: PLW0108 - it follows
    source = WalSource(
        server,
        routes,
        slot=relay_slot(spec),
        publication=spec.database.publication,
        silence_seconds=silence_seconds,
    )
    kafka = {"bootstrap.servers": bootstrap_servers}
    topics = [PREFIX + topic for topic in spec.contract.topics]
    retries = Backoff(first_seconds=0.05, longest_seconds=0.5)
    wanted = partial(Topic, partitions=spec.topics.partitions, config={"message.timestamp.type": "LogAppendTime"})

    alone: dict[tuple[str, int], tuple[int, int]] = {}

    def open_sink() -> KafkaSink:
        return KafkaSink(kafka, topics=topics, wanted=lambda name: wanted(name=name), logger=LOG, alone=alone)

    return Relay(source, open_sink, retries=retries)


def prepare_relay(pipeline: Pipeline, limits: Mapping[str, int]) -> None:
    """Create the relay's slot and its topics, with the ``max.message.bytes`` of aggregate types."""
    with pipeline.connect() as connection:
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (relay_slot(pipeline.spec),))
    create_topics(pipeline, PREFIX, limits)


def create_topics(pipeline: Pipeline, prefix: str, limits: Mapping[str, int] = MappingProxyType({})) -> None:
    """Create a publisher's topics, which keep the time of the messages, and messages of any time."""
    contract, partitions = pipeline.spec.contract, pipeline.spec.topics.partitions
    broker = pipeline.stack.broker
    configs = {contract.topic_of(kind): {"max.message.bytes": str(limit)} for kind, limit in limits.items()}
    topics = [
        Topic(name=prefix + name, partitions=partitions, config={"retention.ms": "-1"} | configs.get(name, {}))
        for name in contract.topics
    ]
    created = Topics({"bootstrap.servers": broker.bootstrap_servers}, LOG).create(topics)
    assert set(created.values()) == {True}
    for topic in created:
        eventually(lambda topic=topic: topic in broker.topics() and broker.ends(topic), f"the topic {topic}")  # type: ignore[misc]


def let_relay_publish(pipeline: Pipeline) -> None:
    """Write down that the relay publishes, though the connector may do so too, into other topics."""
    slot, table = relay_slot(pipeline.spec), pipeline.spec.outbox
    with pipeline.connect() as connection:
        publisher = publishers_of(connection, table).find()
        if publisher is None or publisher.slot != slot:
            declare(connection, table, PublisherKind.WAL_RELAY, slot)


def relay_arguments(pipeline: Pipeline, dsn: str = "", *, text: str = "") -> str:
    """Return what this module's program is given: the pipeline's own DSN and spec, unless others are named."""
    return json.dumps(
        {
            "text": text or Pipeline.text(pipeline.name),
            "dsn": dsn or pipeline.dsn,
            "bootstrap_servers": pipeline.stack.broker.bootstrap_servers,
        }
    )


@contextmanager
def relay_process(pipeline: Pipeline, text: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a relay of a spec's text in a process; at the end it is stopped, if it runs still."""
    let_relay_publish(pipeline)
    command = [sys.executable, "-m", "tests.support.relay_process", relay_arguments(pipeline, text=text)]
    with subprocess.Popen(command, cwd=ROOT) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(patience())


def main() -> None:
    """Relay until SIGTERM."""
    given = json.loads(sys.argv[1])
    relay = make_relay(parse_spec(given["text"], name="relay.yaml"), given["dsn"], given["bootstrap_servers"])
    signal.signal(signal.SIGTERM, lambda *_: relay.stop())
    with collecting_seldom():
        relay.run()


if __name__ == "__main__":
    main()
