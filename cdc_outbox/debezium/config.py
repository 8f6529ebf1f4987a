"""A connector's configuration as the rules see it: whose connector, which transforms, which tables."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Protocol

from cdc_outbox.contract.topics import raw_topic_name
from cdc_outbox.databases.database import CAPTURED, DatabaseKind
from cdc_outbox.debezium import options as catalogue
from cdc_outbox.debezium.java_regex import literal, matches
from cdc_outbox.finding import Location
from cdc_outbox.redaction import REFERENCE
from cdc_outbox.text_files.document import Path

Version = tuple[int, ...]

NEWEST: Version = (3, 7)
"""The version of Debezium that a configuration is read for where none is given."""

ROUTER = "io.debezium.transforms.outbox.EventRouter"
MONGO_ROUTER = "io.debezium.connector.mongodb.transforms.outbox.MongoEventRouter"
TOPIC_NAMES = "org.apache.kafka.connect.transforms.predicates.TopicNameMatches"
DECODER = "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent"

DEFAULT_SLOT = "debezium"
"""The slot of a PostgreSQL connector whose configuration names none."""

MANY = 1_000
"""Entries of one list that are looked at. More are an accident, or meant to keep the linter busy."""

_LEFT_OUT = {
    "": 0,
    "io.debezium.schema.SchemaTopicNamingStrategy": 0,
    "io.debezium.schema.DefaultTopicNamingStrategy": 1,
    (_UNICODE := "io.debezium.schema.SchemaUnicodeTopicNamingStrategy"): 0,
}
"""How many parts of schema and table each ``topic.naming.strategy`` leaves out on PostgreSQL."""

_PREFIXES = ("", "x", "orders.created")
"""Logical messages may have any prefix: a pattern that matches all of these is meant to match every one."""

IMPLICIT = ("type", "predicate", "negate", "plugin.version")
"""What every transform takes; a predicate takes the first and the last."""

_COMMA = re.compile(r"(?<!\\),")


def kind_of(options: Mapping[str, str]) -> DatabaseKind | None:
    """Return whose connector a configuration is of, ``None`` for one that is not of the six."""
    return DatabaseKind.of_connector(options.get("connector.class", "").strip())


def slot_of(options: Mapping[str, str]) -> str:
    """Return the slot that PostgreSQL's connector reads by its configuration."""
    return options.get("slot.name", DEFAULT_SLOT).strip()


BINLOG = tuple(kind for kind in CAPTURED if kind.reads_binlog)
HISTORY = tuple(kind for kind in CAPTURED if kind.keeps_history)
"""Those that keep a topic with the history of the schema."""


