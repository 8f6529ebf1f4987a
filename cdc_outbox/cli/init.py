"""``cdc-outbox init``."""

from pathlib import Path

import click

from cdc_outbox.cli.options import read_spec
from cdc_outbox.consumer.schema import inbox_component
from cdc_outbox.drivers import psycopg
from cdc_outbox.migrations import Component, script, upgrade
from cdc_outbox.table import InboxTable
from cdc_outbox.writer.schema import outbox_component, outbox_statements


@click.command(short_help="Create or upgrade the outbox's or the inbox's tables.")
@click.argument("spec", type=click.Path(path_type=Path), required=False)
@click.option("--inbox", is_flag=True, help="Create the inbox of a consuming service.")
@click.option("--inbox-schema", default="public", show_default=True, help="The schema that the inbox lies in.")
@click.option("--sql", is_flag=True, help="Print the statements instead of running them; no database is asked.")
@click.option("--dsn", envvar="CDC_OUTBOX_DSN", show_envvar=True, help="The database; its role owns what is created.")
def init(spec: Path | None, *, inbox: bool, inbox_schema: str, sql: bool, dsn: str | None) -> None:
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
    components, after = _wanted(spec, inbox_schema if inbox else None)
    if sql:
        parts = [*map(script, components), *after]
        click.echo("begin;\n\n" + "\n\n".join(parts) + "\n\ncommit;")
        return
    if not dsn:
        raise click.UsageError("--dsn is needed (or CDC_OUTBOX_DSN), unless --sql prints the statements")
    with psycopg.connect(dsn) as connection:
        driver = psycopg.Psycopg()
        driver.begin(connection)
        for component in components:
            steps = upgrade(lambda statement: driver.fetch(connection, statement), component)
            version = component.migrations[-1].version
            click.echo(f"{component.name}: {f'now at version {version}' if steps else 'up to date'}", err=True)
        for statement in after:
            driver.fetch(connection, statement)
        driver.commit(connection)


def _wanted(spec: Path | None, inbox_schema: str | None) -> tuple[list[Component], list[str]]:
    """Return the components to create, and statements that are not versioned because they say what shall be."""
    components, after = [], []
    if spec is not None:
        pipeline = read_spec(spec)
        components.append(outbox_component(pipeline.outbox, first_source=pipeline.first_source))
        publication, first_source = pipeline.database.publication, pipeline.first_source
        after.extend(outbox_statements(pipeline.outbox, publication, first_source=first_source))
    if inbox_schema is not None:
        components.append(inbox_component(InboxTable(schema=inbox_schema)))
    return components, after
