"""Trace context in headers: with an SDK, without one, and without the package."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from cdc_outbox import Event, OutboxTable, SequenceMode, WireContract
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.writer.draft import Draft, draft, traced

ORDER = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={})
CONTRACT = WireContract(aggregates={"order": SequenceMode.GAPLESS}, topic="shop.{aggregate_type}")


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    use(monkeypatch, provider)
    yield exporter
    provider.shutdown()


def use(monkeypatch: pytest.MonkeyPatch, provider: Any) -> None:
    # Not set_tracer_provider: it works once a process, and says so in the log.
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)


def drafted(event: Event = ORDER, table: OutboxTable | None = None, contract: WireContract | None = CONTRACT) -> Draft:
    table = table or OutboxTable()
    return traced(draft(event, table, Dialect.POSTGRESQL, max_message_bytes=None), table, contract)


def test_an_event_carries_the_context_of_its_create_span(spans: InMemorySpanExporter) -> None:
    with trace.get_tracer_provider().get_tracer("service").start_as_current_span("checkout") as around:
        made = drafted()
    span, _ = spans.get_finished_spans()
    assert (span.name, span.kind) == ("create shop.order", SpanKind.PRODUCER)
    assert dict(span.attributes or {}) == {
        "messaging.system": "kafka",
        "messaging.destination.name": "shop.order",
        "messaging.operation.type": "create",
        "messaging.operation.name": "create",
        "messaging.message.id": made.id,
    }
    assert span.parent == around.get_span_context()
    read = trace.get_current_span(TraceContextTextMapPropagator().extract(made.event.headers)).get_span_context()
    assert (read.trace_id, read.span_id, read.trace_flags) == (
        span.context.trace_id,
        span.context.span_id,
        span.context.trace_flags,
    )
    assert made.columns == made.event.headers


@pytest.mark.usefixtures("spans")
def test_the_state_of_the_trace_goes_with_it() -> None:
    state = TraceState([("vendor", "x")])
    remote = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1), trace_state=state)
    with trace.use_span(trace.NonRecordingSpan(remote)):
        headers = drafted(replace(ORDER, headers={"tracestate": "callers"})).event.headers
    assert headers["tracestate"] == "vendor=x"
    assert headers["traceparent"].startswith(f"00-{1:032x}-")
    assert drafted(replace(ORDER, headers={"tracestate": "callers"})).event.headers.keys() == {"traceparent"}


def test_the_callers_own_context_is_kept(spans: InMemorySpanExporter) -> None:
    mine = {"traceparent": "00-mine-01"}
    assert drafted(replace(ORDER, headers=mine)).event.headers == mine
    assert spans.get_finished_spans() == ()


@pytest.mark.usefixtures("spans")
@pytest.mark.parametrize("headers", [{}, {"tracestate": "tracestate"}, {"tenant": "x-tenant"}])
def test_where_no_column_holds_it_nothing_is_put_in(headers: dict[str, str]) -> None:
    assert drafted(table=OutboxTable(headers=headers)).event.headers == {}


@pytest.mark.usefixtures("spans")
def test_a_table_without_a_column_for_the_state_goes_without() -> None:
    remote = SpanContext(1, 2, is_remote=True, trace_state=TraceState([("vendor", "x")]))
    with trace.use_span(trace.NonRecordingSpan(remote)):
        made = drafted(table=OutboxTable(headers={"parent": "traceparent"}))
    assert made.columns == {"parent": made.event.headers["traceparent"]}


def test_without_a_contract_the_topic_is_the_default_one(spans: InMemorySpanExporter) -> None:
    drafted(contract=None)
    assert [span.name for span in spans.get_finished_spans()] == ["create outbox.event.order"]


def test_what_is_not_sampled_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, TracerProvider(sampler=ALWAYS_OFF))
    flags = drafted().event.headers["traceparent"].rpartition("-")[2]
    assert not int(flags, 16) & TraceFlags.SAMPLED


@pytest.mark.parametrize("provider", [trace.ProxyTracerProvider(), trace.NoOpTracerProvider()])
def test_without_an_sdk_nothing_changes(monkeypatch: pytest.MonkeyPatch, provider: Any) -> None:
    use(monkeypatch, provider)
    # Not even the context of somebody else, which the API alone would hand on as the event's own.
    with trace.use_span(trace.NonRecordingSpan(SpanContext(1, 2, is_remote=True))):
        assert drafted().event.headers == {}


def test_without_the_package_nothing_changes_and_nothing_is_imported() -> None:
    code = (
        "import sys; from cdc_outbox import Event, OutboxTable; from cdc_outbox.writer.draft import draft\n"
        "from cdc_outbox.writer.draft import traced\n"
        "event = Event(aggregate_type='a', aggregate_id='1', type='T', payload={})\n"
        "from cdc_outbox.databases.dialects import Dialect\n"
        "made = draft(event, OutboxTable(), Dialect.POSTGRESQL, max_message_bytes=None)\n"
        "assert traced(made, OutboxTable(), None) is made\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
