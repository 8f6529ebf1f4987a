"""Texts of others, made safe to show: on a terminal, in a log, in the comment of a script."""

import re

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0, DEL and C1, what ends a line, what turns the direction of writing, and halves of a surrogate pair."""


def visible(text: str) -> str:
    """Return a text in which nothing moves the cursor, ends the line or turns the direction."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def has_controls(text: str) -> bool:
    """Tell whether :func:`visible` would change the text."""
    return _CONTROLS.search(text) is not None
