"""Which tables are captured, whether the router meets the outbox and nothing else, and what a snapshot publishes."""

import re

from cdc_outbox.databases.database import CAPTURED, DatabaseKind
from cdc_outbox.debezium.config import DECODER, Config, Router, listed
from cdc_outbox.debezium.java_regex import literal, matches
from cdc_outbox.debezium.lint.path import FEW, imagined_table, is_outbox, names_database, reaches
from cdc_outbox.debezium.lint.rule import ERROR, NOTE, WARNING, Hit, Hits, Rulebook

book = Rulebook()

_NARROW = "Name the outbox, and give the router a predicate that matches the outbox's topic only."
_WRITES = re.compile(r"\b(?:insert\s+into|update|merge\s+into|replace\s+into)\s+([\w.\"`\[\]$]+)", re.IGNORECASE)
_MAKES_TABLE = re.compile(r"\binto\b", re.IGNORECASE)
_CALLED = re.compile(r"([\w.]+)\"?\s*\(")
_WRITING_NOTHING = frozenset(
    {"now", "version", "count", "max", "min", "coalesce", "clock_timestamp", "pg_current_wal_lsn"}
)
_RELATIONAL = tuple(kind for kind in CAPTURED if kind is not DatabaseKind.MONGODB)


@book.router_rule("CC501", ERROR, *CAPTURED)
def every_table(config: Config, router: Router) -> Hits:
    kind = config.kind
    excludes = kind and config.has(kind.include_list.replace("include", "exclude"))
    if not kind or config.captured or config.reads_messages or excludes:
        return
    if reaches(config, router, imagined_table(config)):
        message = f"no {kind.include_list}: the first row of any other {kind.nouns[1]} fails the task."
        yield Hit(kind.include_list, message, _NARROW)


@book.router_rule("CC502", ERROR, *CAPTURED)
def other_tables(config: Config, router: Router) -> Hits:
    kind = config.kind
    # Where none is called an outbox, all of them may be one.
    named = kind is not None and any(map(is_outbox, config.captured))
    tables = [table for table in config.tables if named and not is_outbox(table)]
    others = [table for table in tables[:FEW] if reaches(config, router, table)]
    if kind and others:
        message = f"{others[0]} is captured too: its first row fails the task, for the router takes it for an event."
        yield Hit(kind.include_list, message, _NARROW)


@book.router_rule("CC503", ERROR, *CAPTURED)
def table_of_signals(config: Config, router: Router) -> Hits:
    signals = config.get("signal.data.collection")
    if signals and not is_outbox(signals) and reaches(config, router, _as_listed(config, signals)):
        message = "the table of signals is captured by itself: its first row fails the task, for it is no event."
        yield Hit("signal.data.collection", message, _NARROW)


def _as_listed(config: Config, table: str) -> str:
    """Return a table's full name as include lists have it: of SQL Server without the database."""
    return table.partition(".")[2] if config.kind is DatabaseKind.SQLSERVER and table.count(".") == 2 else table


@book.router_rule("CC504", WARNING, *CAPTURED)
def pattern_for_several(config: Config, router: Router) -> Hits:
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
        message = f"{several[0]} may be or match a table that is no outbox, and the first row of one fails the task."
        yield Hit(config.kind.include_list, message, _NARROW)


@book.rule("CC506", ERROR, *CAPTURED)
def name_without_its_schema(config: Config) -> Hits:
    for table in config.tables if config.kind else ():
        if config.kind and "." not in table:
            around, noun = config.kind.nouns
            message = f"{table} matches no {noun}: names are {around}.{noun} here, and match as a whole."
            yield Hit(config.kind.include_list, message, f"Write {around}\\.{table}.")


@book.rule("CC507", ERROR, DatabaseKind.POSTGRESQL, DatabaseKind.SQLSERVER, DatabaseKind.ORACLE)
def name_with_its_database(config: Config) -> Hits:
    for table in config.tables:
        if names_database(config, table):
            message = f"{table} matches no table: names are schema.table here, without the database."
            yield Hit("table.include.list", message, f"Write {table.partition('.')[2]}.")


