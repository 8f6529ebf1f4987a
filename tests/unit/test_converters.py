"""The cells of payloads and converters, as they were seen on the real ones."""

from decimal import Decimal

import pytest

from cdc_outbox.debezium.event_router import ConnectSchema, ConnectStruct, ConnectType, ConnectValue, LogicalName
from cdc_outbox.debezium.event_router.converters import SIMPLE_HEADER, STRING, BytesConverter, Converter, JsonConverter
from cdc_outbox.debezium.event_router.values import Scalar
from cdc_outbox.errors import ConfigError, RoutingError

T = ConnectType
JSON, PLAIN = JsonConverter(), JsonConverter(schemas_enabled=False)
BINARY, BUFFERLESS = BytesConverter(), BytesConverter(takes_buffers=False)
TEXT = ConnectSchema(type=T.STRING)
DOCUMENT = ConnectValue(T.STRING, '{"a":1}', LogicalName.JSON)
PRICE = ConnectValue(T.BYTES, Decimal("1.50"), LogicalName.DECIMAL, parameters=(("scale", "2"),))
ENVELOPE = ConnectStruct(
    ConnectSchema(
        type=T.STRUCT,
        name="srv.public.outbox.User.Value",
        optional=False,
        fields=(("payload", DOCUMENT.schema), ("eventType", ConnectSchema(type=T.STRING, optional=False))),
    ),
    {"payload": '{"a":1}', "eventType": "UserCreated"},
)


@pytest.mark.parametrize(
    ("converter", "value", "expected"),
    [
        (PLAIN, DOCUMENT, r'"{\"a\":1}"'),
        (
            JSON,
            DOCUMENT,
            r'{"schema":{"type":"string","optional":true,"name":"io.debezium.data.Json","version":1},"payload":"{\"a\":1}"}',
        ),
        (STRING, DOCUMENT, '{"a":1}'),
        (PLAIN, ENVELOPE, r'{"payload":"{\"a\":1}","eventType":"UserCreated"}'),
        (STRING, ENVELOPE, 'Struct{payload={"a":1},eventType=UserCreated}'),
        (BINARY, ConnectValue(T.BYTES, b"\x00\xff"), b"\x00\xff"),
        (PLAIN, ConnectValue(T.BYTES, b"\x01\x02"), '"AQI="'),
        (STRING, ConnectValue(T.BYTES, b"\x01\x02"), "java.nio.HeapByteBuffer[pos=0 lim=2 cap=2]"),
        (PLAIN, ConnectValue(T.STRING, None), "null"),
        (STRING, ConnectValue(T.STRING, None), None),
        (BINARY, ConnectValue(T.BYTES, None), None),
        (BINARY, ConnectValue(T.BYTES, b""), b""),
        (PLAIN, ConnectValue(T.STRING, ""), '""'),
        (STRING, ConnectValue(T.STRING, ""), b""),
        (
            JSON,
            ConnectValue(T.ARRAY, None, items=TEXT),
            '{"schema":{"type":"array","items":{"type":"string","optional":true},"optional":true},"payload":null}',
        ),
        (
            JSON,
            ConnectValue(T.MAP, None, keys=ConnectSchema(type=T.STRING, optional=False), items=TEXT),
            '{"schema":{"type":"map","keys":{"type":"string","optional":false},"values":{"type":"string","optional":true},"optional":true},"payload":null}',
        ),
        (PLAIN, ConnectValue(T.ARRAY, None), "null"),
        (PLAIN, None, None),
        (JSON, None, None),
        (PLAIN, PRICE, '"AJY="'),
        (JsonConverter(schemas_enabled=False, numeric_decimals=True), PRICE, "1.50"),
        (STRING, PRICE, "1.50"),
        (PLAIN, ConnectValue(T.STRING, "\x1f\n\u00e4\U0001f600"), '"\\u001F\\n\u00e4\\uD83D\\uDE00"'),
        (PLAIN, ConnectValue(T.STRING, None, default="x"), '"x"'),
        (JsonConverter(schemas_enabled=False, replaces_null=False), ConnectValue(T.STRING, None, default="x"), "null"),
    ],
)
def test_a_value_becomes_these_bytes(
    converter: Converter, value: ConnectStruct | ConnectValue | None, expected: str | bytes | None
) -> None:
    assert converter.convert(value) == (expected.encode() if isinstance(expected, str) else expected)


@pytest.mark.parametrize(
    ("converter", "value"),
    [
        (BINARY, DOCUMENT),
        (BINARY, ENVELOPE),
        (BINARY, ConnectValue(T.STRING, None)),
        (BUFFERLESS, ConnectValue(T.BYTES, b"x")),
        (BINARY, PRICE),
        (PLAIN, ConnectValue(T.STRING, None, optional=False)),
        (PLAIN, ConnectValue(T.BYTES, Decimal("1.5"), LogicalName.DECIMAL, parameters=(("scale", "2"),))),
    ],
)
def test_a_value_that_does_not_fit_kills_the_task(converter: Converter, value: ConnectStruct | ConnectValue) -> None:
    with pytest.raises(RoutingError) as caught:
        converter.convert(value)
    assert (caught.value.exception, caught.value.stage) == ("DataException", "convert")


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (T.BOOLEAN, True, b"true"),
        (T.BOOLEAN, False, b"false"),
        (T.INT64, -7, b"-7"),
        (T.BYTES, b"\x01\x02", b"AQI="),
        (T.STRING, "ü", "ü".encode()),
        (T.STRING, None, None),
    ],
)
def test_header_values_are_rendered_as_simple_header_converter_does(
    kind: ConnectType, value: Scalar | None, text: bytes | None
) -> None:
    assert SIMPLE_HEADER.convert(ConnectValue(kind, value)) == text


@pytest.mark.parametrize("converter", [STRING, PLAIN, SIMPLE_HEADER])
def test_the_text_of_a_floating_point_number_is_not_imitated(converter: Converter) -> None:
    with pytest.raises(ConfigError) as caught:
        converter.convert(ConnectValue(T.FLOAT64, 1))
    assert "--engine real" in caught.value.hint


@pytest.mark.parametrize("kind", [T.ARRAY, T.MAP, T.STRUCT])
def test_a_schema_that_is_not_known_is_refused(kind: ConnectType) -> None:
    with pytest.raises(ConfigError, match=f"values of type {kind} are not supported here"):
        JSON.convert(ConnectValue(kind, None))
    with pytest.raises(ConfigError, match="are not supported"):
        JSON.convert(ConnectValue(T.MAP, None, items=DOCUMENT.schema))
