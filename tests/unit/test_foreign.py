"""Messages of an outbox that is not of this package."""

import json
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdc_outbox import (
    ConfigError,
    ForeignOutbox,
    HeaderNames,
    PayloadType,
    RecordedEvent,
    SequenceMode,
    WireContract,
)
from cdc_outbox.debezium.event_router import ConnectType, ConnectValue, LogicalName
from cdc_outbox.debezium.event_router.converters import SIMPLE_HEADER, STRING, Converter, JsonConverter
from cdc_outbox.errors import MessageError
from cdc_outbox.formats.timestamps import to_milliseconds
from cdc_outbox.message import Message

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
WRITTEN = WireContract(
    aggregates={"order": SequenceMode.GAPLESS, "metric": SequenceMode.NONE}, extra_headers=("traceparent", "tenant")
)
FOREIGN = replace(WRITTEN, foreign=ForeignOutbox())
BARE = WireContract(
    aggregates={"order": SequenceMode.NONE, "metric": SequenceMode.NONE},
    foreign=ForeignOutbox(default_type="{aggregate_type}"),
)

WITH_SCHEMAS, WITHOUT = JsonConverter(), JsonConverter(schemas_enabled=False)
CONVERTERS = [STRING, WITH_SCHEMAS, WITHOUT]

storable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
names = st.text("abcä1 '{}:-", min_size=1).filter(str.strip)
contents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | storable,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(storable, inner, max_size=3),
    max_leaves=5,
)
structures = st.dictionaries(storable, contents, max_size=3) | st.lists(contents, max_size=3)
events = st.builds(
    RecordedEvent,
    aggregate_type=st.just("order"),
    aggregate_id=names,
    type=names,
    payload=structures,
    id=names,
    created_at=st.just(NOW),
    sequence=st.integers(1, 2**63 - 1),
    source=names,
    headers=st.fixed_dictionaries({}, optional={"traceparent": names, "tenant": names}),
)


def column(text: str, name: str | None = None) -> ConnectValue:
    return ConnectValue(ConnectType.STRING, text, name)


def message(
    value: object = b"{}",
    *,
    topic: str = "outbox.event.order",
    key: bytes = b"42",
    headers: Mapping[str, str] | None = None,
) -> Message:
    octets = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    pairs = tuple((name, text.encode()) for name, text in ({"id": "1"} | dict(headers or {})).items())
    return Message(topic=topic, key=key, value=octets, headers=pairs, timestamp_ms=to_milliseconds(NOW))


def payload_of(value: object) -> object:
    return BARE.event_of(message(value)).payload


@given(
    events,
    st.sampled_from(CONVERTERS),
    st.sampled_from(CONVERTERS),
    st.sampled_from([SIMPLE_HEADER, WITH_SCHEMAS, WITHOUT]),
    st.sampled_from([None, LogicalName.JSON]),
)
def test_whatever_converters_were_chosen_the_event_is_the_same(
    event: RecordedEvent, key: Converter, value: Converter, header: Converter, kind: LogicalName | None
) -> None:
    written = WRITTEN.message_of(event)
    texts = [(name, octets.decode()) for name, octets in written.headers if octets is not None]
    converted = replace(
        written,
        key=key.convert(column((written.key or b"").decode())),
        value=value.convert(column((written.value or b"").decode(), kind)),
        headers=tuple((name, header.convert(column(text))) for name, text in texts),
    )
    assert FOREIGN.event_of(converted) == event


@given(events)
@example(
    RecordedEvent(aggregate_type="metric", aggregate_id='"1"', type="null", payload='"[1]"', id='"{}"', created_at=NOW)
)
@example(
    RecordedEvent(
        aggregate_type="metric",
        aggregate_id="1",
        type="x",
        payload='{"schema":null,"payload":1}',
        id="1",
        created_at=NOW,
    )
)
def test_nothing_is_taken_off_in_a_pipeline_of_ours(event: RecordedEvent) -> None:
    payload = json.loads(event.payload) if isinstance(event.payload, str) else event.payload
    assert WRITTEN.event_of(WRITTEN.message_of(event)) == replace(event, payload=payload)


@given(st.binary() | structures.map(lambda held: json.dumps(held).encode()), st.binary(), st.binary())
@example(b'{"schema":{"type":"bytes"},"payload":"?"}', b'"\\ud800"', b'"\\ud800"')
@example(b'{"schema":{"type":"bytes"},"payload":5}', b'{"schema":null,"payload":null}', b"null")
@example(b'"' + b"\\" * 99 + b'"', b'{"schema":{"type":[]},"payload":1}', b"")
def test_any_message_is_an_event_or_a_message_error(value: bytes, key: bytes, header: bytes) -> None:
    for contract in (BARE, replace(BARE, payload_type=PayloadType.BYTES)):
        try:
            event = contract.event_of(replace(message(value, key=key), headers=(("id", b"1"), ("eventType", header))))
        except MessageError:
            continue
        assert event.aggregate_id
        assert event.type


def test_a_bare_router_says_the_id_and_the_topic_the_rest() -> None:
    event = BARE.event_of(message(b'{"total": 10}'))
    assert event == RecordedEvent(
        aggregate_type="order", aggregate_id="42", type="order", payload={"total": 10}, id="1", created_at=NOW
    )


