"""Properties are read as Java reads them, but for a key that stands twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.debezium.config_texts import find_in_text
from cdc_outbox.debezium.lint.fixes import fix
from cdc_outbox.text_files.properties_text import looks_like_properties, read_properties

TEXT = """\
# a comment
! another

name=orders
connector.class = io.debezium.connector.postgresql.PostgresConnector
  slot.name:orders_outbox
table.include.list public\\\\.outbox
transforms.outbox.table.fields.additional.placement=type:header:eventType,\\
    tenant:header
key\\ with\\:signs=\\u00e9\\t\\ud83d\\ude00 \\
# no comment
empty=
bare
"""


def test_every_form_of_a_line_is_read_with_its_number() -> None:
    document = read_properties(TEXT, name="x.properties")
    assert document.findings == ()
    assert document.content == {
        "name": "orders",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "slot.name": "orders_outbox",
        "table.include.list": r"public\.outbox",
        "transforms.outbox.table.fields.additional.placement": "type:header:eventType,tenant:header",
        "key with:signs": "é\t\U0001f600 # no comment",
        "empty": "",
        "bare": "",
    }
    assert [document.lines[name,] for name in ("name", "slot.name", "key with:signs", "bare")] == [4, 6, 10, 13]


@pytest.mark.parametrize(
    ("text", "line"),
    [("a=1\na=2", 2), ("a=\\ud800", 1), ("\n\nx=1\n\\uDC00=1", 4), ("x" * 2_000_000, None)],
)
def test_what_is_refused_is_a_finding_with_its_line(text: str, line: int | None) -> None:
    [finding] = read_properties(text, name="x.properties").findings
    assert (finding.code, finding.location.line) == ("CC002", line)


@given(st.text(st.sampled_from("ab=: \\\n\r\t#!u00dé8")))
def test_no_text_is_too_odd(text: str) -> None:
    document = read_properties(text, name="x")
    assert document.findings or all(isinstance(value, str) for value in document.content.values())


@pytest.mark.parametrize("name", ["-", "x.properties", "worker.conf"])
def test_a_connector_of_a_worker_without_a_cluster_is_linted_by_its_name_or_its_look(name: str) -> None:
    [config], refused = find_in_text(TEXT, name=name)
    assert (refused, config.name, config.locations("slot.name").line) == ([], "orders", 6)
    assert fix(TEXT, name=name) == (TEXT, [])


@pytest.mark.parametrize("text", ['{"a": 1}', "name: x", "[]", "", "- a = b"])
def test_other_texts_do_not_look_like_properties(text: str) -> None:
    assert not looks_like_properties(text)
