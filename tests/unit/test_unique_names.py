"""A name occurs once in the package, so that a search for it has one answer; words that were given up stay so."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "cdc_outbox"

ALIKE = {"cli", "drivers", "dialects", "render", "lint", "contrib"}
"""Packages whose modules are named by what they are about: a command, a database, a rule's subject, a framework."""


def repeated(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found = defaultdict(list)
    for name, place in names:
        found[name].append(place)
    return {name: places for name, places in found.items() if len(places) > 1}


def test_each_module_has_a_name_of_its_own() -> None:
    paths = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")]
    apart = [path for path in paths if path.stem != "__init__" and not ALIKE & set(path.parts)]
    assert repeated((path.stem, str(path)) for path in apart) == {}


def test_each_class_has_a_name_of_its_own() -> None:
    classes = (
        (node.name, str(path.relative_to(PACKAGE)))
        for path in PACKAGE.rglob("*.py")
        if "migrations" not in path.parts  # a class there has the name that Django asks for
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert repeated(classes) == {}


RETIRED = {
    "Act", "Aside", "Effect", "Guard", "Keeper", "Known", "Meaning", "Place", "Poison", "Reach", "Remains", "Said",
    "Standing", "Tenure", "Undo", "Veil", "Ward", "Watch", "Witness", "dead_letters", "foresight", "halt",
    "octets_as_json", "skeleton", "told_places",
}  # fmt: skip
"""Identifiers that had a better word in the field: lifecycle, redaction, parking, impact, diagnosis, rollback …"""


def identifiers(path: Path) -> Iterator[str]:
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name) | ast.alias(asname=str() as name):
                yield name


def test_retired_names_do_not_come_back() -> None:
    found = {(name, str(path.relative_to(PACKAGE))) for path in PACKAGE.rglob("*.py") for name in identifiers(path)}
    assert sorted(each for each in found if each[0] in RETIRED) == []
