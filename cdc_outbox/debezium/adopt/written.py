"""A spec's content as YAML, with a comment where something is odd. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from cdc_outbox.spec import spec_schema
from cdc_outbox.text_files.document import Path
from cdc_outbox.text_files.yaml_text import as_yaml

_BARE = re.compile(r"true|false|0|-?[1-9][0-9]{0,17}")
_KEY = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")


def written(content: Mapping[str, Any], comments: Mapping[Path, str]) -> str:
    """Return the YAML of a spec.

    Args:
        comments: What stands beside a key; beside the empty path, at the top.
    """
    # A file may be called anything, and YAML takes not every character in a comment.
    top = "".join(each if each.isprintable() or each == "\n" else "?" for each in comments.get((), ""))
    lines = [f"# {line}" for line in top.split("\n")]
    nested = False
    for key, value in _in_order(content, spec_schema()).items():
        nested, before = isinstance(value, dict), nested
        lines += [""] * (nested or before)
        lines += _lines({key: value}, (), comments)
    return "\n".join(lines) + "\n"


def _in_order(content: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part of a spec with its keys in the order of the schema; names that the user gives as they stand."""
    known = schema.get("properties", {})
    keys = sorted(content, key=lambda key: list(known).index(key) if key in known else len(known))
    return {
        key: _in_order(content[key], known.get(key, {})) if isinstance(content[key], dict) else content[key]
        for key in keys
    }


def _lines(content: Mapping[str, Any], around: Path, comments: Mapping[Path, str]) -> Iterator[str]:
    for key, value in content.items():
        path = (*around, key)
        indent, comment = "  " * len(around), comments.get(path, "")
        behind = f"  # {comment}" if comment else ""
        name = key if _KEY.fullmatch(key) and as_yaml(key.replace(".", "_")) == key.replace(".", "_") else as_yaml(key)
        if isinstance(value, dict) and value:
            yield f"{indent}{name}:{behind}"
            yield from _lines(value, path, comments)
        else:
            yield f"{indent}{name}: {_scalar(value, path)}{behind}"


def _scalar(value: object, path: Path) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "{}"
    text = str(value)
    # An option is text to Connect, however it is written; elsewhere a number and a text that looks like one differ.
    bare = not isinstance(value, str) or (path[0] == "overrides" and _BARE.fullmatch(text))
    return text if bare else as_yaml(text)
