"""Golden files: what the package produced before, committed in ``tests/golden`` and compared word for word.

``infra/golden --update`` writes them again. What is random or belongs to one machine is made neutral before the
comparison, and names of modules are refused: a golden file must not change when code only moves.
"""

import difflib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "golden"
UPDATE = "infra/golden --update"
UPDATING = "CDC_OUTBOX_UPDATE_GOLDEN"
"""The variable that has :meth:`Golden.check` write instead of compare."""

_REFUSED = re.compile(r"(?<!')\bcdc_outbox\.[a-z_]\w*|/(?:tmp|home|root|work)/\S*|site-packages")
"""Modules, and paths of a machine; in single quotes stand PostgreSQL's settings, such as 'cdc_outbox.heartbeat'."""

_NEUTRAL = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d(?::?\d\d)?)?"), "<time>"),
    (re.compile(r"\b127\.0\.0\.1:(?!1\b)\d+"), "127.0.0.1:<port>"),
)


@dataclass(frozen=True, slots=True)
class Golden:
    """One golden file."""

    path: Path

    def check(self, text: str) -> None:
        """Compare the text with the file, or write it; the file ends with a newline."""
        text = f"{text.rstrip()}\n"
        refused = _REFUSED.search(text)
        found = refused[0] if refused else ""
        assert not found, f"{self._name} would contain {found}, which other changes alter"
        if os.environ.get(UPDATING):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(text, encoding="utf-8")
            return
        known = self.path.read_text(encoding="utf-8") if self.path.exists() else ""
        if known != text:
            lines = difflib.unified_diff(known.splitlines(), text.splitlines(), self._name, "now", lineterm="", n=1)
            difference = "\n".join(lines)
            raise AssertionError(f"the output changed; if it is meant to, run `{UPDATE}`:\n{difference}")

    def check_json(self, content: Any) -> None:
        """Compare a value as indented JSON, with sorted keys."""
        self.check(json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True))

    @property
    def _name(self) -> str:
        return f"tests/golden/{self.path.relative_to(FOLDER)}"


def golden(name: str) -> Golden:
    """Return the golden file of this name, a path below ``tests/golden``."""
    return Golden(FOLDER / name)


def neutral(text: str, names: Mapping[str, str] | None = None) -> str:
    """Replace ids, times and ports, and the given names, the longest first."""
    for name in sorted(names or {}, key=len, reverse=True):
        text = text.replace(name, (names or {})[name])
    for pattern, replacement in _NEUTRAL:
        text = pattern.sub(replacement, text)
    return text


def neutral_json(content: Any, names: Mapping[str, str] | None = None) -> Any:
    """Replace the same in every text of a JSON value."""
    if isinstance(content, str):
        return neutral(content, names)
    if isinstance(content, list):
        return [neutral_json(each, names) for each in content]
    if isinstance(content, dict):
        return {neutral(key, names): neutral_json(each, names) for key, each in content.items()}
    return content
