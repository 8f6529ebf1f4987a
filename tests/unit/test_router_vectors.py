"""Debezium's own EventRouterTest, test by test under its names, but for those about JSON expansion."""

from collections.abc import Mapping
from typing import Any

import pytest

from cdc_outbox.debezium.event_router import (
    Change,
    ConnectRecord,
    ConnectSchema,
    ConnectStruct,
    ConnectType,
    ConnectValue,
    EventRouter,
    LogicalName,
)
from cdc_outbox.debezium.event_router.expanded_envelope import EnvelopeMemory
from cdc_outbox.errors import RoutingError

STRING, INT32, BYTES, BOOLEAN = ConnectType.STRING, ConnectType.INT32, ConnectType.BYTES, ConnectType.BOOLEAN
ID = "da8d6de6-3b77-45ff-8f44-57db55a7a06c"
CLOCK = 1_553_460_205_000


def event(operation: str = "c", /, **columns: ConnectValue | str) -> ConnectRecord:
    usual: dict[str, ConnectValue | str] = {
        "id": ID,
        "type": "UserCreated",
        "aggregateid": "10711fa5",
        "aggregatetype": "User",
        "payload": "{}",
    }
    row = {
        name: value if isinstance(value, ConnectValue) else ConnectValue(STRING, value)
        for name, value in (usual | columns).items()
    }
    return ConnectRecord(
        topic="db.outbox", value=Change(row=row, operation=operation, connector_time_ms=CLOCK, row_schema="event.Value")
    )


def routed(record: ConnectRecord, options: Mapping[str, str] | None = None, **memory: Any) -> ConnectRecord | None:
    return EventRouter.from_options(options or {}).transform(record, memory.get("memory") or EnvelopeMemory())


def came_out(record: ConnectRecord, options: Mapping[str, str] | None = None, **memory: Any) -> ConnectRecord:
    found = routed(record, options, **memory)
    assert found is not None
    return found


def value_of(record: ConnectRecord) -> ConnectValue:
    assert isinstance(record.value, ConnectValue)
    return record.value


def key_of(record: ConnectRecord) -> ConnectValue:
    assert isinstance(record.key, ConnectValue)
    return record.key


def struct_of(record: ConnectRecord) -> ConnectStruct:
    assert isinstance(record.value, ConnectStruct)
    return record.value


def headers_of(record: ConnectRecord) -> list[tuple[str, Any]]:
    return [(name, held.value) for name, held in record.headers]


def struct(name: str | None) -> ConnectStruct:
    fields = (("ts_ms", ConnectSchema(type=ConnectType.INT64)),)
    return ConnectStruct(ConnectSchema(type=ConnectType.STRUCT, name=name, fields=fields), {"ts_ms": 1})


def thrown(record: ConnectRecord, options: Mapping[str, str] | None = None) -> str:
    with pytest.raises(RoutingError) as caught:
        routed(record, options)
    return f"{caught.value.exception} in {caught.value.stage}"


def test_can_skip_tombstone() -> None:
    assert routed(ConnectRecord(topic="db.outbox", value=None)) is None


def test_can_skip_deletion() -> None:
    assert routed(event("d")) is None


@pytest.mark.parametrize(
    "value", [struct(None), struct("io.debezium.connector.common.Heartbeat"), ConnectValue(STRING, "no schema's name")]
)
def test_can_skip_messages_without_debezium_cdc_envelope(value: ConnectStruct | ConnectValue) -> None:
    record = ConnectRecord(topic="db.outbox", value=value)
    assert routed(record) is record


def test_should_fail_when_the_schema_looks_valid_but_does_not_have_the_correct_fields() -> None:
    record = ConnectRecord(topic="db.outbox", value=struct("io.debezium.connector.common.Heartbeat.Envelope"))
    with pytest.raises(RoutingError, match="op is not a valid field name") as caught:
        routed(record)
    assert caught.value.exception == "DataException"


