"""``cdc-outbox relay``."""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import TextIOBase
from pathlib import Path
from typing import Any

import click

from cdc_outbox.cli.arguments import spec_argument
from cdc_outbox.cli.brokers import broker_options, producer_options
from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.database import connected, require_driver
from cdc_outbox.cli.options import acting, dsns_option, read_spec
from cdc_outbox.cli.output import ExitCode, say
from cdc_outbox.cli.probe import BROKERS, probe
from cdc_outbox.cli.running import (
    interrupt,
    listen_option,
    listening,
    log_format_option,
    start_log,
    stop_at_signals,
)
from cdc_outbox.cli.times import Duration
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.slot_plan import EarlierEvents
from cdc_outbox.kafka.garbage import collecting_seldom
from cdc_outbox.kafka.producing import producer_settings
from cdc_outbox.operations.actions import record_action
from cdc_outbox.operations.relay_slot import RelaySlot
from cdc_outbox.redaction import counted
from cdc_outbox.relay import JsonLinesSink, Relay, make_relay
from cdc_outbox.relay.wal_relay import refuse_unrelayable
from cdc_outbox.spec import Spec

_LOG = logging.getLogger("cdc_outbox.relay")


@click.command()
@spec_argument
@dsns_option(required=False, note="; its role needs REPLICATION")
@broker_options(required=False)
@click.option(
    "--sink",
    type=click.Choice(["jsonl", "kafka"]),
    default="kafka",
    show_default=True,
    help="Where messages go: to Kafka, or to stdout as lines of JSON.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Check without changing anything: whether the relay can publish the spec. Needs no server.",
)
@click.option(
    "--no-create-topics",
    is_flag=True,
    help="Create no topics: stop at an event of an aggregate type that has none. See `cdc-outbox topics create`.",
)
@click.option("--create-slot", is_flag=True, help="Create the replication slot if there is none, and exit.")
@click.option(
    "--take-over",
    is_flag=True,
    help="With --create-slot: publish from the slot's position, whatever published before. Delete the connector first.",
)
@click.option(
    "--earlier-events",
    type=click.Choice([way.value for way in EarlierEvents]),
    help="How to handle events that no slot holds: skip them; the relay does not republish them. Default: refuse to "
    "start if there are any.",
)
@click.option(
    "--slot-timeout",
    metavar="DURATION",
    type=Duration(is_open=True),
    default="60s",
    show_default=True,
    help="How long to wait for transactions that are open when the slot is created.",
)
@click.option(
    "--silence-timeout",
    metavar="DURATION",
    type=Duration("1s", "5m"),
    default="30s",
    show_default=True,
    help="How long a connection to database or brokers may be silent before it counts as lost: 1s to 5m.",
)
@click.option("--verbose", "-v", is_flag=True, help="Log in detail.")
@log_format_option
@listen_option("if prometheus-client is installed")
def relay(
    spec: Path,
    *,
    databases: Databases | None,
    bootstrap_servers: str | None,
    kafka_settings: Path | None,
    sink: str,
    check: bool,
    no_create_topics: bool,
    create_slot: bool,
    take_over: bool,
    earlier_events: str | None,
    slot_timeout: float,
    silence_timeout: float,
    verbose: bool,
    log_format: str,
    listen: str | None,
) -> None:
    """Publish without Kafka Connect until SIGTERM or Ctrl-C.

    The relay reads the spec's replication slot on PostgreSQL and publishes the messages that Debezium would publish, to
    the same partitions. It delivers what it has read before it exits. The first start creates the slot, and missing
    topics as the spec describes them. A second process for the same spec stands by and takes over when the first one
    ends.

    A row beside the outbox names its publisher. The first start names the relay there, unless a connector was deployed
    or the slot exists: then the relay refuses. Delete the connector, and run the command once with --create-slot
    --take-over.

    With --sink jsonl, events are printed and confirmed: they are not published to Kafka.

    Exit codes: 0 stopped by a signal, or --check found nothing, 1 refused or failed, 2 an invalid spec, DSN or setting,
    75 database or brokers do not answer at the start. Later outages are waited out.

    \b
    Examples:
      cdc-outbox relay connectors/orders.yaml --check
      cdc-outbox relay connectors/orders.yaml --context production --listen 0.0.0.0:8080
      cdc-outbox relay connectors/orders.yaml --sink jsonl | jq .value
    """
    pipeline = read_spec(spec)
    refuse_unrelayable(pipeline)
    if take_over and not create_slot:
        raise click.UsageError("--take-over needs --create-slot: a relay that starts must not take over unasked")
    if check:
        say(f"{pipeline.name}: the relay can publish it, with the messages that Debezium would publish")
        return
    if earlier_events == EarlierEvents.REPUBLISH:
        raise click.UsageError(
            "the relay cannot republish rows; `cdc-outbox deploy-connector --earlier-events republish` does it"
        )
    if databases is None:
        raise click.UsageError("relay needs --dsn (or CDC_OUTBOX_DSN)")
    if sink == "kafka" and bootstrap_servers is None and not create_slot:
        raise click.UsageError("--sink kafka needs --bootstrap-servers (or CDC_OUTBOX_BOOTSTRAP_SERVERS)")
    dsn = databases.of(pipeline.name)
    require_driver(dsn)
    start_log(log_format, logging.DEBUG if verbose else logging.WARNING)
    if not verbose:
        _LOG.setLevel(logging.INFO)
    running, metrics = None, None
    if not create_slot:
        kafka = producer_options(bootstrap_servers, kafka_settings) if sink == "kafka" else None
        metrics = _metrics() if listen else None
        running = _make(
            pipeline,
            dsn,
            kafka,
            metrics=metrics,
            creates_topics=not no_create_topics,
            silence_seconds=silence_timeout,
        )
    with _interruptible(running), connected(dsn, DatabaseKind.POSTGRESQL) as (connection, driver):
        skips = earlier_events is not None
        slot = RelaySlot(pipeline, connection, driver, skips_earlier=skips, takes_over=take_over, report=_LOG.info)
        slot.prepare(timeout_seconds=slot_timeout)
    if take_over:
        record_action(acting(), "relay", pipeline.name, takes_over=True)
    if running is None:
        return
    try:
        with listening(listen, running, metrics), collecting_seldom():
            running.run()
    finally:
        say(f"{pipeline.name}: {counted(running.progress().events, 'event')} delivered", err=True)


