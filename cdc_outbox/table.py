"""The tables this package reads and writes: names, columns, and how they are quoted."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from cdc_outbox.errors import ConfigError

MAX_IDENTIFIER_BYTES = 63
"""PostgreSQL cuts a longer name off without a word, and two names may become one."""


def quote(identifier: str) -> str:
    """Return the identifier in double quotes, ready to stand in a statement.

    Raises:
        ConfigError: It is empty, holds a NUL, or is longer than 63 bytes in UTF-8.
    """
    if not identifier or "\0" in identifier:
        raise ConfigError(f"{identifier!r} cannot be the name of a table, schema or column")
    if len(identifier.encode()) > MAX_IDENTIFIER_BYTES:
        raise ConfigError(f"the name {identifier!r} is longer than {MAX_IDENTIFIER_BYTES} bytes")
    return '"' + identifier.replace('"', '""') + '"'


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxColumns:
    """The outbox's column names, by what they hold; the defaults are Debezium's where it has one."""

    id: str = "id"
    aggregate_type: str = "aggregatetype"
    aggregate_id: str = "aggregateid"
    type: str = "type"
    payload: str = "payload"
    sequence: str = "sequence"
    source: str = "source"
    traceparent: str = "traceparent"
    tracestate: str = "tracestate"
    created_at: str = "created_at"

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
        """Return role → column name, in the table's order."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxTable:
    """The table that events are written to, in the business transaction.

    Args:
        name: At most 63 bytes; any character but NUL.
    """

    schema: str = "public"
    name: str = "outbox"
    columns: OutboxColumns = field(default_factory=OutboxColumns)

    def __post_init__(self) -> None:
        _ = self.table  # which checks both names

    @property
    def table(self) -> TableName:
        """The outbox itself."""
        return TableName(schema=self.schema, name=self.name)

    @property
    def heads(self) -> TableName:
        """The last sequence given out, one row per source and aggregate; never pruned."""
        return self.table.sibling("heads")

    def names(self) -> Mapping[str, str]:
        """Return what the statements in ``sql/`` call ``{outbox}``, ``{heads}`` and the columns."""
        columns = {role: quote(column) for role, column in self.columns.names().items()}
        return {
            "outbox": self.table.quoted,
            "heads": self.heads.quoted,
            "schema": quote(self.schema),
        } | columns


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
