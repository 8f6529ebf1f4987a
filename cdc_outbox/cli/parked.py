"""``cdc-outbox parked``."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

import click

from cdc_outbox.cli.groups import Group
from cdc_outbox.cli.inbox import AggregateName, InboxLocation, consumer_option, inbox_options
from cdc_outbox.cli.options import acting, json_option, limit_option, new_file_option, note_option
from cdc_outbox.cli.output import document, say
from cdc_outbox.cli.parked_rows import details_of, json_of, json_of_message, name_of, table_of
from cdc_outbox.consumer.parked_events import Reason, State
from cdc_outbox.errors import ConfigError
from cdc_outbox.operations.actions import record_action
from cdc_outbox.operations.baseline import Gap, find_gaps
from cdc_outbox.operations.parked import Park
from cdc_outbox.operations.parked_rules import FORCED, ParkedRow, ParkFilter, not_tried, why_not_forced
from cdc_outbox.redaction import counted, safe_json, visible

FC = TypeVar("FC", bound=Callable[..., Any])

_NUMBER = "The id that `parked list` shows."
_SHOWN = 50
"""Lines that a screen or two have."""
_GAPS_SHOWN = 5
"""Of aggregates that wait for a missing event; the others are counted."""


def _of_a_consumer(command: FC) -> FC:
    return inbox_options(consumer_option()(command))


def _filters(command: FC) -> FC:
    """Add the options that select events; the command receives them as one ``wanted``."""

    @wraps(command)
    def gathered(
        *,
        state: str | None,
        reason: str | None,
        aggregate: tuple[str, str] | None,
        **others: object,
    ) -> Any:  # noqa: ANN401
        wanted = ParkFilter(
            state=State(state) if state else None,
            reason=Reason(reason) if reason else None,
            aggregate_type=aggregate[0] if aggregate else None,
            aggregate_id=aggregate[1] if aggregate else None,
        )
        return command(wanted=wanted, **others)

    options = (
        click.option("--state", type=click.Choice(list(map(str, State))), help="Only waiting or only dead events."),
        click.option(
            "--reason",
            type=click.Choice(list(map(str, Reason))),
            help="Only events parked for this reason; see `parked --help`.",
        ),
        click.option("--aggregate", type=AggregateName(), metavar="TYPE/ID", help="Only this aggregate."),
    )
    filtered: Any = gathered
    for option in reversed(options):
        filtered = option(filtered)
    return cast("FC", filtered)


def _selection(command: FC) -> FC:
    """Add ids, or ``--all`` with filters; the command receives them as one ``wanted``."""

    @wraps(command)
    def gathered(*, parked_ids: tuple[int, ...], is_all: bool, wanted: ParkFilter, **others: object) -> Any:  # noqa: ANN401
        if is_all == bool(parked_ids):
            raise click.UsageError("give the ids of events, or --all with or without filters")
        if parked_ids and wanted != ParkFilter():
            raise click.UsageError("filters need --all; an id selects one event")
        return command(wanted=ParkFilter(parked_ids=_once(parked_ids)) if parked_ids else wanted, **others)

    every = "Select all: every parked event that the filters match, instead of ids."
    selected: Any = click.option("--all", "is_all", is_flag=True, help=every)(_of_a_consumer(_filters(gathered)))
    named = click.argument("parked_ids", metavar="[PARKED_ID]...", type=int, nargs=-1, help=_NUMBER)
    return cast("FC", named(selected))


def _forced(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> frozenset[Reason]:
    reasons = frozenset(map(Reason, values))
    for reason in sorted(reasons - FORCED):
        raise click.BadParameter(f"{reason}: {why_not_forced(reason)}.")
    return reasons


@click.group(cls=Group, name="parked")
def parked_events() -> None:
    """List, show, retry, skip or export parked events.

    A consumer parks an event that it cannot apply now. Waiting events continue automatically; dead events need `parked
    retry` or `parked skip`.

    DSN is the consuming service's database, with at least the privileges of the consumer's role. These commands apply
    no event themselves. A running consumer that owns the partition applies it within a second.

    \b
    Reasons:
      gap, behind  An earlier event of the aggregate is missing or parked.
      failed       The handler raised an exception.
      crashed      The handler crashed the process, or broke its connection each time.
      conflict     Another event has the sequence number or the id.
      expired      The id may have been deleted, so the event may be a duplicate.
      unreadable   The message breaks the contract.

    \b
    Examples:
      cdc-outbox parked list --consumer shipping --state dead
      cdc-outbox parked show 17 --consumer shipping
      cdc-outbox parked retry 17 --consumer shipping
      cdc-outbox parked skip 17 --consumer shipping --note "cancelled by hand, ticket 4711"
      cdc-outbox parked export --consumer shipping --file parked.jsonl
    """


@parked_events.command(name="list")
@inbox_options
@consumer_option(required=False, note="; without it, all consumers of the inbox")
@_filters
@limit_option(_SHOWN)
@json_option()
def list_parked(
    *,
    inbox_location: InboxLocation,
    consumer: str | None,
    wanted: ParkFilter,
    limit: int,
    prints_json: bool,
) -> None:
    """List parked events.

    The oldest event is listed first; times are UTC. Below the table are the missing events for which others wait.

    \b
    Examples:
      cdc-outbox parked list
      cdc-outbox parked list --consumer shipping --reason failed --aggregate order/42
    """
    found = dict[str, tuple[list[ParkedRow], int, list[Gap]]]()
    with inbox_location.opened_by(consumer) as inboxes:
        for inbox in inboxes:
            found[inbox.consumer] = *Park(inbox).find(wanted, limit=limit), [] if prints_json else find_gaps(inbox)
    rows = {name: rows for name, (rows, *_) in found.items() if rows}
    if prints_json:
        events = [json_of(row, name) for name, parked in rows.items() for row in parked]
        more = sum(total - len(parked) for parked, total, _ in found.values())
        say(document("ParkedEvents", {"events": events, "more": more}))
    elif rows:
        for line in table_of(rows, names_consumers=consumer is None):
            say(line)
    else:
        say("nothing is parked" if wanted == ParkFilter() else "no such event is parked", err=True)
    for name, (parked, total, gaps) in found.items():
        if total > len(parked):
            of_whom = f" of {visible(name)}" if consumer is None else ""
            say(f"{total - len(parked):,} more{of_whom}; --limit {total} shows all", err=True)
        if not prints_json:
            _tell_waiting(name, parked, gaps)


def _tell_waiting(consumer: str, rows: Sequence[ParkedRow], gaps: Sequence[Gap]) -> None:
    """Print what a consumer's parked events wait for."""
    idle = not_tried(rows, datetime.now(UTC))
    for line in _not_tried(idle, consumer) if idle else ():
        say(visible(line), err=True)
    for gap in gaps[:_GAPS_SHOWN]:
        say(visible(f"missing: {gap}"), err=True)
    if len(gaps) > _GAPS_SHOWN:
        say(f"missing: events of {counted(len(gaps) - _GAPS_SHOWN, 'more aggregate')}", err=True)


