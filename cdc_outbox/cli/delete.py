"""``cdc-outbox delete``."""

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import click

from cdc_outbox.cli.connectors import is_spec, refuse_unknown, timeout_option
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.files import complete_file
from cdc_outbox.cli.options import connect_url_option, dsns_option, json_option, read_spec
from cdc_outbox.cli.output import document, say
from cdc_outbox.cli.steps import Steps
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.facts import Database
from cdc_outbox.connect.refusals import refuse_other_kind
from cdc_outbox.connect.retire import Remains, Stay, purge, retire, retire_unspecified, what_stays
from cdc_outbox.connect.timings import Timings
from cdc_outbox.errors import ConfigError, UnpublishedEventsError
from cdc_outbox.safe_text import visible
from cdc_outbox.spec import Spec


@click.command(short_help="Delete a connector, and say what stays of it.")
@click.argument("connector", metavar="NAME|SPEC", shell_complete=complete_file)
@dsns_option(required=False, note="; --purge needs it, for a role that may drop the slot")
@connect_url_option(required=True)
@click.option("--purge", is_flag=True, help="Also forget its offsets and drop its slot, with what is in it.")
@click.option("--yes", is_flag=True, help="Purge also if the slot holds events that were not published.")
@timeout_option
@json_option()
def delete(
    connector: str,
    *,
    databases: Databases | None,
    cluster: Cluster,
    purge: bool,
    yes: bool,
    timeout: float,
    prints_json: bool,
) -> None:
    """Delete a connector, named or by its spec, once it has stopped and noted how far it has read.

    Its slot stays and keeps WAL, and Connect keeps its offsets, so that a connector of the same spec goes on where this
    one ended. With --purge both are removed, the offsets first. Events in the slot that were not published yet are
    counted before: they would never be published from it, so the command asks, or wants --yes. Publication, tables and
    topics stay in any case. --purge takes the spec, which says whose the slot is.

    \b
    Examples:
      cdc-outbox delete orders
      cdc-outbox delete connectors/orders.yaml --purge
    """
    steps = Steps(sys.stderr)
    pipeline = read_spec(Path(connector)) if is_spec(connector) else None
    if purge and pipeline is None:
        raise ConfigError(
            "--purge takes a spec, which says whose the slot is",
            field="--purge",
            hint=f"`cdc-outbox adopt --connector {connector}` writes the spec of a connector that has none.",
        )
    client = ConnectClient(cluster, waits=steps.wait)
    timings = replace(cluster.timings, timeout_seconds=timeout)
    with steps.shown():
        client.refuse_kept()
        if pipeline is not None and purge:
            stays = [*what_stays(pipeline, _purge(pipeline, client, databases, timings, steps, yes=yes))]
        else:
            stays = [*_delete(pipeline or connector, client, timings, steps)]
    for each in stays:
        say(visible(f"stays: {each.text}"), err=prints_json)
    if prints_json:
        left = [{"what": each.what, "names": each.names} for each in stays]
        say(document("Deletion", {"connector": _name(pipeline or connector), "purged": purge, "stays": left}))


def _name(pipeline: Spec | str) -> str:
    return pipeline if isinstance(pipeline, str) else pipeline.name


def _delete(pipeline: Spec | str, client: ConnectClient, timings: Timings, steps: Steps) -> Iterable[Stay]:
    name = _name(pipeline)
    refuse_unknown(name, client.find_names())
    if isinstance(pipeline, str):
        return retire_unspecified(name, client, timings=timings, report=steps.report)
    return what_stays(pipeline, retire(pipeline, client, timings=timings, report=steps.report))


def _purge(
    pipeline: Spec, client: ConnectClient, databases: Databases | None, timings: Timings, steps: Steps, *, yes: bool
) -> Remains:
    def agree(events: int | None) -> None:
        held = "events of which the number is unknown" if events is None else f"{events:,} unpublished events"
        left = "" if pipeline.outbox.mode.keeps_rows else ", and no row is left to publish again"
        text = f"the slot {pipeline.database.slot} holds {held}{left}"
        if yes:
            return
        if not sys.stdin.isatty():
            raise UnpublishedEventsError(text, hint="Let the connector publish them, or purge with --yes.")
        click.confirm(visible(f"{text}. Drop it?"), abort=True, err=True)

    refuse_other_kind(pipeline)
    if databases is None:
        raise ConfigError("--purge drops the slot, and needs to know in which database", field="--dsn")
    with connected(databases.of(pipeline.name), pipeline.database.kind) as (connection, driver):
        database = Database(connection, driver, pipeline)
        return purge(pipeline, client, database, timings=timings, report=steps.report, agree=agree)
