"""``cdc-outbox plan`` and ``cdc-outbox deploy-connector``."""

import logging
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.arguments import specs_argument
from cdc_outbox.cli.brokers import broker_options, broker_settings
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.heartbeats import heartbeat_findings, require_client
from cdc_outbox.cli.options import (
    acting,
    connect_url_option,
    dry_run_option,
    dsns_option,
    json_option,
    stable_option,
    timeout_option,
)
from cdc_outbox.cli.output import complain, say
from cdc_outbox.cli.pipeline_outcomes import (
    PipelineOutcome,
    PipelineState,
    as_json,
    change_line,
    effect_line,
    exit_code,
)
from cdc_outbox.cli.progress import Steps
from cdc_outbox.cli.specs import read_specs
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.deploy import Deployment, DeployOptions
from cdc_outbox.connect.plan import Plan
from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.connect.spec_checks import compare, plan_without_database, refuse_other_kind
from cdc_outbox.connect.timings import Timings
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.render import render, topics_of
from cdc_outbox.debezium.slot_plan import EarlierEvents
from cdc_outbox.errors import CdcOutboxError, ConnectorInvalidError, DatabaseError, UnpublishedEventsError
from cdc_outbox.finding import Finding, errors_in
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.operations.actions import record_action
from cdc_outbox.operations.canary import Canary
from cdc_outbox.operations.doctor import find_loss_findings
from cdc_outbox.redaction import visible
from cdc_outbox.spec import Spec

_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())  # what librdkafka says is in the error


@click.command()
@specs_argument
@dsns_option(required=False, note="; without it, slot and offsets are not checked")
@connect_url_option(required=True)
@json_option()
def plan(paths: tuple[Path, ...], *, databases: Databases | None, cluster: Cluster, prints_json: bool) -> int:
    """Show the changes that a deployment would make.

    Specs are compared with the running connectors; nothing is changed. The comparison is by meaning: an explicit
    default, another order or the old name of an option does not count as a difference. Each change is shown with the
    key of the spec that causes it and its impact on consumers; secrets are masked. Changes that would lose, repeat or
    reorder events are called dangerous; `deploy-connector` makes them only with --replace.

    If the deployment would be refused, for example because the database is not ready, the reason is shown together with
    the changes.

    Exit codes: 0 nothing would change, 1 the deployment would be refused, 2 an invalid spec, 3 something would change,
    75 try again later.

    \b
    Examples:
      cdc-outbox plan connectors/orders.yaml
      cdc-outbox plan connectors/ --context production --output json | jq '.pipelines[].changes'
    """
    steps = Steps(sys.stderr)
    client = ConnectClient(cluster, waits=steps.wait)
    outcomes = []
    with steps.shown():
        for path, spec in read_specs(paths).items():
            outcomes.append(_planned(PipelineOutcome(name=spec.name, document=path), spec, databases, client))
    for outcome in outcomes:
        if outcome.error is not None:
            complain(outcome.error)
    say(as_json("Plan", outcomes) if prints_json else "\n".join(_lines(outcomes)))
    return exit_code(outcomes)


def _planned(
    outcome: PipelineOutcome, spec: Spec, databases: Databases | None, client: ConnectClient
) -> PipelineOutcome:
    try:
        outcome.plan = _plan(spec, databases, client)
        outcome.state = PipelineState.UNCHANGED if outcome.plan.is_empty else PipelineState.DIFFERS
    except (ConnectorInvalidError, UnpublishedEventsError, DatabaseError) as error:
        outcome.state, outcome.error = PipelineState.FAILED, error
        with suppress(CdcOutboxError):
            outcome.plan = compare(spec, client, timings=_timings(client))
    except CdcOutboxError as error:
        outcome.state, outcome.error = PipelineState.FAILED, error
    return outcome


def _timings(client: ConnectClient) -> Timings:
    return replace(client.cluster.timings, timeout_seconds=client.cluster.timings.known_seconds)


