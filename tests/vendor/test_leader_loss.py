"""Three brokers, of which the only replica in sync dies: what was acknowledged is there, or the finding had said so."""

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from pathlib import Path

import pytest

from cdc_outbox import SequenceMode, WireContract
from cdc_outbox.consumer import Consumer, InboxTable
from cdc_outbox.consumer.inbox_tables import inbox_component
from cdc_outbox.contract.topics import find_loss
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.relay.kafka_sink import KafkaSink
from cdc_outbox.relay.relay_errors import DeliveryError
from cdc_outbox.relay.units import Unit
from cdc_outbox.testing import Stack, StackConfig
from tests.support.broker_cluster import BrokerCluster, PartitionState, running_cluster
from tests.support.rig import eventually
from tests.support.threads import Threads

LOG = logging.getLogger("silent")
SAFE = {"min.insync.replicas": "2"}
UNSAFE = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
PATIENCE = 120.0
"""Seconds; five processes of Java on a busy machine."""


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerCluster]:
    with running_cluster(tmp_path_factory.mktemp("brokers"), Stack(StackConfig(short_lived=True)).jvm) as started:
        yield started


def headers_of(number: int) -> list[tuple[str, bytes | None]]:
    """Return those of an event."""
    return [("id", b"%d" % number), ("eventType", b"Placed"), ("aggregateType", b"order")]


class Numbered:
    """Messages with numbers, given to a sink and a topic of their own."""

    def __init__(self, cluster: BrokerCluster, topic: str) -> None:
        self.topic, self._cluster = topic, cluster
        self._sink = KafkaSink({"bootstrap.servers": cluster.bootstrap_servers}, topics=[topic], logger=LOG)
        self._unit, self._taken = Unit[int](), 0

    def send(self, numbers: range) -> None:
        now = int(time.time() * 1000)
        rows = [(self.topic, b"%d" % number, b"key", -1, now, headers_of(number)) for number in numbers]
        self._unit, self._taken = Unit(rows), 0
        eventually(self._is_taken, "the messages to be taken")  # the first one of a partition goes alone

    def _is_taken(self) -> bool:
        self._sink.poll(0)
        self._taken += self._sink.send(self._unit, self._taken)
        return self._taken == len(self._unit.events)

    @property
    def unreported(self) -> int:
        """How many of those that were sent last are not acknowledged."""
        with suppress(DeliveryError):
            self._sink.poll(0.05)
        return self._unit.undelivered

    def close(self) -> None:
        self._sink.close(0)

    def found(self) -> list[int]:
        """Return the numbers that the topic holds."""
        return [int(message.value or b"") for message in self._cluster.controller.messages(self.topic)]


class Isolation:
    """A topic that can lose messages and one that cannot, whose leader alone is in sync.

    Each topic has messages 0 to 99 on every replica. Messages 100 to 199 were sent to the leader alone, and only the
    topic that can lose them acknowledged them.
    """

    def __init__(self, cluster: BrokerCluster, attempt: int) -> None:
        self._cluster = cluster
        self.safe = self._begin(f"safe-{attempt}", SAFE, is_found=False)
        self.unsafe = self._begin(f"unsafe-{attempt}", UNSAFE, is_found=True)
        self._topics = (self.safe.topic, self.unsafe.topic)
        self.leader = cluster.look(*self._topics)[0].leader
        self.followers = [node for node in cluster.replicas if node != self.leader]

    def _begin(self, topic: str, config: Mapping[str, str], *, is_found: bool) -> Numbered:
        self._cluster.create_topic(topic, config)
        [created] = Topics({"bootstrap.servers": self._cluster.bootstrap_servers}, LOG).find([topic]).values()
        assert (find_loss(created, brokers=len(self._cluster.brokers)) is not None) is is_found
        messages = Numbered(self._cluster, topic)
        messages.send(range(100))
        self._wait(lambda: not messages.unreported, "the first messages to be acknowledged")
        # A replica that was slow for a moment has them too, once it is in sync again.
        self._wait(lambda: self._cluster.is_complete(topic), "the replicas to be in sync")
        return messages

    def arrange(self) -> bool:
        """Pause the followers and send; return whether leader and replicas in sync are what they must be.

        On a busy machine the controller may take a leader for dead, and choose another one, which may be paused.
        """
        for node in self.followers:
            self._cluster.brokers[node].pause()
        self._wait(lambda: self._is_alone() or self._has_moved(), "the followers to fall behind")
        self.safe.send(range(100, 200))
        self.unsafe.send(range(100, 200))
        self._wait(
            lambda: not self.unsafe.unreported or self._has_moved(), "messages to be acknowledged by the leader alone"
        )
        for _ in range(20):
            assert self.safe.unreported == 100
        return self._is_alone()

    def kill_leader(self) -> None:
        """Kill the leader, and wait until a follower leads each topic."""
        self._cluster.brokers[self.leader].kill()
        self.resume()
        self._wait(lambda: {state.leader for state in self._look()} <= {*self.followers}, "the next leaders")

    def resume(self) -> None:
        """Resume the followers."""
        for node in self.followers:
            self._cluster.brokers[node].resume()

    def close(self) -> None:
        for messages in (self.safe, self.unsafe):
            messages.close()

    def _look(self) -> list[PartitionState]:
        return self._cluster.look(*self._topics)

    def _has_moved(self) -> bool:
        return any(state.leader != self.leader for state in self._look())

    def _is_alone(self) -> bool:
        return self._look() == [(self.leader, [self.leader])] * 2

    def _wait(self, holds: Callable[[], object], what: str) -> None:
        eventually(holds, what, seconds=PATIENCE)


