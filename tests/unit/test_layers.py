"""Imports point to lower layers; nothing below knows what stands on top of it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "cdc_outbox"

LAYERS = [
    ["redaction", "finding", "errors", "event", "message", "backoff"],
    ["telemetry", "text_files", "formats", "contract"],
    ["databases", "kafka", "spec"],
    ["debezium"],
    ["writer", "consumer", "relay", "connect"],
    ["operations", "monitoring", "contrib", "testing", "pytest_plugin"],
    ["cli"],
]
"""From the lowest. A package may import lower layers, and within its own what stands to its left."""

APART = {4}
"""Layers whose packages never import each other."""

PLACE_OF = {name: (layer, place) for layer, names in enumerate(LAYERS) for place, name in enumerate(names)}

FACE = {"__init__", "__main__"}
"""The public names and the command; they may import everything, and nothing imports them."""


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if not (len(parts) == 1 and parts[0] in FACE):
            yield parts[0], path


def imported_packages(path: Path) -> Iterator[tuple[int, str]]:
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


def imported_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    around = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
    return [around + alias.name for alias in node.names]


def may_import(package: str, other: str) -> bool:
    (layer, place), (other_layer, other_place) = PLACE_OF[package], PLACE_OF[other]
    if layer == other_layer:
        return other == package or (layer not in APART and other_place < place)
    return other_layer < layer


@pytest.mark.parametrize(("package", "path"), list(modules()), ids=lambda value: getattr(value, "stem", value))
def test_imports_point_to_lower_layers(package: str, path: Path) -> None:
    assert package in PLACE_OF, f"{path} is in no layer: add its package to LAYERS"
    for line, other in imported_packages(path):
        assert other in PLACE_OF, f"{path}:{line} imports {other}, which is in no layer"
        assert may_import(package, other), f"{path}:{line} imports {other}, which is neither lower nor to the left"


@pytest.mark.parametrize(("package", "other"), [("render", "lint"), ("lint", "render")])
def test_rendering_and_linting_do_not_import_each_other(package: str, other: str) -> None:
    found = [
        f"{path}:{node.lineno}"
        for path in sorted((PACKAGE / "debezium" / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        if any(name.startswith(f"cdc_outbox.debezium.{other}") for name in imported_names(node))
    ]
    assert found == []


def test_every_package_of_the_layers_exists() -> None:
    assert {package for package, _ in modules()} == set(PLACE_OF)


def test_few_modules_stand_beside_the_packages() -> None:
    assert len(list(PACKAGE.glob("*.py"))) <= 10


def test_no_module_is_longer_than_400_lines() -> None:
    long = [str(path) for path in PACKAGE.rglob("*.py") if len(path.read_text().splitlines()) > 400]
    assert long == []


def test_only_drivers_and_dialects_ask_which_dialect_it_is() -> None:
    """Others ask for a feature of it, so that a further dialect is a module of its own and not a search."""
    comparison = re.compile(r"\b(?:is|is not|==|!=|in|not in|case) [({]*Dialect\.[A-Z]+")
    asking = {
        f"{path.relative_to(PACKAGE)}: {line.strip()}"
        for package, path in modules()
        if package != "databases"
        for line in path.read_text().splitlines()
        if comparison.search(line)
    }
    assert asking == set()
