"""``cdc-outbox plan``."""

import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click

from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.exits import complain
from cdc_outbox.cli.options import connect_url_option, dsns_option, json_option
from cdc_outbox.cli.outcome import Outcome, State, as_json, change_line, effect_line, exit_code
from cdc_outbox.cli.output import say
from cdc_outbox.cli.specs import read_specs, specs_argument
from cdc_outbox.cli.steps import Steps
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.deploy import Deployment, DeployOptions
from cdc_outbox.connect.facts import Database
from cdc_outbox.connect.foresight import compare, plan_without_database
from cdc_outbox.connect.plan import Plan
from cdc_outbox.connect.timings import Timings
from cdc_outbox.database import DatabaseKind
from cdc_outbox.errors import CdcOutboxError, ConnectorInvalidError, DatabaseError, UnpublishedEventsError
from cdc_outbox.safe_text import visible
from cdc_outbox.spec import Spec


@click.command(short_help="Show what a deployment would change, and what that does to consumers.")
@specs_argument
@dsns_option(required=False, note="; without it nothing is said of slot and offsets")
@connect_url_option(required=True)
@json_option()
def plan(paths: tuple[Path, ...], *, databases: Databases | None, cluster: Cluster, prints_json: bool) -> int:
    """Compare SPECs, files or folders of them, with the connectors that run, and change nothing.

    What is compared is the meaning: a default that is written out, another order or an option's old name is no
    difference. Each change is shown with what it does to who reads the events; secrets are masked. Changes that would
    lose, repeat or disorder events are called dangerous, and `deploy-connector` makes them only with --replace.

    Each change names the spec's key that it comes from. Where the database is not ready, or something else would be
    refused, that is said, and the difference is shown all the same.

    Exit codes: 0 nothing would change, 1 it would be refused, 2 a wrong spec, 3 something would change, 75 try again
    later.

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
            outcomes.append(_planned(Outcome(name=spec.name, document=path), spec, databases, client))
    for outcome in outcomes:
        if outcome.error is not None:
            complain(outcome.error)
    say(as_json("Plan", outcomes) if prints_json else "\n".join(_lines(outcomes)))
    return exit_code(outcomes)


def _planned(outcome: Outcome, spec: Spec, databases: Databases | None, client: ConnectClient) -> Outcome:
    try:
        outcome.plan = _plan(spec, databases, client)
        outcome.state = State.UNCHANGED if outcome.plan.is_empty else State.DIFFERS
    except (ConnectorInvalidError, UnpublishedEventsError, DatabaseError) as error:
        outcome.state, outcome.error = State.FAILED, error
        with suppress(CdcOutboxError):
            outcome.plan = compare(spec, client, timings=_timings(client))
    except CdcOutboxError as error:
        outcome.state, outcome.error = State.FAILED, error
    return outcome


def _timings(client: ConnectClient) -> Timings:
    return replace(client.cluster.timings, timeout_seconds=client.cluster.timings.known_seconds)


def _plan(spec: Spec, databases: Databases | None, client: ConnectClient) -> Plan:
    timings = _timings(client)
    if databases is None or spec.database.kind is not DatabaseKind.POSTGRESQL:
        return plan_without_database(spec, client, timings=timings)
    options = DeployOptions(replaces=True, timings=timings)
    with connected(databases.of(spec.name), spec.database.kind) as (connection, driver):
        return Deployment(spec, client, Database(connection, driver, spec), options, lambda *_step: None).dry_run()


def _lines(outcomes: list[Outcome]) -> list[str]:
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
