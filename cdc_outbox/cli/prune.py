"""``cdc-outbox prune``."""

import re
from pathlib import Path

import click

from cdc_outbox.cli.database import connected
from cdc_outbox.cli.options import dsn_option, read_spec
from cdc_outbox.database import DatabaseKind
from cdc_outbox.errors import ConfigError
from cdc_outbox.operate.prune import Pruned, PruneOptions, Pruning
from cdc_outbox.table import OutboxTable, TableName

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _seconds(text: str) -> float:
    """Read a number with its unit."""
    parts = re.fullmatch(r"([0-9]{1,6})([smhdw])", text)
    if parts is None:
        raise click.BadParameter(f"{text!r} is not a number with one of the units s, m, h, d and w, such as 7d.")
    return float(parts[1]) * _SECONDS[parts[2]]


@click.command(short_help="Delete the events that are proven delivered.")
@click.argument("spec", type=click.Path(path_type=Path))
@dsn_option
@click.option("--dry-run", is_flag=True, help="Count what would go, and write nothing.")
@click.option(
    "--keep", type=_seconds, metavar="7d", help="Leave events younger than this (s, m, h, d, w), by created_at."
)
@click.option("--archive", metavar="TABLE", help="Move the rows to this table; it is made if it does not exist.")
@click.option("--batch", type=click.IntRange(min=1), default=1000, show_default=True, help="Rows a transaction.")
@click.option("--limit", type=click.IntRange(min=1), help="Delete no more than so many.")
@click.option("--max-seconds", type=click.FloatRange(min=0), help="Begin no batch later than this.")
@click.option(
    "--wait",
    type=_seconds,
    metavar="90s",
    default="90s",
    show_default=True,
    help="How long to wait for the slot to pass this run's mark; without, earlier runs' marks must do.",
)
def prune(
    spec: Path,
    *,
    dsn: str,
    dry_run: bool,
    keep: float | None,
    archive: str | None,
    batch: int,
    limit: int | None,
    max_seconds: float | None,
    wait: float,
) -> None:
    """Delete the events that are proven delivered, and print how many they were.

    An event goes when the slot that the spec names has confirmed everything that was committed when a mark was taken,
    and the event was. Age alone proves nothing; --keep leaves events although they were delivered. What is deleted
    cannot be published again. The numbers of aggregates stay.

    DSN is the outbox's database as this machine reaches it, for a role that may select from the outbox and delete
    from it, and may write the table of marks beside it.

    \b
    Examples:
      cdc-outbox prune connectors/orders.yaml --keep 7d
      cdc-outbox prune connectors/orders.yaml --keep 7d --archive archive.orders_outbox
      cdc-outbox prune connectors/orders.yaml --dry-run
    """
    pipeline = read_spec(spec)
    if pipeline.database.kind is not DatabaseKind.POSTGRESQL:
        raise ConfigError(
            f"rows are pruned on PostgreSQL, and the spec speaks of {pipeline.database.kind}", field="database.kind"
        )
    options = PruneOptions(
        keep_seconds=keep,
        archive=_table(archive, pipeline.outbox) if archive is not None else None,
        batch_rows=batch,
        limit_rows=limit,
        max_seconds=max_seconds,
        wait_seconds=wait,
    )
    with connected(dsn, pipeline.database.kind) as (connection, driver):
        pruning = Pruning(pipeline, connection, driver, options, _report)
        pruned = pruning.dry_run() if dry_run else pruning.run()
        _tell(pruning, pruned)
    click.echo(pruned.deleted)


def _table(name: str, outbox: OutboxTable) -> TableName:
    """Return the table that is meant; without a schema it lies beside the outbox."""
    schema, dot, table = name.rpartition(".")
    return TableName(schema=schema if dot else outbox.table.schema, name=table)


def _tell(pruning: Pruning, pruned: Pruned) -> None:
    """Say what stayed, and why."""
    mark = pruned.verdict.mark
    if mark is not None:
        _report("mark", f"{mark.position} of {mark.taken_at:%Y-%m-%d %H:%M:%S%z} was passed")
    if pruned.young:
        _report("kept", f"{pruned.young:,} delivered, but younger than --keep")
    if pruned.unproven:
        _report("kept", f"{pruned.unproven:,} not proven delivered")
    if pruned.verdict.held_back:
        _report("held back", pruned.verdict.held_back)
    if mark is not None and pruned.unproven and (running := pruning.find_running(mark)):
        _report("held back", running)
    if pruned.stopped_early:
        _report("stopped", "at the limit; there may be more to delete")


def _report(step: str, text: str) -> None:
    click.echo(f"{step:<10} {text}", err=True)
