"""``cdc-outbox preflight`` and ``cdc-outbox doctor``."""

import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from cdc_outbox.cli.arguments import spec_argument, specs_argument
from cdc_outbox.cli.brokers import broker_options, broker_settings
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.files import files_of
from cdc_outbox.cli.findings import FORMATS, output_options, strict_option, sum_up, tell
from cdc_outbox.cli.heartbeats import heartbeat_findings, require_client
from cdc_outbox.cli.options import connect_url_option, dsns_option, read_spec
from cdc_outbox.cli.output import ExitCode, in_columns, say
from cdc_outbox.cli.probe import DATABASE, probe
from cdc_outbox.cli.progress import Steps
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.preflight import LOOKS, ask_connect
from cdc_outbox.connect.timings import Timings
from cdc_outbox.debezium.render import render
from cdc_outbox.errors import ConfigError
from cdc_outbox.finding import Finding, errors_in
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.operations.doctor import Doctor, Systems
from cdc_outbox.redaction import visible
from cdc_outbox.spec import Spec


@click.command(short_help="Find what is wrong with a pipeline's database.")
@specs_argument
@dsns_option(required=True)
@connect_url_option(required=False, note="; without it nothing is said about stored offsets")
@broker_options(required=False)
@output_options
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
      cdc-outbox preflight connectors/orders.yaml connectors/billing.yaml --report sarif > findings.sarif
    """
    steps = Steps(sys.stderr)
    client = ConnectClient(cluster, waits=steps.wait) if cluster else None
    with steps.shown():
        findings: list[Finding] = []
        for path in files_of(paths):
            spec = read_spec(path)
            findings += _look(path, spec, databases, client, bootstrap_servers)
            # Where Connect is not asked either, its note says that not everything was looked at.
            if bootstrap_servers is not None or client is not None:
                dsn = databases.of(spec.name)
                shown = heartbeat_findings(render(spec), bootstrap_servers, kafka_settings, dsn, client=client)
                findings += (_at(path, finding) for finding in shown)
    return tell(findings, output=output, strict=strict)


def _look(
    path: Path, spec: Spec, databases: Databases, client: ConnectClient | None, bootstrap_servers: str | None
) -> Iterator[Finding]:
    """Yield what is found about one spec."""
    look = LOOKS.get(spec.database.kind)
    if look is None:
        raise ConfigError(
            f"a preflight looks at {', '.join(LOOKS)}, not at {spec.database.kind}", field="database.kind"
        )
    require_client(render(spec), bootstrap_servers)
    with connected(databases.of(spec.name), spec.database.kind, spec=path) as (connection, driver):
        for finding in look(spec, connection, driver, partial(ask_connect, spec.name, client)):
            yield _at(path, finding)


def _at(path: Path, finding: Finding) -> Finding:
    """Return a finding at the file of its spec, so that several are told apart and annotations have a place."""
    return replace(finding, location=replace(finding.location, document=str(path)))


_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())  # what librdkafka says is in the finding
_HEAD = ("SEVERITY", "CODE", "WHERE", "FINDING")


@click.command(short_help="Diagnose a pipeline, from the table to the topics.")
@spec_argument
@dsns_option(required=False, note="; without it the database is not asked")
@connect_url_option(required=False, note="; without it Connect is not asked")
@broker_options(required=False)
@output_options
@strict_option
def doctor(
    spec: Path,
    *,
    databases: Databases | None,
    cluster: Cluster | None,
    bootstrap_servers: str | None,
    kafka_settings: Path | None,
    output: str,
    strict: bool,
) -> ExitCode:
    """Report everything that is wrong with a pipeline, and change nothing.

    The findings are those of `lint`, `preflight`, `plan`, `status`, `init --check` and `topics create`, each cause
    once, the worst first, with its remedy. A system that does not answer within 7 s, or whose address is not given, is
    a finding itself, and the others are asked all the same. For what consumers have applied, run
    `verify --consumer NAME`.

    Exit codes: 0 no errors (there may be warnings and notes), 1 errors, 2 a wrong spec, 75 no other error than that
    a database, a broker or Connect does not answer and may do so later; with --strict also 3, warnings and no errors.

    \b
    Examples:
      cdc-outbox doctor connectors/orders.yaml
      cdc-outbox doctor connectors/orders.yaml --context production --output json
    """
    pipeline = read_spec(spec)
    settings = None
    if bootstrap_servers is not None:
        settings = broker_settings(bootstrap_servers, kafka_settings, group="cdc-outbox doctor")
    # Without a DSN the database is not asked: the doctor reports that as a finding.
    dsn = None if databases is None else databases.find(pipeline.name)
    probed = probe(cluster=cluster, dsns={DATABASE: dsn} if dsn else {}, brokers=settings)
    steps = Steps(sys.stderr)
    systems = Systems(
        connect=None if probed.cluster is None else ConnectClient(probed.cluster, waits=steps.wait),
        database=None
        if databases is None
        else lambda: connected(databases.of(pipeline.name), pipeline.database.kind, spec=spec),
        brokers=None if settings is None else Topics(settings, _LOG),
        kafka_settings=settings,
        silent=probed.silent,
    )
    timings = Timings() if cluster is None else cluster.timings
    asked = Doctor(pipeline, systems, timings=replace(timings, timeout_seconds=timings.known_seconds))
    with steps.shown():
        findings = asked.look()
    text = "\n".join(_table(findings)) if output == "text" else FORMATS[output](findings)
    if text:
        say(text, script=output == "ci")
    end = sum_up(findings, strict=strict)
    passes = all(error.retryable for error in asked.silences)
    only_silence = all(finding.code == "OP101" for finding in errors_in(tuple(findings)))
    return ExitCode.RETRY if end is ExitCode.FAILED and only_silence and passes else end


def _table(findings: Sequence[Finding]) -> Iterator[str]:
    if not findings:
        return
    rows = ((str(each.severity), each.code, str(each.location), each.message) for each in findings)
    head, *lines = in_columns([_HEAD, *rows])
    yield head
    indent = " " * head.index(_HEAD[-1])
    for line, each in zip(lines, findings, strict=True):
        yield line
        if each.remedy:
            yield visible(f"{indent}{each.remedy}")
