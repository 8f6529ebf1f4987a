"""The options that each database's connector has of its own: what it reads, by which names, and how."""

import re
from collections.abc import Callable, Iterator, Mapping

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.contract.topics import raw_topic_name
from cdc_outbox.databases.database import DatabaseKind, DatabaseSpec
from cdc_outbox.databases.quoting import literal
from cdc_outbox.debezium.options.capture_options import BINLOG_BUFFER_EVENTS
from cdc_outbox.debezium.render.options import RenderedOption, option
from cdc_outbox.errors import ConfigError
from cdc_outbox.spec import Spec

_SCHEMAS = {DatabaseKind.POSTGRESQL: "public", DatabaseKind.SQLSERVER: "dbo"}
"""The schema of a table whose spec names none."""


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


def table_keys(spec: Spec) -> tuple[str, ...]:
    """Return the keys that name the captured table."""
    return ("outbox.table", "outbox.schema") if spec.outbox.schema else ("outbox.table",)


def _around_keys(spec: Spec) -> tuple[str, ...]:
    """Return the keys that name the table's database, where a database stands before the table's name."""
    return ("outbox.schema",) if spec.outbox.schema else ("database.name",)


_HISTORY = "schema.history.internal"


def remember(spec: Spec) -> Iterator[RenderedOption]:
    """Yield where that is kept, and how little of it: the log has values alone, perhaps older than today's table."""
    yield option(_HISTORY, "io.debezium.storage.kafka.history.KafkaSchemaHistory")
    yield option(f"{_HISTORY}.kafka.topic", spec.history.topic, "history.topic")
    brokers = spec.history.bootstrap_servers
    yield option(f"{_HISTORY}.kafka.bootstrap.servers", brokers, "history.bootstrap_servers")
    # Every start reads all of it, and other tables' changes are none of the outbox's.
    yield option(f"{_HISTORY}.store.only.captured.tables.ddl", "true")
    # Else they get a topic of their own, which no consumer of events reads.
    yield option("include.schema.changes", "false")
    # The first start reads the columns and no row, so writers need not wait.
    yield option("snapshot.locking.mode", "none")


HEARTBEAT_PREFIX = "cdc-outbox.heartbeat"
"""The prefix of the logical messages that keep the slot moving while the outbox is idle."""


def login(database: DatabaseSpec) -> Iterator[RenderedOption]:
    """Yield where the database is reached, and as whom."""
    if database.kind is DatabaseKind.MONGODB:
        yield option("mongodb.connection.string", database.connection_string, "database.connection_string")
        yield option("mongodb.user", database.user, "database.user")
        yield option("mongodb.password", database.password, "database.password")
        return
    yield option("database.hostname", database.host, "database.host")
    yield option("database.port", database.port, "database.port")
    yield option("database.user", database.user, "database.user")
    yield option("database.password", database.password, "database.password")


def postgresql(spec: Spec) -> Iterator[RenderedOption]:
    """Yield what says which changes are read, and how."""
    database = spec.database
    yield option("database.dbname", database.name, "database.name")
    yield option("plugin.name", "pgoutput")
    yield option("slot.name", database.slot, "database.slot")
    # Debezium's other strategies move the slot or pass over what lies between it and the offset, and so take away
    # what could still be published after a restore. Where the two do not fit, this one fails or leaves both alone.
    yield option("offset.mismatch.strategy", "no_validation")
    yield option("publication.name", database.publication, "database.publication")
    yield option("publication.autocreate.mode", "disabled")
    # Also without a table: no list means every table, and Debezium would read the columns of them all.
    yield option("table.include.list", exactly(".".join(captured_table(spec))), *table_keys(spec))
    yield _heartbeat(spec)
    yield from _messages(spec)