@book.rule("CC508", ERROR, *_RELATIONAL)
def name_in_quotation_marks(config: Config) -> Hits:
    for pattern in config.captured if config.kind else ():
        if config.kind and re.search(r"(?<!\\)[\"`]", pattern):
            message = f"{pattern} matches no table: names are matched without quotation marks."
            yield Hit(config.kind.include_list, message, "Leave them out, and escape what is special instead.")


@book.rule("CC509", ERROR, *CAPTURED)
def included_and_excluded(config: Config) -> Hits:
    for noun in ("database", "schema", "table", "collection", "column", "message.prefix"):
        include, exclude = f"{noun}.include.list", f"{noun}.exclude.list"
        if config.has(include) and config.has(exclude):
            yield Hit(exclude, f"{include} and {exclude} exclude each other, and Debezium refuses.", "Keep one.")


@book.rule("CC510", ERROR, *CAPTURED)
def included_without_its_schema(config: Config) -> Hits:
    noun = config.kind.nouns[0] if config.kind else ""
    included = listed(config.get(f"{noun}.include.list"))
    for table in config.tables if included else ():
        name = table.split(".")[-2:][0]
        if "." in table and all(matches(pattern, name, ignores_case=True) is False for pattern in included):
            message = f"{table} is left out: {noun}.include.list does not have its {noun}."
            yield Hit(f"{noun}.include.list", message, f"Add {name}.")


@book.rule("CC511", NOTE, DatabaseKind.POSTGRESQL)
def messages_of_others(config: Config) -> Hits:
    filtered = any(config.has(f"message.prefix.{which}.list") for which in ("include", "exclude"))
    if config.get("plugin.name") == "pgoutput" and config.routers and not filtered and not _emits(config):
        message = "logical messages of anybody in this database go to a topic of their own, PREFIX.message."
        yield Hit("message.prefix.exclude.list", message, "Set it to .* if they are not wanted.")


@book.rule("CC512", WARNING, DatabaseKind.POSTGRESQL)
def heartbeats_as_messages(config: Config) -> Hits:
    filtered = any(config.has(f"message.prefix.{which}.list") for which in ("include", "exclude"))
    if _emits(config) and not filtered:
        message = "every heartbeat becomes a message in the topic PREFIX.message."
        yield Hit("heartbeat.action.query", message, "Set message.prefix.exclude.list to its prefix.")


def _emits(config: Config) -> bool:
    query = config.get("heartbeat.action.query").lower()
    # The function that `init` makes emits one while it has no heartbeat to write.
    return "pg_logical_emit_message" in query or '_heartbeat"(' in query


@book.rule("CC513", WARNING, *_RELATIONAL)
def heartbeat_that_is_not_captured(config: Config) -> Hits:
    written = _WRITES.search(config.get("heartbeat.action.query"))
    if written is None or not config.captured:
        return
    table = re.sub(r"[\"`\[\]]", "", written[1])
    # Of SQL Server, and of PostgreSQL too, a database may stand before the schema.
    name = ".".join([_around(config), *table.split(".")][-2:])
    if all(matches(pattern, name, ignores_case=True) is False for pattern in config.captured):
        message = f"the heartbeat writes {table}, which is not captured: it moves nothing."
        yield Hit("heartbeat.action.query", message, "Capture the table, and give the router a predicate.")


def _around(config: Config) -> str:
    """Return the schema or database of the first table: heartbeats usually lie beside the outbox."""
    return config.tables[0].rpartition(".")[0] if config.tables else ""


@book.rule("CC514", WARNING, *_RELATIONAL)
def heartbeat_that_never_beats(config: Config) -> Hits:
    if config.has("heartbeat.action.query") and config.number("heartbeat.interval.ms", 0) == 0:
        message = "heartbeat.action.query never runs: heartbeat.interval.ms is 0."
        yield Hit("heartbeat.action.query", message, "Set heartbeat.interval.ms to 10000.")


