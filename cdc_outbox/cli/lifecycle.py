"""``cdc-outbox pause``, ``resume``, ``stop``, ``restart`` and ``delete``."""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.arguments import connector_argument, connectors_argument
from cdc_outbox.cli.connectors import is_spec, names_of, refuse_unknown
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.heartbeats import find_positions, refuse_relayed
from cdc_outbox.cli.options import (
    acting,
    connect_url_option,
    dsns_option,
    json_option,
    read_spec,
    stable_option,
    timeout_option,
    yes_option,
)
from cdc_outbox.cli.output import document, error_content, say
from cdc_outbox.cli.pipeline_outcomes import PipelineState
from cdc_outbox.cli.progress import Steps
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.delete import Leftovers, Stay, purge, retire, retire_unspecified, what_stays
from cdc_outbox.connect.lifecycle import ConnectorControl
from cdc_outbox.connect.positions import Positions
from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.connect.spec_checks import refuse_other_kind
from cdc_outbox.connect.timings import Timings
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import kind_of, slot_of
from cdc_outbox.errors import CdcOutboxError, ConfigError, UnpublishedEventsError
from cdc_outbox.operations.actions import record_action
from cdc_outbox.redaction import visible
from cdc_outbox.spec import Spec

short_stable_option = stable_option("2s")


@click.command()
@connectors_argument
@connect_url_option(required=True)
@timeout_option
@json_option()
def pause(connectors: tuple[str, ...], *, cluster: Cluster, timeout: float, prints_json: bool) -> None:
    """Pause connectors.

    The command waits until their tasks are paused. New events wait in the slot, which keeps WAL on the database's disk.
    `resume` publishes them.

    \b
    Example:
      cdc-outbox pause orders
      cdc-outbox pause 'billing-*'
    """
    _each(connectors, cluster, timeout, ConnectorControl.pause, "paused", prints_json=prints_json)


@click.command()
@connectors_argument
@connect_url_option(required=True)
@timeout_option
@json_option()
def stop(connectors: tuple[str, ...], *, cluster: Cluster, timeout: float, prints_json: bool) -> None:
    """Stop connectors: release their tasks and slots.

    The command waits until their tasks have ended. Connect stores their offsets. New events wait in the slot, which
    keeps WAL on the database's disk. `resume` publishes them.

    \b
    Example:
      cdc-outbox stop connectors/orders.yaml
    """
    _each(connectors, cluster, timeout, ConnectorControl.stop, "stopped", prints_json=prints_json)


@click.command()
@connectors_argument
@connect_url_option(required=True)
@dsns_option(required=False, note="; without it, slot and offset are not compared")
@timeout_option
@short_stable_option
@json_option()
def resume(
    connectors: tuple[str, ...],
    *,
    cluster: Cluster,
    databases: Databases | None,
    timeout: float,
    stable_seconds: float,
    prints_json: bool,
) -> None:
    """Resume connectors that are paused or stopped.

    The command waits until they and all their tasks run. On PostgreSQL, it compares slot and offset first, and refuses
    a connector that would skip events: its next offset would overwrite the evidence of which events were skipped. It
    also refuses while a relay publishes the outbox, and while another process reads the slot, because Connect would
    report a running connector that reads nothing.

    \b
    Example:
      cdc-outbox resume orders
    """

    def find_positions_of(client: ConnectClient, config: Mapping[str, str]) -> Positions | None:
        name = config.get("name", "")
        try:
            dsn = None if databases is None else databases.of(name)
        except ConfigError as error:  # a context need not have the database of each connector
            say(f"{name}: slot and offset are not compared: {error}", err=True)
            return None
        if dsn is None or kind_of(config) is not DatabaseKind.POSTGRESQL:
            return None
        return find_positions(client, config, dsn)

    _each(
        connectors,
        cluster,
        timeout,
        lambda control: control.resume(stable_seconds=stable_seconds, find_positions=find_positions_of),
        "running",
        refuse=lambda client, name: refuse_relayed(client, name, databases),
        prints_json=prints_json,
    )


@click.command()
@connectors_argument
@connect_url_option(required=True)
@dsns_option(required=False, note="; without it, whether a relay publishes the outbox is not checked")
@click.option("--failed", is_flag=True, help="Restart only failed connectors and tasks.")
@timeout_option
@short_stable_option
@json_option()
def restart(
    connectors: tuple[str, ...],
    *,
    cluster: Cluster,
    databases: Databases | None,
    failed: bool,
    timeout: float,
    stable_seconds: float,
    prints_json: bool,
) -> None:
    """Restart connectors and their tasks.

    The command waits until all of them run. Events sent since the last stored offset are sent again; consumers skip
    them. While a relay publishes the outbox, the command refuses.

    \b
    Example:
      cdc-outbox restart orders --failed
    """

    def begin_again(control: ConnectorControl) -> None:
        control.restart(only_failed=failed, stable_seconds=stable_seconds)

    def refuse(client: ConnectClient, name: str) -> None:
        refuse_relayed(client, name, databases)

    _each(connectors, cluster, timeout, begin_again, "running", keeps=False, refuse=refuse, prints_json=prints_json)


