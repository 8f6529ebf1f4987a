"""Where a typical row goes, as the linter follows it: not captured, past the router, dropped, into a failing task."""

from collections.abc import Mapping

import pytest

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.lint import lint
from cdc_outbox.debezium.lint.path import paths_of
from tests.support.configs import CLEAN, DECODER, ROUTER, TOPIC_NAMES, changed, config_of

_KAFKA = "org.apache.kafka.connect.transforms."
_R, _PREDICATE = "transforms.outbox.", "predicates.isOutbox."
_UNASKED = {f"{_R}predicate": None, "predicates": None, f"{_PREDICATE}type": None, f"{_PREDICATE}pattern": None}

Changes = Mapping[str, str | None]


def beside(order: str, java_class: str, **options: str) -> dict[str, str | None]:
    """Return the options of a transform ``more`` before or behind the router."""
    return {
        "transforms": order,
        "transforms.more.type": java_class,
        **{f"transforms.more.{name.replace('_', '.')}": value for name, value in options.items()},
    }


def before(java_class: str, **options: str) -> dict[str, str | None]:
    return beside("more,outbox", java_class, **options)


def behind(java_class: str, **options: str) -> dict[str, str | None]:
    return beside("outbox,more", java_class, **options)


def found(changes: Changes, kind: DatabaseKind = DatabaseKind.POSTGRESQL) -> list[tuple[str, str]]:
    findings = lint(config_of(changed(kind, changes)))
    return [(finding.code, finding.location.path) for finding in findings]


def dated() -> dict[str, str | None]:
    """Return the options of a TimestampRouter that leaves heartbeats alone, which have no timestamp."""
    beats = {"predicates.beats.type": TOPIC_NAMES, "predicates.beats.pattern": "__debezium-heartbeat.*"}
    return {
        **behind(f"{_KAFKA}TimestampRouter", predicate="beats", negate="true"),
        **beats,
        "predicates": "isOutbox,beats",
    }


LOST: list[tuple[str, str, Changes, str]] = [
    # code, option, changes, what the message says
    ("CC227", "transforms.more.type", behind(f"{_KAFKA}Filter"), "it has no predicate"),
    ("CC227", "transforms.more.type", before(f"{_KAFKA}Filter"), "it has no predicate"),
    (
        "CC227",
        "transforms.more.predicate",
        behind(f"{_KAFKA}Filter", predicate="isOutbox", negate="true"),
        "the topic outbox.event.order",
    ),
    (
        "CC227",
        "transforms.more.predicate",
        before(f"{_KAFKA}Filter", predicate="isOutbox"),
        "the topic orders.public.outbox",
    ),
    ("CC505", "transforms", before(f"{_KAFKA}RegexRouter", regex=".*", replacement="all"), "the topic all"),
    (
        "CC505",
        "transforms",
        before("io.debezium.transforms.ByLogicalTableRouter", topic_regex=".*", topic_replacement="all"),
        "the topic all",
    ),
    (
        "CC505",
        f"{_R}predicate",
        {f"{_PREDICATE}type": f"{_KAFKA}predicates.RecordIsTombstone", f"{_PREDICATE}pattern": None},
        "goes unrouted to orders.public.outbox",
    ),
    (
        "CC505",
        f"{_R}predicate",
        {
            f"{_PREDICATE}type": f"{_KAFKA}predicates.HasHeaderKey",
            f"{_PREDICATE}pattern": None,
            f"{_PREDICATE}name": "event",
        },
        "goes unrouted to orders.public.outbox",
    ),
    ("CC505", f"{_PREDICATE}pattern", {"topic.prefix": "shop"}, "shop.public.outbox"),
    (
        "CC505",
        f"{_PREDICATE}pattern",
        {"topic.naming.strategy": "io.debezium.schema.DefaultTopicNamingStrategy"},
        "does not match orders.outbox",
    ),
    ("CC221", "transforms.more.type", before(f"{_KAFKA}TimestampRouter", predicate="isOutbox"), "no timestamp"),
    ("CC406", "value.converter", behind(f"{_KAFKA}HoistField$Value", field="event"), "the value is a structure"),
    (
        "CC221",
        "transforms.more.type",
        behind(f"{_KAFKA}RegexRouter", regex=r"outbox\.event\.(.*)", replacement="a/$1"),
        "invalid topic name",
    ),
    ("CC406", "key.converter", behind(f"{_KAFKA}HoistField$Key", field="event"), "the key is a structure"),
    ("CC221", "transforms.more.type", behind(f"{_KAFKA}SetSchemaMetadata$Value", schema_name="x"), "receives text"),
    ("CC221", "transforms.more.type", behind(f"{_KAFKA}Cast$Value", spec="a:string"), "receives text"),
    ("CC221", "transforms.more.type", behind(f"{_KAFKA}Cast$Value", spec="string"), "receives a structure"),
    ("CC221", "transforms.more.type", behind(f"{_KAFKA}ValueToKey", fields="id"), "'more'"),
    ("CC221", "transforms.more.type", before(f"{_KAFKA}ValueToKey", fields="aggregateid"), "no field aggregateid"),
    ("CC221", "transforms.more.type", behind(f"{_KAFKA}ExtractField$Key", field="id"), "'more'"),
    (
        "CC221",
        "transforms.more.type",
        behind("io.debezium.transforms.partitions.PartitionRouting", partition_payload_fields="change.id"),
        "'more'",
    ),
    (
        "CC221",
        "transforms.more.type",
        behind("io.debezium.transforms.Filter", language="jsr223.groovy", condition="value.op == 'c'"),
        "its script",
    ),
    (
        "CC222",
        "transforms",
        before(f"{_KAFKA}ExtractField$Value", field="after", predicate="isOutbox"),
        "Rows go to orders.public.outbox.",
    ),
    (
        "CC222",
        "transforms",
        before(f"{_KAFKA}SetSchemaMetadata$Value", schema_name="orders.Event"),
        "Rows go to orders.public.outbox.",
    ),
    ("CC228", "transforms.more.type", dated(), "several topics"),
    (
        "CC523",
        "table.exclude.list",
        {"table.include.list": None, "table.exclude.list": r"public\.outbox"},
        "public.outbox is not captured",
    ),
    (
        "CC523",
        "table.exclude.list",
        {"table.include.list": None, "table.exclude.list": r"public\.outbox", **_UNASKED},
        "public.outbox is not captured",
    ),
    (
        "CC523",
        "table.exclude.list",
        {"table.include.list": None, "table.exclude.list": r"public\.(out|in)box"},
        "public.outbox is not captured",
    ),
    ("CC523", "schema.exclude.list", {"schema.exclude.list": "public"}, "public.outbox is not captured"),
    ("CC523", "table.include.list", {"table.include.list": r"app\..*"}, "public.outbox is not captured"),
    # Another table goes through the router: its predicate is too wide.
    (
        "CC502",
        "table.include.list",
        {"table.include.list": "public.outbox,public.customers", f"{_PREDICATE}pattern": ".*"},
        "public.customers",
    ),
    (
        "CC502",
        "table.include.list",
        {"table.include.list": "public.outbox,public_.customers", f"{_PREDICATE}pattern": "orders.public.+"},
        "public_.customers",
    ),
    (
        "CC501",
        "table.include.list",
        {"table.include.list": None, f"{_PREDICATE}pattern": r"orders\..*"},
        "any other table",
    ),
    (
        "CC504",
        "table.include.list",
        {"table.include.list": r"public\..*", f"{_PREDICATE}pattern": r"orders\.public\..*"},
        "not an outbox",
    ),
    (
        "CC503",
        "signal.data.collection",
        {"signal.data.collection": "public.signals", f"{_PREDICATE}pattern": r"orders\.public\..*"},
        "signals",
    ),
]


