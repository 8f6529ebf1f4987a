"""What else the EventRouter's options do: found by running the real one, and held against it by the long comparison."""

import re
from collections.abc import Mapping
from pathlib import Path
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
    Routing,
)
from cdc_outbox.debezium.event_router.expanded_envelope import EnvelopeMemory
from cdc_outbox.debezium.event_router.routing import EVENT_ROUTER, ConnectPlugin, RoutingConfig, make_converter
from cdc_outbox.debezium.event_router.smt_options import UpdateBehavior
from cdc_outbox.debezium.java_regex import read_regex
from cdc_outbox.errors import ConfigError, RoutingError

PLACEMENT = "table.fields.additional.placement"
MISSING = "table.field.additional.missing"


def insert(**columns: ConnectValue | str | None) -> ConnectRecord:
    usual: dict[str, ConnectValue | str | None] = {
        "id": "1",
        "type": "Placed",
        "aggregateid": "7",
        "aggregatetype": "User",
        "payload": "{}",
    }
    row = {
        name: value if isinstance(value, ConnectValue) else ConnectValue(ConnectType.STRING, value)
        for name, value in (usual | columns).items()
    }
    return ConnectRecord(topic="x", value=Change(row=row, row_schema="srv.public.outbox.Value"))


def route(record: ConnectRecord, options: Mapping[str, str], version: tuple[int, int] = (3, 7)) -> ConnectRecord | None:
    routing = Routing(router=EventRouter.from_options(options, version=version))
    return routing.router.transform(record, routing.memory)


def thrown(options: Mapping[str, str], version: tuple[int, int] = (3, 7)) -> str:
    with pytest.raises(RoutingError) as caught:
        route(insert(), options, version)
    return f"{caught.value.exception} in {caught.value.stage}"


def test_an_unknown_placement_shows_at_the_first_row_only() -> None:
    assert EventRouter.from_options({PLACEMENT: "type:bogus"}).placements[0].kind is None
    assert thrown({PLACEMENT: "type:bogus"}) == "NullPointerException in transform"


@pytest.mark.parametrize("text", ["a:b:c:d", "type:header,x", ":"])
def test_a_placement_of_other_than_two_or_three_parts_is_a_wrong_configuration(text: str) -> None:
    assert thrown({PLACEMENT: text}) == "ConfigException in configure"


@pytest.mark.parametrize("text", ["type:header,", " type : HEADER ", "type:header:"])
def test_commas_colons_and_blanks_at_ends_and_capitals_do_no_harm(text: str) -> None:
    found = route(insert(), {PLACEMENT: text})
    assert found is not None
    assert [name for name, _ in found.headers] == ["id", "type"]


def test_what_only_claims_to_be_a_change_kills_the_task() -> None:
    claim = ConnectRecord(topic="x", value=ConnectValue(ConnectType.STRING, "x", "srv.public.outbox.Envelope"))
    with pytest.raises(RoutingError, match="Only Struct objects supported for"):
        route(claim, {})


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"schemas.cache.size": "many"}, "schemas.cache.size is not a number"),
        ({"decimal.format": "text"}, "decimal.format is neither BASE64 nor NUMERIC"),
        ({"schemas.enable": "maybe"}, "schemas.enable is neither 'true' nor 'false'"),
    ],
)
def test_a_wrong_option_of_a_converter_kills_the_task(options: dict[str, str], reason: str) -> None:
    with pytest.raises(RoutingError, match=reason):
        make_converter(ConnectPlugin("org.apache.kafka.connect.json.JsonConverter", options))


def test_an_envelope_remembers_which_fields_may_not_be_null() -> None:
    routing = Routing(router=EventRouter.from_options({PLACEMENT: "note:envelope"}, version=(3, 7)))
    required = ConnectValue(ConnectType.STRING, "a", optional=False)
    assert routing.router.transform(insert(note=required), routing.memory) is not None
    with pytest.raises(RoutingError, match="Invalid value: null used for required field 'note'"):
        routing.router.transform(insert(note=None), routing.memory)


