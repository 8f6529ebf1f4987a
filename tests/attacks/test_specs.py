"""A spec or a configuration that another one wrote: what it says is refused or shown, and nothing obeys it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from cdc_outbox.databases.database import DatabaseKind
from tests.support.attacks import SECRET, assert_harmless, hostile_text
from tests.support.commands import run_command
from tests.support.configs import CLEAN
from tests.support.specs import ORDERS

COMMANDS = [["lint"], ["lint", "--report=ci"], ["render"], ["init", "--sql"], ["init", "--grants"]]
SPEC: dict[str, Any] = {
    **yaml.safe_load(ORDERS.read_text()),
    "overrides": {"database.sslmode": "verify-full", "heartbeat.action.query": "select 1"},
}
CONFIG = dict(CLEAN[DatabaseKind.POSTGRESQL])
Place = tuple[str | int, ...]


def places(content: Any, path: Place = ()) -> Iterator[Place]:
    """Yield where the texts of a document stand; a key's place ends with the key and ``-1``."""
    items = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, value in items:
        if isinstance(key, str):
            yield (*path, key, -1)
        yield from places(value, (*path, key))
    if isinstance(content, str):
        yield path


def changed(content: Any, place: Place, text: str) -> Any:
    """Return a document with a text in one place."""
    if not place:
        return text
    first, *rest = place
    if rest == [-1]:
        return {text if key == first else key: value for key, value in content.items()}
    copy = content.copy()
    copy[first] = changed(copy[first], tuple(rest), text)
    return copy


def attack(file: Path, marker: Path, *command: str) -> None:
    done = run_command(*command, file, env={"GITHUB_TOKEN": SECRET, "CDC_OUTBOX_CONNECT_PATIENCE": "0s"})
    assert done.returncode in {0, 1, 2, 3, 75}, done.stderr
    assert_harmless(done.stdout, is_document=True)
    assert_harmless(done.stderr)
    assert not marker.exists()


@pytest.mark.parametrize("place", list(places(SPEC)), ids=lambda place: ".".join(map(str, place)))
def test_a_spec_commands_nothing(place: Place, tmp_path: Path) -> None:
    marker, file = tmp_path / "executed", tmp_path / "orders.yaml"
    file.write_text(yaml.safe_dump(changed(SPEC, place, hostile_text(marker))))
    for command in COMMANDS:
        attack(file, marker, *command)


@pytest.mark.parametrize("place", list(places(CONFIG)), ids=lambda place: ".".join(map(str, place)))
def test_a_configuration_commands_nothing(place: Place, tmp_path: Path) -> None:
    marker, file = tmp_path / "executed", tmp_path / "orders.json"
    file.write_text(json.dumps(changed(CONFIG, place, hostile_text(marker))))
    for command in (["lint"], ["adopt"], ["simulate", "--row", '{"aggregatetype": "order", "aggregateid": "1"}']):
        attack(file, marker, *command)
