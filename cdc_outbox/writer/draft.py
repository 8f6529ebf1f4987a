"""An event that was looked at and may be written: as a row, or as the content of a logical message."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import EventError
from cdc_outbox.event import Event, SequenceMode, new_event_id
from cdc_outbox.formats import cloudevents, envelope, expansion, payload
from cdc_outbox.formats.attributes import GIVEN
from cdc_outbox.formats.event_format import EventFormat, PayloadType
from cdc_outbox.formats.payload import TOMBSTONE
from cdc_outbox.formats.schemas import EventSchemas
from cdc_outbox.telemetry import running_provider, tracer_of

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext


MAX_AGGREGATE_ID_BYTES = 1_000
"""The keys of head table and inbox hold it beside three shorter texts, and an index entry of PostgreSQL's takes 2,704
bytes. An aggregate id that is longer would abort the writer's transaction, or stop every consumer."""
MAX_NAME_BYTES = 249
"""Of an aggregate type, which is a part of the topic's name, and of an event's type."""


_given = attrgetter(*GIVEN)


class Draft(NamedTuple):
    """An event with its id, its encoded payload and its header columns.

    Args:
        event: As the caller gave it, without what its format adds.
    """

    event: Event
    id: str
    payload: str | bytes | None
    columns: Mapping[str, str]

    def parameters(self) -> dict[str, Any]:
        """Return what every statement that writes takes beside the headers: each attribute that the writer has."""
        given = dict(zip(GIVEN, _given(self.event), strict=True))
        given["id"], given["payload"] = self.id, self.payload
        return given


def draft(
    event: Event,
    table: OutboxTable,
    dialect: Dialect,
    *,
    max_message_bytes: int | None = None,
    schemas: EventSchemas | None = None,
) -> Draft:
    """Look at an event before the database does, whose refusal would abort the caller's transaction.

    Raises:
        EventError: It cannot be written.
    """
    check_names(event)
    key_size = check_aggregate_id(event)
    event_id = checked_id(event.id)
    encoded = _encode(event, table, dialect, schemas)
    columns = checked_columns(event.headers, table)
    if table.format is not EventFormat.PLAIN:
        encoded, columns = _formatted(event, event_id, encoded, table)
    check_size(size_of(encoded, table) + key_size, columns, max_message_bytes)
    return Draft(event, event_id, encoded, columns)


def check_names(event: Event) -> None:
    """Refuse an aggregate type or a type that cannot be stored or sent.

    Raises:
        EventError: One of them cannot be written.
    """
    for field in ("aggregate_type", "type"):
        value = getattr(event, field)
        _check_name(field, value) if isinstance(value, str) else _check_text(field, value, None)


def check_aggregate_id(event: Event) -> int:
    """Refuse an aggregate id that cannot be stored or sent, and return its size in bytes.

    Raises:
        EventError: It cannot be written.
    """
    return _check_text("aggregate_id", event.aggregate_id, MAX_AGGREGATE_ID_BYTES)


def check_size(size: int, columns: Mapping[str, str], max_message_bytes: int | None) -> None:
    """Refuse a message that is too large.

    Args:
        size: The size of payload and key, in bytes.
        columns: The header columns, which count too.

    Raises:
        EventError: It is above the limit.
    """
    if columns:
        size += len(json.dumps(columns, ensure_ascii=False))
    if max_message_bytes is not None and size > max_message_bytes:
        raise EventError(
            f"payload, key and headers have {size:,} bytes; the limit is {max_message_bytes:,}",
            hint="Store the large part elsewhere and put a reference into the payload; or raise "
            "Outbox(max_message_bytes=…), max.message.bytes of the topic and the connector's "
            "producer.override.max.request.size.",
        )


def _encode(event: Event, table: OutboxTable, dialect: Dialect, schemas: EventSchemas | None) -> str | bytes | None:
    # A CloudEvents envelope is one object more around the payload, where the database looks at it.
    around = table.format is EventFormat.CLOUDEVENTS_STRUCTURED
    encoded = payload.encode(event.payload, max_depth=dialect.features.max_payload_depth - around)
    if schemas is not None:
        schemas.check(event, encoded)
    return stored_form(encoded, table)


def stored_form(encoded: str | bytes | None, table: OutboxTable) -> str | bytes | None:
    """Return an encoded payload as the table stores it.

    Raises:
        EventError: The table cannot store it.
    """
    match table.payload_type, encoded:
        case PayloadType.JSON, bytes():
            raise EventError(
                "the payload is bytes, but the table's payloads are JSON",
                hint="Set `payload_type: bytes` in the spec, or decode the payload.",
            )
        case PayloadType.EXPANDED, bytes():
            raise EventError("the payload is bytes, but only JSON can be expanded", hint="Decode the payload.")
        case PayloadType.EXPANDED, str():
            return expansion.check(encoded)
        case PayloadType.BYTES, str():
            return encoded.encode()
        case _, None if table.format is EventFormat.ENVELOPE:
            raise EventError(
                "a tombstone has no value, but an envelope needs one",
                hint="Use 'null' for JSON's null, or choose another format.",
            )
    return encoded


def size_of(encoded: str | bytes | None, table: OutboxTable) -> int:
    """Return the size of the message's value in bytes, without what stands beside the payload."""
    if isinstance(encoded, str) and (
        table.format is EventFormat.ENVELOPE or table.payload_type is not PayloadType.JSON
    ):
        # JsonConverter escapes what StringConverter passes.
        encoded = envelope.json_text(encoded)
    return len(encoded.encode() if isinstance(encoded, str) else encoded or b"")


