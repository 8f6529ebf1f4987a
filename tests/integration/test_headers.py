"""Columns of one's own as headers, from the writer to the handler."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from cdc_outbox import Event, EventError, Outbox
from cdc_outbox.errors import ConnectorInvalidError
from cdc_outbox.spec import parse_spec
from cdc_outbox.testing import Stack
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually
from tests.support.service import Service

ORDER = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={"total": 10})
HEADERS = {"x-tenant": "Größe & Söhne", "content-type": "application/json"}


@contextmanager
def made(stack: Stack, extra: str) -> Iterator[Pipeline]:
    pipeline = Pipeline.make(stack, extra)
    try:
        pipeline.deploy(stable_seconds=0)
        yield pipeline
    finally:
        pipeline.close()


def headers_seen(pipeline: Pipeline, count: int) -> list[dict[str, str]]:
    """Return the headers that a handler got, in the order of the events."""
    service, seen = Service(pipeline), []
    consumer = service.consumer()
    consumer.on("WithHeaders")(lambda event, _connection: seen.append(dict(event.headers)))
    with service.running(consumer):
        eventually(lambda: len(seen) == count, f"{count} events")
    return seen


@pytest.mark.parametrize("mode", ["keep", "message"])
def test_a_header_reaches_the_handler(outbox_stack: Stack, mode: str) -> None:
    text = f"outbox: {{mode: {mode}, headers: {{tenant: x-tenant, kind: content-type}}}}\n"
    with made(outbox_stack, text) as pipeline:
        outbox = Outbox(spec=pipeline.spec)
        event = replace(ORDER, type="WithHeaders", headers=HEADERS)
        with psycopg.connect(pipeline.dsn) as connection:
            written = [outbox.add(connection, event), *outbox.add_all(connection, [event, replace(event, headers={})])]
            connection.commit()
            with pytest.raises(EventError, match="no column for the header 'x-other'"):
                outbox.add(connection, replace(event, headers={"x-other": "1"}))
        assert headers_seen(pipeline, 3) == [HEADERS, HEADERS, {}]
        stated = [pipeline.spec.contract.message_of(event).headers for event in written]
        assert [message.headers for message in pipeline.messages()] == stated


@pytest.mark.parametrize("mode", ["keep", "message"])
def test_an_outbox_that_is_in_use_gets_a_header_more(outbox_stack: Stack, mode: str) -> None:
    with made(outbox_stack, f"outbox: {{mode: {mode}}}\n") as pipeline:
        text = Pipeline.text(pipeline.name, f"outbox: {{mode: {mode}, headers: {{tenant: x-tenant}}}}\n")
        old, new = pipeline.spec, parse_spec(text)
        if mode == "keep":
            with pytest.raises(ConnectorInvalidError) as caught:
                pipeline.deploy(spec=new)
            assert [finding.code for finding in caught.value.findings] == ["DB303"]
        pipeline.stop()
        pipeline.write(1)
        with psycopg.connect(pipeline.dsn) as reader, pipeline.connect() as connection:
            if mode == "keep":
                reader.execute("select 1 from outbox")
            connection.execute("set lock_timeout = '5s'")
            pipeline.init(connection, old)  # nothing is missing, so nobody is waited for
            reader.rollback()
            pipeline.init(connection, new)
            pipeline.init(connection, new)
        # What was written before the column was there passes without the header, and so does an old writer.
        pipeline.deploy(spec=new)
        pipeline.write(1)
        pipeline.spec = new
        with pipeline.connect() as connection, connection.transaction():
            event = replace(ORDER, type="WithHeaders", headers={"x-tenant": "t"})
            Outbox(spec=new).add(connection, event)
        assert headers_seen(pipeline, 1) == [{"x-tenant": "t"}]
        sequences = [new.contract.event_of(message).sequence for message in pipeline.messages()]
        assert list(dict.fromkeys(sequences)) == [1, 2, 3]  # a connector that restarts may repeat its last events


def test_a_trace_goes_from_the_service_to_the_handler(deployed: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = TracerProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    outbox, event = Outbox(spec=deployed.spec), replace(ORDER, type="WithHeaders")
    with (
        psycopg.connect(deployed.dsn) as connection,
        provider.get_tracer("service").start_as_current_span("checkout") as span,
    ):
        written = [outbox.add(connection, event), *outbox.add_all(connection, [event])]
        with outbox.collect(connection) as events:
            events.add(event)
    seen = headers_seen(deployed, 3)
    assert seen == [dict(event.headers) for event in [*written, *events.written]]
    trace_id = f"{span.get_span_context().trace_id:032x}"
    assert [headers["traceparent"].split("-")[1] for headers in seen] == [trace_id] * 3
    assert len({headers["traceparent"] for headers in seen}) == 3
