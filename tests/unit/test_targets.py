"""One pipeline, several places; what a place cannot take is refused, and no secret is written into a file."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import ValidationError

from cdc_outbox import ConfigError
from cdc_outbox.cli import cli
from cdc_outbox.contract.topics import HEARTBEATS, Topic
from cdc_outbox.debezium.render import render, topics_of
from cdc_outbox.debezium.render.targets import TARGETS, Pipeline, RenderedOption, chosen, pipeline_of
from cdc_outbox.debezium.render.targets.strimzi import TO_FILL_IN
from cdc_outbox.spec import Spec, parse_spec
from tests.support.specs import MINIMAL, MONGODB, ORDERS
from tests.support.strimzi import SPECS, check

MARIADB = MINIMAL.replace("kind: postgresql", "kind: mariadb")
PLACE = {"connect": "my-connect", "kafka": "my-cluster", "namespace": "kafka"}


def written(spec: Spec | Pipeline, **settings: str) -> list[dict[str, Any]]:
    """Return the resources, each of which the operator takes."""
    pipeline = pipeline_of(spec) if isinstance(spec, Spec) else spec
    resources = list(yaml.safe_load_all(TARGETS["strimzi"].render(pipeline, PLACE | settings)))
    for resource in resources:
        if resource["kind"] in SPECS:
            check(resource)
    return resources


def of_kind(resources: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [resource for resource in resources if resource["kind"] == kind]


def spec_of(text: str) -> Spec:
    return parse_spec(text, name="x.yaml")


@pytest.mark.parametrize("text", [MINIMAL, MARIADB, MONGODB, ORDERS.read_text()])
def test_kafka_connect_gets_what_is_deployed(text: str) -> None:
    spec = spec_of(text)
    assert json.loads(TARGETS["kafka-connect"].render(pipeline_of(spec), {})) == render(spec)


@pytest.mark.parametrize("text", [MINIMAL, MONGODB, ORDERS.read_text()])
def test_strimzi_gets_the_same_options(text: str) -> None:
    spec = spec_of(text)
    [connector] = of_kind(written(spec), "KafkaConnector")
    name, taken = connector["metadata"]["name"], connector["spec"]
    own = {"name": name, "connector.class": taken["class"], "tasks.max": str(taken["tasksMax"])}
    assert own | taken["config"] == render(spec)
    assert connector["metadata"]["labels"] == {"strimzi.io/cluster": "my-connect"}


def test_topics_have_what_connect_would_make_them_with() -> None:
    text = f"{MINIMAL}topics: {{partitions: 6, replication_factor: 3}}\n"
    text += "overrides: {topic.creation.default.retention.ms: 604800000}\n"
    topic = of_kind(written(spec_of(text)), "KafkaTopic")[0]
    assert topic["metadata"]["name"] == "outbox.event.customer"
    assert topic["metadata"]["labels"] == {"strimzi.io/cluster": "my-cluster"}
    assert topic["spec"] == {
        "partitions": 6,
        "replicas": 3,
        "config": {
            "cleanup.policy": "delete",
            "message.timestamp.type": "LogAppendTime",
            "retention.ms": "604800000",
        },
    }


def test_the_brokers_own_number_of_replicas_is_left_to_the_broker() -> None:
    topics = of_kind(written(spec_of(MINIMAL)), "KafkaTopic")
    assert [topic["spec"].get("replicas") for topic in topics] == [None, None, None]


def test_heartbeats_and_history_get_topics_too_where_no_broker_makes_any() -> None:
    text = f"{MARIADB}topics: {{partitions: 6, replication_factor: 3, retention: 2d}}\n"
    spec = spec_of(f"{text}history: {{bootstrap_servers: 'kafka:9092', topic: Schema_of.orders}}\n")
    written_as = {
        topic["spec"].get("topicName", topic["metadata"]["name"]): topic["spec"]
        for topic in of_kind(written(spec), "KafkaTopic")
    }
    events, heartbeats, history = "outbox.event.customer", f"{HEARTBEATS}.orders", "Schema_of.orders"
    assert {name: (spec["partitions"], spec["replicas"]) for name, spec in written_as.items()} == {
        events: (6, 3), heartbeats: (1, 3), history: (1, 3)
    }  # fmt: skip
    assert written_as[heartbeats]["config"] == {"cleanup.policy": "delete"}
    kept = written_as[history]["config"]
    assert (kept["cleanup.policy"], kept["retention.ms"], kept["retention.bytes"]) == ("delete", "-1", "-1")


@pytest.mark.parametrize("text", [MINIMAL, MONGODB, ORDERS.read_text()])
def test_topics_that_are_rendered_are_those_that_the_command_creates(text: str) -> None:
    spec = spec_of(text)
    topics = of_kind(written(spec), "KafkaTopic")
    assert [topic["spec"].get("topicName", topic["metadata"]["name"]) for topic in topics] == [
        topic.name for topic in topics_of(spec)
    ]


@given(names=st.sets(st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True), min_size=1, max_size=5))
def test_each_topic_is_a_resource_of_its_own_whose_name_kubernetes_takes(names: set[str]) -> None:
    topics = tuple(Topic(name=name, partitions=3) for name in sorted(names))
    pipeline = Pipeline(name="orders", connector_class="x", tasks=1, options=(), topics=topics)
    found = of_kind(written(pipeline), "KafkaTopic")
    resources = [topic["metadata"]["name"] for topic in found]
    assert len(set(resources)) == len(names)
    label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    assert all(re.fullmatch(rf"{label}(\.{label})*", name) and len(name) <= 253 for name in resources)
    assert {topic["spec"].get("topicName", topic["metadata"]["name"]) for topic in found} == names


@given(value=st.one_of(st.from_regex(r"[0-9eoxOX+_.:~-]{1,8}", fullmatch=True), st.text(min_size=1)))
def test_every_value_stays_the_text_that_it_is(value: str) -> None:
    pipeline = Pipeline(name="orders", connector_class="x", tasks=1, options=(RenderedOption("o", value),), topics=())
    text = TARGETS["strimzi"].render(pipeline, PLACE)
    [connector] = yaml.safe_load_all(text)
    assert connector["spec"]["config"] == {"o": value}
    assert '  config:\n    o: "' in text  # which no reader of YAML takes for a number


@pytest.mark.parametrize(
    ("kind", "place", "value"),
    [
        ("KafkaTopic", ("spec", "partition"), 3),
        ("KafkaTopic", ("spec", "partitions"), 0),
        ("KafkaTopic", ("spec", "config", "retention.ms"), 604800000),
        ("KafkaTopic", ("metadata", "name"), "__debezium-heartbeat.orders"),
        ("KafkaConnector", ("apiVersion",), "kafka.strimzi.io/v1beta2"),
        ("KafkaConnector", ("metadata", "label"), {}),
        ("KafkaConnector", ("spec", "pause"), False),
        ("KafkaConnector", ("spec", "config", "tasks.max"), "1"),
        ("KafkaConnector", ("status",), {}),
    ],
)
def test_what_the_operator_would_not_take_is_seen_here(kind: str, place: tuple[str, ...], value: object) -> None:
    resource = of_kind(written(spec_of(MINIMAL)), kind)[0]
    *path, field = place
    inner = resource
    for step in path:
        inner = inner[step]
    inner[field] = value
    with pytest.raises(ValidationError):
        check(resource)


def test_a_secret_is_named_and_not_written() -> None:
    resources = written(spec_of(MINIMAL))
    assert [resource["kind"] for resource in resources] == [
        "Secret",
        "KafkaConnector",
        "KafkaTopic",
        "KafkaTopic",
        "KafkaTopic",
    ]
    assert resources[0]["metadata"]["annotations"] == {TO_FILL_IN: "PASSWORD"}
    assert resources[0].keys().isdisjoint({"data", "stringData"})  # else it would overwrite what was filled in
    assert resources[1]["spec"]["config"]["database.password"] == "${env:PASSWORD}"


def test_a_worker_that_reads_secrets_by_itself_is_allowed_to() -> None:
    resources = written(spec_of(MINIMAL), secrets="secrets")
    secret, role, binding, connector, *_topics = resources
    assert connector["spec"]["config"]["database.password"] == "${secrets:kafka/orders-secrets:PASSWORD}"
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": [secret["metadata"]["name"]], "verbs": ["get"]}
    ]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "my-connect-connect", "namespace": "kafka"}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]


def test_what_is_no_secret_stays_a_variable_of_the_worker() -> None:
    [connector] = of_kind(written(spec_of(ORDERS.read_text()), secrets="secrets"), "KafkaConnector")
    assert connector["spec"]["config"]["database.hostname"] == "${env:POSTGRES_HOST}"


@pytest.mark.parametrize("target", sorted(TARGETS))
@pytest.mark.parametrize(
    "override", ["value.converter.basic.auth.user.info: user:hunter2", "some.url: https://user:hunter2@registry"]
)
def test_a_secret_that_stands_there_itself_is_written_nowhere(target: str, override: str, tmp_path: Path) -> None:
    path = tmp_path / "orders.yaml"
    path.write_text(f'{MINIMAL}overrides:\n  {override.replace(": ", ": {0}", 1).format(chr(34))}"\n')
    found = CliRunner().invoke(cli, ["render", str(path), "--target", target])
    assert isinstance(found.exception, ConfigError)
    assert "hunter2" not in f"{found.output} {found.exception} {found.exception.hint}"


@pytest.mark.parametrize(
    ("text", "settings", "reason"),
    [
        (MINIMAL.replace("name: orders\n", "name: Orders_1\n", 1), PLACE, "is not a valid resource name"),
        (MINIMAL, {"kafka": "my-cluster"}, "must name the KafkaConnect that runs it"),
        (MINIMAL, {"connect": "my-connect", "secrets": "secrets"}, "contain its namespace"),
        (MINIMAL, {"connect": "my-connect", "secrets": "vault"}, "secrets must be env or secrets"),
        (MINIMAL, {"connect": "My Connect"}, "connect must be a valid resource name"),
        (MARIADB, PLACE, "which Strimzi's image does not"),
    ],
)
def test_what_strimzi_cannot_express_is_refused_with_the_reason(
    text: str, settings: dict[str, str], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        TARGETS["strimzi"].render(pipeline_of(spec_of(text)), settings)


def test_what_is_not_known_is_refused_with_what_is() -> None:
    with pytest.raises(ConfigError) as caught:
        chosen(TARGETS, "strimsi", {})
    assert caught.value.hint == "Did you mean 'strimzi'? Targets: kafka-connect, strimzi."
    with pytest.raises(ConfigError) as caught:
        chosen(TARGETS, "strimzi", {"conect": "x"})
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("Did you mean 'connect'? Its settings: connect, kafka")


def test_a_plugins_version_stands_where_strimzi_has_it() -> None:
    options = (RenderedOption("connector.plugin.version", "3.6.3.Final"),)
    [connector] = written(Pipeline(name="orders", connector_class="x", tasks=1, options=options, topics=()))
    assert connector["spec"] == {"class": "x", "tasksMax": 1, "version": "3.6.3.Final", "config": {}}
