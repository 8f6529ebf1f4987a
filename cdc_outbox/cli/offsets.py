"""``cdc-outbox offsets``."""

import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any, cast

import click

from cdc_outbox.cli.arguments import connector_argument
from cdc_outbox.cli.connectors import one_name_of
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.groups import Group
from cdc_outbox.cli.heartbeats import refuse_relayed
from cdc_outbox.cli.options import (
    FC,
    acting,
    connect_url_option,
    dsns_option,
    json_option,
    stable_option,
    timeout_option,
    yes_option,
)
from cdc_outbox.cli.output import document, in_columns, say
from cdc_outbox.cli.progress import Steps
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.lifecycle import ConnectorControl
from cdc_outbox.connect.publishing import find_relayed
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.slots import read_slots
from cdc_outbox.debezium.config import kind_of, slot_of
from cdc_outbox.debezium.connector_offsets import (
    ConnectorPosition,
    Offset,
    OffsetChange,
    assess_reset,
    assess_set,
    position_in,
    read_offset,
)
from cdc_outbox.errors import ConfigError, UnpublishedEventsError
from cdc_outbox.operations.actions import record_action
from cdc_outbox.redaction import visible

_HEAD = ("TOPIC.PREFIX", "AT", "OFFSET")


@click.group(cls=Group)
def offsets() -> None:
    """Show, set or reset the offsets of a connector.

    `set` and `reset` stop the connector, wait until its slot is free, and afterwards return the connector to its
    previous state. They print the effect on consumers first. If events would be skipped, they ask for confirmation,
    unless --yes is given. While a relay publishes the outbox, they refuse.

    \b
    Examples:
      cdc-outbox offsets show orders
      cdc-outbox offsets set orders --to-offset 0/1A2B3C4
      cdc-outbox offsets reset orders --yes
    """


