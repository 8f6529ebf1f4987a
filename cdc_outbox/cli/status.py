"""``cdc-outbox status``."""

import logging
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.arguments import optional_connectors_argument
from cdc_outbox.cli.brokers import broker_options, broker_settings
from cdc_outbox.cli.connectors import each_of, name_of, names_of, specs_of
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected
from cdc_outbox.cli.heartbeats import heartbeat_findings, slot_findings
from cdc_outbox.cli.options import connect_url_option, dsns_option, json_option
from cdc_outbox.cli.output import ExitCode, document, in_columns, say
from cdc_outbox.cli.probe import BROKERS, CONNECT, DATABASE, ProbeResult, UnreadParts, probe
from cdc_outbox.cli.progress import Steps
from cdc_outbox.cli.times import Duration
from cdc_outbox.connect.client import ConnectClient, ConnectorStatus
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.lifecycle import OWED, PAY
from cdc_outbox.connect.spec_checks import another_outbox
from cdc_outbox.connect.wait import Condition, condition_of, describe, trace_of
from cdc_outbox.contract.topics import HEARTBEATS
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.databases.publishers import Publisher, Publishers
from cdc_outbox.databases.slots import read_slots
from cdc_outbox.debezium.config import kind_of, slot_of
from cdc_outbox.debezium.diagnosis import diagnosis_of
from cdc_outbox.debezium.render import owes_rows
from cdc_outbox.errors import ConnectorNotFoundError, DatabaseAccessError
from cdc_outbox.finding import Finding
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.redaction import visible
from cdc_outbox.spec import Spec

_HEAD = ("CONNECTOR", "STATE", "TASKS", "SLOT", "NOT CONFIRMED", "BEHIND", "WAL KEPT")
_RATE = "EVENTS/S"
_RELAY_HEAD = ("RELAY", "STATE", "INSTANCE", "EPOCH", "SLOT", "NOT CONFIRMED", "BEHIND", "WAL KEPT")
_NEEDS_CONNECT = "status needs --connect-url (or CDC_OUTBOX_CONNECT_URL), or --dsn and specs that a relay publishes"
_UNPUBLISHED = "Run `cdc-outbox verify SPEC` to list the events that were not published."
_LOG = logging.getLogger(__name__)


