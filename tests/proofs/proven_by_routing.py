"""Rows that become something else than was meant, or nothing at all: each with the option that makes it so."""

import json
from collections.abc import Mapping
from typing import Any

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.event_router import ConnectType, ConnectValue
from cdc_outbox.message import Message
from tests.proofs.routed import NOW_MS, Routed, becomes, fails, headers, topics, values
from tests.support.configs import BINARY, JSON, MONGO_ROUTER, ROUTER, STRING

_R, _T, _M = "transforms.outbox.", "transforms.outbox.table.", "transforms.outbox.collection."
_PLACEMENT = f"{_T}fields.additional.placement"
_PLAIN_JSON = {"value.converter": JSON, "value.converter.schemas.enable": "false"}
_EXPANDED = {f"{_T}expand.json.payload": "true", **_PLAIN_JSON}
_ENVELOPE = {_PLACEMENT: "type:envelope", **_PLAIN_JSON}
_BYTES = {"payload": b"\x00\x01"}
_DELEGATE = {"value.converter": BINARY, "value.converter.delegate.converter.type": JSON}
_TWO_TYPES = ({"aggregatetype": "order"}, {"aggregatetype": "invoice"})
_DOCUMENT = (
    '{"_id":"e1","aggregatetype":"order","aggregateid":"42","type":"Placed",'
    '"created_at":{"$numberLong":"1600000000000"},"payload":%s}'
)
_CAPITALS = {name.upper(): text for name, text in {"id": "e1", "aggregatetype": "order", "aggregateid": "42"}.items()}


def _parsed(message: Message) -> Any:
    return json.loads(message.value or b"")


def _schema(message: Message) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = _parsed(message)["schema"]
    return schema


