"""The tables this package reads and writes: names, columns, and how they are quoted."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import ClassVar

from cdc_outbox.errors import ConfigError

MAX_IDENTIFIER_BYTES = 63
"""PostgreSQL cuts a longer name off without a word, and two names may become one."""


class Dialect(StrEnum):
    """A family of databases that understand the same statements; the value is their folder in ``sql/``."""

    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    """MariaDB too."""
    SQLITE = "sqlite"

    @property
    def default_schema(self) -> str | None:
        """Where a table is that nobody gave a schema; ``None`` is the connection's database."""
        return {Dialect.POSTGRESQL: "public", Dialect.MYSQL: None, Dialect.SQLITE: "main"}[self]

    @property
    def max_payload_depth(self) -> int:
        """How deep a payload may be nested: MariaDB's ``json_valid`` refuses 32 levels."""
        return 31 if self is Dialect.MYSQL else 100

    def quote(self, identifier: str) -> str:
        """Return the identifier in this dialect's quotes; raises what :func:`quote` raises."""
        return quote(identifier, "`" if self is Dialect.MYSQL else '"')


def quote(identifier: str, mark: str = '"') -> str:
    """Return the identifier in quotes, ready to stand in a statement.

    Raises:
        ConfigError: It is empty, holds a NUL, or is longer than 63 bytes in UTF-8.
    """
    if not identifier or "\0" in identifier:
        raise ConfigError(f"{identifier!r} cannot be the name of a table, schema or column")
    if len(identifier.encode()) > MAX_IDENTIFIER_BYTES:
        raise ConfigError(f"the name {identifier!r} is longer than {MAX_IDENTIFIER_BYTES} bytes")
    return mark + identifier.replace(mark, mark * 2) + mark


def literal(text: str) -> str:
    """Return the text as an SQL string constant, for statements that take no parameters (DDL)."""
    if "\0" in text:
        raise ConfigError("a NUL cannot stand in SQL")
    return "'" + text.replace("'", "''") + "'"


def derived_name(name: str, suffix: str) -> str:
    """Return ``name_suffix``, shortened by a hash where it would pass 63 bytes."""
    whole = f"{name}_{suffix}"
    if len(whole.encode()) <= MAX_IDENTIFIER_BYTES:
        return whole
    digest = hashlib.sha256(name.encode()).hexdigest()[:8]
    kept = name.encode()[: MAX_IDENTIFIER_BYTES - len(suffix) - len(digest) - 2].decode(errors="ignore")
    return f"{kept}_{digest}_{suffix}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName:
    """A table's schema and name; both are checked at birth.

    Args:
        schema: Never left to the search path: connector, writer and preflight must mean the same table.
    """

    schema: str
    name: str

    def __post_init__(self) -> None:
        quote(self.schema)
        quote(self.name)

    @property
    def quoted(self) -> str:
        """Both names, ready to stand in a statement."""
        return f"{quote(self.schema)}.{quote(self.name)}"

    def sibling(self, suffix: str) -> "TableName":
        """Return a table of the same schema, named after this one."""
        return TableName(schema=self.schema, name=derived_name(self.name, suffix))

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


class PayloadType(StrEnum):
    """What the payload column holds, and with it what arrives as the message's value."""

    JSON = "json"
    BYTES = "bytes"
    """Avro, Protobuf, anything: the connector needs BinaryDataConverter."""


class EventFormat(StrEnum):
    """How an event's attributes travel."""

    PLAIN = "plain"
    """In headers of this package's names."""
    CLOUDEVENTS_BINARY = "cloudevents-binary"
    """In the headers of CloudEvents 1.0, the payload as it is."""
    CLOUDEVENTS_STRUCTURED = "cloudevents-structured"
    """In an envelope of CloudEvents 1.0 around the payload, and in the plain headers besides."""


FORMAT_HEADERS: Mapping[EventFormat, Mapping[str, str]] = {
    EventFormat.PLAIN: {},
    EventFormat.CLOUDEVENTS_BINARY: {
        "ce_specversion": "ce_specversion",
        "ce_time": "ce_time",
        "content_type": "content-type",
    },
    EventFormat.CLOUDEVENTS_STRUCTURED: {"content_type": "content-type"},
}
"""Header columns that the writer fills in, each with its header."""


