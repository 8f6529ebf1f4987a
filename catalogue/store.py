"""The stored catalogue: one file a connector, one line an option, with the versions in which it is like that."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cdc_outbox.debezium.options import Option, row_of

FOLDER = Path(__file__).parents[1] / "cdc_outbox" / "debezium" / "options"

Options = Mapping[str, Option]


def fold(by_version: Mapping[str, Options]) -> list[list[Any]]:
    """Return the lines of a file, sorted by name: an option that changed has one for each of its states.

    Args:
        by_version: Oldest first; :func:`cdc_outbox.debezium.options.unfold` is the way back.
    """
    order = list(by_version)
    names = sorted({name for options in by_version.values() for name in options})
    return [row_of(option) for name in names for option in _states(name, by_version, order)]


def read(name: str) -> dict[str, Any]:
    """Return a file's content, without versions if there is none yet."""
    path = FOLDER / f"{name}.json"
    content: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"versions": [], "options": []}
    return content


def write(name: str, content: Mapping[str, Any]) -> None:
    """Write a file whose versions can be compared line by line."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(_text(content) + "\n", "utf-8")


def rows(options: Options) -> list[list[Any]]:
    """Return the lines of options that are known in one version only."""
    return [row_of(options[name]) for name in sorted(options)]


def changes(old: Sequence[Sequence[Any]], new: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Describe the differences between two lists of lines."""
    before, after = ({json.dumps(row, ensure_ascii=False) for row in each} for each in (old, new))
    yield from (f"- {row}" for row in sorted(before - after))
    yield from (f"+ {row}" for row in sorted(after - before))


def _states(name: str, by_version: Mapping[str, Options], order: Sequence[str]) -> Iterator[Option]:
    first = 0
    for place, version in enumerate(order):
        following = by_version[order[place + 1]].get(name) if place + 1 < len(order) else None
        current = by_version[version].get(name)
        last = place + 1 == len(order)
        if not last and _facts(following) == _facts(current):
            continue
        if current is not None:
            yield replace(current, since=order[first] if first else "", until="" if last else version)
        first = place + 1


def _facts(option: Option | None) -> Option | None:
    return option and replace(option, since="", until="")


def _text(content: Any, depth: int = 0) -> str:  # noqa: ANN401 - JSON
    indent = " " * depth
    if isinstance(content, Mapping):
        lines = [f"{indent} {json.dumps(key)}: {_text(value, depth + 1)}" for key, value in content.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}" + "}" if lines else "{}"
    if isinstance(content, list) and content and isinstance(content[0], list | dict):
        return "[\n" + ",\n".join(indent + " " + _line(row) for row in content) + f"\n{indent}]"
    return _line(content)


def _line(content: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps(content, ensure_ascii=False)
