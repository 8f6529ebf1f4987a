"""What `init` makes, as each dialect's catalogue spells it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.introspection import ColumnCatalog
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.formats.event_format import PayloadType
from cdc_outbox.writer.outbox_schema import HEADS_SETTINGS

SOURCE = "a constant"
"""Stands for the default of a source column, whose value is not the same everywhere."""

_NOT_NULL = {"id", "aggregate_type", "aggregate_id", "type", "source", "created_at"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """An outbox and its heads in one dialect.

    Args:
        types: Role of a column → its type, or several with "or" between them.
        payloads: Likewise of the payload.
        header: Likewise of a header column.
        now: The default of ``created_at``.
        heads: The head table's columns; their order is that of the statements.
        key: The head table's primary key.
        settings: Of the outbox.
        heads_settings: Of the head table.
        vital: Settings without which a promise breaks.
    """

    types: Mapping[str, str]
    payloads: Mapping[PayloadType, str]
    header: str
    now: str
    heads: Mapping[str, ColumnCatalog]
    key: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    heads_settings: Mapping[str, str] = field(default_factory=dict)
    vital: frozenset[str] = frozenset()

    def columns_of(self, table: OutboxTable) -> Mapping[str, ColumnCatalog]:
        """Return the columns of an outbox of ours, in its order."""
        types = {**self.types, "payload": self.payloads[table.payload_type.stored]}
        defaults = {"source": SOURCE, "created_at": self.now}
        own = {
            column: ColumnCatalog(types[role], role in _NOT_NULL, defaults.get(role, ""))
            for role, column in table.columns.names().items()
        }
        return own | dict.fromkeys(table.header_columns, ColumnCatalog(self.header))

    def is_now(self, default: str) -> bool:
        """Tell whether a default is the time at which a row is written; PostgreSQL spells it in two ways."""
        return re.sub(r"::text\b", "", default) == self.now


_POSTGRESQL = Shape(
    types={
        "id": "uuid",
        **dict.fromkeys(("aggregate_type", "aggregate_id", "type", "source"), "text"),
        "sequence": "bigint",
        "created_at": "timestamp(6) without time zone",
    },
    payloads={PayloadType.JSON: "json", PayloadType.BYTES: "bytea"},
    header="text",
    now="(clock_timestamp() AT TIME ZONE 'UTC')",
    heads={
        "source": ColumnCatalog("text", True, SOURCE),
        "aggregatetype": ColumnCatalog("text", True),
        "aggregateid": ColumnCatalog("text", True),
        "last": ColumnCatalog("bigint", True),
    },
    key=("source", "aggregatetype", "aggregateid"),
    heads_settings=HEADS_SETTINGS,
)

_MYSQL = Shape(
    types={
        "id": "char(36) collate ascii_bin",
        "aggregate_type": "varchar(249) collate utf8mb4_bin",
        "aggregate_id": "varchar(1000) collate utf8mb4_bin",
        "type": "varchar(249) collate utf8mb4_bin",
        "sequence": "bigint",
        "source": "varchar(255) collate utf8mb4_bin",
        "created_at": "datetime(6)",
    },
    # MariaDB's json is text with a constraint.
    payloads={PayloadType.JSON: "json or longtext collate utf8mb4_bin", PayloadType.BYTES: "longblob"},
    header="longtext collate utf8mb4_bin",
    now="utc_timestamp(6)",
    heads={
        "source": ColumnCatalog("varbinary(255)", True, SOURCE),
        "aggregatetype": ColumnCatalog("varbinary(249)", True),
        "aggregateid": ColumnCatalog("varbinary(1000)", True),
        "last": ColumnCatalog("bigint", True),
    },
    key=("source", "aggregatetype", "aggregateid"),
    settings={"engine": "InnoDB", "row_format": "dynamic", "collate": "utf8mb4_bin"},
    heads_settings={"engine": "InnoDB", "row_format": "dynamic"},
    # Another engine undoes nothing.
    vital=frozenset({"engine"}),
)

_SQLITE = Shape(
    types={
        **dict.fromkeys(("id", "aggregate_type", "aggregate_id", "type", "source", "created_at"), "text"),
        "sequence": "integer",
    },
    payloads={PayloadType.JSON: "text", PayloadType.BYTES: "blob"},
    header="text",
    now="strftime('%Y-%m-%dT%H:%M:%f', 'now')",
    heads={
        "source": ColumnCatalog("text", True, SOURCE),
        "aggregatetype": ColumnCatalog("text", True),
        "aggregateid": ColumnCatalog("text", True),
        "last": ColumnCatalog("integer", True),
        "event_id": ColumnCatalog("text", True),
    },
    key=("aggregatetype", "aggregateid", "source"),
    settings={"strict": "1"},
    heads_settings={"strict": "1"},
    # Without it a type is a wish: a text becomes a number where it looks like one.
    vital=frozenset({"strict"}),
)

SHAPES: Mapping[Dialect, Shape] = {
    Dialect.POSTGRESQL: _POSTGRESQL,
    Dialect.MYSQL: _MYSQL,
    Dialect.SQLITE: _SQLITE,
}
