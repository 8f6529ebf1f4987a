"""Configurations are compared by what they mean: what is written in another way is no difference."""

from collections.abc import Mapping

import pytest

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config_texts import find_configs
from cdc_outbox.debezium.normalized_config import NormalizedConfig, differences
from cdc_outbox.text_files.document import Document
from tests.support.configs import BINARY, CLEAN, JSON, TOPIC_NAMES, changed, config_of

ROUTER = "transforms.outbox."
VALUE_TO_KEY = "org.apache.kafka.connect.transforms.ValueToKey"
CLOUD_EVENTS = "io.debezium.converters.CloudEventsConverter"
PLACEMENT = f"{ROUTER}table.fields.additional.placement"
TOPIC = f"{ROUTER}route.topic.replacement"
RENAMED = {option.replace(ROUTER, "transforms.saga."): value for option, value in CLEAN[DatabaseKind.MYSQL].items()}


def keys(kind: DatabaseKind, changes: Mapping[str, str | None]) -> list[str]:
    """Return in what a clean configuration and a changed one differ, from either side."""
    before, after = config_of(CLEAN[kind]), config_of(changed(kind, changes))
    found = [difference.key for difference in differences(before, after)]
    assert found == [difference.key for difference in differences(after, before)]
    return found


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (DatabaseKind.POSTGRESQL, {"errors.tolerance": "none", "max.batch.size": "2048"}),
        (DatabaseKind.POSTGRESQL, {"slot.drop.on.stop": "FALSE", "tasks.max": "7", "database.sslcert": ""}),
        (DatabaseKind.POSTGRESQL, {"skipped.operations": "t, d,u", "tombstones.on.delete": "False"}),
        (DatabaseKind.POSTGRESQL, {"connector.class": "PostgresConnector", "publication.autocreate.mode": "DISABLED"}),
        (DatabaseKind.POSTGRESQL, {"table.include.list": "public.outbox", "schema.include.list": "pub.*"}),
        (DatabaseKind.POSTGRESQL, {"predicates.isOutbox.pattern": "orders.*"}),
        (DatabaseKind.POSTGRESQL, {f"{ROUTER}predicate": None, "predicates": None}),
        (DatabaseKind.POSTGRESQL, {f"{ROUTER}negate": "true", "predicates.isOutbox.pattern": "elsewhere"}),
        (DatabaseKind.POSTGRESQL, {f"{ROUTER}table.field.event.id": None, f"{ROUTER}route.by.field": None}),
        (DatabaseKind.POSTGRESQL, {f"{ROUTER}route.topic.regex": "(.*)", TOPIC: "outbox.event.$1"}),
        (DatabaseKind.POSTGRESQL, {TOPIC: r"outbox\.event.${routedByValue}"}),
        (DatabaseKind.POSTGRESQL, {TOPIC: None}),
        (DatabaseKind.POSTGRESQL, {f"{ROUTER}table.field.event.type": "type", "transforms.unused.type": "x"}),
        (DatabaseKind.POSTGRESQL, {f"{ROUTER}table.json.payload.null.behavior": "optional_bytes"}),
        (DatabaseKind.POSTGRESQL, {"key.converter": "StringConverter", "value.converter.schemas.enable": "false"}),
        (DatabaseKind.POSTGRESQL, {"header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"}),
        (DatabaseKind.POSTGRESQL, {"key.converter.converter.encoding": "UTF-8", "no.such.option": "1"}),
        (DatabaseKind.MYSQL, {"snapshot.mode": "schema_only"}),
        (DatabaseKind.MYSQL, {"topic.prefix": None, "database.server.name": "orders"}),
        (DatabaseKind.MYSQL, {"database.include.list": "orders", "database.server.id": "4711"}),
        (
            DatabaseKind.MYSQL,
            {
                "schema.history.internal.kafka.topic": None,
                "database.history.kafka.topic": "history.orders",
                "schema.history.internal": "io.debezium.storage.kafka.history.KafkaSchemaHistory",
            },
        ),
        (DatabaseKind.ORACLE, {f"{ROUTER}table.field.event.id": "ID", f"{ROUTER}route.by.field": "AGGREGATETYPE"}),
        (DatabaseKind.SQLSERVER, {"tasks.max": "1"}),
        (DatabaseKind.MONGODB, {f"{ROUTER}collection.field.event.id": "_id"}),
        (DatabaseKind.MONGODB, {f"{ROUTER}collection.field.event.key": "aggregateid"}),
    ],
)
def test_another_spelling_is_no_difference(kind: DatabaseKind, changes: Mapping[str, str | None]) -> None:
    assert keys(kind, changes) == []