class Locations(Protocol):
    """Where an option stands, or would stand."""

    def __call__(self, option: str) -> Location: ...  # noqa: D102

    def path(self, option: str) -> Path:
        """Return the option's path in its document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredPlugin:
    """A transform or a predicate: its alias and its own options.

    Args:
        prefix: What its options begin with in the configuration.
        options: Without that prefix.
    """

    alias: str
    prefix: str
    options: Mapping[str, str]

    @property
    def type(self) -> str:
        """Its class, also where a short name is given; empty where none is."""
        return class_of(self.options.get("type", "").strip()).removesuffix("$Value").removesuffix("$Key")

    def get(self, option: str, default: str = "") -> str:
        """Return an option's value without blanks around it."""
        return self.options.get(option, default).strip()

    def on(self, option: str) -> bool:
        """Whether a truth value is given and true."""
        return self.get(option).lower() == "true"

    @property
    def predicate(self) -> str:
        """The alias of its predicate, empty if it asks none; blanks around it are a part of it to Connect."""
        given = self.options.get("predicate", "")
        return given if given.strip() else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Router(ConfiguredPlugin):
    """An EventRouter, or MongoDB's."""

    @property
    def of_mongo(self) -> bool:
        """Whether it is MongoDB's."""
        return self.type == MONGO_ROUTER

    @property
    def table(self) -> str:
        """What the options about columns begin with."""
        return "collection" if self.of_mongo else "table"

    @property
    def placement(self) -> str:
        """The option that places further columns."""
        return f"{self.table}.fields.additional.placement"

    @property
    def expands(self) -> bool:
        """Whether it makes a structure of JSON text."""
        return self.on(f"{self.table}.expand.json.payload")

    @property
    def placements(self) -> list[list[str]]:
        """Each placed column: its name, its kind, perhaps an alias; as many parts as were written."""
        # Java's split drops empty parts at the end.
        entries = self.get(self.placement).rstrip(", ")
        written = entries.split(",")[:MANY] if entries else []
        return [[part.strip() for part in entry.rstrip(": ").split(":")] for entry in written]

    def placed(self, kind: str) -> list[str]:
        """Return under which names columns are placed as one kind."""
        found = [parts for parts in self.placements if len(parts) in {2, 3} and parts[1].lower() == kind]
        return [parts[-1] if len(parts) == 3 else parts[0] for parts in found]

    @property
    def has_envelope(self) -> bool:
        """Whether the value is a structure around the payload."""
        return bool(self.placed("envelope"))

    def column(self, role: str, default: str = "") -> str:
        """Return the column for ``id``, ``key``, ``payload``, ``type`` or ``timestamp``."""
        return self.get(f"{self.table}.field.event.{role}", default)