def test_can_skip_updates() -> None:
    assert routed(event("u")) is None
    assert routed(event("u"), {"table.op.invalid.behavior": "error"}) is None


def test_can_fail_on_updates() -> None:
    assert thrown(event("u"), {"table.op.invalid.behavior": "fatal"}) == "IllegalStateException in transform"


def test_can_extract_table_fields() -> None:
    value = value_of(came_out(event()))
    assert (value.value, value.schema.version) == ("{}", None)


def test_can_set_default_message_key_and_pass_string_key() -> None:
    key = key_of(came_out(event()))
    assert (key.type, key.value) == (STRING, "10711fa5")


def test_can_set_message_key() -> None:
    assert key_of(came_out(event(), {"table.field.event.key": "type"})).value == "UserCreated"


def test_fails_on_invalid_set_message_key() -> None:
    assert thrown(event(), {"table.field.event.key": "fakefield"}) == "DataException in transform"


def test_can_set_timestamp_from_debezium_envelope_by_default() -> None:
    assert came_out(event()).timestamp_ms == CLOCK


def test_can_set_timestamp_by_user_defined_configuration() -> None:
    at = ConnectValue(ConnectType.INT64, 14222264625338, LogicalName.TIMESTAMP)
    options = {"table.field.event.timestamp": "event_timestamp"}
    assert came_out(event(event_timestamp=at), options).timestamp_ms == 14222264625338


def test_can_route_based_on_field() -> None:
    topics = [came_out(event(aggregatetype=name)).topic for name in ("User", "User", "Address")]
    assert topics == ["outbox.event.User", "outbox.event.User", "outbox.event.Address"]


def test_can_configure_every_table_field() -> None:
    columns = {"event_id": ID, "payload_id": "10711fa5", "event_type": "UserCreated", "payload_body": "{}"}
    record = event(**columns)
    assert isinstance(record.value, Change)
    assert record.value.row is not None
    row = {name: value for name, value in record.value.row.items() if name in columns}
    options = {
        "table.field.event.id": "event_id",
        "table.field.event.key": "payload_id",
        "table.field.event.type": "event_type",
        "table.field.event.payload": "payload_body",
        "route.by.field": "payload_id",
    }
    found = came_out(ConnectRecord(topic="db.outbox", value=Change(row=row)), options)
    assert value_of(found).value == "{}"
    assert headers_of(found) == [("id", ID)]


def test_can_influence_table_column_types() -> None:
    columns: dict[str, ConnectValue | str] = {
        "id": ConnectValue(INT32, 2),
        "aggregateid": ConnectValue(INT32, 1232),
        "aggregatetype": "routename",
        "payload": ConnectValue(BYTES, b"{}"),
        "some_boolean": ConnectValue(BOOLEAN, True),
    }
    found = came_out(event(**columns), {"table.fields.additional.placement": "some_boolean:envelope:bool"})
    assert found.topic == "outbox.event.routename"
    assert struct_of(found).values == {"payload": b"{}", "bool": True}
    assert [schema.type for _, schema in struct_of(found).schema.fields] == [BYTES, BOOLEAN]
    assert (key_of(found).value, headers_of(found)) == (1232, [("id", 2)])


def test_can_set_schema_version_when_more_than_payload_is_in_envelope() -> None:
    memory = EnvelopeMemory()
    options = {
        "table.field.event.schema.version": "version",
        "table.fields.additional.placement": "type:envelope:eventType",
    }
    schemas = [
        struct_of(came_out(event(version=ConnectValue(INT32, number)), options, memory=memory)).schema
        for number in (1, 3, 1)
    ]
    assert [schema.version for schema in schemas] == [1, 3, 1]
    assert schemas[0] is schemas[2]


def test_should_not_set_schema_version_by_default() -> None:
    assert value_of(came_out(event(version=ConnectValue(INT32, 1)))).schema.version is None
    options = {"table.field.event.schema.version": "version"}
    assert value_of(came_out(event(version=ConnectValue(INT32, 1)), options)).schema.version is None