@pytest.mark.parametrize(
    ("kind", "changes", "key"),
    [
        (DatabaseKind.POSTGRESQL, {"name": "others"}, "name"),
        (DatabaseKind.POSTGRESQL, {"errors.tolerance": "all"}, "errors.tolerance"),
        (DatabaseKind.POSTGRESQL, {"poll.interval.ms": None}, "poll.interval.ms"),
        (DatabaseKind.POSTGRESQL, {"table.include.list": None}, "table.include.list"),
        (DatabaseKind.POSTGRESQL, {"schema.include.list": "other"}, "schema.include.list"),
        (DatabaseKind.POSTGRESQL, {"slot.name": "Orders_outbox"}, "slot.name"),
        (DatabaseKind.POSTGRESQL, {"predicates.isOutbox.pattern": "elsewhere"}, "transforms.EventRouter.predicate"),
        (DatabaseKind.POSTGRESQL, {f"{ROUTER}negate": "true"}, "transforms.EventRouter.predicate"),
        (
            DatabaseKind.POSTGRESQL,
            {f"{ROUTER}table.field.event.id": "Id"},
            "transforms.EventRouter.table.field.event.id",
        ),
        (
            DatabaseKind.POSTGRESQL,
            {PLACEMENT: "type:header"},
            "transforms.EventRouter.table.fields.additional.placement",
        ),
        (
            DatabaseKind.POSTGRESQL,
            {f"{ROUTER}route.topic.regex": "(.*)x"},
            "transforms.EventRouter.route.topic.regex",
        ),
        (DatabaseKind.POSTGRESQL, {"value.converter": JSON}, "value.converter"),
        (DatabaseKind.POSTGRESQL, {"key.converter.converter.encoding": "UTF-16"}, "key.converter.converter.encoding"),
        (DatabaseKind.POSTGRESQL, {"converters": "mine", "mine.type": "com.example.Mine"}, "mine.type"),
        (DatabaseKind.SQLSERVER, {"tasks.max": "2"}, "tasks.max"),
        (DatabaseKind.SQLSERVER, {"database.names": "orders,others"}, "database.names"),
    ],
)
def test_another_meaning_is_a_difference(kind: DatabaseKind, changes: Mapping[str, str | None], key: str) -> None:
    assert key in keys(kind, changes)


@pytest.mark.parametrize(
    ("both", "option", "before", "after"),
    [
        ({}, PLACEMENT, "shard:partition,bucket:partition", "bucket:partition,shard:partition"),
        ({}, PLACEMENT, "type:header:kind,what:header:kind", "what:header:kind,type:header:kind"),
        ({"transforms": "outbox,key", "transforms.key.type": VALUE_TO_KEY}, "transforms.key.fields", "a,b", "b,a"),
        (
            {"value.converter": BINARY, "value.converter.delegate.converter.type": JSON},
            "value.converter.delegate.converter.type.schemas.enable",
            "true",
            "false",
        ),
        ({"value.converter": CLOUD_EVENTS}, "value.converter.json.schemas.enable", "true", "false"),
    ],
)
def test_what_another_order_or_an_inner_converter_changes_is_a_difference(
    both: Mapping[str, str], option: str, before: str, after: str
) -> None:
    configs = [config_of(changed(DatabaseKind.POSTGRESQL, {**both, option: value})) for value in (before, after)]
    assert [found.option for found in differences(configs[0], configs[1])] == [option]
    assert option not in NormalizedConfig(configs[0]).idle


def test_the_order_of_placements_for_different_places_means_nothing() -> None:
    orders = ("a:header:x,b:envelope:x,c:partition,d:header", "d:header:d,c:partition,a:header:x,b:envelope:x")
    first, second = (config_of(changed(DatabaseKind.POSTGRESQL, {PLACEMENT: order})) for order in orders)
    assert differences(first, second) == ()


def test_an_alias_means_nothing_and_a_transform_more_does() -> None:
    before = config_of(CLEAN[DatabaseKind.MYSQL])
    assert differences(before, config_of({**RENAMED, "transforms": "saga"})) == ()
    more = {"transforms": "saga,route", "transforms.route.type": "io.debezium.transforms.ByLogicalTableRouter"}
    found = differences(config_of({**RENAMED, **more, "transforms.route.topic.regex": "(.*)"}), before)
    assert {each.option for each in found} == {"transforms", "transforms.route.topic.regex"}


def test_a_difference_is_told_by_the_name_that_the_first_configuration_has_for_it() -> None:
    before = config_of({**RENAMED, "transforms": "saga"})
    fatal = {f"{ROUTER}table.op.invalid.behavior": "fatal", "skipped.operations": "d"}
    [_, found] = differences(before, config_of(changed(DatabaseKind.MYSQL, fatal)))
    assert found.option == "transforms.saga.table.op.invalid.behavior"
    older = config_of(changed(DatabaseKind.MYSQL, {"topic.prefix": None, "database.server.name": "x"}))
    [prefix, *_] = differences(older, before)
    assert (prefix.key, prefix.option) == ("topic.prefix", "database.server.name")


def test_a_predicate_that_is_on_everything_of_several_tables_means_nothing_either() -> None:
    two = {"table.include.list": r"public\.outbox,public\.other"}
    both = {**two, "predicates.isOutbox.pattern": r"orders\.public\..*"}
    assert keys(DatabaseKind.POSTGRESQL, both) == ["table.include.list"]
    assert keys(DatabaseKind.POSTGRESQL, two) == ["table.include.list", "transforms.EventRouter.predicate"]
    some = {"table.include.list": r"public\.outbox,public\.o.*"}
    assert keys(DatabaseKind.POSTGRESQL, some) == ["table.include.list", "transforms.EventRouter.predicate"]


def test_what_does_nothing_is_named() -> None:
    does_nothing = {
        "no.such.option": "1",
        "tasks.max": "2",
        "transforms.gone.type": "x",
        "predicates.gone.type": TOPIC_NAMES,
        f"{ROUTER}table.field.event.type": "type",
        f"{ROUTER}no.such": "x",
        "value.converter.schemas.enable": "false",
    }
    both = {*does_nothing, f"{ROUTER}table.fields.additional.error.on.missing"}  # the last is for Debezium 3.5
    assert set(NormalizedConfig(config_of(changed(DatabaseKind.POSTGRESQL, does_nothing))).idle) == both


def test_numbers_and_truths_of_json_mean_what_their_text_does() -> None:
    typed = {**CLEAN[DatabaseKind.POSTGRESQL], "tombstones.on.delete": False, "heartbeat.interval.ms": 10000}
    [config], _ = find_configs(Document(name="x", content=typed))
    assert differences(config_of(CLEAN[DatabaseKind.POSTGRESQL]), config) == ()
