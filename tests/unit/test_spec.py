import traceback

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cdc_outbox import ConfigError, EventFormat, OutboxMode, SequenceMode
from cdc_outbox.debezium.render import event_router_of, render
from cdc_outbox.spec import Latency, Spec, parse_spec, spec_schema
from cdc_outbox.text_files.document import MAX_BYTES
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.support.specs import MINIMAL, ORDERS, findings


def test_the_demos_spec_is_valid() -> None:
    spec = parse_spec(ORDERS.read_text(), name=str(ORDERS))
    assert (spec.name, spec.first_source, spec.contract.topics) == ("orders", "orders.1", ("outbox.event.customer",))


def test_what_is_left_out_has_a_default() -> None:
    spec = parse_spec(MINIMAL)
    assert (spec.database.port, spec.database.slot, spec.database.publication) == (
        "5432",
        "orders_outbox",
        "orders_outbox",
    )
    assert (str(spec.outbox.table), spec.first_source, spec.latency) == ("public.outbox", "orders.1", Latency.BALANCED)
    assert spec.contract.aggregates == {"customer": SequenceMode.GAPLESS}
    assert (spec.topics.partitions, spec.topics.replication_factor) == (3, -1)


def test_the_defaults_in_the_schema_are_those_of_the_code() -> None:
    properties = spec_schema()["properties"]
    spec = parse_spec(MINIMAL)
    assert properties["latency"]["default"] == spec.latency
    assert properties["database"]["properties"]["port"]["default"] == int(spec.database.port)
    assert properties["outbox"]["properties"]["schema"]["default"] == spec.outbox.table.schema
    assert properties["outbox"]["properties"]["table"]["default"] == spec.outbox.name
    columns = properties["outbox"]["properties"]["columns"]["properties"]
    assert {role: column["default"] for role, column in columns.items()} == spec.outbox.columns.names()
    assert properties["outbox"]["properties"]["mode"]["default"] == spec.outbox.mode
    assert properties["outbox"]["properties"]["mode"]["enum"] == list(OutboxMode)
    assert properties["outbox"]["properties"]["format"]["default"] == spec.outbox.format
    assert properties["outbox"]["properties"]["format"]["enum"] == list(EventFormat)
    history = parse_spec(MINIMAL.replace("postgresql", "mariadb")).history
    assert properties["history"]["properties"]["bootstrap_servers"]["default"] == history.bootstrap_servers
    topics = properties["topics"]["properties"]
    assert topics["name"]["default"] == spec.contract.topic
    assert topics["partitions"]["default"] == spec.topics.partitions
    assert topics["replication_factor"]["default"] == spec.topics.replication_factor


ADOPTED_TABLE = "outbox: {table: outboxevent, columns: {created_at: null}}\n"


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        (MINIMAL, "outbox.event.heartbeat.orders"),
        (f"{MINIMAL}outbox: {{mode: delete}}\n", "outbox.event.heartbeat.orders"),
        (f"{MINIMAL}outbox: {{mode: message}}\n", "outbox.event.heartbeat.orders"),
        (f"{MINIMAL}topics: {{name: events}}\n", None),
        (f"{MINIMAL}{ADOPTED_TABLE}", None),
        (MINIMAL.replace("postgresql", "mariadb"), None),
    ],
    ids=["default", "delete", "message", "one topic", "adopted table", "mariadb"],
)
def test_heartbeats_are_of_an_outbox_of_ours_with_a_topic_for_each_type(text: str, topic: str | None) -> None:
    spec = parse_spec(text)
    assert spec.heartbeat_topic == topic
    assert ("outbox_heartbeat" in render(spec).get("heartbeat.action.query", "")) == (topic is not None)


