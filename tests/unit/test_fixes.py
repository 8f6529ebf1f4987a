"""What has one right answer is fixed in the text; everything else stays as it is written."""

import json
from collections.abc import Callable, Mapping
from difflib import ndiff

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc_outbox.databases.database import CAPTURED, DatabaseKind
from cdc_outbox.debezium.config_texts import find_in_text
from cdc_outbox.debezium.lint import lint_all
from cdc_outbox.debezium.lint.fixes import FIXERS, fix
from fuzz.lint import named_texts
from tests.support.configs import CLEAN, D5, changed
from tests.support.hazards import CASES
from tests.support.lint_case import Case
from tests.support.specs import MINIMAL

FIXABLE = [case for case in CASES if case.code in FIXERS]
FORMS: dict[str, Callable[[Mapping[str, str]], str]] = {
    "indented.json": lambda options: json.dumps(options, indent=4),
    "dense.json": lambda options: json.dumps(options, separators=(",", ":")),
    "body.json": lambda options: json.dumps({"name": "orders", "config": options}, indent="\t").replace("\n", "\r\n"),
    "block.yaml": lambda options: yaml.safe_dump(
        {"name": "orders", "config": dict(options)}, sort_keys=False, width=999
    ),
    "flow.yaml": lambda options: yaml.safe_dump([dict(options)], default_flow_style=True, sort_keys=False),
}


def codes(text: str, name: str) -> list[str]:
    configs, refused = find_in_text(text, name=name)
    return [finding.code for finding in [*refused, *lint_all(configs)]]


def changed_lines(before: str, after: str) -> list[str]:
    return [line for line in ndiff(before.splitlines(), after.splitlines()) if line[:1] in "+-"]


def test_the_configuration_that_everybody_copies_becomes_one_that_works() -> None:
    text, done = fix(D5, name="d5.json")
    assert [(fixed.code, fixed.location.path, fixed.location.line) for fixed in done] == [
        ("CC102", "database.server.name", 10),
        ("CC302", "transforms.outbox.table.field.event.type", 16),
        ("CC601", "plugin.name", 3),
    ]
    assert changed_lines(D5, text) == [
        '+     "plugin.name": "pgoutput",',
        '-     "database.server.name": "app",',
        '+     "topic.prefix": "app",',
        '-     "transforms.outbox.table.field.event.type": "event_type",',
        '+     "transforms.outbox.table.fields.additional.placement": "event_type:header:eventType",',
    ]
    assert not {"CC102", "CC302", "CC601"} & {*codes(text, "d5.json")}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("case", FIXABLE, ids=str)
def test_what_is_fixed_is_not_found_again_and_nothing_else_is(case: Case, form: str) -> None:
    text = FORMS[form](case.config().options)
    before, version = find_in_text(text, name=form, version=case.version)[0], case.version
    rewritten, done = fix(text, name=form, version=version)
    after, refused = find_in_text(rewritten, name=form, version=version)
    assert refused == []
    assert {finding.code for finding in lint_all(after)} <= {finding.code for finding in lint_all(before)}
    left = [finding.code for finding in lint_all(after) if finding.code in {fixed.code for fixed in done}]
    assert left == []
    assert fix(rewritten, name=form, version=version) == (rewritten, [])
    kept = [option for option in before[0].options if option in after[0].options]
    assert [option for option in after[0].options if option in before[0].options] == kept


def test_every_fixer_fixes_one_of_the_hazards() -> None:
    texts = [FORMS["dense.json"](case.config().options) for case in FIXABLE]
    rewritten = {fixed.code for text in [D5, *texts] for fixed in fix(text, name="-")[1]}
    assert rewritten >= FIXERS.keys() - {"CC226", "CC301"}


def test_what_a_transform_has_no_more_is_left_out() -> None:
    unwrap = "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState"
    added = {"transforms.unwrap.type": unwrap, "transforms.unwrap.sanitize.field.names": "true"}
    text = json.dumps({**CLEAN[DatabaseKind.MONGODB], "transforms": "outbox,unwrap", **added})
    rewritten, done = fix(text, name="x.json")
    assert ([fixed.code for fixed in done], "sanitize" in rewritten) == (["CC226"], False)


@pytest.mark.parametrize(
    ("option", "value", "becomes"),
    [
        ("transforms.outbox.debezium.op.invalid.behavior", "error", "transforms.outbox.table.op.invalid.behavior"),
        ("transforms.outbox.table.field.event.payload.id", "a", "transforms.outbox.table.field.event.key"),
    ],
)
def test_an_option_that_the_router_had_under_another_name_is_renamed(option: str, value: str, becomes: str) -> None:
    options = {**CLEAN[DatabaseKind.POSTGRESQL], option: value, "skipped.operations": "t"}
    options.pop(becomes, None)
    rewritten, done = fix(json.dumps(options), name="x.json")
    assert json.loads(rewritten)[becomes] == value
    assert (option in rewritten, done[0].code) == (False, "CC301")


