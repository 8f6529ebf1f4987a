"""``cdc-outbox reset``."""

from dataclasses import asdict
from pathlib import Path

import click

from cdc_outbox.cli.brokers import broker_options, broker_settings
from cdc_outbox.cli.exits import ExitCode
from cdc_outbox.cli.inbox import InboxPlace, consumer_option, inbox_options, read_aggregate
from cdc_outbox.cli.options import json_option, read_spec
from cdc_outbox.cli.output import document, say
from cdc_outbox.consumer.topics import TopicReader
from cdc_outbox.operate.reset import Forgotten, Reset
from cdc_outbox.safe_text import counted


@click.command(short_help="Make a consumer forget events, so that their effects run again.")
@click.argument("spec", type=click.Path(path_type=Path))
@inbox_options
@broker_options()
@consumer_option
@click.option("--aggregate", "of_aggregate", type=read_aggregate, metavar="TYPE/ID", help="Forget this aggregate only.")
@click.option("--all", "everything", is_flag=True, help="Forget all that the consumer remembers.")
@click.option("--offsets", is_flag=True, help="Forget only up to where each topic was applied.")
@click.option("--run-effects-again", is_flag=True, help="Do it. Without, only say what would be forgotten.")
@click.option("--dry-run", is_flag=True, help="Say what would be forgotten, and change nothing.")
@json_option()
def reset(
    spec: Path,
    *,
    place: InboxPlace,
    bootstrap_servers: str,
    kafka_settings: Path | None,
    consumer: str,
    of_aggregate: tuple[str, str] | None,
    everything: bool,
    offsets: bool,
    run_effects_again: bool,
    dry_run: bool,
    prints_json: bool,
) -> ExitCode:
    """Forget which events a consumer has applied: claims, watermarks, holes and what is parked.

    What it has written stays. When the events come again, for example by `cdc-outbox replay`, their handlers run again
    and their effects happen twice, unless you have undone them. So nothing is forgotten without --run-effects-again:
    this command then says what would be, and exits with 2, or with 0 where --dry-run asked for no more.

    Events that a topic holds no more cannot come again. What was applied of them stays remembered, and the others
    follow it.

    After --all the consumer reads its topics from their beginning when it starts.

    --offsets forgets neither claims nor watermarks. The consumer reads its topics from their beginning, and skips what
    it has applied. Use it where the consumer refuses to start because a topic was created anew, lies on another
    cluster, or lost messages. No effect happens twice, so --run-effects-again is not needed.

    DSN is the database of the consumer's inbox, for a role that may delete from its tables; the consumer's own may not.
    The consumer's group must have no members.

    \b
    Examples:
      cdc-outbox reset connectors/orders.yaml --consumer shipping --aggregate order/42
      cdc-outbox reset connectors/orders.yaml --consumer shipping --aggregate order/42 --run-effects-again
      cdc-outbox replay orders.shipping:consumer --aggregate order/42
      cdc-outbox reset connectors/orders.yaml --consumer shipping --offsets
    """
    if [everything, offsets, of_aggregate is not None].count(True) != 1:
        raise click.UsageError("say what to forget: one of --aggregate TYPE/ID, --all and --offsets")
    _refuse_contradiction(offsets=offsets, run_effects_again=run_effects_again, dry_run=dry_run)
    pipeline = read_spec(spec)
    settings = broker_settings(bootstrap_servers, kafka_settings, group=consumer)
    with place.opened(consumer) as inbox, TopicReader.opened(settings) as topics:
        resetting = Reset(pipeline.contract, inbox=inbox, topics=topics, aggregate=of_aggregate)
        if offsets:
            partitions = resetting.forget_offsets(dry_run=dry_run)
            what = f"the offsets of {counted(partitions, 'partition')}"
            say(f"{'would be forgotten' if dry_run else 'forgotten'}: {what}", err=prints_json)
            if prints_json:
                say(document("Reset", {"consumer": consumer, "isDryRun": dry_run, "offsets": partitions}))
            return ExitCode.DONE
        forgotten = resetting.run(dry_run=not run_effects_again)
    _tell(forgotten, was_done=run_effects_again, err=prints_json)
    if prints_json:
        say(document("Reset", {"consumer": consumer, "isDryRun": not run_effects_again, **asdict(forgotten)}))
    if dry_run:
        return ExitCode.DONE
    if not run_effects_again:
        say(
            "nothing was forgotten: the effects of these events would happen twice when they come again, unless you "
            "have undone them; --run-effects-again does it",
            err=True,
        )
        return ExitCode.USAGE
    again = (
        "the consumer reads its topics again when it starts"
        if everything
        else "`cdc-outbox replay` gives it them again"
    )
    say(again, err=True)
    return ExitCode.DONE


def _refuse_contradiction(*, offsets: bool, run_effects_again: bool, dry_run: bool) -> None:
    if offsets and run_effects_again:
        raise click.UsageError("--offsets runs no effect again: leave --run-effects-again out")
    if dry_run and run_effects_again:
        raise click.UsageError("--dry-run forgets nothing, and --run-effects-again does: one of them")


def _tell(forgotten: Forgotten, *, was_done: bool, err: bool) -> None:
    say(
        f"{'forgotten' if was_done else 'would be forgotten'}: {counted(forgotten.claims, 'claim')}, "
        f"{counted(forgotten.aggregates, 'watermark')}, {counted(forgotten.parked, 'parked event')}, "
        f"{counted(forgotten.holes, 'hole')}",
        err=err,
    )
    if forgotten.kept:
        kept = counted(forgotten.kept, "watermark")
        say(f"kept where the topic begins, for what came before is gone from it: {kept}", err=err)
