"""A spec as the flat configuration that Connect takes. Pure."""

import re

from cdc_outbox.database import DatabaseKind
from cdc_outbox.errors import ConfigError
from cdc_outbox.modes import OutboxMode
from cdc_outbox.spec import Latency, Spec
from cdc_outbox.sql import load

CONNECTOR_CLASS = "io.debezium.connector.postgresql.PostgresConnector"
HEARTBEAT_PREFIX = "cdc-outbox.heartbeat"
"""The prefix of the logical messages that keep the slot moving while the outbox is idle."""

REPUBLISHING = "initial_only"
"""The snapshot mode of a connector that publishes the rows of the table, and nothing behind them."""

_STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"

_POLL_INTERVAL_MS = {
    # Figures: `infra/bench latency`. The connector looks at its queue this often, busy or idle.
    Latency.LOW: 5,
    Latency.BALANCED: 10,
    Latency.ECONOMY: 500,
}

_DECODING = {
    "transforms.decode.type": "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent",
    # Without this a null has no field at all, and the router fails on a tombstone or an event without a number.
    "transforms.decode.fields.null.include": "true",
    "transforms.decode.predicate": "isOutbox",
}
"""Makes a logical message look like an inserted row."""

_HEARTBEAT_INTERVAL_MS = 10_000
"""Short enough that an idle outbox holds back seconds of WAL, long enough that nobody notices the messages."""

_PROMISES = {
    "binary.handling.mode": "the columns would reach the router as another type",
    "column.": "the router would miss a column, or find another value in it",
    "errors.tolerance": "what cannot be converted would be skipped without a word",
    "event.processing.failure.handling.mode": "what cannot be processed would be skipped without a word",
    "field.name.adjustment.mode": "the router would not find the columns",
    "flush.lsn.source": "the slot would hold back WAL until the disk is full",
    "header.converter": "consumers could not read the headers",
    "key.converter": "another key puts an aggregate into another partition, and its order is lost",
    "lsn.flush.": "the slot would hold back WAL until the disk is full, or give it up too early",
    "message.prefix": "the spec decides which messages are events",
    "post.processors": "the spec decides what becomes of a row",
    "predicates": "the spec decides what becomes of a row",
    "producer.override.acks": "an event could be lost with the broker that alone had it",
    "producer.override.enable.idempotence": "a retry could write an event twice, or out of order",
    "producer.override.key.serializer": "another key puts an aggregate into another partition, and its order is lost",
    "producer.override.max.in.flight.requests.per.connection": "a retry could write events out of order",
    "producer.override.partitioner.": "an aggregate's events would not stay in one partition",
    "producer.override.retries": "without retries Kafka gives up idempotence",
    "producer.override.transactional.id": "the producer is Connect's to set up",
    "producer.override.value.serializer": "consumers could not read the events",
    "provide.transaction.metadata": "events get lost at a restart with it (Debezium dbz#76)",
    "schema.exclude.list": "the outbox could be left out",
    "schema.include.list": "the outbox could be left out",
    "schema.name.adjustment.mode": "the router would not find what it looks for",
    "slot.drop.on.stop": "what is committed while the connector is stopped would be lost",
    "slot.stream.params": "the spec decides what the slot sends",
    "snapshot.include.collection.list": "the outbox could be left out when its events are published again",
    "snapshot.mode": "the spec decides it",
    "snapshot.query.mode": "events would be published again in another order",
    "snapshot.select.statement.overrides": "events would be published again in another order",
    "table.exclude.list": "the outbox could be left out",
    "tasks.max": "a slot has one reader",
    "time.precision.mode": "the router would not understand the time of an event",
    "topic.delimiter": "rows would pass the router by",
    "topic.naming.strategy": "rows would pass the router by",
    "transforms": "the spec decides what becomes of a row",
    "value.converter": "consumers could not read the events",
}
"""Options that would break a promise, and the reason; what follows one after a dot, or after its own, belongs to it."""

_TUNABLE = {
    "heartbeat.interval.ms": (100, 600_000, "0 would let an idle outbox hold back WAL until the disk is full"),
    "poll.interval.ms": (1, 60_000, "0 would keep a core busy, and more than a minute looks like a standstill"),
}
"""What the spec chooses and a user may choose otherwise: from, to, and why no other value."""

_CLEANUP_POLICY = re.compile(r"topic\.creation\..+\.cleanup\.policy")


def render(spec: Spec) -> dict[str, str]:
    """Return the connector's whole configuration, its name included.

    Raises:
        ConfigError: An override would break a promise, or contradict what the spec has a word for; or the database
            is none that a connector can be rendered for.
    """
    refuse_other_kind(spec)
    rendered = _connector(spec) | _pipeline(spec) | _topics(spec)
    for option in spec.overrides:
        _refuse_override(spec, option, rendered)
    return {**rendered, **spec.overrides}


def refuse_other_kind(spec: Spec) -> None:
    """Refuse a database whose connector cannot be rendered yet.

    Raises:
        ConfigError: It is not PostgreSQL.
    """
    if spec.database.kind is not DatabaseKind.POSTGRESQL:
        raise ConfigError(
            f"connectors are made for postgresql so far, not for {spec.database.kind}", field="database.kind"
        )


