"""``cdc-outbox baseline`` and ``cdc-outbox reset``."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.arguments import optional_spec_argument, spec_argument
from cdc_outbox.cli.brokers import broker_options, broker_settings
from cdc_outbox.cli.inbox import AggregateName, InboxLocation, consumer_option, inbox_options
from cdc_outbox.cli.options import acting, dry_run_option, json_option, note_option, read_spec
from cdc_outbox.cli.output import ExitCode, document, in_columns, say
from cdc_outbox.consumer.ordering import Aggregate
from cdc_outbox.consumer.topic_reader import TopicReader
from cdc_outbox.operations.actions import record_action
from cdc_outbox.operations.baseline import Baseline, Gap, begin_from_now
from cdc_outbox.operations.connections import OpenInbox
from cdc_outbox.operations.reset import Forgotten, Reset
from cdc_outbox.redaction import counted, visible


@click.command()
@optional_spec_argument
@inbox_options
@broker_options(required=False)
@consumer_option()
@click.option("--from-now", is_flag=True, help="Have a new consumer begin at the end of its topics; needs SPEC.")
@click.option(
    "--aggregate",
    type=AggregateName(),
    metavar="TYPE/ID",
    help="Only this aggregate; its missing events are accepted as lost.",
)
@click.option(
    "--source", metavar="SOURCE", help="The source of the aggregate's events, such as orders.1; needs --aggregate."
)
@note_option(required=False)
@dry_run_option
@json_option()
def baseline(
    spec: Path | None,
    *,
    inbox_location: InboxLocation,
    bootstrap_servers: str | None,
    kafka_settings: Path | None,
    consumer: str,
    from_now: bool,
    aggregate: tuple[str, str] | None,
    source: str | None,
    note: str | None,
    dry_run: bool,
    prints_json: bool,
) -> None:
    """Accept missing events from before a consumer's start.

    A new consumer parks events when the first events of their aggregates are no longer in the topics. If the consumer
    has applied no event of an aggregate, this command sets the aggregate's watermark to the number before its first
    parked event and records the missing numbers; the waiting events are then applied. Run it when the consumer has read
    its topics to the end, or whenever its parking limit is reached. If an event from before the baseline arrives later,
    it is parked as a conflict.

    If the consumer has already applied events of the aggregate, a missing event counts as lost. This gap is accepted
    only if you name the aggregate: --aggregate TYPE/ID --source SOURCE.

    A consumer that needs no history begins with --from-now, before its first start: it reads the topics of SPEC from
    their present end on, and the last number of each aggregate in them becomes its watermark.

    Each line shows an aggregate, its source, its previous watermark, the first and the last sequence number accepted as
    missing, and how many events continue.

    \b
    Examples:
      cdc-outbox baseline --consumer shipping --dry-run
      cdc-outbox baseline --consumer shipping --note "topics begin in June"
      cdc-outbox baseline --consumer shipping --aggregate order/42 --source orders.1 --note "lost, ticket 4711"
      cdc-outbox baseline connectors/orders.yaml --consumer shipping --from-now
    """
    if from_now is (spec is None) or (from_now and aggregate is not None):
        raise click.UsageError("--from-now needs SPEC, is without --aggregate, and alone reads the topics")
    if (source is None) != (aggregate is None):
        raise click.UsageError("--aggregate and --source must be given together")
    if spec is not None:
        begun = _begin(spec, inbox_location, (bootstrap_servers, kafka_settings), consumer, dry_run=dry_run, note=note)
        if prints_json:
            say(document("Baseline", {"consumer": consumer, "isDryRun": dry_run, "fromNow": begun}))
        return
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
            say(f"unreadable: {counted(unreadable, 'parked message')}; missing events may be among them", err=True)
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


def _begin(
    spec: Path,
    inbox_location: InboxLocation,
    brokers: tuple[str | None, Path | None],
    consumer: str,
    *,
    dry_run: bool,
    note: str | None,
) -> dict[str, int]:
    servers, file = brokers
    if servers is None:
        raise click.UsageError("--from-now needs --bootstrap-servers")
    contract, settings = read_spec(spec).contract, broker_settings(servers, file, group=consumer)
    with inbox_location.connected() as connected, TopicReader.opened(settings) as topics:
        inbox = OpenInbox(*connected, table=inbox_location.table, consumer=consumer)
        begun = begin_from_now(inbox, topics, contract, dry_run=dry_run)
    if not dry_run:
        record_action(acting(note=note), "baseline", consumer, from_now=begun)
    counts = ", ".join(f"{name} {number:,}" for name, number in begun.items())
    say(f"{visible(consumer)} {'would begin' if dry_run else 'begins'} at the end of its topics: {counts}", err=True)
    return begun


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


@click.command()
@spec_argument
@inbox_options
@broker_options()
@consumer_option()
@click.option("--aggregate", "of_aggregate", type=AggregateName(), metavar="TYPE/ID", help="Only this aggregate.")
@click.option("--all", "everything", is_flag=True, help="Select all: the records of every aggregate.")
@click.option("--offsets-only", is_flag=True, help="Delete only the offset up to which each topic was applied.")
@click.option(
    "--run-effects-again", is_flag=True, help="Delete the record. Without this option, only show what would be deleted."
)
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
    """Delete a consumer's record of applied events.

    Claims, watermarks, gaps and parked events are deleted. The data that handlers have written stays. When the events
    are delivered again, for example by `cdc-outbox replay`, their handlers run again and their effects happen twice,
    unless you have undone them. Therefore the command only shows what would be deleted, unless --run-effects-again is
    given.

    Events that are no longer in a topic cannot be delivered again. Their record is kept, so that later events of the
    aggregate do not wait for them.

    After --all, the consumer reads its topics from the beginning at its next start.

    --offsets-only deletes neither claims nor watermarks. The consumer reads its topics from the beginning and skips the
    events that it has applied. Use it when the consumer refuses to start because a topic was created again, is on
    another cluster, or lost messages. No effect happens twice, so --run-effects-again is not needed.

    DSN is the database of the consumer's inbox, with a role that can delete from its tables; the consumer's own role
    cannot. The consumer's group must have no members.

    Exit codes: 0 done, 1 failed or refused, 2 --run-effects-again is missing (0 with --dry-run), 75 a system cannot be
    reached.

    \b
    Examples:
      cdc-outbox reset connectors/orders.yaml --consumer shipping --aggregate order/42
      cdc-outbox reset connectors/orders.yaml --consumer shipping --aggregate order/42 --run-effects-again
      cdc-outbox replay orders.shipping:consumer --aggregate order/42
      cdc-outbox reset connectors/orders.yaml --consumer shipping --offsets-only
    """
    if [everything, offsets_only, of_aggregate is not None].count(True) != 1:
        raise click.UsageError("give exactly one of --aggregate TYPE/ID, --all and --offsets-only")
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
    _print_forgotten(forgotten, consumer, was_done=run_effects_again, prints_json=prints_json)
    if run_effects_again:
        reads = "the consumer reads its topics again when it starts"
        say(reads if everything else "`cdc-outbox replay` delivers them again", err=True)
    elif not dry_run:
        say(_NOTHING_FORGOTTEN, err=True)
    return ExitCode.DONE if run_effects_again or dry_run else ExitCode.USAGE


_NOTHING_FORGOTTEN = (
    "nothing was deleted: the effects of these events would happen twice when they come again, unless you have "
    "undone them; add --run-effects-again to delete the record"
)


def _refuse_contradiction(*, offsets_only: bool, run_effects_again: bool, dry_run: bool) -> None:
    if offsets_only and run_effects_again:
        raise click.UsageError("--offsets-only runs no effect again: remove --run-effects-again")
    if dry_run and run_effects_again:
        raise click.UsageError("--dry-run and --run-effects-again cannot be combined")


def _forget_offsets(resetting: Reset, consumer: str, *, dry_run: bool, prints_json: bool) -> None:
    partitions = resetting.forget_offsets(dry_run=dry_run)
    if not dry_run:
        record_action(acting(), "reset", consumer, offsets=partitions)
    what = f"the offsets of {counted(partitions, 'partition')}"
    say(f"{'would be deleted' if dry_run else 'deleted'}: {what}", err=prints_json)
    if prints_json:
        say(document("Reset", {"consumer": consumer, "isDryRun": dry_run, "offsets": partitions}))


def _print_forgotten(forgotten: Forgotten, consumer: str, *, was_done: bool, prints_json: bool) -> None:
    say(
        f"{'deleted' if was_done else 'would be deleted'}: {counted(forgotten.claims, 'claim')}, "
        f"{counted(forgotten.aggregates, 'watermark')}, {counted(forgotten.parked, 'parked event')}, "
        f"{counted(forgotten.holes, 'gap')}",
        err=prints_json,
    )
    if forgotten.kept:
        kept = counted(forgotten.kept, "watermark")
        say(f"kept at the beginning of the topic, because earlier events are no longer in it: {kept}", err=prints_json)
    if prints_json:
        say(document("Reset", {"consumer": consumer, "isDryRun": not was_done, **asdict(forgotten)}))
