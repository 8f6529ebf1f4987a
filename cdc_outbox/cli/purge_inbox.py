"""``cdc-outbox purge-inbox``."""

import logging
from collections.abc import Mapping, Set
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.arguments import optional_spec_argument
from cdc_outbox.cli.brokers import broker_options, broker_settings
from cdc_outbox.cli.inbox import InboxLocation, inbox_options
from cdc_outbox.cli.options import acting, dry_run_option, json_option, read_spec
from cdc_outbox.cli.output import document, say
from cdc_outbox.cli.times import Duration
from cdc_outbox.consumer.limits import DAY_SECONDS, in_words, refuse_short_horizon
from cdc_outbox.errors import ConfigError
from cdc_outbox.kafka import admin as kafka_admin
from cdc_outbox.operations.actions import record_action
from cdc_outbox.operations.horizon import Horizon
from cdc_outbox.operations.purge import Old, PartPurge, Report, RowPurge
from cdc_outbox.spec import Spec

_LOG = logging.getLogger("cdc_outbox.cli.librdkafka")
_LOG.addHandler(logging.NullHandler())  # what matters of it is in the error
_LOG.propagate = False
_NAMED = 5
"""Topics that an error lists."""


@click.command(name="purge-inbox")
@optional_spec_argument
@inbox_options
@click.option(
    "--horizon",
    "horizon_seconds",
    type=Duration(most="10000d", is_open=True),
    required=True,
    metavar="DURATION",
    help="Delete ids older than this; must exceed the time for which events can be read again.",
)
@broker_options(required=False)
@click.option(
    "--consumed-topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    help="A topic that consumers of the inbox read, in addition to those of SPEC.",
)
@click.option("--accept-shorter-horizon", is_flag=True, help="Delete ids of events that may still be read again.")
@dry_run_option
@json_option()
def purge_inbox(
    spec: Path | None,
    *,
    inbox_location: InboxLocation,
    horizon_seconds: float,
    bootstrap_servers: str | None,
    kafka_settings: Path | None,
    topics: tuple[str, ...],
    accept_shorter_horizon: bool,
    dry_run: bool,
    prints_json: bool,
) -> None:
    """Delete inbox ids that are older than the horizon.

    The ids of all consumers are deleted, and the next partitions are created. Ids that contain their time (UUIDv7) are
    stored in weekly partitions; a partition is dropped when its week is older than the horizon. Ids without a time,
    from outboxes of other tools, are deleted by the time at which the consumer stored them. On MariaDB, MySQL and
    SQLite, all ids are in one table and are deleted page by page. Watermarks, gaps and parked events are never deleted.
    Run it once a week, with a role that owns the inbox.

    If an event is delivered again after its id was deleted, the consumer checks its sequence number. An event without a
    number is parked as expired if its time is before the horizon of the last purge. Its time is that of its UUIDv7, or
    otherwise its creation time. If it has neither, the record's timestamp is used: then an event that is published
    again is applied again. Therefore the horizon must not be shorter than the retention of the topics. These are the
    topics that the inbox's consumers have read, and those of SPEC and --consumed-topic.

    \b
    Examples:
      cdc-outbox purge-inbox connectors/orders.yaml --horizon 30d
      cdc-outbox purge-inbox --consumed-topic outbox.event.order --horizon 30d --dry-run
    """
    pipeline = read_spec(spec) if spec is not None else None
    horizon_days = horizon_seconds / DAY_SECONDS
    settings = None
    if bootstrap_servers and not accept_shorter_horizon:
        settings = broker_settings(bootstrap_servers, kafka_settings, group="cdc-outbox purge-inbox")
    wanted = {*topics, *(pipeline.contract.topics if pipeline is not None else ())}
    if not accept_shorter_horizon:
        _refuse_shorter_than_declared(horizon_days, pipeline)
    now = datetime.now(UTC)
    horizon = Horizon.at(now, days=horizon_days)
    report = partial(_report, err=prints_json)
    with inbox_location.connected() as (connection, driver):
        kind = PartPurge if driver.dialect.features.has_partitions else RowPurge
        purge = kind(connection, driver, inbox_location.table, report)
        if not accept_shorter_horizon:
            _check(horizon_days, wanted, purge.served(), settings)
        if dry_run:
            old = purge.find_old(horizon)
            _report_old(old, report)
        else:
            purge.make_parts(now)
            old = purge.forget(horizon)
            record_action(acting(), "purge-inbox", str(inbox_location.table.table), ids=old.ids, starts=old.starts)
    _sum_up(old, horizon, report, dry_run=dry_run)
    if prints_json:
        say(document("InboxPurge", _content(old, horizon, dry_run=dry_run)))


