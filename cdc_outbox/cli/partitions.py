"""``cdc-outbox partitions``."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.check import refuse_other_database
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.exits import ExitCode
from cdc_outbox.cli.options import dsns_option, read_spec
from cdc_outbox.cli.output import say
from cdc_outbox.drivers import TransactionDriver
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
def partitions(spec: Path, *, databases: Databases, ahead: int | None) -> int:
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
        return make_partitions(pipeline.outbox, connection, driver, ahead=ahead)


def make_partitions(
    table: OutboxTable,
    connection: Any,  # noqa: ANN401 - the driver's own
    driver: TransactionDriver,
    *,
    ahead: int | None = None,
) -> ExitCode:
    """Create partitions and say which: those that are new on stdout, those that cannot be made on stderr."""
    made, missed = 0, 0
    for step in create_partitions(connection, driver, table, now=datetime.now(UTC), ahead=ahead):
        if step.obstacle:
            missed += 1
            say(f"{step.partition.table}: not created: {step.obstacle}", err=True)
        else:
            made += 1
            say(str(step.partition.table))
    if missed:
        say(
            "Nothing is lost: what has no partition lies in the default one, and is published from there. It only"
            " cannot be dropped with a partition.",
            err=True,
        )
    elif not made:
        say(f"{table.table}: every partition is there", err=True)
    return ExitCode.FAILED if missed else ExitCode.DONE
