"""``cdc-outbox prune``."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.arguments import spec_argument
from cdc_outbox.cli.brokers import broker_options, broker_settings
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected, require_driver
from cdc_outbox.cli.heartbeats import heartbeat_findings
from cdc_outbox.cli.inbox import InboxLocation, consumer_option, inbox_dsn_option, inbox_schema_option
from cdc_outbox.cli.options import (
    acting,
    connect_url_option,
    dry_run_option,
    dsns_option,
    json_option,
    limit_option,
    read_spec,
)
from cdc_outbox.cli.output import document, say
from cdc_outbox.cli.probe import BROKERS, CONNECT, DATABASE, INBOX, probe
from cdc_outbox.cli.progress import Steps
from cdc_outbox.cli.times import Duration
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.consumer.topic_reader import TopicReader
from cdc_outbox.databases.introspection import Catalog
from cdc_outbox.databases.table import TableName
from cdc_outbox.debezium.render import render
from cdc_outbox.errors import ConfigError, UnprovenDeliveryError
from cdc_outbox.finding import Finding, errors_in
from cdc_outbox.operations.actions import record_action
from cdc_outbox.operations.comparison import TopicComparison
from cdc_outbox.operations.prune import Pruned, PruneOptions, Pruning, Report
from cdc_outbox.operations.prune_by_offset import offset_pruning
from cdc_outbox.operations.prune_by_slot import slot_pruning
from cdc_outbox.operations.stages import InboxStage
from cdc_outbox.redaction import counted, visible
from cdc_outbox.spec import Spec

_NO_KEEP = (
    "give --keep, such as --keep 7d: deleted events cannot be published again. --keep 0s deletes every delivered event."
)
_NO_BROKERS = (
    "give --bootstrap-servers (CDC_OUTBOX_BOOTSTRAP_SERVERS): events are compared with their topics before they are "
    "deleted; or give --without-topics to rely only on the slot (on MariaDB and MySQL: on the connector's offset)."
)

_NOT_READ = "OP406"
"""The finding's code where no brokers are named."""


