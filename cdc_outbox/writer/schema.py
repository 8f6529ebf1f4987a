"""The outbox's tables and publication: how they are made and brought up to date."""

from cdc_outbox.errors import ConfigError
from cdc_outbox.migrations import Component, Migration
from cdc_outbox.sql import load
from cdc_outbox.table import OutboxMode, OutboxTable, literal, quote


def outbox_component(table: OutboxTable, *, first_source: str) -> Component:
    """Return an outbox and its head table; of events that are messages, the head table alone.

    Args:
        first_source: The default of the ``source`` columns, for example ``orders.1``. It is set once; a later
            incarnation is not undone by running this again.
    """
    create_outbox, create_heads = _create_tables(table, first_source)
    statements = (create_heads,) if table.mode is OutboxMode.MESSAGE else (create_outbox, create_heads)
    return Component(
        kind="outbox", tables=(table.table, table.heads), migrations=(Migration(version=1, statements=statements),)
    )


def outbox_statements(table: OutboxTable, publication: str, *, first_source: str) -> list[str]:
    """Return what follows the component: statements without a version, because they say what shall be.

    The table, which a component made for messages has not; a column for every header; the publication.
    """
    shall_be = [publication_statement(table, publication)]
    if table.mode is not OutboxMode.MESSAGE:
        create_outbox, _ = _create_tables(table, first_source)
        shall_be = [create_outbox, *(_header_column(table, column) for column in table.header_columns), *shall_be]
    return shall_be


def publication_statement(table: OutboxTable, publication: str) -> str:
    """Return the statement that makes the publication, or adds the table to it, unless that is done already.

    For messages it stays empty: they pass any publication, but PostgreSQL wants to be named one that exists.

    The publication carries inserts only, and must exist before the slot: PostgreSQL decodes with the catalogue of
    the past, in which a younger publication does not exist.
    """
    names = {
        **table.names(),
        "publication": quote(publication),
        "publication_literal": literal(publication),
        "schema_literal": literal(table.table.schema),
        "table_literal": literal(table.name),
    }
    name = "create_empty_publication" if table.mode is OutboxMode.MESSAGE else "create_publication"
    return _block(load("postgresql", "outbox_schema")[name].render(names))


def _create_tables(table: OutboxTable, first_source: str) -> tuple[str, str]:
    if table.mode is OutboxMode.MESSAGE and not first_source.isascii():
        # See emission: the connector reads the content in its JVM's own charset.
        raise ConfigError(f"the source {first_source!r} of a table-less outbox must be ASCII", field="source")
    names = {**table.names(), "first_source": literal(first_source)}
    statements = load("postgresql", "outbox_schema")
    return statements["create_outbox"].render(names), statements["create_heads"].render(names)


def _header_column(table: OutboxTable, column: str) -> str:
    names = {
        **table.names(),
        "outbox_literal": literal(table.table.quoted),
        "column": quote(column),
        "column_literal": literal(column),
    }
    return _block(load("postgresql", "outbox_schema")["add_header_column"].render(names))


def _block(body: str) -> str:
    return f"do {_dollar_quoted(body)};"


def _dollar_quoted(body: str) -> str:
    """Quote a block of PL/pgSQL with a tag that does not occur in it, whatever the tables are called."""
    tag, number = "$$", 0
    while tag in body:
        number += 1
        tag = f"$q{number}$"
    return f"{tag}\n{body}\n{tag}"