@click.command()
@optional_connectors_argument
@dsns_option(required=False, note="; without it, slots are not shown")
@connect_url_option(required=False, note="; without it, only relays are shown")
@broker_options(required=False)
@click.option(
    "--rates",
    "rate_seconds",
    type=Duration("100ms"),
    metavar="DURATION",
    help="Measure events per second: read the end offsets of the topics twice, with this time between. "
    "Needs the brokers.",
)
@json_option()
def status(
    connectors: tuple[str, ...],
    *,
    databases: Databases | None,
    cluster: Cluster | None,
    bootstrap_servers: str | None,
    kafka_settings: Path | None,
    rate_seconds: float | None,
    prints_json: bool,
) -> ExitCode:
    """Show the state of connectors, tasks, slots and relays.

    Without arguments, all connectors are shown. Below the table, each failure is shown with its cause and a remedy.

    NOT CONFIRMED is the amount of WAL that the connector has not confirmed. WAL KEPT is the amount of WAL that the slot
    keeps on the database's disk. BEHIND is the delay of the connector's last confirmation (- while it is idle), or the
    time since its slot was last read.

    With --dsn, slot and offset are compared. With brokers, the heartbeats are read. Findings are shown below the table;
    a connector that reads a different outbox from that of its SPEC is also a finding.

    With --dsn, a SPEC whose outbox a relay publishes is shown in a table of relays: INSTANCE is the process that read
    the slot last, and EPOCH how often the publisher has changed.

    Exit codes: 0 all connectors, tasks and relays run, 1 one of them does not run, there are findings, or a part of the
    report cannot be read, 75 try again later: a system does not answer, and the rest of the report has no findings.

    \b
    Examples:
      cdc-outbox status
      cdc-outbox status connectors/orders.yaml --context production --output json
      cdc-outbox status orders --rates 5s
    """
    if cluster is None and (databases is None or not connectors):
        raise click.UsageError(_NEEDS_CONNECT)
    if rate_seconds is not None and bootstrap_servers is None:
        raise click.UsageError("--rates needs --bootstrap-servers (or CDC_OUTBOX_BOOTSTRAP_SERVERS)")
    settings = None
    if bootstrap_servers is not None:
        settings = broker_settings(bootstrap_servers, kafka_settings, group="cdc-outbox status")
    unread = UnreadParts()
    probed = _probed(cluster, databases, settings, unread, has_rates=rate_seconds is not None)
    databases = None if DATABASE in probed.silent else databases
    bootstrap_servers = None if BROKERS in probed.silent else bootstrap_servers
    steps = Steps(sys.stderr)
    client = ConnectClient(probed.cluster, waits=steps.wait) if probed.cluster else None
    with steps.shown():
        specs = specs_of(connectors)
        relays = _find_relays(specs.values(), databases, unread)
        names = _names_of(connectors, client, {row["name"] for row in relays}, unread)
        known = _without_silent(names, databases, unread)
        rows = list[dict[str, Any]]()
        if client is not None:
            for name, own in known.items():
                spec = specs.get(name)
                rows.append(row := _row(name, client, own, unread))
                if spec is not None or databases is not None or bootstrap_servers is not None:
                    row["findings"] = _found(
                        row, client, spec, own, unread, brokers=bootstrap_servers, kafka_settings=kafka_settings
                    )
    if rate_seconds is not None and client is not None:
        _add_rates(rows, client, Topics(settings or {}, _LOG), rate_seconds, unread)
    if prints_json:
        say(document("Status", {"connectors": rows, "relays": relays}))
    elif rows or relays:
        say("\n\n".join("\n".join(table(shown)) for table, shown in ((_table, rows), (_relay_table, relays)) if shown))
    else:
        say("there are no connectors; `cdc-outbox deploy-connector SPEC` creates one", err=True)
    is_well = all(row["up"] and not row.get("findings") for row in [*rows, *relays])
    return unread.code if is_well else ExitCode.FAILED


def _names_of(
    connectors: Sequence[str], client: ConnectClient | None, relayed: Set[str], unread: UnreadParts
) -> list[str]:
    """Return the names of connectors; one whose outbox a relay publishes need not exist."""
    if client is not None:
        return names_of(connectors, client, optional=relayed)
    if unread.code is ExitCode.DONE and not {name_of(each) for each in each_of(connectors)} <= relayed:
        raise click.UsageError(_NEEDS_CONNECT)
    return []


def _probed(
    cluster: Cluster | None,
    databases: Databases | None,
    settings: dict[str, Any] | None,
    unread: UnreadParts,
    *,
    has_rates: bool,
) -> ProbeResult:
    """Return which systems answer; without Connect only relays are shown, which the database knows."""
    # If each pipeline has its own database, Connect lists the pipelines first; `_without_silent` probes the databases.
    shared = None if databases is None or databases.by_pipeline else databases.find("")
    probed = probe(cluster=cluster, dsns={DATABASE: shared} if shared else {}, brokers=settings)
    probed.refuse(DATABASE if cluster is None else CONNECT, *([BROKERS] if has_rates else []))
    for error in probed.silent.values():
        unread.add(f"{error}; this part of the report is missing", error)
    return probed


def _without_silent(
    names: Sequence[str], databases: Databases | None, unread: UnreadParts
) -> dict[str, Databases | None]:
    """Return the databases for each connector, ``None`` where its own is silent or unknown."""
    if databases is None or not databases.by_pipeline:
        return dict.fromkeys(names, databases)
    dsns = {name: dsn for name in names if (dsn := databases.find(name))}
    silent = probe(dsns=dsns).silent
    for name, error in silent.items():
        unread.add(f"{name}: {error}; this part of the report is missing", error)
    without = [name for name in names if not databases.has(name)]
    for name in without:  # as without --dsn
        say(visible(f"{name}: the context has no DSN for it; its slot is not shown"), err=True)
    return {name: None if name in {*silent, *without} else databases for name in names}


