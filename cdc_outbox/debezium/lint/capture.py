"""Rules about captured tables, heartbeats, snapshots and logical messages."""

import re

from cdc_outbox.databases.database import CAPTURED, DatabaseKind
from cdc_outbox.debezium.config import DECODER, Config, Router, listed
from cdc_outbox.debezium.java_regex import literal, matches
from cdc_outbox.debezium.lint.path import FEW, imagined_table, is_outbox, names_database, reaches
from cdc_outbox.debezium.lint.rule import ERROR, NOTE, WARNING, Hit, Hits, Rulebook

book = Rulebook()

_NARROW = "List the outbox, and give the router a predicate that matches the outbox's topic only."
_WRITES = re.compile(r"\b(?:insert\s+into|update|merge\s+into|replace\s+into)\s+([\w.\"`\[\]$]+)", re.IGNORECASE)
_MAKES_TABLE = re.compile(r"\binto\b", re.IGNORECASE)
_CALLED = re.compile(r"([\w.]+)\"?\s*\(")
_WRITING_NOTHING = frozenset(
    {"now", "version", "count", "max", "min", "coalesce", "clock_timestamp", "pg_current_wal_lsn"}
)
_RELATIONAL = tuple(kind for kind in CAPTURED if kind is not DatabaseKind.MONGODB)


@book.router_rule("CC501", ERROR, *CAPTURED)
def every_table_captured(config: Config, router: Router) -> Hits:
    kind = config.kind
    excludes = kind and config.has(kind.include_list.replace("include", "exclude"))
    if not kind or config.captured or config.reads_messages or excludes:
        return
    if reaches(config, router, imagined_table(config)):
        message = f"{kind.include_list} is not set: the first row of any other {kind.nouns[1]} fails the task."
        yield Hit(kind.include_list, message, _NARROW)


@book.router_rule("CC502", ERROR, *CAPTURED)
def other_tables_routed(config: Config, router: Router) -> Hits:
    kind = config.kind
    # If no name contains outbox, each table may be one.
    named = kind is not None and any(map(is_outbox, config.captured))
    tables = [table for table in config.tables if named and not is_outbox(table)]
    others = [table for table in tables[:FEW] if reaches(config, router, table)]
    if kind and others:
        message = f"{others[0]} is captured too, and its rows reach the router: its first row fails the task."
        yield Hit(kind.include_list, message, _NARROW)


@book.router_rule("CC503", ERROR, *CAPTURED)
def signal_table_routed(config: Config, router: Router) -> Hits:
    signals = config.get("signal.data.collection")
    if signals and not is_outbox(signals) and reaches(config, router, _as_listed(config, signals)):
        message = f"the signal table {signals} is always captured, and its first row fails the task in the router."
        yield Hit("signal.data.collection", message, _NARROW)


def _as_listed(config: Config, table: str) -> str:
    """Return a table's full name as in include lists: on SQL Server without the database."""
    return table.partition(".")[2] if config.kind is DatabaseKind.SQLSERVER and table.count(".") == 2 else table


@book.router_rule("CC504", WARNING, *CAPTURED)
def pattern_for_several_tables(config: Config, router: Router) -> Hits:
    several = [
        pattern
        for pattern in config.captured[:FEW]
        if literal(pattern) is None
        and not is_outbox(pattern)
        and reaches(config, router, imagined_table(config, pattern))
    ]
    if len(config.captured) > 1 and not any(map(is_outbox, config.captured)):
        reaching = [table for table in config.tables[:FEW] if reaches(config, router, table)]
        several = [*reaching, *several] if len(reaching) + len(several) > 1 else []
    if config.kind and several:
        message = (
            f"{several[0]} may match a table that is not an outbox, and the first row of this table fails the task."
        )
        yield Hit(config.kind.include_list, message, _NARROW)


@book.rule("CC506", ERROR, *CAPTURED)
def name_without_schema(config: Config) -> Hits:
    for table in config.tables if config.kind else ():
        if config.kind and "." not in table:
            around, noun = config.kind.nouns
            message = f"{table} matches no {noun}: this connector compares the whole name, {around}.{noun}."
            yield Hit(config.kind.include_list, message, f"Write {around}\\.{table}.")


