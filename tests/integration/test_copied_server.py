"""Two servers with the same data folder, and a relay for each: one of them publishes."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox import Event, Outbox
from cdc_outbox.relay import NotThePublisherError, make_relay
from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.own_server import OwnServer
from tests.support.relay_thread import RelayThread
from tests.support.rig import eventually, one, open_folder


@pytest.fixture
def own(outbox_stack: Stack) -> Iterator[OwnServer]:
    """A server whose outbox a connector has published, and a relay publishes from now on."""
    with open_folder() as folder, OwnServer.started(outbox_stack, folder, f"c{uuid4().hex[:10]}") as server:
        server.pipeline.write(3)
        eventually(lambda: len(server.published_ids()) == 3, "the connector's events")
        server.pipeline.client.stop(server.pipeline.name)
        eventually(lambda: server.run("relay", "--create-slot", "--take-over").returncode == 0, "the slot to be free")
        yield server


def relay(own: OwnServer, dsn: str = "") -> RelayThread:
    """Return a relay that reads from the server, or from another one."""
    kafka = own.pipeline.stack.broker.bootstrap_servers
    return RelayThread(make_relay(own.pipeline.spec, dsn=dsn or own.pipeline.dsn, kafka=kafka))


def write(own: OwnServer, dsn: str = "") -> str:
    """Write an event, and return its id."""
    with psycopg.connect(dsn or own.pipeline.dsn) as connection:
        event = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={})
        return str(Outbox(spec=own.pipeline.spec).add(connection, event).id)


def wait_for_publication(own: OwnServer, running: RelayThread, dsn: str = "") -> None:
    """Wait until an event that is written now is published, and the newest heartbeat too."""
    written = write(own, dsn)
    eventually(lambda: running.error or written in own.published_ids(), "the event")
    assert running.error is None
    with psycopg.connect(dsn or own.pipeline.dsn, autocommit=True) as connection:
        newest = str(one(connection, "select id from outbox_heartbeats order by number desc limit 1"))
    eventually(lambda: newest in own.published_heartbeats(), "the heartbeat")


def refused(own: OwnServer, dsn: str = "") -> NotThePublisherError:
    """Return why a relay does not publish, which it tells before it publishes anything."""
    written = write(own, dsn)
    with relay(own, dsn) as running:
        eventually(lambda: running.error, "the relay to refuse")
    assert isinstance(running.error, NotThePublisherError)
    assert written not in own.published_ids()
    return running.error


def test_of_two_servers_with_the_same_data_one_publishes(own: OwnServer) -> None:
    with relay(own) as running:
        wait_for_publication(own, running)
    data = own.copy("copy")
    with own.beside("copied", data) as copied:
        original = own.pipeline.dsn
        with relay(own, original) as first, relay(own, copied) as second:
            eventually(lambda: first.error or second.error, "one of them to refuse", seconds=60)
            goes_on, stays_away = (second, copied), original
            if second.error is not None:
                goes_on, stays_away = (first, original), copied
            assert isinstance(first.error or second.error, NotThePublisherError)
            late = write(own, stays_away)
            wait_for_publication(own, *goes_on)
            assert str(refused(own, stays_away)).startswith("Kafka contains heartbeat ")
        assert goes_on[0].error is None
        with relay(own, goes_on[1]) as again:
            wait_for_publication(own, again, goes_on[1])
        assert late not in own.published_ids()


def test_a_relay_whose_database_went_back_does_not_publish(own: OwnServer) -> None:
    data = own.copy("snapshot")
    with relay(own) as running:
        wait_for_publication(own, running)
    own.restore(data)
    assert "restored to an older state" in str(refused(own))
    environment = {
        "CDC_OUTBOX_DSN": own.pipeline.dsn,
        "CDC_OUTBOX_BOOTSTRAP_SERVERS": own.pipeline.stack.broker.bootstrap_servers,
    }
    found = run_command("recover", own.spec, env=environment)
    assert (found.returncode, "OP401" in found.stdout) == (1, True), found.stderr
    accepted = run_command("recover", own.spec, "--accept", env=environment)
    assert accepted.returncode == 0, accepted.stderr
    with relay(own) as running:
        wait_for_publication(own, running)
    assert run_command("recover", own.spec, env=environment).returncode == 0


def test_a_relay_goes_on_where_the_heartbeats_are_the_databases_own(own: OwnServer) -> None:
    topic = own.pipeline.spec.heartbeat_topic
    assert topic is not None
    for _ in range(2):
        with relay(own) as running:
            wait_for_publication(own, running)
    own.pipeline.stack.broker.delete_topics(topic)
    with own.pipeline.connect() as connection:
        connection.execute("update outbox_heartbeats set written_at = written_at - interval '2 days'")
    for _ in range(2):
        with relay(own) as running:
            wait_for_publication(own, running)
            eventually(lambda running=running: running.relay.progress().events == 1, "the report of the event")  # type: ignore[misc]
