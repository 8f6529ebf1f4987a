"""Options as such: whether the connector knows them, needs them, and takes what they say."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Protocol

from cdc_outbox.connect.lint.config import BINLOG, HISTORY, Config, Kind
from cdc_outbox.connect.lint.rule import ERROR, NOTE, WARNING, Hit, Hits, Rule, Rulebook
from cdc_outbox.document import did_you_mean

book = Rulebook()


@dataclass(frozen=True, slots=True)
class Rename:
    """What became of an option.

    Args:
        to: Its name today, empty if it is gone.
        since: The version of Debezium that no longer reads the old name.
    """

    to: str
    since: str


class Catalogue(Protocol):
    """The options that one connector has in one version."""

    def knows(self, option: str) -> bool:
        """Tell whether the connector reads an option."""

    def known(self) -> Iterable[str]:
        """Return every name, for an offer."""

    def renamed(self, option: str) -> Rename | None:
        """Return what became of an option that it does not read any more, ``None`` if it never did."""


RENAMED: Mapping[str, Rename] = {
    "database.server.name": Rename("topic.prefix", "2.0"),
    "database.whitelist": Rename("database.include.list", "2.0"),
    "database.blacklist": Rename("database.exclude.list", "2.0"),
    "schema.whitelist": Rename("schema.include.list", "2.0"),
    "schema.blacklist": Rename("schema.exclude.list", "2.0"),
    "table.whitelist": Rename("table.include.list", "2.0"),
    "table.blacklist": Rename("table.exclude.list", "2.0"),
    "column.whitelist": Rename("column.include.list", "2.0"),
    "column.blacklist": Rename("column.exclude.list", "2.0"),
    "collection.whitelist": Rename("collection.include.list", "2.0"),
    "collection.blacklist": Rename("collection.exclude.list", "2.0"),
    "slot.drop_on_stop": Rename("slot.drop.on.stop", "2.0"),
    "slot.drop.on_stop": Rename("slot.drop.on.stop", "2.0"),
    "mongodb.name": Rename("topic.prefix", "2.0"),
    "mongodb.hosts": Rename("mongodb.connection.string", "2.4"),
    "transaction.topic": Rename("topic.transaction", "2.0"),
    "toasted.value.placeholder": Rename("unavailable.value.placeholder", "2.0"),
    "sanitize.field.names": Rename("field.name.adjustment.mode", "2.0"),
    "snapshot.new.tables": Rename("", "2.0"),
    "connector.adapter": Rename("", "3.0"),
    "internal.slot.seek.to.known.offset.on.start": Rename("offset.mismatch.strategy", "3.4"),
}
"""The renames that a configuration of today most often forgot."""

_HISTORY_BEFORE, _HISTORY = "database.history.", "schema.history.internal."


def find_rename(config: Config, option: str) -> Rename | None:
    """Return what became of an option, from the few that are known without a catalogue."""
    if config.kind is Kind.SQLSERVER and option == "database.dbname":
        return Rename("database.names", "2.0")
    if option.startswith(_HISTORY_BEFORE):
        kept = config.kind in HISTORY
        return Rename(_HISTORY + option.removeprefix(_HISTORY_BEFORE) if kept else "", "2.0")
    return RENAMED.get(option)


def catalogue_rules(catalogue: Catalogue | None) -> tuple[Rule, ...]:
    """Return the rules that ask which options there are."""
    names, kinds = _Names(catalogue), tuple(Kind)
    return (
        Rule("CC101", WARNING, names.unknown, kinds),
        Rule("CC102", ERROR, names.renamed, kinds),
        Rule("CC103", WARNING, names.removed, kinds),
    )


@dataclass(frozen=True, slots=True)
class _Names:
    """What became of names, as far as a catalogue says."""

    catalogue: Catalogue | None

    def unknown(self, config: Config) -> Hits:
        """Find what the connector never read; without a catalogue nobody knows."""
        for option in config.options if self.catalogue is not None else ():
            if self.catalogue is None or _is_elsewhere(option) or self.catalogue.knows(option):
                continue
            offer = did_you_mean(option, list(self.catalogue.known()))
            near = get_close_matches(option, list(self.catalogue.known()), n=1, cutoff=0.9)
            # What begins so is handed on to the JDBC driver: only what looks like a slip of the pen is one.
            if self._fate(config, option) is None and (near or not option.startswith("database.")):
                yield Hit(option, f"{option!r} is no option of this connector, and does nothing.", offer)

    def renamed(self, config: Config) -> Hits:
        """Find what it reads under another name."""
        for option in config.options:
            rename = self._fate(config, option)
            if rename is not None and rename.to and not config.has(rename.to):
                message = f"{option} is called {rename.to} since Debezium {rename.since}, and does nothing."
                yield Hit(option, message, f"Write {rename.to}.")

    def removed(self, config: Config) -> Hits:
        """Find what it does not read any more."""
        for option in config.options:
            rename = self._fate(config, option)
            if rename is not None and (not rename.to or config.has(rename.to)):
                became = f"called {rename.to}" if rename.to else "gone"
                message = f"{option} is {became} since Debezium {rename.since}, and does nothing."
                yield Hit(option, message, "Leave it out.")

    def _fate(self, config: Config, option: str) -> Rename | None:
        if self.catalogue is None:
            return find_rename(config, option)
        return None if self.catalogue.knows(option) else self.catalogue.renamed(option) or find_rename(config, option)


_ELSEWHERE = re.compile(
    r"(transforms|predicates|openlineage|log\.mining\.buffer\.infinispan\.client|producer\.override|consumer\.override|admin\.override|topic\.creation|"
    r"(key|value|header)\.converter|converters|errors|config|driver|post\.processors|internal|_aiven|"
    r"schema\.history\.internal\.(producer|consumer))(\..*)?"
)
_FRAMEWORK = frozenset(
    [
        "name",
        "connector.class",
        "connector.plugin.version",
        "tasks.max",
        "tasks.max.enforce",
        "config.action.reload",
        "exactly.once.support",
        "transaction.boundary",
        "transaction.boundary.interval.ms",
        "offsets.storage.topic",
    ]
)


def _is_elsewhere(option: str) -> bool:
    """Tell whether an option is not the connector's to know: Connect's, a plugin's, the driver's."""
    return option in _FRAMEWORK or bool(_ELSEWHERE.fullmatch(option))


_SNAPSHOTS = frozenset(["always", "initial", "initial_only", "no_data", "when_needed", "configuration_based", "custom"])
_HISTORY_SNAPSHOTS = _SNAPSHOTS | {"recovery"}

_VALUES: Mapping[str, Mapping[Kind, frozenset[str]]] = {
    "snapshot.mode": {
        Kind.POSTGRESQL: _SNAPSHOTS,
        Kind.MYSQL: _HISTORY_SNAPSHOTS,
        Kind.MARIADB: _HISTORY_SNAPSHOTS,
        Kind.SQLSERVER: _HISTORY_SNAPSHOTS | {"when_needed_no_data"},
        Kind.ORACLE: _HISTORY_SNAPSHOTS,
        Kind.MONGODB: _SNAPSHOTS,
    },
    "snapshot.locking.mode": {
        Kind.POSTGRESQL: frozenset(["shared", "none", "custom"]),
        Kind.MYSQL: frozenset(
            [
                "extended",
                "minimal",
                "minimal_percona",
                "minimal_percona_no_table_locks",
                "none",
                "custom",
                "minimal_at_least_once",
            ]
        ),
        Kind.MARIADB: frozenset(["extended", "minimal", "none", "custom", "minimal_at_least_once"]),
        Kind.SQLSERVER: frozenset(["exclusive", "none", "custom"]),
    },
    "plugin.name": {Kind.POSTGRESQL: frozenset({"pgoutput", "decoderbufs"})},
    "publication.autocreate.mode": {
        Kind.POSTGRESQL: frozenset(["disabled", "all_tables", "filtered", "no_tables"]),
    },
    "offset.mismatch.strategy": {
        Kind.POSTGRESQL: frozenset(["no_validation", "trust_offset", "trust_slot", "trust_greater_lsn"]),
    },
    "lsn.flush.mode": {Kind.POSTGRESQL: frozenset(["connector", "manual", "connector_and_driver"])},
    "lsn.flush.timeout.action": {Kind.POSTGRESQL: frozenset(["fail", "warn", "ignore"])},
    "capture.mode": {
        Kind.MONGODB: frozenset(
            [
                "change_streams",
                "change_streams_update_full",
                "change_streams_with_pre_image",
                "change_streams_update_full_with_pre_image",
            ]
        ),
    },
    "capture.scope": {Kind.MONGODB: frozenset(["deployment", "database", "collection"])},
    "filters.match.mode": {Kind.MONGODB: frozenset(["regex", "literal"])},
    "binary.handling.mode": dict.fromkeys(Kind, frozenset(["bytes", "base64", "base64-url-safe", "hex"])),
    "time.precision.mode": dict.fromkeys(
        (kind for kind in Kind if kind is not Kind.MONGODB),
        frozenset(
            [
                "adaptive",
                "adaptive_time_microseconds",
                "connect",
                "isostring",
                "microseconds",
                "nanoseconds",
                "structured",
            ]
        ),
    ),
}

_OBSOLETE = {
    "schema_only": "no_data",
    "schema_only_recovery": "recovery",
    "initial_schema_only": "no_data",
    "never": "no_data",
    "exported": "initial",
}


@book.rule("CC104", ERROR, *Kind)
def obsolete_snapshot_mode(config: Config) -> Hits:
    value = config.get("snapshot.mode").lower()
    if value in _OBSOLETE:
        remedy = f"Write {_OBSOLETE[value]}."
        yield Hit("snapshot.mode", f"Debezium no longer has the snapshot mode {value}.", remedy)


@book.rule("CC105", ERROR, *Kind)
def value_out_of_the_list(config: Config) -> Hits:
    for option, allowed in _VALUES.items():
        value, values = config.get(option).lower(), allowed.get(config.kind or Kind.POSTGRESQL, frozenset())
        obsolete = option == "snapshot.mode" and value in _OBSOLETE
        if values and value and "${" not in value and value not in values and not obsolete:
            offer = did_you_mean(value, sorted(values)) or f"It may be {', '.join(sorted(values))}."
            yield Hit(option, f"{option} has a value that is none of this connector's.", offer)


_REQUIRED: Mapping[Kind, tuple[str, ...]] = {
    Kind.POSTGRESQL: ("database.hostname", "database.user", "database.dbname"),
    Kind.MYSQL: ("database.hostname", "database.user", "database.server.id"),
    Kind.MARIADB: ("database.hostname", "database.user", "database.server.id"),
    Kind.SQLSERVER: ("database.hostname", "database.names"),
    Kind.ORACLE: ("database.hostname", "database.user", "database.dbname"),
    Kind.MONGODB: ("mongodb.connection.string",),
}


@book.rule("CC106", ERROR, *Kind)
def missing_option(config: Config) -> Hits:
    renamed = {rename.to for option in config.options if (rename := find_rename(config, option)) is not None}
    if config.kind is Kind.ORACLE and config.has("database.url"):
        renamed.add("database.hostname")
    for option in (*_REQUIRED[config.kind], "topic.prefix") if config.kind else ():
        if not config.has(option) and option not in renamed:
            yield Hit(option, f"{option} is missing, and this connector does not start without it.", f"Set {option}.")


@book.rule("CC107", ERROR, *Kind)
def prefix_that_is_none(config: Config) -> Hits:
    prefix = config.get("topic.prefix")
    if prefix and "${" not in prefix and not re.fullmatch(r"[A-Za-z0-9._-]+", prefix):
        message = "topic.prefix holds something else than letters, digits, dots, hyphens and underscores."
        yield Hit("topic.prefix", message, "Debezium refuses it: choose another, and never change it again.")


@book.rule("CC108", ERROR, *Kind)
def queue_smaller_than_a_batch(config: Config) -> Hits:
    queue, batch = config.number("max.queue.size", 8192), config.number("max.batch.size", 2048)
    if queue is not None and batch is not None and queue <= batch:
        option = "max.queue.size" if config.has("max.queue.size") else "max.batch.size"
        yield Hit(option, "max.queue.size must be above max.batch.size.", "Make the queue four times a batch.")


@book.rule("CC109", WARNING, *Kind)
def pause_that_is_none(config: Config) -> Hits:
    pause = config.number("poll.interval.ms", 500)
    if pause is not None and pause <= 0:
        message = "poll.interval.ms is not above 0: the connector keeps a core busy while nothing happens."
        yield Hit("poll.interval.ms", message, "5 to 20 is quick and costs little.")


@book.rule("CC110", NOTE, *Kind)
def half_a_second_late(config: Config) -> Hits:
    if config.routers and not config.has("poll.interval.ms"):
        message = "poll.interval.ms is not set: its 500 make events a quarter of a second late on average."
        yield Hit("poll.interval.ms", message, "10 costs a tenth of a core while idle.")


@book.rule("CC114", NOTE, *Kind)
def pause_before_each_batch(config: Config) -> Hits:
    pause = config.number("poll.dispatch.interval.ms", 0)
    if config.routers and pause:
        message = f"every batch waits {pause} ms more."
        yield Hit("poll.dispatch.interval.ms", message, "Leave it out.")


@book.rule("CC111", ERROR, *BINLOG)
def server_id_that_is_none(config: Config) -> Hits:
    number = config.number("database.server.id", 1)
    if number is not None and not 0 < number < 2**32:
        yield Hit("database.server.id", "database.server.id is not between 1 and 4294967295.", "Choose one in between.")


@book.rule("CC112", ERROR, *HISTORY)
def history_without_a_place(config: Config) -> Hits:
    if "kafka" not in config.get("schema.history.internal", "kafka").lower():
        return
    for option in ("schema.history.internal.kafka.topic", "schema.history.internal.kafka.bootstrap.servers"):
        renamed = config.has(option.replace(_HISTORY, _HISTORY_BEFORE))
        if not config.has(option) and not renamed:
            yield Hit(option, f"{option} is missing: there is no place for the schema's history.", f"Set {option}.")
