"""``cdc-outbox delete``."""

import sys
from pathlib import Path

import click

from cdc_outbox.cli.connectors import refuse_unknown, timeout_option
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.options import connect_url_option, dsns_option, read_spec
from cdc_outbox.cli.steps import Steps
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.facts import Database
from cdc_outbox.connect.refusals import refuse_other_kind
from cdc_outbox.connect.retire import Remains, retire, what_stays
from cdc_outbox.errors import ConfigError
from cdc_outbox.spec import Spec


@click.command(short_help="Delete a connector, and say what stays of it.")
@click.argument("spec", type=click.Path(path_type=Path))
@dsns_option(required=False, note="; --purge needs it, for a role that may drop the slot")
@connect_url_option(required=True)
@click.option("--purge", is_flag=True, help="Also forget its offsets and drop its slot, with what is in it.")
@timeout_option
def delete(spec: Path, *, databases: Databases | None, cluster: Cluster, purge: bool, timeout: float) -> None:
    """Delete the connector of SPEC, once it has stopped and noted how far it has read.

    Its slot stays and keeps WAL, and Connect keeps its offsets, so that a connector of the same spec goes on where this
    one ended. With --purge both are removed, the offsets first: what was written and not published yet is never
    published. Publication, tables and topics stay in any case.

    \b
    Examples:
      cdc-outbox delete connectors/orders.yaml
      cdc-outbox delete connectors/orders.yaml --purge
    """
    steps = Steps(sys.stderr)
    pipeline = read_spec(spec)
    client = ConnectClient(cluster, waits=steps.wait)
    with steps.shown():
        client.refuse_kept()
        if purge:
            remains = _purge(pipeline, client, databases, timeout, steps)
        else:
            refuse_unknown(pipeline.name, client.find_names())
            remains = retire(pipeline, client, None, timeout_seconds=timeout, report=steps.report)
    for line in what_stays(pipeline, remains):
        click.echo(line)


def _purge(pipeline: Spec, client: ConnectClient, databases: Databases | None, timeout: float, steps: Steps) -> Remains:
    refuse_other_kind(pipeline)
    if databases is None:
        raise ConfigError("--purge drops the slot, and needs to know in which database", field="--dsn")
    with connected(databases.of(pipeline.name), pipeline.database.kind) as (connection, driver):
        database = Database(connection, driver, pipeline)
        return retire(pipeline, client, database, timeout_seconds=timeout, report=steps.report)