@pytest.mark.parametrize(("code", "option", "changes", "says"), LOST)
def test_a_row_that_is_lost_is_followed_to_where_it_goes(code: str, option: str, changes: Changes, says: str) -> None:
    findings = lint(config_of(changed(DatabaseKind.POSTGRESQL, changes)))
    [finding] = [finding for finding in findings if (finding.code, finding.location.path) == (code, option)]
    assert says in finding.message
    assert {other.code for other in findings} <= {code, "CC215", "CC501"}


@pytest.mark.parametrize(
    ("option", "value", "remedy"),
    [
        ("schema.exclude.list", "pub.*", "Remove the matching pattern from schema.exclude.list."),
        ("table.include.list", r"app\..*", "Add it to table.include.list."),
    ],
)
def test_the_remedy_names_the_list_that_leaves_the_outbox_out(option: str, value: str, remedy: str) -> None:
    [finding] = lint(config_of(changed(DatabaseKind.POSTGRESQL, {option: value})))
    assert (finding.code, finding.remedy) == ("CC523", remedy)


@pytest.mark.parametrize(
    "changes",
    [
        behind(f"{_KAFKA}Filter", predicate="isOutbox"),  # drops what the router did not take; here nothing
        before(f"{_KAFKA}Filter", predicate="isOutbox", negate="true"),
        behind(f"{_KAFKA}ValueToKey", fields="id", predicate="isOutbox"),
        behind(f"{_KAFKA}RegexRouter", regex="orders\\.(.*)", replacement="events.$1"),
        before(f"{_KAFKA}RegexRouter", regex="other\\.(.*)", replacement="events.$1"),
        before(f"{_KAFKA}InsertField$Value", static_field="a", static_value="b"),
        {**before(f"{_KAFKA}ExtractField$Key", field="id"), "transforms.more.predicate": "isOutbox"},
        before("org.example.Own"),
        behind("org.example.Own"),
        {"table.include.list": "public.outbox,public.customers"},
        {"table.include.list": r"public\..*"},
        {"table.include.list": r"public\.outbo{1\,2}x"},
        {"table.include.list": "PUBLIC.Outbox"},  # which captures public.outbox
        {"table.include.list": None},
        {"table.include.list": None, "table.exclude.list": r"public\.customers"},
        {"signal.data.collection": "public.signals"},
        {"topic.prefix": "${env:PREFIX}"},
        {"topic.naming.strategy": "org.example.Names"},
        {f"{_PREDICATE}type": "org.example.Predicate", f"{_PREDICATE}pattern": None},
        {f"{_PREDICATE}pattern": r"orders\.public\.\p{Alpha}+"},
        {
            "transforms": "rename,outbox",
            "transforms.rename.type": f"{_KAFKA}RegexRouter",
            "transforms.rename.regex": r"orders\.public\.(.*)",
            "transforms.rename.replacement": "raw.$1",
            f"{_PREDICATE}pattern": r"raw\.outbox",
        },
        {
            **before(f"{_KAFKA}RegexRouter", regex=r"orders\.public\.outbox_p.+", replacement="orders.public.outbox"),
            "table.include.list": r"public\.outbox_p\d+",
        },
        {**before("org.example.Own"), "table.include.list": r"public\.outbox_p\d+"},
        {
            "table.include.list": None,
            "table.exclude.list": r"public\.outbox_archive",
            f"{_PREDICATE}pattern": r"orders\.public\.outbox_(a|b)",
        },
    ],
)
def test_a_row_that_arrives_or_goes_where_nobody_knows_is_not_found(changes: Changes) -> None:
    assert [code for code, _ in found(changes)] == []


