"""What differs between dialects, as values; each module beside this one holds those of one dialect."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cdc_outbox.databases.quoting import literal
from cdc_outbox.formats.attributes import AttributeKind
from cdc_outbox.formats.event_format import PayloadType


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxShape:
    """An outbox and its heads as `init` makes them, as the dialect's catalogue spells them.

    Args:
        types: What an attribute is → its column's type, or several with "or" between them.
        payloads: Likewise of the payload.
        header: Likewise of a header column.
        now: The default of ``created_at``.
        heads: The head table's columns, none of which may be null; their order is that of the statements.
        key: The head table's primary key.
        settings: Of the outbox.
        heads_settings: Of the head table.
        vital: Settings without which a promise breaks.
        setting_remedy: How a setting is changed.
    """

    types: Mapping[AttributeKind, str]
    payloads: Mapping[PayloadType, str]
    header: str
    now: str
    heads: Mapping[str, str]
    key: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    heads_settings: Mapping[str, str] = field(default_factory=dict)
    vital: frozenset[str] = frozenset()
    setting_remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectFeatures:
    """A dialect as far as it differs from others in more than its statements.

    Args:
        title: Its databases' name for readers.
        schemes: What a DSN of these databases begins with.
        driver: The module in ``databases/drivers`` that opens a connection from a DSN.
        extra: The extra of this package that brings the driver; empty where it is in the standard library.
        quotation_mark: What stands around identifiers.
        literal: Return a text as a string constant.
        default_schema: Where a table is that has no schema given; ``None`` is the connection's database.
        has_publications: Whether connectors read the log through a publication and a slot. An outbox has checkpoints
            and heartbeats then, may be without a table, and its rows can be published again.
        has_partitions: Whether a table can be divided by ranges of its ids.
        has_owners: Whether a table has an owner, who alone may change it.
        has_row_locks: Whether writers wait for each other's rows only, and not for the whole database.
        adds_missing_columns: Whether a statement can add a column only where it is missing.
        indexes_have_schemas: Whether an index is created under a name with its schema.
        connector_privileges: What the connector's role may do on the whole server.
        returns_readable: Whether an insert returns its columns only to a role that may read all of them.
        upserted: Columns of the head table that an upsert must be allowed to update beside the number.
        text_change: How a column is made a text, with ``{table}`` and ``{column}``.
        undoes_ddl: Whether a rollback undoes changes of tables.
        block: What several statements are put into where a driver's server executes them as one; empty where none does.
        has_arrays: Whether a parameter may be a list.
        marks_heads: Whether a head holds a mark of the insertion that moved it last.
        max_payload_depth: How many levels deep a payload may be nested.
        payload_types: What a payload column is declared as.
        header_type: What a header column is declared as; it holds a text of any length.
        time_text: Return an expression for a column's time as a text in ISO 8601.
        names_transactions: Whether a statement can return the id of its transaction. Elsewhere the inbox proves it by
            a savepoint.
        key_bytes: The size of each key column of the inbox, where each has one of its own.
        password_note: A comment on how roles get their passwords; ``None`` where there are no roles.
        script_frame: What stands before the statements of ``init --sql``, and behind them.
        shape: What `init --check` compares tables with.
    """

    title: str
    schemes: tuple[str, ...]
    driver: str
    extra: str = ""
    quotation_mark: str = '"'
    literal: Callable[[str], str] = literal
    default_schema: str | None = None
    has_publications: bool = False
    has_partitions: bool = False
    has_owners: bool = False
    has_row_locks: bool = True
    adds_missing_columns: bool = True
    indexes_have_schemas: bool = False
    connector_privileges: tuple[str, ...] = ()
    returns_readable: bool = False
    upserted: tuple[str, ...] = ()
    text_change: str = "Make it a text"
    undoes_ddl: bool = True
    block: str = ""
    has_arrays: bool = False
    marks_heads: bool = False
    max_payload_depth: int = 100
    payload_types: Mapping[PayloadType, str]
    header_type: str
    time_text: Callable[[str], str] = str
    names_transactions: bool = False
    key_bytes: Mapping[str, int] = field(default_factory=dict)
    password_note: str | None = None
    script_frame: tuple[str, ...]
    shape: OutboxShape
