"""What every tracer of handlers promises, and what OpenTelemetry's shows."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from cdc_outbox import Event, OutboxTable, RecordedEvent, SequenceMode, WireContract
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.message import Message
from cdc_outbox.telemetry import Arrival, HandlerTelemetry, NoSpans, OpenTelemetrySpans, Spans, Telemetry
from cdc_outbox.testing import MemorySpan, MemorySpans
from cdc_outbox.writer.draft import draft, traced
from cdc_outbox.writer.reaction import unwritten

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ORDER = RecordedEvent(
    aggregate_type="order",
    aggregate_id="7",
    type="OrderPlaced",
    payload={"card": "hunter2"},
    id="a",
    created_at=datetime(2026, 1, 2, tzinfo=UTC),
    sequence=3,
    headers={"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=x"},
)


def arrival(event: RecordedEvent = ORDER, *, topic: str = "shop.order", offset: int = 42) -> Arrival:
    return event, Message(topic=topic, key=b"7", value=b"{}", partition=1, offset=offset)


class SpansContract:
    """Subclasses say what traces."""

    @pytest.fixture
    def spans(self) -> Spans:
        raise NotImplementedError

    def test_the_handler_runs_inside(self, spans: Spans) -> None:
        steps = []
        with spans.process("shipping", [arrival()]):
            steps.append("handler")
        with spans.process("shipping", [arrival(), arrival()]):
            steps.append("handler")
        assert steps == ["handler"] * 2

    @pytest.mark.parametrize("error", [ValueError("hunter2"), KeyboardInterrupt()], ids=repr)
    def test_what_the_handler_raises_passes_through(self, spans: Spans, error: BaseException) -> None:
        with pytest.raises(type(error)) as caught, spans.process("shipping", [arrival()]):
            raise error
        assert caught.value is error

    @pytest.mark.parametrize("header", ["", "nonsense", f"00-{'0' * 32}-{SPAN}-01", "ü" * 1000])
    def test_an_event_with_a_context_that_nobody_can_read_is_traced_too(self, spans: Spans, header: str) -> None:
        with spans.process("shipping", [arrival(replace(ORDER, headers={"traceparent": header}))]):
            pass
        with spans.process("shipping", [arrival(replace(ORDER, headers={}, sequence=None))]):
            pass


class TestNoSpans(SpansContract):
    @pytest.fixture
    def spans(self) -> Spans:
        return NoSpans()


class TestMemorySpans(SpansContract):
    @pytest.fixture
    def spans(self) -> MemorySpans:
        return MemorySpans()

    def test_it_keeps_what_each_handler_was_given_and_raised(self, spans: MemorySpans) -> None:
        with spans.process("shipping", [arrival()]):
            pass
        with pytest.raises(ValueError, match="no"), spans.process("billing", [arrival(), arrival()]):
            raise ValueError("no")
        assert spans.ended == [
            MemorySpan("shipping", (ORDER,), None),
            MemorySpan("billing", (ORDER, ORDER), ValueError),
        ]


class TestOpenTelemetrySpans(SpansContract):
    @pytest.fixture
    def provider(self) -> Iterator[TracerProvider]:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        yield provider
        provider.shutdown()

    @pytest.fixture
    def spans(self, provider: TracerProvider) -> Spans:
        return OpenTelemetrySpans(provider)

    def ended(self) -> ReadableSpan:
        [span] = self.exporter.get_finished_spans()
        return span

    def test_a_span_says_what_the_conventions_ask_for_and_links_to_the_one_that_wrote_the_event(
        self, spans: Spans
    ) -> None:
        with spans.process("shipping", [arrival()]):
            pass
        span = self.ended()
        assert (span.name, span.kind, span.parent) == ("process shop.order", SpanKind.CONSUMER, None)
        assert span.status.status_code is StatusCode.UNSET
        assert dict(span.attributes or {}) == {
            "messaging.system": "kafka",
            "messaging.operation.type": "process",
            "messaging.operation.name": "process",
            "messaging.consumer.group.name": "shipping",
            "messaging.destination.name": "shop.order",
            "messaging.destination.partition.id": "1",
            "messaging.message.id": "a",
            "messaging.kafka.message.key": "7",
            "messaging.kafka.offset": 42,
            "cdc_outbox.event.type": "OrderPlaced",
            "cdc_outbox.event.sequence": 3,
        }
        [link] = span.links
        context = link.context
        assert (f"{context.trace_id:032x}", f"{context.span_id:016x}", context.is_remote) == (TRACE, SPAN, True)
        assert (context.trace_state.to_header(), dict(link.attributes or {})) == ("vendor=x", {})

    def test_a_tombstone_is_told(self, spans: Spans) -> None:
        event, message = arrival()
        with spans.process("shipping", [(event, replace(message, value=None))]):
            pass
        assert (self.ended().attributes or {})["messaging.kafka.message.tombstone"] is True

    def test_a_batch_is_one_span_with_a_link_for_each_event_that_was_traced(self, spans: Spans) -> None:
        second = replace(ORDER, id="b", headers={"traceparent": f"00-{TRACE}-{1:016x}-00"})
        bare, broken = (replace(ORDER, id="c", headers=headers) for headers in ({}, {"traceparent": "nonsense"}))
        with spans.process("shipping", [arrival(), arrival(second, offset=43), arrival(bare), arrival(broken)]):
            pass
        span = self.ended()
        attributes = dict(span.attributes or {})
        assert span.name == "process shop.order"
        assert attributes["messaging.batch.message_count"] == 4
        assert attributes["messaging.destination.name"] == "shop.order"
        assert "messaging.message.id" not in attributes
        linked = [(link.context.span_id, dict(link.attributes or {})) for link in span.links]
        assert [(number, told["messaging.message.id"], told["messaging.kafka.offset"]) for number, told in linked] == [
            (int(SPAN, 16), "a", 42),
            (1, "b", 43),
        ]

    def test_a_batch_of_several_topics_names_none(self, spans: Spans) -> None:
        with spans.process("shipping", [arrival(), arrival(topic="shop.customer")]):
            pass
        assert self.ended().name == "process"
        assert "messaging.destination.name" not in (self.ended().attributes or {})

    def test_an_error_is_told_by_its_class_and_nothing_else(self, spans: Spans) -> None:
        class RefusedError(Exception):
            pass

        for error in (ValueError("hunter2"), RefusedError("hunter2")):
            with pytest.raises(type(error)), spans.process("shipping", [arrival()]):
                raise error from KeyError("hunter2")
        builtin, own = self.exporter.get_finished_spans()
        for span in (builtin, own):
            assert (span.status.status_code, span.status.description, span.events) == (StatusCode.ERROR, None, ())
            assert "hunter2" not in span.to_json()
        assert (builtin.attributes or {})["error.type"] == "ValueError"
        assert str((own.attributes or {})["error.type"]).endswith("RefusedError")

    def test_what_the_handler_does_belongs_to_it(self, spans: Spans, provider: TracerProvider) -> None:
        tracer = provider.get_tracer("driver")
        with spans.process("shipping", [arrival()]), tracer.start_as_current_span("insert"):
            pass
        inner, outer = self.exporter.get_finished_spans()
        assert inner.parent == outer.get_span_context()

    def test_an_unreadable_context_links_to_nothing_not_even_to_what_is_current(
        self, spans: Spans, provider: TracerProvider
    ) -> None:
        broken = replace(ORDER, headers={"traceparent": "nonsense"})
        tracer = provider.get_tracer("service")
        with tracer.start_as_current_span("around"), spans.process("shipping", [arrival(broken)]):
            pass
        inner, _ = self.exporter.get_finished_spans()
        assert list(inner.links) == []

    def test_the_span_of_a_written_event_and_that_of_its_handler_find_each_other(
        self, provider: TracerProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
        table, contract = OutboxTable(), WireContract(aggregates={"order": SequenceMode.NONE})
        new = Event(aggregate_type="order", aggregate_id="7", type="OrderPlaced", payload={})
        made = traced(draft(new, table, Dialect.POSTGRESQL, max_message_bytes=None), table, contract)
        message = contract.message_of(unwritten(made.event, made.id))
        with OpenTelemetrySpans().process("shipping", [(contract.event_of(message), message)]):
            pass
        created, processed = self.exporter.get_finished_spans()
        [link] = processed.links
        assert (created.name, processed.name) == ("create outbox.event.order", "process outbox.event.order")
        around = created.get_span_context()
        assert around is not None
        assert (link.context.trace_id, link.context.span_id) == (around.trace_id, around.span_id)


@pytest.mark.parametrize("provider", [trace.ProxyTracerProvider(), trace.NoOpTracerProvider()])
def test_without_an_sdk_there_is_nothing_to_enter(monkeypatch: pytest.MonkeyPatch, provider: Any) -> None:
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    assert OpenTelemetrySpans().process("shipping", [arrival()]) is NoSpans().process("shipping", [arrival()])


class OwnSpans(NoSpans):
    """What is derived from a class that traces nothing may trace."""


@pytest.mark.parametrize(
    ("spans", "is_traced"),
    [
        (NoSpans(), False),
        (OpenTelemetrySpans(), False),
        (OpenTelemetrySpans(TracerProvider()), True),
        (MemorySpans(), True),
        (OwnSpans(), True),
    ],
    ids=["none", "no SDK", "an SDK", "in memory", "of the user's"],
)
def test_spans_are_asked_for_where_there_may_be_some(spans: Spans, *, is_traced: bool) -> None:
    assert HandlerTelemetry("shipping", Telemetry(spans=spans)).is_traced is is_traced
