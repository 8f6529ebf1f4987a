"""``cdc-outbox baseline`` and ``cdc-outbox reset``."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.arguments import spec_argument
from cdc_outbox.cli.brokers import broker_options, broker_settings
from cdc_outbox.cli.inbox import AggregateName, InboxLocation, consumer_option, inbox_options
from cdc_outbox.cli.options import acting, dry_run_option, json_option, note_option, read_spec
from cdc_outbox.cli.output import ExitCode, document, in_columns, say
from cdc_outbox.consumer.ordering import Aggregate
from cdc_outbox.consumer.topic_reader import TopicReader
from cdc_outbox.operations.actions import record_action
from cdc_outbox.operations.baseline import Baseline, Gap
from cdc_outbox.operations.reset import Forgotten, Reset
from cdc_outbox.redaction import counted


@click.command(short_help="Begin in the middle of a history: accept what came before.")
@inbox_options
@consumer_option()
@click.option(
    "--aggregate", type=AggregateName(), metavar="TYPE/ID", help="Only this aggregate; its missing events are given up."
)
@click.option("--source", metavar="SOURCE", help="With --aggregate: who numbered its events, such as orders.1.")
@note_option(required=False)
@dry_run_option
@json_option()
def baseline(
    *,
    inbox_location: InboxLocation,
    consumer: str,
    aggregate: tuple[str, str] | None,
    source: str | None,
    note: str | None,
    dry_run: bool,
    prints_json: bool,
) -> None:
    """Accept as missing what came before the first events that a consumer sees.

    A consumer that is new to topics whose first events are gone parks what it reads: of each aggregate the first one is
    missing. For every aggregate of which it has applied nothing, this moves the watermark to right before the lowest
    number that is parked, notes the hole, and what waits goes on. Run it when the consumer has read to the end of its
    topics, or as often as its park is full. An event that comes after all from before its baseline is a conflict.

    In an aggregate that it has followed already, a missing event is lost, not old. Such a hole is accepted only where
    you name it: --aggregate TYPE/ID --source SOURCE.

    Each line is an aggregate, its source, where its watermark stood, the first and the last sequence that are accepted
    as missing, and how many events go on.

    \b
    Examples:
      cdc-outbox baseline --consumer shipping --dry-run
      cdc-outbox baseline --consumer shipping --note "topics begin in June"
      cdc-outbox baseline --consumer shipping --aggregate order/42 --source orders.1 --note "lost, ticket 4711"
    """
    if (source is None) != (aggregate is None):
        raise click.UsageError("--aggregate and --source go together: they name one aggregate")
    named = Aggregate(source, *aggregate) if source is not None and aggregate is not None else None
    with inbox_location.opened(consumer) as inbox:
        work = Baseline(inbox, named)
        gaps = work.find()
        sequences, events = sum(gap.missing for gap in gaps), sum(gap.parked for gap in gaps)
        would = "would be " if dry_run else ""
        say(
            f"{counted(len(gaps), 'aggregate')}: {counted(sequences, 'sequence')} {would}accepted as missing, "
            f"{counted(events, 'event')} applied next",
            err=True,
        )
        unreadable = work.count_unreadable()
        if unreadable:
            say(f"unreadable: {counted(unreadable, 'parked message')}; what is missing may be among them", err=True)
        rows = [_row(gap, consumer) for gap in (gaps if dry_run else work.accept(gaps, note=note))]
    if rows and not dry_run:
        record_action(acting(note=note), "baseline", consumer, missing=rows)
    if prints_json:
        content = {"consumer": consumer, "isDryRun": dry_run, "aggregates": rows, "unreadable": unreadable}
        say(document("Baseline", content))
    elif rows:
        shown = [[str(row[name]) for name in _SHOWN] for row in rows]
        for line in in_columns([[name.upper() for name in _SHOWN], *shown]):
            say(line)


_SHOWN = ("aggregate", "source", "last", "missing_first", "missing_last", "parked")


def _row(gap: Gap, consumer: str) -> dict[str, Any]:
    source, aggregate_type, aggregate_id = gap.aggregate
    return {
        "consumer": consumer,
        "aggregate": f"{aggregate_type}/{aggregate_id}",
        "source": source,
        "aggregate_type": aggregate_type,
        "aggregate_id": aggregate_id,
        "last": gap.last,
        "missing_first": gap.hole.first,
        "missing_last": gap.hole.last,
        "parked": gap.parked,
    }


@click.command(short_help="Make a consumer forget events, so that their effects run again.")
@spec_argument
@inbox_options
@broker_options()
@consumer_option()
@click.option("--aggregate", "of_aggregate", type=AggregateName(), metavar="TYPE/ID", help="Only this aggregate.")
@click.option("--all", "everything", is_flag=True, help="All of them: what the consumer remembers of any.")
@click.option("--offsets-only", is_flag=True, help="Forget only up to where each topic was applied.")
@click.option("--run-effects-again", is_flag=True, help="Do it. Without, only say what would be forgotten.")
@dry_run_option
@json_option()
def reset(
    spec: Path,
    *,
    inbox_location: InboxLocation,
    bootstrap_servers: str,
    kafka_settings: Path | None,
    consumer: str,
    of_aggregate: tuple[str, str] | None,
    everything: bool,
    offsets_only: bool,
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

    --offsets-only forgets neither claims nor watermarks. The consumer reads its topics from their beginning, and skips
    what it has applied. Use it where the consumer refuses to start because a topic was created anew, lies on another
    cluster, or lost messages. No effect happens twice, so --run-effects-again is not needed.

    DSN is the database of the consumer's inbox, for a role that may delete from its tables; the consumer's own may not.
    The consumer's group must have no members.

    \b
    Examples:
      cdc-outbox reset connectors/orders.yaml --consumer shipping --aggregate order/42
      cdc-outbox reset connectors/orders.yaml --consumer shipping --aggregate order/42 --run-effects-again
      cdc-outbox replay orders.shipping:consumer --aggregate order/42
      cdc-outbox reset connectors/orders.yaml --consumer shipping --offsets-only
    """
    if [everything, offsets_only, of_aggregate is not None].count(True) != 1:
        raise click.UsageError("say what to forget: one of --aggregate TYPE/ID, --all and --offsets-only")
    _refuse_contradiction(offsets_only=offsets_only, run_effects_again=run_effects_again, dry_run=dry_run)
    pipeline = read_spec(spec)
    settings = broker_settings(bootstrap_servers, kafka_settings, group=consumer)
    with inbox_location.opened(consumer) as inbox, TopicReader.opened(settings) as topics:
        resetting = Reset(pipeline.contract, inbox=inbox, topics=topics, aggregate=of_aggregate)
        if offsets_only:
            _forget_offsets(resetting, consumer, dry_run=dry_run, prints_json=prints_json)
            return ExitCode.DONE
        forgotten = resetting.run(dry_run=not run_effects_again)
    if run_effects_again:
        record_action(acting(), "reset", consumer, aggregate=of_aggregate, **asdict(forgotten))
    _tell(forgotten, consumer, was_done=run_effects_again, prints_json=prints_json)
    if run_effects_again:
        reads = "the consumer reads its topics again when it starts"
        say(reads if everything else "`cdc-outbox replay` gives it them again", err=True)
    elif not dry_run:
        say(_NOTHING_FORGOTTEN, err=True)
    return ExitCode.DONE if run_effects_again or dry_run else ExitCode.USAGE


