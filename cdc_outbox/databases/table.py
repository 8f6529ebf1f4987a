"""The tables this package reads and writes: their names and columns."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from cdc_outbox.contract.outbox_options import OutboxMode, Partitions, refuse_elsewhere, refuse_together, settle
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.quoting import derived_name, quote
from cdc_outbox.errors import ConfigError
from cdc_outbox.formats.attributes import BUILT_IN_HEADERS, ColumnNames
from cdc_outbox.formats.event_format import FORMAT_HEADERS, EventFormat, PayloadType


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName:
    """A table's schema and name; both are checked at birth.

    Args:
        schema: Never left to the search path: connector, writer and preflight must mean the same table. ``None`` is
            the connection's database, on MySQL only.
    """

    schema: str | None
    name: str
    dialect: Dialect = Dialect.POSTGRESQL

    def __post_init__(self) -> None:
        if self.schema is not None:
            quote(self.schema)
        quote(self.name)

    @property
    def quoted(self) -> str:
        """Both names, ready to stand in a statement."""
        schema = "" if self.schema is None else f"{self.dialect.quote(self.schema)}."
        return schema + self.dialect.quote(self.name)

    def named(self, name: str) -> "TableName":
        """Return another table of the same schema."""
        return replace(self, name=name)

    def sibling(self, suffix: str) -> "TableName":
        """Return a table of the same schema, named after this one."""
        return self.named(derived_name(self.name, suffix))

    def literals(self) -> Mapping[str, str]:
        """Return what the statements in ``sql/`` that look for a table call its names."""
        literal, schema = self.dialect.literal, self.schema
        return {
            "schema": "" if schema is None else self.dialect.quote(schema),
            "schema_literal": "database()" if schema is None else literal(schema),
            "name_literal": literal(self.name),
            "table_literal": literal(self.quoted),
        }

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxColumns(ColumnNames):
    """The outbox's column names, by what they hold; the defaults are Debezium's where it has one.

    Args:
        sequence: ``None`` for an adopted table without this column; its events are not numbered.
        source: ``None`` likewise.
        created_at: ``None`` likewise; the record's timestamp is then the connector's time.
    """

    def __post_init__(self) -> None:
        roles: dict[str, str] = {}
        for role, column in self.names().items():
            quote(column)
            if column in roles:
                raise ConfigError(
                    f"the column {column!r} cannot be both {roles[column]} and {role}", field=f"OutboxColumns.{role}"
                )
            roles[column] = role


_CHOICES: dict[str, type[StrEnum]] = {"payload_type": PayloadType, "mode": OutboxMode, "format": EventFormat}
HEADER_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
"""A header column's name is a parameter's, and stands in quotes as a key of JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxTable:
    """The table that events are written to, in the business transaction.

    Args:
        schema: ``None`` is ``public`` on PostgreSQL and the connection's database elsewhere.
        name: At most 63 bytes; any character but control characters.
        headers: Header column → header of the message; text columns that may be null.
        format: What the writer adds to each event; it has header columns of its own.
        partitions: PostgreSQL only; ``None`` is a table that is not partitioned.
        adopted: Whether another tool created it. An adopted table is never changed; only events are written to it.
        capitals: Whether the columns that the format adds are in capital letters, as Oracle's are.
    """

    schema: str | None = None
    name: str = "outbox"
    columns: OutboxColumns = field(default_factory=OutboxColumns)
    headers: Mapping[str, str] = field(default_factory=lambda: dict(BUILT_IN_HEADERS))
    payload_type: PayloadType = PayloadType.JSON
    mode: OutboxMode = OutboxMode.KEEP
    format: EventFormat = EventFormat.PLAIN
    partitions: Partitions | None = None
    adopted: bool = False
    capitals: bool = False

    def __post_init__(self) -> None:
        settle(self, _CHOICES | ({} if self.partitions is None else {"partitions": Partitions}))
        _ = self.table  # which checks both names
        if self.adopted and self.partitions is not None:
            raise ConfigError("the partitions of an adopted table belong to its owner", field="partitions")
        if self.mode is OutboxMode.MESSAGE:
            self._refuse_what_messages_cannot()
        refuse_together(self.mode, self.payload_type, self.format)
        if self.format is EventFormat.CLOUDEVENTS_BINARY and not self.is_numbered:
            raise ConfigError("CloudEvents need a source, but the table has no columns for it", field="format")
        taken = {column: role for role, column in self.columns.names().items()}
        taken |= dict.fromkeys(self._format_columns, f"format {self.format}")
        for column in self.headers:
            if not HEADER_COLUMN.fullmatch(column):
                reason = "must consist of letters, digits and underscores"
            elif column in taken:
                reason = f"already belongs to the {taken[column]}"
            else:
                continue
            raise ConfigError(f"the header column {column!r} {reason}", field="headers")

    def _refuse_what_messages_cannot(self) -> None:
        if self.adopted or self.partitions is not None:
            field = "columns" if self.adopted else "partitions"
            raise ConfigError("logical messages have no table to adopt or partition", field=field)

    def refuse_elsewhere(self, database: str) -> None:
        """Refuse a database that cannot have this outbox.

        Args:
            database: A dialect, or whose database it is.

        Raises:
            ConfigError: The outbox is partitioned or without a table, which only PostgreSQL's can be; or Debezium's
                router for its documents does not make what the payload or the format asks for.
        """
        refuse_elsewhere(database, self.mode, self.payload_type, self.format)
        if self.partitions is not None and database != Dialect.POSTGRESQL:
            raise ConfigError("only PostgreSQL's outbox can be partitioned", field="partitions")

    @property
    def header_columns(self) -> Mapping[str, str]:
        """Every header column with its header: the declared ones, and those of the format."""
        return {**self.headers, **self._format_columns}

    @property
    def _format_columns(self) -> Mapping[str, str]:
        named = FORMAT_HEADERS[self.format]
        return {column.upper(): header for column, header in named.items()} if self.capitals else named

    @property
    def header_parameters(self) -> Mapping[str, str]:
        """Every header column with the parameter that a statement takes its value from."""
        return {column: f"header_{column}" for column in self.header_columns}

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
        """The outbox itself, on PostgreSQL."""
        return self.table_in(Dialect.POSTGRESQL)

    @property
    def heads(self) -> TableName:
        """The last sequence given out, one row per source and aggregate; never pruned."""
        return self.table.sibling("heads")

    def table_in(self, dialect: Dialect) -> TableName:
        """Return the outbox as a database of this dialect calls it."""
        schema = dialect.features.default_schema if self.schema is None else self.schema
        return TableName(schema=schema, name=self.name, dialect=dialect)

    def heads_in(self, dialect: Dialect) -> TableName:
        """Return the heads as a database of this dialect calls them."""
        return self.table_in(dialect).sibling("heads")

    @property
    def checkpoints(self) -> TableName:
        """Where the log ended at earlier prunings; see :mod:`cdc_outbox.operations.delivery_proof`."""
        return self.table.sibling("checkpoints")

    @property
    def publishers(self) -> TableName:
        """Who may publish the outbox, on PostgreSQL; see :mod:`cdc_outbox.databases.publishers`."""
        return self.table.sibling("publishers")

    @property
    def has_heartbeats(self) -> bool:
        """Whether the connector writes heartbeats through it, on PostgreSQL: not into another tool's table."""
        return not self.adopted and self.is_numbered

    @property
    def heartbeats(self) -> TableName:
        """The last day's heartbeats, on PostgreSQL; see :mod:`cdc_outbox.databases.heartbeats`."""
        return self.table.sibling("heartbeats")

    @property
    def heartbeat(self) -> TableName:
        """The function that writes one: what the connector calls."""
        # The table's name without the last letter, so that an operator who sees one in a configuration finds the other.
        return self.heartbeats.named(self.heartbeats.name[:-1])

    @property
    def rest(self) -> TableName:
        """The partition that takes every id for which no other partition was made."""
        return self.table.sibling("rest")

    @property
    def returned(self) -> tuple[str, ...]:
        """The columns that the database fills in, and that the writer reads back beside the id."""
        columns = self.columns.names()
        return tuple(columns[role] for role in ("sequence", "source", "created_at") if role in columns)

    def names(self, dialect: Dialect = Dialect.POSTGRESQL, *, casts_times: bool = False) -> Mapping[str, str]:
        """Return what the statements in ``sql/`` call outbox, heads, the columns and lists of them.

        Args:
            casts_times: Whether returned times are cast to text. By default the dialect's ``time_text`` formats them,
                which does not depend on the session's settings.
        """
        quote, features, table = dialect.quote, dialect.features, self.table_in(dialect)
        columns = {role: quote(column) for role, column in self.columns.names().items()}
        headers = {column: quote(column) for column in self.header_columns}
        time_text = "cast({} as text)".format if casts_times else features.time_text
        return {
            "outbox": table.quoted,
            "heads": table.sibling("heads").quoted,
            "checkpoints": table.sibling("checkpoints").quoted,
            "publishers": table.sibling("publishers").quoted,
            "schema": "" if table.schema is None else quote(table.schema),
            "header_columns": ", ".join(headers.values()),
            "header_fields": ", ".join(f"given.headers ->> '{column}'" for column in headers),
            # The type of the last one stands behind it.
            "header_definitions": f" {features.header_type},\n    ".join(headers.values()),
            "rest": table.sibling("rest").quoted,
            "partitioned": "" if self.partitions is None else "yes",
            "in_order": _in_order(columns),
            "returned": ", ".join(
                (
                    columns.get("source", "null"),
                    time_text(columns["created_at"]) if "created_at" in columns else "null",
                )
            ),
            "stores_json": "yes" if self.payload_type.stored is PayloadType.JSON else "",
            "stores_bytes": "yes" if self.payload_type.stored is PayloadType.BYTES else "",
            "payload_type": features.payload_types[self.payload_type.stored],
            "payload_input": _PAYLOAD_INPUTS[self.payload_type.stored],
            "payload_decoded": _PAYLOADS_DECODED[self.payload_type.stored],
        } | columns


_PAYLOAD_INPUTS = {PayloadType.JSON: "text", PayloadType.BYTES: "bytea"}
"""PostgreSQL's type of a payload on its way there."""
_PAYLOADS_DECODED = {PayloadType.JSON: "cast(payload as json)", PayloadType.BYTES: "decode(payload, 'hex')"}
"""How PostgreSQL makes a payload from the text that stands in a list of events."""


def _in_order(columns: Mapping[str, str]) -> str:
    """Return by what rows are sorted as they were written, empty where no column tells."""
    keys = [f"{columns[role]} nulls first" for role in ("sequence", "created_at") if role in columns]
    return ", ".join(keys)
