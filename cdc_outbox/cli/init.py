"""``cdc-outbox init``."""

from pathlib import Path

import click

from cdc_outbox.cli.database import connected
from cdc_outbox.cli.options import read_spec
from cdc_outbox.consumer.schema import inbox_component
from cdc_outbox.migrations import Component, script, upgrade
from cdc_outbox.table import InboxTable
from cdc_outbox.writer.schema import outbox_component, publication_statement


@click.command(short_help="Create or upgrade the outbox's or the inbox's tables.")
@click.argument("spec", type=click.Path(path_type=Path), required=False)
@click.option("--inbox", is_flag=True, help="Create the inbox of a consuming service.")
@click.option("--inbox-schema", show_default="public", help="The schema that the inbox lies in.")
@click.option("--sql", is_flag=True, help="Print the statements instead of running them; no database is asked.")
@click.option("--dsn", envvar="CDC_OUTBOX_DSN", show_envvar=True, help="The database; its role owns what is created.")
def init(spec: Path | None, *, inbox: bool, inbox_schema: str | None, sql: bool, dsn: str | None) -> None:
    """Create what a service's database needs, or bring it up to date; running it again changes nothing.

    With SPEC: the outbox table, its head table and the publication. With --inbox: the claims and watermarks of a
    consuming service.

    \b
    Examples:
      cdc-outbox init connectors/orders.yaml --dsn postgresql://postgres@localhost/orders
      cdc-outbox init --inbox --dsn postgresql://postgres@localhost/shipping
      cdc-outbox init connectors/orders.yaml --sql > migrations/0007_outbox.sql
    """
    if spec is None and not inbox:
        raise click.UsageError("say what to create: a SPEC for the outbox, --inbox for the inbox, or both")
    if inbox_schema is not None and not inbox:
        raise click.UsageError("--inbox-schema says where the inbox of --inbox lies; without that it means nothing")
    components, after = _wanted(spec, (inbox_schema or "public") if inbox else None)
    if sql:
        parts = [*map(script, components), *after]
        click.echo("begin;\n\n" + "\n\n".join(parts) + "\n\ncommit;")
        return
    if not dsn:
        raise click.UsageError("--dsn is needed (or CDC_OUTBOX_DSN), unless --sql prints the statements")
    with connected(dsn) as (connection, driver):
        driver.begin(connection)
        steps = [upgrade(lambda statement: driver.fetch(connection, statement), component) for component in components]
        for statement in after:
            driver.fetch(connection, statement)
        driver.commit(connection)
    for component, done in zip(components, steps, strict=True):
        state = f"now at version {done[-1].version}" if done else "up to date"
        click.echo(f"{component.name}: {state}", err=True)


def _wanted(spec: Path | None, inbox_schema: str | None) -> tuple[list[Component], list[str]]:
    """Return the components to create, and statements that are not versioned because they say what shall be."""
    components, after = [], []
    if spec is not None:
        pipeline = read_spec(spec)
        components.append(outbox_component(pipeline.outbox, first_source=pipeline.first_source))
        after.append(publication_statement(pipeline.outbox, pipeline.database.publication))
    if inbox_schema is not None:
        components.append(inbox_component(InboxTable(schema=inbox_schema)))
    return components, after
