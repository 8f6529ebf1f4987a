"""``cdc-outbox watch``."""

import math
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NoReturn

import click

from cdc_outbox.cli.arguments import optional_connectors_argument
from cdc_outbox.cli.brokers import broker_options, broker_settings
from cdc_outbox.cli.connectors import names_of
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.heartbeats import Looks
from cdc_outbox.cli.options import connect_url_option, dsns_option, json_option
from cdc_outbox.cli.output import document, say
from cdc_outbox.cli.times import Duration
from cdc_outbox.connect.client import ConnectClient, ConnectorStatus
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.restart_policy import RestartAction, RestartOptions, RestartPolicy
from cdc_outbox.connect.wait import Condition, condition_of, describe, failure, reason_of
from cdc_outbox.errors import CdcOutboxError, ConnectError, ConnectorInvalidError, ConnectorNotFoundError
from cdc_outbox.redaction import visible

_DEFAULTS = RestartOptions()
_HISTORY_SECONDS = 60.0
_AGAIN_SECONDS = 5.0
"""Until a history is looked at again that could not be read: a rebalance is over by then."""


@click.command()
@optional_connectors_argument
@connect_url_option(required=True)
@dsns_option(required=False, note="; without it, slots and offsets are not compared")
@broker_options(required=False)
@click.option(
    "--give-up-after",
    type=click.IntRange(min=1),
    default=_DEFAULTS.max_restarts,
    show_default=True,
    metavar="N",
    help="Maximum number of consecutive restarts of one connector.",
)
@click.option(
    "--first-pause",
    type=Duration(),
    default=f"{_DEFAULTS.first_pause_seconds:g}s",
    show_default=True,
    metavar="DURATION",
    help="How long a failure must last before the first restart. The delay doubles for each further restart, up to 5m.",
)
@click.option(
    "--interval",
    type=Duration("100ms"),
    default="5s",
    show_default=True,
    metavar="DURATION",
    help="Time between two checks.",
)
@json_option("; one object a line")
def watch(
    connectors: tuple[str, ...],
    *,
    cluster: Cluster,
    databases: Databases | None,
    bootstrap_servers: str | None,
    kafka_settings: Path | None,
    give_up_after: int,
    first_pause: float,
    interval: float,
    prints_json: bool,
) -> None:
    """Restart failed connectors, with a limit.

    Without arguments, all connectors are watched. Each change, restart and failure is printed as a line, or as a JSON
    object with --output json. After five minutes without a failure, a connector's restart count begins again at 0. If a
    connector fails after --give-up-after restarts, the watch ends and prints the trace, the cause and a remedy; to keep
    connectors independent, run one watch for each. Paused or stopped connectors are left alone. If Connect does not
    answer, the watch waits.

    At the start and once a minute, slot and offset are compared and, with brokers, the heartbeats. Findings are
    printed; they cause no restart. With a DSN, a connector whose outbox a relay publishes is not restarted.

    A pattern selects the connectors that exist at the start.

    Exit codes: 0 the watch was stopped (SIGTERM, Ctrl-C), 1 the watch gave up on a connector, 75 Connect does not
    answer at the start.

    \b
    Examples:
      cdc-outbox watch
      cdc-outbox watch orders connectors/billing.yaml --give-up-after 3
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        settings = None
        if bootstrap_servers is not None:
            settings = broker_settings(bootstrap_servers, kafka_settings, group="cdc-outbox watch")
        options = RestartOptions(max_restarts=give_up_after, first_pause_seconds=first_pause)
        looking = partial(Looks, settings=settings, databases=databases)
        _watch(connectors, cluster, options, interval, looking, prints_json=prints_json)
    say("stopped", err=prints_json)


def _watch(
    connectors: Sequence[str],
    cluster: Cluster,
    options: RestartOptions,
    interval: float,
    looking: Callable[[ConnectClient], Looks],
    *,
    prints_json: bool,
) -> NoReturn:
    client = ConnectClient(cluster)
    names = names_of(connectors, client)
    say(visible(f"watching {', '.join(names) or 'nothing yet'}"), err=prints_json)
    # The loop retries anyway, and when stopped the command does not wait for a Connect that does not answer.
    client = ConnectClient(replace(cluster, patience_seconds=0))
    watching = Watching(client, names if connectors else (), options, looking(client), prints_json)
    while True:
        watching.look()
        time.sleep(interval)


@dataclass
class Watching:
    """The connectors that are watched.

    Args:
        names: Empty for all that there are at each look.
    """

    client: ConnectClient
    names: Sequence[str]
    options: RestartOptions
    looks: Looks
    prints_json: bool = False
    _policies: dict[str, RestartPolicy] = field(default_factory=dict, init=False)
    _said: dict[tuple[str, str], str] = field(default_factory=dict, init=False)
    _look_at_history: dict[str, float] = field(default_factory=dict, init=False)

    def look(self) -> None:
        """Look at each once, and act.

        Raises:
            ConnectorFailedError: One is given up, with its trace.
        """
        try:
            for name in self.names or self.client.find_names():
                self._look_at(name)
        except ConnectError as error:
            if not error.retryable:
                raise
            self._say("", "connect", str(error))
        else:
            if self._said.pop(("", "connect"), None):
                self._echo("", "connect", "answers again")

    def _look_at(self, name: str) -> None:
        try:
            status = self.client.glance_at(name)
        except ConnectorNotFoundError:
            self._say(name, "state", "Connect does not know it", state=None, condition=None)
            return
        self._say(name, "state", _described(status), state=status.state, condition=condition_of(status).value)
        self._look_back(name, status)
        policy = self._policies.setdefault(name, RestartPolicy(self.options))
        match policy.see(condition_of(status), time.monotonic()):
            case RestartAction.RESTART if self._may_restart(name):
                self._echo(name, "restart", f"restart {policy.restarts + 1} of {self.options.max_restarts}")
                self.client.restart(name, only_failed=True)
                policy.restarted(time.monotonic())
            case RestartAction.GIVE_UP:
                times = f"{policy.restarts} restart{'s' * (policy.restarts != 1)}"
                raise failure(f"gave up on {name} after {times}: {describe(status)}", status)

    def _may_restart(self, name: str) -> bool:
        """Return whether nothing is known of a relay that publishes what the connector did; say it otherwise."""
        try:
            self.looks.refuse_relayed(name)
        except ConnectorInvalidError as error:
            self._say(name, "relay", f"not restarted: {error}")
            return False
        except CdcOutboxError as error:
            self._say(name, "relay", f"cannot ask who publishes its outbox: {error}")
        return True

    def _look_back(self, name: str, status: ConnectorStatus) -> None:
        """Look at the connector's history, once a minute."""
        if time.monotonic() < self._look_at_history.get(name, -math.inf):
            return
        pause = _HISTORY_SECONDS
        try:
            found = self.looks.look(name, runs=condition_of(status) is Condition.UP)
            text = "; ".join(f"{each.code}: {each.message} {each.remedy}" for each in found)
        except CdcOutboxError as error:
            text, pause = f"cannot read its history: {error}", _AGAIN_SECONDS
        self._look_at_history[name] = time.monotonic() + pause
        if text or (name, "history") in self._said:
            self._say(name, "history", text or "its history has no gap")

    def _say(self, name: str, event: str, text: str, **fields: object) -> None:
        """Say it unless it is what was said last."""
        if self._said.get((name, event)) != text:
            self._said[name, event] = text
            self._echo(name, event, text, **fields)

    def _echo(self, name: str, event: str, text: str, **fields: object) -> None:
        now = datetime.now().astimezone()
        if self.prints_json:
            what = {"time": now.isoformat(timespec="seconds"), "connector": name or None, "event": event}
            say(document("WatchEvent", {**what, "message": text, **fields}, indent=None))
        else:
            say(visible(f"{now:%H:%M:%S} {name or 'Connect'}: {text}"))


def _described(status: ConnectorStatus) -> str:
    text = describe(status)
    if condition_of(status) is not Condition.FAILED:
        return text
    reason = reason_of(status)
    return f"{text}." if reason is None else f"{text}. {reason.sentence}"