@click.command()
@spec_argument
@dsns_option(required=True)
@connect_url_option(required=False, note="; needed for MariaDB and MySQL")
@broker_options(required=False)
@click.option(
    "--without-topics",
    is_flag=True,
    help="Do not compare events with the topics; rely on the slot, or the connector's offset, alone.",
)
@consumer_option(required=False, note="; events that it has applied count as published")
@inbox_dsn_option()
@inbox_schema_option
@dry_run_option
@click.option(
    "--keep",
    type=Duration(),
    metavar="DURATION",
    help="Keep events younger than this, by created_at; 0s keeps no delivered event.",
)
@click.option("--archive", metavar="TABLE", help="Move the rows to this table, which is created if it does not exist.")
@click.option(
    "--batch", type=click.IntRange(min=1), default=1000, show_default=True, help="Number of rows per transaction."
)
@limit_option()
@click.option(
    "--stop-after", "max_seconds", metavar="DURATION", type=Duration(), help="Start no new batch after this time."
)
@click.option(
    "--wait",
    type=Duration(),
    metavar="DURATION",
    default="90s",
    show_default=True,
    help="How long to wait until the connector confirms this run's checkpoint. On an idle database this takes until "
    "the next heartbeat, and then up to the worker's offset.flush.interval.ms. With 0s, only checkpoints of earlier "
    "runs count.",
)
@json_option()
def prune(
    spec: Path,
    *,
    databases: Databases,
    cluster: Cluster | None,
    bootstrap_servers: str | None,
    kafka_settings: Path | None,
    without_topics: bool,
    consumer: str | None,
    inbox_database: Databases | None,
    inbox_schema: str | None,
    dry_run: bool,
    keep: float | None,
    archive: str | None,
    batch: int,
    limit: int | None,
    max_seconds: float | None,
    wait: float,
    prints_json: bool,
) -> None:
    """Delete events that are proven delivered.

    Each run takes a checkpoint: the committed events, and the end of the database's log. An event is deleted if a
    checkpoint contains it, the slot of the spec has confirmed the position of that checkpoint, and the event is in its
    topic or --consumer has applied it. On MariaDB and MySQL, the connector's stored offset replaces the slot. The age
    of an event is no proof of delivery. --keep retains recent events although they were delivered; without it, the
    command asks for confirmation. --dry-run also waits for up to --wait. Deleted events cannot be published again. The
    last sequence number of each aggregate is kept. The command prints the number of deleted events.

    DSN is the outbox's database as this machine reaches it. Its role must be able to select and delete from the outbox
    and to write the checkpoint table beside it. MariaDB and MySQL (mysql://…) have no checkpoint table; there the role
    must be able to see connections and the binlog's position.

    Exit codes: 0 done, also if delivery is not proven yet and no event was deleted, 1 failed or refused, 75 a system
    cannot be reached.

    \b
    Examples:
      cdc-outbox prune connectors/orders.yaml --keep 7d
      cdc-outbox prune connectors/orders.yaml --keep 7d --archive archive.orders_outbox
      cdc-outbox prune connectors/orders.yaml --dry-run
    """
    pipeline = read_spec(spec)
    if keep is None and not dry_run:
        _confirm()
    options = PruneOptions(
        keep_seconds=keep or None,
        archive=None if archive is None else _table(archive, pipeline),
        batch_rows=batch,
        limit_rows=limit,
        max_seconds=max_seconds,
        wait_seconds=wait,
    )
    dsn = databases.of(pipeline.name)
    require_driver(dsn)
    settings = _settings(bootstrap_servers, kafka_settings, consumer, without_topics=without_topics)
    dsns = {DATABASE: dsn}
    inbox = None
    if consumer is not None:
        inbox = InboxLocation((inbox_database and inbox_database.shared()) or dsn, inbox_schema)
        dsns |= {INBOX: inbox.dsn} if inbox.dsn != dsn else {}
    probed = probe(cluster=cluster, dsns=dsns, brokers=settings)
    probed.refuse(CONNECT, *dsns, BROKERS)
    steps = Steps(sys.stderr)
    client = None if probed.cluster is None else ConnectClient(probed.cluster, waits=steps.wait)
    with steps.shown():
        found = heartbeat_findings(render(pipeline), bootstrap_servers, kafka_settings, dsn, client=client)
        _refuse_another_history(found, steps.report)
        with (
            _comparing(pipeline, settings, inbox, consumer or "") as comparison,
            _pruning(pipeline, dsn, client, options, comparison, report=steps.report) as pruning,
        ):
            pruned = pruning.dry_run() if dry_run else pruning.run()
        _report_kept(pruned, steps.report)
    if pruned.deleted and not dry_run:
        record_action(acting(), "prune", pipeline.name, deleted=pruned.deleted, options=options)
    say(_document(pruned, options, dry_run=dry_run) if prints_json else _sentence(pruned, options, dry_run=dry_run))


def _settings(
    bootstrap_servers: str | None, file: Path | None, consumer: str | None, *, without_topics: bool
) -> dict[str, Any] | None:
    """Return those with which topics are read, ``None`` where they are not."""
    if without_topics:
        return None
    if bootstrap_servers is None:
        raise click.UsageError(_NO_BROKERS)
    return broker_settings(bootstrap_servers, file, group=consumer or "cdc-outbox prune")


@contextmanager
def _comparing(
    spec: Spec, settings: dict[str, Any] | None, inbox_location: InboxLocation | None, consumer: str
) -> Iterator[TopicComparison | None]:
    """Open the topics, and a consumer's inbox if one counts; ``None`` where topics are not read."""
    if settings is None:
        yield None
        return
    with ExitStack() as stack:
        inbox = None if inbox_location is None else InboxStage(stack.enter_context(inbox_location.opened(consumer)))
        yield TopicComparison(spec.contract, stack.enter_context(TopicReader.opened(settings)), inbox)


