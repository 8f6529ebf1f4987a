"""``cdc-outbox preflight``."""

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from cdc_outbox.cli.brokers import broker_options
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.findings import output_option, strict_option, tell
from cdc_outbox.cli.heartbeats import heartbeat_findings, require_client
from cdc_outbox.cli.options import connect_url_option, dsns_option, read_spec
from cdc_outbox.cli.specs import files_of, specs_argument
from cdc_outbox.cli.steps import Steps
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.preflight.look import LOOKS
from cdc_outbox.connect.render import render
from cdc_outbox.errors import ConfigError
from cdc_outbox.finding import Finding
from cdc_outbox.spec import Spec


@click.command(short_help="Find what is wrong with a pipeline's database.")
@specs_argument
@dsns_option(required=True)
@connect_url_option(required=False, note="; without it nothing is said about stored offsets")
@broker_options(required=False)
@output_option
@strict_option
def preflight(
    paths: tuple[Path, ...],
    *,
    databases: Databases,
    cluster: Cluster | None,
    bootstrap_servers: str | None,
    kafka_settings: Path | None,
    output: str,
    strict: bool,
) -> int:
    """Find what would keep the connectors of SPECs from publishing every event, and change nothing.

    A folder stands for its specs. Server, role, table, publication, slot and log are asked, Connect for the offsets
    that it has stored, and the brokers for the heartbeats, which tell whether the database went back. What could not be
    asked is told as a note. The transactions of the connection are read-only; a slot is looked into without moving it,
    and while that lasts, half a minute at most, no other process can read it.

    DSN is the outbox's database, which several SPECs share, as this machine reaches it, for a role that may read
    outbox, heads and statistics and look into slots: on PostgreSQL a superuser, or REPLICATION and pg_read_all_stats;
    on MariaDB and MySQL one that may also read the database mysql.

    Exit codes: 0 no errors (there may be warnings and notes), 1 errors, 2 a wrong spec or DSN, 75 try again later; with
    --strict also 3, warnings and no errors. Notes never change it.

    \b
    Examples:
      cdc-outbox preflight connectors/orders.yaml
      cdc-outbox preflight connectors/orders.yaml connectors/billing.yaml --output sarif > findings.sarif
    """
    steps = Steps(sys.stderr)
    client = ConnectClient(cluster, waits=steps.wait) if cluster else None
    with steps.shown():
        findings: list[Finding] = []
        for path in files_of(paths):
            spec = read_spec(path)
            require_client(render(spec), bootstrap_servers)
            findings += _look(path, spec, databases, client)
            # Where Connect is not asked either, its note says that not everything was looked at.
            if bootstrap_servers is not None or client is not None:
                dsn = databases.of(spec.name)
                shown = heartbeat_findings(render(spec), bootstrap_servers, kafka_settings, dsn, client=client)
                findings += (_at(path, finding) for finding in shown)
    return tell(findings, output=output, strict=strict)


def _look(path: Path, spec: Spec, databases: Databases, client: ConnectClient | None) -> Iterator[Finding]:
    """Yield what is found about one spec."""
    look = LOOKS.get(spec.database.kind)
    if look is None:
        raise ConfigError(
            f"a preflight looks at {', '.join(LOOKS)}, not at {spec.database.kind}", field="database.kind"
        )
    with connected(databases.of(spec.name), spec.database.kind, spec=path) as (connection, driver):
        for finding in look(spec, connection, driver, client):
            yield _at(path, finding)


def _at(path: Path, finding: Finding) -> Finding:
    """Return a finding at the file of its spec, so that several are told apart and annotations have a place."""
    return replace(finding, place=replace(finding.place, document=str(path)))