@contextmanager
def _interruptible(running: Relay | None) -> Iterator[None]:
    """Have a signal interrupt the block, which takes back what it began, and end the command."""
    stop_at_signals(interrupt)
    try:
        yield
        if running is not None:
            stop_at_signals(running.stop)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED if running is None else ExitCode.DONE)


def _refuse_brokers(kafka: Mapping[str, Any]) -> None:
    """Refuse settings and brokers that the relay cannot use, before it creates a slot or takes one over.

    Raises:
        ConfigError: A setting would break a promise.
        BrokerError: The brokers do not answer.
    """
    extra = {name: value for name, value in kafka.items() if name != "bootstrap.servers"}
    producer_settings(bootstrap_servers=kafka["bootstrap.servers"], topics=(), extra=extra)
    probe(brokers=kafka, needs_all=True).refuse(BROKERS)


def _make(spec: Spec, dsn: str, kafka: Mapping[str, Any] | None, **options: Any) -> Relay:
    if kafka is not None:
        _refuse_brokers(kafka)
        return make_relay(spec, dsn=dsn, kafka=kafka, **options)
    _LOG.warning("events are printed and confirmed, so that they are not published to Kafka")
    made = make_relay(spec, dsn=dsn, open_sink=lambda: JsonLinesSink(_Stdout(made)), **options)
    return made


class _Stdout(TextIOBase):
    """Standard output; the relay stops when nothing reads it any more."""

    def __init__(self, relay: Relay) -> None:
        super().__init__()
        self._relay = relay

    def write(self, text: str) -> int:
        """Write a line that no program or terminal obeys, because it is JSON in ASCII."""
        try:
            written = sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            self._relay.stop()
            raise
        return written


def _metrics() -> Any:  # noqa: ANN401 - imported late
    """Return what counts for ``/metrics``; ``None`` without prometheus-client."""
    try:
        from cdc_outbox.monitoring.prometheus import PrometheusMetrics  # noqa: PLC0415
    except ImportError:
        return None
    return PrometheusMetrics()