def _each(
    connectors: tuple[str, ...],
    cluster: Cluster,
    timeout: float,
    tell: Callable[[ConnectorControl], None],
    state: str,
    *,
    keeps: bool = True,
    refuse: Callable[[ConnectClient, str], None] = lambda _client, _name: None,
    prints_json: bool,
) -> None:
    """Apply a command to each connector.

    Args:
        state: The state that is reported of it afterwards.
        keeps: Whether Connect stores the command, so that an operator would undo it.
        refuse: Called before each, with its name.
    """
    steps = Steps(sys.stderr)
    client = ConnectClient(cluster, waits=steps.wait)
    timings = replace(cluster.timings, timeout_seconds=timeout)
    rows = list[dict[str, Any]]()
    try:
        with steps.shown():
            names = names_of(connectors, client)
            if keeps:
                client.refuse_kept()
            rows += [{"name": name, "state": PipelineState.NOT_TRIED, "slot": None, "error": None} for name in names]
            for row in rows:
                name, row["state"] = row["name"], PipelineState.FAILED
                refuse(client, name)
                tell(ConnectorControl(client, name, timings=timings, report=lambda text: steps.report("wait", text)))
                row |= {"state": state, "slot": None if state == "running" else _slot(name, client)}
                keeping = f"; the slot {row['slot']} keeps WAL on the database's disk until it is resumed"
                steps.report("done", f"{name}: {state}{keeping if row['slot'] else ''}")
    except CdcOutboxError as error:
        for row in rows:
            row["error"] = error_content(error) if row["state"] is PipelineState.FAILED else None
        raise
    finally:
        if prints_json and rows:
            say(document("ConnectorStates", {"connectors": rows}))


def _slot(name: str, client: ConnectClient) -> str | None:
    """Return the slot that grows on the database's disk while a connector reads nothing."""
    config = client.find_config(name) or {}
    return slot_of(config) if kind_of(config) is DatabaseKind.POSTGRESQL else None


@click.command()
@connector_argument
@dsns_option(required=False, note="; --purge needs it, and a role that may drop the slot")
@connect_url_option(required=True)
@click.option("--purge", is_flag=True, help="Also delete its offsets, and drop its slot with the events in it.")
@yes_option
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
    """Delete a connector, and list what is kept.

    The connector is stopped first, so that Connect stores its offset. By default slot and offsets are kept: the slot
    keeps WAL, and a connector of the same spec continues where this one ended. --purge deletes the offsets and then the
    slot. If the slot holds unpublished events, or their number is unknown, the command asks for confirmation, because a
    dropped slot cannot publish them; without a terminal, it refuses. With --yes, it drops the slot without asking.
    Publication, tables and topics are always kept. --purge needs a SPEC, which names the slot.

    \b
    Examples:
      cdc-outbox delete orders
      cdc-outbox delete connectors/orders.yaml --purge
    """
    steps = Steps(sys.stderr)
    pipeline = read_spec(Path(connector)) if is_spec(connector) else None
    if purge and pipeline is None:
        raise ConfigError(
            "--purge needs a spec, which names the slot",
            field="--purge",
            hint=f"`cdc-outbox adopt --connector {connector}` writes a spec for it.",
        )
    client = ConnectClient(cluster, waits=steps.wait)
    timings = replace(cluster.timings, timeout_seconds=timeout)
    with steps.shown():
        client.refuse_kept()
        if pipeline is not None and purge:
            stays = [*what_stays(pipeline, _purge(pipeline, client, databases, timings, steps, yes=yes))]
        else:
            stays = [*_delete(pipeline or connector, client, timings, steps)]
    name = _name(pipeline or connector)
    record_action(acting(), "delete", name, purged=purge, stays=[each.text for each in stays])
    for each in stays:
        say(visible(f"stays: {each.text}"), err=prints_json)
    if prints_json:
        left = [{"what": each.what, "names": each.names} for each in stays]
        say(document("Deletion", {"connector": name, "purged": purge, "stays": left}))


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
) -> Leftovers:
    def agree(events: int | None) -> None:
        held = "an unknown number of events" if events is None else f"{events:,} unpublished events"
        left = "" if pipeline.outbox.mode.keeps_rows else ", and no rows are left to publish again"
        text = f"the slot {pipeline.database.slot} holds {held}{left}"
        if yes:
            return
        if not sys.stdin.isatty():
            raise UnpublishedEventsError(text, hint="Wait until the connector has published them, or purge with --yes.")
        click.confirm(visible(f"{text}. Drop it?"), abort=True, err=True)

    refuse_other_kind(pipeline)
    if databases is None:
        raise ConfigError("--purge drops the slot and needs its database", field="--dsn")
    with connected(databases.of(pipeline.name), pipeline.database.kind) as (connection, driver):
        database = PostgresqlDatabase(connection, driver, pipeline)
        return purge(pipeline, client, database, timings=timings, report=steps.report, agree=agree)
