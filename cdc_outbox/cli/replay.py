"""``cdc-outbox replay``."""

import logging
import re
import shlex
import sys
from contextlib import nullcontext, redirect_stdout
from datetime import datetime
from functools import partial

import click

from cdc_outbox.cli.arguments import consumer_argument
from cdc_outbox.cli.consume import load
from cdc_outbox.cli.inbox import AggregateName
from cdc_outbox.cli.options import acting, dry_run_option, json_option
from cdc_outbox.cli.output import ExitCode, document, say
from cdc_outbox.cli.running import start_log, until_signal
from cdc_outbox.cli.times import Time
from cdc_outbox.consumer import Fate, Replayed, Selection
from cdc_outbox.operations.actions import record_action
from cdc_outbox.redaction import shortened, visible
from cdc_outbox.text_files.document import did_you_mean

_SHOWN = 5
"""Event types that a hint names."""
_WORDS = {
    Fate.APPLIED: ("applied", "would be applied"),
    Fate.DUPLICATE: ("duplicates, skipped", "duplicates, would be skipped"),
    Fate.PARKED: ("parked", "would be parked"),
    Fate.WAITING: ("parked already", "parked already"),
    Fate.LEFT_OUT: ("left out: unknown whether they were applied", "would be left out"),
    Fate.UNREADABLE: ("unreadable, left out", "unreadable, would be left out"),
}
_ASIDE = (Fate.PARKED, Fate.LEFT_OUT, Fate.UNREADABLE)


def _offsets(text: str) -> tuple[int, int, int]:
    found = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,18})-([0-9]{1,18})", text)
    if found is None or int(found[2]) > int(found[3]):
        raise click.BadParameter(f"{text!r} is not PARTITION:FIRST-LAST, such as 0:1200-1250.")
    return int(found[1]), int(found[2]), int(found[3])


@click.command()
@consumer_argument
@click.option("--topic", metavar="TOPIC", help="Only this topic.")
@click.option("--aggregate", "of_aggregate", type=AggregateName(), metavar="TYPE/ID", help="Only this aggregate.")
@click.option("--event-type", metavar="TYPE", help="Only events of this type, for example OrderPlaced.")
@click.option("--from", "since", type=Time(), metavar="TIME", help="Only events created at or after this time.")
@click.option("--to", "before", type=Time(), metavar="TIME", help="Only events created before this time.")
@click.option(
    "--offsets",
    type=_offsets,
    metavar="PARTITION:FIRST-LAST",
    help="Only messages of this partition, from FIRST to LAST inclusive.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    help="Maximum number of events per second that reach handlers.",
)
@dry_run_option
@json_option()
def replay(
    target: str,
    *,
    topic: str | None,
    of_aggregate: tuple[str, str] | None,
    event_type: str | None,
    since: datetime | None,
    before: datetime | None,
    offsets: tuple[int, int, int] | None,
    rate: float | None,
    dry_run: bool,
    prints_json: bool,
) -> ExitCode:
    """Deliver messages from the topics to a consumer again.

    The options select messages; a message must match all of them. Events that were applied are skipped as duplicates.
    Events that were never applied, for example after the group's offsets were moved by accident, are applied in order,
    in the same transactions as during normal operation. Other consumers are not affected, no offset is committed, and
    the consumer may run at the same time. An event whose handler fails is parked, and the running consumer tries it
    again.

    With sequence: increasing, the replay is refused if it would apply an event before an earlier event of the same
    aggregate that the consumer has not read yet: the earlier one would then be a conflict.

    A dry run calls no handlers, so it cannot predict failures.

    Exit codes: 0 done, 1 failed or refused, 3 an event was parked, left out or unreadable, 75 a system cannot be
    reached; run it again.

    \b
    Examples:
      cdc-outbox replay orders.shipping:consumer --dry-run
      cdc-outbox replay orders.shipping:consumer --aggregate order/42
      cdc-outbox replay orders.shipping:consumer --from 1h
      cdc-outbox replay orders.shipping:consumer --from 2026-03-01T14:00:00Z --to 2026-03-01T15:00:00Z --rate 100
      cdc-outbox replay orders.shipping:consumer --topic outbox.event.order --offsets 0:1200-1250
    """
    start_log("text", logging.WARNING)
    partition, first, last = offsets or (None, None, None)
    selection = Selection(
        topic=topic,
        aggregate=of_aggregate,
        event_type=event_type,
        since=since,
        before=before,
        partition=partition,
        first_offset=first,
        last_offset=last,
    )
    # What handlers print is no part of the document.
    with redirect_stdout(sys.stderr) if prints_json else nullcontext():
        consumer = load(target)
        done: Replayed = until_signal(partial(consumer.replay, selection, rate=rate, dry_run=dry_run), consumer.stop)
        if not dry_run:
            record_action(acting(), "replay", consumer.name, selection=selection, fates=done.fates)
        _print_replayed(consumer.name, done, event_type, dry_run=dry_run)
    if prints_json:
        say(_document(consumer.name, done, dry_run=dry_run))
    if not done.is_complete:
        return ExitCode.INTERRUPTED
    return ExitCode.DIFFERENCES if any(done.fates[fate] for fate in _ASIDE) else ExitCode.DONE


def _document(name: str, done: Replayed, *, dry_run: bool) -> str:
    fates = [{"fate": fate, "messages": done.fates[fate], "first": done.examples.get(fate)} for fate in Fate]
    content = {"consumer": name, "isDryRun": dry_run, "isComplete": done.is_complete, "fates": fates}
    return document("Replay", content)


def _print_replayed(name: str, done: Replayed, event_type: str | None, *, dry_run: bool) -> None:
    for fate, words in _WORDS.items():
        if done.fates[fate]:
            say(visible(f"{done.fates[fate]:,} {words[dry_run]}, the first is {done.examples[fate]}"))
    if not done.fates:
        say("no message is selected")
    if not done.is_complete:
        say(f"{name}: stopped before the end; run it again to continue", err=True)
    sys.stdout.flush()
    if hint := hint_of(name, done, event_type):
        say(visible(f"hint: {hint}"), err=True)


def hint_of(consumer: str, done: Replayed, event_type: str | None) -> str:
    """Return what to do about a replay that applied nothing, empty where there is nothing to say."""
    if done.fates.keys() == {Fate.DUPLICATE}:
        return f"Their effects run again only after `cdc-outbox reset SPEC --consumer {shlex.quote(consumer)} …`."
    if done.fates or event_type is None or not done.passed_over or event_type in done.passed_over:
        return ""
    there = sorted(name for name, _ in done.passed_over.most_common(_SHOWN))
    near = did_you_mean(event_type, list(done.passed_over))
    return f"The topics hold {', '.join(map(shortened, there))}. {near}".rstrip()
