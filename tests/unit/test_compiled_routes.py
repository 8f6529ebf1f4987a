"""Compiled routes give what the EventRouter gives, for every row, and the ordinary ones without asking it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdc_outbox.databases.facts import ColumnFacts
from cdc_outbox.debezium.event_router.column_values import Column
from cdc_outbox.debezium.event_router.compiled import Route, RouteCompiler
from cdc_outbox.debezium.event_router.outbox_rows import outbox_columns, relation_columns
from cdc_outbox.debezium.event_router.produce import RoutedEvent
from cdc_outbox.debezium.render import raw_topic, render
from cdc_outbox.errors import ConfigError, DecodeError, RoutingError
from cdc_outbox.formats.event_format import EventFormat, PayloadType
from cdc_outbox.spec import Spec, load_spec
from fuzz.route_cases import NAMES, RouteCase
from fuzz.routes import NOW, compare, explore, is_compiled
from tests.support.specs import ORDERS

ROW: Mapping[str, bytes | None] = {
    "id": b"0190163d-8694-739b-aea5-966c26f8ad91",
    "aggregatetype": b"order",
    "aggregateid": b"42",
    "type": b"OrderPlaced",
    "payload": b'{"total": 1.10}',
    "sequence": b"7",
    "source": b"orders.1",
    "created_at": b"2026-11-20 12:34:56.1",
    "traceparent": b"00-1-2-01",
    "tracestate": None,
}
"""A row of the project's own table, as pgoutput has it."""
CREATED_MS = 1_795_178_096_100


def routed(spec: Spec, row: Mapping[str, bytes | None], **options: str) -> RoutedEvent:
    """Return what a row becomes, which the compiled route and the EventRouter agree on."""
    compiler = replace(RouteCompiler.from_config(render(spec) | options, raw_topic=raw_topic(spec)), clock=lambda: NOW)
    columns = outbox_columns(spec.outbox)
    values = [row.get(column.name) for column in columns]
    ours, theirs = outcome(compiler.compile(columns), values), outcome(compiler.reference(columns), values)
    if isinstance(theirs, RoutingError):
        assert str(ours) == str(theirs)
        raise theirs
    assert ours == theirs
    return theirs


def outcome(route: Route, values: Sequence[bytes | None]) -> RoutedEvent | RoutingError:
    try:
        return route(values)
    except RoutingError as error:
        return error


@pytest.fixture
def spec() -> Spec:
    return load_spec(ORDERS)


def test_a_row_of_our_own_table_becomes_what_the_event_router_makes_of_it(spec: Spec) -> None:
    assert routed(spec, ROW) == (
        "outbox.event.order",
        b'{"total": 1.10}',
        b"42",
        -1,
        CREATED_MS,
        [
            ("id", ROW["id"]),
            ("eventType", b"OrderPlaced"),
            ("aggregateType", b"order"),
            ("sequence", b"7"),
            ("source", b"orders.1"),
            ("createdAt", b"1795178096100000"),
            ("traceparent", b"00-1-2-01"),
            ("tracestate", None),
        ],
    )


@pytest.mark.parametrize(
    ("event_format", "payload_type"),
    [
        *((each, PayloadType.JSON) for each in EventFormat),
        (EventFormat.PLAIN, PayloadType.BYTES),
        (EventFormat.CLOUDEVENTS_BINARY, PayloadType.BYTES),
    ],
)
def test_each_format_becomes_what_the_event_router_makes_of_it(
    spec: Spec, event_format: EventFormat, payload_type: PayloadType
) -> None:
    is_json = payload_type is PayloadType.JSON
    outbox = replace(spec.outbox, format=event_format, payload_type=payload_type)
    spec = replace(spec, outbox=outbox, contract=replace(spec.contract, format=event_format, payload_type=payload_type))
    topic, value, key, partition, timestamp_ms, _ = routed(spec, ROW if is_json else {**ROW, "payload": b"\\x00ff"})
    assert (topic, key, partition, timestamp_ms) == ("outbox.event.order", b"42", -1, CREATED_MS)
    if event_format is EventFormat.ENVELOPE:
        assert value is not None
        assert b'"payload":"{\\"total\\": 1.10}"' in value
    else:
        assert value == (ROW["payload"] if is_json else b"\x00\xff")


def ordinary() -> list[dict[str, bytes | None]]:
    """Return rows as writers write them."""
    return [
        {**ROW, "created_at": moment, "payload": payload, "tracestate": None, "sequence": sequence}
        for moment in (b"2026-11-20 12:34:56", b"2026-11-20 12:34:56.120034", b"2026-11-20 12:34:57.999")
        for payload in (b"{}", None)
        for sequence in (b"1", None)
    ]


