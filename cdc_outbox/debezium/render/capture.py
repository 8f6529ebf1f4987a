"""What each database's connector is told of its own: what it reads, by which names, and how."""

import re
from collections.abc import Mapping

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.contract.topics import raw_topic_name
from cdc_outbox.databases.database import DatabaseKind, DatabaseSpec
from cdc_outbox.databases.quoting import literal
from cdc_outbox.debezium.config import DECODER
from cdc_outbox.spec import Spec

_SCHEMAS = {DatabaseKind.POSTGRESQL: "public", DatabaseKind.SQLSERVER: "dbo"}
"""Where a table is that nobody gave a schema."""


def captured_table(spec: Spec) -> tuple[str, str]:
    """Return what stands before the table's name, its schema or its database, and the name."""
    default = _SCHEMAS.get(spec.database.kind, spec.database.name)
    return spec.outbox.schema or default, spec.outbox.name


def raw_topic(spec: Spec) -> str:
    """Return the topic that an event is for before it is routed."""
    if spec.outbox.mode is OutboxMode.MESSAGE:
        return f"{spec.topic_prefix}.message"
    # One connector may read several databases of SQL Server.
    database = [spec.database.name] if spec.database.kind is DatabaseKind.SQLSERVER else []
    return raw_topic_name(spec.topic_prefix, *database, *captured_table(spec))


def exactly(name: str) -> str:
    """Return a Java regular expression that matches this name only; a comma would start the next of a list."""
    return re.sub(r"([^A-Za-z0-9_])", r"\\\1", name)


_HISTORY = "schema.history.internal"


def remember(spec: Spec) -> dict[str, str]:
    """Return where that is kept, and how little of it: the log has values alone, perhaps older than today's table."""
    return {
        _HISTORY: "io.debezium.storage.kafka.history.KafkaSchemaHistory",
        f"{_HISTORY}.kafka.topic": spec.history.topic,
        f"{_HISTORY}.kafka.bootstrap.servers": spec.history.bootstrap_servers,
        # Every start reads all of it, and other tables' changes are none of the outbox's.
        f"{_HISTORY}.store.only.captured.tables.ddl": "true",
        # Else they get a topic of their own, which no consumer of events reads.
        "include.schema.changes": "false",
        # The first start looks at the columns and reads no row, so nobody who writes one has to wait.
        "snapshot.locking.mode": "none",
    }


HEARTBEAT_PREFIX = "cdc-outbox.heartbeat"
"""The prefix of the logical messages that keep the slot moving while the outbox is idle."""


def postgresql(spec: Spec) -> dict[str, str]:
    """Return what says which changes are read, and how."""
    database = spec.database
    return {
        "database.dbname": database.name,
        "plugin.name": "pgoutput",
        "slot.name": database.slot,
        # Debezium's other strategies move the slot or pass over what lies between it and the offset, and so take away
        # what could still be published after a restore. Where the two do not fit, this one fails or leaves both alone.
        "offset.mismatch.strategy": "no_validation",
        "publication.name": database.publication,
        "publication.autocreate.mode": "disabled",
        # Also without a table: no list means every table, and Debezium would read the columns of them all.
        "table.include.list": exactly(".".join(captured_table(spec))),
        "heartbeat.action.query": _heartbeat(spec),
        **_messages(spec),
    }


def _heartbeat(spec: Spec) -> str:
    """Return the statement that the connector runs every few seconds: it moves the slot while the outbox is idle."""
    if spec.heartbeat_topic is None:
        # A logical message needs no table, and is kept off the topics again.
        return f"select pg_catalog.pg_logical_emit_message(false, '{HEARTBEAT_PREFIX}', '')"
    # With the types of both arguments: another function of its name could fit fewer, or unknown ones, better.
    return f"select {spec.outbox.heartbeat.quoted}(cast({literal(spec.name)} as text), interval '1 minute')"


def decoding(spec: Spec, *, predicate: str) -> dict[str, str]:
    """Return the options of what makes a logical message look like an inserted row; none where events are rows."""
    if spec.outbox.mode is not OutboxMode.MESSAGE:
        return {}
    return {
        "type": DECODER,
        # Without this a null has no field at all, and the router fails on a tombstone or an event without a number.
        "fields.null.include": "true",
        "predicate": predicate,
    }


def _messages(spec: Spec) -> dict[str, str]:
    """Return which logical messages become records: this outbox's, or none."""
    if spec.outbox.mode is not OutboxMode.MESSAGE:
        return {"message.prefix.exclude.list": ".*"}
    # Debezium ignores case, and two outboxes may differ in nothing else.
    included = "(?-i)" + exactly(spec.outbox.message_prefix)
    return {"message.prefix.include.list": included, "binary.handling.mode": "bytes"}


def binlog(spec: Spec) -> dict[str, str]:
    """Return what says which changes are read, and how."""
    database, table = captured_table(spec)
    return {
        # The server hangs up on one of two readers with the same number.
        "database.server.id": spec.database.server_id,
        "database.include.list": exactly(database),
        "table.include.list": exactly(f"{database}.{table}"),
        **remember(spec),
    }


def oracle(spec: Spec) -> dict[str, str]:
    """Return what says which changes are read, and how."""
    pluggable = {"database.pdb.name": spec.database.pdb} if spec.database.pdb else {}
    return {
        "database.dbname": spec.database.name,
        **pluggable,
        "table.include.list": exactly(".".join(captured_table(spec))),
        # Without it a payload in a CLOB comes without its value, and becomes a tombstone or an error.
        "lob.enabled": "true",
        **remember(spec),
    }


def sqlserver(spec: Spec) -> dict[str, str]:
    """Return what says which changes are read, and how."""
    return {
        "database.names": spec.database.name,
        "table.include.list": exactly(".".join(captured_table(spec))),
        **remember(spec),
    }


def mongodb_login(database: DatabaseSpec) -> dict[str, str]:
    """Return how the database is reached, and as whom."""
    user = {"mongodb.user": database.user, "mongodb.password": database.password} if database.user else {}
    return {"mongodb.connection.string": database.connection_string, **user}


def mongodb(spec: Spec) -> dict[str, str]:
    """Return what says which changes are read, and how."""
    database, _ = captured = captured_table(spec)
    return {
        # Not of the whole deployment, which would take a role that may read every database. Nor of the collection
        # alone: Debezium takes what is before the second dot of its name for all of it.
        "capture.scope": "database",
        "capture.target": database,
        "collection.include.list": exactly(".".join(captured)),
        # Documents are inserted only, and an insert brings the whole one: none has to be looked up.
        "capture.mode": "change_streams",
    }


def mongodb_router(options: Mapping[str, str]) -> dict[str, str]:
    """Return the EventRouter's options as the router of documents calls them."""
    renamed = {re.sub(r"^table\.", "collection.", option): value for option, value in options.items()}
    # The payload is a text, and passes as it is.
    return {**renamed, "collection.expand.json.payload": "false"}
