import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.text_files.document import MAX_BYTES
from cdc_outbox.text_files.json_text import read_json
from tests.support.strategies import json_texts, rubbish_texts


def as_text(value: Any) -> Any:
    """Return what a document says: every scalar but null as it is written."""
    match value:
        case dict():
            return {key: as_text(item) for key, item in value.items()}
        case list():
            return [as_text(item) for item in value]
        case None | str():
            return value
        case _:
            return json.dumps(value)


@given(json_texts())
def test_json_is_read_as_it_is_meant(text: str) -> None:
    document = read_json(text, name="x")
    assert document.findings == ()
    assert document.content == as_text(json.loads(text))


def test_every_key_and_item_knows_its_line() -> None:
    document = read_json('{"a":\n 1, "b": {\r\n"c": [\n true,\n"x\\u00e9"]}}', name="x")
    assert document.content == {"a": "1", "b": {"c": ["true", "xé"]}}
    lines = {(): 1, ("a",): 1, ("b",): 2, ("b", "c"): 3, ("b", "c", 0): 4, ("b", "c", 1): 5}
    assert document.lines == lines


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "a value is missing"),
        ('{\n"a": 1,\n}', 3, "a key in quotation marks is missing"),
        ("{\n'a': 1}", 2, "a key in quotation marks is missing"),
        ('{"a": 1\n"b": 2}', 2, "a comma or } is missing"),
        ("[1\n2", 2, "a comma or ] is missing"),
        ('{"a" 1}', 1, "a : is missing"),
        ('{"a": 1,\n"a": 2}', 2, "the key 'a' appears twice"),
        ('{"a": 1,\n"\\u0061": 2}', 2, "the key 'a' appears twice"),
        ('{"a":\nNaN}', 2, "no value"),
        ('{"a": 01}', 1, "a comma or } is missing"),
        ('{"a": "x\ny"}', 1, "a text that does not end"),
        ('{"a": "\\x"}', 1, "a text that does not end"),
        ('{"a": "\\ud800"}', 1, "half a surrogate pair is no text"),
        ("{}\n{}", 2, "something follows the end"),
        ("[" * 200, 1, "deeper than 64 levels"),
    ],
)
def test_what_is_no_json_is_one_finding_with_its_line(text: str, line: int, message: str) -> None:
    [finding] = read_json(text, name="x.json").findings
    assert (finding.code, finding.location.document, finding.location.line) == ("CC002", "x.json", line)
    assert message in finding.message


def test_two_megabytes_are_one_finding() -> None:
    [finding] = read_json(json.dumps({"a": "x" * 2 * MAX_BYTES}), name="x").findings
    assert "larger than" in finding.message


@given(rubbish_texts)
def test_rubbish_gives_content_or_a_finding(text: str) -> None:
    document = read_json(text, name="x")
    assert len(document.findings) <= 1


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.integers(), min_size=1))
def test_a_key_stands_where_it_was_written(content: dict[str, int]) -> None:
    document = read_json(json.dumps(content, indent=0), name="x")
    assert [document.lines[key,] for key in content] == list(range(2, len(content) + 2))
