"""A relay for a spec: the one place that puts server, routes, source and sink together."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cdc_outbox.contract.topics import Topic
from cdc_outbox.databases.facts import RELAY
from cdc_outbox.debezium.event_router.compiled import RouteCompiler
from cdc_outbox.debezium.render import raw_topic, render, topics_of
from cdc_outbox.errors import ConfigError
from cdc_outbox.relay.outbox_routes import OutboxRoutes
from cdc_outbox.relay.refusals import find_relay_refusals
from cdc_outbox.relay.relay import Relay
from cdc_outbox.relay.relay_errors import RelayRefusedError
from cdc_outbox.relay.sinks import Sink
from cdc_outbox.relay.wal_source import WalSource
from cdc_outbox.spec import Latency, Spec
from cdc_outbox.telemetry import Metrics

_LINGER_MS: Mapping[Latency, float] = {Latency.LOW: 0.5, Latency.BALANCED: 1, Latency.ECONOMY: 20}
"""How long a batch waits for more messages, by the spec's latency.

Debezium's `low` has 0. With it each message is a request of its own, and at 1,000 a second they keep the broker so busy
that p99 was measured to be three times higher.
"""
_COMPRESSION = "producer.override.compression.type"
_LOG = logging.getLogger("cdc_outbox.relay.librdkafka")


def refuse_unrelayable(spec: Spec) -> None:
    """Refuse a spec that asks for what the relay does not do.

    Raises:
        RelayRefusedError: It does, with the reasons as ``findings``.
        ConfigError: An override would break a promise, for any publisher.
    """
    findings = find_relay_refusals(render(spec))
    if findings:
        raise RelayRefusedError(f"the relay cannot publish {spec.name}", findings=findings)


def make_relay(
    spec: Spec,
    *,
    dsn: str,
    kafka: str | Mapping[str, Any] | None = None,
    open_sink: Callable[[], Sink] | None = None,
    metrics: Metrics | None = None,
) -> Relay:
    """Return a relay that publishes the messages that Connect would publish for the spec.

    It reads the spec's replication slot, which must exist when it runs: `cdc-outbox relay` creates it.

    Args:
        dsn: Of the outbox's database; the role needs REPLICATION. The spec's own address is the Connect worker's.
        kafka: The brokers: ``host:port``, or librdkafka's settings, ``bootstrap.servers`` among them. Missing topics
            are created as Connect would create them.
        open_sink: Returns where messages go instead, such as a :class:`~cdc_outbox.relay.CallableSink`; called again
            after each error.
        metrics: Receives the series whose names have ``relay``.

    Raises:
        RelayRefusedError: The spec asks for what the relay does not do.
        RelayError: psycopg has no C library here.
        ConfigError: The spec is wrong, or neither or both of ``kafka`` and ``open_sink`` are given.
    """
    # The drivers are imported here, so that whoever imports this package needs none of them.
    from cdc_outbox.relay.postgresql_server import PostgresqlServer  # noqa: PLC0415
    from cdc_outbox.relay.replication import require_fast_client  # noqa: PLC0415

    if (kafka is None) == (open_sink is None):
        raise ConfigError("give either kafka or open_sink", field="make_relay")
    refuse_unrelayable(spec)
    require_fast_client()
    compiler = RouteCompiler.from_config(render(spec), raw_topic=raw_topic(spec))
    slot, publication = spec.database.slot, spec.database.publication
    server = PostgresqlServer(dsn, spec.outbox, slot=slot, publication=publication, name=f"{RELAY}{spec.name}")
    routes = OutboxRoutes(compiler, spec.outbox.table, server.read_columns)
    source = WalSource(server, routes, slot=slot, publication=publication)
    return Relay(source, open_sink or _kafka_sink(spec, kafka or ""), name=spec.name, metrics=metrics)


def _kafka_sink(spec: Spec, kafka: str | Mapping[str, Any]) -> Callable[[], Sink]:
    settings = {"bootstrap.servers": kafka} if isinstance(kafka, str) else kafka
    compression = spec.overrides.get(_COMPRESSION)
    extra = {} if compression is None else {"compression.type": compression}
    topics = {topic.name: topic for topic in topics_of(spec)}
    events = [*spec.contract.topics]

    def wanted(name: str) -> Topic:
        return topics.get(name) or replace(topics[events[0]], name=name)

    def open_sink() -> Sink:
        from cdc_outbox.relay.sinks.kafka import KafkaSink  # noqa: PLC0415

        return KafkaSink(
            {**extra, **settings}, topics=events, wanted=wanted, linger_ms=_LINGER_MS[spec.latency], logger=_LOG
        )

    return open_sink
