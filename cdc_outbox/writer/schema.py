"""The outbox's tables, publication and roles: how they are made and brought up to date."""

from collections.abc import Iterable, Iterator, Mapping

from cdc_outbox.errors import ConfigError
from cdc_outbox.migrations import Component, Migration
from cdc_outbox.modes import OutboxMode
from cdc_outbox.privileges import Privilege, Role
from cdc_outbox.sql import Statement, load
from cdc_outbox.table import Dialect, OutboxTable, dollar_quoted, literal, quote

HEADS_SETTINGS: Mapping[str, str] = {"fillfactor": "80", "autovacuum_vacuum_scale_factor": "0.02"}
"""Storage parameters of PostgreSQL's head table. A fifth of a page is room for some twenty updates while a transaction
that was open before keeps the old versions from being cleared away; every update then stays on its page, out of the
index."""


def outbox_components(
    table: OutboxTable, *, first_source: str, dialect: Dialect = Dialect.POSTGRESQL
) -> tuple[Component, ...]:
    """Return what there is to make for an outbox: nothing for an adopted one that is not numbered."""
    if table.adopted and not table.is_numbered:
        return ()
    return (outbox_component(table, first_source=first_source, dialect=dialect),)


_LATER_STEPS = (("settle_heads",), ("create_marks",))
"""What was added after the first version, in order."""


def outbox_component(table: OutboxTable, *, first_source: str, dialect: Dialect = Dialect.POSTGRESQL) -> Component:
    """Return an outbox, its heads and on PostgreSQL its marks; all but itself where it is adopted or table-less.

    Each dialect counts versions of its own.

    Args:
        first_source: The default of the ``source`` columns, for example ``orders.1``. It is set once; a later
            incarnation is not undone by running this again.

    Raises:
        ConfigError: It shall be partitioned or without a table on another database than PostgreSQL, or its messages
            would have a source that is not ASCII.
    """
    if table.partitions is not None and dialect is not Dialect.POSTGRESQL:
        raise ConfigError("only PostgreSQL's outbox can be partitioned", field="partitions")
    if table.mode is OutboxMode.MESSAGE and dialect is not Dialect.POSTGRESQL:
        raise ConfigError(f"{dialect} has no logical messages", field="mode")
    if table.mode is OutboxMode.MESSAGE and not first_source.isascii():
        # See emission: the connector reads the content in its JVM's own charset.
        raise ConfigError(f"the source {first_source!r} of a table-less outbox must be ASCII", field="source")
    names, files, outbox = _names(table, first_source, dialect), load(dialect, "outbox_schema"), table.table_in(dialect)
    heads, rest = outbox.sibling("heads"), () if table.partitions is None else (outbox.sibling("rest"),)
    ours = (heads, *(outbox.sibling("marks") for _ in range("create_marks" in files)))
    return Component(
        kind="heads" if table.adopted else "outbox",
        tables=ours if table.adopted else (outbox, *ours, *rest),
        migrations=tuple(
            Migration(version=version, statements=statements)
            for version, statements in enumerate(
                _steps(files, ((*_creates_outbox(table), "create_heads"), *_LATER_STEPS), names), 1
            )
        ),
    )


def outbox_statements(table: OutboxTable, publication: str, *, first_source: str) -> list[str]:
    """Return what follows the component: statements without a version, because they say what shall be."""
    return [*table_statements(table, first_source=first_source), publication_statement(table, publication)]


def table_statements(table: OutboxTable, *, first_source: str) -> list[str]:
    """Return those about tables: the outbox, which a component made for messages has not; a column for every header.

    An adopted table is its owner's to change.
    """
    names, files = _names(table, first_source, Dialect.POSTGRESQL), load("postgresql", "outbox_schema")
    statements = [statement for step in _steps(files, (_creates_outbox(table),), names) for statement in step]
    return [*statements, *(_header_column(table, column) for column in table.header_columns)] if statements else []


def publication_statement(table: OutboxTable, publication: str) -> str:
    """Return the statement that makes the publication, or adds the table to it, unless that is done already.

    For messages it stays empty: they pass any publication, but PostgreSQL wants to be named one that exists.

    The publication carries inserts only, and must exist before the slot: PostgreSQL decodes with the catalogue of
    the past, in which a younger publication does not exist. A partitioned table's rows are published as the table's
    own: the connector need not know its partitions.
    """
    name = "create_empty_publication" if table.mode is OutboxMode.MESSAGE else "create_publication"
    return _about_publication(name, table, publication)


def drop_publication_statement(table: OutboxTable, publication: str) -> str:
    """Return the statement that takes the table out of the publication, and drops that if nothing else is in it."""
    return _about_publication("drop_publication", table, publication)


def writer_role(name: str, table: OutboxTable) -> Role:
    """Return the service's role: it adds events and numbers them, and neither reads, changes nor deletes one."""
    return Role(name=name, privileges=tuple(_writing(table)))


def connector_role(name: str, table: OutboxTable) -> Role:
    """Return the connector's role: it reads the log, and the rows only if they are to be published again."""
    rows = () if table.mode is OutboxMode.MESSAGE else (Privilege(table=table.table, action="select"),)
    return Role(name=name, attributes="login replication", privileges=rows)


def _names(table: OutboxTable, first_source: str, dialect: Dialect) -> Mapping[str, str]:
    return {
        **table.names(dialect),
        "first_source": dialect.literal(first_source),
        "settings": ", ".join(f"{name} = {value}" for name, value in HEADS_SETTINGS.items()),
    }


def _creates_outbox(table: OutboxTable) -> tuple[str, ...]:
    """Return the names of the statements that make the outbox itself, where we make one."""
    if table.adopted or table.mode is OutboxMode.MESSAGE:
        return ()
    return ("create",) if table.partitions is None else ("create", "create_rest")


def _steps(
    files: Mapping[str, Statement], wanted: Iterable[tuple[str, ...]], names: Mapping[str, str]
) -> Iterator[tuple[str, ...]]:
    """Return the statements of each step; a dialect that has nothing to do in one has no such step."""
    for step in wanted:
        statements = [part.render(names) for name in step if name in files for part in files[name].steps()]
        if statements:
            yield tuple(statements)


def _about_publication(name: str, table: OutboxTable, publication: str) -> str:
    names = {
        **table.names(),
        **table.table.literals(),
        "publication": quote(publication),
        "publication_literal": literal(publication),
        "via_root": "" if table.partitions is None else ", publish_via_partition_root = true",
        "is_partitioned": "false" if table.partitions is None else "true",
    }
    return _block(load("postgresql", "outbox_schema")[name].render(names))


def _header_column(table: OutboxTable, column: str) -> str:
    names = {
        **table.names(),
        **table.table.literals(),
        "column": quote(column),
        "column_literal": literal(column),
    }
    return _block(load("postgresql", "outbox_schema")["add_header_column"].render(names))


def _block(body: str) -> str:
    return f"do {dollar_quoted(body)};"


def _writing(table: OutboxTable) -> Iterator[Privilege]:
    outbox, heads = table.table, table.heads
    if table.mode is not OutboxMode.MESSAGE:
        yield Privilege(table=outbox, action="insert")
        yield Privilege(table=outbox, action="select", columns=(table.columns.id, *table.returned))
    if table.mode is OutboxMode.DELETE:
        yield Privilege(table=outbox, action="delete")
    if table.is_numbered:
        yield Privilege(table=heads, action="select")
        yield Privilege(table=heads, action="insert")
        yield Privilege(table=heads, action="update", columns=("last",))
