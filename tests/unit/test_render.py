import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from cdc_outbox import ConfigError, OutboxTable
from cdc_outbox.databases.database import DatabaseKind, DatabaseSpec
from cdc_outbox.debezium.lint import lint
from cdc_outbox.debezium.render import HEARTBEAT_PREFIX, raw_topic, render
from cdc_outbox.debezium.render.spec_config import rendered_config
from cdc_outbox.spec import parse_spec
from tests.support.specs import MINIMAL, MONGODB, ORDERS

MARIADB = ORDERS.with_name("orders-mariadb.yaml")
BINLOG = MINIMAL.replace("kind: postgresql", "kind: mariadb")
GOLDEN = Path(__file__).parent / "golden"


def test_the_demos_configuration_is_the_golden_one() -> None:
    """Regenerate with `cdc-outbox render connectors/orders.yaml > tests/unit/golden/orders.json` and read the diff."""
    rendered = render(parse_spec(ORDERS.read_text()))
    assert rendered == json.loads((GOLDEN / "orders.json").read_text())


@pytest.mark.parametrize(
    ("latency", "interval", "linger"), [("low", "5", "0"), ("balanced", "10", None), ("economy", "500", None)]
)
def test_the_latency_profile_sets_how_often_the_connector_looks(
    latency: str, interval: str, linger: str | None
) -> None:
    config = render(parse_spec(f"{MINIMAL}latency: {latency}\n"))
    assert (config["poll.interval.ms"], config.get("producer.override.linger.ms")) == (interval, linger)
    assert lint(rendered_config(parse_spec(f"{MINIMAL}latency: {latency}\n"))) == ()


def test_a_producer_may_wait_longer_than_its_profile_says() -> None:
    text = f"{MINIMAL}latency: low\noverrides: {{producer.override.linger.ms: 20}}\n"
    assert render(parse_spec(text))["producer.override.linger.ms"] == "20"


def test_the_spec_decides_topics_slot_and_publication() -> None:
    text = MINIMAL.replace("host:", "slot: s\n  publication: P\n  port: 5433\n  host:")
    topics = "topics: {name: 'x.{aggregate_type}', partitions: 7, replication_factor: 3, retention: 2d}"
    config = render(parse_spec(f"{text}{topics}\n"))
    assert (config["slot.name"], config["publication.name"], config["database.port"]) == ("s", "P", "5433")
    assert config["transforms.outbox.route.topic.replacement"] == "x.${routedByValue}"
    assert config["topic.creation.default.partitions"] == "7"
    assert config["topic.creation.default.replication.factor"] == "3"
    assert config["topic.creation.default.retention.ms"] == "172800000"
    forever = parse_spec(f"{MINIMAL}topics: {{retention: forever}}\n")
    assert render(forever)["topic.creation.default.retention.ms"] == "-1"
    assert "topic.creation.default.retention.ms" not in render(parse_spec(MINIMAL))


@pytest.mark.parametrize("table", ["outbox", "out.box", "out,box", "Größe (neu)", "a+b$", "x|y"])
def test_patterns_match_this_table_and_nothing_else(table: str) -> None:
    spec = parse_spec(f"{MINIMAL}outbox: {{table: {json.dumps(table)}}}\n")
    config = render(spec)
    pattern = config["predicates.isOutbox.pattern"]
    assert re.fullmatch(pattern, raw_topic(spec))
    assert not re.fullmatch(pattern, raw_topic(spec).replace(".", "x", 1))
    # Debezium splits the list at commas that have no backslash before them.
    [included] = re.split(r"(?<!\\),", config["table.include.list"])
    assert re.fullmatch(included, f"public.{table}")


def test_an_override_is_taken() -> None:
    config = render(
        parse_spec(f"{MINIMAL}overrides: {{database.sslmode: verify-full, poll.interval.ms: 20, x: true}}\n")
    )
    assert (config["database.sslmode"], config["poll.interval.ms"], config["x"]) == ("verify-full", "20", "true")