def _not_tried(rows: Sequence[ParkedRow], consumer: str) -> Iterator[str]:
    """Yield what to do about events that no consumer tries."""
    first, numbers = rows[0], " ".join(str(row.parked_id) for row in rows)
    yield (
        f"not tried: {counted(len(rows), 'event')} due for more than a minute, the first is {first.parked_id} of "
        f"{first.topic}[{first.partition}]"
    )
    yield (
        f"hint: Start the consumer. If it no longer handles {first.aggregate.aggregate_type or 'them'}, skip them: "
        f'`cdc-outbox parked skip {numbers} --consumer {shlex.quote(consumer)} --note "no longer handled"`.'
    )


@parked_events.command()
@click.argument("number", metavar="PARKED_ID", type=int, help=_NUMBER)
@_of_a_consumer
@click.option("--payload", is_flag=True, help="Show the payload too; it may contain private data.")
@json_option()
def show(number: int, *, inbox_location: InboxLocation, consumer: str, payload: bool, prints_json: bool) -> None:
    """Show one parked event with its headers.

    \b
    Example:
      cdc-outbox parked show 17 --consumer shipping --payload
    """
    with inbox_location.opened(consumer) as inbox:
        park = Park(inbox)
        [row] = park.get([number])
        messages = park.read_messages([row])
    is_parked = number in messages  # or it was applied between the two looks
    if prints_json:
        whole = json_of(row, consumer) | json_of_message(messages[number], payload=payload) if is_parked else None
        say(document("ParkedEvent", {"event": whole}))
        return
    if not is_parked:
        say(f"{number} is no longer parked", err=True)
        return
    details = list(details_of(row, consumer, messages[number], payload=payload))
    width = max(len(visible(name)) for name, _ in details)
    for name, text in details:
        say(f"{visible(name):<{width}}  {visible(text) or '-'}")