@pytest.fixture
def isolation(cluster: BrokerCluster) -> Iterator[Isolation]:
    """Yield two topics whose leader alone is in sync."""
    for attempt in range(5):
        isolation = Isolation(cluster, attempt)
        try:
            if isolation.arrange():
                yield isolation
                return
            isolation.resume()
        finally:
            isolation.close()
    pytest.fail("the controller chose another leader each time")


def test_acknowledged_messages_survive_the_only_leader_in_sync_unless_it_was_found(
    cluster: BrokerCluster, isolation: Isolation
) -> None:
    isolation.kill_leader()
    safe, unsafe = isolation.safe, isolation.unsafe
    eventually(lambda: not safe.unreported, "the next leader to acknowledge the other messages", seconds=PATIENCE)
    # One more, for the end of the log to be known: the next leader's may be ahead of what it shows at first.
    last = Numbered(cluster, unsafe.topic)
    last.send(range(200, 201))
    eventually(lambda: not last.unreported, "the next leader to acknowledge a message", seconds=PATIENCE)
    last.close()
    assert safe.found() == [*range(200)]
    assert unsafe.found() == [*range(100), 200]


def test_a_consumer_that_starts_after_an_unclean_election_applies_the_events_in_the_place_of_lost_ones(
    cluster: BrokerCluster, isolation: Isolation, tmp_path: Path
) -> None:
    """Messages 100 to 199 are applied and lost; as many come in their place before the consumer starts again."""
    cluster.keep_offsets()
    unsafe, applied = isolation.unsafe, list[int]()
    database = partial(sqlite3.connect, tmp_path / "effects.db")
    with closing(database()) as connection:
        upgrade(
            lambda statement: connection.execute(statement).fetchall(), inbox_component(InboxTable.on(Dialect.SQLITE))
        )
        connection.commit()

    def consume(events: int) -> None:
        consumer = Consumer(
            name="billing",
            contract=WireContract(aggregates={"order": SequenceMode.NONE}, topic=unsafe.topic),
            kafka=cluster.bootstrap_servers,
            database=database,
        )
        consumer.on("Placed")(lambda event, _: applied.append(event.payload))
        with Threads() as pool:
            running = pool.submit(consumer.run)
            try:
                eventually(lambda: len(applied) >= events or running.done(), "events to be applied", seconds=PATIENCE)
            finally:
                consumer.stop()
            running.result()

    consume(200)
    isolation.kill_leader()
    later = Numbered(cluster, unsafe.topic)
    later.send(range(200, 400))
    eventually(lambda: not later.unreported, "the next leader to acknowledge messages", seconds=PATIENCE)
    later.close()
    consume(400)
    assert applied == [*range(400)]
