"""The catalogue against what `init` makes. Pure, but for :func:`find_drift`, which reads the catalogue.

What the connector needs is looked at by its own preflight; here is what the writer relies on. Of an adopted table
nothing is said: its owner decides what it is like.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.dialects.features import OutboxShape
from cdc_outbox.databases.facts import ColumnFacts, TableFacts
from cdc_outbox.databases.introspection import Catalog, OutboxCatalog
from cdc_outbox.databases.migrations import Component
from cdc_outbox.databases.source import Source, check_source, constant_of, read_source
from cdc_outbox.databases.table import OutboxTable, TableName
from cdc_outbox.errors import DatabaseAccessError
from cdc_outbox.finding import Finding, Location, Severity, errors_in
from cdc_outbox.spec import Spec
from cdc_outbox.writer.outbox_schema import SOURCE, heads_columns, outbox_columns, outbox_components
from cdc_outbox.writer.partitions import missing_partitions, wanted_partitions


def outbox_catalog(spec: Spec, catalog: Catalog) -> OutboxCatalog:
    """Return what the catalogue says about a spec's outbox.

    Raises:
        DatabaseError: The catalogue cannot be read.
    """
    return catalog.read_outbox(spec.outbox, _components(spec, catalog), spec.database.publication)


def _components(spec: Spec, catalog: Catalog) -> Sequence[Component]:
    return outbox_components(spec.outbox, first_source=spec.first_source, dialect=catalog.dialect)


def find_drift(spec: Spec, catalog: Catalog, found: OutboxCatalog) -> Iterator[Finding]:
    """Yield where the tables of a spec's outbox are not as `init` leaves them; nothing is changed.

    Raises:
        DatabaseError: The catalogue cannot be read.
    """
    components, publication = _components(spec, catalog), spec.database.publication
    if found.outbox is not None or spec.outbox.mode is OutboxMode.MESSAGE:
        for component in components:
            yield from check_version(component, found.version)
    differences = tuple(check_outbox(spec.outbox, spec.first_source, found, publication, now=datetime.now(UTC)))
    yield from differences
    # A table that lacks a column cannot be asked.
    if not errors_in(differences):
        yield from _check_numbers(spec.outbox, catalog)


def _check_numbers(table: OutboxTable, catalog: Catalog) -> Iterator[Finding]:
    source = read_source(table, catalog) if table.mode.keeps_rows and not table.adopted else None
    with suppress(DatabaseAccessError):  # who makes tables need not be allowed to read them
        if source is not None and catalog.has_lost_heads(table, source):
            yield lost_heads(table.heads_in(catalog.dialect), source)


def check_version(component: Component, version: int | None) -> Iterator[Finding]:
    """Return whether a component's tables are of another release."""
    newest, name = component.migrations[-1].version, str(component.tables[0])
    command = f"cdc-outbox init{' --inbox' * (component.kind == 'inbox')}"
    if version is None:
        yield _error("DB343", name, "`init` did not create these tables.", f"Run `{command}`.")
    elif version < newest:
        yield _error(
            "DB341",
            name,
            f"the tables have version {version}, and the newest version is {newest}.",
            f"Run `{command}`.",
        )
    elif version > newest:
        message = f"the tables have version {version}, and this release supports up to {newest}."
        yield _error("DB342", name, message, "Upgrade cdc-outbox.")