_NOTHING_FORGOTTEN = (
    "nothing was forgotten: the effects of these events would happen twice when they come again, unless you "
    "have undone them; --run-effects-again does it"
)


def _refuse_contradiction(*, offsets_only: bool, run_effects_again: bool, dry_run: bool) -> None:
    if offsets_only and run_effects_again:
        raise click.UsageError("--offsets-only runs no effect again: leave --run-effects-again out")
    if dry_run and run_effects_again:
        raise click.UsageError("--dry-run forgets nothing, and --run-effects-again does: one of them")


def _forget_offsets(resetting: Reset, consumer: str, *, dry_run: bool, prints_json: bool) -> None:
    partitions = resetting.forget_offsets(dry_run=dry_run)
    if not dry_run:
        record_action(acting(), "reset", consumer, offsets=partitions)
    what = f"the offsets of {counted(partitions, 'partition')}"
    say(f"{'would be forgotten' if dry_run else 'forgotten'}: {what}", err=prints_json)
    if prints_json:
        say(document("Reset", {"consumer": consumer, "isDryRun": dry_run, "offsets": partitions}))


def _tell(forgotten: Forgotten, consumer: str, *, was_done: bool, prints_json: bool) -> None:
    say(
        f"{'forgotten' if was_done else 'would be forgotten'}: {counted(forgotten.claims, 'claim')}, "
        f"{counted(forgotten.aggregates, 'watermark')}, {counted(forgotten.parked, 'parked event')}, "
        f"{counted(forgotten.holes, 'hole')}",
        err=prints_json,
    )
    if forgotten.kept:
        kept = counted(forgotten.kept, "watermark")
        say(f"kept where the topic begins, for what came before is gone from it: {kept}", err=prints_json)
    if prints_json:
        say(document("Reset", {"consumer": consumer, "isDryRun": not was_done, **asdict(forgotten)}))
