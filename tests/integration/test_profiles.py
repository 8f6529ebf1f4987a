"""Every profile of a payload through the real connector at once: what arrives, and what our consumer reads of it."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import psycopg
import pytest

from cdc_outbox import TOMBSTONE, Event, EventFormat, Outbox, OutboxMode, PayloadType, RecordedEvent, WireContract
from cdc_outbox.message import Message
from cdc_outbox.testing import Stack
from tests.support.cloudevents_oracle import judged
from tests.support.pipeline import Pipeline
from tests.support.profiles import PROFILES, payload_of
from tests.support.rig import eventually
from tests.support.service import Service
from tests.support.threads import Threads

ORDER = Event(aggregate_type="order", aggregate_id="ü", type="Placed", payload="", headers={"x-tenant": "t"})
WAYS = {
    "bytes": OutboxMode.KEEP,
    "envelope": OutboxMode.DELETE,
    "expanded": OutboxMode.MESSAGE,
    "expanded-envelope": OutboxMode.KEEP,
    "cloudevents-binary": OutboxMode.MESSAGE,
    "cloudevents-bytes": OutboxMode.KEEP,
    "cloudevents-structured": OutboxMode.KEEP,
}
"""Every profile but the one that all other tests have, each in one of the modes that it can be in."""


@dataclass
class Way:
    """One profile's pipeline, what was written into it, and what a handler got of it."""

    pipeline: Pipeline
    written: list[RecordedEvent] = field(default_factory=list)
    seen: list[RecordedEvent] = field(default_factory=list)

    @property
    def payload_type(self) -> PayloadType:
        return self.pipeline.spec.outbox.payload_type

    @property
    def format(self) -> EventFormat:
        return self.pipeline.spec.outbox.format

    def write(self) -> None:
        """Deploy, and write in every way there is."""
        self.pipeline.deploy(stable_seconds=0)
        outbox = Outbox(spec=self.pipeline.spec)
        event = replace(ORDER, payload=payload_of(self.payload_type))
        with psycopg.connect(self.pipeline.dsn) as connection:
            self.written += [outbox.add(connection, event), *outbox.add_all(connection, [event, event])]
            if self.format is not EventFormat.ENVELOPE:
                self.written.append(outbox.add(connection, replace(event, payload=TOMBSTONE)))

    def see(self, event: RecordedEvent, _connection: object) -> None:
        self.seen.append(event)

    def reader(self) -> WireContract:
        """Return the contract of a consumer that was never told of a format, nor of bytes where the message tells."""
        told = self.payload_type if self.format is EventFormat.PLAIN else PayloadType.JSON
        stated = self.pipeline.spec.contract
        return WireContract(aggregates=stated.aggregates, topic=stated.topic, payload_type=told)


@pytest.fixture
def ways(outbox_stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Way]]:
    text = Pipeline.text
    # Binary CloudEvents are numbered.
    monkeypatch.setattr(
        Pipeline, "text", lambda name, extra: text(name, extra).replace("  metric: {sequence: none}\n", "")
    )
    # So many connectors that look at their queues every 10 ms would keep the machine busy.
    outbox = "latency: economy\noutbox: {mode: %s, headers: {tenant: x-tenant}%s}\n"
    made = [Way(Pipeline.make(outbox_stack, outbox % (mode, PROFILES[profile]))) for profile, mode in WAYS.items()]
    yield made
    with Threads(4) as pool:
        list(pool.map(lambda way: way.pipeline.close(), made))


def test_every_profile_reaches_the_handler_as_it_was_written(ways: list[Way]) -> None:
    with Threads(4) as pool:
        list(pool.map(Way.write, ways))
    with ExitStack() as running:
        for way in ways:
            service = Service(way.pipeline)
            consumer = service.consumer(contract=way.reader())
            consumer.on("Placed")(way.see)
            running.enter_context(service.running(consumer))
        eventually(lambda: all(len(way.seen) >= len(way.written) for way in ways), "every event of every profile")
    for way in ways:
        for got, gave in zip(way.seen, way.written, strict=True):
            assert got == replace(gave, payload=plain(gave))
        for message, event in zip(way.pipeline.messages(), way.written, strict=True):
            check(way, message, event)


def plain(event: RecordedEvent) -> object:
    """Return the payload that a consumer has to get."""
    if event.payload is TOMBSTONE:
        return None
    return event.payload if isinstance(event.payload, bytes) else json.loads(event.payload)


def check(way: Way, message: Message, event: RecordedEvent) -> None:
    """The message is the contract's, and other readers of its format read it too."""
    stated = way.pipeline.spec.contract.message_of(event)
    assert message.headers == stated.headers
    if event.payload is TOMBSTONE:
        assert message.value is None
        return
    if way.payload_type is PayloadType.EXPANDED:
        content = json.loads(message.value or b"")
        assert (content["payload"] if way.format is EventFormat.ENVELOPE else content) == plain(event)
    else:
        assert message.value == stated.value
    if way.format in {EventFormat.CLOUDEVENTS_BINARY, EventFormat.CLOUDEVENTS_STRUCTURED}:
        attributes, data = judged(message)
        assert (attributes["id"], attributes["subject"], data) == (event.id, "ü", plain(event))
