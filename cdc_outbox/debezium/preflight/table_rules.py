"""PostgreSQL's outbox table against what router, converters and writer need of it. Pure."""

from collections.abc import Iterator, Mapping

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.facts import ColumnFacts, PublicationFacts, TableFacts
from cdc_outbox.databases.quoting import quote
from cdc_outbox.debezium.preflight.findings import MAKE_TABLE, UUID_LENGTH, error, note, warning
from cdc_outbox.finding import Finding
from cdc_outbox.formats.attributes import ATTRIBUTES, AttributeKind
from cdc_outbox.formats.event_format import PayloadType
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
"""What each column may be for the converters and for the EventRouter, the one that `init` makes first or near it."""

_REASONS = {
    "timestamp with time zone": "it reaches the router as text, and the task fails on the first row",
    "character": "it is filled up with blanks, which go into topics, keys and headers",
    "bytea": "no JSON comes of it, but the name of a Java class, or base64",
}
_ENUM = "the writer's texts are none of its values to PostgreSQL, and every event fails"


def check_table(spec: Spec, table: TableFacts | None, publication: PublicationFacts | None) -> Iterator[Finding]:
    """Yield what keeps events from being written, from being published or from being routed."""
    if spec.outbox.mode is OutboxMode.MESSAGE:
        yield from _check_heads(spec, table)
        return
    name = str(spec.outbox.table)
    if table is None:
        yield error("DB301", name, "the outbox table does not exist.", MAKE_TABLE)
        return
    if not table.has_log:
        remedy = "Name the table itself in the spec: outbox.table."
        yield error("DB305", name, "it is a view or a foreign table.", remedy)
        return
    if table.persistence != "p":
        message = "the table is unlogged or temporary, so nothing is decoded from it."
        yield error("DB302", name, message, f"alter table {spec.outbox.table.quoted} set logged")
    if table.refuses_deletes and spec.outbox.mode is OutboxMode.DELETE:
        message = "a publication sends deletes of it, and nothing tells which row: deleting an event fails."
        remedy = f"alter table {spec.outbox.table.quoted} replica identity full"
        yield error("DB317", name, message, remedy)
    for rule in table.rules:
        message = f"the rule {rule} does something else instead of an insert: events are not written, in silence."
        yield error("DB326", name, message, f"alter table {spec.outbox.table.quoted} disable rule {rule}")
    for column, types in _wanted(spec).items():
        facts = table.columns.get(column)
        if facts is None:
            yield error("DB303", f"{name}.{column}", "the column does not exist.", MAKE_TABLE)
        else:
            yield from _check_column(spec, column, facts, types)
            yield from _check_generated(spec, column, facts, publication)
    yield from _check_lengths(spec, table)


def check_habits(spec: Spec, table: TableFacts | None) -> Iterator[Finding]:
    """Yield what works as long as everybody behaves, or works otherwise than one may think."""
    if table is None or not table.has_log or spec.outbox.mode is OutboxMode.MESSAGE:
        return
    name, quoted, columns = str(spec.outbox.table), spec.outbox.table.quoted, spec.outbox.columns
    for column in (columns.id, columns.aggregate_type, columns.aggregate_id):
        facts = table.columns.get(column)
        if facts is not None and not facts.not_null:
            message = "it may be null: the router fails on such a row, or a consumer on its message."
            remedy = f"alter table {quoted} alter column {quote(column)} set not null"
            yield warning("DB315", f"{name}.{column}", message, remedy)
    if (columns.id,) not in table.keys:
        message = f"nothing keeps an event's id from being there twice: {columns.id} alone is no unique key."
        way = "" if table.is_partitioned else " concurrently"
        yield warning("DB316", name, message, f"create unique index{way} on {quoted} ({quote(columns.id)})")
    for trigger in table.triggers:
        message = f"the trigger {trigger} may return null before an insert: that event is not written, in silence."
        yield warning("DB327", name, message, f"alter table {quoted} disable trigger {trigger}")
    if table.partition_of:
        message = f"it is a partition of {table.partition_of}, and what lies in the others is not published."
        yield warning("DB318", name, message, "Name the partitioned table in the spec: outbox.table.")
    if table.children:
        message = f"{', '.join(table.children)} inherit from it, and their rows are not published as its own."
        remedy = "; ".join(f"alter table {child} no inherit {quoted}" for child in table.children)
        yield warning("DB319", name, message, remedy)
    payload = table.columns.get(columns.payload)
    if payload is not None and payload.type == "jsonb":
        message = "jsonb keeps values and not the text: white space, the order of keys and keys that repeat are lost."
        remedy = f"alter table {quoted} alter column {quote(columns.payload)} type json"
        yield note("DB320", f"{name}.{columns.payload}", message, remedy)


def _wanted(spec: Spec) -> Mapping[str, tuple[str, ...]]:
    outbox = spec.outbox
    types = {**_TYPES, AttributeKind.PAYLOAD: _PAYLOAD_TYPES[outbox.payload_type.stored]}
    wanted = {column: types[ATTRIBUTES[role].kind] for role, column in outbox.columns.names().items()}
    if outbox.mode is OutboxMode.DELETE:  # rows that go are found by their ids, as what they are
        wanted[outbox.columns.id] = ("uuid",)
    return {**wanted, **dict.fromkeys(outbox.header_columns, _TEXT)}


def _check_column(spec: Spec, column: str, facts: ColumnFacts, types: tuple[str, ...]) -> Iterator[Finding]:
    # An extension's type is told with its schema where that is not on the search path.
    if facts.type in types or (facts.type.endswith(".citext") and "citext" in types):
        return
    reason = _ENUM if facts.is_enum else _REASONS.get(facts.type, "")
    yield error(
        "DB304",
        f"{spec.outbox.table}.{column}",
        f"its type is {facts.type}{f': {reason}' if reason else ''}. It must be {' or '.join(types)}.",
        _remedy(spec, column, facts, types[0]),
    )


def _remedy(spec: Spec, column: str, facts: ColumnFacts, wanted: str) -> str:
    if column == spec.outbox.columns.payload and "bytea" in {facts.type, wanted}:
        # Who writes and who reads would have to change in the same moment as the column.
        return "Name another table in outbox.table, or in outbox.payload_type what this one has."
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
    message = "the server computes it, and the publication leaves such columns out."
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
    # Of a table that somebody else made the writer may be another one too, with other ids.
    say = warning if outbox.adopted else error
    for column, needed in longest.items():
        facts = table.columns.get(column)
        if facts is not None and facts.length is not None and facts.length < needed:
            message = f"it takes {facts.length} characters, and {needed} are written."
            remedy = f"alter table {outbox.table.quoted} alter column {quote(column)} type varchar({needed})"
            yield say("DB314", f"{outbox.table}.{column}", message, remedy)


def _check_heads(spec: Spec, heads: TableFacts | None) -> Iterator[Finding]:
    name = str(spec.outbox.heads)
    if heads is None:
        yield error("DB321", name, "the head table does not exist.", MAKE_TABLE)
    elif heads.persistence != "p":
        message = "the head table is unlogged or temporary, so numbers start again after a crash."
        yield error("DB323", name, message, f"alter table {spec.outbox.heads.quoted} set logged")
