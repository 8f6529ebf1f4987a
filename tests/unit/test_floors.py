"""Imports point down the floors; nobody below knows who stands on top."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "cdc_outbox"

FLOORS = [
    {"finding", "safe_text"},
    {"errors"},
    {"modes"},
    {
        "binlog",
        "document",
        "event",
        "expansion",
        "explanations",
        "kafka_client",
        "lsn",
        "message",
        "metrics",
        "payload",
        "pgoutput",
        "progress",
        "secret",
        "sql",
        "table",
        "timestamps",
        "topic",
    },
    {
        "cloudevents",
        "database",
        "envelope",
        "json_text",
        "kafka_errors",
        "kafka_refusals",
        "patch",
        "properties_text",
        "spec_findings",
        "tracing",
        "yaml_text",
    },
    {"foreign"},
    {"migrations", "router", "schemas", "wire"},
    {"contract_file", "privileges", "spec"},
    {"drivers", "jvm", "kafka", "reference"},
    {"connect", "consumer", "skeleton", "writer"},
    {"alembic", "django", "monitor", "operate", "testing"},
    {"pytest_plugin"},
    {"cli"},
]
"""From the ground up. A module may import what lies below, and inside its own room; not its neighbours."""

FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}

FACE = {"__init__", "__main__"}
"""The public names and the command; they may import everything, and nobody imports them."""


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if not (len(parts) == 1 and parts[0] in FACE):
            yield parts[0], path


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
            case ast.ImportFrom(module="cdc_outbox"):
                names = [f"cdc_outbox.{alias.name}" for alias in node.names]
            case ast.ImportFrom(module=str() as module):
                names = [module]
            case _:
                continue
        for name in names:
            if name == "cdc_outbox" or name.startswith("cdc_outbox."):
                yield node.lineno, [*name.split("."), "__init__"][1]


@pytest.mark.parametrize(("room", "path"), list(modules()), ids=lambda value: getattr(value, "stem", value))
def test_imports_point_down(room: str, path: Path) -> None:
    assert room in FLOOR_OF, f"{path} stands on no floor: add its room to FLOORS"
    for line, other in imported_rooms(path):
        assert other == room or FLOOR_OF[other] < FLOOR_OF[room], f"{path}:{line} imports {other}, which is not below"


def test_every_floor_is_lived_on() -> None:
    assert {room for room, _ in modules()} == set(FLOOR_OF)
