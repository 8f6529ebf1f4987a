"""Every form in which people keep configurations is read, and every bad one is a finding with its line."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from cdc_outbox.cli import cli
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config_texts import find_in_text
from cdc_outbox.debezium.lint import lint, lint_all
from cdc_outbox.debezium.lint.fixes import fix
from cdc_outbox.finding import Finding
from cdc_outbox.text_files.yaml_text import read_yaml
from tests.support.configs import CLEAN, D5
from tests.support.specs import MINIMAL

FLAT = CLEAN[DatabaseKind.POSTGRESQL]
BROKEN = {**FLAT, "errors.tolerance": "all"}
UNNAMED = {option: value for option, value in BROKEN.items() if option != "name"}


def lint_text(text: str, name: str = "x.json") -> list[Finding]:
    configs, refused = find_in_text(text, name=name)
    return [*refused, *lint_all(configs)]


def test_the_configuration_that_everybody_copies_has_its_known_defects() -> None:
    found = {(finding.code, finding.location.path, finding.location.line) for finding in lint_text(D5)}
    assert found >= {
        ("CC102", "database.server.name", 10),
        ("CC302", "transforms.outbox.table.field.event.type", 16),
        ("CC602", "slot.name", 3),
        ("CC604", "publication.name", 3),
        ("CC607", "heartbeat.interval.ms", 3),
        ("CC401", "value.converter", 3),
        ("CC402", "key.converter", 3),
        ("CC601", "plugin.name", 3),
    }


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (BROKEN, ["orders"]),
        ({"name": "x", "config": UNNAMED}, ["x"]),
        ({"name": "x", "config": UNNAMED, "tasks": [{"connector": "x", "task": 0}], "type": "source"}, ["x"]),
        ([{"name": "x", "config": UNNAMED}, BROKEN], ["x", "orders"]),
        ({"x": {"info": {"name": "x", "config": UNNAMED}, "status": {}}}, ["x"]),
        (
            {
                "apiVersion": "kafka.strimzi.io/v1beta2",
                "kind": "KafkaConnector",
                "metadata": {"name": "x"},
                "spec": {
                    "class": FLAT["connector.class"],
                    "tasksMax": 1,
                    "config": {
                        option: value
                        for option, value in BROKEN.items()
                        if option not in {"name", "connector.class", "tasks.max"}
                    },
                },
            },
            ["x"],
        ),
    ],
)
@pytest.mark.parametrize("form", ["x.json", "x.yaml", "-"])
def test_a_configuration_is_found_in_every_form(content: Any, names: list[str], form: str) -> None:
    text = json.dumps(content, indent=1)
    # Through JSON, or YAML would write what occurs twice as an alias.
    text = yaml.safe_dump(json.loads(text), sort_keys=False) if form == "x.yaml" else text
    configs, refused = find_in_text(text, name=form)
    assert refused == []
    assert [config.name for config in configs] == names
    lines = [number for number, line in enumerate(text.splitlines(), 1) if "errors.tolerance" in line]
    found = [finding for config in configs for finding in lint(config)]
    assert [(finding.code, finding.location.line) for finding in found] == [("CC201", line) for line in lines]


RESOURCE = {
    "apiVersion": "kafka.strimzi.io/v1",
    "kind": "KafkaConnector",
    "metadata": {"name": "x"},
    "spec": {
        "class": FLAT["connector.class"],
        "tasksMax": 1,
        "config": {option: value for option, value in BROKEN.items() if option not in {"name", "connector.class"}},
    },
}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x-secrets"}}


def as_yaml(*documents: object) -> str:
    # Through JSON, or YAML would write what occurs twice as an alias.
    return yaml.safe_dump_all(json.loads(json.dumps(documents)), sort_keys=False, explicit_start=True)


@pytest.mark.parametrize(
    "text",
    [
        as_yaml(SECRET, RESOURCE),
        f"# Source: chart\n---\n{as_yaml(RESOURCE, SECRET)}---\n---\n# the end\n",
        as_yaml({"apiVersion": "v1", "kind": "List", "items": [SECRET, RESOURCE]}),
        json.dumps({"apiVersion": "v1", "kind": "KafkaConnectorList", "items": [RESOURCE]}, indent=1),
    ],
)
def test_a_connector_is_found_among_resources_of_kubernetes(text: str) -> None:
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "errors.tolerance" in line)
    for name in ("-", "x.yaml"):
        [config], refused = find_in_text(text, name=name)
        assert (config.name, refused) == ("x", [])
        assert [(finding.code, finding.location.line) for finding in lint(config)] == [("CC201", line)]


def test_connectors_in_several_documents_are_compared_with_each_other() -> None:
    codes = {finding.code for finding in lint_text(as_yaml(RESOURCE, {**RESOURCE, "metadata": {"name": "y"}}), "-")}
    assert "CC901" in codes


def test_a_connector_in_one_of_several_documents_is_fixed_in_its_place() -> None:
    old = {**RESOURCE, "spec": {"class": FLAT["connector.class"], "config": {**BROKEN, "database.server.name": "x"}}}
    text = as_yaml(SECRET, old, SECRET)
    rewritten, done = fix(text, name="x.yaml")
    assert [fixed.code for fixed in done] == ["CC103"]
    assert rewritten == "".join(line for line in text.splitlines(keepends=True) if "database.server.name" not in line)


def test_what_render_writes_for_strimzi_is_read_and_clean(tmp_path: Path) -> None:
    spec = tmp_path / "orders.yaml"
    spec.write_text(f"{MINIMAL}topics: {{name: events, partitions: 3}}\n")
    settings = (
        "--target-option",
        "connect=c",
        "--target-option",
        "kafka=k",
        "--target-option",
        "secrets=secrets",
        "--target-option",
        "namespace=n",
    )
    rendered = CliRunner().invoke(cli, ["render", str(spec), "--target", "strimzi", *settings])
    assert rendered.output.count("\n---\n") > 3, rendered.output
    linted = CliRunner().invoke(cli, ["lint", "--strict", "-"], input=rendered.output)
    assert (linted.exit_code, "error" in linted.output, "warning" in linted.output) == (0, False, False), linted.output


def test_a_spec_is_one_document() -> None:
    [finding] = read_yaml(f"{MINIMAL}---\n{MINIMAL}", name="x.yaml").findings
    assert (finding.code, finding.location.line) == ("SP001", 12)
    assert "several documents" in finding.message


def test_numbers_truths_and_nulls_are_what_connect_makes_of_them() -> None:
    typed = {**FLAT, "tasks.max": 1, "tombstones.on.delete": False, "heartbeat.interval.ms": 10000, "x": None}
    for text in (json.dumps(typed), yaml.safe_dump(typed)):
        [config], _ = find_in_text(text, name="-")
        assert (config.options["tasks.max"], config.options["tombstones.on.delete"]) == ("1", "false")
        assert "x" not in config.options
        assert lint(config) == ()


@pytest.mark.parametrize(
    ("text", "name", "code", "line"),
    [
        ('{"a": 1,\n"a": 2}', "x.json", "CC002", 2),
        ("\x00", "x.json", "CC002", 1),
        ("{\n", "-", "CC002", 2),
        ("[]", "x.json", "CC003", 1),
        ('{"name": "x"}', "x.json", "CC003", 1),
        ('"x"', "x.json", "CC003", 1),
        ("apiVersion: v1\nkind: ConfigMap\n", "x.yaml", "CC003", 1),
        ('{"connector.class": "x",\n"transforms": ["a"]}', "x.json", "CC004", 2),
        ("a: &a [*a]\n", "x.yaml", "SP001", 1),
        ("name: x\nname: y\n", "x.yaml", "SP001", 2),
        ("\tname: x", "x.yaml", "SP001", 1),
        ("name: x\nb: \x07", "x.yaml", "SP001", 2),
        ("name: x\nb: 2020-13-45", "x.yaml", "SP001", 2),
        (f"name: x\nb: {'1' * 5_000}", "x.yaml", "SP001", 2),
        ("name: x\nb: !!bool maybe", "x.yaml", "SP001", 2),
        ("name: x\nb: !!timestamp x", "x.yaml", "SP001", 2),
        ('name: x\nb: !!int ""', "x.yaml", "SP001", 2),
        ('name: x\nb: !!binary "é"', "x.yaml", "SP001", 2),
        ("name: x\nb: !!python/object:os.system x", "x.yaml", "SP001", 2),
        ('name: x\n"a\\ud800": 1\n', "x.yaml", "SP001", 2),
        (MINIMAL.replace("localhost", '"\\udc00"'), "x.yaml", "SP001", 5),
        (f"{MINIMAL}nme: x\n", "x.yaml", "SP101", 11),
        (MINIMAL.replace("name: orders\n", "name: 7\n", 1), "x.yaml", "SP103", 2),
        (MINIMAL.replace("${env:PASSWORD}", "hunter2"), "x.yaml", "SP105", 8),
        (f"{MINIMAL}overrides:\n  errors.tolerance: all\n", "x.yaml", "SP106", 12),
        (f"{MINIMAL}overrides:\n  database.sslpassword: hunter2\n", "x.yaml", "SP105", 12),
        (MINIMAL.replace("host:", f"slot: {'x' * 64}\n  host:"), "x.yaml", "SP104", 5),
        ("version: 1\nname: x\ndatabase:\n  kind: sqlite\naggregates: {order: {}}\n", "x.yaml", "SP108", 4),
    ],
)
def test_what_cannot_be_linted_is_one_finding_with_its_line(text: str, name: str, code: str, line: int) -> None:
    found = [finding for finding in lint_text(text, name) if finding.code != "CC224"]
    assert [(finding.code, finding.location.line) for finding in found] == [(code, line)]
    assert "hunter2" not in str(found[0])
    assert not re.search(r"Error|codec|constructor", found[0].message)


TERRAFORM = 'resource "kafka-connect_connector" "x" {\n  config = {\n    "connector.class" = "x"\n  }\n}\n'
SCRIPT = "#!/bin/sh\ncurl -X POST -H \"Content-Type: application/json\" localhost:8083/connectors -d '{}'\n"
HELM = "kind: KafkaConnector\nmetadata:\n  name: {{ .Values.name }}\n"


@pytest.mark.parametrize(
    ("text", "name", "remedy"),
    [
        (TERRAFORM, "main.tf", "JSON or properties"),
        (SCRIPT, "register.sh", "JSON or properties"),
        (SCRIPT, "stdin", "JSON or properties"),
        ("FROM debezium/connect\nRUN true\n", "Dockerfile", "JSON or properties"),
        ("services:\n  connect: {image: x}\n", "compose.yaml", "JSON or properties"),
        ("- a\n", "x.yaml", "JSON or properties"),
        ("", "x.yaml", "JSON or properties"),
        (HELM, "connector.yaml", "helm template"),
        ("{{- if .Values.x }}\n" + HELM, "connector.yaml", "helm template"),
        ("{{- if .Values.x }}\n" + HELM, "connector.tpl", "helm template"),
    ],
)
def test_of_another_kind_of_file_is_said_what_is_read(text: str, name: str, remedy: str) -> None:
    [finding] = lint_text(text, name)
    assert remedy in finding.remedy


def test_two_megabytes_are_one_finding_each() -> None:
    for name, code in (("x.json", "CC002"), ("x.yaml", "SP001")):
        [finding] = lint_text("x" * 2_000_000, name)
        assert finding.code == code


MODES = ["keep", "delete", "message"]
FORMATS = ["plain", "cloudevents-binary", "cloudevents-structured"]


@pytest.mark.parametrize("latency", ["low", "balanced", "economy"])
@pytest.mark.parametrize("outbox", [f"{{mode: {mode}, format: {form}}}" for mode in MODES for form in FORMATS])
def test_what_is_rendered_from_a_spec_is_clean(outbox: str, latency: str) -> None:
    text = f"{MINIMAL}outbox: {outbox}\nlatency: {latency}\ntopics: {{name: events, partitions: 3}}\n"
    found = lint_text(text, "x.yaml")
    assert [finding.code for finding in found] in ([], ["CC314"])


@pytest.mark.parametrize("latency", ["low", "balanced", "economy"])
@pytest.mark.parametrize("outbox", [f"{{mode: {mode}, format: {form}}}" for mode in MODES[:2] for form in FORMATS])
@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_what_is_rendered_for_a_binlog_is_clean(kind: str, outbox: str, latency: str) -> None:
    text = f"{MINIMAL}outbox: {outbox}\nlatency: {latency}\n".replace("postgresql", kind)
    assert lint_text(text, "x.yaml") == []


@pytest.mark.parametrize(
    ("kind", "more", "codes"),
    [
        ("sqlserver", "", []),
        ("sqlserver", ", format: cloudevents-binary", []),
        ("sqlserver", ", table: 'a+b$', columns: {payload: Body}", []),
        ("sqlserver", ", columns: {created_at: null}", ["CC335"]),
        ("oracle", "", []),
        ("oracle", ", table: 'A+B$', columns: {payload: BODY}", []),
        ("oracle", ", columns: {payload: body}", ["CC331"]),
        ("oracle", ", columns: {created_at: null}", ["CC335"]),
    ],
)
def test_what_is_rendered_for_a_table_that_others_make_is_clean(kind: str, more: str, codes: list[str]) -> None:
    found = lint_text(f"{MINIMAL}outbox: {{schema: APP{more}}}\n".replace("postgresql", kind), "x.yaml")
    assert [finding.code for finding in found] == codes


def test_two_pipelines_of_a_binlog_share_nothing_unless_they_say_so() -> None:
    def found(more: str) -> list[tuple[str, int | None]]:
        texts = [MINIMAL.replace("postgresql", f"mariadb{more}").replace("orders", name) for name in ("a", "b")]
        configs = [config for text in texts for config in find_in_text(text, name="x.yaml")[0]]
        return [(finding.code, finding.location.line) for finding in lint_all(configs)]

    assert found("") == []
    assert found("\n  server_id: 7") == [("CC903", 5)]


def test_what_is_wrong_for_a_binlog_is_told_in_the_spec() -> None:
    text = f"{MINIMAL}history: {{topic: orders}}\noverrides:\n  snapshot.fetch.sise: 3\n"
    # That the history is in a topic that no changes of the schema go to is fine.
    [finding] = lint_text(text.replace("postgresql", "mariadb"), "x.yaml")
    found = (finding.code, finding.location.path, finding.location.line)
    assert found == ("CC101", "overrides.snapshot.fetch.sise", 13)


@pytest.mark.parametrize("table", ["outbox", "out.box", "out,box", "Größe (neu)", "a+b$", 'with "quotes"', "x" * 63])
def test_a_table_of_any_name_is_rendered_clean(table: str) -> None:
    text = f"{MINIMAL}outbox: {{schema: 'my schema', table: {json.dumps(table)}}}\n"
    assert lint_text(text, "x.yaml") == []


@pytest.mark.parametrize(
    ("more", "code", "path", "line"),
    [
        ("overrides:\n  poll.interval.ms: 20\n  max.batch.size: 9000\n", "CC108", "overrides.max.batch.size", 13),
        ("overrides:\n  status.update.interval.ms: 90000\n", "CC614", "overrides.status.update.interval.ms", 12),
        ("topics:\n  partitions: 1\n", "CC257", "topics.partitions", 12),
        (
            "overrides:\n  tombstons.on.delete: x\n  database.server.name: y\n",
            "CC103",
            "overrides.database.server.name",
            13,
        ),
    ],
)
def test_a_finding_in_a_spec_points_into_the_spec(more: str, code: str, path: str, line: int) -> None:
    found = [finding for finding in lint_text(MINIMAL + more, "x.yaml") if finding.code == code]
    assert [(finding.location.path, finding.location.line) for finding in found] == [(path, line)]


def test_every_override_that_breaks_a_promise_is_found_at_once() -> None:
    text = f"{MINIMAL}overrides:\n  errors.tolerance: all\n  slot.name: x\n  tasks.max: 2\n"
    assert [(finding.code, finding.location.line) for finding in lint_text(text, "x.yaml")] == [
        ("SP106", 12),
        ("SP106", 13),
        ("SP106", 14),
    ]