@pytest.mark.parametrize(
    "option",
    [
        "errors.tolerance",
        "producer.override.acks",
        "producer.override.enable.idempotence",
        "key.converter",
        "slot.name",
        "snapshot.mode",
        "transforms",
        "transforms.outbox.route.by.field",
        "predicates.isOutbox.pattern",
        "tasks.max",
        "slot.drop.on.stop",
        "event.processing.failure.handling.mode",
        "topic.delimiter",
        "topic.naming.strategy",
        "schema.exclude.list",
        "column.exclude.list",
        "column.mask.with.8.chars",
        "event.converting.failure.handling.mode",
        "header.converter",
        "value.converter.converter.encoding",
        "time.precision.mode",
        "lsn.flush.mode",
        "snapshot.mode.custom.name",
        "snapshot.select.statement.overrides.public.outbox",
        "producer.override.partitioner.ignore.keys",
        "topic.creation.default.cleanup.policy",
        "topic.creation.default.partitions",
        "heartbeat.interval.ms",
        "message.prefix.exclude.list",
        "message.prefix.include.list",
    ],
)
def test_an_override_that_breaks_a_promise_is_refused_with_its_line(option: str) -> None:
    spec = parse_spec(f"{MINIMAL}overrides:\n  {option}: x\n", name="x.yaml")
    with pytest.raises(ConfigError, match="cannot be overridden") as caught:
        render(spec)
    [finding] = caught.value.findings
    assert (finding.code, finding.location.line, finding.location.document) == ("SP106", 12, "x.yaml")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("heartbeat.interval.ms", "0"),
        ("heartbeat.interval.ms", "600001"),
        ("poll.interval.ms", "0"),
        ("poll.interval.ms", "-1"),
        ("topic.creation.default.cleanup.policy", "compact"),
        ("topic.creation.orders.cleanup.policy", '"compact,delete"'),
    ],
)
def test_a_value_that_breaks_a_promise_is_refused(option: str, value: str) -> None:
    with pytest.raises(ConfigError, match="cannot be overridden"):
        render(parse_spec(f"{MINIMAL}overrides:\n  {option}: {value}\n"))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("heartbeat.interval.ms", "500"),
        ("poll.interval.ms", "1"),
        ("topic.creation.default.cleanup.policy", "delete"),
        ("topic.creation.default.retention.ms", "1000"),
        ("snapshot.fetch.size", "10"),
        ("slot.max.retries", "3"),
        ("producer.override.compression.type", "zstd"),
        ("retriable.restart.connector.wait.ms", "1000"),
    ],
)
def test_what_only_tunes_is_taken(option: str, value: str) -> None:
    assert render(parse_spec(f"{MINIMAL}overrides:\n  {option}: {value}\n"))[option] == value


def test_without_a_table_exactly_this_outboxs_messages_are_read_and_made_rows() -> None:
    spec = parse_spec(f"{MINIMAL}outbox: {{mode: message, schema: 'a,b'}}\n")
    config, rows = render(spec), render(parse_spec(MINIMAL))
    # (?-i) because Debezium ignores case; a comma would start the next of a list.
    [included] = re.split(r"(?<!\\),", config["message.prefix.include.list"])
    assert re.fullmatch(included.removeprefix("(?-i)"), spec.outbox.message_prefix)
    assert not re.fullmatch(included.removeprefix("(?-i)"), HEARTBEAT_PREFIX)
    assert "message.prefix.exclude.list" not in config
    assert config["transforms"] == "decode,outbox"
    assert config["predicates.isOutbox.pattern"] == r"orders\.message"
    assert {config[f"transforms.{name}.predicate"] for name in ("decode", "outbox")} == {"isOutbox"}
    assert "transforms.outbox.table.field.event.timestamp" not in config
    assert rows["message.prefix.exclude.list"] == ".*"


def test_the_content_of_messages_stays_bytes() -> None:
    with pytest.raises(ConfigError, match="cannot be overridden"):
        render(parse_spec(f"{MINIMAL}outbox: {{mode: message}}\noverrides: {{binary.handling.mode: hex}}\n"))


def test_the_heartbeat_is_no_outbox() -> None:
    assert not OutboxTable().message_prefix.startswith(HEARTBEAT_PREFIX)


@pytest.mark.parametrize("mode", ["keep", "delete"])
def test_rows_that_go_are_read_as_rows_that_stay(mode: str) -> None:
    assert render(parse_spec(f"{MINIMAL}outbox: {{mode: {mode}}}\n")) == render(parse_spec(MINIMAL))


def test_no_connector_is_rendered_for_a_file() -> None:
    spec = parse_spec(ORDERS.read_text())
    other = replace(spec, database=DatabaseSpec(kind=DatabaseKind.SQLITE))
    with pytest.raises(ConfigError, match="no supported connector reads sqlite") as caught:
        render(other)
    assert caught.value.field == "database.kind"


@pytest.mark.parametrize("kind", ["sqlserver", "oracle"])
def test_the_configuration_of_a_database_whose_table_others_make_is_the_golden_one(kind: str) -> None:
    """Regenerate by writing this text to a file and rendering it."""
    outbox = "outbox: {schema: APP}\n" if kind == "oracle" else ""
    rendered = render(parse_spec(MINIMAL.replace("postgresql", kind) + outbox))
    assert rendered == json.loads((GOLDEN / f"orders-{kind}.json").read_text())


def test_mongodbs_configuration_is_the_golden_one() -> None:
    """Regenerate by writing this text to a file and rendering it."""
    assert render(parse_spec(MONGODB)) == json.loads((GOLDEN / "orders-mongodb.json").read_text())