@offsets.command()
@connector_argument
@dsns_option(required=False, note="; without it, the slot is not shown")
@connect_url_option(required=True)
@json_option()
def show(connector: str, *, databases: Databases | None, cluster: Cluster, prints_json: bool) -> None:
    """Show the stored offset and the position of the slot.

    Connect stores offsets about once a minute, and when the connector stops.

    \b
    Example:
      cdc-outbox offsets show connectors/orders.yaml --output json
    """
    steps = Steps(sys.stderr)
    client = ConnectClient(cluster, waits=steps.wait)
    with steps.shown():
        name = one_name_of(connector, client)
        position = _position_of(name, client, databases)
    if prints_json:
        say(document("Offsets", _content(name, position)))
        return
    for line in _lines(position):
        say(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OffsetCommand:
    """A command that changes a connector's offsets, as its options say it."""

    connector: str
    databases: Databases | None
    cluster: Cluster
    yes: bool
    timeout: float
    stable_seconds: float
    prints_json: bool

    @classmethod
    def options(cls, note: str) -> Callable[[FC], FC]:
        """Return a decorator that adds the options; the command takes them as an instance of this class.

        Args:
            note: What the help of ``--dsn`` says beside.
        """

        def add(command: FC) -> FC:
            @connector_argument
            @dsns_option(required=False, note=note)
            @connect_url_option(required=True)
            @yes_option
            @timeout_option
            @stable_option("2s")
            @json_option()
            @wraps(command)
            def gathered(**options: Any) -> Any:  # noqa: ANN401 - a command's own
                own = {field.name: options.pop(field.name) for field in fields(cls)}
                return command(cls(**own), **options)

            return cast("FC", gathered)

        return add

    def change(
        self,
        what: str,
        judge: Callable[[ConnectorPosition], OffsetChange],
        make: Callable[[ConnectClient, str, ConnectorPosition], Offset | None],
    ) -> None:
        """Change the offsets of the connector, which is stopped meanwhile.

        Args:
            what: The command's name.
            judge: Returns the effect; asked before anything is touched, and once more when the connector has stopped.
            make: Makes the change, and returns the new offset.
        """
        # On SIGTERM, the command resumes the connector before it ends, as at Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        steps = Steps(sys.stderr)
        client = ConnectClient(self.cluster, waits=steps.wait)
        client.refuse_kept()
        name = one_name_of(self.connector, client)
        refuse_relayed(client, name, self.databases)
        agreed = self.yes or _agree(name, judge(_position_of(name, client, self.databases)))
        timings = replace(self.cluster.timings, timeout_seconds=self.timeout)
        control = ConnectorControl(client, name, timings=timings, report=lambda text: steps.report("wait", text))
        with steps.shown():
            with control.stopped(stable_seconds=self.stable_seconds):
                # It has advanced meanwhile.
                position = _position_of(name, client, self.databases)
                move = judge(position)
                if move.skips and not agreed:
                    raise _skips(name, move)
                offset = make(client, name, position)
                record_action(acting(), f"offsets {what}", name, before=position.stored, after=offset, effect=move.text)
                steps.report("offsets", "changed")
                say(visible(f"{name}: {move.text}"), err=self.prints_json)
                say(visible(f"before: {json.dumps(position.stored)}"), err=self.prints_json)
                if self.prints_json:
                    content = {"connector": name, "before": position.stored, "after": offset}
                    say(document("OffsetChange", content | {"effect": move.text, "skips": move.skips}))
            steps.report("done", name)


@offsets.command(name="set")
@click.option(
    "--to-offset",
    "target",
    required=True,
    metavar="OFFSET",
    help="An LSN such as 0/1A2B3C4, on MySQL FILE:OFFSET, or the offset as a JSON object.",
)
@_OffsetCommand.options("; required on PostgreSQL, to read the slot")
def set_offset(command: _OffsetCommand, *, target: str) -> None:
    """Set the offset from which a connector continues.

    An earlier offset repeats events; a later offset skips events. On PostgreSQL, nothing before the slot's confirmed
    position can be read; an earlier offset is refused. The previous offset is printed in the form that --to-offset
    accepts.

    \b
    Examples:
      cdc-outbox offsets set orders --to-offset 0/1A2B3C4
      cdc-outbox offsets set connectors/orders.yaml --to-offset 0/1A2B3C4 --yes
    """

    def judge(position: ConnectorPosition) -> OffsetChange:
        if position.kind is DatabaseKind.POSTGRESQL and not position.is_asked:
            raise ConfigError("the effect of another offset depends on the slot", field="--dsn", hint="Give --dsn.")
        return assess_set(position, read_offset(target, position.kind))

    def change(client: ConnectClient, name: str, position: ConnectorPosition) -> Offset | None:
        offset = read_offset(target, position.kind)
        client.alter_offsets(name, [position.entry(offset)])
        return offset

    command.change("set", judge, change)


@offsets.command()
@_OffsetCommand.options("; its slot shows which events would be skipped")
def reset(command: _OffsetCommand) -> None:
    """Delete all offsets of a connector.

    The connector then starts as a new one: on PostgreSQL, at the position of its slot.

    \b
    Example:
      cdc-outbox offsets reset connectors/orders.yaml
    """

    def change(client: ConnectClient, name: str, _position: ConnectorPosition) -> Offset | None:
        client.reset_offsets(name)
        return None

    command.change("reset", assess_reset, change)


def _agree(name: str, move: OffsetChange) -> bool:
    """Return whether events may be left out: asked where they would be, and a person is at the terminal."""
    if not move.skips:
        return False
    if not sys.stdin.isatty():
        raise _skips(name, move)
    click.confirm(visible(f"{name}: {move.text}. Continue?"), abort=True, err=True)
    return True


def _skips(name: str, move: OffsetChange) -> UnpublishedEventsError:
    return UnpublishedEventsError(f"{name}: {move.text}", hint="To do it anyway, add --yes.")


def _position_of(name: str, client: ConnectClient, databases: Databases | None) -> ConnectorPosition:
    config = client.find_config(name) or {}
    if databases is None or kind_of(config) is not DatabaseKind.POSTGRESQL:
        return ConnectorPosition(config=config, offsets=client.find_offsets(name))
    # The slot first: read later, it may have advanced beyond an offset that was read before.
    with connected(databases.of(name), DatabaseKind.POSTGRESQL) as (connection, driver):
        slot = read_slots(connection, driver).find(slot_of(config))
        relayed = find_relayed(connection, driver, config)
    offsets = client.find_offsets(name)
    return ConnectorPosition(config=config, offsets=offsets, slot=slot, is_asked=True, relayed=relayed)


def _content(name: str, position: ConnectorPosition) -> dict[str, Any]:
    slot = position.slot
    return {
        "connector": name,
        "offsets": list(position.offsets),
        "slot": None
        if slot is None
        else {
            "name": slot.name,
            "confirmed": None if slot.confirmed is None else str(slot.confirmed),
            "logEnd": str(slot.log_end),
        },
    }


def _lines(position: ConnectorPosition) -> Iterator[str]:
    if position.offsets:
        yield from in_columns([_HEAD, *(_row(entry, position.topic_prefix) for entry in position.offsets)])
    if position.stored is None:
        yield "no stored offset applies: the connector starts as a new one"
    if position.slot is not None:
        yield visible(
            f"slot {position.slot.name}: confirmed {position.slot.confirmed}, the log ends at {position.slot.log_end}"
        )
    elif position.is_asked:
        yield "there is no slot"


def _row(entry: Mapping[str, Any], topic_prefix: str) -> tuple[str, ...]:
    partition, offset = entry.get("partition", {}), entry.get("offset")
    server = str(partition.get("server", json.dumps(partition)))
    other = "" if server == topic_prefix else " (not this prefix)"
    position = position_in(offset)
    at = "-" if position is None else str(position)
    return f"{server}{other}", at + (" (in a snapshot)" if offset and "snapshot" in offset else ""), json.dumps(offset)
