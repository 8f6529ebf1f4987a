"""PostgreSQL: slot, publication, and WAL that must not pile up."""

import re

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import DEFAULT_SLOT, Config, is_placeholder, slot_of
from cdc_outbox.debezium.lint.rule import ERROR, NOTE, WARNING, Hit, Hits, Rulebook

book = Rulebook()

_WAL_SENDER_TIMEOUT_MS = 60_000
_PASSES_OVER = "goes on in silence over a slot that was made anew, and what was committed before it is lost"
_MOVES_SLOT = "moves a restored server's slot to Connect's offset at each start, and what the slot held is lost"
_HIDDEN_LOSS = {
    "trust_offset": _MOVES_SLOT,
    "trust_slot": _PASSES_OVER,
    "trust_greater_lsn": f"{_PASSES_OVER}; it also {_MOVES_SLOT}",
}
"""What each strategy loses where slot and offset do not fit."""


@book.rule("CC601", WARNING, DatabaseKind.POSTGRESQL)
def plugin_of_another_time(config: Config) -> Hits:
    if config.get("plugin.name", "decoderbufs").lower() == "decoderbufs":
        message = "the plugin is decoderbufs, which has to be installed in the server."
        yield Hit(
            "plugin.name",
            message,
            "Set plugin.name to pgoutput, which is in every PostgreSQL, and let a connector that ran have a new slot.",
        )


@book.rule("CC602", WARNING, DatabaseKind.POSTGRESQL)
def slot_of_everybody(config: Config) -> Hits:
    if slot_of(config.options) == DEFAULT_SLOT:
        message = "the slot is debezium, as that of every other connector that names none."
        yield Hit("slot.name", message, "Name one of its own.")


@book.rule("CC603", ERROR, DatabaseKind.POSTGRESQL)
def slot_with_an_impossible_name(config: Config) -> Hits:
    slot = slot_of(config.options)
    if not is_placeholder(slot) and not re.fullmatch(r"[a-z0-9_]{1,63}", slot):
        wrong = "".join(dict.fromkeys(re.findall(r"[^a-z0-9_]", slot)))
        fault = f"has {', '.join(map(repr, wrong))}" if wrong else f"has {len(slot)} characters"
        message = f"the slot's name {fault}; PostgreSQL takes 1 to 63 small letters, digits and underscores."
        yield Hit("slot.name", message, "Choose such a name.")


@book.rule("CC604", WARNING, DatabaseKind.POSTGRESQL)
def publication_of_everybody(config: Config) -> Hits:
    pgoutput = config.get("plugin.name", "pgoutput").lower() == "pgoutput"
    if pgoutput and config.get("publication.name", "dbz_publication") == "dbz_publication":
        message = "the publication is dbz_publication, as that of every other connector that names none."
        yield Hit("publication.name", message, "Name one of its own.")


@book.rule("CC605", WARNING, DatabaseKind.POSTGRESQL)
def publication_of_everything(config: Config) -> Hits:
    pgoutput = config.get("plugin.name", "pgoutput").lower() == "pgoutput"
    if pgoutput and config.get("publication.autocreate.mode", "all_tables").lower() == "all_tables":
        message = "if the publication is missing, one of all tables is made: it needs a superuser, and sends them all."
        yield Hit("publication.autocreate.mode", message, "Set it to disabled, and make the publication yourself.")


@book.rule("CC606", WARNING, DatabaseKind.POSTGRESQL)
def publication_with_an_impossible_name(config: Config) -> Hits:
    length = len(config.get("publication.name").encode(errors="replace"))
    if length > 63:
        message = f"the publication's name has {length} bytes; PostgreSQL cuts names off after 63."
        yield Hit("publication.name", message, "Shorten it.")


@book.rule("CC607", WARNING, DatabaseKind.POSTGRESQL)
def no_heartbeat(config: Config) -> Hits:
    driver = config.get("lsn.flush.mode").lower() == "connector_and_driver"
    if config.number("heartbeat.interval.ms", 0) == 0 and not driver:
        message = "without heartbeats a connector whose tables are idle holds back WAL until the disk is full."
        yield Hit("heartbeat.interval.ms", message, "Set it to 10000, and heartbeat.action.query with it.")


@book.rule("CC610", NOTE, DatabaseKind.POSTGRESQL)
def heartbeat_without_a_word(config: Config) -> Hits:
    beats, driver = config.number("heartbeat.interval.ms", 0), config.get("lsn.flush.mode").lower()
    if beats and not config.has("heartbeat.action.query") and driver != "connector_and_driver":
        message = "where other tables are busy and the outbox is not, heartbeats alone confirm nothing."
        remedy = "Set heartbeat.action.query: select pg_logical_emit_message(false, 'heartbeat', '')."
        yield Hit("heartbeat.action.query", message, remedy)


