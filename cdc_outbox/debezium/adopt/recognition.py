"""Recognize the keys of a spec in a connector configuration. Pure.

The recognition may be incomplete or wrong: the rendered spec is compared with the configuration, which shows every
difference.
"""

import re
from collections.abc import Iterator, Mapping, Set
from functools import cached_property

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.table import HEADER_COLUMN, OutboxColumns
from cdc_outbox.debezium.config import Router
from cdc_outbox.debezium.java_regex import literal
from cdc_outbox.debezium.lint import Config
from cdc_outbox.debezium.normalized_config import NormalizedConfig, default_of, topic_template
from cdc_outbox.debezium.render import BINARY_CONVERTER, LATENCIES
from cdc_outbox.formats.attributes import ATTRIBUTES, BINARY_NAMES, BUILT_IN_HEADERS, HeaderNames
from cdc_outbox.formats.cloudevents import ROW_HEADERS
from cdc_outbox.formats.envelope import fields_of
from cdc_outbox.formats.event_format import FORMAT_HEADERS, EventFormat, PayloadType
from cdc_outbox.text_files.document import Path

Statement = tuple[Path, str | int | None]
"""A key of a spec with its value."""

WORDS: tuple[tuple[Path, str], ...] = (
    (("topic_prefix",), "topic.prefix"),
    (("database", "connection_string"), "mongodb.connection.string"),
    (("database", "host"), "database.hostname"),
    (("database", "port"), "database.port"),
    (("database", "name"), "database.dbname"),
    (("database", "name"), "database.names"),
    (("database", "user"), "database.user"),
    (("database", "user"), "mongodb.user"),
    (("database", "password"), "database.password"),
    (("database", "password"), "mongodb.password"),
    (("database", "pdb"), "database.pdb.name"),
    (("database", "slot"), "slot.name"),
    (("database", "publication"), "publication.name"),
    (("database", "server_id"), "database.server.id"),
    (("history", "topic"), "schema.history.internal.kafka.topic"),
    (("history", "bootstrap_servers"), "schema.history.internal.kafka.bootstrap.servers"),
    (("topics", "partitions"), "topic.creation.default.partitions"),
    (("topics", "replication_factor"), "topic.creation.default.replication.factor"),
)
"""Options that correspond to one key of a spec."""
_SCHEMAS = {DatabaseKind.POSTGRESQL: "public", DatabaseKind.SQLSERVER: "dbo"}
_TYPE = re.compile(r"(event)?[_.-]?type", re.IGNORECASE)
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,9})")
_OPTIONAL = tuple(name for name, attribute in ATTRIBUTES.items() if attribute.is_optional)