def check_outbox(
    table: OutboxTable, first_source: str, catalog: OutboxCatalog, publication: str, *, now: datetime
) -> Iterator[Finding]:
    """Return what is not as `init` makes it."""
    shape, name = catalog.dialect.features.shape, table.table_in(catalog.dialect)
    if catalog.outbox is None and table.mode is not OutboxMode.MESSAGE:
        yield _error("DB301", str(name), "the outbox table does not exist.", "Run `cdc-outbox init`.")
        return
    if catalog.outbox is not None and not table.adopted and table.mode is not OutboxMode.MESSAGE:
        columns = outbox_columns(table, catalog.dialect)
        for column in _missing(columns, catalog.outbox):
            yield _error("DB303", f"{name}.{column}", "the column does not exist.", "Run `cdc-outbox init`.")
        yield from _check_columns(name, columns, shape, catalog.outbox)
        yield from _check_foreign_columns(name, columns, catalog.outbox)
        yield from _check_key(name, (table.columns.id,), catalog.outbox)
        yield from _check_settings(name, shape.settings, shape, catalog.outbox)
        yield from _check_partitions(table, catalog.outbox, now)
    if table.is_numbered or not table.adopted:
        yield from _check_heads(table.heads_in(catalog.dialect), shape, catalog.heads)
        yield from _check_sources(table, first_source, catalog)
    if catalog.version is not None and not catalog.has_publishers:
        message = "the table does not exist, so no relay can publish the outbox."
        remedy = "Run the statements that `cdc-outbox init --sql` prints."
        yield _error("DB345", str(table.publishers), message, remedy)
    if catalog.publication is not None and catalog.publication.also_publishes:
        yield _warning(
            "DB406",
            publication,
            f"the publication publishes {' and '.join(catalog.publication.also_publishes)} in addition to inserts.",
            "alter publication … set (publish = 'insert')",
        )


def _missing(wanted: Iterable[str], found: TableFacts) -> list[str]:
    return [column for column in wanted if column not in found.columns]


def _check_columns(
    table: TableName, wanted: Mapping[str, ColumnFacts], shape: OutboxShape, found: TableFacts
) -> Iterator[Finding]:
    for column, facts in found.columns.items():
        location, given = f"{table}.{column}", wanted.get(column)
        if given is None:
            continue
        if facts.declared not in given.type.split(" or "):
            yield _error("DB311", location, f"the type is {facts.declared}.", f"`init` creates it as {given.type}.")
        if facts.not_null != given.not_null:
            state, other = ("not null", "nullable") if facts.not_null else ("nullable", "not null")
            yield _error("DB306", location, f"the column is {state}.", f"`init` creates it {other}.")
        if not _is_same_default(given.default, facts.default, shape):
            remedy = f"`init` sets {given.default or 'none'}."
            yield _error("DB307", location, f"the default is {facts.default or 'missing'}.", remedy)


def _is_same_default(wanted: str, found: str, shape: OutboxShape) -> bool:
    if wanted == SOURCE:
        return constant_of(found) is not None
    # PostgreSQL spells it in two ways.
    return re.sub(r"::text\b", "", found) == shape.now if wanted else not found


def _check_foreign_columns(table: TableName, wanted: Mapping[str, ColumnFacts], found: TableFacts) -> Iterator[Finding]:
    for column, facts in found.columns.items():
        if column not in wanted and facts.not_null and not facts.default:
            yield _error(
                "DB309",
                f"{table}.{column}",
                "the column requires a value, and the writer does not set one.",
                "Drop the column, make it nullable, or give it a default.",
            )


def _check_key(table: TableName, key: tuple[str, ...], found: TableFacts) -> Iterator[Finding]:
    keys = [index.columns for index in found.indexes if index.is_primary]
    if keys != [key]:
        state = f"is ({', '.join(keys[0])})" if keys else "is missing"
        yield _error("DB308", str(table), f"the primary key {state}.", f"It must be ({', '.join(key)}).")
    for index in found.indexes:
        if not index.is_valid:
            yield _error("DB310", f"{table}.{index.name}", "the index is invalid.", "reindex index concurrently …")
        elif index.is_unique and not index.is_primary:
            message = "an event that violates this unique index fails, and the business transaction with it."
            yield _warning("DB312", f"{table}.{index.name}", message, "Drop the index, or keep it if it is intended.")


