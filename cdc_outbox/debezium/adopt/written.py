"""Write a spec's content as YAML with comments. Pure."""

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
        comments: By the path of a key; the empty path for the top of the file.
    """
    # A file name may contain characters that YAML does not allow in a comment.
    top = "".join(each if each.isprintable() or each == "\n" else "?" for each in comments.get((), ""))
    lines = [f"# {line}" for line in top.split("\n")]
    nested = False
    for key, value in _in_order(content, spec_schema()).items():
        nested, before = isinstance(value, dict), nested
        lines += [""] * (nested or before)
        lines += _lines({key: value}, (), comments)
    return "\n".join(lines) + "\n"


def _in_order(content: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part of a spec with its keys in the order of the schema, followed by names that the user chose."""
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
    # Connect reads every option as text; elsewhere a number differs from a text that looks like one.
    bare = not isinstance(value, str) or (path[0] == "overrides" and _BARE.fullmatch(text))
    return text if bare else as_yaml(text)
