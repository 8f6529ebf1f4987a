r"""Java's regular expressions, as far as Python reads them alike.

What Python would read otherwise (``[a-z&&[^b]]``, ``\p{Alpha}``) or could ponder for hours is not judged: a rule that
does not know says nothing.
"""

import re
import warnings
from functools import cache

_OTHERWISE = re.compile(r"\\[pPhHVRXQEGkzZuxcNe0]|&&|\(\?[-imsdux]+[:)-]|\(\?>|\(\?<[=!]|[+*?}]\+|\[\^?\[")
_ENDLESS = re.compile(r"[+*}|][^()]*\)[+*{]")
"""A repeated group that repeats or chooses inside: a few dozen characters may keep it busy for ever."""
_LONGEST = 1_000
_GROUP = re.compile(r"\(\?<([A-Za-z][A-Za-z0-9]*)>")
_CLASS_TOKEN = re.compile(r"\\.|[\[\]]", re.DOTALL)
_PLAIN = re.compile(r"(?:[\w.\- ]|\\[^A-Za-z0-9])+")


class Unreadable(ValueError):  # noqa: N818 - a verdict
    """Java refuses the expression."""


@cache
def compiled(pattern: str, *, ignores_case: bool = False) -> re.Pattern[str] | None:
    """Return a pattern that matches as Java's does, ``None`` where that is not known.

    Args:
        ignores_case: As Debezium does in its lists; the predicates of Connect do not.

    Raises:
        Unreadable: Java refuses it too.
    """
    if _unclosed(pattern):
        raise Unreadable("a class of characters is not closed")
    if "(?P" in pattern:
        raise Unreadable("a group's name is written (?<name>…) in Java")
    if len(pattern) > _LONGEST or _OTHERWISE.search(pattern):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = re.compile(_GROUP.sub(r"(?P<\1>", pattern), re.IGNORECASE if ignores_case else re.NOFLAG)
    except (re.error, OverflowError, RecursionError) as error:
        raise Unreadable(getattr(error, "msg", "it cannot be read")) from error
    return None if _ENDLESS.search(pattern) else found


def matches(pattern: str, text: str, *, ignores_case: bool = False) -> bool | None:
    """Tell whether a pattern matches a whole text, ``None`` where that is not known."""
    try:
        found = compiled(pattern, ignores_case=ignores_case)
    except Unreadable:
        return None
    return None if found is None else bool(found.fullmatch(text))


def groups(pattern: str) -> tuple[set[str], int] | None:
    """Return a pattern's named groups and how many groups it has, ``None`` where that is not known."""
    try:
        found = compiled(pattern)
    except Unreadable:
        return None
    return None if found is None else (set(found.groupindex), found.groups)


def literal(pattern: str) -> str | None:
    """Return the one name that a pattern is written for, ``None`` if it is written for several.

    An unescaped dot counts as a dot: that is what whoever wrote ``public.outbox`` meant.
    """
    return re.sub(r"\\(.)", r"\1", pattern) if _PLAIN.fullmatch(pattern) else None


def _unclosed(pattern: str) -> bool:
    """Tell whether a class of characters stays open; Java nests them, Python does not."""
    depth = 0
    for token in _CLASS_TOKEN.finditer(pattern):
        if token[0] == "[":
            depth += 1
        elif token[0] == "]" and depth and not _is_first(pattern, token.start()):
            depth -= 1
    return depth > 0


def _is_first(pattern: str, at: int) -> bool:
    return pattern[at - 1] == "[" or pattern[max(at - 2, 0) : at] == "[^"
