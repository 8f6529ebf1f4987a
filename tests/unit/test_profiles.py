"""What a payload may be, from the spec to the reader: what is rendered, what is refused, what is read."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cdc_outbox import (
    TOMBSTONE,
    ConfigError,
    Event,
    EventError,
    EventFormat,
    Outbox,
    OutboxMode,
    OutboxTable,
    PayloadType,
    RecordedEvent,
    SequenceMode,
    WireContract,
)
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.facts import ColumnFacts
from cdc_outbox.debezium.event_router.outbox_rows import outbox_columns
from cdc_outbox.debezium.lint import lint
from cdc_outbox.debezium.preflight import check_outbox
from cdc_outbox.debezium.render import render
from cdc_outbox.debezium.render.spec_config import rendered_config
from cdc_outbox.errors import MessageError
from cdc_outbox.formats.attributes import HeaderNames
from cdc_outbox.formats.timestamps import to_microseconds
from cdc_outbox.message import Message
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.writer.draft import draft
from tests.support.database_facts import GOOD
from tests.support.profiles import FRAMED, PROFILES
from tests.support.specs import MINIMAL, MONGODB

CONNECTED = [kind for kind in DatabaseKind if kind is not DatabaseKind.SQLITE]
NOT_OF_DOCUMENTS = {"envelope", "expanded", "expanded-envelope"}
POSSIBLE = [
    (profile, kind)
    for profile in PROFILES
    for kind in CONNECTED
    if kind is not DatabaseKind.MONGODB or profile not in NOT_OF_DOCUMENTS
]
CONVERTERS = "org.apache.kafka.connect"
JSON = {"value.converter": f"{CONVERTERS}.json.JsonConverter", "value.converter.schemas.enable": "false"}
BYTES = {
    "value.converter": "io.debezium.converters.BinaryDataConverter",
    "value.converter.delegate.converter.type": f"{CONVERTERS}.storage.StringConverter",
}
EXPANSION = {
    "transforms.outbox.table.expand.json.payload": "true",
    "transforms.outbox.table.json.payload.null.behavior": "optional_bytes",
    "transforms.outbox.table.json.payload.empty.array.behavior": "optional_string",
}
TOMBSTONES = {"transforms.outbox.route.tombstone.on.empty.payload": "true"}
RENDERED: Mapping[str, Mapping[str, str]] = {
    "json": {},
    "bytes": BYTES,
    "envelope": JSON,
    "expanded": JSON | EXPANSION | TOMBSTONES,
    "expanded-envelope": JSON | EXPANSION,
    "cloudevents-binary": {},
    "cloudevents-bytes": BYTES,
    "cloudevents-structured": {},
}
"""What differs from the profile json, but for what is placed."""
PLACED = "transforms.outbox.table.fields.additional.placement"

CREATED_AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
ORDER = RecordedEvent(
    aggregate_type="order",
    aggregate_id="4😀",
    type='Order"Placed\x01',
    payload='{ "as":  1.10, "is": "\\u00e9😀" }',
    id="019a9e2c-1c80-7abc-8def-0123456789ab",
    sequence=2**60,
    source="orders.1",
    created_at=CREATED_AT,
    headers={"traceparent": "00-1-2-01"},
)
GIVEN = Event(aggregate_type="order", aggregate_id="4😀", type="OrderPlaced", payload={})
AGGREGATES = {"order": SequenceMode.GAPLESS}
ENVELOPES = WireContract(aggregates=AGGREGATES, format=EventFormat.ENVELOPE)
PLAIN = WireContract(aggregates=AGGREGATES)


def spec_of(profile: str, kind: str = "postgresql") -> Spec:
    text = MONGODB if kind == "mongodb" else MINIMAL.replace("postgresql", kind)
    return parse_spec(f"{text}outbox: {{schema: APP{PROFILES[profile]}}}\n")


@pytest.mark.parametrize("profile", sorted(NOT_OF_DOCUMENTS))
def test_what_a_document_cannot_be_is_refused(profile: str) -> None:
    with pytest.raises(ConfigError) as caught:
        spec_of(profile, "mongodb")
    [finding] = caught.value.findings
    assert "mongodb" in finding.message
    assert finding.location.path in {"outbox.format", "outbox.payload_type"}


@pytest.mark.parametrize(("profile", "kind"), POSSIBLE)
def test_a_profile_is_these_options_on_every_database(profile: str, kind: str) -> None:
    config, plain = render(spec_of(profile, kind)), render(spec_of("json", kind))
    differs = {option: value for option, value in config.items() if plain.get(option) != value}
    placed = PLACED.replace("table", "collection") if kind == "mongodb" else PLACED
    assert {option: value for option, value in differs.items() if option != placed} == RENDERED[profile]
    assert config.keys() >= plain.keys()


def test_an_envelope_holds_the_attributes_and_headers_the_rest() -> None:
    assert render(spec_of("envelope"))[PLACED] == (
        "id:envelope:id,type:envelope:eventType,aggregatetype:envelope:aggregateType,"
        "aggregateid:envelope:aggregateId,sequence:envelope:sequence,source:envelope:source,"
        "created_at:envelope:createdAt,traceparent:header:traceparent,tracestate:header:tracestate"
    )


@pytest.mark.parametrize(("profile", "kind"), POSSIBLE)
def test_a_profile_lints_clean(profile: str, kind: DatabaseKind) -> None:
    found = {finding.code for finding in lint(rendered_config(spec_of(profile, kind)))}
    # Where no writer of ours refuses what expansion loses, somebody has to be told.
    foreign = {"CC321"} if "expanded" in profile and not kind.has_dialect else set()
    assert found == foreign


def test_a_configuration_whose_writers_are_unknown_is_warned_of_expansion() -> None:
    config = replace(rendered_config(spec_of("expanded")), expands_shapes=False)
    assert [finding.code for finding in lint(config)] == ["CC321"]


@pytest.mark.parametrize(
    ("outbox", "message"),
    [
        ("payload: bytes", "outbox.payload: error SP101: unknown key 'payload'. Did you mean 'payload_type'?"),
        ("payload_type: envelope", "Write `format: envelope`."),
        ("payload_type: cloudevents", "Write `format: cloudevents-binary` or `format: cloudevents-structured`."),
        ("format: bytes", "Write `payload_type: bytes`."),
        ("format: cloudevents", "Write cloudevents-binary or cloudevents-structured."),
        ("format: xml", "outbox.format must be one of plain, envelope,"),
        ("format: [xml]", "outbox.format must be one of plain, envelope,"),
        ("payload_type: bytes, format: envelope", "an envelope must be JSON, not bytes"),
        ("payload_type: bytes, format: cloudevents-structured", "an envelope must be JSON, not bytes"),
        ("payload_type: expanded, format: cloudevents-binary", "expansion changes it"),
        ("payload_type: bytes, mode: message", "never as bytes"),
        ("format: envelope, mode: message", "fails on the second type in an envelope"),
    ],
)
def test_what_cannot_be_is_refused_with_the_way_out(outbox: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_spec(f"{MINIMAL}outbox:\n  {{{outbox}}}\n")
    [finding] = caught.value.findings
    assert message in str(finding)
    assert finding.location.line == 12


def test_the_column_of_bytes_is_asked_for() -> None:
    assert {column.name: column.sql_type for column in outbox_columns(spec_of("bytes").outbox)}["payload"] == "bytea"
    text = f"{MINIMAL}outbox: {{payload_type: bytes}}\n"
    found = GOOD
    assert found.table is not None
    [finding] = check_outbox(parse_spec(text), found.table, found.publication)
    assert (finding.code, finding.location.path) == ("DB304", "public.outbox.payload")
    assert "another table" in finding.remedy
    columns = {**found.table.columns, "payload": ColumnFacts("bytea")}
    assert check_outbox(parse_spec(text), replace(found.table, columns=columns), found.publication) == ()


def test_an_envelope_is_read_by_whoever_expects_headers_and_the_other_way_round() -> None:
    message = ENVELOPES.message_of(ORDER)
    assert [name for name, _ in message.headers] == ["id", "traceparent", "tracestate"]
    assert json.loads(message.value or b"") == {
        "payload": ORDER.payload,
        "id": ORDER.id,
        "eventType": ORDER.type,
        "aggregateType": "order",
        "aggregateId": ORDER.aggregate_id,
        "sequence": 2**60,
        "source": "orders.1",
        "createdAt": to_microseconds(CREATED_AT),
    }
    expected = replace(ORDER, payload={"as": 1.1, "is": "é😀"})
    for contract in (ENVELOPES, PLAIN):
        assert contract.event_of(message) == expected
        assert contract.event_of(PLAIN.message_of(ORDER)) == expected


@pytest.mark.parametrize("name", ["payload", "aggregateId"])
def test_two_fields_of_an_envelope_have_two_names(name: str) -> None:
    with pytest.raises(ConfigError, match="two fields of the envelope"):
        replace(ENVELOPES, headers=HeaderNames(type=name))


def test_what_looks_like_an_envelope_and_has_headers_is_a_payload() -> None:
    content = {"payload": "1", "eventType": "x", "sequence": 3}
    assert ENVELOPES.event_of(PLAIN.message_of(replace(ORDER, payload=content))).payload == content


def message_of(value: bytes, *headers: tuple[str, bytes]) -> Message:
    return Message(topic="t", key=b"1", value=value, headers=headers, timestamp_ms=1_800_000_000_000)


@pytest.mark.parametrize("payload", [{"a": 1}, None, [1]])
def test_a_payload_in_an_envelope_may_be_expanded_or_missing(payload: object) -> None:
    fields = {"eventType": "Placed", "aggregateType": "order", "sequence": 1, "source": "orders.1", "payload": payload}
    message = message_of(json.dumps(fields).encode(), ("id", b"x"))
    event = PLAIN.event_of(message)
    assert (event.payload, event.sequence, event.type) == (payload, 1, "Placed")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"payload": "{"}, "the payload is not JSON: Expecting property name"),
        ({"eventType": None}, "the header 'aggregateType' is missing"),
        ({"eventType": 1, "source": {}}, "the header 'aggregateType' is missing"),
        ({"sequence": None}, "its sequence or source is missing"),
        ({"sequence": 1.5}, "the header 'aggregateType' is missing"),
        ({"sequence": True}, "is not a positive number"),
    ],
)
def test_an_envelope_that_breaks_the_contract_is_told(changes: dict[str, object], message: str) -> None:
    fields = {"eventType": "Placed", "aggregateType": "order", "sequence": 1, "source": "orders.1", "payload": "1"}
    value = json.dumps(fields | changes).encode()
    with pytest.raises(MessageError, match=message):
        PLAIN.event_of(message_of(value, ("id", b"x")))


def test_where_a_header_says_it_the_envelope_is_not_asked() -> None:
    fields = {"eventType": "Placed", "aggregateType": "order", "sequence": 9, "source": "elsewhere.1", "payload": "1"}
    headers = (("id", b"x"), ("sequence", b"7"), ("source", b"orders.1"))
    event = PLAIN.event_of(message_of(json.dumps(fields).encode(), *headers))
    assert (event.type, event.sequence, event.source, event.payload) == ("Placed", 7, "orders.1", 1)


@pytest.mark.parametrize("content", [FRAMED, b"", b"{}"])
def test_bytes_are_read_as_they_are(content: bytes) -> None:
    contract = replace(PLAIN, payload_type=PayloadType.BYTES)
    event = replace(ORDER, payload=content)
    assert contract.event_of(contract.message_of(event)) == event
    assert contract.event_of(contract.message_of(replace(event, payload=TOMBSTONE))).payload is None


def test_bytes_of_a_cloudevent_are_known_by_their_content_type() -> None:
    contract = replace(PLAIN, format=EventFormat.CLOUDEVENTS_BINARY, payload_type=PayloadType.BYTES)
    event = replace(ORDER, payload=FRAMED)
    assert PLAIN.event_of(contract.message_of(event)) == event


def test_an_outbox_and_its_contract_agree_on_the_payload() -> None:
    with pytest.raises(ConfigError, match="payload_type is bytes, but the contract's is json"):
        Outbox(table=OutboxTable(payload_type=PayloadType.BYTES), contract=PLAIN)


@pytest.mark.parametrize("payload_type", [PayloadType.JSON, PayloadType.EXPANDED])
def test_an_envelope_has_no_tombstone(payload_type: PayloadType) -> None:
    table = OutboxTable(format=EventFormat.ENVELOPE, payload_type=payload_type)
    with pytest.raises(EventError, match="a tombstone has no value, but an envelope needs one"):
        draft(replace(GIVEN, payload=TOMBSTONE), table, Dialect.POSTGRESQL)


def test_an_envelope_counts_what_it_escapes() -> None:
    quotes = json.dumps(['"'] * 1_000)
    event, table = replace(GIVEN, payload=quotes), OutboxTable(format=EventFormat.ENVELOPE)
    draft(event, OutboxTable(), Dialect.POSTGRESQL, max_message_bytes=len(quotes) + 100)
    with pytest.raises(EventError, match="the limit is") as caught:
        draft(event, table, Dialect.POSTGRESQL, max_message_bytes=len(quotes) + 100)
    assert "Outbox(max_message_bytes=…), max.message.bytes of the topic" in caught.value.hint


EXPANDED = OutboxTable(payload_type=PayloadType.EXPANDED)


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"a": None, "b": [], "c": [None], "d": [[1], [2]], "e": 2**63 - 1, "f": 0.1},
        {"lines": [{"a": 1, "b": None}, {"b": ["x"], "a": None}]},
        ' \n{ "a": 1.10, "b": 1e2 } ',
        TOMBSTONE,
    ],
)
def test_what_debezium_can_expand_is_written(payload: object) -> None:
    draft(replace(GIVEN, payload=payload), EXPANDED, Dialect.POSTGRESQL)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ([1, 2], "is not an object"),
        ('"text"', "is not an object"),
        ("null", "is not an object"),
        ({"": 1}, "has a key without a name"),
        ({"a": [{"": 1}]}, "has a key without a name"),
        ({"a": [1, "x"]}, "has values of different types"),
        ({"a": [1, 2.5]}, "has values of different types"),
        ({"a": [1, 2**31]}, "has values of different types"),
        ({"a": [[], [1]]}, "has values of different types"),
        ({"a": [{"b": 1}, None]}, "has values of different types"),
        ({"a": [{"b": 1}, {"b": "x"}]}, "has values of different types"),
        ({"a": [{"b": {"c": 1}}, {"b": {"c": None}}]}, "has values of different types"),
        ({"a": [{"b": 1}, {"c": 1}]}, "has objects with different keys"),
        ({"a": 2**63}, "has an integer of more than 64 bits"),
        ('{"a": 1e400}', "has a number that a double cannot hold"),
        ('{"a": 123456789.123456789012}', "has a number that a double cannot hold"),
        (f'{{"a": 0.{"0" * 2_000}}}', "has a number that a double cannot hold"),
        (b"{}", "only JSON can be expanded"),
    ],
)
def test_what_debezium_would_lose_or_fail_on_is_refused(payload: object, reason: str) -> None:
    with pytest.raises(EventError, match=reason):
        draft(replace(GIVEN, payload=payload), EXPANDED, Dialect.POSTGRESQL)


def test_expanded_payloads_are_stored_as_json() -> None:
    for dialect in Dialect:
        assert EXPANDED.names(dialect)["payload_type"] == OutboxTable().names(dialect)["payload_type"]


def test_what_is_expanded_may_be_a_logical_message() -> None:
    spec = parse_spec(f"{MINIMAL}outbox: {{mode: {OutboxMode.MESSAGE}, payload_type: expanded}}\n")
    assert render(spec)["transforms.outbox.table.expand.json.payload"] == "true"
