"""What it costs to refuse a text that is nested without end does not grow with the text."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from cdc_outbox.text_files.document import Document
from cdc_outbox.text_files.json_text import read_json
from cdc_outbox.text_files.yaml_text import read_yaml
from tests.support.commands import run_command
from tests.support.specs import ORDERS
from tests.support.time_limits import cpu_seconds

DEEP = {
    "brackets": "[",
    "braces": "{a: ",
    "closed in comments": "[ #]\n",
    "closed in quotes": "[']', ",
    "sequences in a line": "- ",
    "complex keys": "? ",
    "mixed": "[{? ",
}


def steps(call: Callable[[], Any]) -> int:
    """Return how many functions are called, Python's and C's."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return count


def refused(text: str, read: Callable[..., Document]) -> None:
    document = read(text, name="deep")
    assert document.content is None
    assert len(document.findings) == 1


@pytest.mark.parametrize("piece", DEEP.values(), ids=DEEP)
def test_yaml_that_is_nested_without_end_costs_what_its_first_levels_cost(piece: str) -> None:
    shorter, longer = (steps(partial(refused, piece * pieces, read_yaml)) for pieces in (200, 100_000 // len(piece)))
    assert longer < 2 * shorter
    assert longer < 200_000


def test_a_hundred_thousand_brackets_are_refused_in_a_fifth_of_a_second_of_cpu() -> None:
    assert cpu_seconds(partial(refused, "[" * 100_000, read_yaml)) < 0.2, "it takes a millisecond"


@pytest.mark.parametrize("piece", ["[", '{"a":', '[{"a":'])
def test_json_that_is_nested_without_end_costs_what_its_first_levels_cost(piece: str) -> None:
    shorter, longer = (steps(partial(refused, piece * pieces, read_json)) for pieces in (200, 100_000 // len(piece)))
    assert longer < 2 * shorter


def test_sixty_levels_of_yaml_are_read() -> None:
    text = f"a: {'[' * 60}{']' * 60}"
    assert read_yaml(text, name="deep").findings == ()
    block = "\n".join(f"{'  ' * level}a:" for level in range(60))
    assert read_yaml(block, name="deep").findings == ()


def test_many_brackets_that_are_closed_are_read() -> None:
    assert read_yaml("a: [" + "[x], " * 5_000 + "]", name="wide").findings == ()


def test_the_place_of_too_many_levels_is_told() -> None:
    [finding] = read_yaml("a: b\nc: " + "[" * 100, name="deep").findings
    assert finding.location.line == 2
    assert "64 levels" in finding.message


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 20_000], ids=["brackets", "objects"])
def test_commands_refuse_what_is_nested_without_end(text: str) -> None:
    assert run_command("lint", "-", text=text).returncode == 2
    assert run_command("simulate", ORDERS, "--row", text).returncode == 2