@pytest.mark.parametrize("text", ["type:envelope:payload", "type:envelope:a,id:envelope:a", "type:envelope: "])
def test_a_field_twice_or_without_a_name_does_not_become_an_envelope(text: str) -> None:
    assert thrown({PLACEMENT: text}) == "SchemaBuilderException in transform"


def test_what_may_be_missing_has_another_name_since_3_6_and_the_old_one_is_ignored() -> None:
    placed = {PLACEMENT: "nowhere:header"}
    assert route(insert(), {**placed, "table.fields.additional.error.on.missing": "false"}, (3, 5))
    assert route(insert(), {**placed, MISSING: "ignore"}, (3, 6))
    assert thrown({**placed, "table.fields.additional.error.on.missing": "false"}) == "DataException in transform"
    assert thrown({**placed, MISSING: "ignore"}, (3, 5)) == "DataException in transform"


def test_a_missing_column_of_an_envelope_is_never_ignored_before_3_6() -> None:
    options = {PLACEMENT: "nowhere:envelope,type:envelope", "table.fields.additional.error.on.missing": "false"}
    assert thrown(options, (3, 5)) == "NullPointerException in transform"


def test_the_first_aggregate_type_names_the_envelopes_of_them_all() -> None:
    routing = Routing(router=EventRouter.from_options({PLACEMENT: "type:envelope"}))
    names = []
    for aggregate_type in ("User", "Order"):
        found = routing.router.transform(insert(aggregatetype=aggregate_type), routing.memory)
        assert found is not None
        assert isinstance(found.value, ConnectStruct)
        names.append(found.value.schema.name)
    assert names == ["srv.public.outbox.User.Value"] * 2


def test_a_version_whose_payload_has_another_type_afterwards_kills_the_task() -> None:
    options = {PLACEMENT: "type:envelope", "table.field.event.schema.version": "v"}
    routing, version = Routing(router=EventRouter.from_options(options)), ConnectValue(ConnectType.INT32, 1)
    assert routing.router.transform(insert(v=version), routing.memory)
    with pytest.raises(RoutingError, match="Invalid Java object"):
        routing.router.transform(insert(v=version, payload=ConnectValue(ConnectType.INT32, 1)), routing.memory)


def test_a_truncated_table_kills_the_task() -> None:
    with pytest.raises(RoutingError) as caught:
        route(ConnectRecord(topic="x", value=Change(row=None, operation="t")), {})
    assert caught.value.exception == "DataException"


def test_oracle_has_its_columns_in_capitals_but_for_those_that_are_named() -> None:
    router = EventRouter.from_options({"table.field.event.payload": "payload"}, connector="oracle")
    assert (router.id_column, router.key_column, router.payload_column) == ("ID", "AGGREGATEID", "payload")


def test_the_options_come_back_as_they_went_in() -> None:
    options = {
        "table.field.event.id": "a",
        "table.field.event.key": "b",
        "table.field.event.payload": "c",
        "table.field.event.timestamp": "d",
        "table.field.event.schema.version": "e",
        "table.fields.additional.placement": "f:header:g,h:envelope,i:partition",
        "table.field.additional.missing": "ignore",
        "table.op.invalid.behavior": "fatal",
        "route.by.field": "j",
        "route.topic.regex": "(.*)",
        "route.topic.replacement": "$1",
        "route.tombstone.on.empty.payload": "true",
    }
    router = EventRouter.from_options(options)
    assert router.on_update is UpdateBehavior.FATAL
    assert router.options() == options
    assert EventRouter.from_options(router.options()) == router