def _content(old: Old, horizon: Horizon, *, dry_run: bool) -> dict[str, Any]:
    return {
        "isDryRun": dry_run,
        "ids": old.ids,
        "starts": old.starts,
        "partitions": [{"table": str(part.table), "ids": ids} for part, ids in old.parts],
        "madeBefore": horizon.made_before.isoformat(),
        "claimedBefore": horizon.claimed_before.isoformat(),
    }


def _sum_up(old: Old, horizon: Horizon, report: Report, *, dry_run: bool) -> None:
    what = f"{old.ids:,} ids and {old.starts:,} starts: ids" if old.ids or old.starts else "nothing: no ids were"
    report(
        "to delete" if dry_run else "deleted",
        f"{what} made before {horizon.made_before:%Y-%m-%dT%H:%MZ}, or claimed before "
        f"{horizon.claimed_before:%Y-%m-%dT%H:%MZ} if they contain no time",
    )


def _refuse_shorter_than_declared(horizon_days: float, pipeline: Spec | None) -> None:
    declared = None if pipeline is None else pipeline.topics.horizon_days
    if declared is not None and horizon_days < declared:
        raise ConfigError(
            f"a horizon of {in_words(horizon_days * DAY_SECONDS)} is shorter than topics.horizon in the spec, "
            f"{in_words(declared * DAY_SECONDS)}",
            field="--horizon",
            hint="Choose a longer horizon, or correct topics.horizon: republishing relies on it.",
        )


def _check(
    horizon_days: float, named: Set[str], served: Mapping[str, Set[str]], settings: Mapping[str, Any] | None
) -> None:
    """Compare the horizon with what the topics keep.

    Args:
        named: Topics that must exist.
        served: Topics that consumers of the inbox have read, each with its clusters' ids.
        settings: librdkafka's, for a consumer; ``None`` where the brokers are not known.

    Raises:
        ConfigError: It is shorter, or they cannot be compared.
    """
    topics = sorted({*named, *served})
    if settings is None or not topics:
        raise _incomparable("brokers" if topics else "topics")
    reader = kafka_admin.Topics(settings, _LOG)
    _refuse_other_clusters(served, reader.cluster_id())
    kept = {name: kafka_admin.retention_seconds(topic.config) for name, topic in reader.find(topics).items()}
    missing_topics = sorted(named - kept.keys())
    if missing_topics:
        raise ConfigError(
            f"there is no topic {', '.join(missing_topics)}",
            field="--consumed-topic",
            hint="Correct the name. A topic that has never had an event needs no purge.",
        )
    if not kept:  # these brokers have none of the topics that the inbox served: they may be others
        raise _incomparable("topics")
    refuse_short_horizon(
        horizon_days,
        kept,
        field="--horizon",
        hint="Choose a longer horizon, or shorten the retention of the topics; --accept-shorter-horizon "
        "deletes the ids anyway.",
    )


def _incomparable(missing: str) -> ConfigError:
    return ConfigError(
        f"without {missing}, the horizon cannot be compared with the retention of the topics",
        field="SPEC" if missing == "topics" else "--bootstrap-servers",
        hint="Give --bootstrap-servers, and a SPEC or --consumed-topic; or accept the risk with "
        "--accept-shorter-horizon.",
    )


def _refuse_other_clusters(served: Mapping[str, Set[str]], cluster_id: str) -> None:
    """Refuse where a topic lies on a cluster that is not asked; one that is deleted holds nothing, and is none."""
    others = sorted(topic for topic, clusters in served.items() if cluster_id and clusters - {cluster_id})
    if others:
        raise ConfigError(
            f"consumers of the inbox have read topics of another cluster: {', '.join(others[:_NAMED])}",
            field="--bootstrap-servers",
            hint="The retention of that cluster is not known here. Compare it yourself, then purge with "
            "--accept-shorter-horizon.",
        )


def _report_old(old: Old, report: Report) -> None:
    for part, claims in old.parts:
        report("drop", f"{part.table}: {claims:,} ids")
    for what, count in (
        ("ids with a time", old.timed),
        ("ids without a time", old.untimed),
        ("starts", old.starts),
    ):
        if count:
            report("delete", f"{count:,} {what}")


def _report(step: str, text: str, *, err: bool) -> None:
    say(f"{step:<10} {text}", err=err)