def test_ordinary_rows_do_not_need_the_event_router(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = RouteCompiler.from_config(render(spec), raw_topic=raw_topic(spec))
    columns = outbox_columns(spec.outbox)
    rows = [[row[column.name] for column in columns] for row in ordinary()]
    expected = [compiler.reference(columns)(row) for row in rows]

    def asked(*_arguments: object) -> None:
        raise AssertionError("the EventRouter was asked")

    monkeypatch.setattr("cdc_outbox.debezium.event_router.routing.Routing.message", asked)
    route = compiler.compile(columns)
    assert is_compiled(route)
    assert [route(row) for row in rows] == expected


def test_a_thousand_random_relations_are_routed_as_the_event_router_does_it() -> None:
    seen, differences = explore(range(1_000))  # `infra/fuzz routes` has more
    assert differences == []
    few = {mark: count for mark, count in seen.items() if count < 30}
    assert few == {}
    assert seen.keys() >= {"compiled", "not compiled", "events", "errors", "refused relations"}


OPTIONS = {
    "transforms": "outbox",
    "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}

names = st.sampled_from(NAMES) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=":,\0"), min_size=1
)


@given(st.lists(names, min_size=6, max_size=6, unique=True), names)
@example(["', b1), reference(", "c0", "b1", 'x = """', "\n  import os", "route"], "'), (c0")
def test_names_are_never_code(columns: list[str], header: str) -> None:
    roles = ("table.field.event.id", "table.field.event.key", "table.field.event.payload", "route.by.field")
    config = OPTIONS | {f"transforms.outbox.{role}": name for role, name in zip(roles, columns, strict=False)}
    placed = columns[4].strip("".join(map(chr, range(33))))
    config["transforms.outbox.table.fields.additional.placement"] = f"{placed}:header:{header}"
    case = RouteCase(
        config=config,
        columns=tuple(Column(name=name, sql_type="text") for name in dict.fromkeys([*columns, placed])),
        rows=((b"1", b"2", b"3", b"order", b"5", b"6", b"7")[: len({*columns, placed})],),
        used=frozenset(columns),
    )
    assert compare(case, Counter()) == []


@pytest.mark.parametrize("key", [b"", None, b"x" * 300, "ä".encode()])
def test_every_key_passes(spec: Spec, key: bytes | None) -> None:
    assert routed(spec, {**ROW, "aggregateid": key})[2] == key


@pytest.mark.parametrize("payload", [b"", None, b" ", b"null"])
def test_every_payload_passes(spec: Spec, payload: bytes | None) -> None:
    outbox = replace(spec.outbox, payload_type=PayloadType.JSON)
    assert routed(replace(spec, outbox=outbox), {**ROW, "payload": payload})[1] == payload


def test_a_bytes_payload_may_be_empty(spec: Spec) -> None:
    spec = replace(spec, outbox=replace(spec.outbox, payload_type=PayloadType.BYTES))
    assert routed(spec, {**ROW, "payload": b"\\x"})[1] == b""
    assert routed(spec, {**ROW, "payload": None})[1] is None


@pytest.mark.parametrize(
    ("created_at", "timestamp_ms"),
    [
        (b"1970-01-01 00:00:00.001", 1),
        (b"1970-01-01 00:00:00.001999", 1),
        (b"1970-01-01 00:00:01", 1_000),
        (b"1969-12-31 23:59:59.999", NOW),  # -1, which Connect's worker takes for no time
        (b"9999-12-31 23:59:59.999999", 253_402_300_799_999),
        (None, NOW),
    ],
)
def test_a_time_is_that_of_the_row(spec: Spec, created_at: bytes | None, timestamp_ms: int) -> None:
    assert routed(spec, {**ROW, "created_at": created_at})[4] == timestamp_ms


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"created_at": b"1970-01-01 00:00:00"}, "cannot produce the time 1970-01-01"),
        ({"created_at": b"1969-12-31 23:59:59.9995"}, "cannot produce the time 1970-01-01"),
        ({"created_at": b"1969-12-31 23:59:59.998"}, "does not accept times before 1970"),
        ({"aggregatetype": b"no topic"}, "does not accept the topic name 'outbox.event.no topic'"),
        ({"aggregatetype": b"x" * 300}, "does not accept the topic name"),
        ({"aggregatetype": None}, "aggregatetype is null"),
    ],
)
def test_what_the_connectors_task_would_fail_on_is_an_error(
    spec: Spec, changed: Mapping[str, bytes | None], reason: str
) -> None:
    with pytest.raises(RoutingError, match=reason):
        routed(spec, {**ROW, **changed})