@book.rule("CC612", WARNING, DatabaseKind.POSTGRESQL)
def driver_ahead_of_the_offset(config: Config) -> Hits:
    mode, strategy = config.get("lsn.flush.mode").lower(), config.get("offset.mismatch.strategy").lower()
    if mode == "connector_and_driver" and strategy not in {"trust_slot", "trust_greater_lsn"}:
        message = "the driver confirms more than the offset says, and the next start fails."
        remedy = "Leave it out, and let heartbeats with heartbeat.action.query move the slot."
        yield Hit("lsn.flush.mode", message, remedy)


@book.rule("CC613", ERROR, DatabaseKind.POSTGRESQL)
def nobody_confirms(config: Config) -> Hits:
    if config.get("lsn.flush.mode").lower() == "manual":
        message = "no program confirms what was read: the slot holds back WAL until the disk is full."
        yield Hit("lsn.flush.mode", message, "Leave it out.")


@book.rule("CC614", WARNING, DatabaseKind.POSTGRESQL)
def status_too_late(config: Config) -> Hits:
    pause = config.number("status.update.interval.ms", 10_000)
    if pause is not None and pause >= _WAL_SENDER_TIMEOUT_MS:
        message = "while Kafka takes nothing PostgreSQL hears no word for wal_sender_timeout, and hangs up."
        yield Hit("status.update.interval.ms", message, "Leave it at 10000.")


@book.rule("CC615", WARNING, DatabaseKind.POSTGRESQL)
def commits_ignored(config: Config) -> Hits:
    action = config.get("lsn.flush.timeout.action").lower()
    if action in {"warn", "ignore"}:
        message = "a confirmation that PostgreSQL does not take goes unnoticed, and WAL piles up."
        yield Hit("lsn.flush.timeout.action", message, "Leave it at fail.")


@book.rule("CC617", WARNING, DatabaseKind.POSTGRESQL)
def publication_of_nothing(config: Config) -> Hits:
    if config.get("publication.autocreate.mode").lower() == "no_tables" and not config.reads_messages:
        message = "if the publication is missing, one without tables is made, and nothing is published."
        yield Hit("publication.autocreate.mode", message, "Set it to disabled, and make the publication yourself.")


@book.rule("CC618", WARNING, DatabaseKind.POSTGRESQL)
def publication_that_cannot_change(config: Config) -> Hits:
    filtered = config.get("publication.autocreate.mode").lower() == "filtered"
    skips = config.get("skipped.operations").lower() not in {"", "none"}
    if filtered and skips and config.version >= (3, 6):
        message = "as soon as other tables are captured Debezium changes the publication by a statement that fails."
        yield Hit("publication.autocreate.mode", message, "Set it to disabled, and make the publication yourself.")


@book.rule("CC619", WARNING, DatabaseKind.POSTGRESQL)
def strategy_that_hides_a_loss(config: Config) -> Hits:
    strategy = config.get("offset.mismatch.strategy").lower()
    if strategy in _HIDDEN_LOSS:
        yield Hit(
            "offset.mismatch.strategy",
            f"{strategy} {_HIDDEN_LOSS[strategy]}.",
            "Leave it at no_validation, which fails or leaves both alone.",
        )


@book.rule("CC620", WARNING, DatabaseKind.POSTGRESQL)
def pooler_in_between(config: Config) -> Hits:
    pools = config.get("database.port") == "6432" or re.search(r"\bpooler\b|pgbouncer", config.get("database.hostname"))
    if pools:
        option = "database.port" if config.get("database.port") == "6432" else "database.hostname"
        message = "this looks like a pooler, and most of them take no replication connection."
        yield Hit(option, message, "Name the server itself: the connector keeps two connections, and no more.")


@book.rule("CC616", WARNING, DatabaseKind.POSTGRESQL)
def partitions_one_by_one(config: Config) -> Hits:
    option = "publish.via.partition.root"
    parts = [table for table in config.tables if re.search(r"outbox\w*_(p?\d{4,8}|\d{4}_\d{2}|p\d+)$", table)]
    if parts and not config.on(option):
        message = f"{parts[0]} looks like a partition: each one has a topic of its own before routing."
        yield Hit("table.include.list", message, f"Capture the parent, and set {option} to true.")
