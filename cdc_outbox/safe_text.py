"""Texts of others, made safe to show on a terminal, in a log, in the comment of a script; and counts."""

import json
import re
from collections.abc import Callable, Sequence

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0, DEL and C1, what ends a line, what turns the direction of writing, and halves of a surrogate pair."""

_AT_THE_START = re.compile(r"^([^\S\n]*)::", re.MULTILINE)
_ANYWHERE = re.compile(r"##(?=\[|vso\[)")
"""Where a runner of GitHub's or Azure's looks for a command."""


def visible(text: str) -> str:
    """Return a text in which nothing moves the cursor, ends the line, turns the direction or commands a CI runner."""
    return _ANYWHERE.sub(r"#\\x23", visible_controls(text))


def shortened(text: str, limit: int = 100) -> str:
    """Return a text of at most so many characters; one that was cut ends in an ellipsis."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def counted(count: int, noun: str) -> str:
    """Return how many there are: ``1 event``, ``2,000 events``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def enumerated(names: Sequence[str], limit: int = 3) -> str:
    """Return the first of some names, and how many more there are: ``a, b and 2 more``."""
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return f"{', '.join(names[:limit])}{more}"


def visible_controls(text: str) -> str:
    """Return the same but for commands: a text that another program reads, and that must stay what it is for it."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def visible_lines(text: str, visible: Callable[[str], str] = visible) -> str:
    r"""Return a text whose lines are each :func:`visible`; ``\n`` and ``\t`` stay, ``\r\n`` ends a line too."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("\t".join(map(visible, line.split("\t"))) for line in lines)


def without_commands(text: str) -> str:
    """Return lines of which none is a workflow command of GitHub's, as which it takes ``::`` behind blanks, too."""
    return _AT_THE_START.sub(r"\1:\\x3a", text)


def safe_json(content: object, *, indent: int | None = None, default: Callable[[object], object] | None = None) -> str:
    """Return JSON in UTF-8 that a terminal and a CI runner take for nothing but text."""
    text = json.dumps(content, indent=indent, default=default, ensure_ascii=False)
    escaped = _CONTROLS.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)
    return _ANYWHERE.sub(r"#\\u0023", escaped)


def has_controls(text: str) -> bool:
    """Tell whether :func:`visible` would change the text."""
    return _CONTROLS.search(text) is not None
