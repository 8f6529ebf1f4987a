"""Java's replacement texts: ``$1`` and ``${name}`` stand for groups, and a backslash escapes a character. Pure."""

import re
from functools import lru_cache
from typing import NamedTuple

_PART = re.compile(
    r"\\(?P<escaped>.)|\$\{(?P<name>[^}]*)\}|\$(?P<digits>[0-9]+)|(?P<text>[^\\$]+)|(?P<malformed>[\\$])", re.DOTALL
)
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")


class ReplacementPart(NamedTuple):
    """Characters as they are, the reference to a group, or a character with which Java refuses the whole text.

    Args:
        text: The characters; empty for a group.
        group: The group's name or number; ``None`` for characters.
        is_malformed: Whether ``text`` is a dollar sign without a group, or a backslash without a character.
    """

    text: str = ""
    group: str | int | None = None
    is_malformed: bool = False

    @property
    def is_misnamed(self) -> bool:
        """Whether no group can have this name."""
        return isinstance(self.group, str) and not _NAME.fullmatch(self.group)


@lru_cache(maxsize=256)
def read_replacement(replacement: str, groups: int = 0) -> tuple[ReplacementPart, ...]:
    """Return what a replacement text consists of.

    Args:
        groups: How many groups the expression has: as many digits as there are groups for name one, the first digit in
            any case.
    """
    parts: list[ReplacementPart] = []
    for found in _PART.finditer(replacement):
        if found["name"] is not None:
            parts.append(ReplacementPart(group=found["name"]))
        elif digits := found["digits"]:
            length = 1
            while length < len(digits) and int(digits[: length + 1]) <= groups:
                length += 1
            parts.append(ReplacementPart(group=int(digits[:length])))
            parts += [ReplacementPart(digits[length:])] if digits[length:] else []
        else:
            text = found["escaped"] or found["text"] or found["malformed"]
            parts.append(ReplacementPart(text, is_malformed=found["malformed"] is not None))
    return tuple(parts)