@pytest.mark.parametrize(
    ("regex", "text", "replacement", "topic"),
    [
        # The whole must match, and then the first match within it is replaced.
        ("a|ab", "ab", "x", "xb"),
        (".*?", "User", "x.", "x.User"),
        ("(?<routedByValue>.*)", "User", "t.${routedByValue}", "t.User"),
        ("(a)(b)?", "a", "$2$1", "a"),
        ("(.)", "a", "$10", "a0"),
        ("User", "User", "a\\$b\\\\", "a$b\\"),
        (r"\QU.\Es*", "U.sss", "x", "x"),
        (r"[\w-]+", "a-b", "x", "x"),
        (r"a$\n", "a\n", "x", "x"),
        # A number of repetitions behind nothing repeats the empty text.
        ("{2}b", "b", "x", "x"),
        ("a|{1}b", "b", "x", "x"),
        ("(?:{2})a", "a", "x", "x"),
        ("({2}?)(b)", "b", "$1$2", "b"),
        ("{0}{2,}{1,3}", "", "x", "x"),
        ("a{2}{3}", "aa", "x", "x"),
        ("a*{2}b?{3}", "aab", "x", "x"),
        ("{2}(?<routedByValue>.*)", "User", "t.${routedByValue}", "t.User"),
    ],
)
def test_a_topic_is_replaced_as_java_does_it(regex: str, text: str, replacement: str, topic: str) -> None:
    pattern = read_regex(regex)
    assert pattern.fullmatch(text)
    assert pattern.replace_first(text, replacement) == topic


@pytest.mark.parametrize(
    ("regex", "text"),
    [(".*", "a\u2028b"), (r"\w", "ä"), (r"\d", "٣"), (r"\s", "\xa0"), ("$a", "a"), ("a{2}{3}", "aaa")],
)
def test_what_java_does_not_match(regex: str, text: str) -> None:
    assert not read_regex(regex).fullmatch(text)


@pytest.mark.parametrize(
    "regex",
    [
        *("[[a-z]", "(", "a)", "*a", "a**", "[a", "{", "x{b}", "(?<n>a)(?<n>b)", "(?<1>a)", "a\\", "[b-a]", "a{3,2}"),
        *("(?P<n>a)", "{2}*", "{2}??b", "{a}", "{2", "{,2}b", "{3,2}b", "a{2}?*", "{2}{"),
    ],
)
def test_what_java_does_not_compile_is_a_wrong_configuration(regex: str) -> None:
    with pytest.raises(RoutingError) as caught:
        EventRouter(topic_regex=regex)
    assert (caught.value.exception, caught.value.stage) == ("ConfigException", "configure")


@pytest.mark.parametrize(
    "regex",
    [
        *(
            "[a-z&&[^b]]",
            r"\p{Alpha}",
            "a++",
            "a{2}+",
            "(?i)a",
            r"\R",
            r"\h",
            r"\Z",
            r"\b",
            "(?<=a)b",
            "(?>a)",
            r"(.)\1",
        ),
        *(
            "[a[b]]",
            "(?:a*)*",
            "{2}+b",
            "{1001}b",
            "[]a]",
            r"[a-\d]",
            r"\x{41}",
            r"\ud83d",
            "[a--b]",
            "(" * 900 + ")" * 900,
        ),
    ],
)
def test_what_python_reads_otherwise_is_sent_to_the_real_one(regex: str) -> None:
    with pytest.raises(ConfigError, match="Java and Python") as caught:
        EventRouter(topic_regex=regex)
    assert "--engine real" in caught.value.hint


@pytest.mark.parametrize("replacement", ["$", "${", "${1a}", "${nogroup}", "a\\", "$x"])
def test_a_malformed_replacement_shows_at_the_first_row_only(replacement: str) -> None:
    assert thrown({"route.topic.replacement": replacement}) == "IllegalArgumentException in transform"


def test_a_number_without_a_group_is_another_exception() -> None:
    assert thrown({"route.topic.replacement": "$9"}) == "IndexOutOfBoundsException in transform"