def test_an_unknown_aggregate_type_has_a_topic_of_its_own(spec: Spec) -> None:
    assert routed(spec, {**ROW, "aggregatetype": b"unheard.of"})[0] == "outbox.event.unheard.of"


@pytest.mark.parametrize(
    "created_at", [b"2026-11-20 12:34:56 BC", b"2026-11-20 12:34:56.123 BC", b"10000-01-01 00:00:00.123", b"infinity"]
)
def test_a_time_that_is_not_converted_is_an_error_also_behind_one_that_looks_like_it(
    spec: Spec, created_at: bytes
) -> None:
    columns = outbox_columns(spec.outbox)
    route = RouteCompiler.from_config(render(spec)).compile(columns)
    route([ROW[column.name] for column in columns])
    with pytest.raises(ConfigError, match="the value is not of type timestamp"):
        route([{**ROW, "created_at": created_at}[column.name] for column in columns])


def test_a_column_of_a_type_without_conversion_is_refused(spec: Spec) -> None:
    columns = [
        replace(column, sql_type="inet") if column.name == "source" else column
        for column in outbox_columns(spec.outbox)
    ]
    with pytest.raises(ConfigError, match="source is of the type inet, which the relay cannot convert"):
        RouteCompiler.from_config(render(spec)).compile(columns)


def test_rows_of_another_length_and_texts_that_are_not_utf8_are_errors(spec: Spec) -> None:
    columns = outbox_columns(spec.outbox)
    route = RouteCompiler.from_config(render(spec)).compile(columns)
    values = [ROW[column.name] for column in columns]
    for wrong in (values[:-1], [*values, None], []):
        with pytest.raises(DecodeError, match=f"a row has {len(wrong)} values"):
            route(wrong)
    with pytest.raises(DecodeError, match="aggregatetype is not UTF-8"):
        route([{**ROW, "aggregatetype": b"\xff"}[column.name] for column in columns])


def test_what_was_routed_before_is_forgotten_before_it_takes_much_memory(spec: Spec) -> None:
    columns = outbox_columns(spec.outbox)
    route = RouteCompiler.from_config(render(spec)).compile(columns)
    for number in range(2_500):
        second = b"2026-11-20 %02d:%02d:%02d" % (number // 3600, number // 60 % 60, number % 60)
        row = {**ROW, "aggregatetype": b"type%d" % number, "created_at": second}
        topic, *_, timestamp_ms, _ = route([row[column.name] for column in columns])
        assert (topic, timestamp_ms) == (f"outbox.event.type{number}", CREATED_MS - 100 + (number - 45_296) * 1_000)
    remembered = [value for value in route.__globals__.values() if isinstance(value, dict) and type(value) is not dict]
    assert len(remembered) == 2
    assert all(len(value) <= 1_000 for value in remembered)


def test_updates_deletions_and_truncations_are_dropped_as_the_connector_drops_them(spec: Spec) -> None:
    compiler = RouteCompiler.from_config(render(spec))
    for operation in "udt":
        compiler.drop(operation)
    fatal = {"skipped.operations": "none", "transforms.outbox.table.op.invalid.behavior": "fatal"}
    compiler = RouteCompiler.from_config(render(spec) | fatal)
    compiler.drop("d")
    for operation in "ut":
        with pytest.raises(RoutingError):
            compiler.drop(operation)


def facts(declared: str, kind: str = "", *, is_enum: bool = False, not_null: bool = False) -> ColumnFacts:
    return ColumnFacts(
        type=kind or declared, declared=declared, is_enum=is_enum, not_null=not_null, default="'x'::text"
    )


def test_the_columns_of_a_relation_have_the_catalogs_types() -> None:
    catalog = {
        "plain": facts("timestamp(3) without time zone", "timestamp without time zone"),
        "domain": facts("sales.amount", "integer", not_null=True),
        "mood": facts("mood", is_enum=True),
        "elsewhere": facts("extensions.citext"),
    }
    found = relation_columns(["mood", "gone", "domain", "plain", "elsewhere"], catalog)
    assert [(column.name, column.sql_type, column.not_null) for column in found] == [
        ("mood", "text", False),
        ("gone", "text", False),
        ("domain", "integer", True),
        ("plain", "timestamp(3) without time zone", False),
        ("elsewhere", "text", False),
    ]
    assert [column.default for column in found] == ["'x'::text", "", *["'x'::text"] * 3]