def _heartbeat(spec: Spec) -> RenderedOption:
    """Return the statement that the connector runs every few seconds: it moves the slot while the outbox is idle."""
    if spec.heartbeat_topic is None:
        # A logical message needs no table, and is kept off the topics again.
        statement = f"select pg_catalog.pg_logical_emit_message(false, '{HEARTBEAT_PREFIX}', '')"
        return option("heartbeat.action.query", statement)
    # With the types of both arguments: another function of its name could fit fewer, or unknown ones, better.
    statement = f"select {spec.outbox.heartbeat.quoted}(cast({literal(spec.name)} as text), interval '1 minute')"
    return option("heartbeat.action.query", statement, *table_keys(spec))


def _messages(spec: Spec) -> Iterator[RenderedOption]:
    """Yield which logical messages become records: this outbox's, or none."""
    reads = spec.outbox.mode is OutboxMode.MESSAGE
    yield option("message.prefix.exclude.list", "" if reads else ".*", "outbox.mode")
    # Debezium ignores case, and two outboxes may differ in nothing else.
    included = "(?-i)" + exactly(spec.outbox.message_prefix) if reads else ""
    yield option("message.prefix.include.list", included, "outbox.mode", *table_keys(spec))
    yield option("binary.handling.mode", "bytes" if reads else "", "outbox.mode")


def binlog(spec: Spec) -> Iterator[RenderedOption]:
    """Yield what says which changes are read, and how."""
    database, table = captured_table(spec)
    # The server hangs up on one of two readers with the same number.
    yield option("database.server.id", spec.database.server_id, "database.server_id")
    yield option("database.include.list", exactly(database), *_around_keys(spec))
    yield option("table.include.list", exactly(f"{database}.{table}"), *table_keys(spec))
    if spec.database.kind is DatabaseKind.MARIADB:
        # Its binlog has transactions that were rolled back. MySQL's has none, and there the option only does harm.
        yield option("binlog.buffer.size", str(BINLOG_BUFFER_EVENTS))
    yield from remember(spec)


def oracle(spec: Spec) -> Iterator[RenderedOption]:
    """Yield what says which changes are read, and how."""
    yield option("database.dbname", spec.database.name, "database.name")
    yield option("database.pdb.name", spec.database.pdb, "database.pdb")
    yield option("table.include.list", exactly(".".join(captured_table(spec))), *table_keys(spec))
    # Without it a payload in a CLOB comes without its value, and becomes a tombstone or an error.
    yield option("lob.enabled", "true")
    yield from remember(spec)


def sqlserver(spec: Spec) -> Iterator[RenderedOption]:
    """Yield what says which changes are read, and how."""
    yield option("database.names", spec.database.name, "database.name")
    yield option("table.include.list", exactly(".".join(captured_table(spec))), *table_keys(spec))
    yield from remember(spec)


def mongodb(spec: Spec) -> Iterator[RenderedOption]:
    """Yield what says which changes are read, and how."""
    database, _ = captured = captured_table(spec)
    # Not of the whole deployment, which would take a role that may read every database. Nor of the collection
    # alone: Debezium takes what is before the second dot of its name for all of it.
    yield option("capture.scope", "database")
    yield option("capture.target", database, *_around_keys(spec))
    yield option("collection.include.list", exactly(".".join(captured)), *table_keys(spec))
    # Documents are inserted only, and an insert brings the whole one: none has to be looked up.
    yield option("capture.mode", "change_streams")


CAPTURES: Mapping[DatabaseKind, Callable[[Spec], Iterator[RenderedOption]]] = {
    DatabaseKind.POSTGRESQL: postgresql,
    DatabaseKind.MARIADB: binlog,
    DatabaseKind.MYSQL: binlog,
    DatabaseKind.SQLSERVER: sqlserver,
    DatabaseKind.ORACLE: oracle,
    DatabaseKind.MONGODB: mongodb,
}
"""Yields the options that a database's connector has of its own."""


def refuse_file(spec: Spec) -> None:
    """Refuse a database that no connector reads.

    Raises:
        ConfigError: It is SQLite.
    """
    if spec.database.kind not in CAPTURES:
        raise ConfigError(
            f"no supported connector reads {spec.database.kind}",
            field="database.kind",
            hint="This command needs a database with a connector, such as PostgreSQL: correct database.kind.",
        )
