"""A configuration becomes a spec that becomes the same by meaning, and nothing differs without a word."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, reject
from hypothesis import strategies as st

from cdc_outbox.databases.database import CAPTURED, DatabaseKind
from cdc_outbox.debezium.adopt import Adopted, adopt
from cdc_outbox.debezium.config_texts import find_in_text
from cdc_outbox.debezium.lint import RULES, Config
from cdc_outbox.debezium.lint.fixes import fix
from cdc_outbox.debezium.normalized_config import NormalizedConfig, differences
from cdc_outbox.debezium.render import LATENCIES
from cdc_outbox.debezium.render.spec_config import rendered_config
from cdc_outbox.errors import ConfigError
from cdc_outbox.event import SequenceMode
from cdc_outbox.finding import Severity
from cdc_outbox.spec import Latency, Spec, parse_spec
from cdc_outbox.text_files.document import Document
from tests.support.configs import CLEAN, D5, JSON, changed, config_of
from tests.support.foreign_connector import FOREIGN, FOREIGN_SPEC, SECRET
from tests.support.specs import MINIMAL

PUBLIC = Path(__file__).parents[1] / "data" / "public"
OUTBOXES = ["postgresql-outbox", "postgresql-outbox-bytes", "postgresql-outbox-text"]


def adopted_from(config: Config, **aggregates: SequenceMode) -> Adopted:
    """Adopt a configuration, and hold that nothing of it is lost without a word."""
    adopted = adopt(config, aggregates, made_from="orders.json")
    after = rendered_config(adopted.spec)
    told = {finding.location.path for finding in adopted.findings if finding.code not in {"CC951", "CC956"}}
    assert told == {difference.option for difference in differences(config, after)}
    idle = {finding.location.path for finding in adopted.findings if finding.code == "CC951"}
    assert idle == {*NormalizedConfig(config).idle} - after.options.keys()
    # By the rules: lint itself folds notes about defaults into one.
    before, now = ({rule.code for rule in RULES if any(rule.findings(each))} for each in (config, after))
    assert now <= before
    assert parse_spec(adopted.text) == adopted.spec
    return adopted


def codes(adopted: Adopted, severity: Severity) -> set[str]:
    return {finding.location.path for finding in adopted.findings if finding.severity is severity}


def test_a_teams_own_configuration_becomes_a_spec_with_its_names() -> None:
    adopted = adopted_from(config_of(FOREIGN), order=SequenceMode.NONE)
    assert adopted.text == FOREIGN_SPEC
    assert adopted.is_same
    assert {finding.severity for finding in adopted.findings} == {Severity.NOTE}


def test_a_name_whose_case_did_not_count_has_a_comment() -> None:
    text = adopted_from(config_of({**FOREIGN, "table.include.list": "sales.Domain_Events"})).text
    assert "  table: Domain_Events  # case-sensitive here" in text
    text = adopted_from(config_of(changed(DatabaseKind.POSTGRESQL, {"table.include.list": r"public\.Outbox"}))).text
    assert "case-sensitive" not in text


def test_a_file_may_be_called_anything() -> None:
    text = adopt(config_of(FOREIGN), {}, made_from="a\ufffe\x07\u2028b").text
    assert text.startswith("# Made by `cdc-outbox adopt` from a???b.\n")


def test_a_spec_of_earlier_names_has_todays() -> None:
    older = {option: value for option, value in FOREIGN.items() if option not in {"topic.prefix", "table.include.list"}}
    older |= {"database.server.name": "shop", "table.whitelist": "sales.domain_events", "snapshot.mode": "never"}
    assert adopted_from(config_of(older), order=SequenceMode.NONE).text == FOREIGN_SPEC


def test_without_aggregates_the_spec_has_one_and_says_so() -> None:
    adopted = adopted_from(config_of(FOREIGN))
    assert set(adopted.spec.contract.aggregates) == {"orders-connector"}
    assert adopted.is_same
    assert "CC956" in {finding.code for finding in adopted.findings}


@pytest.mark.parametrize(
    ("change", "told", "severity"),
    [
        ({"errors.tolerance": "all"}, "errors.tolerance", Severity.WARNING),
        ({"value.converter": JSON}, "value.converter", Severity.ERROR),
        ({"key.converter": None}, "key.converter", Severity.WARNING),
        ({"plugin.name": None}, "plugin.name", Severity.ERROR),
        ({"slot.name": "Ä"}, "slot.name", Severity.ERROR),
        ({"name": "the connector"}, "name", Severity.ERROR),
        ({"snapshot.mode": "always"}, "snapshot.mode", Severity.WARNING),
        ({"snapshot.mode": "initial"}, "snapshot.mode", Severity.NOTE),
        ({"skipped.operations": "c"}, "skipped.operations", Severity.ERROR),
        ({"table.include.list": None}, "table.include.list", Severity.ERROR),
        ({"table.include.list": "sales.domain_events,sales.orders"}, "table.include.list", Severity.ERROR),
        ({"transforms.events.route.topic.regex": "(.*)s"}, "transforms.events.route.topic.regex", Severity.ERROR),
        (
            {"transforms.events.table.expand.json.payload": "true"},  # which a text cannot carry
            "value.converter",
            Severity.ERROR,
        ),
        (
            {"transforms.events.table.fields.additional.placement": "kind:envelope"},
            "transforms.events.table.fields.additional.placement",
            Severity.ERROR,
        ),
        (
            {"transforms": "events,mask", "transforms.mask.type": "io.debezium.transforms.Filter"},
            "transforms",
            Severity.ERROR,
        ),
        ({"no.such.option": "1"}, "no.such.option", Severity.NOTE),
        ({"database.hostname": None}, "database.hostname", Severity.ERROR),
        ({"topic.creation.default.partitions": "x"}, "topic.creation.default.partitions", Severity.WARNING),
    ],
)
def test_what_a_spec_cannot_say_is_told_with_what_it_means(
    change: Mapping[str, str | None], told: str, severity: Severity
) -> None:
    options = {option: value for option, value in {**FOREIGN, **change}.items() if value is not None}
    adopted = adopted_from(config_of(options))
    [finding] = [finding for finding in adopted.findings if finding.location.path == told]
    assert finding.severity is severity
    assert adopted.is_same == (severity is Severity.NOTE)
    assert finding.location.line is not None


@pytest.mark.parametrize(
    ("change", "told", "message"),
    [
        (
            {"transforms.events.table.expand.json.payload": "true", "value.converter": JSON},
            "transforms.events.route.tombstone.on.empty.payload",
            "becomes true",
        ),
        (
            {"transforms.events.route.tombstone.on.empty.payload": "true"},
            "transforms.events.route.tombstone.on.empty.payload",
            "an empty payload stays empty",
        ),
        (
            {"transforms.events.table.fields.additional.placement": "kind:header:eventType,kind:header:eventType"},
            "transforms.events.table.fields.additional.placement",
            "a column is placed twice",
        ),
    ],
)
def test_a_difference_is_told_in_the_direction_that_it_has(change: Mapping[str, str], told: str, message: str) -> None:
    adopted = adopted_from(config_of({**FOREIGN, **change}))
    [finding] = [finding for finding in adopted.findings if finding.location.path == told]
    assert message in finding.message


def test_secrets_become_references_and_are_printed_nowhere() -> None:
    jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="x" password="{SECRET}";'
    secrets = {
        "database.password": SECRET,
        "producer.override.sasl.jaas.config": jaas,
        "database.sslpassword": SECRET,
        "value.converter": JSON,
        "value.converter.basic.auth.user.info": f"x:{SECRET}",
        "an.unknown.token": SECRET,
    }
    adopted = adopted_from(config_of({**FOREIGN, **secrets}))
    assert SECRET not in adopted.text
    assert SECRET not in "".join(map(str, adopted.findings))
    assert adopted.spec.database.password == "${env:ORDERS_CONNECTOR_DATABASE_PASSWORD}"
    jaas_reference = "${env:ORDERS_CONNECTOR_PRODUCER_OVERRIDE_SASL_JAAS_CONFIG}"
    assert adopted.spec.overrides["producer.override.sasl.jaas.config"] == jaas_reference
    hidden = {finding.location.path for finding in adopted.findings if finding.code == "CC955"}
    assert hidden == {"database.password", "producer.override.sasl.jaas.config", "database.sslpassword"}


@pytest.mark.parametrize("name", [*OUTBOXES, "d5"])
def test_what_others_run_is_adopted_once_it_is_mended(name: str) -> None:
    text = D5 if name == "d5" else (PUBLIC / f"{name}.json").read_text()
    rewritten, _ = fix(text, name="x.json")
    [config], _ = find_in_text(rewritten, name="x.json")
    adopted = adopted_from(config)
    expected: dict[str, tuple[set[str], set[str]]] = {
        "postgresql-outbox": ({"key.converter", "value.converter"}, set()),
        "postgresql-outbox-text": (set(), set()),
        "postgresql-outbox-bytes": (set(), {"transforms.outbox.table.field.event.key"}),
        "d5": ({"key.converter", "value.converter"}, set()),
    }
    assert (codes(adopted, Severity.WARNING), codes(adopted, Severity.ERROR)) == expected[name]


@pytest.mark.parametrize("path", sorted(PUBLIC.glob("*.json")), ids=lambda path: path.stem)
def test_what_is_no_outboxs_is_refused(path: Path) -> None:
    [config], _ = find_in_text(path.read_text(), name=path.name)
    if path.stem in OUTBOXES:
        adopted_from(config)
        return
    with pytest.raises(ConfigError) as caught:
        adopt(config, {}, made_from=path.name)
    [finding] = caught.value.findings
    assert (finding.code, finding.severity) == ("CC957", Severity.ERROR)


def test_a_password_in_a_connection_string_is_hidden_with_it() -> None:
    change = {"mongodb.connection.string": f"mongodb://me:{SECRET}@a,b/?replicaSet=rs0"}
    adopted = adopted_from(config_of(changed(DatabaseKind.MONGODB, change)))
    assert SECRET not in adopted.text + "".join(map(str, adopted.findings))
    assert adopted.spec.database.connection_string == "${env:ORDERS_MONGODB_CONNECTION_STRING}"


def test_a_sink_is_refused() -> None:
    sink = {"name": "x", "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector"}
    with pytest.raises(ConfigError) as caught:
        adopt(config_of(sink), {}, made_from="x")
    assert [finding.code for finding in caught.value.findings] == ["CC957"]


def test_numbers_for_a_table_without_columns_for_them_are_refused() -> None:
    with pytest.raises(ConfigError):
        adopt(config_of(FOREIGN), {"order": SequenceMode.GAPLESS}, made_from="x")


@pytest.mark.parametrize("kind", CAPTURED)
def test_a_clean_configuration_of_every_kind_is_adopted(kind: DatabaseKind) -> None:
    adopted = adopted_from(config_of(CLEAN[kind]))
    assert codes(adopted, Severity.ERROR) <= {"database.dbname"}
    assert adopted.spec.outbox.name.lower() == "outbox"


def test_the_table_of_several_is_the_one_that_the_router_sees() -> None:
    two = {"table.include.list": r"public\.events,public\.orders"}
    two |= {"predicates.isOutbox.pattern": r"orders\.public\.events"}
    adopted = adopted_from(config_of(changed(DatabaseKind.POSTGRESQL, two)))
    assert adopted.spec.outbox.name == "events"
    assert codes(adopted, Severity.ERROR) == {"table.include.list", "transforms.outbox.predicate"}


_NAMES = st.sampled_from(["a", "B", "event_id", "Topic", "n0", "payload", "type", "id", "Grün"])
_TOPICS = st.sampled_from(["outbox.event.{aggregate_type}", "{aggregate_type}.events", "all", "x.{aggregate_type}.y"])
_KINDS = ["postgresql", "mariadb", "mysql", "sqlserver", "oracle", "mongodb"]
_OVERRIDES = {
    "max.batch.size": "512",
    "poll.interval.ms": "7",
    "heartbeat.interval.ms": "5000",
    "extended.headers.enabled": "true",
    "producer.override.linger.ms": "5",
    "database.sslmode": "require",
    "topic.creation.default.retention.ms": "1000",
    "producer.override.sasl.jaas.config": "${env:JAAS}",
}


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """Any spec that a connector can be rendered of."""
    kind = draw(st.sampled_from(_KINDS))
    content: dict[str, Any] = yaml.safe_load(MINIMAL)
    content["database"] |= {"kind": kind} | draw(st.sampled_from([{}, {"pdb": "PDB1"}] if kind == "oracle" else [{}]))
    if kind == "mongodb":
        content["database"]["connection_string"] = f"mongodb://{content['database'].pop('host')},b/?replicaSet=rs0"
    content["name"] = draw(st.sampled_from(["orders", "a.b-c_d", "X" * 100]))
    outbox: dict[str, Any] = {"schema": "APP"} if kind == "oracle" else {}
    content |= draw(st.sampled_from([{}, {"topic_prefix": "app"}, {"topic_prefix": "x.y"}]))
    if draw(st.booleans()):
        outbox["table"] = draw(st.sampled_from(["events", "Out.box", "my-outbox", "Ereignis"]))
    if kind in {"postgresql", "sqlserver"} and draw(st.booleans()):
        outbox["schema"] = draw(st.sampled_from(["sales", "S p"]))
    way = draw(st.sampled_from(["ours", "columns", "format", "message"]))
    if way == "columns":
        roles = ["id", "aggregate_type", "aggregate_id", "type", "payload", "created_at"]
        outbox["columns"] = draw(st.fixed_dictionaries(dict.fromkeys(roles, _NAMES)))
        outbox["columns"] |= draw(st.sampled_from([{}, {"sequence": None, "source": None}, {"created_at": None}]))
        placed = [outbox["columns"][role] for role in ("type", "aggregate_type", "aggregate_id")]
        outbox["headers"] = draw(
            st.dictionaries(st.sampled_from([*placed, "tenant", "More"]), st.sampled_from(["t-id", "kind", None]))
        )
    elif way == "format":
        outbox["format"] = draw(st.sampled_from(["cloudevents-binary", "cloudevents-structured", "envelope"]))
        outbox["payload_type"] = draw(st.sampled_from(["json", "bytes", "expanded"]))
    elif way == "message" and kind == "postgresql":
        outbox["mode"] = "message"
    elif draw(st.booleans()):
        outbox["headers"] = {"tenant": "tenant-id"}
    content["outbox"] = outbox
    content["aggregates"] = {"order": {"sequence": draw(st.sampled_from(["gapless", "none"]))}}
    content["topics"] = draw(
        st.fixed_dictionaries({"name": _TOPICS}, optional={"partitions": st.just(7), "replication_factor": st.just(2)})
    )
    content["latency"] = draw(st.sampled_from(["low", "balanced", "economy"]))
    content["overrides"] = draw(st.dictionaries(st.sampled_from(list(_OVERRIDES)), st.none(), max_size=3))
    content["overrides"] = {option: _OVERRIDES[option] for option in content["overrides"]}
    try:
        return parse_spec(Document(name="x", content=content))
    except ConfigError:
        reject()


@given(specs())
def test_a_rendered_spec_is_adopted_as_one_that_renders_to_the_same(spec: Spec) -> None:
    config = config_of(rendered_config(spec).options)
    adopted = adopted_from(config, **dict(spec.contract.aggregates))
    assert differences(config, rendered_config(adopted.spec)) == ()
    assert adopted.is_same
    again = adopted.spec
    assert (again.name, again.topic_prefix, again.database) == (spec.name, spec.topic_prefix, spec.database)
    assert (again.topics, again.history) == (spec.topics, spec.history)
    assert (again.contract.topic, again.outbox.name) == (spec.contract.topic, spec.outbox.name)
    # One override may make a profile of latency another, or none.
    assert again.overrides.keys() <= spec.overrides.keys() | LATENCIES[Latency.LOW].keys()
    assert again.outbox.payload_type == spec.outbox.payload_type
