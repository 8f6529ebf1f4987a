"""A spec as the flat configuration that Connect takes. Pure.

What every connector has stands here; what only one database's has, in a module of its own.
"""

from collections.abc import Callable, Mapping

from cdc_outbox.contract.placements import Placement, PlacementKind
from cdc_outbox.contract.topics import HEARTBEATS, Topic
from cdc_outbox.databases.database import DatabaseKind, DatabaseSpec
from cdc_outbox.databases.sql import load
from cdc_outbox.debezium.config import MONGO_ROUTER, ROUTER, ConnectorKind
from cdc_outbox.debezium.event_router import EventRouter
from cdc_outbox.debezium.options.promises import reason_against
from cdc_outbox.debezium.render import capture
from cdc_outbox.debezium.render.capture import HEARTBEAT_PREFIX, exactly, raw_topic
from cdc_outbox.errors import ConfigError
from cdc_outbox.formats.cloudevents import ROW_HEADERS
from cdc_outbox.formats.event_format import EventFormat, PayloadType
from cdc_outbox.spec import Latency, Spec

__all__ = [
    "BINARY_CONVERTER",
    "FOREVER",
    "HEARTBEAT_PREFIX",
    "LATENCIES",
    "REPUBLISHING",
    "owes_rows",
    "owing_rows",
    "raw_topic",
    "refuse_file",
    "render",
    "render_republishing",
    "topic_settings",
]

_SELECTED = "snapshot.select.statement.overrides"
REPUBLISHING = "initial_only"
"""The snapshot mode of a connector that publishes the rows of the table, and nothing behind them."""

_STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
_SIMPLE_CONVERTER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
BINARY_CONVERTER = "io.debezium.converters.BinaryDataConverter"

LATENCIES: Mapping[Latency, Mapping[str, str]] = {
    # Figures: `infra/bench latency`. The connector looks at its queue this often, busy or idle. And Kafka's producer
    # waits another 5 ms for company; larger batches and queues change nothing here.
    Latency.LOW: {"poll.interval.ms": "5", "producer.override.linger.ms": "0"},
    Latency.BALANCED: {"poll.interval.ms": "10"},
    Latency.ECONOMY: {"poll.interval.ms": "500"},
}
"""What each latency profile sets."""

_TOPIC = "topic.creation.default."
FOREVER: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""The settings of a topic from which nothing is ever taken."""
_HEARTBEAT_INTERVAL_MS = 10_000
"""Short enough that an idle outbox holds back seconds of the log, long enough that nobody notices the messages."""

_CAPTURES: Mapping[DatabaseKind, Callable[[Spec], dict[str, str]]] = {
    DatabaseKind.POSTGRESQL: capture.postgresql,
    DatabaseKind.MARIADB: capture.binlog,
    DatabaseKind.MYSQL: capture.binlog,
    DatabaseKind.SQLSERVER: capture.sqlserver,
    DatabaseKind.ORACLE: capture.oracle,
    DatabaseKind.MONGODB: capture.mongodb,
}
"""What a database's own connector is told."""


def render(spec: Spec) -> dict[str, str]:
    """Return the connector's whole configuration, its name included.

    Raises:
        ConfigError: An override would break a promise, or contradict what the spec has a word for; or the database
            is a file.
    """
    refuse_file(spec)
    rendered = _connector(spec) | _pipeline(spec) | _topics(spec)
    _refuse_overrides(spec, rendered)
    return {**rendered, **spec.overrides}


def refuse_file(spec: Spec) -> None:
    """Refuse a database that no connector reads.

    Raises:
        ConfigError: It is SQLite.
    """
    if spec.database.kind not in _CAPTURES:
        raise ConfigError(f"no connector reads {spec.database.kind}", field="database.kind")


def render_republishing(spec: Spec) -> dict[str, str]:
    """Return the configuration with which Debezium publishes the rows in the table, each aggregate's in order.

    The snapshot alone, not the streaming behind it: streaming begins where the slot does. PostgreSQL only.
    """
    return owing_rows(render(spec), spec)


def owing_rows(config: Mapping[str, str], spec: Spec) -> dict[str, str]:
    """Return a configuration that owes the rows of the table: with it, a connector that runs publishes nothing else.

    It is also the record of that debt, which Connect keeps through restarts, until the configuration of
    :func:`render` replaces it.
    """
    table = str(spec.outbox.table)
    statement = load("postgresql", "preflight")["snapshot"].render(spec.outbox.names())
    return {
        **config,
        "snapshot.mode": REPUBLISHING,
        _SELECTED: table,
        f"{_SELECTED}.{table}": statement,
    }