def test_a_structure_may_be_changed_behind_the_router() -> None:
    envelope = {f"{_R}table.fields.additional.placement": "type:envelope", "value.converter.schemas.enable": "false"}
    envelope["value.converter"] = "org.apache.kafka.connect.json.JsonConverter"
    beats = {"heartbeat.interval.ms": "0", "heartbeat.action.query": None}
    keyed = {**envelope, **beats, **behind(f"{_KAFKA}ValueToKey", fields="type")}
    assert [code for code, _ in found(keyed)] == ["CC607", "CC406"]
    assert "CC221" in [code for code, _ in found({**keyed, "transforms.more.fields": "id"})]


def test_a_heartbeat_goes_through_the_transforms_too() -> None:
    keyed = before(f"{_KAFKA}ValueToKey", fields="after")
    [finding] = lint(config_of(changed(DatabaseKind.POSTGRESQL, keyed)))
    assert (finding.code, "on a heartbeat" in finding.message) == ("CC221", True)
    assert found({**keyed, "transforms.more.predicate": "isOutbox"}) == []
    assert found(before(f"{_KAFKA}ExtractField$Key", field="id")) == [("CC221", "transforms.more.type")]
    codes = [code for code, _ in found(behind(f"{_KAFKA}TimestampRouter"))]
    assert codes == ["CC221", "CC228"]


def test_messages_that_are_all_left_out_are_found() -> None:
    messages: dict[str, str | None] = {
        "transforms": "decode,outbox",
        "transforms.decode.type": DECODER,
        "transforms.decode.fields.null.include": "true",
        f"{_R}table.field.event.timestamp": None,
        f"{_PREDICATE}pattern": r"orders\.message",
    }
    assert found({**messages, "message.prefix.exclude.list": ".*"}) == [("CC524", "message.prefix.exclude.list")]
    assert found({**messages, "message.prefix.exclude.list": "noise.*"}) == []


@pytest.mark.parametrize(
    ("kind", "table", "topic"),
    [
        (DatabaseKind.POSTGRESQL, "public.outbox", "outbox.event.order"),
        (DatabaseKind.MYSQL, "orders.outbox", "outbox.event.order"),
        (DatabaseKind.SQLSERVER, "dbo.outbox", "outbox.event.order"),
        (DatabaseKind.ORACLE, "APP.OUTBOX", "outbox.event.order"),
        (DatabaseKind.MONGODB, "orders.outbox", "outbox.event.order"),
    ],
)
def test_a_row_of_each_database_arrives(kind: DatabaseKind, table: str, topic: str) -> None:
    [path] = paths_of(config_of(CLEAN[kind])).outboxes
    assert (path.table, path.topic) == (table, topic)


def test_rows_of_two_databases_have_a_path_each() -> None:
    options = {"database.names": "orders,billing", f"{_PREDICATE}pattern": r"orders\.orders\.dbo\.outbox"}
    first, second = paths_of(config_of(changed(DatabaseKind.SQLSERVER, options))).outboxes
    assert (first.topic, second.topic) == ("outbox.event.order", "orders.billing.dbo.outbox")


def test_of_a_router_that_sees_what_another_routed_nothing_is_said_twice() -> None:
    second = {"transforms": "outbox,again", "transforms.again.type": ROUTER, "transforms.again.predicate": "isOutbox"}
    assert TOPIC_NAMES in config_of(changed(DatabaseKind.POSTGRESQL, second)).options.values()
    assert "CC505" not in [code for code, _ in found(second)]
