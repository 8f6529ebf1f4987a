"""The source that comes after a restore."""

from collections.abc import Collection, Iterator
from functools import partial

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.databases.drivers import AnyConnection, TransactionDriver
from cdc_outbox.databases.drivers.transactions import changing_tables
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.migrations import turn
from cdc_outbox.databases.source import Source, read_source
from cdc_outbox.databases.sql import load
from cdc_outbox.databases.table import OutboxTable, TableName
from cdc_outbox.errors import ConfigError, OutboxError
from cdc_outbox.writer.outbox_schema import heads_columns, outbox_columns, table_made_anew


def next_source(current: str, *, before: str, after: str | None, first_source: str) -> str | None:
    """Return the next source, ``None`` if it is there already.

    Args:
        current: What the table says now.
        before: What the operator believes that it says; it keeps a script that runs twice from going two steps.
        after: The source to set, where a later incarnation than the next one is needed.
        first_source: The spec's, whose name is the new source's.

    Raises:
        ConfigError: That cannot follow.
        OutboxError: The table says neither the one nor the other.
    """
    old, first = Source.parse(before), Source.parse(first_source)
    if first is None:
        raise ConfigError(f"{first_source!r} is not a source", field="source")
    same = old is not None and old.name == first.name
    least = Source(first.name, old.incarnation + 1 if old is not None and same else 1)
    new = least if after is None else Source.parse(after)
    if new is None or new.name != least.name or new.incarnation < least.incarnation:
        raise ConfigError(f"{after} cannot follow {before}: it must be {least} or later", field="--to-source")
    # Where another name is believed in, a slip of the pen looks like a second run.
    if current == str(new) and (same or after is not None):
        return None
    if current != before:
        raise OutboxError(
            f"the source is {current}, not {before}; nothing was changed",
            hint=f"Find out what changed it; if it must change again, give --from-source {current}.",
        )
    return str(new)


def find_next_source(
    table: OutboxTable, catalog: Catalog, *, before: str, after: str | None, first_source: str
) -> str | None:
    """Return the source that :func:`begin_incarnation` would begin; ``None`` if it is there already.

    Raises:
        ConfigError, OutboxError: As :func:`next_source`, or there is nothing that has a source.
    """
    current = read_source(table, catalog)
    if current is None:
        raise OutboxError(
            f"{table.table} has no sequence numbers, so it needs no incarnations",
            hint="Omit --new-incarnation.",
        )
    return next_source(current, before=before, after=after, first_source=first_source)


def begin_incarnation(
    connection: AnyConnection,
    driver: TransactionDriver,
    table: OutboxTable,
    *,
    before: str,
    after: str | None,
    first_source: str,
) -> str | None:
    """Change the source of the outbox, then that of its heads, and return it; ``None`` if it is there already.

    In two transactions, for writers lock the two tables in the one order or the other, depending on whether their
    statement is prepared, and would deadlock with one that locks both. The heads alone decide under which source
    events are numbered; the outbox's default is for those that are not. A crash in between leaves what can be run
    again.

    SQLite changes no default: the tables are created again and the rows move.

    Raises:
        ConfigError, OutboxError: As :func:`find_next_source`, or a table that must be created again is not as `init`
            makes it.
        TransactionConflictError: A writer's transaction stayed open for more than five seconds.
    """
    source = None
    execute, catalog = partial(driver.fetch, connection), Catalog(connection, driver)
    # An adopted table's default is its owner's; numbered events take their source from the heads.
    has_source = not table.adopted and table.mode is not OutboxMode.MESSAGE
    for name in ("outbox", "heads") if has_source else ("heads",):
        with changing_tables(connection, driver), turn(execute, driver.dialect):
            source = find_next_source(table, catalog, before=before, after=after, first_source=first_source)
            if source is not None:
                for statement in _statements(name, table, catalog, source):
                    execute(statement)
    return source


def _statements(name: str, table: OutboxTable, catalog: Catalog, source: str) -> list[str]:
    """Return the statements that give a table a new default, or create it again with that."""
    dialect, files = catalog.dialect, load(catalog.dialect, "outbox_schema")
    if "set_source" not in files:  # SQLite changes no default
        return list(_rebuilding(name, table, catalog, source))
    names = {**table.names(dialect), "source_literal": dialect.literal(source)}
    return [files["set_outbox_source" if name == "outbox" else "set_source"].render(names)]


def _rebuilding(name: str, table: OutboxTable, catalog: Catalog, source: str) -> Iterator[str]:
    dialect, files = catalog.dialect, load(catalog.dialect, "outbox_schema")
    outbox, heads = table.table_in(dialect), table.heads_in(dialect)
    old, shape = (outbox, outbox_columns(table, dialect)) if name == "outbox" else (heads, heads_columns(dialect))
    _refuse_to_lose(old, shape, catalog)
    anew = old.sibling("anew")
    names = {
        **table.names(dialect),
        "anew": anew.quoted,
        "name": dialect.quote(old.name),
        "columns": ", ".join(map(dialect.quote, shape)),
    }
    yield from table_made_anew(name, table, anew, first_source=source, dialect=dialect)
    for step in files[f"move_{name}"].steps():
        yield step.render(names)


def _refuse_to_lose(table: TableName, wanted: Collection[str], catalog: Catalog) -> None:
    """Refuse to create a table again whose columns or companions would differ."""
    found = catalog.find_table(table)
    columns = () if found is None else found.columns
    more = [*(column for column in columns if column not in wanted), *catalog.find_companions(table)]
    less = [column for column in wanted if column not in columns]
    if more or less:
        state = f"has {', '.join(more)}" if more else f"lacks {', '.join(less)}"
        raise OutboxError(
            f"{table} must be created again for another source, but {state}; nothing was changed",
            hint="Drop what init did not create; run `cdc-outbox init` for missing parts, and create the rest again.",
        )
