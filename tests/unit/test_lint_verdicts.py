"""What lint says of mutated configurations is what a worker did with them: an error where events did not arrive."""

from collections.abc import Mapping

import pytest

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.lint import lint
from cdc_outbox.finding import Severity
from tests.support.configs import BINARY, DECODER, ROUTER, TOPIC_NAMES, changed, config_of

_KAFKA, _DEBEZIUM = "org.apache.kafka.connect.transforms.", "io.debezium."
_R, _T, _PREDICATE = "transforms.outbox.", "transforms.outbox.table.", "predicates.isOutbox."
_PATTERN, _TABLES = f"{_PREDICATE}pattern", "table.include.list"
_PLACEMENT = f"{_T}fields.additional.placement"
_MODE = "snapshot.mode.configuration.based.start.stream"

Changes = Mapping[str, str | None]


def more(order: str, java_class: str, **options: str) -> dict[str, str | None]:
    """Return the options of a transform ``more`` before or behind the router."""
    own = {f"transforms.more.{name.replace('_', '.')}": value for name, value in options.items()}
    return {"transforms": order, "transforms.more.type": java_class, **own}


def before(java_class: str, **options: str) -> dict[str, str | None]:
    return more("more,outbox", java_class, **options)


def behind(java_class: str, **options: str) -> dict[str, str | None]:
    return more("outbox,more", java_class, **options)


def errors(changes: Changes) -> list[str]:
    found = lint(config_of(changed(DatabaseKind.POSTGRESQL, changes)))
    return [finding.code for finding in found if finding.severity is Severity.ERROR]


_FIRST = before(ROUTER, route_topic_replacement="first.${routedByValue}")
_UNTIMED: Changes = {f"{_T}field.event.timestamp": None}

LOST: list[tuple[str, Changes]] = [
    # Names and lists as Connect takes them.
    ("CC214", {f"{_R}predicate": " isOutbox "}),
    ("CC212", {"predicates": "isOutbox,"}),
    ("CC212", {"transforms": "outbox,"}),
    ("CC229", {"transforms": None}),
    ("CC229", {"transforms": ""}),
    ("CC223", {f"{_PREDICATE}type": f"{_KAFKA}TopicNameMatches"}),
    ("CC223", {f"{_R}type": f"{_DEBEZIUM}transforms.EventRouter"}),
    ("CC223", {"connector.class": f"{_DEBEZIUM}connector.PostgresConnector"}),
    ("CC505", {f"{_R}type": "EventRouter", _PATTERN: "outbox"}),
    ("CC216", {_PATTERN: r"orders\.public\outbox"}),
    ("CC525", {_TABLES: r"public\outbox"}),
    ("CC120", {"heartbeat.interval.ms": "-1"}),
    ("CC120", {"topic.creation.default.partitions": "0"}),
    ("CC120", {"topic.creation.default.replication.factor": "-2"}),
    ("CC517", {"snapshot.mode": "configuration_based"}),
    # What transforms leave of a change, and what they make of what a router gives them.
    ("CC221", before(f"{_KAFKA}Flatten$Value")),
    ("CC221", before(f"{_KAFKA}ReplaceField$Value", exclude="op", predicate="isOutbox")),
    ("CC221", before(f"{_KAFKA}ReplaceField$Value", include="op,ts_ms", predicate="isOutbox")),
    ("CC221", {**before(f"{_KAFKA}ReplaceField$Value", include="after,op", predicate="isOutbox"), **_UNTIMED}),
    ("CC221", {**before(f"{_KAFKA}Cast$Value", spec="ts_ms:string"), **_UNTIMED}),
    ("CC221", {**before(f"{_KAFKA}TimestampConverter$Value", field="ts_ms", target_type="string"), **_UNTIMED}),
    ("CC221", before(f"{_KAFKA}ExtractField$Value", field="payload", predicate="isOutbox")),
    ("CC222", before(f"{_KAFKA}ExtractField$Value", field="op", predicate="isOutbox")),
    ("CC221", before(f"{_KAFKA}HeaderFrom$Value", fields="op", headers="op", operation="copy")),
    ("CC221", behind(f"{_KAFKA}HeaderFrom$Value", fields="op", headers="op", operation="copy")),
    ("CC221", behind(f"{_DEBEZIUM}transforms.HeaderToValue", headers="id", fields="id", operation="copy")),
    # What the router itself takes, and gives.
    ("CC318", {f"{_T}field.event.timestamp": ""}),
    ("CC336", {"field.name.adjustment.mode": "avro_unicode"}),
    ("CC338", {_PLACEMENT: "type:header:id"}),
    ("CC339", {f"{_R}route.topic.regex": "(?<routedByValue>order)"}),
    ("CC339", {f"{_R}route.topic.regex": "^(?<routedByValue>order)$"}),
    ("CC301", {f"{_T}field.payload": "body"}),
    ("CC505", _FIRST),
    # A table, or the case of its name, that is not known does not keep the rest from being followed.
    ("CC221", {_TABLES: r"public\.OUTBOX", **before(f"{_KAFKA}Flatten$Value", predicate="isOutbox")}),
    ("CC227", {_PATTERN: r"(?i)orders\.public\.OUTBOX", **behind(f"{_KAFKA}Filter")}),
    ("CC505", {_TABLES: r".*\.outbox", "topic.prefix": "shop"}),
    ("CC505", {_TABLES: r".*\.outbox", _PATTERN: r"orders\.outbox"}),
    ("CC505", {_TABLES: r"^public\.outbox$", _PATTERN: r"orders\.app\.outbox"}),
    ("CC505", {"topic.prefix": "shop", **before(f"{_DEBEZIUM}transforms.ExtractNewRecordState")}),
    ("CC505", {"topic.naming.strategy": f"{_DEBEZIUM}schema.SchemaUnicodeTopicNamingStrategy", _PATTERN: r"a\.b"}),
]

