"""Events as CloudEvents and back, with the ``cloudevents`` package as the judge."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from cloudevents.core.bindings.kafka import to_binary, to_structured
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox import (
    TOMBSTONE,
    ConfigError,
    Event,
    EventError,
    EventFormat,
    HeaderNames,
    Outbox,
    OutboxColumns,
    OutboxTable,
    PayloadType,
    RecordedEvent,
    SequenceMode,
    WireContract,
)
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.errors import MessageError
from cdc_outbox.formats.cloudevents import encoded, time_of
from cdc_outbox.formats.event_format import FORMAT_HEADERS
from cdc_outbox.formats.timestamps import to_milliseconds
from cdc_outbox.message import Message
from cdc_outbox.writer.draft import draft
from tests.support.cloudevents_oracle import judged

CLOUDEVENTS = [EventFormat.CLOUDEVENTS_BINARY, EventFormat.CLOUDEVENTS_STRUCTURED]
ID, TIME = "019a9e2c-1c80-7abc-8def-0123456789ab", "2025-11-19T22:11:22.368Z"
ORDER = RecordedEvent(
    aggregate_type="order",
    aggregate_id="42",
    type="OrderPlaced",
    payload={"ä": [1, None]},
    id=ID,
    sequence=7,
    source="orders.1",
    created_at=datetime(2026, 1, 2, tzinfo=UTC),
    headers={"traceparent": "00-1-2-01"},
)


def event_given(event: RecordedEvent) -> Event:
    """Return an event as its service gave it."""
    return Event(
        aggregate_type=event.aggregate_type,
        aggregate_id=event.aggregate_id,
        type=event.type,
        payload=event.payload,
        id=event.id,
        headers=event.headers,
    )


def stated(event: RecordedEvent, event_format: EventFormat) -> RecordedEvent:
    """Return an event with what its format adds."""
    return encoded(event, event_format, event.id, event.created_at)


def contract(event_format: EventFormat) -> WireContract:
    return WireContract(aggregates={"order": SequenceMode.GAPLESS}, format=event_format)


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
events = st.builds(
    lambda **changes: replace(ORDER, **changes),
    aggregate_id=texts,
    type=texts,
    payload=st.dictionaries(storable, st.integers() | storable | st.booleans() | st.none()) | st.lists(storable),
    id=st.uuids().map(str) | st.integers(0, 2**74).map(lambda low: str(UUID(int=UUID(ID).int >> 74 << 74 ^ low))),
    sequence=st.integers(1, 2**63 - 1),
    source=texts,
    headers=st.dictionaries(st.sampled_from(["traceparent", "tracestate"]), texts),
)
READER = WireContract(aggregates={"order": SequenceMode.GAPLESS})


@pytest.mark.parametrize("event_format", EventFormat)
@given(event=events)
def test_any_reader_gets_the_same_event_in_every_format(event_format: EventFormat, event: RecordedEvent) -> None:
    message = contract(event_format).message_of(event)
    assert READER.event_of(message) == contract(event_format).event_of(message) == event


@given(event=events)
def test_the_judge_reads_binary_mode(event: RecordedEvent) -> None:
    attributes, data = judged(contract(EventFormat.CLOUDEVENTS_BINARY).message_of(event))
    assert attributes.pop("time").tzinfo
    assert attributes == {
        "specversion": "1.0",
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "subject": event.aggregate_id,
        "datacontenttype": "application/json",
        "aggregatetype": "order",
        "sequence": str(event.sequence),
        "partitionkey": event.aggregate_id,
        "createdat": "1767312000000000",
    }
    assert data == event.payload


@given(event=events)
def test_the_judge_reads_structured_mode(event: RecordedEvent) -> None:
    message = contract(EventFormat.CLOUDEVENTS_STRUCTURED).message_of(event)
    assert dict(message.headers)["content-type"] == b"application/cloudevents+json"
    attributes, data = judged(message)
    assert attributes.pop("time").tzinfo
    assert attributes == {
        "specversion": "1.0",
        "id": event.id,
        "source": "/order",
        "type": event.type,
        "subject": event.aggregate_id,
        "datacontenttype": "application/json",
        "partitionkey": event.aggregate_id,
    }
    assert data == event.payload


@pytest.mark.parametrize("write", [to_binary, to_structured])
def test_what_the_judge_writes_is_read(write: Any) -> None:
    attributes = {
        "id": ID,
        "source": "orders.1",
        "type": "OrderPlaced",
        "subject": "42",
        "time": datetime(2026, 1, 2, tzinfo=UTC),
        "aggregatetype": "order",
        "sequence": "7",
        "datacontenttype": "application/json",
    }
    theirs = write(CloudEvent(attributes, ORDER.payload), JSONFormat(), lambda _: "42")
    # What the connector adds: the id always, and in structured mode the plain headers.
    added = {"id": ID} | (
        {}
        if write is to_binary
        else {"eventType": "OrderPlaced", "aggregateType": "order", "sequence": "7", "source": "orders.1"}
    )
    headers = tuple((theirs.headers | {name: text.encode() for name, text in added.items()}).items())
    message = Message(
        topic="t",
        key=b"42",
        value=theirs.value,
        headers=headers,
        timestamp_ms=to_milliseconds(ORDER.created_at),
    )
    assert READER.event_of(message) == replace(ORDER, headers={})


def test_the_payload_stands_in_the_envelope_as_it_was_written() -> None:
    text = '{ "as":  1.10, "is": "\\u00e9" }'
    written = stated(replace(ORDER, payload=text), EventFormat.CLOUDEVENTS_STRUCTURED).payload
    assert written.endswith(f'"data": {text}}}')


@pytest.mark.parametrize("event_format", CLOUDEVENTS)
def test_a_tombstone_stays_one(event_format: EventFormat) -> None:
    message = contract(event_format).message_of(replace(ORDER, payload=TOMBSTONE))
    assert message.value is None
    event = READER.event_of(message)
    assert event == replace(ORDER, payload=None)
    assert contract(event_format).message_of(replace(event, payload=TOMBSTONE)) == message


@pytest.mark.parametrize("event_format", CLOUDEVENTS)
def test_the_row_holds_what_the_format_adds_and_the_caller_gets_his_event(event_format: EventFormat) -> None:
    event = event_given(ORDER)
    table = OutboxTable(format=event_format)
    made = draft(event, table, Dialect.POSTGRESQL, max_message_bytes=None)
    assert made.event == event
    added = dict(stated(ORDER, event_format).headers)
    if event_format is EventFormat.CLOUDEVENTS_BINARY:
        added["tracestate"] = ""
    assert made.columns == {column: added[header] for column, header in table.header_columns.items() if header in added}
    with pytest.raises(EventError, match="no column for the header 'content-type'"):
        draft(replace(event, headers={"content-type": "x"}), table, Dialect.POSTGRESQL, max_message_bytes=None)


def test_a_header_that_an_event_lacks_is_no_null_in_binary_mode_and_no_header_of_the_event() -> None:
    table = OutboxTable(format=EventFormat.CLOUDEVENTS_BINARY, headers={"tenant": "tenant-id", "tracestate": "state"})
    event = replace(event_given(ORDER), headers={"tenant-id": "a"})
    assert draft(event, table, Dialect.POSTGRESQL).columns.items() >= {"tenant": "a", "tracestate": ""}.items()
    wide = replace(contract(table.format), extra_headers=("tenant-id", "state"))
    message = wide.message_of(replace(ORDER, headers={"tenant-id": "a"}))
    assert judged(message)[1] == ORDER.payload
    assert READER.event_of(message).headers == {"tenant-id": "a"}


@pytest.mark.parametrize(
    ("event_id", "time"),
    [
        (ID, TIME),
        (str(UUID(int=2**128 - 1 ^ 0xF << 76 | 7 << 76)), "2026-01-02T00:00:00.000Z"),  # after the year 9999
        (str(UUID(int=4 << 76)), "2026-01-02T00:00:00.000Z"),
        ("no uuid", "2026-01-02T00:00:00.000Z"),
    ],
)
def test_the_time_is_what_the_id_tells_or_the_rows(event_id: str, time: str) -> None:
    assert time_of(event_id, ORDER.created_at) == time


def test_without_either_it_is_now() -> None:
    event, table = replace(event_given(ORDER), id=str(uuid4())), OutboxTable(format=EventFormat.CLOUDEVENTS_BINARY)
    columns = draft(event, table, Dialect.POSTGRESQL, max_message_bytes=None).columns
    [time] = [columns[column] for column, header in table.header_columns.items() if header == "ce_time"]
    assert abs(datetime.now(UTC) - datetime.fromisoformat(time)) < timedelta(minutes=1)


@pytest.mark.parametrize("value", [b"{}", b"[]", b'{"specversion": "0.3", "data": 1}', b'{"specversion": "1.0"}'])
def test_what_only_says_that_it_is_an_envelope_is_refused(value: bytes) -> None:
    message = contract(EventFormat.CLOUDEVENTS_STRUCTURED).message_of(ORDER)
    with pytest.raises(MessageError, match="a header declares a CloudEvent"):
        READER.event_of(replace(message, value=value))


def test_a_message_that_has_only_our_own_headers_is_left_alone() -> None:
    headers = {"content-type": "application/json", "ce_tenant": "x"}
    wide = replace(READER, extra_headers=tuple(headers))
    assert READER.event_of(wide.message_of(replace(ORDER, headers=headers))).headers == headers


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: OutboxTable(format=EventFormat.CLOUDEVENTS_STRUCTURED, payload_type=PayloadType.BYTES), "not bytes"),
        (
            lambda: OutboxTable(format=EventFormat.CLOUDEVENTS_BINARY, columns=OutboxColumns(source=None)),
            "CloudEvents need a source",
        ),
        (
            lambda: OutboxTable(format=EventFormat.CLOUDEVENTS_BINARY, headers={"ce_time": "x"}),
            "'ce_time' already belongs to the format",
        ),
        (
            lambda: WireContract(aggregates={"a": SequenceMode.NONE}, format=EventFormat.CLOUDEVENTS_BINARY),
            "ce_sequence",
        ),
        (
            lambda: replace(contract(EventFormat.CLOUDEVENTS_BINARY), extra_headers=("ce_subject",)),
            "already carries",
        ),
        (
            lambda: replace(contract(EventFormat.CLOUDEVENTS_STRUCTURED), extra_headers=("content-type",)),
            "already carries something in cloudevents-structured",
        ),
        (
            lambda: replace(contract(EventFormat.CLOUDEVENTS_STRUCTURED), extra_headers=("CE_tenant",)),
            "begins with ce_",
        ),
        (
            lambda: replace(contract(EventFormat.CLOUDEVENTS_STRUCTURED), headers=HeaderNames(source="ce_source")),
            "begins with ce_",
        ),
        (
            lambda: Outbox(table=OutboxTable(), contract=contract(EventFormat.CLOUDEVENTS_BINARY)),
            "format is plain, but the contract's is cloudev",
        ),
    ],
)
def test_what_a_format_cannot_is_refused(make: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        make()


def test_an_envelope_is_one_json_object() -> None:
    written = stated(ORDER, EventFormat.CLOUDEVENTS_STRUCTURED).payload
    assert json.loads(written)["time"] == TIME


@pytest.mark.parametrize("event_format", CLOUDEVENTS)
def test_a_row_from_before_the_format_is_read_as_well(event_format: EventFormat) -> None:
    """Connectors get a format before writers do, so that no envelope goes without its content type."""
    stated, plain = contract(event_format).message_of(ORDER), READER.message_of(ORDER)
    added = FORMAT_HEADERS[event_format].values()
    old = tuple((name, None if name in added else value) for name, value in stated.headers)
    assert READER.event_of(replace(stated, headers=old, value=plain.value)) == ORDER