@pytest.mark.parametrize("table", ["outbox", "out.box", "out,box", "Größe (neu)", "a+b$", "x|y"])
def test_patterns_match_this_collection_and_nothing_else(table: str) -> None:
    spec = parse_spec(f"{MONGODB}outbox: {{schema: shop, table: {json.dumps(table)}}}\n")
    config = render(spec)
    assert re.fullmatch(config["predicates.isOutbox.pattern"], raw_topic(spec))
    [included] = re.split(r"(?<!\\),", config["collection.include.list"])
    assert re.fullmatch(included, f"shop.{table}")
    assert not re.fullmatch(included, f"shop.{table}x")
    assert (config["capture.scope"], config["capture.target"]) == ("database", "shop")


def test_a_login_that_the_connection_string_has_is_not_said_twice() -> None:
    text = MONGODB.replace("  user: orders_connector\n  password: ${env:PASSWORD}\n", "")
    assert not {option for option in render(parse_spec(text)) if option.startswith("mongodb.")} - {
        "mongodb.connection.string"
    }


@pytest.mark.parametrize(
    "option",
    [
        "capture.mode",
        "capture.start.op.time",
        "collection.exclude.list",
        "cursor.oversize.handling.mode",
        "cursor.pipeline",
        "database.include.list",
        "field.exclude.list",
        "field.renames",
        "filters.match.mode",
        "mongodb.connection.string",
        "transforms.outbox.collection.expand.json.payload",
    ],
)
def test_an_override_that_breaks_a_promise_about_documents_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=f"{option} cannot be overridden"):
        render(parse_spec(f"{MONGODB}overrides: {{{option}: x}}\n"))


@pytest.mark.parametrize("option", ["mongodb.authsource", "mongodb.ssl.enabled", "cursor.max.await.time.ms"])
def test_what_only_tunes_mongodbs_reader_is_taken(option: str) -> None:
    assert render(parse_spec(f"{MONGODB}overrides: {{{option}: x}}\n"))[option] == "x"


def test_oracles_pluggable_database_is_named_where_there_is_one() -> None:
    text = MINIMAL.replace("postgresql", "oracle") + "outbox: {schema: APP}\n"
    assert "database.pdb.name" not in render(parse_spec(text))
    assert render(parse_spec(text.replace("  host", "  pdb: SHOP\n  host")))["database.pdb.name"] == "SHOP"


@pytest.mark.parametrize(
    ("kind", "outbox", "table", "topic"),
    [
        ("sqlserver", "{}", r"dbo\.outbox", "orders.orders.dbo.outbox"),
        ("sqlserver", "{schema: app, table: Events}", r"app\.Events", "orders.orders.app.Events"),
        ("oracle", "{schema: APP}", r"APP\.OUTBOX", "orders.APP.OUTBOX"),
        ("oracle", "{schema: APP, table: Events}", r"APP\.Events", "orders.APP.Events"),
    ],
)
def test_a_table_is_called_as_its_connector_calls_it(kind: str, outbox: str, table: str, topic: str) -> None:
    spec = parse_spec(f"{MINIMAL}outbox: {outbox}\n".replace("postgresql", kind))
    config = render(spec)
    assert (config["table.include.list"], raw_topic(spec)) == (table, topic)
    assert re.fullmatch(config["predicates.isOutbox.pattern"], topic)


def test_columns_of_oracle_have_capital_letters_unless_others_are_written() -> None:
    text = f"{MINIMAL}outbox: {{schema: APP, columns: {{payload: body}}, headers: {{TENANT: tenant}}}}\n"
    config = render(parse_spec(text.replace("postgresql", "oracle")))
    assert config["transforms.outbox.table.field.event.payload"] == "body"
    assert config["transforms.outbox.table.field.event.id"] == "ID"
    placed = config["transforms.outbox.table.fields.additional.placement"]
    assert (
        placed == "TYPE:header:eventType,AGGREGATETYPE:header:aggregateType,SEQUENCE:header:sequence,"
        "SOURCE:header:source,CREATED_AT:header:createdAt,TENANT:header:tenant"
    )


@pytest.mark.parametrize("option", ["lob.enabled", "log.mining.transaction.retention.ms", "database.dbname"])
def test_an_override_that_would_lose_events_of_oracle_is_refused(option: str) -> None:
    text = MINIMAL.replace("postgresql", "oracle") + f"outbox: {{schema: APP}}\noverrides: {{{option}: x}}\n"
    with pytest.raises(ConfigError, match=f"{option} cannot be overridden"):
        render(parse_spec(text))


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_binlogs_configuration_is_the_golden_one(kind: str) -> None:
    """Regenerate as the demo's, from connectors/orders-mariadb.yaml with this kind."""
    rendered = render(parse_spec(MARIADB.read_text().replace("kind: mariadb", f"kind: {kind}")))
    assert rendered == json.loads((GOLDEN / f"orders-{kind}.json").read_text())