def _formatted(
    event: Event, event_id: str, encoded: str | bytes | None, table: OutboxTable
) -> tuple[Any, Mapping[str, str]]:
    """Return payload and header columns with what the table's format adds to them."""
    if table.format is EventFormat.CLOUDEVENTS_STRUCTURED:
        event = replace(event, payload=TOMBSTONE if encoded is None else encoded)
        encoded = None
    written = cloudevents.encoded(event, table.format, event_id, datetime.now(UTC))
    if table.format is EventFormat.CLOUDEVENTS_STRUCTURED and written.payload is not TOMBSTONE:
        encoded = written.payload
    return encoded, header_columns(written.headers, table)


def checked_columns(headers: Mapping[str, str], table: OutboxTable) -> Mapping[str, str]:
    """Return the caller's headers by the columns that hold them.

    Raises:
        EventError: A header has no column, or a value that cannot be stored.
    """
    if not headers:
        return headers
    known = table.headers.values()
    for header, value in headers.items():
        if header not in known:
            there = f"there are {', '.join(sorted(known))}" if known else "there are none"
            column = f"; the column {header} is the header {table.headers[header]}" if header in table.headers else ""
            raise EventError(
                f"the table has no column for the header {header!r}; {there}{column}",
                hint="Use the header names of the spec: outbox.headers maps columns to headers.",
            )
        _check_text(f"the header {header}", value, None)
    return header_columns(headers, table)


def header_columns(headers: Mapping[str, str], table: OutboxTable) -> Mapping[str, str]:
    """Return the headers by the columns that hold them; a binary CloudEvent has no header without a value."""
    headers = cloudevents.filled(headers, table.format, table.headers.values())
    return {column: headers[header] for column, header in table.header_columns.items() if header in headers}


def checked_id(event_id: str | None) -> str:
    """Return the id as the outbox stores it: a new one if the event has none.

    Raises:
        EventError: It is not the text of a UUID.
    """
    if event_id is None:
        return new_event_id()
    try:
        return str(UUID(event_id))
    except (ValueError, AttributeError, TypeError) as error:
        raise EventError(f"the id {event_id!r} is not the text of a UUID") from error


@lru_cache(maxsize=1_000)
def _check_name(field: str, value: str) -> None:
    """Look once at what a service has only a handful of."""
    _check_text(field, value, MAX_NAME_BYTES)


def _check_text(field: str, value: object, limit: int | None) -> int:
    """Refuse what the database would refuse later, or what would make a message that no consumer can read.

    Returns:
        Its size in bytes.
    """
    if not isinstance(value, str) or not value:
        given = "an empty string" if value == "" else type(value).__name__
        raise EventError(f"{field} must be a non-empty str, not {given}")
    if "\0" in value:
        raise EventError(f"{field} contains a NUL, which PostgreSQL cannot store")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise EventError(f"{field} contains a lone surrogate") from error
    if limit is not None and size > limit:
        raise EventError(f"{field} has {size:,} bytes; the limit is {limit:,}")
    return size


def emission(draft: Draft, table: OutboxTable, mode: SequenceMode) -> Mapping[str, Any]:
    """Return what the statements that emit a message take.

    The payload is a JSON string that holds the text, so that it arrives byte for byte. All is ASCII, because the
    connector reads the content in its JVM's own charset. What the statement alone knows it adds to the text: behind
    ``"sequence":``, ``"source":`` and the key of the time of creation, which is a number of microseconds since 1970.
    """
    columns, given = table.columns, draft.parameters()
    beside = given.keys() - {"sequence"}
    content: dict[str, str | bytes | None] = {
        **{column: given[role] for role, column in columns.names().items() if role in beside},
        **{column: draft.columns.get(column) for column in table.header_columns},
    }
    known = {
        **{name: given[name] for name in ("id", "aggregate_type", "aggregate_id", "sequence")},
        "prefix": table.message_prefix,
        "created_key": None if columns.created_at is None else f", {json.dumps(columns.created_at)}: ",
    }
    if not mode.is_numbered:
        # Fields that are missing make the EventRouter's placements fail; null is a header without a value.
        nulls = dict.fromkeys(filter(None, (columns.sequence, columns.source)))
        return {**known, "content": _unclosed(content | nulls)}
    return {
        **known,
        "content": f"{_unclosed(content)}, {json.dumps(columns.sequence)}: ",
        "source_key": f", {json.dumps(columns.source)}: ",
    }


def _unclosed(content: Mapping[str, Any]) -> str:
    return json.dumps(content)[:-1]


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


def _as_headers(context: "SpanContext") -> dict[str, str]:
    """Write a span's context as W3C has it; a sampler's refusal travels too."""
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
    state = context.trace_state.to_header()
    return {_TRACEPARENT: parent} | ({_TRACESTATE: state} if state else {})


def _with_headers(draft: Draft, table: OutboxTable, added: dict[str, str]) -> Draft:
    # A state belongs to its parent: the caller's own is not mixed with the added one.
    kept = {header: value for header, value in draft.event.headers.items() if header != _TRACESTATE}
    headers = kept | {header: value for header, value in added.items() if header in table.headers.values()}
    event: Event = replace(draft.event, headers=headers)
    formatted = {column: value for column, value in draft.columns.items() if column not in table.headers}
    return draft._replace(event=event, columns={**header_columns(headers, table), **formatted})