def test_every_key_of_the_schema_says_what_it_is_for() -> None:
    def check(schema: dict[str, object], path: str) -> None:
        for key, part in (schema.get("properties") or {}).items():  # type: ignore[attr-defined]
            assert part["description"].endswith("."), f"{path}.{key}"
            check(part, f"{path}.{key}")

    check(dict(spec_schema()), "")


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("version: 1", "version: 2", ":1 version: error SP104", "version must be 1, not 2."),
        (
            "aggregates:",
            "agregates:",
            ":9 agregates: error SP101",
            "unknown key 'agregates'. Did you mean 'aggregates'?",
        ),
        ("  host: localhost\n", "", ":3 database: error SP102", "the key 'host' is missing in database."),
        ("host: localhost", "host: 7", ":5 database.host: error SP103", "database.host must be a string."),
        ("kind: postgresql", "kind: db2", ":4 database.kind: error SP104", "must be one of postgresql, mariadb,"),
        (
            "{}",
            "{sequence: no}",
            ":10 aggregates.customer.sequence: error SP104",
            "one of gapless, increasing or none, not false.",
        ),
        ("customer: {}", "a b: {}", ":9 aggregates: error SP107", "the topic 'outbox.event.a b', which Kafka refuses."),
        ("{}", "{latest: 1}", ":10 aggregates.customer.latest: error SP103", "must be true or false, not 1."),
        (
            "{}",
            "{sequence: none, by_watermark: true}",
            ":10 aggregates.customer.by_watermark: error SP107",
            "by_watermark needs sequence numbers, but events of 'customer' have none.",
        ),
        ("kind: postgresql", "host: other", ":5: error SP001", "the key 'host' appears twice."),
        ("localhost", "&x localhost", ":5: error SP001", "anchors and aliases are not taken."),
        ("localhost", r'"\U00110000"', ":5: error SP001", "not YAML: an escape in quotes stands for no character."),
        ("customer: {}", "customer: {", ":11: error SP001", "not YAML: expected the node content"),
    ],
)
def test_a_mistake_is_found_with_its_line(old: str, new: str, place: str, message: str) -> None:
    assert old in MINIMAL
    found = findings(MINIMAL.replace(old, new))
    assert any(finding.startswith(f"x.yaml{place}: ") and message in finding for finding in found), found


def test_a_secret_in_clear_text_is_refused_and_not_repeated() -> None:
    [finding] = findings(MINIMAL.replace("${env:PASSWORD}", "hunter2"))
    assert "SP105" in finding
    assert "x.yaml:8" in finding
    assert "hunter2" not in finding


@pytest.mark.parametrize("provider", ["env", "file:/run/secrets", "aws-secrets", "vault2"])
def test_a_reference_to_any_provider_is_taken(provider: str) -> None:
    reference = f"${{{provider}:key}}"
    assert parse_spec(MINIMAL.replace("${env:PASSWORD}", reference)).database.password == reference


@pytest.mark.parametrize("key", ["host", "name", "user"])
def test_a_reference_without_a_provider_is_refused(key: str) -> None:
    line = next(line for line in MINIMAL.splitlines() if line.strip().startswith(f"{key}: ") and line.startswith(" "))
    [finding] = findings(MINIMAL.replace(line, f"  {key}: db-${{PLACE}}.example"))
    assert f" database.{key}: error SP104: database.{key} has ${{PLACE}}, which names no config provider" in finding
    assert finding.endswith("Write ${env:PLACE}.")


def test_a_traceback_shows_the_line_and_the_key_of_each_finding() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_spec(f"{MINIMAL}latncy: low\n", name="x.yaml")
    shown = traceback.format_exception(caught.value)
    assert shown[-3:] == [
        "cdc_outbox.errors.ConfigError: x.yaml is not a valid spec\n",
        "x.yaml:11 latncy: error SP101: unknown key 'latncy'. Did you mean 'latency'?\n",
        "Correct the spec.\n",
    ]


def test_a_reference_without_its_closing_brace_is_refused() -> None:
    [finding] = findings(MINIMAL.replace("host: localhost", 'host: "${env:HOST"'))
    assert ":5 database.host: error SP104: database.host has a reference without a closing brace" in finding
    assert finding.endswith("Add the brace, as in ${env:NAME}.")