ROUTED = (
    Routed(
        code="CC301",
        changes={f"{_T}field.event.payload": None, f"{_T}field.payload": "body"},
        fixed={f"{_T}field.event.payload": "body"},
        rows=[{"body": "that"}],
        shows=values(b'{"a":1}'),
    ),
    Routed(
        code="CC302",
        changes={f"{_T}field.event.type": "no_such_column", _PLACEMENT: None},
        fixed={_PLACEMENT: "type:header:eventType"},
        shows=headers("id"),
    ),
    Routed(code="CC304", changes={_PLACEMENT: "type:bogus"}, shows=fails("NullPointerException")),
    Routed(code="CC305", changes={_PLACEMENT: "id:header"}, shows=headers("id", "id")),
    Routed(
        code="CC306",
        changes={**_ENVELOPE, _PLACEMENT: "type:envelope:payload"},
        fixed=_ENVELOPE,
        shows=fails("SchemaBuilderException"),
    ),
    Routed(
        code="CC307",
        changes={_PLACEMENT: "one:partition,other:partition"},
        fixed={_PLACEMENT: "one:partition"},
        also=("CC308",),
        rows=[{"one": 1, "other": 2}],
        shows=becomes(lambda seen: seen.partition == 2),
    ),
    Routed(
        code="CC308",
        changes={_PLACEMENT: "large:partition"},
        rows=[{"large": ConnectValue(ConnectType.INT64, 1)}],
        shows=fails("DataException", "INT32"),
    ),
    Routed(
        code="CC312",
        changes={f"{_R}route.topic.replacement": "x.${nogroup}"},
        shows=fails("IllegalArgumentException", "nogroup"),
    ),
    Routed(
        code="CC314",
        changes={f"{_R}route.topic.replacement": "events"},
        rows=_TWO_TYPES,
        shows=topics("events", "events"),
    ),
    Routed(
        code="CC315",
        changes={f"{_R}route.topic.replacement": "${routedByValue}"},
        rows=[{"aggregatetype": "connect-configs"}],
        shows=topics("connect-configs"),
    ),
    Routed(
        code="CC316",
        changes={f"{_R}route.topic.regex": "(?<routedByValue>[a-z]+)"},
        rows=[{"aggregatetype": "order2"}],
        shows=topics("order2"),
    ),
    Routed(
        code="CC339",
        changes={f"{_R}route.topic.regex": "(?<routedByValue>order)"},
        rows=[{"aggregatetype": "customer"}],
        shows=topics("customer"),
    ),
    Routed(code="CC338", changes={_PLACEMENT: "type:header:id"}, shows=headers("id", "id")),
    Routed(
        code="CC317",
        changes={f"{_T}field.event.key": "id"},
        rows=[{"id": "e1"}, {"id": "e2"}],
        shows=becomes(lambda one, other: one.key != other.key),
    ),
    Routed(code="CC318", changes={f"{_T}field.event.key": ""}, shows=fails("DataException", "not a valid field name")),
    Routed(
        code="CC319",
        changes={
            f"{_T}field.event.schema.version": "version",
            "value.converter": JSON,
            "value.converter.schemas.enable": "true",
        },
        fixed={
            f"{_T}field.event.schema.version": "version",
            "value.converter": JSON,
            "value.converter.schemas.enable": "true",
            _PLACEMENT: "type:envelope",
        },
        also=("CC405", "CC413"),
        rows=[{"version": 7}],
        shows=becomes(lambda seen: "version" not in _schema(seen)),
    ),
    Routed(
        code="CC320",
        changes={**_EXPANDED, **_ENVELOPE, f"{_T}field.event.schema.version": "version"},
        fixed={**_EXPANDED, **_ENVELOPE},
        also=("CC321",),
        rows=[{"version": 1}, {"version": 1, "payload": '{"b":"other"}'}],
        shows=fails("DataException", "Struct schemas do not match"),
    ),
    Routed(
        code="CC321",
        changes=_EXPANDED,
        fixed=_PLAIN_JSON,
        also=("CC413",),
        rows=[{"payload": "[1,2]"}],
        shows=fails("DataException", "ARRAY"),
    ),
    Routed(
        code="CC321",
        kind=DatabaseKind.MONGODB,
        changes={f"{_M}expand.json.payload": "true", **_PLAIN_JSON},
        fixed={f"{_M}expand.json.payload": "false"},
        also=("CC413",),
        connector="mongodb",
        plugin="mongodb",
        rows=[
            {"document": _DOCUMENT % payload}
            for payload in ('{"a":null,"b":[],"c":{"$numberDecimal":"1.10"}}', "[1,2]", '{"a":[1,"x"]}')
        ],
        shows=lambda seen: (
            isinstance(seen[0], Message)
            and (seen[0].value, getattr(seen[1], "value", None)) == (b'{"a":null,"b":[],"c":"1.10"}', b"[1,2]")
            and fails("DataException")(seen)
        ),
    ),
    Routed(
        code="CC322",
        changes={**_EXPANDED, f"{_R}field.name.adjustment.mode": "avro"},
        fixed=_EXPANDED,
        also=("CC321", "CC413"),
        rows=[{"payload": '{"c-d":2}'}],
        shows=values(b'{"c_d":null}'),
    ),
    Routed(
        code="CC323",
        changes={f"{_T}json.payload.null.behavior": "optional_bytes"},
        fixed={**_EXPANDED, f"{_T}json.payload.null.behavior": "ignore"},
        rows=[{"payload": '{"a":null}'}],
        shows=values(b'{"a":null}'),
    ),
    Routed(
        code="CC324",
        changes={
            f"{_T}field.additional.missing": None,
            f"{_T}fields.additional.error.on.missing": "false",
            _PLACEMENT: "gone:header",
        },
        fixed={_PLACEMENT: "gone:header", f"{_T}field.additional.missing": "ignore"},
        shows=fails("DataException", "gone"),
    ),
    Routed(
        code="CC325",
        changes={
            _PLACEMENT: "gone:header",
            f"{_T}field.additional.missing": "ignore",
            f"{_T}fields.additional.error.on.missing": None,
        },
        fixed={
            _PLACEMENT: "gone:header",
            f"{_T}field.additional.missing": None,
            f"{_T}fields.additional.error.on.missing": "false",
        },
        version=(3, 5),
        plugin="mariadb",
        shows=fails("DataException", "gone"),
    ),
    Routed(
        code="CC326",
        kind=DatabaseKind.MONGODB,
        changes={f"{_R}type": ROUTER},
        also=("CC226", "CC335"),
        connector="mongodb",
        plugin="mongodb",
        rows=[{"document": _DOCUMENT % '"x"'}],
        shows=fails("DataException"),
    ),
    Routed(
        code="CC327",
        changes={f"{_R}type": MONGO_ROUTER},
        also=("CC226", "CC335"),
        plugin="mongodb",
        shows=fails("DataException"),
    ),
    Routed(
        code="CC328",
        kind=DatabaseKind.MONGODB,
        changes={f"{_M}op.invalid.behavior": "fatal", "skipped.operations": "t"},
        fixed={f"{_T}op.invalid.behavior": "fatal", "skipped.operations": "t"},
        also=("CC808",),
        connector="mongodb",
        plugin="mongodb",
        rows=[{"document": _DOCUMENT % '"x"', "op": "u"}],
        shows=lambda seen: seen == [None],
    ),
    Routed(
        code="CC331",
        kind=DatabaseKind.ORACLE,
        changes={f"{_T}field.event.payload": "payload", f"{_T}field.event.timestamp": None},
        fixed={f"{_T}field.event.timestamp": None},
        also=("CC335",),
        connector="oracle",
        plugin="oracle",
        rows=[{**_CAPITALS, "TYPE": "Placed", "PAYLOAD": "{}", "without": ("payload",)}],
        shows=fails("ConnectException", "Unable to find payload field payload"),
    ),
    Routed(
        code="CC335",
        changes={f"{_T}field.event.timestamp": None},
        shows=becomes(lambda seen: seen.timestamp_ms == NOW_MS),
    ),
    Routed(
        code="CC401",
        changes={"value.converter": None},
        worker={"value.converter": JSON},
        shows=becomes(lambda seen: "schema" in _parsed(seen)),
    ),
    Routed(
        code="CC402",
        changes={"key.converter": None},
        worker={"key.converter": JSON},
        shows=becomes(lambda seen: seen.key != b"42"),
    ),
    Routed(
        code="CC403",
        changes={"key.converter": JSON},
        shows=becomes(lambda seen: b'"schema"' in seen.key),
    ),
    Routed(
        code="CC404",
        changes={"key.converter": JSON, "key.converter.schemas.enable": "false"},
        shows=becomes(lambda seen: seen.key == b'"42"'),
    ),
    Routed(code="CC405", changes=_PLAIN_JSON, also=("CC413",), shows=values(b'"{\\"a\\":1}"')),
    Routed(
        code="CC406",
        changes={**_ENVELOPE, "value.converter": STRING},
        fixed=_ENVELOPE,
        shows=values(b'Struct{payload={"a":1},type=Placed}'),
    ),
    Routed(
        code="CC407",
        changes={**_ENVELOPE, "value.converter": BINARY},
        fixed={**_ENVELOPE, **_DELEGATE},
        also=("CC408", "CC411"),
        rows=[_BYTES],
        shows=fails("DataException"),
    ),
    Routed(
        code="CC408",
        changes={"value.converter": BINARY},
        fixed=_DELEGATE,
        also=("CC411",),
        rows=(),
        heartbeat=True,
        shows=fails("DataException"),
    ),
    Routed(
        code="CC409",
        changes={**_DELEGATE, "value.converter.delegate.converter.schemas.enable": "false"},
        fixed={**_DELEGATE, "value.converter.delegate.converter.type.schemas.enable": "false"},
        rows=(),
        heartbeat=True,
        shows=becomes(lambda seen: "schema" in _parsed(seen)),
    ),
    Routed(
        code="CC411",
        changes={"value.converter": BINARY},
        fixed={"value.converter": STRING},
        also=("CC408",),
        shows=fails("DataException"),
    ),
    Routed(
        code="CC412",
        changes={"value.converter": "io.debezium.converters.ByteArrayConverter"},
        fixed={"value.converter": BINARY},
        also=("CC408", "CC411"),
        rows=[_BYTES],
        shows=fails("DataException"),
    ),
    Routed(
        code="CC413",
        changes=_PLAIN_JSON,
        fixed={**_PLAIN_JSON, f"{_R}route.tombstone.on.empty.payload": "true"},
        also=("CC405",),
        rows=[{"payload": None}],
        shows=values(b"null"),
    ),
    Routed(
        code="CC416",
        changes={"header.converter": JSON},
        shows=becomes(lambda seen: b'"schema"' in dict(seen.headers)["id"]),
    ),
    Routed(
        code="CC418",
        changes={**_ENVELOPE, "value.converter.schemas.enable": None},
        fixed=_ENVELOPE,
        shows=becomes(lambda seen: "schema" in _parsed(seen)),
    ),
    Routed(
        code="CC419",
        changes={"key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"},
        rows=(),
        heartbeat=True,
        shows=fails("DataException"),
    ),
    Routed(
        code="CC420",
        changes={"header.converter": "org.apache.kafka.connect.converters.ByteArrayConverter"},
        shows=fails("DataException", "Invalid schema type for ByteArrayConverter: STRING"),
    ),
    Routed(
        code="CC420",
        changes={"header.converter": BINARY, "header.converter.delegate.converter.type": STRING},
        fixed={"header.converter.delegate.converter.type": STRING},
        shows=fails("DataException", "requires a delegate.converter.type"),
    ),
    Routed(
        code="CC808",
        kind=DatabaseKind.MONGODB,
        changes={},
        fixed={f"{_M}expand.json.payload": "true", **_PLAIN_JSON},
        connector="mongodb",
        plugin="mongodb",
        rows=[{"document": _DOCUMENT % '{"a":1}'}],
        shows=becomes(lambda seen: b'"$numberInt"' in seen.value),
    ),
)
"""Those of one message: no database, no broker."""
