"""Rules about the PostgreSQL outbox table: what router, converters and writer need. Pure."""

from collections.abc import Iterator, Mapping

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.facts import ColumnFacts, PublicationFacts, TableFacts
from cdc_outbox.databases.quoting import quote
from cdc_outbox.debezium.preflight.findings import MAKE_TABLE, UUID_LENGTH, error, note, warning
from cdc_outbox.finding import Finding
from cdc_outbox.formats.attributes import ATTRIBUTES, AttributeKind
from cdc_outbox.formats.event_format import PayloadType
from cdc_outbox.redaction import either
from cdc_outbox.spec import Spec

_TEXT = ("text", "character varying", "citext")
_TYPES: Mapping[AttributeKind, tuple[str, ...]] = {
    AttributeKind.ID: ("uuid", *_TEXT),
    AttributeKind.NAME: _TEXT,
    AttributeKind.KEY: (*_TEXT, "uuid"),
    AttributeKind.LABEL: _TEXT,
    AttributeKind.NUMBER: ("bigint", "integer"),
    AttributeKind.TIME: ("timestamp without time zone",),
}
_PAYLOAD_TYPES = {PayloadType.JSON: ("json", "jsonb", *_TEXT), PayloadType.BYTES: ("bytea",)}
"""Types that the converters and the EventRouter support, by column; the type that `init` creates is first or near."""

_REASONS = {
    "timestamp with time zone": "it reaches the router as text, and the task fails on the first row",
    "character": "it pads values with spaces, which go into topics, keys and headers",
    "bytea": "it becomes the name of a Java class, or base64, and not JSON",
}
_ENUM = "PostgreSQL does not accept the writer's text for an enum, and every event fails"


def check_table(spec: Spec, table: TableFacts | None, publication: PublicationFacts | None) -> Iterator[Finding]:
    """Yield what prevents events from being written, published or routed."""
    if spec.outbox.mode is OutboxMode.MESSAGE:
        yield from _check_heads(spec, table)
        return
    name = str(spec.outbox.table)
    if table is None:
        yield error("DB301", name, "the outbox table does not exist.", MAKE_TABLE)
        return
    if not table.has_log:
        remedy = "Name the table itself in the spec: outbox.table."
        yield error("DB305", name, "the relation is a view or a foreign table.", remedy)
        return
    if table.persistence != "p":
        message = "the table is unlogged or temporary, so WAL contains no changes of it."
        yield error("DB302", name, message, f"alter table {spec.outbox.table.quoted} set logged")
    if table.refuses_deletes and spec.outbox.mode is OutboxMode.DELETE:
        message = "a publication publishes deletes, and the table has no replica identity: deleting an event fails."
        remedy = f"alter table {spec.outbox.table.quoted} replica identity full"
        yield error("DB317", name, message, remedy)
    for rule in table.rules:
        message = f"the rule {rule} replaces inserts: events are not written, and no error is reported."
        yield error("DB326", name, message, f"alter table {spec.outbox.table.quoted} disable rule {rule}")
    for column, types in _wanted(spec).items():
        facts = table.columns.get(column)
        if facts is None:
            yield error("DB303", f"{name}.{column}", "the column does not exist.", MAKE_TABLE)
        else:
            yield from _check_column(spec, column, facts, types)
            yield from _check_generated(spec, column, facts, publication)
    yield from _check_lengths(spec, table)


def check_table_warnings(spec: Spec, table: TableFacts | None) -> Iterator[Finding]:
    """Yield warnings and notes about the table: nullable columns, missing keys, triggers, partitions, jsonb."""
    if table is None or not table.has_log or spec.outbox.mode is OutboxMode.MESSAGE:
        return
    name, quoted, columns = str(spec.outbox.table), spec.outbox.table.quoted, spec.outbox.columns
    for column in (columns.id, columns.aggregate_type, columns.aggregate_id):
        facts = table.columns.get(column)
        if facts is not None and not facts.not_null:
            message = "the column is nullable: the router fails on a null, or a consumer fails on its message."
            remedy = f"alter table {quoted} alter column {quote(column)} set not null"
            yield warning("DB315", f"{name}.{column}", message, remedy)
    if (columns.id,) not in table.keys:
        message = f"event ids may repeat: there is no unique index on {columns.id} alone."
        way = "" if table.is_partitioned else " concurrently"
        yield warning("DB316", name, message, f"create unique index{way} on {quoted} ({quote(columns.id)})")
    for trigger in table.triggers:
        message = f"the trigger {trigger} may return null before an insert: events are lost without an error."
        yield warning("DB327", name, message, f"alter table {quoted} disable trigger {trigger}")
    if table.partition_of:
        message = f"the table is a partition of {table.partition_of}, and rows of other partitions are not published."
        yield warning("DB318", name, message, "Name the partitioned table in the spec: outbox.table.")
    if table.children:
        message = f"{', '.join(table.children)} inherit from the table, and their rows are not published."
        remedy = "; ".join(f"alter table {child} no inherit {quoted}" for child in table.children)
        yield warning("DB319", name, message, remedy)
    payload = table.columns.get(columns.payload)
    if payload is not None and payload.type == "jsonb":
        message = "jsonb stores values, not text: white space, key order and duplicate keys are lost."
        remedy = f"alter table {quoted} alter column {quote(columns.payload)} type json"
        yield note("DB320", f"{name}.{columns.payload}", message, remedy)


