"""The catalogue against what `init` makes. Pure.

What the connector needs is looked at by its own preflight; here is what the writer relies on. Of an adopted table
nothing is said: its owner decides what it is like.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime

from cdc_outbox.finding import Finding, Place, Severity
from cdc_outbox.migrations import Component
from cdc_outbox.modes import OutboxMode, PayloadType
from cdc_outbox.table import OutboxTable, TableName
from cdc_outbox.writer.catalog import ColumnFacts, OutboxCatalog, TableCatalog
from cdc_outbox.writer.incarnation import Source, constant_of
from cdc_outbox.writer.partitions import missing_partitions, wanted_partitions
from cdc_outbox.writer.schema import HEADS_SETTINGS

_SOURCE = "a constant"
"""Stands for the default of a source column, whose value is not the same everywhere."""
_NOW = re.compile(r"\(clock_timestamp\(\) AT TIME ZONE 'UTC'(::text)?\)")
_HEADS = {
    "source": ColumnFacts("text", True, _SOURCE),
    "aggregatetype": ColumnFacts("text", True),
    "aggregateid": ColumnFacts("text", True),
    "last": ColumnFacts("bigint", True),
}


def check_version(component: Component, version: int | None) -> Iterator[Finding]:
    """Return whether a component's tables are of another release."""
    newest, name = component.migrations[-1].version, str(component.tables[0])
    if version is None:
        yield _error("DB343", name, "init never made these tables here.", "Run `cdc-outbox init`.")
    elif version < newest:
        yield _error("DB341", name, f"the tables have version {version}, the newest is {newest}.", "Run init again.")
    elif version > newest:
        message = f"the tables have version {version}, this release knows {newest}."
        yield _error("DB342", name, message, "Upgrade cdc-outbox.")


def check_outbox(
    table: OutboxTable, first_source: str, catalog: OutboxCatalog, publication: str, *, now: datetime
) -> Iterator[Finding]:
    """Return what is not as `init` makes it, but for what does not exist at all."""
    has_table = not table.adopted and table.mode is not OutboxMode.MESSAGE
    if catalog.outbox is not None and has_table:
        yield from _check_columns(table.table, wanted_columns(table), catalog.outbox)
        yield from _check_foreign_columns(table, catalog.outbox)
        yield from _check_key(table.table, (table.columns.id,), catalog.outbox)
        yield from _check_partitions(table, catalog.outbox, now)
    if table.is_numbered or not table.adopted:
        yield from _check_heads(table, catalog.heads)
        yield from _check_sources(table, first_source, catalog)
    if catalog.also_publishes:
        yield _warning(
            "DB406",
            publication,
            f"the publication carries {' and '.join(catalog.also_publishes)} beside inserts.",
            "alter publication … set (publish = 'insert')",
        )


def wanted_columns(table: OutboxTable) -> Mapping[str, ColumnFacts]:
    """Return the columns of an outbox of ours."""
    by_role = {
        "id": ColumnFacts("uuid", True),
        "aggregate_type": ColumnFacts("text", True),
        "aggregate_id": ColumnFacts("text", True),
        "type": ColumnFacts("text", True),
        "payload": ColumnFacts("json" if table.payload_type is PayloadType.JSON else "bytea"),
        "sequence": ColumnFacts("bigint"),
        "source": ColumnFacts("text", True, _SOURCE),
        "created_at": ColumnFacts("timestamp(6) without time zone", True, "(clock_timestamp() AT TIME ZONE 'UTC')"),
    }
    own = {column: by_role[role] for role, column in table.columns.names().items()}
    return own | dict.fromkeys(table.header_columns, ColumnFacts("text"))


def _check_columns(table: TableName, wanted: Mapping[str, ColumnFacts], found: TableCatalog) -> Iterator[Finding]:
    for column, shape in wanted.items():
        place, facts = f"{table}.{column}", found.columns.get(column)
        if facts is None:
            continue
        if facts.type != shape.type:
            yield _error("DB311", place, f"its type is {facts.type}.", f"init makes it {shape.type}.")
        if facts.not_null != shape.not_null:
            state, remedy = ("not null", "drop") if facts.not_null else ("nullable", "set")
            yield _error("DB306", place, f"it is {state}.", f"alter table … alter column … {remedy} not null")
        if not _is_same_default(shape.default, facts.default):
            remedy = f"init gives it {shape.default or 'none'}."
            yield _error("DB307", place, f"its default is {facts.default or 'missing'}.", remedy)


def _is_same_default(wanted: str, found: str) -> bool:
    if wanted == _SOURCE:
        return constant_of(found) is not None
    return bool(_NOW.fullmatch(found)) if wanted else not found


