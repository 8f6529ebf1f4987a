"""Debezium and a relay on one slot: only the one that the outbox's row names publishes."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from cdc_outbox.backoff import Backoff
from cdc_outbox.databases.publishers import Publisher, PublisherKind
from cdc_outbox.errors import CdcOutboxError, ConnectorInvalidError
from cdc_outbox.relay.postgresql_server import PostgresqlServer
from cdc_outbox.relay.relay import Relay
from cdc_outbox.relay.relay_errors import NotThePublisherError
from cdc_outbox.relay.wal_source import WalSource
from tests.support.commands import connect_of, run_command
from tests.support.pipeline import Pipeline
from tests.support.publishers import declare, publishers_of
from tests.support.relay_parts import MemoryTopic, NamedRoutes
from tests.support.rig import eventually
from tests.support.threads import Threads

RELAY = "the relay"


def publisher(pipeline: Pipeline) -> Publisher | None:
    with pipeline.connect() as connection:
        return publishers_of(connection, pipeline.spec.outbox).find()


def hand_to(pipeline: Pipeline, kind: PublisherKind) -> None:
    with pipeline.connect() as connection:
        declare(connection, pipeline.spec.outbox, kind, pipeline.spec.database.slot)


def source_of(pipeline: Pipeline) -> WalSource:
    slot, publication = pipeline.spec.database.slot, pipeline.spec.database.publication
    server = PostgresqlServer(pipeline.dsn, pipeline.spec.outbox, slot=slot, publication=publication, name=RELAY)
    return WalSource(server, NamedRoutes(), slot=slot, publication=publication)


@contextmanager
def standing_by(pipeline: Pipeline) -> Iterator[list[CdcOutboxError]]:
    """Run a relay that is started again whenever it ends, as a supervisor does; yield what ended it."""
    errors, ended = list[CdcOutboxError](), threading.Event()
    relays = list[Relay]()

    def run() -> None:
        while not ended.is_set():
            topic = MemoryTopic()
            relays.append(
                Relay(source_of(pipeline), topic.open, retries=Backoff(first_seconds=0.05, longest_seconds=0.1))
            )
            try:
                relays[-1].run()
            except CdcOutboxError as error:
                errors.append(error)
                ended.wait(0.05)

    with Threads() as threads:
        threads.submit(run)
        try:
            yield errors
        finally:
            ended.set()
            for relay in relays:
                relay.stop()


@pytest.fixture
def environment(deployed: Pipeline) -> dict[str, str]:
    return connect_of(deployed.stack) | {"CDC_OUTBOX_DSN": deployed.dsn}


def test_a_deployment_names_debezium_once(deployed: Pipeline) -> None:
    found = publisher(deployed)
    assert found is not None
    assert (found.kind, found.slot, found.epoch) == (PublisherKind.DEBEZIUM, deployed.spec.database.slot, 1)
    assert deployed.deploy().is_empty
    assert publisher(deployed) == found


def test_a_relay_that_stands_by_never_takes_the_slot_of_a_connector_that_restarts(
    deployed: Pipeline, environment: dict[str, str]
) -> None:
    before = publisher(deployed)
    with standing_by(deployed) as errors:
        for attempts in (5, 10):
            done = run_command("restart", deployed.name, env=environment)
            assert done.returncode == 0, done.stderr
            eventually(lambda attempts=attempts: len(errors) > attempts, "the relay to try")  # type: ignore[misc]
    assert publisher(deployed) == before
    assert {type(error) for error in errors} == {NotThePublisherError}
    deployed.write(1)
    eventually(deployed.messages, "an event through the connector")


def test_no_command_lets_a_connector_publish_what_a_relay_publishes(
    deployed: Pipeline, environment: dict[str, str], tmp_path: Path
) -> None:
    spec = tmp_path / f"{deployed.name}.yaml"
    spec.write_text(Pipeline.text(deployed.name))
    hand_to(deployed, PublisherKind.WAL_RELAY)
    for dry_run in (True, False):
        with pytest.raises(ConnectorInvalidError, match="a relay publishes the outbox"):
            deployed.deploy(dry_run=dry_run)
    commands = [
        ["restart", deployed.name],
        ["resume", deployed.name],
        ["offsets", "reset", deployed.name, "--yes"],
        ["offsets", "set", deployed.name, "--to-offset", "0/1", "--yes"],
        ["plan", str(spec)],
    ]
    for command in commands:
        done = run_command(*command, env=environment)
        assert done.returncode == 1, command
        assert "a relay publishes the outbox" in done.stderr, command
        assert f" {deployed.spec.outbox.publishers.quoted} set publisher" in done.stderr


def test_what_a_relay_published_is_no_hole_when_debezium_goes_on(
    deployed: Pipeline, environment: dict[str, str]
) -> None:
    deployed.write(1)
    eventually(deployed.messages, "an event through the connector")
    assert run_command("stop", deployed.name, env=environment).returncode == 0
    hand_to(deployed, PublisherKind.WAL_RELAY)
    deployed.write(2)
    topic = MemoryTopic()
    topic.room = 10
    with closing(source_of(deployed)) as source:
        source.open()
        sink = topic.open()
        unit = None
        # The slot may be one transaction behind what the connector published before it was stopped; and the commit of
        # the last event may come in a unit of its own.
        while unit is not None or not any(value and b"1" in value for value in topic.values):
            unit = source.read(1)
            if unit is not None:
                sink.send(unit, 0)
                sink.poll(1)
    with pytest.raises(ConnectorInvalidError):
        deployed.deploy()
    with deployed.connect() as connection:
        before = publishers_of(connection, deployed.spec.outbox)
        found = before.find()
        assert found is not None
        slot = deployed.spec.database.slot
        kind, confirmed = PublisherKind.DEBEZIUM, found.confirmed
        assert before.declare(kind, slot=slot, confirmed=confirmed, instance="a test", after=found)
    shown = run_command("offsets", "reset", deployed.name, env=environment)
    assert shown.returncode == 0, shown.stderr
    deployed.write(1)
    plan = deployed.deploy()
    assert plan.slot is not None
    eventually(lambda: len(deployed.messages()) >= 2, "the event of Debezium")
    assert [deployed.spec.contract.event_of(each).sequence for each in deployed.messages()] == [1, 4]


def test_a_purge_leaves_no_publisher(deployed: Pipeline, environment: dict[str, str], tmp_path: Path) -> None:
    spec = tmp_path / f"{deployed.name}.yaml"
    spec.write_text(Pipeline.text(deployed.name))
    done = run_command("delete", str(spec), "--purge", "--yes", env=environment)
    assert done.returncode == 0, done.stderr
    assert publisher(deployed) is None
