"""YAML, JSON and properties refuse the same things in the same words."""

from collections.abc import Callable

import pytest

from cdc_outbox.text_files.document import MAX_BYTES, Document
from cdc_outbox.text_files.json_text import read_json
from cdc_outbox.text_files.properties_text import read_properties
from cdc_outbox.text_files.yaml_text import read_yaml

Reader = Callable[..., Document]
TWICE = "the key 'a' appears twice."
HALF = "half a surrogate pair is no text."
DEEP = "deeper than 64 levels."


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_json, '{"a": 1,\n"a": 2}', TWICE),
        (read_yaml, "a: 1\na: 2", TWICE),
        (read_properties, "a=1\na=2", TWICE),
        (read_json, '{"a": 1,\n"b": "\\ud800"}', HALF),
        (read_yaml, 'a: 1\nb: "\\ud800"', HALF),
        (read_properties, "a=1\nb=\\ud800", HALF),
        (read_json, "{\n" + '"a": ' + "[" * 65, DEEP),
        (read_yaml, "a: 1\nb: " + "[" * 65, DEEP),
    ],
)
def test_what_is_refused_has_its_line_and_the_same_words(read: Reader, text: str, message: str) -> None:
    [finding] = read(text, name="x").findings
    assert (finding.location.line, finding.message) == (2, message)


@pytest.mark.parametrize("read", [read_json, read_yaml, read_properties])
def test_what_is_too_large_is_refused_as_a_whole(read: Reader) -> None:
    [finding] = read("x" * (MAX_BYTES + 1), name="x").findings
    assert (finding.location.line, finding.message) == (None, f"larger than {MAX_BYTES} bytes.")
