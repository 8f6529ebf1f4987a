"""MySQL, MariaDB, SQL Server, Oracle, MongoDB: the history of the schema, binlogs, redo logs, change streams."""

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import BINLOG, HISTORY, Config, Router
from cdc_outbox.debezium.java_regex import literal
from cdc_outbox.debezium.lint.rule import ERROR, NOTE, WARNING, Hit, Hits, Rulebook

book = Rulebook()

_INTERNAL = "schema.history.internal"


@book.rule("CC701", ERROR, *HISTORY)
def history_in_memory(config: Config) -> Hits:
    if config.get(_INTERNAL).endswith("MemorySchemaHistory"):
        message = "the schema's history goes with the worker, and the task does not start again without it."
        yield Hit(_INTERNAL, message, "Leave it out: Kafka keeps it.")


@book.rule("CC702", WARNING, *HISTORY)
def history_in_a_file(config: Config) -> Hits:
    if config.get(_INTERNAL).endswith("FileSchemaHistory"):
        message = "the schema's history is on one worker's disk, and the next worker does not find it."
        yield Hit(_INTERNAL, message, "Leave it out: Kafka keeps it.")


@book.rule("CC703", NOTE, *HISTORY)
def history_of_every_table(config: Config) -> Hits:
    option = f"{_INTERNAL}.store.only.captured.tables.ddl"
    if config.routers and not config.on(option):
        owner = "server" if config.kind in BINLOG else "database"
        message = f"the history has every table of the {owner}, and every start reads it all."
        yield Hit(option, message, "Set it to true.")


@book.rule("CC704", WARNING, *HISTORY)
def statements_skipped(config: Config) -> Hits:
    option = f"{_INTERNAL}.skip.unparseable.ddl"
    if config.on(option):
        message = "a statement that Debezium cannot read is skipped, and rows after it may be read wrongly."
        yield Hit(option, message, "Set it to false.")


@book.rule("CC705", NOTE, *HISTORY)
def topic_of_schema_changes(config: Config) -> Hits:
    if config.routers and _publishes_schema_changes(config):
        message = "changes of the schema go to a topic of the name of topic.prefix, which an outbox does not need."
        yield Hit("include.schema.changes", message, "Set it to false.")


def _publishes_schema_changes(config: Config) -> bool:
    return config.get("include.schema.changes", "true").lower() != "false"


@book.rule("CC706", ERROR, *HISTORY)
def history_among_events(config: Config) -> Hits:
    option = f"{_INTERNAL}.kafka.topic"
    is_shared = config.has(option) and config.get(option) == config.get("topic.prefix")
    if is_shared and _publishes_schema_changes(config):
        message = "the schema's history and the changes of the schema go to one topic, and neither can be read."
        yield Hit(option, message, "Give the history a topic of its own.")


@book.rule("CC707", WARNING, *HISTORY)
def recovery_for_good(config: Config) -> Hits:
    if config.get("snapshot.mode").lower() == "recovery":
        message = "recovery builds the history anew from today's tables; it is right once, and wrong after a change."
        yield Hit("snapshot.mode", message, "Set it to no_data when the connector runs again.")


@book.rule("CC708", NOTE, *BINLOG)
def locks_for_nothing(config: Config) -> Hits:
    if config.get("snapshot.mode").lower() == "no_data" and config.get("snapshot.locking.mode").lower() != "none":
        message = "the first start locks tables, although no row is read."
        yield Hit("snapshot.locking.mode", message, "Set it to none.")


@book.rule("CC709", WARNING, *BINLOG, DatabaseKind.SQLSERVER, DatabaseKind.ORACLE, DatabaseKind.MONGODB)
def offset_that_stands_still(config: Config) -> Hits:
    if config.routers and config.number("heartbeat.interval.ms", 0) == 0:
        message = "without heartbeats the offset of an idle outbox stays where it is, until the log behind it is gone."
        yield Hit("heartbeat.interval.ms", message, "Set it to 10000.")


@book.rule("CC801", NOTE, DatabaseKind.SQLSERVER)
def snapshot_that_locks(config: Config) -> Hits:
    reads = config.get("snapshot.mode", "initial").lower() != "no_data"
    if reads and config.get("snapshot.isolation.mode", "repeatable_read").lower() in {"repeatable_read", "exclusive"}:
        message = "the snapshot keeps writers of the outbox waiting while it reads."
        yield Hit("snapshot.isolation.mode", message, "Set it to snapshot or read_committed.")


@book.rule("CC802", NOTE, DatabaseKind.ORACLE)
def payload_that_is_large(config: Config) -> Hits:
    if config.routers and not config.on("lob.enabled"):
        message = "columns of CLOB and BLOB come without their values: such a payload is lost."
        yield Hit("lob.enabled", message, "Keep the payload in VARCHAR2, or set it to true.")


@book.rule("CC803", ERROR, DatabaseKind.ORACLE)
def transactions_given_up(config: Config) -> Hits:
    option = "log.mining.transaction.retention.ms"
    limit = config.number(option, 0)
    if limit:
        yield Hit(option, "a transaction that lasts longer is given up, and its events are lost.", "Set it to 0.")


@book.rule("CC804", WARNING, DatabaseKind.ORACLE)
def strategy_of_yesterday(config: Config) -> Hits:
    if config.get("log.mining.strategy").lower() == "redo_log_catalog":
        message = "redo_log_catalog is deprecated since Debezium 3.6."
        yield Hit("log.mining.strategy", message, "Leave it out: online_catalog is the default.")


@book.rule("CC805", ERROR, DatabaseKind.MONGODB)
def query_without_a_database(config: Config) -> Hits:
    if config.has("heartbeat.action.query") and config.version < (3, 7):
        message = "heartbeat.action.query is for relational databases: before Debezium 3.7 the task fails on it."
        yield Hit("heartbeat.action.query", message, "Leave it out.")


@book.rule("CC806", ERROR, DatabaseKind.MONGODB)
def documents_skipped(config: Config) -> Hits:
    if config.get("cursor.oversize.handling.mode").lower() == "skip":
        message = "a change that is too large is skipped without a word."
        yield Hit("cursor.oversize.handling.mode", message, "Leave it at fail.")


@book.rule("CC807", ERROR, DatabaseKind.MONGODB)
def pattern_taken_literally(config: Config) -> Hits:
    for pattern in config.captured if config.get("filters.match.mode").lower() == "literal" else ():
        if literal(pattern) != pattern:
            message = f"{pattern} is taken as it is written, and matches no collection."
            yield Hit("collection.include.list", message, "Write the plain name, or take filters.match.mode=regex.")


@book.router_rule("CC808", NOTE, DatabaseKind.MONGODB)
def payload_that_is_a_document(config: Config, router: Router) -> Hits:
    option = "collection.expand.json.payload"
    if router.of_mongo and option not in router.options:
        message = "a payload that is a document becomes Extended JSON, with $numberInt and its like."
        yield Hit(router.prefix + option, message, "Store the payload as text, and set it to false.")


@book.rule("CC809", WARNING, DatabaseKind.MONGODB)
def changes_of_everybody(config: Config) -> Hits:
    if not config.captured and not config.has("database.include.list"):
        message = "no collection is named: the changes of every database are read."
        yield Hit("collection.include.list", message, "Name the outbox.")
