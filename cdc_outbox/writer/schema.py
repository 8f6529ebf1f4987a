"""The outbox's tables and publication: how they are made and brought up to date."""

from cdc_outbox.migrations import Component, Migration
from cdc_outbox.sql import load
from cdc_outbox.table import OutboxTable, literal, quote


def outbox_component(table: OutboxTable, *, first_source: str) -> Component:
    """Return an outbox, its head table and its marks.

    Args:
        first_source: The default of the ``source`` columns, for example ``orders.1``. It is set once; a later
            incarnation is not undone by running this again.
    """
    names = {**table.names(), "first_source": literal(first_source)}
    statements = load("postgresql", "outbox_schema")
    steps = ("create", "create_marks")
    return Component(
        kind="outbox",
        tables=(table.table, table.heads, table.marks),
        migrations=tuple(
            Migration(version=number, statements=(statements[step].render(names),))
            for number, step in enumerate(steps, start=1)
        ),
    )


def publication_statement(table: OutboxTable, publication: str) -> str:
    """Return the statement that makes the publication, or adds the table to it, unless that is done already.

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
    body = load("postgresql", "outbox_schema")["create_publication"].render(names)
    return f"do {_dollar_quoted(body)};"


def _dollar_quoted(body: str) -> str:
    """Quote a block of PL/pgSQL with a tag that does not occur in it, whatever the tables are called."""
    tag, number = "$$", 0
    while tag in body:
        number += 1
        tag = f"$q{number}$"
    return f"{tag}\n{body}\n{tag}"
