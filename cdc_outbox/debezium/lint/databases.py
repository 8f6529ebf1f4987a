"""Rules about MySQL, MariaDB, SQL Server, Oracle and MongoDB: schema history, offsets, snapshots, payloads."""

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import BINLOG, HISTORY, Config, Router
from cdc_outbox.debezium.java_regex import literal
from cdc_outbox.debezium.lint.rule import ERROR, NOTE, WARNING, Hit, Hits, Rulebook
from cdc_outbox.debezium.options.capture_options import BINLOG_BUFFER_EVENTS

book = Rulebook()

_INTERNAL = "schema.history.internal"
_BUFFER = "binlog.buffer.size"


@book.rule("CC701", ERROR, *HISTORY)
def history_in_memory(config: Config) -> Hits:
    if config.get(_INTERNAL).endswith("MemorySchemaHistory"):
        message = "the schema history is lost when the task stops, and the task does not start again without it."
        yield Hit(_INTERNAL, message, "Remove the option; the history is then stored in Kafka.")


@book.rule("CC702", WARNING, *HISTORY)
def history_in_a_file(config: Config) -> Hits:
    if config.get(_INTERNAL).endswith("FileSchemaHistory"):
        message = "the schema history is on one worker's disk, where another worker does not find it."
        yield Hit(_INTERNAL, message, "Remove the option; the history is then stored in Kafka.")


@book.rule("CC703", NOTE, *HISTORY)
def history_of_all_tables(config: Config) -> Hits:
    option = f"{_INTERNAL}.store.only.captured.tables.ddl"
    if config.routers and not config.on(option):
        owner = "server" if config.kind in BINLOG else "database"
        message = f"the schema history contains every table of the {owner}, and every start reads all of it."
        yield Hit(option, message, "Set it to true.")


@book.rule("CC704", WARNING, *HISTORY)
def skipped_statements(config: Config) -> Hits:
    option = f"{_INTERNAL}.skip.unparseable.ddl"
    if config.on(option):
        message = "Debezium skips statements that it cannot parse, and may read later rows with a wrong structure."
        yield Hit(option, message, "Set it to false.")


@book.rule("CC705", NOTE, *HISTORY)
def schema_change_topic(config: Config) -> Hits:
    if config.routers and _publishes_schema_changes(config):
        message = "schema changes are published to a topic named after topic.prefix, which an outbox does not need."
        yield Hit("include.schema.changes", message, "Set it to false.")


def _publishes_schema_changes(config: Config) -> bool:
    return config.get("include.schema.changes", "true").lower() != "false"


@book.rule("CC706", ERROR, *HISTORY)
def shared_history_topic(config: Config) -> Hits:
    option = f"{_INTERNAL}.kafka.topic"
    is_shared = config.has(option) and config.get(option) == config.get("topic.prefix")
    if is_shared and _publishes_schema_changes(config):
        message = "the schema history and schema changes use one topic, so Debezium cannot read the history."
        yield Hit(option, message, "Use another topic for the schema history.")


@book.rule("CC707", WARNING, *HISTORY)
def permanent_recovery(config: Config) -> Hits:
    if config.get("snapshot.mode").lower() == "recovery":
        message = "recovery rebuilds the schema history from the current tables, which is wrong after a schema change."
        yield Hit("snapshot.mode", message, "Set it to no_data after the recovery.")


@book.rule("CC708", NOTE, *BINLOG)
def unneeded_locks(config: Config) -> Hits:
    if config.get("snapshot.mode").lower() == "no_data" and config.get("snapshot.locking.mode").lower() != "none":
        message = "the first start locks tables although it reads no rows."
        yield Hit("snapshot.locking.mode", message, "Set it to none.")


@book.rule("CC709", WARNING, *BINLOG, DatabaseKind.SQLSERVER, DatabaseKind.ORACLE, DatabaseKind.MONGODB)
def offset_without_heartbeats(config: Config) -> Hits:
    if config.routers and config.number("heartbeat.interval.ms", 0) == 0:
        message = "without heartbeats the offset of an idle outbox does not advance, until its log is purged."
        yield Hit("heartbeat.interval.ms", message, "Set it to 10000.")