@pytest.mark.parametrize("kind", CAPTURED)
def test_what_is_right_stays_as_it_is(kind: DatabaseKind) -> None:
    for form, written in FORMS.items():
        text = written(CLEAN[kind])
        assert fix(text, name=form) == (text, [])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("slot.name", "debezium"),
        ("plugin.name", "decoderbufs"),
        ("snapshot.mode", "sometimes"),
        ("slot.nam", "x"),
        ("truncate.handling.mode", "skip"),
    ],
)
def test_what_can_be_meant_in_two_ways_is_left(option: str, value: str) -> None:
    options = {**CLEAN[DatabaseKind.POSTGRESQL], option: value}
    if option == "truncate.handling.mode":
        del options["skipped.operations"]
    text = json.dumps(options)
    assert codes(text, "x.json")
    assert fix(text, name="x.json") == (text, [])


def test_a_type_is_placed_beside_what_is_placed_already() -> None:
    text = D5.replace('"id",', '"id",\n    "transforms.outbox.table.fields.additional.placement": "tenant:header",')
    rewritten = json.loads(fix(text, name="x.json")[0])["config"]
    placement = "transforms.outbox.table.fields.additional.placement"
    assert rewritten[placement] == "tenant:header,event_type:header:eventType"
    taken = text.replace('"tenant:header"', '"kind:header:eventType"')
    assert [fixed.code for fixed in fix(taken, name="x.json")[1]] == ["CC102", "CC601"]


def test_what_is_there_and_empty_is_filled() -> None:
    placement = "transforms.outbox.table.fields.additional.placement"
    text = D5.replace('"id",', f'"id",\n    "{placement}": "", "topic.prefix": "",')
    rewritten = json.loads(fix(text, name="x.json")[0])["config"]
    assert (rewritten["topic.prefix"], rewritten[placement]) == ("app", "event_type:header:eventType")
    assert "database.server.name" not in rewritten


def test_comments_and_quotation_marks_of_yaml_stay() -> None:
    text = """\
# ours
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaConnector
metadata: {name: x}
spec:
  class: io.debezium.connector.postgresql.PostgresConnector
  config:
    database.server.name: 'app'   # since 2019
    # the table
    "table.include.list": public\\.outbox
    snapshot.mode: "never"
    slot.name: app
"""
    rewritten, _ = fix(text, name="x.yaml")
    assert changed_lines(text, rewritten) == [
        "-     database.server.name: 'app'   # since 2019",
        "+     topic.prefix: 'app'   # since 2019",
        '-     snapshot.mode: "never"',
        '+     snapshot.mode: "no_data"',
        "+     plugin.name: pgoutput",
    ]


def test_the_overrides_of_a_spec_are_fixed_and_nothing_else_of_it() -> None:
    text = MINIMAL + "overrides:\n  max.batch.size: 4096  # more\n  database.server.name: orders\n"
    rewritten, done = fix(text, name="orders.yaml")
    assert (rewritten, [fixed.code for fixed in done]) == (
        text.replace("  database.server.name: orders\n", ""),
        ["CC103"],
    )
    alone = MINIMAL + "overrides:\n  database.server.name: orders\n# the end\n"
    assert fix(alone, name="orders.yaml")[0] == MINIMAL + "# the end\n"


def test_a_version_that_has_the_old_name_keeps_it() -> None:
    text = json.dumps({**CLEAN[DatabaseKind.MYSQL], "snapshot.mode": "schema_only", "snapshot.new.tables": "parallel"})
    assert [fixed.code for fixed in fix(text, name="x.json", version=(3, 7))[1]] == ["CC103", "CC104"]
    assert fix(text, name="x.json", version=(1, 9)) == (text, [])


def test_the_ends_of_lines_stay() -> None:
    text = FORMS["body.json"]({**CLEAN[DatabaseKind.POSTGRESQL], "snapshot.mode": "never", "database.server.name": "x"})
    text = text.replace('"plugin.name": "pgoutput",\r\n\t\t', "")
    rewritten, done = fix(text, name="x.json")
    assert [fixed.code for fixed in done] == ["CC103", "CC104", "CC601"]
    assert rewritten.count("\n") == rewritten.count("\r\n") == text.count("\r\n")


def test_a_byte_order_mark_stays() -> None:
    assert fix("\ufeff" + D5, name="x.json")[0] == "\ufeff" + fix(D5, name="x.json")[0]


@settings(max_examples=30)
@given(
    st.lists(st.sampled_from(FIXABLE), min_size=2, max_size=6),
    st.sampled_from(CAPTURED),
    st.sampled_from(list(FORMS)),
)
def test_hazards_that_come_together_are_fixed_together(cases: list[Case], kind: DatabaseKind, form: str) -> None:
    text = FORMS[form](changed(kind, {option: value for case in cases for option, value in case.changes.items()}))
    rewritten, done = fix(text, name=form)
    # A name that is right lets other rules see more.
    assert not (set(codes(rewritten, form)) - set(codes(text, form))) & FIXERS.keys()
    assert (rewritten == text) is (done == [])
    assert fix(rewritten, name=form) == (rewritten, [])


@given(named_texts())
def test_any_text_is_fixed_or_left(named: tuple[str, str]) -> None:
    text, name = named
    rewritten, done = fix(text, name=name)
    assert (rewritten == text) is (done == [])
    assert len(find_in_text(rewritten, name=name)[0]) == len(find_in_text(text, name=name)[0])
    assert fix(rewritten, name=name) == (rewritten, [])
