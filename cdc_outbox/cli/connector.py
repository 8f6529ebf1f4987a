"""``cdc-outbox render`` and ``cdc-outbox deploy-connector``."""

import json
import signal
from pathlib import Path

import click

from cdc_outbox.cli.database import connected
from cdc_outbox.cli.exits import ExitCode
from cdc_outbox.cli.options import connect_url_option, dsn_option, read_spec
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.deploy import Deployment, DeployOptions, refuse_other_kind
from cdc_outbox.connect.facts import Database
from cdc_outbox.connect.plan import EarlierEvents, Plan
from cdc_outbox.connect.render import render


@click.command("render", short_help="Print the configuration that a spec becomes.")
@click.argument("spec", type=click.Path(path_type=Path))
def render_connector(spec: Path) -> None:
    """Print the connector's configuration as Connect gets it, references unresolved.

    \b
    Example:
      cdc-outbox render connectors/orders.yaml | jq .
    """
    click.echo(json.dumps(render(read_spec(spec)), indent=2, ensure_ascii=False))


@click.command(short_help="Make a connector be what its spec says.")
@click.argument("spec", type=click.Path(path_type=Path))
@dsn_option
@connect_url_option(required=True)
@click.option("--dry-run", is_flag=True, help="Check everything, show what would change, change nothing; exit 3 if so.")
@click.option(
    "--stable-seconds",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    envvar="CDC_OUTBOX_STABLE_SECONDS",
    show_envvar=True,
    help="How long connector and tasks must run on before the deployment counts.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    show_default=True,
    envvar="CDC_OUTBOX_TIMEOUT",
    show_envvar=True,
    help="Seconds that they may take to run at all.",
)
@click.option(
    "--earlier-events",
    type=click.Choice([way.value for way in EarlierEvents]),
    help="What to do with events that were written before the slot: publish the rows again, or leave them out.",
)
@click.option("--undo/--no-undo", default=True, show_default=True, help="Take back what did not come up.")
def deploy_connector(
    spec: Path,
    *,
    dsn: str,
    cluster: Cluster,
    dry_run: bool,
    stable_seconds: float,
    timeout: float,
    earlier_events: str | None,
    undo: bool,
) -> int:
    """Check a spec against database and Connect, make its slot and connector, and wait until they run.

    Running it again changes nothing and says so. A connector counts as deployed when it and all its tasks are RUNNING
    and have stayed so; otherwise the task's trace is printed and the configuration is taken back.

    DSN is the outbox's database as this machine reaches it, for a role that may create replication slots.

    \b
    Examples:
      cdc-outbox deploy-connector connectors/orders.yaml
      cdc-outbox deploy-connector connectors/orders.yaml --dry-run
    """
    # A deployment that is told to end takes back what it did, as at Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    pipeline = read_spec(spec)
    refuse_other_kind(pipeline)
    options = DeployOptions(
        stable_seconds=stable_seconds,
        timeout_seconds=timeout,
        earlier=EarlierEvents(earlier_events) if earlier_events else None,
        undoes=undo,
    )
    client = ConnectClient(cluster)
    with connected(dsn, pipeline.database.kind) as (connection, driver):
        database = Database(connection, driver, pipeline)
        deployment = Deployment(pipeline, client, database, options, _report)
        plan = deployment.dry_run() if dry_run else deployment.run()
    # A new connector is all additions: worth reading before, not after.
    for change in plan.changes if dry_run or not plan.creates else ():
        click.echo(str(change))
    click.echo(_verdict(pipeline.name, plan, dry_run=dry_run))
    return ExitCode.DIFFERENCES if dry_run and not plan.is_empty else ExitCode.DONE


def _verdict(name: str, plan: Plan, *, dry_run: bool) -> str:
    if plan.is_empty:
        return f"{name}: nothing to change"
    if not dry_run:
        return f"{name}: deployed"
    return f"{name}: would be {'created' if plan.creates else f'changed: {plan}'}"


def _report(step: str, text: str) -> None:
    click.echo(f"{step:<10} {text}", err=True)