@pytest.mark.parametrize("password", ['"${env:X}hunter2}"', '"${hunter2}"', '"${env:X}\\n"'])
def test_what_only_looks_like_a_reference_is_a_secret(password: str) -> None:
    [finding] = findings(MINIMAL.replace("${env:PASSWORD}", password))
    assert "SP105" in finding
    assert "hunter2" not in finding


PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="{}";'


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("database.sslpassword", "hunter2"),
        ("producer.override.ssl.keystore.password", "hunter2"),
        ("producer.override.sasl.jaas.config", PLAIN.format("hunter2")),
        ("producer.override.sasl.jaas.config", PLAIN.format("${env:X}hunter2")),
    ],
)
def test_a_secret_among_the_overrides_is_refused_and_not_repeated(option: str, value: str) -> None:
    [finding] = findings(f"{MINIMAL}overrides:\n  {option}: '{value}'\n")
    assert finding.startswith(f"x.yaml:12 overrides.{option}: error SP105: ")
    assert "hunter2" not in finding


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("database.sslpassword", "${file:/run/secrets:key}"),
        ("producer.override.sasl.jaas.config", PLAIN.format("${env:X}")),
        ("producer.override.sasl.jaas.config", 'com.sun.security.auth.module.Krb5LoginModule required keyTab="/k";'),
        ("producer.override.sasl.oauthbearer.token.endpoint.url", "https://login.example.org"),
    ],
)
def test_a_reference_among_the_overrides_is_taken(option: str, value: str) -> None:
    assert parse_spec(f"{MINIMAL}overrides:\n  {option}: '{value}'\n").overrides == {option: value}


def test_a_whole_number_with_a_point_is_that_number() -> None:
    spec = parse_spec(f"{MINIMAL.replace('host:', 'port: 5432.0' + chr(10) + '  host:')}topics: {{partitions: 3.0}}\n")
    assert (spec.database.port, str(spec.topics.partitions)) == ("5432", "3")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            "topics: {retention: 14 days}",
            "a number of hours, days or weeks, such as 12h, 14d or 2w, or forever, not '14 days'.",
        ),
        ("topics: {partitions: 0}", ": topics.partitions must be at least 1, not 0."),
        (
            "topics: {name: 'x.{aggregatetype}'}",
            "hyphens and {aggregate_type}, not 'x.{aggregatetype}'. Did you mean {aggregate_type}?",
        ),
        ("latency: lw", ": latency must be one of low, balanced or economy, not 'lw'. Did you mean 'low'?"),
        ("outbox: {schema: ''}", ": outbox.schema must not be empty."),
        ("outbox: 7", ": outbox must be keys with values, not 7."),
        (
            "overrides: {max.batch.size: [hunter2]}",
            ": overrides.max.batch.size must be one of a string, a whole number, a number or true or false.",
        ),
    ],
)
def test_a_value_that_is_not_taken_is_shown_with_those_that_are(extra: str, message: str) -> None:
    [finding] = findings(f"{MINIMAL}{extra}\n")
    assert finding.endswith(message)


def test_a_value_that_may_be_part_of_a_login_is_not_shown() -> None:
    assert findings(MINIMAL.replace("user: orders_connector", "user: 12345"))[0].endswith(
        "database.user must be a string."
    )


def test_an_empty_spec_is_called_so() -> None:
    assert findings("")[0].endswith("the spec is empty. `cdc-outbox new` creates one.")


def test_no_replica_at_all_is_refused() -> None:
    assert "topics.replication_factor must not be 0." in findings(f"{MINIMAL}topics: {{replication_factor: 0}}\n")[0]


def test_a_name_that_ends_in_a_newline_is_refused() -> None:
    assert "SP104" in findings(MINIMAL.replace("name: orders\ndatabase", 'name: "orders\\n"\ndatabase'))[0]


@pytest.mark.parametrize("name", ["t" * 64, "ü" * 32])
def test_a_table_name_that_postgresql_would_cut_is_refused(name: str) -> None:
    assert any("longer than 63 bytes" in finding for finding in findings(f"{MINIMAL}outbox:\n  table: {name}\n"))


