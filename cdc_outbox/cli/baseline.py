"""``cdc-outbox baseline``."""

from typing import Any

import click

from cdc_outbox.cli.columns import in_columns
from cdc_outbox.cli.inbox import InboxPlace, consumer_option, inbox_options, split_aggregate
from cdc_outbox.cli.options import json_option
from cdc_outbox.cli.output import document, say
from cdc_outbox.consumer.ordering import Aggregate
from cdc_outbox.operate.baseline import Baseline, Gap
from cdc_outbox.safe_text import counted


@click.command(short_help="Begin in the middle of a history: accept what came before.")
@inbox_options
@consumer_option
@click.option(
    "--aggregate", callback=split_aggregate, metavar="TYPE/ID", help="Only this one; its missing events are given up."
)
@click.option("--source", metavar="SOURCE", help="With --aggregate: who numbered its events, such as orders.1.")
@click.option("--note", help="The reason, for later; it is kept with the hole in the sequence.")
@click.option("--dry-run", is_flag=True, help="Print what would be accepted, and change nothing.")
@json_option()
def baseline(
    *,
    place: InboxPlace,
    consumer: str,
    aggregate: tuple[str, str] | tuple[None, None],
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
    aggregate_type, aggregate_id = aggregate
    if (source is None) != (aggregate_type is None):
        raise click.UsageError("--aggregate and --source go together: they name one aggregate")
    named = None
    if source is not None and aggregate_type is not None and aggregate_id is not None:
        named = Aggregate(source, aggregate_type, aggregate_id)
    with place.opened(consumer) as inbox:
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
