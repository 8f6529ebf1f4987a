"""The loop, with a server and a sink in memory that fail at every step."""

import logging
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_outbox.backoff import Backoff
from cdc_outbox.monitoring import HealthStatus, health_of
from cdc_outbox.relay import relay as relay_module
from cdc_outbox.relay.relay import STOP_SECONDS, Relay
from cdc_outbox.relay.relay_errors import MessageRefusedError
from cdc_outbox.relay.wal_source import QUIET_SECONDS, StreamFacts, WalSource
from cdc_outbox.telemetry import Metrics, RelayState
from cdc_outbox.testing import MemoryMetrics
from tests.support.garbage import Instances, uncollected
from tests.support.relay_parts import Failures, ImmediateExecutor, MemoryServer, MemorySink, MemoryTopic, NamedRoutes


class Clock:
    """A tenth of a second passes at each look."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.now, self.then = 0.0, then

    def __call__(self) -> float:
        self.now += 0.1
        then, self.then = self.then, lambda: None  # `stop` looks at the clock, too
        then()
        self.then = then
        return self.now


def make(
    server: MemoryServer, topic: MemoryTopic, metrics: Metrics | None = None, heartbeat_topic: str | None = None
) -> tuple[Relay, Clock]:
    clock = Clock()
    source = WalSource(
        server, NamedRoutes(), slot="slot", publication="pub", clock=clock, make_executor=ImmediateExecutor
    )
    retries = Backoff(first_seconds=0, longest_seconds=0)
    relay = Relay(source, topic.open, metrics=metrics, heartbeat_topic=heartbeat_topic, retries=retries, clock=clock)
    return relay, clock


def first_occurrences(values: list[bytes | None]) -> list[bytes | None]:
    return list(dict.fromkeys(values))


@pytest.mark.parametrize("refused", [None, b"29"])
def test_the_sink_of_an_attempt_that_failed_is_freed_without_the_garbage_collector(
    refused: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, topic = MemoryServer(), MemoryTopic()
    for number in range(30):
        server.write(b"%d" % number)
    topic.refused = refused
    if refused is None:
        topic.fails, server.fails = Failures(share=0.3), Failures(share=0.005)
    relay, clock = make(server, topic)
    clock.then = lambda: relay.stop() if len(topic.values) > 30 else None
    sinks = Instances[MemorySink]()
    monkeypatch.setattr(relay, "_open_sink", lambda: sinks.add(topic.open()))
    with uncollected():
        with suppress(MessageRefusedError):
            relay.run()
        # A later attempt begins like this.
        relay._stats.opens()
        vars(relay)["_source"]._reset()
        assert sinks.count() == 0
    assert len(sinks.alive) == 1 if refused else len(sinks.alive) > 3
    assert set(sinks.alive) == {0}


class Armed(Failures):
    """Fails once when it is told to."""

    is_armed = False

    def maybe(self, error: Exception) -> None:
        if self.is_armed:
            self.is_armed = False
            raise error


def test_a_sink_with_messages_under_way_is_freed_when_the_stream_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    server, topic, fails = MemoryServer(), MemoryTopic(), Armed()
    server.write(b"1", b"2")
    server.fails, topic.is_down = fails, True
    relay, _ = make(server, topic)
    sinks = Instances[MemorySink]()

    class Sink(MemorySink):
        def poll(self, seconds: float) -> None:
            fails.is_armed = True

    def open_sink() -> MemorySink:
        if len(sinks.alive) == 3:
            relay.stop()
        return sinks.add(Sink(topic))

    monkeypatch.setattr(relay, "_open_sink", open_sink)
    with uncollected():
        relay.run()
    assert sinks.alive == [0, 0, 0, 0]


@settings(max_examples=100)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(0, 2**32), st.integers(1, 5))
def test_whatever_fails_everything_is_delivered_in_order_and_confirmed(sizes: list[int], seed: int, room: int) -> None:
    random = Random(seed)  # noqa: S311 - the failures are the seed's
    server, topic = MemoryServer(), MemoryTopic()
    expected: list[bytes | None] = []
    for number, size in enumerate(sizes):
        values = [f"{number}/{each}".encode() for each in range(size)]
        server.write(*values)
        expected += values
    server.fails, topic.fails, topic.room = Failures(random, 0.02), Failures(random, 0.05), room
    relay, clock = make(server, topic)

    def watch() -> None:
        delivered = {value for value in topic.values if value is not None}
        for number, _ in enumerate(sizes):
            if server.confirmed >= 100 * (number + 1):
                assert all(f"{number}/{each}".encode() in delivered for each in range(sizes[number]))
        if server.confirmed >= 100 * len(sizes):
            relay.stop()
        assert clock.now < 1_000

    clock.then = watch
    relay.run()
    assert first_occurrences(topic.values) == expected
    assert server.confirmed == 100 * len(sizes)


def test_a_message_waits_for_nothing_while_each_read_brings_the_next_one() -> None:
    server, topic = MemoryServer(), MemoryTopic()
    topic.room = 1_000
    server.keepalives = False
    relay, _ = make(server, topic)
    waits: list[float] = []

    def poll(sink: MemorySink, seconds: float) -> None:
        waits.append(seconds)
        if len(server.log) < 10:
            server.write(b"next")
        elif len(topic.values) == 10:
            relay.stop()
        deliver(sink, seconds)

    deliver = MemorySink.poll
    server.write(b"first")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemorySink, "poll", poll)
        relay.run()
    assert len(topic.values) == 10
    assert min(waits[:10]) > 0, "a sink that is not waited for keeps a batch open"


def test_a_stop_delivers_and_confirms_what_was_read() -> None:
    server, topic = MemoryServer(), MemoryTopic()
    server.write(b"1", b"2", b"3", b"4", b"5")
    relay, clock = make(server, topic)
    clock.then = lambda: relay.stop() if topic.values else None
    relay.run()
    assert topic.values == [b"1", b"2", b"3", b"4", b"5"]
    assert server.confirmed == 100


def test_a_sink_that_is_down_keeps_the_slot_and_bounds_the_stop() -> None:
    server, topic = MemoryServer(), MemoryTopic()
    server.write(b"1", b"2", b"3", b"4", b"5")
    topic.is_down = True
    relay, clock = make(server, topic)
    clock.then = lambda: relay.stop() if 100 < clock.now < 100.2 else None
    relay.run()
    assert STOP_SECONDS < clock.now - 100 < STOP_SECONDS + 5
    assert topic.values == []
    assert server.confirmed == 1
    assert len(server.told) >= 100 / QUIET_SECONDS


def test_a_message_that_is_refused_ends_the_relay_although_the_sink_failed_before_its_report() -> None:
    server, topic = MemoryServer(), MemoryTopic()
    server.write(b"1")
    server.write(b"2")
    server.write(b"3")
    topic.refused = b"2"
    relay, clock = make(server, topic)

    def watch() -> None:
        assert clock.now < 1_000, "the relay tries again and again"

    clock.then = watch
    with pytest.raises(MessageRefusedError):
        relay.run()
    assert topic.values == [b"1"]
    assert server.confirmed < 200
    assert not server.is_read


def test_a_standby_waits_for_the_slot_and_begins_anew(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, topic = MemoryServer(), MemoryTopic()
    server.write(b"1")
    server.is_read = True
    caplog.set_level(logging.DEBUG, relay_module.__name__)
    relay, clock = make(server, topic)

    look = server.look

    def watch() -> StreamFacts:
        if len(caplog.records) >= 3:
            server.is_read = False
        return look()

    monkeypatch.setattr(server, "look", watch)
    clock.then = lambda: relay.stop() if server.confirmed == 100 else None
    relay.run()
    assert relay._failures == 0
    standing_by = [record.levelname for record in caplog.records if record.name == relay_module.__name__]
    assert standing_by == ["INFO", "DEBUG", "DEBUG"]


def test_the_progress_tells_what_was_delivered_and_the_metrics_tell_the_same() -> None:
    server, topic, metrics = MemoryServer(), MemoryTopic(), MemoryMetrics()
    server.write(b"1", b"2", b"3")
    relay, clock = make(server, topic, metrics=metrics)
    states = []

    def watch() -> None:
        states.append(relay.progress().state)
        if server.confirmed == 100:
            relay.stop()

    clock.then = watch
    relay.run()
    progress = relay.progress()
    assert (progress.relay, progress.events, progress.waiting_since) == ("relay", 3, None)
    assert progress.delivered_at is not None
    assert list(dict.fromkeys(states)) == [RelayState.WAITING, RelayState.READING, RelayState.STOPPING]
    assert metrics.total("cdc_outbox_relay_events_total", relay="relay") == 3
    assert metrics.gauge("cdc_outbox_relay_reading", relay="relay") == 1
    assert metrics.refused == []


def test_heartbeats_are_delivered_and_are_no_events() -> None:
    server, topic, metrics = MemoryServer(), MemoryTopic(), MemoryMetrics()
    server.write(b"1", b"2")
    relay, clock = make(server, topic, metrics=metrics, heartbeat_topic="topic")

    def watch() -> None:
        if server.confirmed == 100:
            relay.stop()

    clock.then = watch
    relay.run()
    assert topic.values == [b"1", b"2"]
    assert relay.progress().events == metrics.total("cdc_outbox_relay_events_total") == 0


def test_a_relay_whose_sink_fails_at_every_attempt_is_stuck_and_well_again_after_a_delivery() -> None:
    server, topic = MemoryServer(), MemoryTopic()
    server.write(b"1")
    topic.fails = Failures(share=1)
    relay, clock = make(server, topic)
    found = []

    def watch() -> None:
        found.append(health_of(relay.progress(), now=clock.now).status)
        if HealthStatus.STUCK in found:
            topic.fails = Failures()
        if topic.values and clock.now > 100:
            relay.stop()

    clock.then = watch
    relay.run()
    assert list(dict.fromkeys(found)) == [HealthStatus.OK, HealthStatus.DEGRADED, HealthStatus.STUCK]
    assert found[-1] is HealthStatus.OK
