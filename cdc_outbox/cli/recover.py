"""``cdc-outbox recover``."""

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.arguments import connector_argument
from cdc_outbox.cli.brokers import broker_options, broker_settings
from cdc_outbox.cli.connectors import is_spec, name_of, one_name_of, specs_of
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected, require_driver
from cdc_outbox.cli.findings import finding_content
from cdc_outbox.cli.heartbeats import find_positions, history_of
from cdc_outbox.cli.options import (
    acting,
    by_option,
    connect_url_option,
    dsns_option,
    json_option,
    read_spec,
    stable_option,
    yes_option,
)
from cdc_outbox.cli.output import ExitCode, document, error_content, say
from cdc_outbox.cli.progress import Steps
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.lifecycle import OWED, PAY, ConnectorControl
from cdc_outbox.connect.publishing import publishers_of
from cdc_outbox.connect.spec_checks import another_outbox
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.debezium.render import owes_rows, render
from cdc_outbox.errors import ConfigError, ConnectorInvalidError, ConnectorNotFoundError, UnpublishedEventsError
from cdc_outbox.finding import Finding, errors_in
from cdc_outbox.operations.actions import Operator, record_action
from cdc_outbox.operations.recovery import History
from cdc_outbox.redaction import visible

_STOPS_WITHIN_SECONDS = 60.0
_EXAMINE = "Then record that it was examined: cdc-outbox recover --accept"