def _row(name: str, client: ConnectClient, databases: Databases | None, unread: UnreadParts) -> dict[str, Any]:
    try:
        found: ConnectorStatus | None = client.find_status(name)
    except ConnectorNotFoundError:  # not known yet
        found = None
    config = client.find_config(name) or {}
    trace = trace_of(found)
    cause, owes = diagnosis_of(trace), owes_rows(config)
    sentence, remedy = ("", "") if cause is None else (cause.sentence, cause.remedy)
    if owes and not trace:
        sentence, remedy = f"It has not published all rows: {OWED}.", PAY
    slot = None
    with unread.reading(name, "slot"):
        slot = _find_slot(name, config, databases)
    return {
        "name": name,
        "up": condition_of(found) is Condition.UP and not owes,
        "owesRows": owes,
        "state": "UNKNOWN" if found is None else found.state,
        "tasks": [
            {"id": task.id, "state": task.state, "worker": task.worker} for task in (found.tasks if found else ())
        ],
        "says": describe(found),
        "version": "" if found is None else found.version,
        **_slot_fields(slot),
        "cause": sentence,
        "remedy": remedy,
        "trace": trace,
    }


def _slot_fields(slot: SlotFacts | None) -> dict[str, Any]:
    return {
        "slot": None if slot is None else slot.name,
        "slotActive": None if slot is None else slot.active,
        "unconfirmedBytes": None if slot is None else slot.unconfirmed_bytes,
        "behindSeconds": None if slot is None else slot.lag_seconds,
        "keptBytes": None if slot is None else slot.kept_bytes,
    }


def _find_relays(specs: Iterable[Spec], databases: Databases | None, unread: UnreadParts) -> list[dict[str, Any]]:
    """Return the rows of specs whose outbox a relay publishes, as far as the database says so and the role may ask."""
    rows = []
    for spec in specs:
        dsn = None if databases is None else databases.find(spec.name)
        if dsn is not None and spec.database.kind is DatabaseKind.POSTGRESQL:
            with (
                unread.reading(spec.name, "publisher"),
                suppress(DatabaseAccessError),
                connected(dsn, DatabaseKind.POSTGRESQL) as (connection, driver),
            ):
                publisher = Publishers(connection, driver, spec.outbox.publishers).find()
                if publisher is not None and publisher.kind.is_relay:
                    name = publisher.slot or spec.database.slot
                    slot = read_slots(connection, driver).find(name)
                    rows.append(_relay_row(spec.name, name, publisher, slot))
    return rows


def _relay_row(name: str, slot_name: str, publisher: Publisher, slot: SlotFacts | None) -> dict[str, Any]:
    state, cause, remedy = "READING", "", ""
    if slot is None:
        state, cause, remedy = "NO SLOT", f"The slot {slot_name} does not exist.", _UNPUBLISHED
    elif slot.is_unread:
        state, cause = "NOT RUNNING", "No relay reads the slot, and the server keeps WAL for it."
        remedy = "Start `cdc-outbox relay SPEC`; its log has the reason if it ended."
    elif not slot.active:
        state, cause, remedy = "SLOT LOST", "The server removed WAL that the slot needs.", _UNPUBLISHED
    elif not slot.is_relayed:
        state = "STANDBY"
        cause = f"Process {slot.reader} ({slot.reader_name or 'unnamed'}) reads the slot, and is no relay."
        remedy = "Stop it: a relay starts when the slot is free."
    return {
        "name": name,
        "up": state == "READING",
        "state": state,
        "publisher": publisher.kind.value,
        "instance": publisher.instance,
        "epoch": publisher.epoch,
        **_slot_fields(slot),
        "slot": slot_name,
        "cause": cause,
        "remedy": remedy,
    }


def _found(
    row: dict[str, Any],
    client: ConnectClient,
    spec: Spec | None,
    databases: Databases | None,
    unread: UnreadParts,
    *,
    brokers: str | None,
    kafka_settings: Path | None,
) -> list[dict[str, str]]:
    """Return whether a connector is its spec's, and what its slot and offset show, and its heartbeats."""
    name, found = row["name"], list[Finding]()

    def differ() -> list[Finding]:
        return [] if spec is None else [*another_outbox(spec, client.find_config(name))]

    def compare() -> list[Finding]:
        config = client.find_config(name) or {}
        return [] if databases is None else slot_findings(client, config, databases.of(name))

    def look() -> list[Finding]:
        if brokers is None:
            return []
        dsn = None if databases is None else databases.of(name)
        config = client.find_config(name) or {}
        return heartbeat_findings(config, brokers, kafka_settings, dsn, runs=row["up"])

    for what, finding in (("configuration", differ), ("offset", compare), ("heartbeats", look)):
        with unread.reading(name, what):
            found += finding()
    return [{"code": each.code, "message": each.message, "remedy": each.remedy} for each in found]