def _plan(spec: Spec, databases: Databases | None, client: ConnectClient) -> Plan:
    timings = _timings(client)
    if databases is None or spec.database.kind is not DatabaseKind.POSTGRESQL:
        return plan_without_database(spec, client, timings=timings)
    options = DeployOptions(replaces=True, timings=timings)
    with connected(databases.of(spec.name), spec.database.kind) as (connection, driver):
        return Deployment(
            spec, client, PostgresqlDatabase(connection, driver, spec), options, lambda *_step: None
        ).dry_run()


def _lines(outcomes: list[PipelineOutcome]) -> list[str]:
    lines = []
    for outcome in outcomes:
        lines.append(outcome.verdict)
        for change in outcome.plan.changes if outcome.plan is not None else ():
            lines += [f"  {change_line(change)}", *([effect_line(change.effect)] if change.effect else [])]
        for neighbour in outcome.plan.neighbours if outcome.plan is not None else ():
            lines.append(visible(f"  {neighbour.finding}"))
        if outcome.plan is not None and outcome.plan.dangers:
            lines.append("  deploy-connector refuses this without --replace")
    return lines


@click.command()
@specs_argument
@dsns_option(required=True, note="; its role must be allowed to create replication slots")
@connect_url_option(required=True)
@dry_run_option
@stable_option("10s")
@timeout_option
@click.option(
    "--earlier-events",
    type=click.Choice([way.value for way in EarlierEvents]),
    help="How to handle events that no slot holds: republish all rows of the table, or skip the events. Default: "
    "refuse the deployment if there are any.",
)
@click.option(
    "--undo/--no-undo", default=True, show_default=True, help="Undo a failed deployment, or leave it in place."
)
@click.option("--replace", "replaces", is_flag=True, help="Also make changes that `cdc-outbox plan` calls dangerous.")
@click.option(
    "--canary",
    is_flag=True,
    help="After the deployment, send an event of the type cdc-outbox.canary and wait for it in Kafka.",
)
@broker_options(required=False)
@json_option()
def deploy_connector(
    paths: tuple[Path, ...],
    *,
    databases: Databases,
    cluster: Cluster,
    dry_run: bool,
    stable_seconds: float,
    timeout: float,
    earlier_events: str | None,
    undo: bool,
    replaces: bool,
    canary: bool,
    bootstrap_servers: str | None,
    kafka_settings: Path | None,
    prints_json: bool,
) -> int:
    """Deploy connectors from specs.

    The command checks each spec, creates its slot and connector, and waits until they run. Running it again changes
    nothing and reports that. A connector counts as deployed when it and all its tasks have been RUNNING for
    --stable-for. If it does not reach this state, the command prints the task's trace with its cause and a remedy,
    restores the previous configuration and skips the remaining specs. --dry-run makes all checks, and exits with 3 if
    something would change.

    \b
    Examples:
      cdc-outbox deploy-connector connectors/orders.yaml
      cdc-outbox deploy-connector connectors/ --context production --dry-run
    """
    # On SIGTERM, a deployment takes back what it did, as at Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    specs = read_specs(paths)
    for spec in specs.values():
        refuse_other_kind(spec)
    options = DeployOptions(
        stable_seconds=stable_seconds,
        earlier=EarlierEvents(earlier_events) if earlier_events else None,
        undoes=undo,
        replaces=replaces,
        timings=replace(cluster.timings, timeout_seconds=timeout),
    )
    if canary and bootstrap_servers is None:
        raise click.UsageError("--canary needs --bootstrap-servers (or CDC_OUTBOX_BOOTSTRAP_SERVERS)")
    brokers = broker_settings(bootstrap_servers or "", kafka_settings, group="cdc-outbox-canary") if canary else None
    look = partial(_look_at_brokers, bootstrap_servers, kafka_settings)
    call = _Call(databases, cluster, options, brokers, look, bootstrap_servers, dry_run=dry_run)
    outcomes = [PipelineOutcome(name=spec.name, document=path) for path, spec in specs.items()]
    for outcome, spec in zip(outcomes, specs.values(), strict=True):
        if len(outcomes) > 1:
            say(f"{outcome.name} ({outcome.document})", err=True)
        call.carry_out(outcome, spec, is_quiet=prints_json)
        if outcome.error is not None and not dry_run:
            break
    if prints_json:
        say(as_json("Deployment", outcomes))
    elif len(outcomes) > 1:
        for outcome in outcomes:
            if outcome.state is PipelineState.NOT_TRIED:
                say(outcome.verdict)
    return exit_code(outcomes)