@book.rule("CC507", ERROR, DatabaseKind.POSTGRESQL, DatabaseKind.SQLSERVER, DatabaseKind.ORACLE)
def name_with_database(config: Config) -> Hits:
    for table in config.tables:
        if names_database(config, table):
            message = f"{table} matches no table: this connector compares schema.table, without the database."
            yield Hit("table.include.list", message, f"Write {table.partition('.')[2]}.")


@book.rule("CC508", ERROR, *_RELATIONAL)
def quoted_name(config: Config) -> Hits:
    for pattern in config.captured if config.kind else ():
        if config.kind and re.search(r"(?<!\\)[\"`]", pattern):
            message = f"{pattern} matches no table: the connector compares names without quotation marks."
            yield Hit(
                config.kind.include_list,
                message,
                "Remove the quotation marks, and escape special characters with a backslash.",
            )


@book.rule("CC509", ERROR, *CAPTURED)
def include_and_exclude_list(config: Config) -> Hits:
    for noun in ("database", "schema", "table", "collection", "column", "message.prefix"):
        include, exclude = f"{noun}.include.list", f"{noun}.exclude.list"
        if config.has(include) and config.has(exclude):
            yield Hit(exclude, f"{include} and {exclude} are both set, which Debezium refuses.", "Keep one of them.")


@book.rule("CC510", ERROR, *CAPTURED)
def schema_not_included(config: Config) -> Hits:
    noun = config.kind.nouns[0] if config.kind else ""
    included = listed(config.get(f"{noun}.include.list"))
    for table in config.tables if included else ():
        name = table.split(".")[-2:][0]
        if "." in table and all(matches(pattern, name, ignores_case=True) is False for pattern in included):
            message = f"{table} is not captured: {noun}.include.list does not contain its {noun}."
            yield Hit(f"{noun}.include.list", message, f"Add {name}.")


@book.rule("CC511", NOTE, DatabaseKind.POSTGRESQL)
def messages_of_other_writers(config: Config) -> Hits:
    filtered = any(config.has(f"message.prefix.{which}.list") for which in ("include", "exclude"))
    if config.get("plugin.name") == "pgoutput" and config.routers and not filtered and not _emits(config):
        message = "the connector publishes all logical messages of this database to the topic PREFIX.message."
        yield Hit("message.prefix.exclude.list", message, "Set it to .* if you do not need them.")


@book.rule("CC512", WARNING, DatabaseKind.POSTGRESQL)
def heartbeats_published(config: Config) -> Hits:
    filtered = any(config.has(f"message.prefix.{which}.list") for which in ("include", "exclude"))
    if _emits(config) and not filtered:
        message = "every heartbeat becomes a message in the topic PREFIX.message."
        yield Hit("heartbeat.action.query", message, "Set message.prefix.exclude.list to the prefix of the heartbeats.")


def _emits(config: Config) -> bool:
    query = config.get("heartbeat.action.query").lower()
    # The function that `init` creates emits a message while it has no heartbeat to write.
    return "pg_logical_emit_message" in query or '_heartbeat"(' in query


@book.rule("CC513", WARNING, *_RELATIONAL)
def heartbeat_table_not_captured(config: Config) -> Hits:
    written = _WRITES.search(config.get("heartbeat.action.query"))
    if written is None or not config.captured:
        return
    table = re.sub(r"[\"`\[\]]", "", written[1])
    # On SQL Server and PostgreSQL the name may begin with the database.
    name = ".".join([_around(config), *table.split(".")][-2:])
    if all(matches(pattern, name, ignores_case=True) is False for pattern in config.captured):
        message = f"the heartbeat writes to {table}, which is not captured: the connector has nothing to confirm."
        yield Hit("heartbeat.action.query", message, "Capture the table, and give the router a predicate.")


def _around(config: Config) -> str:
    """Return the schema or database of the first table, which usually contains the heartbeat table too."""
    return config.tables[0].rpartition(".")[0] if config.tables else ""


@book.rule("CC514", WARNING, *_RELATIONAL)
def heartbeat_query_without_interval(config: Config) -> Hits:
    if config.has("heartbeat.action.query") and config.number("heartbeat.interval.ms", 0) == 0:
        message = "heartbeat.action.query never runs: heartbeat.interval.ms is 0."
        yield Hit("heartbeat.action.query", message, "Set heartbeat.interval.ms to 10000.")


