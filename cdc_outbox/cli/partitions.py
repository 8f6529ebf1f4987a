"""``cdc-outbox partitions``."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.check import refuse_other_database
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.exits import ExitCode
from cdc_outbox.cli.options import dsns_option, json_option, read_spec
from cdc_outbox.cli.output import document, say
from cdc_outbox.drivers import AnyConnection, TransactionDriver
from cdc_outbox.errors import ConfigError, TableNotFoundError
from cdc_outbox.table import OutboxTable
from cdc_outbox.writer.catalog import Catalog
from cdc_outbox.writer.partitions import create_partitions


@click.command(short_help="Create the outbox's next partitions.")
@click.argument("spec", type=click.Path(path_type=Path))
@dsns_option(required=True)
@click.option(
    "--ahead", type=click.IntRange(0, 1000), help="Partitions beside the present one.  [default: 7 days or 2 months]"
)
@json_option()
def partitions(spec: Path, *, databases: Databases, ahead: int | None, prints_json: bool) -> int:
    """Create the partitions of an outbox for the present day or month and those after it.

    Run it more often than the partitions last; running it again changes nothing. Without it nothing fails: an event
    that has no partition goes into the default one. Where that has happened, a partition of that time can no longer
    be made; it is named, and the exit code is 1.

    \b
    Example:
      cdc-outbox partitions connectors/orders.yaml --ahead 14
    """
    pipeline = read_spec(spec)
    if pipeline.outbox.partitions is None:
        raise ConfigError("the spec has no outbox.partitions", field="outbox.partitions")
    with connected(databases.of(pipeline.name), pipeline.database.kind) as (connection, driver):
        refuse_other_database(pipeline, connection, driver)
        if not Catalog(connection, driver).exists(pipeline.outbox.table):
            raise TableNotFoundError(f"{pipeline.outbox.table} does not exist")
        made = make_partitions(pipeline.outbox, connection, driver, ahead=ahead, err=prints_json)
    if prints_json:
        say(document("Partitions", {"table": str(pipeline.outbox.table), **made}))
    return ExitCode.FAILED if made["missed"] else ExitCode.DONE


def make_partitions(
    table: OutboxTable,
    connection: AnyConnection,
    driver: TransactionDriver,
    *,
    ahead: int | None = None,
    err: bool = False,
) -> dict[str, list[Any]]:
    """Create partitions, say which, and return that for a document.

    Args:
        err: Whether also those that are new are said on stderr, as those that cannot be made.
    """
    created, missed = list[str](), list[dict[str, str]]()
    for step in create_partitions(connection, driver, table, now=datetime.now(UTC), ahead=ahead):
        if step.obstacle:
            missed.append({"partition": str(step.partition.table), "obstacle": step.obstacle})
            say(f"{step.partition.table}: not created: {step.obstacle}", err=True)
        else:
            created.append(str(step.partition.table))
            say(created[-1], err=err)
    if missed:
        say(
            "Nothing is lost: what has no partition lies in the default one, and is published from there. It only"
            " cannot be dropped with a partition.",
            err=True,
        )
    elif not created:
        say(f"{table.table}: every partition is there", err=True)
    return {"created": created, "missed": missed}