def _check_partitions(table: OutboxTable, found: TableFacts, now: datetime) -> Iterator[Finding]:
    name = str(table.table)
    wanted = "" if table.partitions is None else f"RANGE ({table.columns.id})"
    if found.partition_key.replace('"', "") != wanted:
        state = f"partitioned by {found.partition_key}" if found.partition_key else "not partitioned"
        wanted_state = "not partitioned" if table.partitions is None else f"partitioned by {table.partitions}"
        yield _error(
            "DB351",
            name,
            f"the table is {state}; according to the spec it must be {wanted_state}.",
            "Correct the spec, or create another table.",
        )
    elif wanted and "DEFAULT" not in found.bounds.values():
        message = "the default partition is missing: an event without a partition fails its business transaction."
        yield _error("DB352", name, message, f"create table {table.rest.quoted} partition of … default")
    for missing, _ in missing_partitions(list(wanted_partitions(table, now, ahead=1))[1:], found.bounds):
        message = (
            f"the partition {missing.table.name} does not exist: events of that time would go to the default partition."
        )
        yield _warning("DB353", name, message, "Run `cdc-outbox partitions` regularly.")


def _check_settings(
    table: TableName, wanted: Mapping[str, str], shape: OutboxShape, found: TableFacts
) -> Iterator[Finding]:
    for setting, value in wanted.items():
        if found.settings.get(setting) != value:
            report = _error if setting in shape.vital else _warning
            message = f"{setting} is {found.settings.get(setting, 'not set')}, and `init` sets {value}."
            yield report("DB324", f"{table}.{setting}", message, shape.setting_remedy)


def _check_heads(table: TableName, shape: OutboxShape, heads: TableFacts | None) -> Iterator[Finding]:
    if heads is None:
        yield _error("DB321", str(table), "the heads table does not exist.", "Run `cdc-outbox init`.")
        return
    wanted = heads_columns(table.dialect)
    for column in _missing(wanted, heads):
        yield _error("DB322", f"{table}.{column}", "the column does not exist.", "Create the heads table again.")
    yield from _check_columns(table, wanted, shape, heads)
    yield from _check_key(table, shape.key, heads)
    yield from _check_settings(table, shape.heads_settings, shape, heads)


def _check_sources(table: OutboxTable, first_source: str, catalog: OutboxCatalog) -> Iterator[Finding]:
    heads = _source(catalog.heads, "source")
    has_table = not table.adopted and table.mode is not OutboxMode.MESSAGE
    outbox = heads if not has_table else _source(catalog.outbox, str(table.columns.source))
    if heads is None or outbox is None:
        return
    location = f"{table.heads_in(catalog.dialect)}.source"
    if heads != outbox:
        message = f"the source of the heads table is {heads!r}, and that of the outbox is {outbox!r}."
        yield _error("DB332", location, message, "Set both defaults to the newer source.")
    if Source.parse(heads) is None:
        yield _error("DB331", location, f"the source {heads!r} has no incarnation.", f"`init` sets {first_source}.")
    yield from check_source(table, first_source, heads, catalog.dialect)


def lost_heads(heads: TableName, source: str) -> Finding:
    """Return the finding for an empty heads table: sequence numbers would be assigned a second time."""
    return _error(
        "DB325",
        str(heads),
        f"the table has no number of {source}, and the outbox has numbered events: aggregates would start at 1 again.",
        f"Run `cdc-outbox init --new-incarnation --from-source {source}`.",
    )


def _source(table: TableFacts | None, column: str) -> str | None:
    facts = table.columns.get(column) if table else None
    return constant_of(facts.default) if facts else None


def _error(code: str, path: str, message: str, remedy: str) -> Finding:
    location = Location(document="database", path=path)
    return Finding(code=code, severity=Severity.ERROR, location=location, message=message, remedy=remedy)


def _warning(code: str, path: str, message: str, remedy: str) -> Finding:
    location = Location(document="database", path=path)
    return Finding(code=code, severity=Severity.WARNING, location=location, message=message, remedy=remedy)