def test_a_default_is_for_those_that_say_nothing() -> None:
    contract = replace(BARE, foreign=ForeignOutbox(default_type="Changed"))
    assert contract.event_of(message()).type == "Changed"
    assert contract.event_of(message(headers={"eventType": ""})).type == "Changed"
    event = contract.event_of(message(headers={"eventType": "OrderPlaced", "aggregateType": "metric"}))
    assert (event.type, event.aggregate_type) == ("OrderPlaced", "metric")


def test_a_type_that_nobody_says_is_refused_unless_the_contract_says_one() -> None:
    with pytest.raises(MessageError, match="'eventType' is missing") as caught:
        FOREIGN.event_of(message(topic="outbox.event.metric"))
    assert "ForeignOutbox" in caught.value.hint


@pytest.mark.parametrize("topic", ["events", "elsewhere"])
def test_a_topic_of_several_aggregate_types_or_of_none_says_none(topic: str) -> None:
    with pytest.raises(MessageError, match="'aggregateType' is missing"):
        replace(BARE, topic="events").event_of(message(topic=topic))


def test_numbers_are_promised_by_the_contract_and_not_by_the_outbox() -> None:
    with pytest.raises(MessageError, match="its sequence or source is missing"):
        FOREIGN.event_of(message(headers={"eventType": "OrderPlaced"}))
    event = FOREIGN.event_of(message(headers={"eventType": "OrderPlaced", "sequence": "7", "source": '"orders.1"'}))
    assert (event.sequence, event.source) == (7, "orders.1")


def test_headers_have_the_names_that_the_contract_says() -> None:
    contract = WireContract(
        aggregates={"order": SequenceMode.GAPLESS},
        headers=HeaderNames(type="type", aggregate_type="kind", sequence="version", source="service"),
        foreign=ForeignOutbox(id_header="event-id"),
    )
    headers = {"event-id": "e7", "type": "OrderPlaced", "kind": "order", "version": "7", "service": "shop", "id": "x"}
    event = contract.event_of(message(topic="t", headers=headers))
    assert (event.id, event.type, event.aggregate_type) == ("e7", "OrderPlaced", "order")
    assert (event.sequence, event.source, event.headers) == (7, "shop", {"id": "x"})
    assert contract.event_of(contract.message_of(event)).id == "e7"


@pytest.mark.parametrize("default_type", ["", "{aggregatetype}"])
def test_a_default_that_is_no_type_is_refused(default_type: str) -> None:
    with pytest.raises(ConfigError, match="is not a valid type"):
        replace(BARE, foreign=ForeignOutbox(default_type=default_type))


def test_a_header_says_the_id_or_something_else() -> None:
    with pytest.raises(ConfigError, match="already carries the type"):
        replace(BARE, foreign=ForeignOutbox(id_header="eventType"))


STRING_SCHEMA = {"type": "string", "optional": True}
JSON_SCHEMA = {**STRING_SCHEMA, "name": "io.debezium.data.Json", "version": 1}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        (json.dumps('{"a": 1}'), {"a": 1}),
        ({"schema": STRING_SCHEMA, "payload": '{"a": 1}'}, {"a": 1}),
        ({"schema": JSON_SCHEMA, "payload": '{"a": 1}'}, {"a": 1}),
        ({"schema": STRING_SCHEMA, "payload": json.dumps('{"a": 1}')}, {"a": 1}),
        ({"schema": {"type": "struct", "fields": []}, "payload": {"a": 1}}, {"a": 1}),
        ({"schema": None, "payload": "[]"}, []),
        ({"schema": {"type": "bytes"}, "payload": b64encode(b'{"a": 1}').decode()}, {"a": 1}),
        ({"schema": {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"}, "payload": "AQ=="}, "AQ=="),
        # A text stays one where it may be meant as one, and is JSON where a schema says so.
        ("42", "42"),
        ("hello", "hello"),
        ("{template}", "{template}"),
        ('"hello"', '"hello"'),
        ({"schema": STRING_SCHEMA, "payload": "hello"}, "hello"),
        ({"schema": STRING_SCHEMA, "payload": "42"}, 42),
        ({"schema": JSON_SCHEMA, "payload": '"hello"'}, "hello"),
        ({"schema": JSON_SCHEMA, "payload": '"{}"'}, {}),
        # The payload's own fields.
        ({"schema": "public", "payload": 1}, {"schema": "public", "payload": 1}),
        ({"schema": {"type": "table"}, "payload": 1}, {"schema": {"type": "table"}, "payload": 1}),
        ({"schema": STRING_SCHEMA, "payload": 1, "a": 1}, {"schema": STRING_SCHEMA, "payload": 1, "a": 1}),
        ({"payload": '{"a": 1}', "deleted": False}, {"payload": '{"a": 1}', "deleted": False}),
        # Nothing, in the words of each converter.
        (None, None),
        (b"null", None),
        (b"", None),
        (b" ", None),
        ("", None),
        ({"schema": STRING_SCHEMA, "payload": None}, None),
    ],
)
def test_a_payload_comes_out_as_the_column_holds_it(value: object, expected: object) -> None:
    assert payload_of(value) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"42", "42"),
        (b'"42"', "42"),
        (b'{"schema":{"type":"string","optional":false},"payload":"42"}', "42"),
        (b'{"schema":{"type":"int64","optional":false},"payload":42}', "42"),
        (b'"say \\"hi\\""', 'say "hi"'),
        (b'{"region":1}', '{"region":1}'),
        (b'"', '"'),
        (b"nul", "nul"),
    ],
)
def test_a_key_is_the_aggregate_id_whichever_converter_wrote_it(key: bytes, expected: str) -> None:
    assert BARE.event_of(message(key=key)).aggregate_id == expected


