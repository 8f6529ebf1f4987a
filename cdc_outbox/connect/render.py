"""A spec as the flat configuration that Connect takes. Pure."""

import re

from cdc_outbox.connect.lint.promises import reason_against
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


def render(spec: Spec) -> dict[str, str]:
    """Return the connector's whole configuration, its name included.

    Raises:
        ConfigError: An override would break a promise, or contradict what the spec has a word for; or the database
            is none that a connector can be rendered for.
    """
    refuse_other_kind(spec)
    rendered = _connector(spec) | _pipeline(spec) | _topics(spec)
    _refuse_overrides(spec, rendered)
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


def _refuse_overrides(spec: Spec, rendered: dict[str, str]) -> None:
    findings, first = [], ""
    for option, value in spec.overrides.items():
        reason = reason_against(option, value, rendered)
        if reason:
            finding = spec.document.error("SP106", ("overrides", option), f"cannot be overridden: {reason}.")
            findings.append(finding)
            first = first or f"{finding.place}: {option} cannot be overridden: {reason}"
    if findings:
        raise ConfigError(first, field=findings[0].place.path, findings=tuple(findings))
