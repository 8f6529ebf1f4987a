"""``cdc-outbox pause``, ``resume``, ``stop`` and ``restart``."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import click

from cdc_outbox.cli.connectors import names_argument, names_of, timeout_option
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.heartbeats import find_hole
from cdc_outbox.cli.options import connect_url_option, dsns_option, json_option, stable_seconds_option
from cdc_outbox.cli.outcome import State, error_content
from cdc_outbox.cli.output import document, say
from cdc_outbox.cli.steps import Steps
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.lint.config import Kind, kind_of, slot_of
from cdc_outbox.connect.plan import Hole
from cdc_outbox.connect.states import Ward
from cdc_outbox.errors import CdcOutboxError, ConfigError

stable_option = stable_seconds_option(2.0)


@click.command(short_help="Let connectors read nothing for a while.")
@names_argument
@connect_url_option(required=True)
@timeout_option
@json_option()
def pause(connectors: tuple[str, ...], *, cluster: Cluster, timeout: float, prints_json: bool) -> None:
    """Pause connectors, and wait until their tasks rest.

    Events that are written meanwhile wait in the slot, which keeps WAL on the database's disk; `resume` publishes them.

    \b
    Example:
      cdc-outbox pause orders
      cdc-outbox pause 'billing-*'
    """
    _each(connectors, cluster, timeout, Ward.pause, "paused", prints_json=prints_json)


@click.command(short_help="Let connectors give up their tasks and their slot.")
@names_argument
@connect_url_option(required=True)
@timeout_option
@json_option()
def stop(connectors: tuple[str, ...], *, cluster: Cluster, timeout: float, prints_json: bool) -> None:
    """Stop connectors, and wait until their tasks are gone.

    Connect notes how far they have read. Events that are written meanwhile wait in the slot, which keeps WAL on the
    database's disk; `resume` publishes them.

    \b
    Example:
      cdc-outbox stop connectors/orders.yaml
    """
    _each(connectors, cluster, timeout, Ward.stop, "stopped", prints_json=prints_json)


@click.command(short_help="Let connectors run again that were paused or stopped.")
@names_argument
@connect_url_option(required=True)
@dsns_option(required=False, note="; without it, slot and offset are not compared")
@timeout_option
@stable_option
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
    """Resume connectors, and wait until they and all their tasks run.

    On PostgreSQL slot and offset are compared first, and a connector that would leave out events is refused: its next
    offset would hide which ones.

    \b
    Example:
      cdc-outbox resume orders
    """

    def find_hole_of(client: ConnectClient, config: Mapping[str, str]) -> Hole | None:
        name = config.get("name", "")
        try:
            dsn = None if databases is None else databases.of(name)
        except ConfigError as error:  # a context need not have the database of each connector
            say(f"{name}: slot and offset are not compared: {error}", err=True)
            return None
        return None if dsn is None else find_hole(client, config, dsn)

    _each(
        connectors,
        cluster,
        timeout,
        lambda ward: ward.resume(stable_seconds=stable_seconds, find_hole=find_hole_of),
        "running",
        prints_json=prints_json,
    )


@click.command(short_help="Restart connectors and their tasks.")
@names_argument
@connect_url_option(required=True)
@click.option("--failed", is_flag=True, help="Only with what failed; what runs is left alone.")
@timeout_option
@stable_option
@json_option()
def restart(
    connectors: tuple[str, ...],
    *,
    cluster: Cluster,
    failed: bool,
    timeout: float,
    stable_seconds: float,
    prints_json: bool,
) -> None:
    """Restart connectors with their tasks, and wait until all of them run.

    Events that were sent since the last note of how far it has read come twice; consumers skip them.

    \b
    Example:
      cdc-outbox restart orders --failed
    """

    def begin_again(ward: Ward) -> None:
        ward.restart(only_failed=failed, stable_seconds=stable_seconds)

    _each(connectors, cluster, timeout, begin_again, "running", keeps=False, prints_json=prints_json)


def _each(
    connectors: tuple[str, ...],
    cluster: Cluster,
    timeout: float,
    tell: Callable[[Ward], None],
    state: str,
    *,
    keeps: bool = True,
    prints_json: bool,
) -> None:
    """Tell each of them.

    Args:
        state: What is reported of it afterwards.
        keeps: Whether Connect keeps what it is told, so that an operator would undo it.
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
            rows += [{"name": name, "state": State.NOT_TRIED, "slot": None, "error": None} for name in names]
            for row in rows:
                name, row["state"] = row["name"], State.FAILED
                tell(Ward(client, name, timings=timings, report=lambda text: steps.report("wait", text)))
                row |= {"state": state, "slot": None if state == "running" else _slot(name, client)}
                keeping = f"; the slot {row['slot']} keeps WAL on the database's disk until it is resumed"
                steps.report("done", f"{name}: {state}{keeping if row['slot'] else ''}")
    except CdcOutboxError as error:
        for row in rows:
            row["error"] = error_content(error) if row["state"] is State.FAILED else None
        raise
    finally:
        if prints_json and rows:
            say(document("ConnectorStates", {"connectors": rows}))


def _slot(name: str, client: ConnectClient) -> str | None:
    """Return the slot that grows on the database's disk while a connector reads nothing."""
    config = client.find_config(name) or {}
    return slot_of(config) if kind_of(config.get("connector.class", "")) is Kind.POSTGRESQL else None