def _wanted(spec: Spec) -> Mapping[str, tuple[str, ...]]:
    outbox = spec.outbox
    types = {**_TYPES, AttributeKind.PAYLOAD: _PAYLOAD_TYPES[outbox.payload_type.stored]}
    wanted = {column: types[ATTRIBUTES[role].kind] for role, column in outbox.columns.names().items()}
    if outbox.mode is OutboxMode.DELETE:  # deleted rows are found by their ids, compared as uuid
        wanted[outbox.columns.id] = ("uuid",)
    return {**wanted, **dict.fromkeys(outbox.header_columns, _TEXT)}


def _check_column(spec: Spec, column: str, facts: ColumnFacts, types: tuple[str, ...]) -> Iterator[Finding]:
    # An extension's type includes its schema if the schema is not on the search path.
    if facts.type in types or (facts.type.endswith(".citext") and "citext" in types):
        return
    reason = _ENUM if facts.is_enum else _REASONS.get(facts.type, "")
    yield error(
        "DB304",
        f"{spec.outbox.table}.{column}",
        f"the type is {facts.type}{f': {reason}' if reason else ''}. It must be {either(types)}.",
        _remedy(spec, column, facts, types[0]),
    )


def _remedy(spec: Spec, column: str, facts: ColumnFacts, wanted: str) -> str:
    if column == spec.outbox.columns.payload and "bytea" in {facts.type, wanted}:
        # Writers and connector would need to change at the same moment as the column.
        return "Name another table in outbox.table, or set outbox.payload_type to the type of this table."
    using = _conversion(facts, quote(column), wanted)
    return f"alter table {spec.outbox.table.quoted} alter column {quote(column)} type {wanted} using {using}"


def _conversion(facts: ColumnFacts, column: str, wanted: str) -> str:
    if facts.type == "timestamp with time zone":
        return f"{column} at time zone 'UTC'"
    if facts.type == "bytea":
        return f"cast(convert_from({column}, 'UTF8') as {wanted})"
    return f"cast({column} as {wanted})"


def _check_generated(
    spec: Spec, column: str, facts: ColumnFacts, publication: PublicationFacts | None
) -> Iterator[Finding]:
    if not facts.is_generated or (publication and publication.columns and column in publication.columns):
        return
    message = "the column is generated, and the publication does not publish generated columns."
    remedy = f"alter table {spec.outbox.table.quoted} alter column {quote(column)} drop expression"
    yield error("DB313", f"{spec.outbox.table}.{column}", message, remedy)


def _check_lengths(spec: Spec, table: TableFacts) -> Iterator[Finding]:
    outbox = spec.outbox
    longest = {
        outbox.columns.id: UUID_LENGTH,
        outbox.columns.aggregate_type: max(map(len, spec.contract.aggregates), default=0),
    }
    if outbox.columns.source is not None:
        longest[outbox.columns.source] = len(spec.first_source)
    # An adopted table may have another writer, with shorter ids.
    report = warning if outbox.adopted else error
    for column, needed in longest.items():
        facts = table.columns.get(column)
        if facts is not None and facts.length is not None and facts.length < needed:
            message = f"the column has {facts.length} characters, and values have up to {needed}."
            remedy = f"alter table {outbox.table.quoted} alter column {quote(column)} type varchar({needed})"
            yield report("DB314", f"{outbox.table}.{column}", message, remedy)


def _check_heads(spec: Spec, heads: TableFacts | None) -> Iterator[Finding]:
    name = str(spec.outbox.heads)
    if heads is None:
        yield error("DB321", name, "the heads table does not exist.", MAKE_TABLE)
    elif heads.persistence != "p":
        message = "the heads table is unlogged or temporary, so sequence numbers start again after a crash."
        yield error("DB323", name, message, f"alter table {spec.outbox.heads.quoted} set logged")