@book.rule("CC710", WARNING, DatabaseKind.MARIADB)
def rolled_back_transactions(config: Config) -> Hits:
    if config.number(_BUFFER, 0) == 0:
        message = "the connector publishes events of some transactions that were rolled back."
        yield Hit(_BUFFER, message, f"Set it to {BINLOG_BUFFER_EVENTS}.")


@book.rule("CC711", ERROR, *BINLOG)
def small_buffer(config: Config) -> Hits:
    size, is_mysql = config.number(_BUFFER, 0), config.kind is DatabaseKind.MYSQL
    if size and (is_mysql or size < BINLOG_BUFFER_EVENTS):
        message = "a committed transaction with more binlog events than this loses the rest of its events."
        yield Hit(_BUFFER, message, "Remove the option." if is_mysql else f"Set it to {BINLOG_BUFFER_EVENTS}.")


@book.rule("CC801", NOTE, DatabaseKind.SQLSERVER)
def locking_snapshot(config: Config) -> Hits:
    reads = config.get("snapshot.mode", "initial").lower() != "no_data"
    if reads and config.get("snapshot.isolation.mode", "repeatable_read").lower() in {"repeatable_read", "exclusive"}:
        message = "the snapshot blocks writers of the outbox while it reads."
        yield Hit("snapshot.isolation.mode", message, "Set it to snapshot or read_committed.")


@book.rule("CC802", NOTE, DatabaseKind.ORACLE)
def large_payload(config: Config) -> Hits:
    if config.routers and not config.on("lob.enabled"):
        message = "CLOB and BLOB columns are read without their values: a payload in one is lost."
        yield Hit("lob.enabled", message, "Use VARCHAR2 for the payload, or set the option to true.")


@book.rule("CC803", ERROR, DatabaseKind.ORACLE)
def discarded_transactions(config: Config) -> Hits:
    option = "log.mining.transaction.retention.ms"
    limit = config.number(option, 0)
    if limit:
        yield Hit(option, "the connector discards a longer transaction, and its events are lost.", "Set it to 0.")


@book.rule("CC804", WARNING, DatabaseKind.ORACLE)
def deprecated_mining_strategy(config: Config) -> Hits:
    if config.get("log.mining.strategy").lower() == "redo_log_catalog":
        message = "redo_log_catalog is deprecated since Debezium 3.6."
        yield Hit("log.mining.strategy", message, "Remove the option; the default is online_catalog.")


@book.rule("CC805", ERROR, DatabaseKind.MONGODB)
def heartbeat_query_on_mongodb(config: Config) -> Hits:
    if config.has("heartbeat.action.query") and config.version < (3, 7):
        message = "heartbeat.action.query is for relational databases: before Debezium 3.7 the task fails on it."
        yield Hit("heartbeat.action.query", message, "Remove the option.")


@book.rule("CC806", ERROR, DatabaseKind.MONGODB)
def skipped_documents(config: Config) -> Hits:
    if config.get("cursor.oversize.handling.mode").lower() == "skip":
        message = "the connector skips changes that exceed the size limit, without an error."
        yield Hit("cursor.oversize.handling.mode", message, "Set it to fail, the default.")


@book.rule("CC807", ERROR, DatabaseKind.MONGODB)
def pattern_with_literal_matching(config: Config) -> Hits:
    for pattern in config.captured if config.get("filters.match.mode").lower() == "literal" else ():
        if literal(pattern) != pattern:
            message = f"{pattern} is compared literally, and matches no collection."
            yield Hit("collection.include.list", message, "Write the plain name, or set filters.match.mode to regex.")


@book.router_rule("CC808", NOTE, DatabaseKind.MONGODB)
def extended_json_payload(config: Config, router: Router) -> Hits:
    option = "collection.expand.json.payload"
    if router.of_mongo and option not in router.options:
        message = "a payload that is a document becomes Extended JSON, for example with $numberInt."
        yield Hit(router.prefix + option, message, "Store the payload as text, and set the option to false.")


@book.rule("CC809", WARNING, DatabaseKind.MONGODB)
def every_database_captured(config: Config) -> Hits:
    if not config.captured and not config.has("database.include.list"):
        message = "no collection is listed: the connector reads the changes of every database."
        yield Hit("collection.include.list", message, "List the outbox.")
