"""The EventRouter as values; the vectors come from Debezium's own EventRouterTest, by name."""

import pytest

from cdc_outbox import ConfigError
from cdc_outbox.contract.placements import Placement, PlacementKind
from cdc_outbox.debezium.event_router import ConnectType, ConnectValue, EventRouter, LogicalName, java_partition
from cdc_outbox.errors import RoutingError

STRING, INT32, INT64 = ConnectType.STRING, ConnectType.INT32, ConnectType.INT64
ZONED = LogicalName.ZONED_TIMESTAMP


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
        (-1_500, LogicalName.MICRO_TIMESTAMP, -1),
        (-999, LogicalName.MICRO_TIMESTAMP, 0),
        (-2_000, LogicalName.MICRO_TIMESTAMP, -2),
        (None, LogicalName.MICRO_TIMESTAMP, 5),
    ],
)
def test_can_set_timestamp_by_user_defined_configuration(
    value: int | None, logical_name: str, milliseconds: int
) -> None:
    event = row(created_at=ConnectValue(INT64, value, logical_name))
    assert EventRouter(timestamp_column="created_at").route(event, connector_time_ms=5).timestamp_ms == milliseconds


@pytest.mark.parametrize(
    ("columns", "exception"),
    [
        ({}, "ConnectException"),
        ({"created_at": ConnectValue(STRING, "2026-01-01T00:00:00Z", ZONED)}, "DataException"),
        ({"created_at": ConnectValue(STRING, None, ZONED)}, "DataException"),
        ({"created_at": ConnectValue(INT64, 1)}, "ConnectException"),
        ({"created_at": ConnectValue(INT64, 1, "io.debezium.time.MicroTime")}, "ConnectException"),
    ],
)
def test_a_timestamp_of_another_type_kills_the_task(columns: dict[str, ConnectValue], exception: str) -> None:
    with pytest.raises(RoutingError) as caught:
        EventRouter(timestamp_column="created_at").route(row(**columns), connector_time_ms=0)
    assert caught.value.exception == exception


def test_a_null_timestamp_is_the_connectors_whatever_its_logical_name() -> None:
    event = row(created_at=ConnectValue(INT64, None))
    assert EventRouter(timestamp_column="created_at").route(event, connector_time_ms=5).timestamp_ms == 5


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


@pytest.mark.parametrize("name", ["", "a:b", "a,b", " a"])
def test_a_name_that_the_placement_option_cannot_hold_is_refused(name: str) -> None:
    for column, alias in ((name, "header"), ("column", name)):
        with pytest.raises(ConfigError, match="cannot be placed"):
            EventRouter(placements=(Placement(column, alias=alias),)).options()


def test_a_default_takes_the_place_of_a_null_except_where_a_type_is_asked_for() -> None:
    router = EventRouter(timestamp_column="at", placements=(Placement("type"), Placement("p", PlacementKind.PARTITION)))
    message = router.route(
        row(
            type=ConnectValue(STRING, None, default="Unknown"),
            aggregateid=ConnectValue(INT64, None, default=3),
            payload=ConnectValue(STRING, None, default="[]"),
            at=ConnectValue(INT64, None, LogicalName.TIMESTAMP, default=1),
            p=ConnectValue(INT32, None, default=2),
        ),
        connector_time_ms=5,
    )
    assert (message.headers[1], message.key, message.value) == (("type", b"Unknown"), b"3", b"[]")
    assert (message.timestamp_ms, message.partition) == (5, None)
    with pytest.raises(RoutingError) as caught:
        EventRouter().route(row(aggregatetype=ConnectValue(STRING, None, default="User")), connector_time_ms=0)
    assert caught.value.exception == "NullPointerException"


def test_the_last_of_two_partitions_wins_also_by_a_null() -> None:
    partition = PlacementKind.PARTITION
    router = EventRouter(placements=(Placement("p", partition), Placement("q", partition)))
    for first, second in ((1, 2), (1, None), (None, 2)):
        columns = row(p=ConnectValue(INT32, first), q=ConnectValue(INT32, second))
        assert router.route(columns, connector_time_ms=0).partition == second


def test_can_set_partition_with_additional_fields() -> None:
    router = EventRouter(placements=(Placement("p", PlacementKind.PARTITION),))
    assert router.route(row(p=ConnectValue(INT32, 123)), connector_time_ms=0).partition == 123
    assert router.route(row(p=ConnectValue(INT32, None)), connector_time_ms=0).partition is None
    with pytest.raises(RoutingError, match="not of type INT32"):
        router.route(row(p=ConnectValue(INT64, 1)), connector_time_ms=0)


@pytest.mark.parametrize(
    ("payload", "tombstones", "value"),
    [
        (None, False, None),
        (None, True, None),
        ("", False, b""),
        (" \n", True, None),
        ("\x00\x01\x1f ", True, None),
        ("\x85", True, b"\xc2\x85"),
        ("\xa0", True, b"\xc2\xa0"),
        ("null", True, b"null"),
    ],
)
def test_null_and_empty_payloads(payload: str | None, tombstones: bool, value: bytes | None) -> None:  # noqa: FBT001
    router = EventRouter(tombstone_on_empty_payload=tombstones)
    assert router.route(row(payload=ConnectValue(STRING, payload)), connector_time_ms=0).value == value


def test_a_line_break_in_the_aggregate_type_escapes_the_regex() -> None:
    assert EventRouter().route(row(aggregatetype=ConnectValue(STRING, "a\nb")), connector_time_ms=0).topic == "a\nb"


@pytest.mark.parametrize(
    ("column", "exception"),
    [
        (ConnectValue(STRING, None), "NullPointerException"),
        (ConnectValue(INT32, 1), "DataException"),
        (ConnectValue(INT32, None), "DataException"),
    ],
)
def test_an_aggregate_type_that_is_no_string_kills_the_task(column: ConnectValue, exception: str) -> None:
    with pytest.raises(RoutingError) as caught:
        EventRouter().route(row(aggregatetype=column), connector_time_ms=0)
    assert caught.value.exception == exception


def test_what_is_not_imitated_is_refused() -> None:
    with pytest.raises(ConfigError, match="regex") as caught:
        EventRouter(topic_regex="(?i)user")
    assert "--engine real" in caught.value.hint
    with pytest.raises(ConfigError, match="JSON payloads"):
        EventRouter.from_options({"table.expand.json.payload": "true"})
    for kind in (ConnectType.FLOAT64, ConnectType.ARRAY):
        with pytest.raises(ConfigError, match="not supported"):
            EventRouter().route(row(payload=ConnectValue(kind, 1)), connector_time_ms=0)


def test_columns_that_nothing_is_made_of_may_be_anything() -> None:
    columns = row(ratio=ConnectValue(ConnectType.FLOAT64, 1), tags=ConnectValue(ConnectType.ARRAY, None))
    assert EventRouter().route(columns, connector_time_ms=0).value == b"{}"


def test_numbers_and_booleans_pass_as_java_writes_them() -> None:
    columns = row(aggregateid=ConnectValue(INT64, -7), payload=ConnectValue(ConnectType.BOOLEAN, True))
    message = EventRouter(tombstone_on_empty_payload=True).route(columns, connector_time_ms=0)
    assert (message.key, message.value) == (b"-7", b"true")
    message = EventRouter(tombstone_on_empty_payload=True).route(
        row(payload=ConnectValue(INT32, 0)), connector_time_ms=0
    )
    assert message.value == b"0"


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