@pytest.mark.parametrize("key", [b"null", b'{"schema":{"type":"string"},"payload":null}', b'""'])
def test_a_key_that_says_nothing_is_no_aggregate_id(key: bytes) -> None:
    with pytest.raises(MessageError, match="the key is empty"):
        BARE.event_of(message(key=key))


def test_a_header_of_null_is_none() -> None:
    headers = {"eventType": '{"schema":{"type":"string"},"payload":null}', "tenant": "null", "retry": "true"}
    event = BARE.event_of(message(headers=headers))
    assert (event.type, event.headers) == ("order", {"retry": "true"})


@pytest.mark.parametrize("schema", [None, {"type": "struct", "name": "srv.public.outbox.order.Value"}])
@pytest.mark.parametrize(("held", "payload"), [('{"a": 1}', {"a": 1}), ({"a": 1}, {"a": 1}), ("text", "text")])
def test_an_envelope_is_opened_and_all_its_fields_kept(schema: object, held: object, payload: object) -> None:
    fields = {
        "payload": held,
        "eventType": "OrderPlaced",
        "aggregateType": "metric",
        "deleted": False,
        "n": 7,
        "x": None,
    }
    value = fields if schema is None else {"schema": schema, "payload": fields}
    event = BARE.event_of(message(value))
    assert (event.type, event.aggregate_type, event.payload) == ("OrderPlaced", "metric", payload)
    assert event.headers == {"deleted": "false", "n": "7"}


def test_what_looks_like_an_envelope_and_has_a_type_is_the_payload() -> None:
    fields = {"payload": "{}", "eventType": "x"}
    assert BARE.event_of(message(fields, headers={"eventType": "OrderPlaced"})).payload == fields


CLOUD_EVENT = {"specversion": "1.0", "id": "c1", "source": "/shop", "type": "OrderPlaced"}


@pytest.mark.parametrize(
    "held", [{"a": 1}, '{"a": 1}', {"schema": STRING_SCHEMA, "payload": '{"a": 1}'}], ids=["plain", "twice", "schema"]
)
@pytest.mark.parametrize("headers", [{}, {"content-type": "application/cloudevents+json; charset=UTF-8"}])
def test_a_cloudevent_is_known_by_its_attributes(held: object, headers: dict[str, str]) -> None:
    told = Message(
        topic="outbox.event.order",
        key=b"42",
        value=json.dumps({**CLOUD_EVENT, "sequence": "7", "data": held}).encode(),
        headers=tuple((name, text.encode()) for name, text in headers.items()),
        timestamp_ms=to_milliseconds(NOW),
    )
    expected = RecordedEvent(
        aggregate_type="order", aggregate_id="42", type="OrderPlaced", payload={"a": 1}, id="c1", created_at=NOW
    )
    assert BARE.event_of(told) == replace(expected, source="/shop")
    numbered = replace(BARE, aggregates={"order": SequenceMode.GAPLESS})
    assert numbered.event_of(told) == replace(expected, source="/shop", sequence=7)
    around = b'{"schema":{"type":"struct"},"payload":%s}' % (told.value or b"")
    assert BARE.event_of(replace(told, value=around)) == BARE.event_of(told)
    with_id = replace(told, headers=(*told.headers, ("id", b'"h1"')))
    assert BARE.event_of(with_id).id == "h1"


def test_a_cloudevent_in_binary_mode_needs_none_of_our_extensions() -> None:
    attributes = {f"ce_{name}": text.encode() for name, text in CLOUD_EVENT.items()}
    told = replace(message(), headers=tuple(attributes.items()))
    event = BARE.event_of(told)
    assert (event.id, event.type, event.aggregate_type, event.source) == ("c1", "OrderPlaced", "order", "/shop")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x00\x01", b"\x00\x01"),
        (b'"AQI="', b'"AQI="'),
        (b"", b""),
        (b'{"schema":{"type":"bytes","optional":true},"payload":"AQI="}', b"\x01\x02"),
        (b'{"schema":{"type":"bytes","optional":true},"payload":null}', None),
        (b'{"schema":{"type":"string"},"payload":"AQI="}', b'{"schema":{"type":"string"},"payload":"AQI="}'),
    ],
)
def test_bytes_are_taken_from_a_schema_that_says_so(value: bytes, expected: bytes | None) -> None:
    assert replace(BARE, payload_type=PayloadType.BYTES).event_of(message(value)).payload == expected
