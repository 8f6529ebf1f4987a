"""``cdc-outbox reset``."""

from pathlib import Path

import click

from cdc_outbox.cli.brokers import broker_options, broker_settings
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.exits import ExitCode
from cdc_outbox.cli.options import dsn_option, read_spec
from cdc_outbox.cli.replay import aggregate
from cdc_outbox.consumer import InboxTable
from cdc_outbox.consumer.topics import TopicReader
from cdc_outbox.operate.reset import Reset


@click.command(short_help="Make a consumer forget events, so that their effects run again.")
@click.argument("spec", type=click.Path(path_type=Path))
@dsn_option
@broker_options
@click.option("--consumer", required=True, help="Whose inbox; its group must have no members.")
@click.option("--inbox-schema", default="public", show_default=True, help="The schema that the inbox lies in.")
@click.option("--aggregate", "of_aggregate", type=aggregate, metavar="TYPE/ID", help="Forget this aggregate only.")
@click.option("--all", "everything", is_flag=True, help="Forget all that the consumer remembers.")
@click.option("--run-effects-again", is_flag=True, help="Do it. Without, only say what would be forgotten.")
def reset(
    spec: Path,
    *,
    dsn: str,
    bootstrap_servers: str,
    kafka_settings: Path | None,
    consumer: str,
    inbox_schema: str,
    of_aggregate: tuple[str, str] | None,
    everything: bool,
    run_effects_again: bool,
) -> ExitCode:
    """Forget which events a consumer has applied: claims, watermarks, holes and what is parked.

    What it has written stays. When the events come again, for example by `cdc-outbox replay`, their handlers run again
    and their effects happen twice, unless you have undone them. So nothing is forgotten without --run-effects-again:
    this command then says what would be, and exits with 2.

    Events that a topic holds no more cannot come again. What was applied of them stays remembered, and the others
    follow it.

    DSN is the database of the consumer's inbox, for a role that may delete from its tables; the consumer's own may not.

    \b
    Examples:
      cdc-outbox reset connectors/orders.yaml --consumer shipping --aggregate order/42
      cdc-outbox reset connectors/orders.yaml --consumer shipping --aggregate order/42 --run-effects-again
      cdc-outbox replay orders.shipping:consumer --aggregate order/42
    """
    if everything == (of_aggregate is not None):
        raise click.UsageError("say what to forget: --aggregate TYPE/ID, or --all")
    pipeline = read_spec(spec)
    settings = broker_settings(bootstrap_servers, kafka_settings, group=consumer)
    with connected(dsn) as (connection, driver), TopicReader.opened(settings) as topics:
        forgotten = Reset(
            pipeline.contract,
            connection=connection,
            driver=driver,
            table=InboxTable(schema=inbox_schema),
            topics=topics,
            consumer=consumer,
            aggregate=of_aggregate,
        ).run(dry_run=not run_effects_again)
    click.echo(
        f"{'forgotten' if run_effects_again else 'would be forgotten'}: {forgotten.claims:,} claims, "
        f"{forgotten.aggregates:,} watermarks, {forgotten.parked:,} parked events, {forgotten.holes:,} holes"
    )
    if forgotten.kept:
        click.echo(
            f"{forgotten.kept:,} of the watermarks stay where the topic begins: what came before is gone from it"
        )
    if not run_effects_again:
        click.echo(
            "nothing was forgotten: the effects of these events would happen twice when they come again, unless you "
            "have undone them; --run-effects-again does it",
            err=True,
        )
        return ExitCode.USAGE
    click.echo("`cdc-outbox replay` gives the consumer the events again", err=True)
    return ExitCode.DONE