def test_converters_are_found_in_a_connectors_configuration() -> None:
    config = RoutingConfig.from_config(
        {
            "transforms": "unwrap, outbox",
            "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
            "transforms.outbox.predicate": "isOutbox",
            "transforms.outbox.route.by.field": "kind",
            "key.converter": "StringConverter",
            "value.converter": "io.debezium.converters.BinaryDataConverter",
            "value.converter.delegate.converter.type": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.delegate.converter.type.schemas.enable": "false",
        }
    )
    assert config.router.options == {"route.by.field": "kind"}
    assert config.others == ("unwrap",)
    found = make_converter(config.value)
    assert found.convert(ConnectValue(ConnectType.STRING, "x")) == b'"x"'
    assert found.convert(ConnectValue(ConnectType.BYTES, b"x")) == b"x"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "no EventRouter"),
        ({"transforms": "a,b", "transforms.a.type": "EventRouter", "transforms.b.type": "EventRouter"}, "several"),
        ({"transforms": "a", "transforms.a.type": "EventRouter"}, "missing; the worker's default"),
    ],
)
def test_a_configuration_that_does_not_say_enough_is_refused(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RoutingConfig.from_config(config)


@pytest.mark.parametrize("name", ["io.apicurio.registry.utils.converter.AvroConverter", "org.example.EventRouter"])
def test_other_peoples_plugins_are_sent_to_the_real_ones(name: str) -> None:
    with pytest.raises(ConfigError, match="not supported"):
        make_converter(ConnectPlugin(name))


def test_the_code_of_the_page_about_routing_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "routing.md").read_text()
    [code] = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    config = {
        "transforms": "outbox",
        "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
    }
    columns = {"id": "1", "aggregatetype": "User", "aggregateid": "7", "payload": "{}"}
    names: dict[str, Any] = {"config": config, "columns": columns}
    exec(code, names)  # noqa: S102 - it is ours
    assert (names["message"].topic, names["message"].key) == ("outbox.event.User", b"7")


@pytest.mark.parametrize(
    ("operation", "fields", "becomes"),
    [
        # As Debezium 3.5 and 3.7 were seen to do.
        ("c", (), "IllegalArgumentException"),
        ("t", (), "IllegalArgumentException"),
        ("c", ("after",), "DataException"),
        (None, ("after",), "NullPointerException"),
        (1, (), "DataException"),
        ("d", (), None),
        ("u", ("after",), None),
    ],
)
def test_what_only_claims_to_be_a_change_fails_by_its_operation(
    operation: str | int | None, fields: tuple[str, ...], becomes: str | None
) -> None:
    kind = ConnectType.INT32 if isinstance(operation, int) else ConnectType.STRING
    held = (("op", ConnectSchema(type=kind)), *((name, ConnectSchema(type=ConnectType.STRING)) for name in fields))
    schema = ConnectSchema(type=ConnectType.STRUCT, name="a.Envelope", fields=held)
    record = ConnectRecord(topic="x", value=ConnectStruct(schema, {"op": operation}))
    if becomes is None:
        assert EventRouter().transform(record, EnvelopeMemory()) is None
        return
    with pytest.raises(RoutingError) as caught:
        EventRouter().transform(record, EnvelopeMemory())
    assert caught.value.exception == becomes
    with pytest.raises(RoutingError) as caught:
        EventRouter(on_update=UpdateBehavior.FATAL).transform(
            ConnectRecord(topic="x", value=ConnectStruct(schema, {"op": "u"})), EnvelopeMemory()
        )
    assert caught.value.exception == ("DataException" if operation == 1 else "IllegalStateException")


def test_a_header_converter_has_no_delegate() -> None:
    binary = ConnectPlugin("io.debezium.converters.BinaryDataConverter", {"delegate.converter.type": "StringConverter"})
    text = ConnectPlugin("org.apache.kafka.connect.storage.StringConverter")
    config = RoutingConfig(router=ConnectPlugin(EVENT_ROUTER), key=text, value=text, header=binary)
    with pytest.raises(RoutingError, match="requires a delegate") as caught:
        Routing.from_config(config).message(insert())
    assert (caught.value.exception, caught.value.stage) == ("DataException", "convert")
