"""The spec's JSON Schema is complete, and the page that shows it is current."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from cdc_outbox.spec import parse_spec, spec_schema
from cdc_outbox.spec.reference import ANY, Key, keys, page
from tests.support.specs import MINIMAL

ROOT = Path(__file__).parents[2]
KEYS = {".".join(key.path): key for key in keys()}


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(spec_schema())


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_a_key_says_what_it_means_what_it_takes_and_why(key: Key) -> None:
    assert key.meaning.endswith(".")
    assert key.reason.endswith(".")
    assert key.reason not in key.meaning
    assert key.type
    assert key.needed or key.default or key.has_keys


def test_no_part_of_the_schema_is_left_out() -> None:
    """Whatever has a description is a key of the page, but the schema itself."""

    def described(part: Any) -> int:
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        return sum(map(described, inner)) + (isinstance(part, dict) and isinstance(part.get("description"), str))

    assert len(KEYS) == described(spec_schema()) - 1


def test_a_default_that_is_told_is_the_one_that_is_taken() -> None:
    content = yaml.safe_load(MINIMAL)
    for key in KEYS.values():
        here = not key.kinds or "postgresql" in key.kinds
        if here and "default" in key.schema and "columns" not in key.path:  # those describe a table of another's
            place = content
            for name in key.path[:-1]:
                place = place.setdefault("customer" if name == ANY else name, {})
            place[key.path[-1]] = key.schema["default"]
    assert content["outbox"]["table"] == "outbox"
    told, left_out = parse_spec(yaml.safe_dump(content)), parse_spec(MINIMAL)
    assert str(told.outbox.table) == str(left_out.outbox.table)
    # A schema that is named and the one that PostgreSQL takes are not the same value.
    assert replace(told, outbox=replace(told.outbox, schema=None)) == left_out


def test_the_columns_that_are_told_are_those_of_a_table_that_init_makes() -> None:
    outbox = {name: key.schema["default"] for (*around, name), key in _paths() if around == ["outbox", "columns"]}
    adopted = yaml.safe_dump({**yaml.safe_load(MINIMAL), "outbox": {"columns": outbox}})
    assert parse_spec(adopted).outbox.columns == parse_spec(MINIMAL).outbox.columns


def _paths() -> list[tuple[tuple[str, ...], Key]]:
    return [(key.path, key) for key in KEYS.values()]


def test_the_page_is_what_the_command_makes() -> None:
    """Regenerate with `cdc-outbox spec-schema --page > docs/spec.md`."""
    assert (ROOT / "docs" / "spec.md").read_text() == page()


@pytest.mark.parametrize("spec", sorted((ROOT / "connectors").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_specs_here_name_the_schema(spec: Path) -> None:
    [hint] = [line for line in spec.read_text().splitlines() if "yaml-language-server" in line]
    assert (spec.parent / hint.partition("$schema=")[2]).resolve() == ROOT / "cdc_outbox" / "spec" / "spec.schema.json"
