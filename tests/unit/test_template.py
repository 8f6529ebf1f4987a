"""A written spec can be used as it is, and what it leaves out stands in it as a comment."""

import re

import pytest

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config_texts import find_in_text
from cdc_outbox.debezium.lint import lint_all
from cdc_outbox.debezium.render import render
from cdc_outbox.event import SequenceMode
from cdc_outbox.finding import Severity
from cdc_outbox.spec import parse_spec
from cdc_outbox.spec.reference import keys
from cdc_outbox.spec.template import EXAMPLE, template

AGGREGATES = {"customer": SequenceMode.GAPLESS, "reading": SequenceMode.NONE, "no": SequenceMode.INCREASING}

every_kind = pytest.mark.parametrize("kind", DatabaseKind)


def uncommented(text: str, *, examples: bool) -> str:
    """Return a spec in which what was commented out stands, but for the examples or these alone."""
    lines, told = [], ""
    for line in text.splitlines():
        prose = re.match(r" *# (.*)", line)
        told = f"{told} {prose[1]}".strip() if prose else told
        found = re.fullmatch(r"( *)#([a-z_]+: .*)", line)
        if found and (EXAMPLE in f"{told}{line}") is examples:
            line = found[1] + found[2]  # noqa: PLW2901 - the same line
        told = told if prose else ""
        lines.append(line)
    return "\n".join(lines)


@every_kind
def test_it_parses_and_lints_clean(kind: DatabaseKind) -> None:
    text = template("orders", kind, AGGREGATES)
    spec = parse_spec(text)
    assert (spec.name, spec.database.kind, spec.contract.aggregates) == ("orders", kind, AGGREGATES)
    configs, refused = find_in_text(text, name="orders.yaml")
    # Where no connector reads it, a note says so.
    assert {finding.severity for finding in [*refused, *lint_all(configs)]} <= {Severity.NOTE}
    assert bool(configs) is (kind is not DatabaseKind.SQLITE)


@every_kind
def test_its_comments_speak_of_no_other_kind_of_database(kind: DatabaseKind) -> None:
    text = template("shop", kind, AGGREGATES).lower()
    [kinds] = [line for line in text.splitlines() if "the kind of database." in line]
    told = text.replace(kinds, "").replace("mariadb's or mysql's binlog", "")
    assert {other for other in DatabaseKind if other is not kind and other in told} == set()


def test_postgresqls_is_rendered_and_has_no_finding_at_all() -> None:
    text = template("orders", DatabaseKind.POSTGRESQL, AGGREGATES)
    assert render(parse_spec(text))["slot.name"] == "orders_outbox"
    assert lint_all(find_in_text(text, name="orders.yaml")[0]) == ()


@every_kind
def test_it_says_how_the_worker_gets_a_password_that_it_refers_to(kind: DatabaseKind) -> None:
    text = template("orders", kind, AGGREGATES)
    refers = "password: ${env:ORDERS_CONNECTOR_PASSWORD}" in text
    assert refers is (kind is not DatabaseKind.SQLITE)
    assert ("# stack, set ORDERS_CONNECTOR_PASSWORD and run `cdc-outbox stack up --env ORDERS_" in text) is refers


@every_kind
def test_what_is_commented_out_is_what_is_taken_without_it(kind: DatabaseKind) -> None:
    text = template("orders", kind, AGGREGATES)
    whole = uncommented(text, examples=False)
    assert whole != text
    assert parse_spec(whole) == parse_spec(text)


def test_defaults_that_are_made_of_the_name_are_shown_as_they_are() -> None:
    text = template("payments", DatabaseKind.POSTGRESQL, AGGREGATES)
    for line in ("slot: payments_outbox", "publication: payments_outbox", "source: payments"):
        [shown] = [each for each in text.splitlines() if each.strip().startswith(f"#{line}")]
        assert EXAMPLE not in shown
    assert "orders" not in text.replace("(orders.1)", "").partition("\naggregates:")[0].replace("order_id", "")


def test_the_examples_are_taken_too() -> None:
    text = template("orders", DatabaseKind.POSTGRESQL, AGGREGATES)
    for line in uncommented(text, examples=True).splitlines():
        key = line.strip().partition(":")[0]
        if re.match("[a-z]", key) and line not in text.splitlines() and key != "columns":
            parse_spec(text.replace(f"#{line.strip()}", line.strip()))


@every_kind
def test_every_key_stands_in_it(kind: DatabaseKind) -> None:
    text = template("orders", kind, AGGREGATES)
    for key in keys():
        known = not key.kinds or kind in key.kinds
        of_a_server = key.path[0] == "database" and key.path[1:] not in {(), ("kind",)}
        if key.path[:2] != ("outbox", "columns") and not (of_a_server and kind is DatabaseKind.SQLITE):
            assert bool(re.search(rf"^ *#?{key.path[-1]}:", text, re.MULTILINE)) >= known, key.path


@every_kind
@pytest.mark.parametrize("name", ["orders", "Orders-v2.eu", "no", "1e3", "9", "a" * 100])
def test_any_name_that_a_pipeline_can_have_is_taken(name: str, kind: DatabaseKind) -> None:
    spec = parse_spec(template(name, kind, {name: SequenceMode.GAPLESS}))
    assert (spec.name, list(spec.contract.aggregates)) == (name, [name])


@every_kind
def test_no_line_is_longer_than_a_screen(kind: DatabaseKind) -> None:
    assert max(map(len, template("orders", kind, AGGREGATES).splitlines())) <= 120
