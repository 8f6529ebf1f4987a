"""CloudEvents through the real connector: what it makes is what the contract states, and every reader reads it."""

from dataclasses import replace

import psycopg
import pytest

from cdc_outbox import TOMBSTONE, Event, Outbox, WireContract
from cdc_outbox.testing import Stack
from tests.cloudevents_oracle import judged
from tests.rig import Pipeline, Shop, eventually

ORDER = Event(aggregate_type="order", aggregate_id="ü", type="Placed", payload='{ "as":  1.10, "is": "☃\\u00e9" }')


@pytest.mark.parametrize("mode", ["keep", "message"])
@pytest.mark.parametrize("event_format", ["cloudevents-binary", "cloudevents-structured"])
def test_a_cloudevent_reaches_the_handler(
    outbox_stack: Stack, monkeypatch: pytest.MonkeyPatch, mode: str, event_format: str
) -> None:
    options = f"outbox: {{mode: {mode}, format: {event_format}, headers: {{tenant: x-tenant}}}}\n"
    text = Pipeline.text
    monkeypatch.setattr(
        Pipeline, "text", lambda name, extra: text(name, extra).replace("  metric: {sequence: none}\n", "")
    )
    pipeline = Pipeline.make(outbox_stack, options)
    try:
        pipeline.deploy(stable_seconds=0)
        outbox = Outbox(table=pipeline.spec.outbox, contract=pipeline.spec.contract)
        with psycopg.connect(pipeline.dsn) as connection:
            event = replace(ORDER, headers={"x-tenant": "t"})
            written = [outbox.add(connection, event), *outbox.add_all(connection, [event, event])]
            written.append(outbox.add(connection, replace(event, payload=TOMBSTONE)))
        check(pipeline, written, mode)
    finally:
        pipeline.close()


def check(pipeline: Pipeline, written: list[Event], mode: str) -> None:
    # A consumer that was never told of the format.
    contract = WireContract(aggregates=pipeline.spec.contract.aggregates, topic=pipeline.spec.contract.topic)
    seen: list[Event] = []
    shop = Shop(pipeline)
    consumer = shop.consumer(contract=contract)
    consumer.on("Placed")(lambda event, _connection: seen.append(event))
    with shop.running(consumer):
        eventually(lambda: len(seen) == len(written), "every event")
    plain = {"as": 1.1, "is": "☃é"}
    for got, gave in zip(seen, written, strict=True):
        payload = None if gave.payload is TOMBSTONE else plain
        assert got == replace(gave, payload=payload, created_at=got.created_at)

    for message, event in zip(pipeline.messages(), written, strict=True):
        stated = pipeline.spec.contract.message_of(event)
        assert message.headers == stated.headers
        assert message.value == stated.value
        assert mode == "message" or message.timestamp_ms == stated.timestamp_ms
        if event.payload is not TOMBSTONE:
            attributes, data = judged(message)
            assert (attributes["id"], attributes["subject"], data) == (event.id, "ü", plain)
