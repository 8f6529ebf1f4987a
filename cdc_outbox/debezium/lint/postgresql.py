"""Rules about PostgreSQL: replication slot, publication and retained WAL."""

import re

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import DEFAULT_SLOT, Config, is_placeholder, slot_of
from cdc_outbox.debezium.lint.rule import ERROR, NOTE, WARNING, Hit, Hits, Rulebook

book = Rulebook()

_WAL_SENDER_TIMEOUT_MS = 60_000
_LOSES_COMMITS = "continues without an error with a slot that was created again, and loses earlier commits"
_ADVANCES_SLOT = "advances a restored server's slot to Connect's offset at each start, and loses what the slot held"
_HIDDEN_LOSS = {
    "trust_offset": _ADVANCES_SLOT,
    "trust_slot": _LOSES_COMMITS,
    "trust_greater_lsn": f"{_LOSES_COMMITS}; it also {_ADVANCES_SLOT}",
}
"""What each strategy loses if slot and offset differ."""


@book.rule("CC601", WARNING, DatabaseKind.POSTGRESQL)
def decoderbufs_plugin(config: Config) -> Hits:
    if config.get("plugin.name", "decoderbufs").lower() == "decoderbufs":
        message = "the plugin is decoderbufs, which must be installed on the server."
        yield Hit(
            "plugin.name",
            message,
            "Set plugin.name to pgoutput, which PostgreSQL includes. A deployed connector then needs a new slot.",
        )


@book.rule("CC602", WARNING, DatabaseKind.POSTGRESQL)
def default_slot_name(config: Config) -> Hits:
    if slot_of(config.options) == DEFAULT_SLOT:
        message = "the slot is debezium, the default of every connector without slot.name."
        yield Hit("slot.name", message, "Set a slot name that no other connector uses.")


@book.rule("CC603", ERROR, DatabaseKind.POSTGRESQL)
def invalid_slot_name(config: Config) -> Hits:
    slot = slot_of(config.options)
    if not is_placeholder(slot) and not re.fullmatch(r"[a-z0-9_]{1,63}", slot):
        wrong = "".join(dict.fromkeys(re.findall(r"[^a-z0-9_]", slot)))
        fault = f"contains {', '.join(map(repr, wrong))}" if wrong else f"has {len(slot)} characters"
        message = f"the slot name {fault}; PostgreSQL allows 1 to 63 lower-case letters, digits and underscores."
        yield Hit("slot.name", message, "Choose another name.")


@book.rule("CC604", WARNING, DatabaseKind.POSTGRESQL)
def default_publication_name(config: Config) -> Hits:
    pgoutput = config.get("plugin.name", "pgoutput").lower() == "pgoutput"
    if pgoutput and config.get("publication.name", "dbz_publication") == "dbz_publication":
        message = "the publication is dbz_publication, the default of every connector without publication.name."
        yield Hit("publication.name", message, "Set a publication that no other connector uses.")


@book.rule("CC605", WARNING, DatabaseKind.POSTGRESQL)
def publication_of_all_tables(config: Config) -> Hits:
    pgoutput = config.get("plugin.name", "pgoutput").lower() == "pgoutput"
    if pgoutput and config.get("publication.autocreate.mode", "all_tables").lower() == "all_tables":
        message = (
            "the connector creates a missing publication for all tables, which needs a superuser and sends every table."
        )
        yield Hit("publication.autocreate.mode", message, "Set it to disabled, and create the publication yourself.")


@book.rule("CC606", WARNING, DatabaseKind.POSTGRESQL)
def long_publication_name(config: Config) -> Hits:
    length = len(config.get("publication.name").encode(errors="replace"))
    if length > 63:
        message = f"the publication name has {length} bytes; PostgreSQL truncates names to 63 bytes."
        yield Hit("publication.name", message, "Shorten the name.")


@book.rule("CC607", WARNING, DatabaseKind.POSTGRESQL)
def no_heartbeat(config: Config) -> Hits:
    driver = config.get("lsn.flush.mode").lower() == "connector_and_driver"
    if config.number("heartbeat.interval.ms", 0) == 0 and not driver:
        message = "without heartbeats the server retains WAL for idle tables until the disk is full."
        yield Hit("heartbeat.interval.ms", message, "Set it to 10000, and set heartbeat.action.query.")


