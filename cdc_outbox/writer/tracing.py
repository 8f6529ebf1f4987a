"""Trace context of OpenTelemetry in an event's headers, where the service has an SDK running."""

import sys
from dataclasses import replace
from typing import Any

from cdc_outbox.event import Event, SequenceMode
from cdc_outbox.table import OutboxTable
from cdc_outbox.tracing import running_provider, tracer_of
from cdc_outbox.wire import WireContract
from cdc_outbox.writer.draft import Draft, header_columns

_TRACEPARENT, _TRACESTATE = "traceparent", "tracestate"
_ANY = WireContract(aggregates={"any": SequenceMode.NONE})
"""Where events go for which there is no contract."""


def traced(draft: Draft, table: OutboxTable, contract: WireContract | None) -> Draft:
    """Make a ``create`` span and put its context into the event's headers, for consumers to link to.

    The span is over at once: whether the event comes to exist, the caller's transaction decides. There is none for an
    event that brings its own ``traceparent``, nor where no column holds one.
    """
    provider = running_provider()
    if provider is None or _TRACEPARENT not in table.headers.values() or _TRACEPARENT in draft.event.headers:
        return draft
    event = draft.event
    # https://opentelemetry.io/docs/specs/semconv/messaging: a package of constants would be one more dependency.
    topic = (contract or _ANY).topic_of(event.aggregate_type)
    attributes = {
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "messaging.operation.type": "create",
        "messaging.operation.name": "create",
        "messaging.message.id": draft.id,
    }
    kind = sys.modules["opentelemetry.trace"].SpanKind.PRODUCER
    span = tracer_of(provider).start_span(f"create {topic}", kind=kind, attributes=attributes)
    context = span.get_span_context()
    span.end()
    return _with_headers(draft, table, _as_headers(context)) if context.is_valid else draft


def _as_headers(context: Any) -> dict[str, str]:  # noqa: ANN401 - opentelemetry's own
    """Write a span's context as W3C has it; a sampler's refusal travels too."""
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
    state = context.trace_state.to_header()
    return {_TRACEPARENT: parent} | ({_TRACESTATE: state} if state else {})


def _with_headers(draft: Draft, table: OutboxTable, added: dict[str, str]) -> Draft:
    # A state belongs to its parent: the caller's own is not mixed with ours.
    kept = {header: value for header, value in draft.event.headers.items() if header != _TRACESTATE}
    headers = kept | {header: value for header, value in added.items() if header in table.headers.values()}
    event: Event = replace(draft.event, headers=headers)
    formatted = {column: value for column, value in draft.columns.items() if column not in table.headers}
    return replace(draft, event=event, columns={**header_columns(headers, table), **formatted})