def _add_rates(
    rows: list[dict[str, Any]], client: ConnectClient, brokers: Topics, seconds: float, unread: UnreadParts
) -> None:
    """Add how many messages came to each connector's topics; its heartbeats are none."""
    topics = dict[str, list[str]]()
    for name in (row["name"] for row in rows):
        topics[name] = []
        with unread.reading(name, "topics"):
            topics[name] = [topic for topic in client.find_topics(name) if not topic.startswith(HEARTBEATS)]
    every = [topic for each in topics.values() for topic in each]
    before, began = brokers.ends(every), time.monotonic()
    time.sleep(seconds)
    after = brokers.ends(every)
    lasted = time.monotonic() - began
    for row in rows:
        row["topics"] = [
            {
                "name": topic,
                "messages": after[topic],
                "perSecond": round((after[topic] - before.get(topic, 0)) / lasted, 3),
            }
            for topic in topics[row["name"]]
            if topic in after
        ]


def _find_slot(name: str, config: dict[str, str], databases: Databases | None) -> SlotFacts | None:
    """Return the slot of a connector, where there is one and its database is named."""
    if databases is None or kind_of(config) is not DatabaseKind.POSTGRESQL:
        return None
    with connected(databases.of(name), DatabaseKind.POSTGRESQL) as (connection, driver):
        return read_slots(connection, driver).find(slot_of(config))


def _table(rows: list[dict[str, Any]]) -> Iterator[str]:
    has_rates = any("topics" in row for row in rows)
    head = (*_HEAD, _RATE) if has_rates else _HEAD
    cells = [head, *((*_cells(row), _rate(row)) if has_rates else _cells(row) for row in rows)]
    for line, row in zip(in_columns(cells), [None, *rows], strict=True):
        yield line
        if row is not None and (row["trace"] or row["cause"]):
            first = row["cause"] or row["trace"].splitlines()[0]
            yield visible(f"    {first} {row['remedy']}".rstrip())
        for each in row.get("findings", ()) if row is not None else ():
            yield visible(f"    {each['code']}: {each['message']} {each['remedy']}")


def _relay_table(rows: list[dict[str, Any]]) -> Iterator[str]:
    cells = [
        (row["name"], row["state"], row["instance"] or "-", str(row["epoch"]), row["slot"], *_lag_cells(row))
        for row in rows
    ]
    for line, row in zip(in_columns([_RELAY_HEAD, *cells]), [None, *rows], strict=True):
        yield line
        if row is not None and row["cause"]:
            yield visible(f"    {row['cause']} {row['remedy']}")


def _lag_cells(row: dict[str, Any]) -> tuple[str, str, str]:
    return _bytes(row["unconfirmedBytes"]), _seconds(row["behindSeconds"]), _bytes(row["keptBytes"])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    counts = sorted(Counter(task["state"] for task in row["tasks"]).items())
    tasks = ", ".join(f"{count} {state}" for state, count in counts) or "none"
    active = "" if row["slotActive"] in {None, True} else " (no reader)"
    slot = "-" if row["slot"] is None else f"{row['slot']}{active}"
    return (
        row["name"],
        row["state"],
        tasks,
        slot,
        *_lag_cells(row),
    )


def _rate(row: dict[str, Any]) -> str:
    return f"{sum(topic['perSecond'] for topic in row['topics']):,.1f}"


def _seconds(lag: float | None) -> str:
    return "-" if lag is None else f"{lag:.3f} s" if lag < 1 else f"{lag:,.0f} s"


def _bytes(count: int | None) -> str:
    if count is None:
        return "-"
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.1f} {units[0]}"
