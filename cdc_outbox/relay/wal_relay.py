"""A relay for a spec: the one place that puts server, routes, source and sink together."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cdc_outbox.contract.topics import Topic
from cdc_outbox.databases.facts import RELAY
from cdc_outbox.databases.pgoutput import Relation
from cdc_outbox.databases.table import TableName
from cdc_outbox.debezium.event_router.column_values import Column
from cdc_outbox.debezium.event_router.compiled import Route, RouteCompiler
from cdc_outbox.debezium.relay_refusals import find_relay_refusals
from cdc_outbox.debezium.render import raw_topic, render, topics_of
from cdc_outbox.errors import ConfigError
from cdc_outbox.kafka.own_heartbeats import OwnHeartbeats
from cdc_outbox.relay.relay import Relay
from cdc_outbox.relay.relay_errors import RelayError, RelayRefusedError
from cdc_outbox.relay.sinks import Sink
from cdc_outbox.relay.wal_source import SILENCE_SECONDS, WalSource
from cdc_outbox.spec import Latency, Spec
from cdc_outbox.telemetry import Metrics

_LINGER_MS: Mapping[Latency, float] = {Latency.LOW: 0, Latency.BALANCED: 0, Latency.ECONOMY: 20}
"""How long a batch waits for more messages, by the spec's latency; with 0, until the log is read."""
_COMPRESSION = "producer.override.compression.type"
_MOST_SILENCE_SECONDS = 300.0
"""The most that librdkafka takes."""
_LOG = logging.getLogger("cdc_outbox.relay.librdkafka")


class OutboxRoutes:
    """Compiles a route each time that the stream describes the outbox.

    Args:
        compiler: Of the configuration that Connect would get.
        table: The outbox; rows of other tables in its publication are not published, as Debezium's
            ``table.include.list`` leaves them out.
        read_columns: Returns the columns of a relation.
    """

    def __init__(
        self, compiler: RouteCompiler, table: TableName, read_columns: Callable[[Relation], Sequence[Column]]
    ) -> None:
        self._compiler = compiler
        self._table = (table.schema, table.name)
        self._read_columns = read_columns

    def find(self, relation: Relation) -> Route | None:
        """Return the route of a table's rows, ``None`` for a table that is not published."""
        if (relation.schema, relation.name) != self._table:
            return None
        return self._compiler.compile(self._read_columns(relation))

    def drop(self, operation: str) -> None:
        """Drop an updated (``u``), deleted (``d``) or truncated (``t``) row, or raise as the EventRouter does."""
        self._compiler.drop(operation)


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
    creates_topics: bool = True,
    silence_seconds: float = SILENCE_SECONDS,
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
        creates_topics: Whether missing topics are created; otherwise an event without a topic is refused.
        silence_seconds: How long a connection to database or brokers may be silent before it counts as lost. The stream
            of the slot gets 30 at least: a healthy server may need as long for an answer.

    Raises:
        RelayRefusedError: The spec asks for what the relay does not do.
        RelayError: psycopg has no C library here.
        ConfigError: The spec is wrong, neither or both of ``kafka`` and ``open_sink`` are given, or ``silence_seconds``
            is less than 1 or more than 300.
    """
    # The drivers are imported here, so that whoever imports this package needs none of them.
    from cdc_outbox.databases.replication import has_fast_client  # noqa: PLC0415
    from cdc_outbox.relay.postgresql_server import PostgresqlServer  # noqa: PLC0415

    if (kafka is None) == (open_sink is None):
        raise ConfigError("give either kafka or open_sink", field="make_relay")
    if not 1 <= silence_seconds <= _MOST_SILENCE_SECONDS:
        raise ConfigError("silence_seconds must be from 1 to 300", field="make_relay.silence_seconds")
    refuse_unrelayable(spec)
    if not has_fast_client():
        raise RelayError(
            "psycopg runs without its C library here, which is too slow for a relay",
            hint="Install it with `pip install 'psycopg[binary]'`, or 'psycopg[c]' to compile it.",
        )
    compiler = RouteCompiler.from_config(render(spec), raw_topic=raw_topic(spec))
    slot, publication = spec.database.slot, spec.database.publication
    settings = {"bootstrap.servers": kafka} if isinstance(kafka, str) else kafka
    if settings is not None:
        settings = {"socket.timeout.ms": round(silence_seconds * 1000), **settings}
    heartbeats, topic = None, spec.heartbeat_topic
    if settings is not None and topic is not None:
        heartbeats = OwnHeartbeats(topic, settings, outbox=spec.outbox, pipeline=spec.name)
    server = PostgresqlServer(
        dsn,
        spec.outbox,
        slot=slot,
        publication=publication,
        name=f"{RELAY}{spec.name}",
        heartbeats=heartbeats,
        silence_seconds=silence_seconds,
    )
    routes = OutboxRoutes(compiler, spec.outbox.table, lambda relation: source.read_columns(relation))  # noqa: PLW0108 - it follows
    source = WalSource(server, routes, slot=slot, publication=publication, silence_seconds=silence_seconds)
    sink = open_sink or _kafka_sink(spec, settings or {}, creates_topics=creates_topics)
    return Relay(source, sink, name=spec.name, metrics=metrics, heartbeat_topic=topic)


def _kafka_sink(spec: Spec, settings: Mapping[str, Any], *, creates_topics: bool) -> Callable[[], Sink]:
    compression = spec.overrides.get(_COMPRESSION)
    extra = {} if compression is None else {"compression.type": compression}
    topics = {topic.name: topic for topic in topics_of(spec)}
    events = [*spec.contract.topics]
    alone: dict[tuple[str, int], tuple[int, int]] = {}

    def wanted(name: str) -> Topic:
        return topics.get(name) or replace(topics[events[0]], name=name)

    def open_sink() -> Sink:
        from cdc_outbox.relay.kafka_sink import KafkaSink  # noqa: PLC0415

        linger_ms = _LINGER_MS[spec.latency]
        return KafkaSink(
            {**extra, **settings},
            topics=events,
            wanted=wanted if creates_topics else None,
            linger_ms=linger_ms,
            logger=_LOG,
            alone=alone,
        )

    return open_sink