@pytest.mark.parametrize("slot", ["Upper", "with-hyphen", "s" * 64])
def test_a_slot_name_that_postgresql_refuses_is_refused(slot: str) -> None:
    assert "database.slot" in findings(MINIMAL.replace("host:", f"slot: {slot}\n  host:"))[0]


def test_a_spec_of_two_megabytes_is_refused_at_once() -> None:
    assert findings("#" * (MAX_BYTES + 1)) == [f"x.yaml: error SP001: larger than {MAX_BYTES} bytes."]


@pytest.mark.parametrize("text", ["", "[]", "just text", "1", "---\n---\n", "\x00", "a: !!python/object:os.system {}"])
def test_what_is_no_mapping_is_refused(text: str) -> None:
    assert findings(text)


def test_unicode_and_quoted_names_are_taken() -> None:
    spec = parse_spec(f'{MINIMAL}outbox: {{schema: "Größe", table: \'or"der\'}}\n')
    assert spec.outbox.table.quoted == '"Größe"."or""der"'


NO_NUMBERS = "outbox: {columns: {sequence: null, source: null, created_at: null}}\n"


def test_an_adopted_table_has_the_columns_that_are_named_and_no_trace_columns() -> None:
    spec = parse_spec(MINIMAL.replace("{}", "{sequence: none}") + NO_NUMBERS)
    assert (spec.outbox.adopted, spec.outbox.is_numbered, spec.outbox.headers) == (True, False, {})
    assert list(spec.outbox.columns.names().values()) == ["id", "aggregatetype", "aggregateid", "type", "payload"]
    options = event_router_of(spec).options()
    assert "table.field.event.timestamp" not in options
    assert "traceparent" not in options["table.fields.additional.placement"]
    assert spec.contract.extra_headers == ()


def test_the_contract_has_what_is_said_about_each_aggregate_type() -> None:
    types = "{latest: true}\n  order: {by_watermark: true, latest: false}\n  metric: {sequence: none}"
    contract = parse_spec(MINIMAL.replace("{}", types)).contract
    assert (contract.latest, contract.by_watermark) == (("customer",), ("order",))


def test_headers_are_those_of_the_outbox() -> None:
    spec = parse_spec(MINIMAL + "outbox: {headers: {tenant: x-tenant}}\n")
    assert (
        spec.contract.extra_headers == tuple(spec.outbox.headers.values()) == ("traceparent", "tracestate", "x-tenant")
    )
    assert "tenant:header:x-tenant" in event_router_of(spec).options()["table.fields.additional.placement"]


@pytest.mark.parametrize(
    ("outbox", "place", "message"),
    [
        (NO_NUMBERS, ":10 aggregates.customer: error SP107", "'customer' is numbered (gapless), but the outbox has no"),
        ("outbox: {columns: {type: id}}\n", "outbox.columns.type: error SP107", "cannot be both id and type"),
        ("outbox: {columns: {payload: null}}\n", "outbox.columns.payload: error SP103", "must be a string."),
        ("outbox: {columns: {kind: x}}\n", "outbox.columns.kind: error SP101", "unknown key 'kind'."),
        ("outbox: {columns: {}, partitions: day}\n", "outbox.partitions: error SP107", "belong to its owner"),
        ("outbox: {partitions: week}\n", "outbox.partitions: error SP104", "must be day or month, not 'week'."),
        ("outbox: {headers: {a: sequence}}\n", "outbox.headers: error SP107", "it already carries the sequence"),
        ("outbox: {headers: {a: 'b:c'}}\n", "outbox.headers: error SP107", "contains a colon"),
        (
            "outbox: {headers: {type: x, aggregateid: x}}\n",
            "outbox.headers: error SP107",
            "cannot both be the header 'x'",
        ),
        ("outbox: {headers: {payload: b}}\n", "outbox.headers: error SP107", "already belongs to the payload"),
        ("outbox: {mode: message, columns: {}}\n", "outbox.columns: error SP107", "have no table to adopt"),
        ("outbox: {mode: message, partitions: day}\n", "outbox.partitions: error SP107", "or partition"),
    ],
)
def test_an_outbox_that_cannot_be_is_refused_with_its_place(outbox: str, place: str, message: str) -> None:
    [finding] = findings(MINIMAL + outbox)
    assert place in finding
    assert message in finding


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text() | st.sampled_from(["name", "database"]), children),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.text() | json_like.map(lambda value: yaml.safe_dump(value, allow_unicode=True)) | st.binary().map(str))
def test_any_text_is_a_spec_or_a_config_error(text: str) -> None:
    try:
        spec = parse_spec(text)
    except ConfigError as error:
        assert error.findings  # noqa: PT017
    else:
        assert isinstance(spec, Spec)