@pytest.mark.parametrize(
    ("placement", "field"), [("type:envelope", "type"), ("type:envelope:aggregateType", "aggregateType")]
)
def test_can_set_payload_type_into_the_envelope(placement: str, field: str) -> None:
    found = came_out(event(), {"table.fields.additional.placement": placement})
    assert struct_of(found).values == {"payload": "{}", field: "UserCreated"}


def test_can_set_multiple_fields_into_the_envelope() -> None:
    placements = "type:envelope:payloadType, aggregateid:envelope:payloadId,type:header:payloadType"
    found = came_out(event(), {"table.fields.additional.placement": placements})
    assert struct_of(found).values == {"payload": "{}", "payloadType": "UserCreated", "payloadId": "10711fa5"}
    assert headers_of(found) == [("id", ID), ("payloadType", "UserCreated")]


def test_can_set_partition_with_additional_fields() -> None:
    found = came_out(event(p=ConnectValue(INT32, 123)), {"table.fields.additional.placement": "p:partition"})
    assert found.partition == 123


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("route.topic.regex", " [[a-z]"),
        ("table.fields.additional.placement", "type"),
        ("table.fields.additional.placement", ""),
        ("table.op.invalid.behavior", "invalidOption"),
    ],
)
def test_should_fail_on_invalid_configuration(option: str, value: str) -> None:
    with pytest.raises(RoutingError) as caught:
        EventRouter.from_options({option: value})
    assert (caught.value.exception, caught.value.stage) == ("ConfigException", "configure")


@pytest.mark.parametrize("key", [ConnectValue(BYTES, b"\x01"), ConnectValue(INT32, 54321)])
def test_can_pass_binary_and_int_keys(key: ConnectValue) -> None:
    assert key_of(came_out(event(aggregateid=key))) == key


def test_can_set_binary_message_key() -> None:
    key = ConnectValue(BYTES, b"\x01\x02")
    assert key_of(came_out(event(eventkey=key), {"table.field.event.key": "eventkey"})) == key


def test_can_pass_binary_message() -> None:
    payload = ConnectValue(BYTES, b"{}")
    assert value_of(came_out(event(payload=payload))) == payload


def test_can_mark_an_event_as_deleted() -> None:
    options = {
        "table.fields.additional.placement": "is_deleted:envelope:deleted",
        "route.tombstone.on.empty.payload": "true",
    }
    deleted = ConnectValue(BOOLEAN, True)
    assert struct_of(came_out(event(is_deleted=deleted), options)).values == {"payload": "{}", "deleted": True}
    tombstone = came_out(event(is_deleted=deleted, payload=""), options)
    assert (tombstone.value, key_of(tombstone).value) == (None, "10711fa5")


def test_no_tombstone_if_not_configured() -> None:
    options = {"table.fields.additional.placement": "is_deleted:envelope:deleted"}
    found = came_out(event(is_deleted=ConnectValue(BOOLEAN, True), payload=""), options)
    assert struct_of(found).values == {"payload": "", "deleted": True}
    assert key_of(found).value == "10711fa5"


def test_should_not_expand_json_payload_if_not_configured() -> None:
    text = '{"fullName": "John Doe"}'
    assert value_of(came_out(event(payload=text))).value == text


def test_can_set_field_into_the_envelope_with_missing_field() -> None:
    options = {
        "table.fields.additional.placement": "nonExistingField:envelope:alias,type:envelope",
        "table.field.additional.missing": "ignore",
    }
    assert struct_of(came_out(event(), options)).values == {"payload": "{}", "type": "UserCreated"}


def test_should_fail_on_missing_field() -> None:
    options = {"table.fields.additional.placement": "nonExistingField:envelope:alias"}
    assert thrown(event(), options) == "ConnectException in transform"