@parked_events.command()
@_selection
@click.option(
    "--force",
    type=click.Choice(list(map(str, Reason))),
    metavar="|".join(sorted(FORCED)),
    callback=_forced,
    multiple=True,
    help="Apply events parked for this reason anyway. Their effects may contradict or repeat others.",
)
@json_option()
def retry(
    *,
    inbox_location: InboxLocation,
    consumer: str,
    wanted: ParkFilter,
    force: frozenset[Reason],
    prints_json: bool,
) -> None:
    """Retry parked events.

    The events become due, and the running consumer tries them within a second. The command prints their ids. With ids,
    either all of them are retried or none. With --all, events that cannot continue yet are left and reported.

    A conflict or an expired event would be parked again for the same reason; --force applies it once anyway. An
    unreadable message is read again, with the contract that the consumer has now.

    \b
    Examples:
      cdc-outbox parked retry 17 18 --consumer shipping
      cdc-outbox parked retry --all --reason failed --consumer shipping
      cdc-outbox parked retry 19 --force conflict --consumer shipping
    """
    if force and wanted.reason not in {None, *force}:
        raise click.UsageError(f"--reason {wanted.reason} excludes every event that --force applies to")
    with inbox_location.opened(consumer) as inbox:
        retried = Park(inbox).retry(wanted, forced=force)
    due = sorted(row.parked_id for row in retried.due)
    if due:
        record_action(acting(), "parked retry", consumer, parked_ids=due, forced=sorted(force))
    if prints_json:
        left = [{"parked_id": row.parked_id, "reason": row.reason} for row, _ in retried.left]
        say(document("Retry", {"consumer": consumer, "due": due, "left": left}))
    for number in () if prints_json else due:
        say(number)
    if retried.due:
        say(
            f"{counted(len(retried.due), 'event')} due: the consumer {visible(consumer)} tries "
            f"{'them' if retried.due[1:] else 'it'} within a second, if it runs",
            err=True,
        )
    for kind, events in sorted(Counter(row.reason for row, _ in retried.left).items()):
        say(f"left: {events:,} {kind}; {_LEFT.get(kind, 'another event was applied under the id')}", err=True)
    if not retried.due:
        say("nothing to retry", err=True)


_LEFT = {
    Reason.GAP: "they continue when the missing event arrives",
    Reason.BEHIND: "they continue when the event before them is applied",
    Reason.CONFLICT: "--force conflict applies them anyway",
    Reason.EXPIRED: "--force expired applies them anyway",
}