@book.rule("CC526", WARNING, DatabaseKind.POSTGRESQL)
def heartbeat_query_without_write(config: Config) -> Hits:
    query = config.get("heartbeat.action.query")
    calls = {name.lower() for name in _CALLED.findall(query)} - _WRITING_NOTHING
    if re.match(r"(select|values|show|table)\b", query.lower()) and not calls and not _MAKES_TABLE.search(query):
        message = "the query writes nothing, so the slot does not advance while the outbox is idle."
        yield Hit("heartbeat.action.query", message, "Use select pg_logical_emit_message(false, 'heartbeat', '').")


@book.rule("CC515", NOTE, *CAPTURED)
def rows_published_by_snapshot(config: Config) -> Hits:
    if config.routers and config.get("snapshot.mode", "initial").lower() in {"initial", ""}:
        message = "a snapshot publishes every row of the outbox, and publishes them again after a loss of offsets."
        yield Hit("snapshot.mode", message, "Set it to no_data, and start the writers after the connector.")


@book.rule("CC516", WARNING, *CAPTURED)
def rows_published_at_every_start(config: Config) -> Hits:
    mode = config.get("snapshot.mode").lower()
    if config.routers and mode in {"always", "when_needed"}:
        when = "at every start" if mode == "always" else "whenever the log does not contain the offset"
        yield Hit(
            "snapshot.mode", f"the connector publishes every row of the outbox again {when}.", "Set it to no_data."
        )


@book.rule("CC517", ERROR, *CAPTURED)
def no_streaming_after_snapshot(config: Config) -> Hits:
    mode, streams = config.get("snapshot.mode").lower(), "snapshot.mode.configuration.based.start.stream"
    if config.routers and mode == "initial_only":
        message = "the connector publishes the existing rows, and no rows that are written later."
        yield Hit("snapshot.mode", message, "Set it to no_data.")
    if config.routers and mode == "configuration_based" and not config.on(streams):
        message = f"without {streams} the connector publishes no rows that are written later."
        yield Hit("snapshot.mode", message, f"Set it to no_data, or {streams} to true.")


@book.rule("CC518", ERROR, DatabaseKind.POSTGRESQL)
def transaction_metadata_losing_events(config: Config) -> Hits:
    if config.on("provide.transaction.metadata") and config.version < (3, 7):
        message = "with transaction metadata a restart loses events (Debezium dbz#76, fixed in 3.7)."
        yield Hit("provide.transaction.metadata", message, "Set it to false.")


@book.rule("CC519", NOTE, *CAPTURED)
def transaction_topic(config: Config) -> Hits:
    if config.on("provide.transaction.metadata") and not (
        config.kind is DatabaseKind.POSTGRESQL and config.version < (3, 7)
    ):
        message = "each transaction adds two records to a topic that an outbox does not need."
        yield Hit("provide.transaction.metadata", message, "Set it to false.")


@book.router_rule("CC520", ERROR, DatabaseKind.POSTGRESQL)
def decoder_after_router(config: Config, router: Router) -> Hits:
    types = [plugin.type for plugin in config.transforms] if config.reads_messages else []
    if DECODER in types and types.index(DECODER) > types.index(router.type):
        message = "the decoder is after the router, which passes encoded messages on unchanged."
        yield Hit("transforms", message, "List the decoder before the router.")


@book.router_rule("CC521", ERROR, DatabaseKind.POSTGRESQL)
def timestamp_in_message(config: Config, router: Router) -> Hits:
    if config.reads_messages and router.column("timestamp"):
        option = f"{router.prefix}table.field.event.timestamp"
        yield Hit(
            option,
            "the router needs a time, and a logical message has a plain number: the task fails.",
            "Remove the option.",
        )


@book.router_rule("CC522", WARNING, DatabaseKind.POSTGRESQL)
def null_in_message(config: Config, router: Router) -> Hits:
    for plugin in config.transforms:
        if plugin.type == DECODER and not plugin.on("fields.null.include"):
            option = f"{plugin.prefix}fields.null.include"
            message = "the decoder drops null fields of a message, and the task fails on a missing one."
            yield Hit(option, message, "Set it to true.")