@pytest.mark.parametrize("size", ["0", "5000000", "100000000"])
def test_the_buffer_of_mariadbs_connector_is_off_or_holds_a_million_events(size: str) -> None:
    assert render(parse_spec(f"{BINLOG}overrides: {{binlog.buffer.size: {size}}}\n"))["binlog.buffer.size"] == size


@pytest.mark.parametrize("size", ["1000", "4999999", "x"])
def test_a_buffer_that_would_lose_the_end_of_a_transaction_is_refused(size: str) -> None:
    with pytest.raises(ConfigError, match=r"5,?000,?000.*the end of a long transaction would be lost"):
        render(parse_spec(f"{BINLOG}overrides: {{binlog.buffer.size: {size}}}\n"))


def test_the_spec_decides_who_reads_a_binlog_and_where_its_schema_is_kept() -> None:
    text = BINLOG.replace("host:", "server_id: 7000\n  host:")
    config = render(parse_spec(f"{text}history: {{topic: H, bootstrap_servers: 'k:1'}}\n"))
    assert config["database.server.id"] == "7000"
    assert config["schema.history.internal.kafka.topic"] == "H"
    assert config["schema.history.internal.kafka.bootstrap.servers"] == "k:1"


def test_every_pipeline_reads_a_binlog_under_a_number_of_its_own() -> None:
    names = ["orders", "Orders", "order.s", "order-s", *(f"pipeline-{number}" for number in range(200))]
    numbers = [
        int(render(parse_spec(BINLOG.replace("name: orders", f"name: {name}", 1)))["database.server.id"])
        for name in names
    ]
    assert len(set(numbers)) == len(names)
    assert all(2**31 <= number < 2**32 for number in numbers)


@pytest.mark.parametrize("table", ["outbox", "out.box", "out,box", "Größe (neu)", "a+b$", "x|y"])
@pytest.mark.parametrize("database", ["orders", "a.b", "a,b"])
def test_patterns_match_this_table_of_a_binlog_and_nothing_else(database: str, table: str) -> None:
    spec = parse_spec(f"{BINLOG}outbox: {{schema: {json.dumps(database)}, table: {json.dumps(table)}}}\n")
    config = render(spec)
    assert re.fullmatch(config["predicates.isOutbox.pattern"], raw_topic(spec))
    for option, name in (("table", f"{database}.{table}"), ("database", database)):
        [included] = re.split(r"(?<!\\),", config[f"{option}.include.list"])
        assert re.fullmatch(included, name)
        assert not re.fullmatch(included, f"{name}x")


@pytest.mark.parametrize(
    "option",
    [
        "connector.class",
        "database.server.id",
        "database.exclude.list",
        "database.include.list",
        "gtid.source.excludes",
        "gtid.source.includes",
        "include.schema.changes",
        "schema.history.internal",
        "schema.history.internal.kafka.topic",
        "schema.history.internal.skip.unparseable.ddl",
        "schema.history.internal.store.only.captured.tables.ddl",
        "snapshot.locking.mode",
        "snapshot.mode",
        "table.include.list",
        "transforms.outbox.route.by.field",
    ],
)
def test_an_override_that_breaks_a_promise_about_a_binlog_is_refused(option: str) -> None:
    with pytest.raises(ConfigError, match=f"{option} cannot be overridden") as caught:
        render(parse_spec(f"{BINLOG}overrides:\n  {option}: x\n"))
    assert [finding.location.line for finding in caught.value.findings] == [12]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("connect.keep.alive.interval.ms", "2000"),
        ("database.ssl.mode", "verify-full"),
        ("heartbeat.interval.ms", "200"),
        ("schema.history.internal.producer.security.protocol", "SASL_SSL"),
        ("schema.history.internal.kafka.recovery.attempts", "10"),
    ],
)
def test_what_only_tunes_a_binlogs_reader_is_taken(option: str, value: str) -> None:
    assert render(parse_spec(f"{BINLOG}overrides:\n  {option}: {value}\n"))[option] == value


def test_the_topics_prefix_is_what_records_and_the_predicate_begin_with() -> None:
    spec = parse_spec(f"{MINIMAL}topic_prefix: app\n")
    config = render(spec)
    assert (config["name"], config["topic.prefix"]) == ("orders", "app")
    assert (raw_topic(spec), config["predicates.isOutbox.pattern"]) == ("app.public.outbox", r"app\.public\.outbox")


def test_debeziums_own_headers_may_be_had() -> None:
    config = render(parse_spec(f"{MINIMAL}overrides: {{extended.headers.enabled: true}}\n"))
    assert config["extended.headers.enabled"] == "true"
