"""The outbox's tables and publication: how they are made and brought up to date."""

from cdc_outbox.migrations import Component, Migration
from cdc_outbox.sql import load
from cdc_outbox.table import Dialect, OutboxTable, literal, quote


def outbox_component(table: OutboxTable, *, first_source: str, dialect: Dialect = Dialect.POSTGRESQL) -> Component:
    """Return an outbox and its head table.

    Args:
        first_source: The default of the ``source`` columns, for example ``orders.1``. It is set once; a later
            incarnation is not undone by running this again.
    """
    names = {**table.names(dialect), "first_source": dialect.literal(first_source)}
    create = load(dialect, "outbox_schema")["create"]
    outbox = table.table_in(dialect)
    return Component(
        kind="outbox",
        tables=(outbox, outbox.sibling("heads")),
        migrations=(Migration(version=1, statements=tuple(step.render(names) for step in create.steps())),),
    )


def publication_statement(table: OutboxTable, publication: str) -> str:
    """Return the statement that makes the publication, or adds the table to it, unless that is done already.

    The publication carries inserts only, and must exist before the slot: PostgreSQL decodes with the catalogue of
    the past, in which a younger publication does not exist.
    """
    names = {
        **table.names(),
        **table.table.literals(),
        "publication": quote(publication),
        "publication_literal": literal(publication),
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