class Recognition:
    """The keys of a spec, recognized in the configuration of an outbox connector.

    Args:
        given: A configuration with an EventRouter; of several routers the first one counts.
    """

    def __init__(self, given: Config) -> None:
        self._meaning = NormalizedConfig(given)
        self.config = self._meaning.config
        self.router: Router = self.config.routers[0]

    def statements(self) -> Iterator[Statement]:
        """Return the recognized keys with their values, the most certain ones first."""
        yield ("name",), self.config.name
        for path, option in WORDS:
            text = self._text(option)
            # One connector may read several databases of SQL Server, and a spec describes one.
            text = text.partition(",")[0].strip() if option == "database.names" else text
            if text and not (path == ("topic_prefix",) and text == self.config.name):
                yield path, int(text) if _NUMBER.fullmatch(text) and path[-1] in _NUMBERS else text
        yield from self._table()
        yield from self._outbox()
        template = topic_template(self.router)
        if template is not None:
            yield ("topics", "name"), template
        for latency, options in LATENCIES.items():
            if all(self._text(option) == value for option, value in options.items()):
                yield ("latency",), str(latency)

    @property
    def is_ours(self) -> bool:
        """Whether the columns and headers are those that `init` creates."""
        made = self.columns == OutboxColumns().names()
        return made and self.kind.has_dialect and all(self.placed.get(c) == h for c, h in BUILT_IN_HEADERS.items())

    @property
    def is_numbered(self) -> bool:
        """Whether the table has columns for sequence and source."""
        return self.columns["sequence"] is not None and self.columns["source"] is not None

    @cached_property
    def kind(self) -> DatabaseKind:
        """The kind of database."""
        return DatabaseKind[self.config.kind.name if self.config.kind is not None else ""]

    @cached_property
    def placed(self) -> dict[str, str]:
        """Column → its first header; with an envelope, column → field."""
        return self._placed("header") | (self._placed("envelope") if self.format is EventFormat.ENVELOPE else {})

    def _placed(self, placement: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for column, kind, *alias in (parts for parts in self.router.placements if len(parts) in {2, 3}):
            if kind.lower() == placement:
                found.setdefault(column, alias[0] if alias else column)
        return found

    @cached_property
    def columns(self) -> dict[str, str | None]:
        """Role → column, ``None`` if there is none."""
        router, names = self.router, self._names
        event_id = "_id" if router.of_mongo else "id"
        default = self._fold({"id": event_id, "key": "aggregateid", "payload": "payload", "type": "aggregatetype"})
        # A logical message has no timestamp column, and neither has a spec with mode message.
        untold = ATTRIBUTES["created_at"].column if self.config.reads_messages else None
        read: dict[str, str | None] = {
            "id": router.column("id", default["id"]),
            "aggregate_type": router.get("route.by.field", default["type"]),
            "aggregate_id": router.column("key", default["key"]),
            "payload": router.column("payload", default["payload"]),
            "created_at": router.column("timestamp") or untold,
        }
        free = {header: column for column, header in self.placed.items() if column not in read.values()}
        rest = {role: free.get(getattr(names, role)) for role in _OPTIONAL if role not in read}
        return {**read, "type": self._type_column(free, {*read.values(), *rest.values()}), **rest}

    def _type_column(self, free: Mapping[str, str], taken: Set[str | None]) -> str:
        """Return the column that most likely contains the event's type.

        Args:
            free: Header → column, of the columns that the router does not read itself.
        """
        hint = self.router.column("type")
        if self._names.type in free:
            return free[self._names.type]
        words = [*free.items(), *((column, column) for column in free.values())]
        likely = [hint] if hint in free.values() else []
        likely += [column for word, column in words if _TYPE.fullmatch(word)]
        # A spec's header columns have plain names; a column with another name has a role.
        likely += [column for column in free.values() if not HEADER_COLUMN.fullmatch(column)]
        guesses = self._fold({name: name for name in ("type", "event_type", "eventtype", "event_type_")})
        return next(column for column in (*likely, hint, *guesses.values(), "?") if column and column not in taken)

    @cached_property
    def format(self) -> EventFormat:
        """The format whose headers, or fields, all exist."""
        fields = fields_of(HeaderNames().placed())
        needed = {name for role, name in fields.items() if role not in _OPTIONAL}
        if needed <= {*self._placed("envelope").values()}:
            return EventFormat.ENVELOPE
        binary = EventFormat.CLOUDEVENTS_BINARY
        headers = {*self._placed("header").values()}
        needed = {name for role, name in BINARY_NAMES.placed().items() if role != "created_at"}
        all_there = {*needed, *FORMAT_HEADERS[binary].values()} <= headers
        return binary if all_there else EventFormat.PLAIN

    @property
    def _names(self) -> HeaderNames:
        return BINARY_NAMES if self.format is EventFormat.CLOUDEVENTS_BINARY else HeaderNames()

    def _fold(self, names: Mapping[str, str]) -> dict[str, str]:
        return {role: name.upper() if self.config.kind is DatabaseKind.ORACLE else name for role, name in names.items()}

    def _text(self, option: str) -> str:
        """Return the value of an option under any of its names, or its default."""
        said = self._meaning.said.get(option)
        if said is not None:
            return said.value if isinstance(said.value, str) else self.config.get(option)
        return default_of(self.config, option) or ""

    def _table(self) -> Iterator[Statement]:
        found = self.table
        if found is None:
            return
        around, _, name = found.partition(".")
        yield ("outbox", "table"), name
        if self.config.kind is not None and self.config.kind.nouns[0] == "database":
            yield ("database", "name"), around
        elif self.config.kind is None or around != _SCHEMAS.get(self.config.kind):
            yield ("outbox", "schema"), around

    @cached_property
    def table(self) -> str | None:
        """The outbox: the only captured table, or that of several which reaches the router."""
        tables, topics = self.config.tables, self.config.raw_topics
        if len(tables) > 1 and len(topics) == len(tables):
            seen = self._meaning.seen_by(self.router) or topics
            named = [table for table, topic in zip(tables, topics, strict=True) if topic in seen]
            return next((table for table in named if "outbox" in table.lower()), named[0] if named else None)
        if tables:
            return tables[0]
        predicate = self.config.predicates.get(self.router.get("predicate"))
        topic = literal(predicate.get("pattern")) if predicate is not None else None
        before = f"{self._text('topic.prefix')}."
        return topic.removeprefix(before) if topic is not None and topic.startswith(before) else None

    def _outbox(self) -> Iterator[Statement]:
        if self.config.reads_messages:
            yield ("outbox", "mode"), "message"
        if self.format is not EventFormat.PLAIN:
            yield ("outbox", "format"), str(self.format)
        if self.router.expands:
            yield ("outbox", "payload_type"), str(PayloadType.EXPANDED)
        elif self._text("value.converter") == BINARY_CONVERTER:
            yield ("outbox", "payload_type"), str(PayloadType.BYTES)
        if not self.is_ours and not self.config.reads_messages:
            yield from ((("outbox", "columns", role), column) for role, column in self.columns.items())
        written = self._written_headers()
        yield from ((("outbox", "headers", column), header) for column, header in written.items())

    def _written_headers(self) -> dict[str, str | None]:
        """Return the headers that a spec must set: additional ones, and default ones with another name or none."""
        own = self._names.placed()
        own = fields_of(own) if self.format is EventFormat.ENVELOPE else own
        given = {column: own[role] for role, column in self.columns.items() if column is not None and role in own}
        formatted = FORMAT_HEADERS[self.format]
        given |= {column: formatted[name] for name, column in self._fold({name: name for name in formatted}).items()}
        given |= {self.columns[role] or "": header for header, role in ROW_HEADERS[self.format].items()}
        given |= BUILT_IN_HEADERS if self.is_ours or self.config.reads_messages else {}
        columns = dict.fromkeys([*self.placed, *given])
        return {column: self.placed.get(column) for column in columns if self.placed.get(column) != given.get(column)}


_NUMBERS = {"port", "server_id", "partitions", "replication_factor"}
"""Keys whose value is written as a number if it looks like one."""
