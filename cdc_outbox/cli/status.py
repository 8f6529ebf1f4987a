"""``cdc-outbox status``."""

import json
from collections.abc import Iterator
from typing import Any

import click

from cdc_outbox.cli.connectors import name_of, not_found
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.exits import ExitCode
from cdc_outbox.cli.findings import API_VERSION, visible
from cdc_outbox.cli.options import connect_url_option, dsns_option
from cdc_outbox.connect.causes import cause_of
from cdc_outbox.connect.client import ConnectClient, ConnectorStatus
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.facts.lag import SlotLag, find_lag
from cdc_outbox.connect.wait import Condition, condition_of, describe, trace_of
from cdc_outbox.database import DatabaseKind
from cdc_outbox.errors import CdcOutboxError, ConnectorNotFoundError

_HEAD = ("CONNECTOR", "STATE", "TASKS", "SLOT", "NOT CONFIRMED", "WAL KEPT")
_POSTGRESQL = "PostgresConnector"


@click.command(short_help="Say what connectors, their tasks and their slots do.")
@click.argument("connectors", nargs=-1, metavar="[NAME|SPEC]...")
@dsns_option(required=False, note="; without it nothing is said of slots")
@connect_url_option(required=True)
@click.option("--json", "prints_json", is_flag=True, help="Print one document instead of a table.")
def status(
    connectors: tuple[str, ...], *, databases: Databases | None, cluster: Cluster, prints_json: bool
) -> ExitCode:
    """Show connectors, all of them if none is named, in one table; a failure with its reason and a remedy below it.

    NOT CONFIRMED is how much of the log the connector has not confirmed yet, WAL KEPT how much the slot keeps on the
    database's disk.

    Exit codes: 0 all of them run with all their tasks, 1 one does not, 75 try again later.

    \b
    Examples:
      cdc-outbox status
      cdc-outbox status connectors/orders.yaml --context production --json
    """
    client = ConnectClient(cluster)
    there = client.find_names()
    names = [name_of(each) for each in connectors] or there
    for name in names:
        if name not in there:
            raise not_found(name, there)
    rows = [_row(name, client, databases) for name in names]
    if prints_json:
        click.echo(json.dumps({"apiVersion": API_VERSION, "kind": "Status", "connectors": rows}, indent=2))
    else:
        click.echo("\n".join(_table(rows)))
    return ExitCode.DONE if all(row["up"] for row in rows) else ExitCode.FAILED


def _row(name: str, client: ConnectClient, databases: Databases | None) -> dict[str, Any]:
    try:
        found: ConnectorStatus | None = client.find_status(name)
    except ConnectorNotFoundError:  # not known yet
        found = None
    config = client.find_config(name) or {}
    trace = trace_of(found)
    cause = cause_of(trace)
    lag = _lag(name, config, databases)
    return {
        "name": name,
        "up": condition_of(found) is Condition.UP,
        "state": "UNKNOWN" if found is None else found.state,
        "tasks": [] if found is None else [{"id": task.id, "state": task.state} for task in found.tasks],
        "says": describe(found),
        "version": "" if found is None else found.version,
        "slot": None if lag is None else lag.slot,
        "slotActive": None if lag is None else lag.active,
        "unconfirmedBytes": None if lag is None else lag.unconfirmed_bytes,
        "keptBytes": None if lag is None else lag.kept_bytes,
        "cause": "" if cause is None else cause.sentence,
        "remedy": "" if cause is None else cause.remedy,
        "trace": trace,
    }


def _lag(name: str, config: dict[str, str], databases: Databases | None) -> SlotLag | None:
    """Return how far the slot of a connector is behind, where there is one and somebody says in which database."""
    slot = config.get("slot.name", "debezium")
    if databases is None or _POSTGRESQL not in config.get("connector.class", ""):
        return None
    try:
        with connected(databases.of(name), DatabaseKind.POSTGRESQL) as (connection, driver):
            return find_lag(connection, driver, slot)
    except CdcOutboxError as error:  # the rest is worth telling all the same, and then above all
        click.echo(f"{name}: nothing is known of its slot: {error}", err=True)
        return None


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    cells = [_HEAD, *(_cells(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEAD))]
    below = [None, *rows]
    for row, of in zip(cells, below, strict=True):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        if of is not None and of["trace"]:
            first = of["trace"].splitlines()[0]
            yield visible(f"    {of['cause'] or first} {of['remedy']}".rstrip())


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    tasks = ", ".join(f"{task['id']} {task['state']}" for task in row["tasks"]) or "none"
    active = "" if row["slotActive"] in {None, True} else " (nobody reads it)"
    slot = "-" if row["slot"] is None else f"{row['slot']}{active}"
    return (
        visible(row["name"]),
        row["state"],
        tasks,
        visible(slot),
        _bytes(row["unconfirmedBytes"]),
        _bytes(row["keptBytes"]),
    )


def _bytes(count: int | None) -> str:
    if count is None:
        return "-"
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.1f} {units[0]}"