class OutboxMode(StrEnum):
    """What becomes of an event's row, and with it what the pipeline cannot promise.

    Whatever the mode, writer, topics and consumer are the same: numbers without gaps, effects once.
    """

    KEEP = "keep"
    """It stays until it is pruned, and can be published, compared and read again."""
    DELETE = "delete"
    """It is deleted in the transaction that inserted it: the log has it, the table stays empty.

    Once the log is gone, so are the events. What a lost slot held cannot be published again, events cannot be
    compared with the table, nothing but the log can be read instead of it. Whether something was written before the
    slot is known from the head table only, so not of aggregate types without numbers.
    """
    MESSAGE = "message"
    """There is no row: the event is a logical message in PostgreSQL's log, and only the head table exists.

    All that DELETE cannot do, and: the record's timestamp is the connector's clock, not the row's; an event that is
    not numbered has no source; payloads are text, never bytes; nothing refuses the same id twice; after a restart the
    connector may repeat events that it had delivered (consumers skip them). PostgreSQL only.
    """

    @property
    def keeps_rows(self) -> bool:
        """Whether the table can tell afterwards what was written."""
        return self is OutboxMode.KEEP


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxColumns:
    """The outbox's column names, by what they hold; the defaults are Debezium's where it has one.

    Args:
        sequence: ``None`` where a table of another make has none; its events are not numbered then.
        source: ``None`` likewise.
        created_at: ``None`` likewise; the record's timestamp is the connector's then.
    """

    id: str = "id"
    aggregate_type: str = "aggregatetype"
    aggregate_id: str = "aggregateid"
    type: str = "type"
    payload: str = "payload"
    sequence: str | None = "sequence"
    source: str | None = "source"
    created_at: str | None = "created_at"

    DEFAULT_CREATED_AT: ClassVar[str] = "created_at"

    def __post_init__(self) -> None:
        roles: dict[str, str] = {}
        for role, column in self.names().items():
            quote(column)
            if column in roles:
                raise ConfigError(
                    f"the column {column!r} cannot hold both {roles[column]} and {role}", field=f"OutboxColumns.{role}"
                )
            roles[column] = role

    def names(self) -> Mapping[str, str]:
        """Return role → column name of those that the table has, in its order."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        return {role: column for role, column in found.items() if column is not None}


TRACE_HEADERS: Mapping[str, str] = {"traceparent": "traceparent", "tracestate": "tracestate"}
"""W3C trace context, as OpenTelemetry writes it."""
_HEADER_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
"""A header column's name also stands inside JSON paths, in each dialect's own quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxTable:
    """The table that events are written to, in the business transaction.

    Args:
        schema: ``None`` is ``public`` on PostgreSQL and the connection's database elsewhere.
        name: At most 63 bytes; any character but NUL.
        headers: Header column → header of the message; text columns that may be null.
        format: What the writer adds to each event; it brings header columns of its own.
    """

    schema: str | None = None
    name: str = "outbox"
    columns: OutboxColumns = field(default_factory=OutboxColumns)
    headers: Mapping[str, str] = field(default_factory=lambda: dict(TRACE_HEADERS))
    payload_type: PayloadType = PayloadType.JSON
    mode: OutboxMode = OutboxMode.KEEP
    format: EventFormat = EventFormat.PLAIN

    def __post_init__(self) -> None:
        _ = self.table  # which checks both names
        if self.mode is OutboxMode.MESSAGE:
            self._refuse_what_messages_cannot()
        if self.format is EventFormat.CLOUDEVENTS_STRUCTURED and self.payload_type is PayloadType.BYTES:
            hint = f"Choose {EventFormat.CLOUDEVENTS_BINARY}."
            raise ConfigError("an envelope is JSON, never bytes", field="outbox.format", hint=hint)
        if self.format is EventFormat.CLOUDEVENTS_BINARY and not self.is_numbered:
            raise ConfigError("CloudEvents have a source, and the table has no columns for one", field="outbox.format")
        taken = {column: role for role, column in self.columns.names().items()}
        taken |= dict.fromkeys(FORMAT_HEADERS[self.format], f"format {self.format}")
        for column in self.headers:
            if not _HEADER_COLUMN.fullmatch(column):
                reason = "is not named with letters, digits and underscores"
            elif column in taken:
                reason = f"belongs to the {taken[column]} already"
            else:
                continue
            raise ConfigError(f"the header column {column!r} {reason}", field="outbox.headers")

    def _refuse_what_messages_cannot(self) -> None:
        if self.payload_type is PayloadType.BYTES:
            raise ConfigError(
                "a logical message carries the payload as JSON text, never as bytes",
                field="payload_type",
                hint="Choose the mode keep or delete.",
            )
        if self.columns.created_at not in {None, OutboxColumns.DEFAULT_CREATED_AT}:
            raise ConfigError(
                "a logical message has no time of its own; its record gets the connector's", field="columns.created_at"
            )

    @property
    def header_columns(self) -> Mapping[str, str]:
        """Every header column with its header: the declared ones, and those of the format."""
        return {**self.headers, **FORMAT_HEADERS[self.format]}

    @property
    def timestamp_column(self) -> str | None:
        """The column that gives the record its timestamp; ``None`` leaves it to the connector's clock."""
        return None if self.mode is OutboxMode.MESSAGE else self.columns.created_at

    @property
    def message_prefix(self) -> str:
        """The prefix of this outbox's logical messages, which no other table's has."""
        return f"cdc-outbox:{self.table.quoted}"

    @property
    def is_numbered(self) -> bool:
        """Whether the table can hold a sequence and say whose it is."""
        return self.columns.sequence is not None and self.columns.source is not None

    @property
    def table(self) -> TableName:
        """The outbox itself."""
        return TableName(schema="public" if self.schema is None else self.schema, name=self.name)

    @property
    def heads(self) -> TableName:
        """The last sequence given out, one row per source and aggregate; never pruned."""
        return self.table.sibling("heads")

    def names(self, dialect: Dialect = Dialect.POSTGRESQL) -> Mapping[str, str]:
        """Return what the statements in ``sql/`` call ``{outbox}``, ``{heads}``, the columns and lists of them."""
        quote = dialect.quote
        schema = dialect.default_schema if self.schema is None else self.schema
        prefix = "" if schema is None else f"{quote(schema)}."
        columns = {role: quote(column) for role, column in self.columns.names().items()}
        headers = [(quote(column), _header_value(dialect, column)) for column in self.header_columns]
        return {
            "outbox": prefix + quote(self.name),
            "heads": prefix + quote(derived_name(self.name, "heads")),
            "schema": "" if schema is None else quote(schema),
            "header_columns": "".join(f", {column}" for column, _ in headers),
            "header_values": "".join(f", {value}" for _, value in headers),
            "header_definitions": "".join(f",\n    {column} text" for column, _ in headers),
            "returned": ", ".join(columns.get(role, "null") for role in ("sequence", "source", "created_at")),
            "payload_type": _PAYLOAD_TYPES[self.payload_type][0],
            "payload_array": _PAYLOAD_TYPES[self.payload_type][1],
        } | columns


