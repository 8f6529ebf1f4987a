"""What random cases for the EventRouter are made of: kinds of columns, converters, options and their mishaps."""

import json
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from uuid import UUID

from cdc_outbox.debezium.event_router import ConnectSchema, ConnectType, LogicalName
from cdc_outbox.debezium.event_router.routing import ConnectPlugin
from cdc_outbox.debezium.event_router.values import Scalar

T, L = ConnectType, LogicalName
Maker = Callable[[Random], Scalar]

LETTERS = string.ascii_letters + string.digits + ' "\\\n\t\x01\x1f\x7fäß€\U0001f600{}[]:,'


def _words(random: Random) -> str:
    if random.random() < 0.01:
        # Longer than the buffers that texts are written through.
        return 'ä\U0001f600"' * 5_000
    return "".join(random.choices(LETTERS, k=random.randrange(12)))


def _json(random: Random) -> str:
    return json.dumps({_words(random): random.choice([1, None, True, "x", [], {"a": 1.5}])}, ensure_ascii=False)


def _number(bits: int) -> Maker:
    return lambda random: random.choice([0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1)), random.randrange(2**15)])


def _octets(random: Random) -> bytes:
    return random.randbytes(random.randrange(6))


def _decimal(scale: int) -> Maker:
    return lambda random: Decimal(random.choice([0, 1, -1, 127, 128, -128, -129, 10**20, 1999])).scaleb(-scale)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of column."""

    type: ConnectType
    make: Maker
    name: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    keys: ConnectSchema | None = None
    items: ConnectSchema | None = None


KINDS: Mapping[str, Kind] = {
    "text": Kind(T.STRING, _words),
    "json": Kind(T.STRING, _json, L.JSON),
    "uuid": Kind(T.STRING, lambda random: str(UUID(int=random.getrandbits(128))), L.UUID),
    "int16": Kind(T.INT16, _number(16)),
    "int32": Kind(T.INT32, _number(32)),
    "int64": Kind(T.INT64, _number(64)),
    "boolean": Kind(T.BOOLEAN, lambda random: random.random() < 0.5),
    "bytes": Kind(T.BYTES, _octets),
    "decimal": Kind(T.BYTES, _decimal(2), L.DECIMAL, (("scale", "2"), ("connect.decimal.precision", "30"))),
    "exponent": Kind(T.BYTES, _decimal(9), L.DECIMAL, (("scale", "9"),)),
}
"""Every kind of column that is carried."""

NULLS: Mapping[str, Kind] = {
    "tags": Kind(T.ARRAY, lambda _: 0, items=ConnectSchema(type=T.STRING)),
    "uuids": Kind(T.ARRAY, lambda _: 0, items=ConnectSchema(type=T.STRING, name=L.UUID, version=1)),
    "labels": Kind(
        T.MAP, lambda _: 0, keys=ConnectSchema(type=T.STRING, optional=False), items=ConnectSchema(type=T.INT64)
    ),
}
"""Kinds of columns of which only the null is carried."""

TIMES: Mapping[str, Kind] = {
    "Timestamp": Kind(T.INT64, _number(40), L.TIMESTAMP),
    "MicroTimestamp": Kind(T.INT64, _number(60), L.MICRO_TIMESTAMP),
    "NanoTimestamp": Kind(T.INT64, _number(64), L.NANO_TIMESTAMP),
    "ZonedTimestamp": Kind(T.STRING, lambda _: "2026-01-01T00:00:00Z", L.ZONED_TIMESTAMP),
    "bigint": Kind(T.INT64, _number(40)),
    "MicroTime": Kind(T.INT64, _number(40), "io.debezium.time.MicroTime"),
    "connect": Kind(T.INT64, _number(40), L.CONNECT_TIMESTAMP),
}

JSON = "org.apache.kafka.connect.json.JsonConverter"
STRING = "org.apache.kafka.connect.storage.StringConverter"
BINARY = "io.debezium.converters.BinaryDataConverter"
BYTE_ARRAY = "io.debezium.converters.ByteArrayConverter"
DELEGATE = "delegate.converter.type"

CONVERTERS: Mapping[str, ConnectPlugin] = {
    "String": ConnectPlugin(STRING),
    "Json": ConnectPlugin(JSON),
    "Json without schemas": ConnectPlugin(JSON, {"schemas.enable": "false"}),
    "Json with numbers": ConnectPlugin(JSON, {"schemas.enable": " FALSE", "decimal.format": " numeric"}),
    "Json with nulls": ConnectPlugin(JSON, {"schemas.enable": "false", "replace.null.with.default": "false"}),
    "BinaryData": ConnectPlugin(BINARY),
    "BinaryData, String": ConnectPlugin(BINARY, {DELEGATE: STRING}),
    "BinaryData, Json": ConnectPlugin(BINARY, {DELEGATE: JSON, f"{DELEGATE}.schemas.enable": "false"}),
    "BinaryData, Json with schemas": ConnectPlugin(
        BINARY, {DELEGATE: JSON, "delegate.converter.schemas.enable": "false"}
    ),
    "Debezium's ByteArray": ConnectPlugin(BYTE_ARRAY),
    "Debezium's ByteArray, Json": ConnectPlugin(BYTE_ARRAY, {DELEGATE: JSON, f"{DELEGATE}.schemas.enable": "false"}),
    "Debezium's ByteArray, String": ConnectPlugin(BYTE_ARRAY, {DELEGATE: STRING}),
    "Kafka's ByteArray": ConnectPlugin("org.apache.kafka.connect.converters.ByteArrayConverter"),
}
BROKEN_CONVERTERS = (
    ConnectPlugin(JSON, {"schemas.enable": "maybe"}),
    ConnectPlugin(JSON, {"decimal.format": "text"}),
    ConnectPlugin(BINARY, {DELEGATE: JSON, f"{DELEGATE}.schemas.enable": ""}),
)
BYTES_ONLY = frozenset({"BinaryData", "Debezium's ByteArray", "Kafka's ByteArray"})

SWITCHES: Mapping[str, Sequence[str]] = {
    "table.op.invalid.behavior": ("warn", "error", "fatal", " Fatal"),
    "table.field.additional.missing": ("error", "ignore", "IGNORE "),
    "table.fields.additional.error.on.missing": ("true", "false"),
    "table.expand.json.payload": ("false", " False "),
    "table.json.payload.null.behavior": ("ignore", "optional_bytes"),
    "table.json.payload.empty.array.behavior": ("ignore", "optional_string"),
    "route.tombstone.on.empty.payload": ("true", "false", "TRUE"),
    "tracing.span.context.field": ("trace",),
    "tracing.operation.name": ("x",),
    "tracing.with.context.field.only": ("true", "false"),
    "table.field.event.type": ("type", "nowhere"),
    "unknown": ("x",),
}
BROKEN_SWITCHES: Mapping[str, Sequence[str]] = {
    "table.op.invalid.behavior": ("nope", ""),
    "table.field.additional.missing": ("true",),
    "table.fields.additional.error.on.missing": ("maybe",),
    "table.expand.json.payload": ("yes",),
    "table.json.payload.null.behavior": ("drop",),
    "table.json.payload.empty.array.behavior": ("drop",),
    "route.tombstone.on.empty.payload": ("1", ""),
}
OTHERS = ("tombstone", "heartbeat", "text", "false envelope", "text envelope")
"""Records that are no changes."""
BROKEN_PLACEMENTS = ("type", "", ":", "a:b:c:d", "type:header,x", "type:header, ")
ODD_PLACEMENTS = (
    ("bogus", "type:bogus"),
    ("bogus", "type::alias"),
    ("payload twice", "type:envelope:payload"),
    ("same field twice", "type:envelope:a,flag:envelope:a"),
    ("empty alias", "type:envelope: "),
    ("trailing comma", "type:header:eventType,"),
    ("only a comma", ","),
    ("trailing colon", "type:header:"),
    ("blanks", " type : header : event Type , flag:envelope"),
    ("capitals", "type:HEADER:t,flag:Envelope:f"),
    ("id twice", "id:header"),
    ("missing header", "nowhere:header"),
    ("missing envelope", "nowhere:envelope,type:envelope"),
    ("missing partition", "nowhere:partition"),
    ("missing and bogus", "nowhere:bogus"),
    ("partition of another type", "int64:partition"),
    ("partition of dates", "date:partition"),
    ("two partitions", "p:partition,q:partition"),
)
