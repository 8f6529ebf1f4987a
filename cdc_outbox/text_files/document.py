"""A text as plain data that still knows its lines, however it was written, and what is refused in any of them."""

import os
import pathlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from cdc_outbox.errors import ConfigError
from cdc_outbox.finding import Finding, Location, Severity

MAX_BYTES = 1_000_000
"""A page long is usual; a megabyte is a mistake."""
MAX_DEPTH = 64
"""A spec has six levels."""
_HALVES = re.compile(r"[\ud800-\udfff]")

Path = tuple[str | int, ...]

JsonValue: TypeAlias = Any
"""What JSON or YAML can express. Callers check its type."""

YAML_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
"""Small words that YAML reads as something else than text."""


class Span(NamedTuple):
    """Where in a text a key and its value stand, in characters; a list's item and the whole have an empty key."""

    key: int
    key_end: int
    value: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a text says, and where.

    Args:
        name: As findings call it, usually the file's name.
        lines: The line of each key or list item, from 1, by its path.
        spans: Where each stands in the text, by its path.
        findings: Why it could not be read; ``content`` is ``None`` then.
    """

    name: str
    content: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    spans: dict[Path, Span] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()

    def location(self, path: Path) -> Location:
        """Return where a path stands, or the nearest thing around it that has a line."""
        around = path
        while around and around not in self.lines:
            around = around[:-1]
        return Location(document=self.name, path=".".join(map(str, path)), line=self.lines.get(around))

    def error(self, code: str, path: Path, message: str, remedy: str = "") -> Finding:
        """Return an error at a path."""
        location = self.location(path)
        return Finding(code=code, severity=Severity.ERROR, location=location, message=message, remedy=remedy)


class RefusedTextError(ValueError):
    """A text says nothing that could be used.

    Args:
        message: Why, as a sentence.
        line: Where, from 1; ``None`` for the whole text.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def read_document(parse: Callable[[str, str], Document], text: str, *, name: str, code: str) -> Document:
    """Return the document that a text holds; a refusal becomes a finding, never an exception.

    Args:
        parse: Takes the text and its name, and raises :class:`RefusedTextError`.
        code: The finding's.
    """
    try:
        if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
            raise RefusedTextError(f"larger than {MAX_BYTES} bytes.")
        return parse(text, name)
    except RefusedTextError as refusal:
        location = Location(document=name, line=refusal.line)
        finding = Finding(code=code, severity=Severity.ERROR, location=location, message=str(refusal))
        return Document(name=name, findings=(finding,))


@dataclass(frozen=True, slots=True)
class Outline:
    """Where keys and values stand, as a reader comes to them from the beginning of a text."""

    lines: dict[Path, int] = field(default_factory=dict)
    spans: dict[Path, Span] = field(default_factory=dict)

    def add_key(self, path: Path, line: int) -> None:
        """Note a key; refuse one that stands twice beside each other: most parsers take the last one without a word."""
        if path in self.lines:
            raise RefusedTextError(f"the key {path[-1]!r} appears twice.", line)
        refuse_halves(str(path[-1]), line)
        self.lines[path] = line

    def add_value(self, path: Path, line: int) -> None:
        """Note the beginning of a value, whose key was noted before; refuse levels without end."""
        refuse_deep(len(path), line)
        self.lines.setdefault(path, line)


def refuse_halves(text: str, line: int) -> None:
    """Refuse half a surrogate pair, which neither a file nor a terminal takes."""
    if _HALVES.search(text):
        raise RefusedTextError("half a surrogate pair is no text.", line)


def refuse_deep(depth: int, line: int) -> None:
    """Refuse levels without end."""
    if depth > MAX_DEPTH:
        raise RefusedTextError(f"deeper than {MAX_DEPTH} levels.", line)


ALIKE = 0.6
"""How much of a word must match another one for that to be offered."""
ALIKE_OPTION = 0.85
"""The same of an option, whose parts occur in many."""


def did_you_mean(word: str, known: Iterator[str] | list[str], *, alike: float = ALIKE) -> str:
    """Return a sentence that offers the :func:`nearest` known word, empty where none is near."""
    near = nearest(word, known, alike=alike)
    return f"Did you mean {near!r}?" if near else ""


def suggestion(word: str, known: list[str], noun: str) -> str:
    """Return a hint for an unknown word: the nearest known word, if one is near, and all of them.

    Args:
        noun: What the words name, in the plural and capitalized: ``Targets``.
    """
    return f"{did_you_mean(word, known)} {noun}: {', '.join(known) or 'none'}.".strip()


def nearest(word: str, known: Iterator[str] | list[str], *, alike: float = ALIKE) -> str:
    """Return the nearest known word, empty where none is near.

    One that begins with the word is nearest: people leave out ends more often than they mistype beginnings.

    Args:
        alike: The least similarity of a word that is offered, up to 1.
    """
    words = list(known)
    longer = [each for each in words if len(word) > 2 and each.startswith(word)]  # two letters begin too much
    near = sorted(longer, key=len) or get_close_matches(word, words, n=1, cutoff=alike)
    return near[0] if near else ""


def text_of(file: BinaryIO) -> str:
    """Return what a file says, no more than is needed to see that it is too large; raises ``UnicodeDecodeError``."""
    octets = file.read(MAX_BYTES + 1)
    return octets.decode(errors="replace" if len(octets) > MAX_BYTES else "strict")


def read_text_file(path: os.PathLike[str], *, field: str = "", hint: str = "") -> str:
    """Return what a file says, no more than is needed to see that it is too large.

    Args:
        field: What named the file.
        hint: What to do where it cannot be read.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        with pathlib.Path(path).open("rb") as file:
            return text_of(file)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"{os.fspath(path)} cannot be read: {reason}", field=field, hint=hint) from error