@parked_events.command()
@_selection
@note_option(required=True)
@json_option()
def skip(*, inbox_location: InboxLocation, consumer: str, wanted: ParkFilter, note: str, prints_json: bool) -> None:
    """Skip parked events permanently.

    With ids, either all of them are skipped or none. With --all, an aggregate's events are left and reported if one of
    them cannot be skipped yet. The events that waited for them are applied next. If a skipped event is delivered again,
    the consumer ignores it as a duplicate. Skipping a numbered event moves its aggregate's watermark past it, and
    stores the gap with --note. The command refuses a numbered event that is not the next one of its aggregate.

    \b
    Examples:
      cdc-outbox parked skip 17 --consumer shipping --note "cancelled by hand, ticket 4711"
      cdc-outbox parked skip --all --reason unreadable --consumer shipping --note "of another producer"
    """
    if not note.strip():
        raise click.UsageError("--note is empty; it is the only record of why the event is missing")
    left: list[tuple[ParkedRow, str]] = []
    with inbox_location.opened(consumer) as inbox:
        if wanted.parked_ids is None:
            skipped, left = Park(inbox).skip_all(wanted, note=note)
        else:
            skipped = Park(inbox).skip(wanted.parked_ids, note=note)
    if skipped:
        parked_ids = [each.row.parked_id for each in skipped]
        record_action(acting(note=note), "parked skip", consumer, parked_ids=parked_ids)
    for each in skipped:
        say(f"{each.row.parked_id}  {visible(_skipped(each.row, is_hole=each.is_hole))}", err=prints_json)
    if left:
        say(f"left: {counted(len(left), 'event')}, the first because {visible(left[0][1])}", err=True)
    if not skipped:
        say("nothing to skip", err=True)
    if prints_json:
        events = [json_of(each.row, consumer) | {"isHole": each.is_hole} for each in skipped]
        others = [{"parked_id": row.parked_id, "reason": row.reason} for row, _ in left]
        say(document("Skip", {"consumer": consumer, "events": events, "left": others}))
    if any(each.row.is_unreadable and not each.row.blocks for each in skipped):
        say(
            "The sequence number of an unreadable message is unknown. If it had one, later events wait for it: see "
            "`parked list --reason gap` and `cdc-outbox baseline --aggregate`.",
            err=True,
        )


@parked_events.command()
@_of_a_consumer
@_filters
@new_file_option
def export(*, inbox_location: InboxLocation, consumer: str, wanted: ParkFilter, new_file: Path | None) -> None:
    """Export parked events as JSON lines.

    Each line has one whole message, including the payload. Key, headers and payload are text if they are UTF-8, and
    otherwise an object with base64.

    \b
    Example:
      cdc-outbox parked export --consumer shipping --state dead --file dead.jsonl
    """
    with inbox_location.opened(consumer) as inbox, _written_to(new_file) as file:
        events = 0
        for row, message in Park(inbox).export(wanted):
            whole = json_of(row, consumer) | json_of_message(message, payload=True)
            say(safe_json(whole), file=file)
            events += 1
    say(counted(events, "event"), err=True)


@contextmanager
def _written_to(output: Path | None) -> Iterator[TextIO | None]:
    """Open a new file that no other user may read; ``None`` is standard output."""
    if output is None:
        yield None
        return
    try:
        output.touch(mode=0o600, exist_ok=False)
        file = output.open("w", encoding="utf-8")
    except FileExistsError as error:
        raise ConfigError(
            f"{output} already exists", field="--file", hint="Choose another name, or delete the file first."
        ) from error
    except OSError as error:
        raise ConfigError(f"{output} cannot be written: {error.strerror}", field="--file") from error
    with file:
        yield file


def _once(parked_ids: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(parked_ids))


def _skipped(row: ParkedRow, *, is_hole: bool) -> str:
    if row.is_unreadable:
        return f"skipped the message {row.event_id}{f' of {name_of(row)}' if name_of(row) else ''}"
    moved = f", {name_of(row)} is at {row.sequence} now" if is_hole else ""
    return f"skipped {row.type} {row.event_id} of {name_of(row)}{moved}"