def test_header_columns_are_placed_stated_and_made() -> None:
    spec = parse_spec(f"{MINIMAL}outbox: {{headers: {{tenant: x-tenant, tracestate: ts}}}}\n")
    assert spec.outbox.headers == {"traceparent": "traceparent", "tracestate": "ts", "tenant": "x-tenant"}
    assert spec.contract.extra_headers == ("traceparent", "ts", "x-tenant")
    assert "tenant:header:x-tenant" in event_router_of(spec).options()["table.fields.additional.placement"]
    made = "".join(outbox_component(spec.outbox, first_source="orders.1").migrations[0].statements)
    assert '"tenant" text,' in made


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ("{payload: x}", "the header column 'payload' already belongs to the payload"),
        ("{no blank: x}", "must consist of letters, digits and underscores"),
        ("{tenant: id}", "it already carries the event's id"),
        ("{tenant: eventType}", "it already carries the type"),
        ("{tenant: traceparent}", "it already carries a header column"),
        ("{tenant: 'a:b'}", "contains a colon"),
        ("{tenant: __debezium.x}", "Debezium uses this name for its own headers"),
    ],
)
def test_a_header_that_cannot_be_is_refused_with_its_line(headers: str, message: str) -> None:
    [finding] = findings(f"{MINIMAL}outbox:\n  headers: {headers}\n")
    assert finding.startswith("x.yaml:12 outbox.headers: error SP107: ")
    assert message in finding


ADOPTED = """\
outbox:
  columns: {id: nr, aggregate_type: topic, aggregate_id: key, type: kind, created_at: at, sequence: null, source: null}
  headers: {kind: event-kind, topic: null, key: orderId, tenant: tenant}
"""


def test_columns_of_the_events_own_attributes_get_other_headers_or_none() -> None:
    spec = parse_spec(MINIMAL.replace("customer: {}", "customer: {sequence: none}") + ADOPTED)
    placed = {placement.column: placement.alias for placement in event_router_of(spec).placements}
    assert placed == {"kind": "event-kind", "key": "orderId", "at": "createdAt", "tenant": "tenant"}
    assert (spec.contract.headers.type, spec.contract.headers.aggregate_type) == ("event-kind", "aggregateType")
    assert spec.outbox.headers == {"tenant": "tenant"}


def test_a_trace_header_is_left_out_by_null() -> None:
    spec = parse_spec(f"{MINIMAL}outbox: {{headers: {{tracestate: null}}}}\n")
    assert dict(spec.outbox.headers) == {"traceparent": "traceparent"}


@pytest.mark.parametrize(
    ("outbox", "message"),
    [
        ("{headers: {type: 'a:b'}}", "contains a colon"),
        ("{headers: {id: 'a,b'}}", "contains a colon"),
        ("{headers: {type: id}}", "it already carries the event's id"),
        ("{headers: {type: sequence}}", "it already carries"),
        ("{format: cloudevents-binary, headers: {type: x}}", "sets the header names"),
    ],
)
def test_a_header_that_an_attribute_cannot_have_is_refused_with_its_line(outbox: str, message: str) -> None:
    [finding] = findings(f"{MINIMAL}outbox: {outbox}\n")
    assert message in finding
    assert "outbox.headers: error SP107" in finding


def test_the_topics_prefix_is_the_pipelines_name_unless_it_is_given() -> None:
    assert parse_spec(MINIMAL).topic_prefix == "orders"
    assert parse_spec(f"{MINIMAL}topic_prefix: app\n").topic_prefix == "app"