@dataclass(frozen=True, kw_only=True, eq=False)
class Config:
    """One connector's configuration.

    Args:
        name: The connector's.
        options: Every option as text.
        locations: Where each stands.
        version: Debezium's, as far as it matters: major and minor.
        expands_shapes: Whether writers refuse payloads that the expansion does not carry.
    """

    name: str
    options: Mapping[str, str]
    locations: Locations
    version: Version = NEWEST
    expands_shapes: bool = False

    def get(self, option: str, default: str = "") -> str:
        """Return an option's value without blanks around it."""
        return self.options.get(option, default).strip()

    def has(self, option: str) -> bool:
        """Whether an option is given, and not empty."""
        return bool(self.get(option))

    def on(self, option: str) -> bool:
        """Whether a truth value is given and true."""
        return self.get(option).lower() == "true"

    def number(self, option: str, default: int) -> int | None:
        """Return a whole number, ``None`` where something else stands, such as a reference."""
        value = self.get(option, str(default))
        return int(value) if re.fullmatch(r"[-+]?[0-9]{1,18}", value) else None

    def under(self, prefix: str) -> dict[str, str]:
        """Return the options below a prefix, without it."""
        return {
            option.removeprefix(prefix): value for option, value in self.options.items() if option.startswith(prefix)
        }

    @cached_property
    def kind(self) -> DatabaseKind | None:
        """Whose connector it is, ``None`` for one that is not of the six."""
        return kind_of(self.options)

    @cached_property
    def transforms(self) -> tuple[ConfiguredPlugin, ...]:
        """The transforms that are listed, in order."""
        return tuple(self._plugins("transforms"))

    @cached_property
    def predicates(self) -> dict[str, ConfiguredPlugin]:
        """The predicates that are listed, by alias."""
        return {plugin.alias: plugin for plugin in self._plugins("predicates")}

    @cached_property
    def routers(self) -> tuple[Router, ...]:
        """The EventRouters among the transforms."""
        return tuple(
            Router(alias=plugin.alias, prefix=plugin.prefix, options=plugin.options)
            for plugin in self.transforms
            if plugin.type in {ROUTER, MONGO_ROUTER}
        )

    @cached_property
    def reads_messages(self) -> bool:
        """Whether events come from logical messages: something decodes them.

        Where every message is left out they are rows, unless a router's predicate is written for messages.
        """
        decodes = any(plugin.type == DECODER for plugin in self.transforms)
        return decodes and (self.message_exclusion is None or any(map(self._is_of_messages, self.routers)))

    @cached_property
    def message_exclusion(self) -> str | None:
        """The pattern that leaves every logical message out, if there is one."""
        patterns = listed(self.get("message.prefix.exclude.list"))
        for pattern in patterns:
            if all(matches(pattern, prefix, ignores_case=True) for prefix in _PREFIXES):
                return pattern
        return None

    def _is_of_messages(self, router: Router) -> bool:
        """Return whether a router's predicate is true of messages, and not of a table's rows."""
        predicate = self.predicates.get(router.predicate)
        if predicate is None or predicate.type != TOPIC_NAMES or router.on("negate"):
            return False
        pattern = predicate.get("pattern")
        is_of_rows = any(matches(pattern, topic) is not False for topic in self.topics_of("cdc.outbox"))
        return not is_of_rows and any(matches(pattern, topic) for topic in self.topics_of("message"))

    @cached_property
    def captured(self) -> tuple[str, ...]:
        """The patterns of the tables that are captured; none means all of them."""
        return listed(self.get(self.kind.include_list)) if self.kind else ()

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """The tables that are captured, as far as their patterns are plain names."""
        return tuple(table for table in map(literal, self.captured) if table is not None)

    @cached_property
    def raw_topics(self) -> tuple[str, ...]:
        """The topics that records are for before anything routes them; none where they are not known."""
        if self.reads_messages:
            return self.topics_of("message")
        topics = [self.topics_of(table) for table in self.tables]
        return tuple(topic for each in topics for topic in each) if all(topics) else ()

    def topics_of(self, table: str) -> tuple[str, ...]:
        """Return the topics that a table's changes are for before anything routes them; none where they are not known.

        Args:
            table: As include lists have it; ``message`` for logical messages, of which Debezium makes a name by itself.
        """
        prefix, delimiter = self.get("topic.prefix"), self.get("topic.delimiter", ".")
        strategy = self.get("topic.naming.strategy")
        left_out = _LEFT_OUT.get(strategy) if not strategy or self.kind is DatabaseKind.POSTGRESQL else None
        if not prefix or is_placeholder(prefix) or left_out is None:
            return ()
        if table == "message":
            return (f"{prefix}.message",)
        if strategy == _UNICODE and not re.fullmatch(r"[A-Za-z0-9.]+", table):
            return ()
        names, dots = [table], 1
        if self.kind is DatabaseKind.SQLSERVER:
            names, dots = [f"{database}.{table}" for database in listed(self.get("database.names"))], 2
        if delimiter != "." and any(name.count(".") != dots for name in names):
            return ()  # which dots are delimiters is not known
        return tuple(raw_topic_name(prefix, *name.split(".")[left_out:], delimiter=delimiter) for name in names)

    def _plugins(self, kind: str) -> Iterator[ConfiguredPlugin]:
        given = self.under(f"{kind}.")  # once: there may be thousands of options
        for alias in dict.fromkeys(listed(self.get(kind))):
            own = {option[len(alias) + 1 :]: given[option] for option in given if option.startswith(f"{alias}.")}
            yield ConfiguredPlugin(alias=alias, prefix=f"{kind}.{alias}.", options=own)


@cache
def class_of(given: str) -> str:
    """Return the class that a name stands for: Connect takes a class without its package too."""
    found = catalogue.plugin(given) if given and "." not in given else None
    return given if found is None else found.class_name


def listed(value: str) -> tuple[str, ...]:
    """Return the entries of a list; a comma behind a backslash belongs to its entry, without the backslash."""
    entries = (entry.strip().replace("\\,", ",") for entry in _COMMA.split(value, maxsplit=MANY)[:MANY])
    return tuple(entry for entry in entries if entry)


def is_reference(value: str) -> bool:
    """Whether a value holds something that the worker resolves, or a template."""
    return bool(REFERENCE.search(value)) or "{{" in value


def is_placeholder(value: str) -> bool:
    """Whether a value that is no replacement holds something that is filled in later, such as ``${NAME}``."""
    return "${" in value or "{{" in value
