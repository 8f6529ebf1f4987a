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


@click.command()
@specs_argument
@dsns_option(required=True)
@connect_url_option(required=False, note="; without it, stored offsets are not checked")
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
    """Check a pipeline's database before a deployment.

    The command finds what would prevent the connectors from publishing every event, and changes nothing. It reads the
    server's settings, the role, the table, the publication, the slot, and the WAL or binlog; from Connect, the stored
    offsets; from the brokers, the heartbeats, which show whether the database went back to an older state. Each part
    that cannot be read is reported as a note. All transactions are read-only. Reading a slot does not move it, but
    takes up to half a minute, during which no other process can read the slot.

    DSN is the outbox's database, shared by all SPECs, as this machine reaches it. Its role must be able to read the
    outbox, its head table, the statistics and the contents of slots. On PostgreSQL that is a superuser, or a role with
    REPLICATION and pg_read_all_stats; on MariaDB and MySQL, a user that can also read the system database `mysql`.

    Exit codes: 0 no errors (there may be warnings and notes), 1 errors, 2 an invalid spec or DSN, 75 try again later;
    with --strict also 3, warnings but no errors. Notes never change the exit code.

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
        raise ConfigError(f"preflight supports {', '.join(LOOKS)}, not {spec.database.kind}", field="database.kind")
    require_client(render(spec), bootstrap_servers)
    with connected(databases.of(spec.name), spec.database.kind, spec=path) as (connection, driver):
        for finding in look(spec, connection, driver, partial(ask_connect, spec.name, client)):
            yield _at(path, finding)


def _at(path: Path, finding: Finding) -> Finding:
    """Return a finding at the file of its spec, so that several can be distinguished and annotations have a place."""
    return replace(finding, location=replace(finding.location, document=str(path)))


_LOG = logging.getLogger(__name__)
_LOG.addHandler(logging.NullHandler())  # what librdkafka says is in the finding
_HEAD = ("SEVERITY", "CODE", "WHERE", "FINDING")


@click.command()
@spec_argument
@dsns_option(required=False, note="; without it, the database is not checked")
@connect_url_option(required=False, note="; without it, Connect is not checked")
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
    """Diagnose a pipeline, from the table to the topics.

    The report has the findings of `lint`, `preflight`, `plan`, `status`, `init --check` and `topics create`: each cause
    once, the most severe first, with its remedy. Nothing is changed. A system whose address is not given, or that does
    not answer within 7 s, is reported as a finding; the other systems are still checked. To check consumers, run
    `verify --consumer NAME`.

    Exit codes: 0 no errors (there may be warnings and notes), 1 errors, 2 an invalid spec, 75 the only errors are that
    a database, a broker or Connect does not answer: try again later; with --strict also 3, warnings but no errors.

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