@book.rule("CC526", WARNING, DatabaseKind.POSTGRESQL)
def heartbeat_that_writes_nothing(config: Config) -> Hits:
    query = config.get("heartbeat.action.query")
    calls = {name.lower() for name in _CALLED.findall(query)} - _WRITING_NOTHING
    if re.match(r"(select|values|show|table)\b", query.lower()) and not calls and not _MAKES_TABLE.search(query):
        message = "the query writes nothing, so the slot stays where it is while the outbox is idle."
        yield Hit("heartbeat.action.query", message, "Write select pg_logical_emit_message(false, 'heartbeat', '').")


@book.rule("CC515", NOTE, *CAPTURED)
def rows_published_again(config: Config) -> Hits:
    if config.routers and config.get("snapshot.mode", "initial").lower() in {"initial", ""}:
        message = "a snapshot publishes every row of the outbox, also those that were published: again when offsets go."
        yield Hit("snapshot.mode", message, "Set it to no_data, and let the writer begin when the connector runs.")


@book.rule("CC516", WARNING, *CAPTURED)
def rows_published_at_every_start(config: Config) -> Hits:
    mode = config.get("snapshot.mode").lower()
    if config.routers and mode in {"always", "when_needed"}:
        when = "at every start" if mode == "always" else "whenever offset and log do not fit"
        yield Hit("snapshot.mode", f"every row of the outbox is published again {when}.", "Set it to no_data.")


@book.rule("CC517", ERROR, *CAPTURED)
def nothing_behind_the_snapshot(config: Config) -> Hits:
    mode, streams = config.get("snapshot.mode").lower(), "snapshot.mode.configuration.based.start.stream"
    if config.routers and mode == "initial_only":
        message = "the connector publishes the rows that are there, and nothing that is written later."
        yield Hit("snapshot.mode", message, "Set it to no_data.")
    if config.routers and mode == "configuration_based" and not config.on(streams):
        message = f"without {streams} the connector reads nothing that is written later."
        yield Hit("snapshot.mode", message, f"Set it to no_data, or {streams} to true.")


@book.rule("CC518", ERROR, DatabaseKind.POSTGRESQL)
def transactions_told(config: Config) -> Hits:
    if config.on("provide.transaction.metadata") and config.version < (3, 7):
        message = "events get lost at a restart with it (Debezium dbz#76, fixed in 3.7)."
        yield Hit("provide.transaction.metadata", message, "Set it to false.")


@book.rule("CC519", NOTE, *CAPTURED)
def topic_of_transactions(config: Config) -> Hits:
    if config.on("provide.transaction.metadata") and not (
        config.kind is DatabaseKind.POSTGRESQL and config.version < (3, 7)
    ):
        message = "two more records a transaction, in a topic that an outbox does not need."
        yield Hit("provide.transaction.metadata", message, "Set it to false.")


@book.router_rule("CC520", ERROR, DatabaseKind.POSTGRESQL)
def decoded_too_late(config: Config, router: Router) -> Hits:
    types = [plugin.type for plugin in config.transforms] if config.reads_messages else []
    if DECODER in types and types.index(DECODER) > types.index(router.type):
        message = "messages are decoded behind the router, which passes them unchanged."
        yield Hit("transforms", message, "List the decoder first.")


@book.router_rule("CC521", ERROR, DatabaseKind.POSTGRESQL)
def time_of_a_message(config: Config, router: Router) -> Hits:
    if config.reads_messages and router.column("timestamp"):
        option = f"{router.prefix}table.field.event.timestamp"
        yield Hit(option, "a message's number is no time to the router, and the task fails.", "Leave it out.")


@book.router_rule("CC522", WARNING, DatabaseKind.POSTGRESQL)
def null_of_a_message(config: Config, router: Router) -> Hits:
    for plugin in config.transforms:
        if plugin.type == DECODER and not plugin.on("fields.null.include"):
            option = f"{plugin.prefix}fields.null.include"
            message = "a null in a message is no field at all, and the task fails on it."
            yield Hit(option, message, "Set it to true.")