def _check_foreign_columns(table: OutboxTable, found: TableCatalog) -> Iterator[Finding]:
    for column, facts in found.columns.items():
        if column not in wanted_columns(table) and facts.not_null and not facts.default:
            yield _error(
                "DB309",
                f"{table.table}.{column}",
                "nobody knows this column, and it takes no event without a value.",
                "Drop it, let it be null, or give it a default.",
            )


def _check_key(table: TableName, key: tuple[str, ...], found: TableCatalog) -> Iterator[Finding]:
    keys = [index.columns for index in found.indexes if index.is_primary]
    if keys != [key]:
        state = f"is ({', '.join(keys[0])})" if keys else "is missing"
        yield _error("DB308", str(table), f"the primary key {state}.", f"It must be ({', '.join(key)}).")
    for index in found.indexes:
        if not index.is_valid:
            yield _error("DB310", f"{table}.{index.name}", "the index is invalid.", "reindex index concurrently …")
        elif index.is_unique and not index.is_primary:
            message = "events may fail on this unique index, and the business transaction with them."
            yield _warning("DB312", f"{table}.{index.name}", message, "Drop it, or know why it is there.")


def _check_partitions(table: OutboxTable, found: TableCatalog, now: datetime) -> Iterator[Finding]:
    name = str(table.table)
    wanted = "" if table.partitions is None else f"RANGE ({table.columns.id})"
    if found.partition_key.replace('"', "") != wanted:
        state = f"partitioned by {found.partition_key}" if found.partition_key else "not partitioned"
        said = "not partitioned" if table.partitions is None else f"partitioned by {table.partitions}"
        yield _error(
            "DB351", name, f"the table is {state}, the spec says {said}.", "Correct the spec, or make it anew."
        )
    elif wanted and "DEFAULT" not in (found.partitions or {}).values():
        message = "there is no default partition: an event without a partition fails its business transaction."
        yield _error("DB352", name, message, f"create table {table.rest.quoted} partition of … default")
    for missing, _ in missing_partitions(list(wanted_partitions(table, now, ahead=1))[1:], found.partitions or {}):
        message = f"there is no {missing.table.name}: events of that time would have no partition of their own."
        yield _warning("DB353", name, message, "Run `cdc-outbox partitions`, and again before they run out.")


def _check_heads(table: OutboxTable, heads: TableCatalog | None) -> Iterator[Finding]:
    if heads is None:
        yield _error("DB321", str(table.heads), "the head table does not exist.", "Run `cdc-outbox init`.")
        return
    for column in _HEADS.keys() - heads.columns.keys():
        yield _error("DB322", f"{table.heads}.{column}", "the column does not exist.", "Make the head table anew.")
    yield from _check_columns(table.heads, _HEADS, heads)
    yield from _check_key(table.heads, ("source", "aggregatetype", "aggregateid"), heads)
    for setting, value in HEADS_SETTINGS.items():
        if heads.settings.get(setting) != value:
            message = f"{setting} is {heads.settings.get(setting, 'not set')}, init sets {value}."
            yield _warning("DB324", f"{table.heads}.{setting}", message, f"alter table … set ({setting} = {value})")


def _check_sources(table: OutboxTable, first_source: str, catalog: OutboxCatalog) -> Iterator[Finding]:
    heads = _source(catalog.heads, "source")
    has_table = not table.adopted and table.mode is not OutboxMode.MESSAGE
    outbox = heads if not has_table else _source(catalog.outbox, str(table.columns.source))
    if heads is None or outbox is None:
        return
    place = f"{table.heads}.source"
    if heads != outbox:
        message = f"the heads' source is {heads!r}, the outbox's {outbox!r}."
        yield _error("DB332", place, message, "Give both columns the same default, the younger one.")
    known, wanted = Source.parse(heads), Source.parse(first_source)
    if known is None:
        yield _error("DB331", place, f"the source {heads!r} has no incarnation.", f"init makes it {first_source}.")
    elif wanted is not None and known.name != wanted.name:
        yield different_source(table, heads, wanted.name)


def different_source(table: OutboxTable, found: str, wanted: str) -> Finding:
    """Return the finding for a spec whose source is not the table's; `init` sets a source once."""
    return _error(
        "DB333",
        f"{table.heads}.source",
        f"the table's source is {found}, the spec says {wanted}.",
        f"Correct source in the spec, or run `cdc-outbox init --new-incarnation --from {found}`.",
    )


def _source(table: TableCatalog | None, column: str) -> str | None:
    facts = table.columns.get(column) if table else None
    return constant_of(facts.default) if facts else None


def _error(code: str, path: str, message: str, remedy: str) -> Finding:
    place = Place(document="database", path=path)
    return Finding(code=code, severity=Severity.ERROR, place=place, message=message, remedy=remedy)


def _warning(code: str, path: str, message: str, remedy: str) -> Finding:
    place = Place(document="database", path=path)
    return Finding(code=code, severity=Severity.WARNING, place=place, message=message, remedy=remedy)