def _refuse_another_history(found: Sequence[Finding], report: Report) -> None:
    """Refuse a database that went back: its rows may be the only copies of events that were never published.

    Raises:
        UnprovenDeliveryError: It did, and that is not accepted.
    """
    errors = errors_in(tuple(found))
    if any(finding.code == _NOT_READ for finding in found):
        report(
            "heartbeats", "not read: give --bootstrap-servers to check whether the database went back to an older state"
        )
    if errors:
        raise UnprovenDeliveryError(
            f"{errors[0].message.removesuffix('.')}; nothing was deleted", hint="Run `cdc-outbox recover`."
        )


def _confirm() -> None:
    """Ask whether events may go as soon as they are delivered; refuse without a terminal."""
    if not sys.stdin.isatty():
        raise click.UsageError(_NO_KEEP)
    click.confirm(
        "Without --keep, every delivered event is deleted and cannot be published again. Continue?",
        abort=True,
        err=True,
    )


@contextmanager
def _pruning(
    spec: Spec,
    dsn: str,
    client: ConnectClient | None,
    options: PruneOptions,
    comparison: TopicComparison | None,
    *,
    report: Report,
) -> Iterator[Pruning[Any]]:
    kind = spec.database.kind
    if kind.dialect.features.has_publications:
        with connected(dsn, kind) as (connection, driver):
            Catalog(connection, driver).refuse_hidden_rows(spec.outbox.table)
            if client is None:
                report("connect", "not checked: give --connect-url to check which table the connector reads")
            yield slot_pruning(spec, connection, driver, options, report, comparison=comparison, client=client)
        return
    if not kind.reads_binlog:
        raise ConfigError(f"no publisher proves that it delivered rows of {kind}", field="database.kind")
    if client is None:
        raise click.UsageError("--connect-url (or CDC_OUTBOX_CONNECT_URL) is required on MariaDB and MySQL")
    with connected(dsn, kind) as (viewing, driver), connected(dsn, kind) as (deleting, _):
        yield offset_pruning(
            spec, (viewing, deleting), driver, client=client, options=options, report=report, comparison=comparison
        )


def _table(name: str, spec: Spec) -> TableName:
    """Return the table that is meant; without a schema it lies beside the outbox."""
    outbox = spec.outbox.table_in(spec.database.kind.dialect)
    schema, dot, table = name.rpartition(".")
    return replace(outbox, schema=schema if dot else outbox.schema, name=table)


def _sentence(pruned: Pruned[Any], options: PruneOptions, *, dry_run: bool) -> str:
    done = "deleted" if options.archive is None else f"moved to {options.archive}"
    return visible(f"{counted(pruned.deleted, 'event')} {'would be ' if dry_run else ''}{done}")


def _document(pruned: Pruned[Any], options: PruneOptions, *, dry_run: bool) -> str:
    content = {
        "isDryRun": dry_run,
        "deleted": pruned.deleted,
        "archive": None if options.archive is None else str(options.archive),
        "keptForAge": pruned.young,
        "keptUnproven": pruned.unproven,
        "heldBack": pruned.verdict.held_back,
        "stoppedEarly": pruned.stopped_early,
    }
    return document("Pruning", content)


def _report_kept(pruned: Pruned[Any], report: Report) -> None:
    """Report which rows stayed, and why."""
    checkpoint = pruned.verdict.checkpoint
    if checkpoint is not None:
        report("checkpoint", f"{checkpoint.position} of {checkpoint.taken_at:%Y-%m-%d %H:%M:%S%z} was passed")
    if pruned.young:
        report("kept", f"{pruned.young:,} delivered, but younger than --keep")
    if pruned.unproven:
        report("kept", f"{pruned.unproven:,} not proven delivered")
    if pruned.verdict.held_back:
        report("held back", pruned.verdict.held_back)
    if pruned.stopped_early:
        report("stopped", "limit reached; there may be more to delete")