def _look_at_brokers(
    bootstrap_servers: str | None, kafka_settings: Path | None, spec: Spec, dsn: str, client: ConnectClient
) -> list[Finding]:
    """Return what the heartbeats show, and how acknowledged messages can be lost in the topics that exist."""
    shown = heartbeat_findings(render(spec), bootstrap_servers, kafka_settings, dsn, client=client)
    if bootstrap_servers is None:
        return shown
    topics = Topics(broker_settings(bootstrap_servers, kafka_settings, group="cdc-outbox deploy-connector"), _LOG)
    found, brokers = topics.find(topic.name for topic in topics_of(spec)), topics.count_brokers()
    losses = [finding for topic in found.values() for finding in find_loss_findings(topic, brokers=brokers)]
    return [*shown, *losses]


@dataclass
class _Call:
    """What all pipelines of a call have in common.

    Args:
        brokers: Where canaries are looked for; ``None`` sends none.
        look: Finds what the brokers show.
    """

    databases: Databases
    cluster: Cluster
    options: DeployOptions
    brokers: dict[str, Any] | None
    look: Callable[[Spec, str, ConnectClient], list[Finding]]
    bootstrap_servers: str | None
    dry_run: bool

    def _look_at_heartbeats(self, spec: Spec, client: ConnectClient, steps: Steps) -> None:
        """Refuse a database that went back, unless it was decided what to do about its events.

        Raises:
            UnpublishedEventsError: It did, and that is not accepted.
        """
        found = self.look(spec, self.databases.of(spec.name), client)
        for finding in found:
            steps.report("check", str(finding))
        if errors_in(tuple(found)) and self.options.earlier is None:
            raise UnpublishedEventsError(
                f"{spec.name}: {errors_in(tuple(found))[0].message.removesuffix('.')}",
                hint="Run `cdc-outbox recover`, or run again with --earlier-events.",
            )

    def carry_out(self, outcome: PipelineOutcome, spec: Spec, *, is_quiet: bool) -> None:
        """Deploy one pipeline, or only look, and print what came of it; if it is quiet, steps and errors only."""
        steps = Steps(sys.stderr)
        outcome.steps = steps.done
        client = ConnectClient(self.cluster, waits=steps.wait)
        try:
            require_client(render(spec), self.bootstrap_servers)
            with steps.shown(), connected(self.databases.of(spec.name), spec.database.kind) as (connection, driver):
                database = PostgresqlDatabase(connection, driver, spec)
                seconds = self.options.timings.timeout_seconds
                canary = self.brokers and Canary(spec, connection, driver, self.brokers, timeout_seconds=seconds)
                sing = canary.sing if canary else None
                look = partial(self._look_at_heartbeats, spec, client, steps)
                options, report = self.options, steps.report
                deployment = Deployment(spec, client, database, options, report, canary=sing, refuse_history=look)
                plan = outcome.plan = deployment.dry_run() if self.dry_run else deployment.run()
            differs = PipelineState.DIFFERS if self.dry_run else PipelineState.DEPLOYED
            outcome.state = PipelineState.UNCHANGED if plan.is_empty else differs
        except CdcOutboxError as error:
            outcome.state, outcome.error = PipelineState.FAILED, error
            complain(error)
            return
        finally:
            client.close()
        if outcome.state is PipelineState.DEPLOYED:
            record_action(acting(), "deploy-connector", spec.name, plan=str(plan), earlier=self.options.earlier)
        if is_quiet:
            return
        for change in plan.changes if self.dry_run else ():
            say(change_line(change))
        say(outcome.verdict)
