"""The EventRouter as values; the vectors come from Debezium's own EventRouterTest, by name."""

import pytest

from cdc_outbox import ConfigError
from cdc_outbox.errors import RoutingError
from cdc_outbox.router import ConnectType, ConnectValue, EventRouter, LogicalName, Placement, java_partition
from cdc_outbox.router.event_router import PlacementKind

STRING, INT32, INT64 = ConnectType.STRING, ConnectType.INT32, ConnectType.INT64


def row(**columns: ConnectValue) -> dict[str, ConnectValue]:
    return {
        "id": ConnectValue(STRING, "da8d6de6-3b77-45ff-8f44-57db55a7a06c", LogicalName.UUID),
        "aggregatetype": ConnectValue(STRING, "User"),
        "aggregateid": ConnectValue(STRING, "10711fa5"),
        "type": ConnectValue(STRING, "UserCreated"),
        "payload": ConnectValue(STRING, "{}", LogicalName.JSON),
    } | columns


def test_can_extract_table_fields() -> None:
    message = EventRouter().route(row(), connector_time_ms=7)
    assert (message.topic, message.key, message.value) == ("outbox.event.User", b"10711fa5", b"{}")
    assert message.headers == (("id", b"da8d6de6-3b77-45ff-8f44-57db55a7a06c"),)
    assert (message.partition, message.timestamp_ms) == (None, 7)


def test_can_set_message_key() -> None:
    assert EventRouter(key_column="type").route(row(), connector_time_ms=0).key == b"UserCreated"


def test_fails_on_invalid_set_message_key() -> None:
    with pytest.raises(RoutingError, match="fakefield is not a valid field name") as caught:
        EventRouter(key_column="fakefield").route(row(), connector_time_ms=0)
    assert caught.value.exception == "DataException"


def test_fails_on_a_missing_payload() -> None:
    with pytest.raises(RoutingError, match="Unable to find payload field") as caught:
        EventRouter(payload_column="body").route(row(), connector_time_ms=0)
    assert caught.value.exception == "ConnectException"


@pytest.mark.parametrize(
    ("value", "logical_name", "milliseconds"),
    [
        (14222264625338, LogicalName.TIMESTAMP, 14222264625338),
        (1553460779000123, LogicalName.MICRO_TIMESTAMP, 1553460779000),
        (1553460779000123456, LogicalName.NANO_TIMESTAMP, 1553460779000),
        (None, LogicalName.MICRO_TIMESTAMP, 5),
    ],
)
def test_can_set_timestamp_by_user_defined_configuration(
    value: int | None, logical_name: str, milliseconds: int
) -> None:
    event = row(created_at=ConnectValue(INT64, value, logical_name))
    assert EventRouter(timestamp_column="created_at").route(event, connector_time_ms=5).timestamp_ms == milliseconds


@pytest.mark.parametrize(
    "column",
    [ConnectValue(STRING, "2026-01-01T00:00:00Z", LogicalName.ZONED_TIMESTAMP), ConnectValue(INT64, 1, None)],
)
def test_a_timestamp_with_time_zone_kills_the_task(column: ConnectValue) -> None:
    with pytest.raises(RoutingError):
        EventRouter(timestamp_column="created_at").route(row(created_at=column), connector_time_ms=0)


def test_headers_follow_the_id_in_the_order_of_the_placements() -> None:
    router = EventRouter(
        placements=(
            Placement("type", alias="eventType"),
            Placement("sequence"),
            Placement("trace", alias="traceparent"),
        )
    )
    columns = row(sequence=ConnectValue(INT64, 12), trace=ConnectValue(STRING, None))
    assert router.route(columns, connector_time_ms=0).headers[1:] == (
        ("eventType", b"UserCreated"),
        ("sequence", b"12"),
        ("traceparent", None),
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, b"true"), (False, b"false"), (-7, b"-7"), (b"\x01\x02", b"AQI="), ("ü", "ü".encode()), (None, None)],
)
def test_header_values_are_rendered_as_simple_header_converter_does(
    value: str | int | bytes | None, text: bytes | None
) -> None:
    assert ConnectValue(STRING, value).text() == text


def test_can_set_partition_with_additional_fields() -> None:
    router = EventRouter(placements=(Placement("p", PlacementKind.PARTITION),))
    assert router.route(row(p=ConnectValue(INT32, 123)), connector_time_ms=0).partition == 123
    assert router.route(row(p=ConnectValue(INT32, None)), connector_time_ms=0).partition is None
    with pytest.raises(RoutingError, match="not of type INT32"):
        router.route(row(p=ConnectValue(INT64, 1)), connector_time_ms=0)


@pytest.mark.parametrize(
    ("payload", "tombstones", "value"),
    [(None, False, None), (None, True, None), ("", False, b""), (" \n", True, None), ("null", True, b"null")],
)
def test_null_and_empty_payloads(payload: str | None, tombstones: bool, value: bytes | None) -> None:  # noqa: FBT001
    router = EventRouter(tombstone_on_empty_payload=tombstones)
    assert router.route(row(payload=ConnectValue(STRING, payload)), connector_time_ms=0).value == value


def test_a_line_break_in_the_aggregate_type_escapes_the_regex() -> None:
    assert EventRouter().route(row(aggregatetype=ConnectValue(STRING, "a\nb")), connector_time_ms=0).topic == "a\nb"


def test_a_null_aggregate_type_kills_the_task() -> None:
    with pytest.raises(RoutingError) as caught:
        EventRouter().route(row(aggregatetype=ConnectValue(STRING, None)), connector_time_ms=0)
    assert caught.value.exception == "NullPointerException"


def test_what_is_not_imitated_is_refused() -> None:
    with pytest.raises(ConfigError):
        EventRouter(topic_replacement="a.${other}")
    with pytest.raises(ConfigError):
        EventRouter().route(row(payload=ConnectValue(ConnectType.BYTES, b"")), connector_time_ms=0)


def test_options_are_those_of_the_smt() -> None:
    router = EventRouter(
        timestamp_column="created_at",
        placements=(Placement("type", alias="eventType"), Placement("p", PlacementKind.PARTITION)),
        tombstone_on_empty_payload=True,
    )
    assert router.options() == {
        "table.field.event.id": "id",
        "table.field.event.key": "aggregateid",
        "table.field.event.payload": "payload",
        "table.field.event.timestamp": "created_at",
        "table.fields.additional.placement": "type:header:eventType,p:partition",
        "route.by.field": "aggregatetype",
        "route.topic.replacement": "outbox.event.${routedByValue}",
        "route.tombstone.on.empty.payload": "true",
    }


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_partitions_are_those_of_javas_murmur2(key: bytes, hashed: int) -> None:
    """The hashes are those of Kafka's UtilsTest.testMurmur2."""
    for partitions in (1, 3, 7, 2**31 - 1):
        assert java_partition(key, partitions) == (hashed & 0x7FFFFFFF) % partitions