@book.rule("CC610", NOTE, DatabaseKind.POSTGRESQL)
def heartbeat_without_query(config: Config) -> Hits:
    beats, driver = config.number("heartbeat.interval.ms", 0), config.get("lsn.flush.mode").lower()
    if beats and not config.has("heartbeat.action.query") and driver != "connector_and_driver":
        message = "with an idle outbox and busy other tables, heartbeats without a query confirm nothing."
        remedy = "Set it to select pg_logical_emit_message(false, 'heartbeat', '')."
        yield Hit("heartbeat.action.query", message, remedy)


@book.rule("CC612", WARNING, DatabaseKind.POSTGRESQL)
def slot_ahead_of_offset(config: Config) -> Hits:
    mode, strategy = config.get("lsn.flush.mode").lower(), config.get("offset.mismatch.strategy").lower()
    if mode == "connector_and_driver" and strategy not in {"trust_slot", "trust_greater_lsn"}:
        message = "the driver may confirm positions after the offset, and then the next start fails."
        remedy = "Remove the option, and advance the slot with heartbeats and heartbeat.action.query."
        yield Hit("lsn.flush.mode", message, remedy)


@book.rule("CC613", ERROR, DatabaseKind.POSTGRESQL)
def manual_confirmation(config: Config) -> Hits:
    if config.get("lsn.flush.mode").lower() == "manual":
        message = "the connector confirms no position: the slot retains WAL until the disk is full."
        yield Hit("lsn.flush.mode", message, "Remove the option.")


@book.rule("CC614", WARNING, DatabaseKind.POSTGRESQL)
def long_status_interval(config: Config) -> Hits:
    pause = config.number("status.update.interval.ms", 10_000)
    if pause is not None and pause >= _WAL_SENDER_TIMEOUT_MS:
        message = (
            "while Kafka is unavailable, PostgreSQL closes the connection after wal_sender_timeout (60 s by default)."
        )
        yield Hit("status.update.interval.ms", message, "Set it to 10000, the default.")


@book.rule("CC615", WARNING, DatabaseKind.POSTGRESQL)
def flush_timeout_ignored(config: Config) -> Hits:
    action = config.get("lsn.flush.timeout.action").lower()
    if action in {"warn", "ignore"}:
        message = "the connector ignores a confirmation that timed out, and the server retains WAL."
        yield Hit("lsn.flush.timeout.action", message, "Set it to fail, the default.")


@book.rule("CC617", WARNING, DatabaseKind.POSTGRESQL)
def empty_publication(config: Config) -> Hits:
    if config.get("publication.autocreate.mode").lower() == "no_tables" and not config.reads_messages:
        message = "the connector creates a missing publication without tables, and publishes nothing."
        yield Hit("publication.autocreate.mode", message, "Set it to disabled, and create the publication yourself.")


@book.rule("CC618", WARNING, DatabaseKind.POSTGRESQL)
def filtered_publication_with_skipped_operations(config: Config) -> Hits:
    filtered = config.get("publication.autocreate.mode").lower() == "filtered"
    skips = config.get("skipped.operations").lower() not in {"", "none"}
    if filtered and skips and config.version >= (3, 6):
        message = "when the captured tables change, Debezium alters the publication with a statement that fails."
        yield Hit("publication.autocreate.mode", message, "Set it to disabled, and create the publication yourself.")


@book.rule("CC619", WARNING, DatabaseKind.POSTGRESQL)
def lossy_mismatch_strategy(config: Config) -> Hits:
    strategy = config.get("offset.mismatch.strategy").lower()
    if strategy in _HIDDEN_LOSS:
        yield Hit(
            "offset.mismatch.strategy",
            f"{strategy} {_HIDDEN_LOSS[strategy]}.",
            "Set it to no_validation, the default, which fails or changes neither of them.",
        )


@book.rule("CC620", WARNING, DatabaseKind.POSTGRESQL)
def connection_through_a_pooler(config: Config) -> Hits:
    pools = config.get("database.port") == "6432" or re.search(r"\bpooler\b|pgbouncer", config.get("database.hostname"))
    if pools:
        option = "database.port" if config.get("database.port") == "6432" else "database.hostname"
        message = "this looks like a connection pooler; most poolers refuse replication connections."
        yield Hit(option, message, "Connect to the server itself; a connector uses two connections.")


@book.rule("CC616", WARNING, DatabaseKind.POSTGRESQL)
def single_partition_captured(config: Config) -> Hits:
    option = "publish.via.partition.root"
    parts = [table for table in config.tables if re.search(r"outbox\w*_(p?\d{4,8}|\d{4}_\d{2}|p\d+)$", table)]
    if parts and not config.on(option):
        message = f"{parts[0]} looks like a partition: each partition has its own topic before routing."
        yield Hit("table.include.list", message, f"Capture the partitioned table, and set {option} to true.")
