"""``cdc-outbox verify``."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.arguments import spec_argument
from cdc_outbox.cli.brokers import broker_options, broker_settings
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected, require_driver
from cdc_outbox.cli.inbox import InboxLocation, consumer_option, inbox_dsn_option, inbox_schema_option
from cdc_outbox.cli.options import dsns_option, is_named, json_option, read_spec
from cdc_outbox.cli.output import ExitCode, document, say
from cdc_outbox.cli.probe import BROKERS, DATABASE, INBOX, probe
from cdc_outbox.cli.times import Duration
from cdc_outbox.consumer.topic_reader import TopicReader
from cdc_outbox.operations.accounts import Sums
from cdc_outbox.operations.reconciliation import DifferenceKind
from cdc_outbox.operations.stages import InboxStage, OutboxStage
from cdc_outbox.operations.verify import Verification, Verified
from cdc_outbox.redaction import visible

_SHOWN = 20
"""Findings of one kind that a person is shown; --output json has up to a thousand."""
_COLUMNS = (
    "type",
    "aggregates",
    "given out",
    "in topic",
    "applied",
    "not proven",
    *(kind.value for kind in DifferenceKind),
)


@click.command()
@spec_argument
@dsns_option(required=True)
@broker_options()
@consumer_option(required=False, note="; without it, only the outbox and its topics are compared")
@inbox_dsn_option()
@inbox_schema_option
@click.option(
    "--settle",
    type=Duration(),
    metavar="DURATION",
    default="10s",
    show_default=True,
    help="How long an event may be on its way before it counts as missing.",
)
@json_option()
def verify(
    spec: Path,
    *,
    databases: Databases,
    bootstrap_servers: str,
    kafka_settings: Path | None,
    consumer: str | None,
    inbox_database: Databases | None,
    inbox_schema: str | None,
    settle: float,
    prints_json: bool,
) -> ExitCode:
    """Compare the outbox, its topics and a consumer.

    Sequence numbers are compared by source and aggregate, so that a missing event is found even if it is the last one.
    The ids of the rows in the outbox are compared with those in the topics. Nothing is written, no offset is committed,
    and the pipeline may run at the same time: differences are checked again until --settle has passed. Topics are read
    from the beginning, which takes about half a minute for each million messages, and half a kilobyte of memory for
    each aggregate.

    DSN is the outbox's database as this machine reaches it, on the primary server. Its role must be able to select from
    the outbox and from the head table beside it.

    Exit codes: 0 no differences, 1 the comparison failed, 2 an invalid spec, 3 differences, 75 a system cannot be
    reached.

    \b
    Examples:
      cdc-outbox verify connectors/orders.yaml --consumer shipping --inbox-dsn postgresql://postgres@localhost/shipping
      cdc-outbox verify connectors/orders.yaml --consumer shipping --settle 5m --output json
    """
    pipeline = read_spec(spec)
    if consumer is None and is_named("inbox_database"):
        raise click.UsageError("--inbox-dsn needs --consumer")
    settings = broker_settings(bootstrap_servers, kafka_settings, group=consumer or "cdc-outbox verify")
    dsn = databases.of(pipeline.name)
    inbox_location = None
    if consumer is not None:
        inbox_location = InboxLocation((inbox_database and inbox_database.shared()) or dsn, inbox_schema)
    dsns = {DATABASE: dsn}
    if inbox_location is not None and inbox_location.dsn != dsn:
        dsns[INBOX] = inbox_location.dsn
    for each in dsns.values():
        require_driver(each)
    probe(dsns=dsns, brokers=settings, needs_all=True).refuse(*dsns, BROKERS)
    with ExitStack() as stack:
        connection, driver = stack.enter_context(connected(dsn, pipeline.database.kind, spec=spec))
        inbox = None
        if inbox_location is not None and consumer is not None:
            inbox = InboxStage(stack.enter_context(inbox_location.opened(consumer)))
        verification = Verification(
            pipeline.contract,
            outbox=OutboxStage(connection, driver, pipeline.outbox),
            topics=stack.enter_context(TopicReader.opened(settings)),
            inbox=inbox,
            settle_seconds=settle,
        )
        found = verification.run()
    say(_document(found) if prints_json else "\n".join(_text(found)))
    return ExitCode.DIFFERENCES if found.findings.has_differences else ExitCode.DONE


def _document(found: Verified) -> str:
    content = {
        "hasDifferences": found.findings.has_differences,
        "types": [_sums(sums, found) for sums in found.sums],
        "findings": [
            {
                "kind": each.kind,
                "isDifference": each.kind.is_difference,
                "location": each.location,
                "events": each.events,
                "message": each.message,
                "remedy": each.remedy,
            }
            for each in found.findings
        ],
        "notes": list(found.notes),
        "seconds": round(found.seconds, 3),
    }
    return document("Verification", content)


def _sums(sums: Sums, found: Verified) -> dict[str, Any]:
    return {
        "type": sums.aggregate_type,
        "aggregates": sums.aggregates,
        "givenOut": sums.given,
        "inTopic": sums.held,
        "applied": sums.applied,
        "notProven": sums.forgotten,
        "events": {str(kind): found.findings.events[sums.aggregate_type, kind] for kind in DifferenceKind},
    }


def _text(found: Verified) -> Iterator[str]:
    rows = [_COLUMNS, *(_row(sums, found) for sums in found.sums)]
    always = len(_COLUMNS) - len(DifferenceKind) - 1
    kept = [column for column in range(len(_COLUMNS)) if column < always or _says(rows, column)]
    widths = [max(len(row[column]) for row in rows) for column in kept]
    for row in rows:
        cells = (
            row[column].ljust(width) if not column else row[column].rjust(width)
            for column, width in zip(kept, widths, strict=True)
        )
        yield "  ".join(cells).rstrip()
    for kind in DifferenceKind:
        listed = found.findings.listed[kind][:_SHOWN]
        yield from (visible(f"{kind}: {each.location}: {each.message}") for each in listed)
        if found.findings.locations[kind] > _SHOWN:
            yield f"{kind}: {found.findings.locations[kind] - _SHOWN:,} more"
        # Most of a kind have the same remedy.
        yield from (visible(f"  {remedy}") for remedy in dict.fromkeys(each.remedy for each in listed) if remedy)
    yield from (visible(f"note: {note}") for note in found.notes)
    yield "differences found" if found.findings.has_differences else "no differences"


def _says(rows: Sequence[tuple[str, ...]], column: int) -> bool:
    return any(row[column] != "0" for row in rows[1:])


def _row(sums: Sums, found: Verified) -> tuple[str, ...]:
    counts = (sums.aggregates or None, sums.given, sums.held, sums.applied, sums.forgotten)
    kinds = (f"{found.findings.events[sums.aggregate_type, kind]:,}" for kind in DifferenceKind)
    return (visible(sums.aggregate_type), *("-" if each is None else f"{each:,}" for each in counts), *kinds)