def owes_rows(config: Mapping[str, str]) -> bool:
    """Tell whether a connector was to publish the rows of its table again, and no deployment saw the end of it.

    Others' connectors that take a snapshot only have statements of their own for it at most.
    """
    return config.get("snapshot.mode") == REPUBLISHING and _SELECTED in config


def topic_settings(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a topic that Connect makes by a configuration, without its partitions and replicas."""
    made = {name.removeprefix(_TOPIC): value for name, value in config.items() if name.startswith(_TOPIC)}
    return {name: value for name, value in made.items() if name not in {"partitions", "replication.factor"}}


def _connector(spec: Spec) -> dict[str, str]:
    database = spec.database
    return {
        "name": spec.name,
        "connector.class": ConnectorKind[database.kind.name].value,
        "tasks.max": "1",
        "topic.prefix": spec.topic_prefix,
        **_login(database),
        **_CAPTURES[database.kind](spec),
        "snapshot.mode": "no_data",
        "skipped.operations": "u,d,t",
        "tombstones.on.delete": "false",
        **LATENCIES[spec.latency],
        # Without these the offset of an idle outbox in a busy database stands still: Debezium confirms only what it
        # has seen. A slot then holds back WAL until the disk is full, and a binlog is gone before it was read.
        "heartbeat.interval.ms": str(_HEARTBEAT_INTERVAL_MS),
        "extended.headers.enabled": "false",
        **_strictness(database),
        # A retry writes no event twice; and a worker whose own setting lets events get lost with one broker (acks)
        # fails the task at its start.
        "producer.override.enable.idempotence": "true",
    }


def _login(database: DatabaseSpec) -> dict[str, str]:
    if database.kind is DatabaseKind.MONGODB:
        return capture.mongodb_login(database)
    return {
        "database.hostname": database.host,
        "database.port": database.port,
        "database.user": database.user,
        "database.password": database.password,
    }


def _strictness(database: DatabaseSpec) -> dict[str, str]:
    if database.kind is DatabaseKind.MONGODB:
        return {}  # a document's values have no columns that they could fail to fit
    # A value that cannot be read would become null, and a payload with it a tombstone.
    return {"event.converting.failure.handling.mode": "fail"}


def _pipeline(spec: Spec) -> dict[str, str]:
    decoding = capture.decoding(spec, predicate="isOutbox")
    return {
        "key.converter": _STRING_CONVERTER,
        **_value_converter(spec),
        # A worker may have another, which no consumer expects.
        "header.converter": _SIMPLE_CONVERTER,
        "predicates": "isOutbox",
        "predicates.isOutbox.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.isOutbox.pattern": exactly(raw_topic(spec)),
        "transforms": ",".join(["decode"] * bool(decoding) + ["outbox"]),
        **{f"transforms.decode.{option}": value for option, value in decoding.items()},
        **{f"transforms.outbox.{option}": value for option, value in _router(spec).items()},
    }


def _router(spec: Spec) -> dict[str, str]:
    options = {"predicate": "isOutbox", **event_router_of(spec).options(), **_expansion(spec)}
    if spec.database.kind is DatabaseKind.MONGODB:
        return {"type": MONGO_ROUTER, **capture.mongodb_router(options)}
    return {
        "type": ROUTER,
        **options,
        # The older name of table.field.additional.missing, which Debezium 3.5 reads and later ones pass over: not all
        # connectors come in the same version.
        "table.fields.additional.error.on.missing": "false",
    }


def _value_converter(spec: Spec) -> dict[str, str]:
    payload_type, has_envelope = spec.outbox.payload_type, spec.outbox.format is EventFormat.ENVELOPE
    if has_envelope or payload_type is PayloadType.EXPANDED:
        # A schema in every message would be larger than most payloads.
        return {"value.converter": _JSON_CONVERTER, "value.converter.schemas.enable": "false"}
    if payload_type is PayloadType.BYTES:
        # A heartbeat is no bytes, and would fail the task without it.
        return {
            "value.converter": BINARY_CONVERTER,
            "value.converter.delegate.converter.type": _STRING_CONVERTER,
        }
    return {"value.converter": _STRING_CONVERTER}


def _expansion(spec: Spec) -> dict[str, str]:
    """Return what makes an object of a payload, and keeps in it what Debezium would leave out."""
    if spec.outbox.payload_type is not PayloadType.EXPANDED:
        return {}
    options = {
        "table.expand.json.payload": "true",
        "table.json.payload.null.behavior": "optional_bytes",
        # Debezium before 3.7 does not know it, and drops empty lists.
        "table.json.payload.empty.array.behavior": "optional_string",
    }
    # JsonConverter writes the word null for a value that is none; in an envelope there always is one.
    has_envelope = spec.outbox.format is EventFormat.ENVELOPE
    return options if has_envelope else options | {"route.tombstone.on.empty.payload": "true"}


def _topics(spec: Spec) -> dict[str, str]:
    retention = spec.topics.retention_ms
    return {
        f"{_TOPIC}partitions": str(spec.topics.partitions),
        f"{_TOPIC}replication.factor": str(spec.topics.replication_factor),
        # Compaction keeps one event an aggregate and drops the rest: not a thing to inherit from a broker's default.
        f"{_TOPIC}cleanup.policy": "delete",
        # The time that the router gives a record is that of its row, and what is published late would be deleted
        # before anybody has read it: retention goes by the records' times. The row's own travels in a header.
        f"{_TOPIC}message.timestamp.type": "LogAppendTime",
        **({} if retention is None else {f"{_TOPIC}retention.ms": str(retention)}),
        **_heartbeat_topic(spec),
    }


def _heartbeat_topic(spec: Spec) -> dict[str, str]:
    """Return how the topic of heartbeats is made: their order is what counts, and how far back they go."""
    topic = spec.heartbeat_topic
    if topic is None:
        return {}
    options = {
        "include": exactly(topic),
        "partitions": "1",
        "replication.factor": str(spec.topics.replication_factor),
        **FOREVER,
    }
    return {"topic.creation.groups": "heartbeat"} | {f"topic.creation.heartbeat.{k}": v for k, v in options.items()}


def _refuse_overrides(spec: Spec, rendered: dict[str, str]) -> None:
    findings, first = [], ""
    for option, value in spec.overrides.items():
        reason = reason_against(option, value, rendered)
        if reason:
            finding = spec.document.error("SP106", ("overrides", option), f"cannot be overridden: {reason}.")
            findings.append(finding)
            first = first or f"{finding.location}: {option} cannot be overridden: {reason}"
    if findings:
        raise ConfigError(first, field=findings[0].location.path, findings=tuple(findings))


def topics_of(spec: Spec) -> list[Topic]:
    """Return every topic that a pipeline writes to: its events', its heartbeats', and its history's where it has one.

    Those of the events are as Connect would make them, overrides included. Pure.

    Raises:
        ConfigError: The spec cannot be rendered.
    """
    replicas, settings = spec.topics.replication_factor, topic_settings(render(spec))
    found = [
        Topic(name=name, partitions=spec.topics.partitions, replication_factor=replicas, config=settings)
        for name in spec.contract.topics
    ]
    heartbeats = f"{HEARTBEATS}.{spec.topic_prefix}"
    found.append(Topic(name=heartbeats, partitions=1, replication_factor=replicas, config={"cleanup.policy": "delete"}))
    # What is gone of the one keeps the connector from starting, and of the other nobody knows any more.
    kept = filter(None, (spec.heartbeat_topic, spec.history.topic))
    return [*found, *(Topic(name=name, partitions=1, replication_factor=replicas, config=FOREVER) for name in kept)]


def event_router_of(spec: Spec) -> EventRouter:
    """The EventRouter that carries this outbox's rows as this contract wants them."""
    columns = spec.outbox.columns.names()
    fields = {columns[role]: name for role, name in spec.contract.fields.items() if role in columns}
    own = {columns[role]: header for role, header in spec.contract.placed.items() if role in columns}
    for column, name in spec.role_headers.items():
        within = fields if column in fields else own
        within.pop(column, None) if name is None else within.update({column: name})
    placed = [*own.items()]
    placed += spec.outbox.header_columns.items()
    placed += [(columns[role], header) for header, role in ROW_HEADERS[spec.outbox.format].items()]
    return EventRouter(
        id_column=columns["id"],
        key_column=columns["aggregate_id"],
        payload_column=columns["payload"],
        timestamp_column=spec.outbox.timestamp_column,
        route_by_column=columns["aggregate_type"],
        topic_replacement=spec.contract.topic_of("${routedByValue}"),
        # What was written before a header column was added is read after it.
        ignores_missing=True,
        placements=(
            *(Placement(column, PlacementKind.ENVELOPE, name) for column, name in fields.items()),
            *(Placement(column, alias=header) for column, header in placed),
        ),
    )