@click.command()
@connector_argument
@dsns_option(required=True, note="; its role must be allowed to execute the function that writes heartbeats")
@connect_url_option(required=False, note="; not needed for the SPEC of a pipeline that a relay publishes")
@broker_options()
@click.option(
    "--accept",
    "accepts",
    is_flag=True,
    help="Record that the findings were examined; commands then stop reporting them.",
)
@by_option
@yes_option
@stable_option("10s")
@json_option()
def recover(
    connector: str,
    *,
    databases: Databases,
    cluster: Cluster | None,
    bootstrap_servers: str,
    kafka_settings: Path | None,
    accepts: bool,
    by: str | None,
    yes: bool,
    stable_seconds: float,
    prints_json: bool,
) -> ExitCode:
    """Publish events that are missing from the topics.

    The command compares the heartbeats of database and topic to find out whether the database went back to an older
    state. After a restore, Connect's stored offset is ahead of the slot. If the slot's position is before the last
    heartbeat that both have, the slot still holds every event that is missing from the topics: the command stops the
    connector, deletes its offset and starts it again, unless it was paused or stopped before. Consumers skip
    duplicates. If the slot's position is after that heartbeat, the command changes nothing, and reports that only the
    rows of the table can be published again.

    --accept records in the heartbeat topic what was found, who accepted it and when. Until then every command reports
    the loss, and prune refuses to run.

    A late heartbeat (OP405) is not a loss: the connector may be behind.

    A relay continues at its slot's position by itself. For its SPEC the command compares heartbeats, and --accept
    allows the relay to publish again; the rows of the table cannot be published again.

    Exit codes: 0 no loss, or the loss was accepted, 1 a loss that is not accepted, 75 try again later.

    \b
    Examples:
      cdc-outbox recover connectors/orders.yaml
      cdc-outbox recover connectors/orders.yaml --accept --by "night shift"
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    settings = broker_settings(bootstrap_servers, kafka_settings, group="cdc-outbox recover")
    steps = Steps(sys.stderr)
    client, name, config = _find_connector(connector, cluster, steps)
    dsn = databases.of(name)
    require_driver(dsn)
    if client is None:
        _refuse_unless_relayed(name, config, dsn)
    history = _history(name, config, settings, dsn)
    shown = history.look()
    printed = [*_differences(connector, config), *shown]
    say("".join(f"{visible(str(finding))}\n" for finding in printed), nl=False, err=prints_json)
    recovery = _Recovery(
        client=client,
        steps=steps,
        dsn=dsn,
        name=name,
        config=config,
        history=history,
        operator=acting(by=by),
        printed=printed,
        losses=errors_in(tuple(shown)),
        prints_json=prints_json,
    )
    if accepts:
        return recovery.accept()
    return recovery.publish(yes=yes, stable_seconds=stable_seconds)


def _find_connector(
    connector: str, cluster: Cluster | None, steps: Steps
) -> tuple[ConnectClient | None, str, Mapping[str, str]]:
    """Return where a connector runs, ``None`` for a pipeline without one, its name, and its configuration.

    Raises:
        UsageError: Connect is not named, and no spec either.
        ConnectError: Connect does not answer, or has no such connector.
    """
    client = None if cluster is None else ConnectClient(cluster, waits=steps.wait)
    if client is not None and not (is_spec(connector) and name_of(connector) not in client.find_names()):
        name = one_name_of(connector, client)
        return client, name, client.find_config(name) or {}
    if not is_spec(connector):
        raise click.UsageError("recover NAME needs --connect-url (or CDC_OUTBOX_CONNECT_URL)")
    spec = read_spec(Path(connector))
    return None, spec.name, render(spec)


def _refuse_unless_relayed(name: str, config: Mapping[str, str], dsn: str) -> None:
    """Refuse a pipeline without a connector that no relay publishes: Connect knows whether its offset is right.

    Raises:
        UsageError: The outbox does not name a relay as its publisher.
    """
    with connected(dsn, DatabaseKind.POSTGRESQL) as (connection, driver):
        found = [each.find() for each in publishers_of(connection, driver, config)]
    if not any(publisher is not None and publisher.kind.is_relay for publisher in found):
        raise click.UsageError(
            f"no relay publishes {name}, so recover needs its connector: give --connect-url (or "
            "CDC_OUTBOX_CONNECT_URL) of the Connect cluster that runs it"
        )


def _history(name: str, config: Mapping[str, str], settings: dict[str, Any], dsn: str) -> History:
    history = history_of(config, settings, dsn)
    if history is None:
        raise ConfigError(
            f"the connector {name} writes no heartbeats through its outbox",
            hint="Heartbeats need PostgreSQL and a topic for each aggregate type; deploy the connector again.",
        )
    return history


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recovery:
    """One call about one connector.

    Args:
        client: ``None`` where there is no connector: a relay publishes.
        config: The connector's.
        losses: The printed findings that an acceptance ends.
    """

    client: ConnectClient | None
    steps: Steps
    dsn: str
    name: str
    config: Mapping[str, str]
    history: History
    operator: Operator
    printed: Sequence[Finding]
    """All findings that were printed."""
    losses: Sequence[Finding]
    prints_json: bool

    def accept(self) -> ExitCode:
        """Record that the losses were looked at."""
        acceptance = self.history.accept(self.operator.name)
        if acceptance.ids:
            record_action(self.operator, "recover --accept", self.name, accepted=acceptance.found)
        else:
            say("there is nothing to accept", err=True)
        for text in acceptance.found:
            say(visible(f"accepted: {text}"), err=self.prints_json)
        left = len(errors_in(tuple(self.history.look())))
        return self._end(ExitCode.FAILED if left else ExitCode.DONE, left=left, accepted=acceptance.found)

    def publish(self, *, yes: bool, stable_seconds: float) -> ExitCode:
        """Continue the connector at its slot's position, if the slot holds everything that is in no topic."""
        client, name = self.client, self.name
        if client is None:
            return self._report_relayed()
        if owes_rows(self.config):
            # It would publish the rows of the table, and nothing of what the slot holds.
            raise ConnectorInvalidError(f"{name} has not published all rows: {OWED}", hint=PAY)
        positions = find_positions(client, self.config, self.dsn)
        if not (positions.has_loss or self.losses):
            self._say_nothing()
            _say_if_halted(client, name)
            return self._end(ExitCode.DONE)
        try:
            slot = self._proven(positions.slot)
        except UnpublishedEventsError as error:
            self._end(ExitCode.FAILED, error=error_content(error))
            raise
        text = f"{name} continues at {slot.confirmed}, the position of its slot"
        if positions.stored is None:
            say(visible(f"{text}: Connect has stored no offset"), err=self.prints_json)
            return self._end(_report_rest(client, name, is_accepted=False), continuesAt=str(slot.confirmed))
        text += f", not at Connect's offset {positions.stored.lsn}; consumers skip duplicates"
        if not yes:
            _confirm(text)
        self._reset_offsets(client, slot, stable_seconds=stable_seconds)
        say(visible(text), err=self.prints_json)
        code = _report_rest(client, name, is_accepted=not self.losses)
        return self._end(code, continuesAt=str(slot.confirmed), offsetsDeleted=True)

    def _report_relayed(self) -> ExitCode:
        if not self.losses:
            self._say_nothing()
            return self._end(ExitCode.DONE)
        say(f"{self.name} has no connector, and a relay continues at its slot by itself", err=True)
        say(_EXAMINE, err=True)
        return self._end(ExitCode.FAILED)

    def _say_nothing(self) -> None:
        nothing = "no loss found" if self.printed else "nothing found"
        say(f"{nothing}: the heartbeats have no gap", err=True)

    def _reset_offsets(self, client: ConnectClient, slot: SlotFacts, *, stable_seconds: float) -> None:
        timings = replace(client.cluster.timings, timeout_seconds=_STOPS_WITHIN_SECONDS)
        report = partial(self.steps.report, "wait")
        control = ConnectorControl(client, self.name, timings=timings, report=report)
        with self.steps.shown(), control.stopped(stable_seconds=stable_seconds):
            # Looked at once more where it stopped: until then it may have moved the slot.
            self._proven(find_positions(client, self.config, self.dsn).slot)
            client.reset_offsets(self.name)
            record_action(self.operator, "recover", self.name, goes_on_at=slot.confirmed)
            self.steps.report("offsets", "deleted")

    def _proven(self, slot: SlotFacts | None) -> SlotFacts:
        return _proven(self.name, slot, self.losses, published_until=self.history.published_until)

    def _end(self, code: ExitCode, *, left: int | None = None, **done: object) -> ExitCode:
        if self.prints_json:
            nothing: dict[str, object] = {"accepted": [], "continuesAt": None, "offsetsDeleted": False, "error": None}
            content = {"connector": self.name, "findings": [*map(finding_content, self.printed)], **nothing, **done}
            say(document("Recovery", content | {"left": len(self.losses) if left is None else left}))
        return code


