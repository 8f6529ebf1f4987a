r"""Java's regular expressions, as far as they can be judged.

What Python would read otherwise (``[a-z&&[^b]]``, ``\p{Alpha}``), or takes too many steps to match, is not judged: a
rule that does not know says nothing.
"""

import re
from functools import lru_cache

from cdc_outbox.debezium.event_router.java_regex import InvalidRegexError, UnknownRegexError, translated
from cdc_outbox.debezium.event_router.regex_program import Atom, Mark, Pattern, SpentError
from cdc_outbox.errors import ConfigError

_ANCHORED = re.compile(r"\^?((?:[\w.,\- ]|\\[^A-Za-z0-9])+)\$?")


def compiled(pattern: str, *, ignores_case: bool = False) -> Pattern | None:
    """Return a pattern that matches as Java's does, ``None`` where that is not known.

    Args:
        ignores_case: As Debezium does in its lists; the predicates of Connect do not.

    Raises:
        InvalidRegexError: Java refuses it.
    """
    try:
        return translated(pattern, re.IGNORECASE if ignores_case else re.NOFLAG)
    except (UnknownRegexError, SpentError):
        return None


def matches(pattern: str, text: str, *, ignores_case: bool = False) -> bool | None:
    """Tell whether a pattern matches a whole text, ``None`` where that is not known."""
    try:
        return _matches(pattern, text, ignores_case=ignores_case)
    except SpentError:
        return None  # now: with another configuration there may be time for it


@lru_cache(maxsize=4096)
def _matches(pattern: str, text: str, *, ignores_case: bool) -> bool | None:
    try:
        return bool(translated(pattern, re.IGNORECASE if ignores_case else re.NOFLAG).fullmatch(text))
    except SpentError:
        raise
    except (InvalidRegexError, UnknownRegexError, ConfigError):
        return None


def only_text(pattern: str) -> str | None:
    """Return the one text that a pattern matches, ``None`` if it matches several, none, or that is not known."""
    try:
        found = compiled(pattern)
    except InvalidRegexError:
        return None
    if found is None or not all(isinstance(step, Atom | Mark) for step in found.program):
        return None
    written = [step.pattern.pattern for step in found.program if isinstance(step, Atom)]
    is_plain = all(re.escape(each[-1]) == each for each in written)
    return "".join(each[-1] for each in written) if written and is_plain else None


def groups(pattern: str) -> tuple[set[str], int] | None:
    """Return a pattern's named groups and how many groups it has, ``None`` where that is not known."""
    try:
        found = compiled(pattern)
    except InvalidRegexError:
        return None
    return None if found is None else (set(found.names), found.groups)


def literal(pattern: str) -> str | None:
    """Return the one name that a pattern is written for, ``None`` if it is written for several.

    An unescaped dot counts as a dot: that is what the author of ``public.outbox`` meant. Anchors at its ends change
    nothing, for whole names are compared.
    """
    found = _ANCHORED.fullmatch(pattern)
    return None if found is None else re.sub(r"\\(.)", r"\1", found[1])