def render_republishing(spec: Spec) -> dict[str, str]:
    """Return the configuration with which Debezium publishes the rows in the table, each aggregate's in order.

    The snapshot alone, not the streaming behind it: streaming shall begin where the slot does.
    """
    table = str(spec.outbox.table)
    statement = load("postgresql", "preflight")["snapshot"].render(spec.outbox.names())
    return render(spec) | {
        "snapshot.mode": REPUBLISHING,
        "snapshot.select.statement.overrides": table,
        f"snapshot.select.statement.overrides.{table}": statement,
    }


def raw_topic(spec: Spec) -> str:
    """Return the topic that an event is for before it is routed; Debezium replaces what Kafka refuses."""
    if spec.outbox.mode is OutboxMode.MESSAGE:
        return f"{spec.name}.message"
    return re.sub(r"[^A-Za-z0-9._-]", "_", f"{spec.name}.{spec.outbox.table.schema}.{spec.outbox.name}")


def _connector(spec: Spec) -> dict[str, str]:
    database = spec.database
    return {
        "name": spec.name,
        "connector.class": CONNECTOR_CLASS,
        "tasks.max": "1",
        "topic.prefix": spec.name,
        "database.hostname": database.host,
        "database.port": database.port,
        "database.user": database.user,
        "database.password": database.password,
        "database.dbname": database.name,
        "plugin.name": "pgoutput",
        "slot.name": database.slot,
        # Slot and offsets must fit each other: a slot that was made again without them is an error, not a hole.
        "offset.mismatch.strategy": "trust_offset",
        "publication.name": database.publication,
        "publication.autocreate.mode": "disabled",
        # Also without a table: no list means every table, and Debezium would read the columns of them all.
        "table.include.list": _exactly(f"{spec.outbox.table.schema}.{spec.outbox.name}"),
        "snapshot.mode": "no_data",
        "skipped.operations": "u,d,t",
        "tombstones.on.delete": "false",
        "poll.interval.ms": str(_POLL_INTERVAL_MS[spec.latency]),
        # Without these an idle outbox in a busy database holds back WAL until the disk is full: Debezium confirms
        # only what it has seen. A logical message needs no table, and is kept off the topics again.
        "heartbeat.interval.ms": str(_HEARTBEAT_INTERVAL_MS),
        "heartbeat.action.query": f"select pg_logical_emit_message(false, '{HEARTBEAT_PREFIX}', '')",
        **_messages(spec),
        "extended.headers.enabled": "false",
    }


def _messages(spec: Spec) -> dict[str, str]:
    """Return which logical messages become records: this outbox's, or none."""
    if spec.outbox.mode is not OutboxMode.MESSAGE:
        return {"message.prefix.exclude.list": ".*"}
    # Debezium ignores case, and two outboxes may differ in nothing else.
    included = "(?-i)" + _exactly(spec.outbox.message_prefix)
    return {"message.prefix.include.list": included, "binary.handling.mode": "bytes"}


def _pipeline(spec: Spec) -> dict[str, str]:
    options = spec.router.options()
    decoding = _DECODING if spec.outbox.mode is OutboxMode.MESSAGE else {}
    return {
        "key.converter": _STRING_CONVERTER,
        "value.converter": _STRING_CONVERTER,
        "predicates": "isOutbox",
        "predicates.isOutbox.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
        "predicates.isOutbox.pattern": _exactly(raw_topic(spec)),
        "transforms": ",".join(["decode"] * bool(decoding) + ["outbox"]),
        **decoding,
        "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "transforms.outbox.predicate": "isOutbox",
        **{f"transforms.outbox.{option}": value for option, value in options.items()},
    }


def _topics(spec: Spec) -> dict[str, str]:
    return {
        "topic.creation.default.partitions": str(spec.topics.partitions),
        "topic.creation.default.replication.factor": str(spec.topics.replication_factor),
        # Compaction keeps one event an aggregate and drops the rest: not a thing to inherit from a broker's default.
        "topic.creation.default.cleanup.policy": "delete",
    }


def _exactly(name: str) -> str:
    """Return a Java regular expression that matches this name only; a comma would start the next of a list."""
    return re.sub(r"([^A-Za-z0-9_])", r"\\\1", name)


def _refuse_override(spec: Spec, option: str, rendered: dict[str, str]) -> None:
    reason = _reason_against(option, spec.overrides[option], rendered)
    if reason:
        place = spec.document.place(("overrides", option))
        finding = spec.document.error("SP106", ("overrides", option), f"cannot be overridden: {reason}.")
        raise ConfigError(f"{place}: {option} cannot be overridden: {reason}", field=place.path, findings=(finding,))


def _reason_against(option: str, value: str, rendered: dict[str, str]) -> str:
    """Return why an option may not have this value, empty if it may."""
    for promise, reason in _PROMISES.items():
        if option == promise or option.startswith(f"{promise.removesuffix('.')}."):
            return reason
    if _CLEANUP_POLICY.fullmatch(option):
        return "" if value == "delete" else "compaction keeps one event an aggregate and drops the rest"
    if option in _TUNABLE:
        least, most, reason = _TUNABLE[option]
        fits = re.fullmatch(r"[0-9]{1,9}", value) and least <= int(value) <= most
        return "" if fits else f"it must be a number from {least} to {most:,}; {reason}"
    return "the spec decides it" if option in rendered else ""