def _differences(connector: str, config: Mapping[str, str]) -> Iterator[Finding]:
    """Yield whether the connector reads another outbox than its spec says, where that is named."""
    for spec in specs_of([connector]).values():
        yield from another_outbox(spec, config)


def _report_rest(client: ConnectClient, name: str, *, is_accepted: bool) -> ExitCode:
    _say_if_halted(client, name)
    if is_accepted:
        return ExitCode.DONE
    say(_EXAMINE, err=True)
    return ExitCode.FAILED


def _say_if_halted(client: ConnectClient, name: str) -> None:
    """Say that a connector does not run: it was halted before, or an earlier run was interrupted."""
    with suppress(ConnectorNotFoundError):  # not known yet: it was just created
        if not client.find_status(name).is_halted:
            return
        say(visible(f"{name} is paused or stopped; resume it: cdc-outbox resume {name}"), err=True)


def _confirm(text: str) -> None:
    if not sys.stdin.isatty():
        raise UnpublishedEventsError(f"{text}.", hint="Run again with --yes.")
    click.confirm(visible(f"{text}. Continue?"), abort=True, err=True)


def _proven(name: str, slot: SlotFacts | None, found: Sequence[Finding], *, published_until: Lsn | None) -> SlotFacts:
    """Return a slot that certainly holds everything that is in no topic.

    Where the offset lies does not tell it: a connector that ran on a restored server has moved both, over events that
    it did not publish.

    Args:
        published_until: All events that were committed before this position are in the topics.

    Raises:
        UnpublishedEventsError: It is not certain, and only the rows of the table are left.
    """
    if slot is None:
        reason = "does not exist"
    elif slot.kept_bytes is None:
        reason = "has lost its WAL"
    elif slot.confirmed is None or published_until is None:
        reason = f"is at {slot.confirmed}, and nothing proves that it holds every event that is in no topic"
    elif slot.confirmed > published_until:
        reason = (
            f"is at {slot.confirmed}, after {published_until}, the position up to which all events are in the topics"
        )
    else:
        return slot
    raise UnpublishedEventsError(
        f"the slot of {name} {reason}: only the rows of the table can still be published.",
        hint="Run `cdc-outbox deploy-connector --earlier-events republish`"
        + (", then `cdc-outbox recover --accept`." if found else "."),
    )