_PAYLOAD_TYPES = {PayloadType.JSON: ("json", "text[]"), PayloadType.BYTES: ("bytea", "bytea[]")}
"""PostgreSQL's type of the payload column, and of many payloads on their way there."""


def _header_value(dialect: Dialect, column: str) -> str:
    """Return the expression that takes a header's value from the JSON object ``given.headers``."""
    if dialect is Dialect.POSTGRESQL:
        return f"given.headers ->> '{column}'"
    function = "json_value" if dialect is Dialect.MYSQL else "json_extract"
    return f"{function}(given.headers, '$.{column}')"


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxTable:
    """The table in which a consumer claims the ids of the events it has applied, in the handler's transaction.

    Several consumers may share it: every key starts with the consumer's name.
    """

    schema: str = "public"
    name: str = "inbox"

    def __post_init__(self) -> None:
        _ = self.table  # which checks both names

    @property
    def table(self) -> TableName:
        """The claims, partitioned by range of the event's id."""
        return TableName(schema=self.schema, name=self.name)

    @property
    def watermarks(self) -> TableName:
        """The last sequence applied, one row per consumer, source and aggregate; never pruned."""
        return self.table.sibling("watermarks")

    @property
    def rest(self) -> TableName:
        """The partition of the claims that takes every id for which no other partition was made."""
        return self.table.sibling("rest")

    def names(self) -> Mapping[str, str]:
        """Return what the statements in ``sql/`` call ``{inbox}``, ``{watermarks}`` and ``{rest}``."""
        return {
            "inbox": self.table.quoted,
            "watermarks": self.watermarks.quoted,
            "rest": self.rest.quoted,
            "schema": quote(self.schema),
        }