ARRIVES: list[Changes] = [
    {f"{_R}type": "EventRouter"},
    {f"{_PREDICATE}type": "TopicNameMatches"},
    {"snapshot.mode": "configuration_based", _MODE: "true"},
    {"topic.creation.default.partitions": "-1"},
    {"transforms.unused.type": ROUTER},
    before(f"{_KAFKA}ReplaceField$Value", exclude="source"),
    before(f"{_KAFKA}ReplaceField$Value", include="after,op", predicate="isOutbox"),
    before(f"{_KAFKA}Cast$Value", spec="ts_ms:string"),
    before(f"{_KAFKA}TimestampConverter$Value", field="ts_ms", target_type="string", format="yyyy"),
    before(f"{_DEBEZIUM}transforms.HeaderToValue", headers="id", fields="id", operation="copy"),
    {
        "heartbeat.interval.ms": "0",
        **before(f"{_KAFKA}HeaderFrom$Value", fields="op", headers="op", operation="copy"),
    },
    {
        **before(f"{_KAFKA}InsertField$Value", static_field="region", static_value="eu"),
        "transforms": "more,key,outbox",
        "transforms.key.type": f"{_KAFKA}ValueToKey",
        "transforms.key.fields": "region",
        "transforms.key.predicate": "isOutbox",
    },
    {**behind(ROUTER, route_topic_replacement="first.${routedByValue}"), f"{_R}predicate": None},
    {**behind(ROUTER, route_topic_replacement="rest.${routedByValue}"), _TABLES: r"public\.outbox,public\.outbox_b"},
    # Rows, with a decoder that has nothing to decode.
    before(DECODER, predicate="isOutbox"),
    behind(DECODER, predicate="isOutbox"),
    {_TABLES: r"public\.o.*", **behind(DECODER, predicate="isOutbox")},
    {_PATTERN: ".*", **before(DECODER, predicate="isOutbox")},
    {f"{_T}field.additional.missing": None},  # of which only a row that lacks a column knows
    {f"{_T}field.payload": "payload"},  # which is what the router does anyway
    {f"{_T}no.such.option": "x"},
    {_PLACEMENT: "id:header"},
    {f"{_R}route.topic.regex": "order", f"{_R}route.topic.replacement": "orders"},
    {f"{_R}route.topic.regex": "(?<routedByValue>.)"},
    {"field.name.adjustment.mode": "avro"},
    {_TABLES: None, "table.exclude.list": r"public\.customers", _PATTERN: ".*"},
    {
        "value.converter": BINARY,
        "value.converter.delegate.converter.type": "org.apache.kafka.connect.json.JsonConverter",
    },
]


@pytest.mark.parametrize(("code", "changes"), LOST)
def test_where_events_did_not_arrive_there_is_an_error(code: str, changes: Changes) -> None:
    assert code in errors(changes)


@pytest.mark.parametrize("changes", ARRIVES)
def test_where_events_arrived_there_is_no_error(changes: Changes) -> None:
    assert errors(changes) == []


def test_a_predicate_with_blanks_is_offered_without_them() -> None:
    found = lint(config_of(changed(DatabaseKind.POSTGRESQL, {f"{_R}predicate": " isOutbox "})))
    assert [finding.remedy for finding in found if finding.code == "CC214"] == [
        "Write isOutbox: Connect reads the spaces as a part of the name."
    ]
    assert TOPIC_NAMES in changed(DatabaseKind.POSTGRESQL, {}).values()


@pytest.mark.parametrize(
    ("pattern", "is_found"),
    [
        ("orders.outbox", False),
        *((pattern, True) for pattern in (r"orders\.outbox", "^orders.outbox$", "(orders.outbox)", "orders.*")),
    ],
)
def test_a_pattern_among_plain_names_is_found_however_it_is_written(pattern: str, *, is_found: bool) -> None:
    changes = {"filters.match.mode": "literal", "collection.include.list": pattern}
    codes = [finding.code for finding in lint(config_of(changed(DatabaseKind.MONGODB, changes)))]
    assert ("CC807" in codes) is is_found
