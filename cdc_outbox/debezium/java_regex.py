r"""Java's regular expressions: a subset that is the same here, and a refusal of the rest.

The subset: characters; ``.``, ``^``, ``$``, ``\A``, ``\z``; ``\d \w \s`` and their opposites; ``\t \n \r \f
\a \e``, ``\xhh``, ``\uhhhh``, ``\Q…\E`` and escaped punctuation; ``[…]`` of characters, ranges and those escapes;
groups that capture, by number or ``(?<name>…)``, that do not, ``(?:…)``, and that look ahead, ``(?=…)`` and ``(?!…)``;
alternatives; and ``* + ? {n} {n,} {n,m}``, also reluctant, behind what matches at least one character; and ``{n}``
behind nothing, which Java reads as a repetition of the empty text.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from cdc_outbox.debezium.regex_program import (
    Atom,
    Instruction,
    Look,
    Mark,
    Pattern,
    Program,
    SpentError,
    UnknownRegexError,
    any_number,
    at_most,
    either,
    spend,
)

_ANY = "[^\n\r\u0085\u2028\u2029]"
_END = "(?:(?=\r\n\\Z)|(?<!\r)(?=\n\\Z)|(?=[\r\u0085\u2028\u2029]\\Z)|\\Z)"
"""Java's ``$``: at the end, or before one last line break of any kind, but never within ``\\r\\n``."""
_START = "\\A"
_ATOMS = {".": (_ANY, False), "^": (_START, True), "$": (_END, True)}
"""In Python's words, and whether they match nothing but a place."""
_CLASSES = frozenset("dDwWsS")
"""Escapes that stand for several characters: only of ASCII in Java, and in Python with ``re.ASCII``."""
_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_MOST_REPETITIONS = 1000
"""Beyond it the two fail in different ways; a topic's name has at most 249 characters."""
_LONGEST = 1000
_MOST_INSTRUCTIONS = 3_000
"""Of all repetitions: those within repetitions multiply."""
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_PLAIN = re.compile(r"(?:[\w.,\- ]|\\[^A-Za-z0-9])+")
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")
_NO_ESCAPES = frozenset("CFIJKLMOTUYgijlmoqy")
"""Letters that Java refuses behind a backslash, within a set and outside."""
_HEX = {"x": 2, "u": 4}
_AROUND_NAMES = frozenset("\"'`<>")
"""SQL quotes a name so, and an example asks for one: Debezium compares names without any of these."""
_SURROGATES = range(0xD800, 0xE000)


class InvalidRegexError(ValueError):
    """Java refuses the expression."""


def read_regex(regex: str, *, ignores_case: bool = False) -> Pattern:
    """Return an expression that matches as Java's does.

    Args:
        ignores_case: As Debezium does in its lists, by Java's ``CASE_INSENSITIVE``; Connect's predicates do not.

    Raises:
        InvalidRegexError: Java refuses it.
        UnknownRegexError: It is outside the subset.
    """
    return _read(regex, re.IGNORECASE if ignores_case else re.NOFLAG)


@lru_cache(maxsize=1024)
def _read(regex: str, flags: re.RegexFlag) -> Pattern:
    if len(regex) > _LONGEST:
        raise UnknownRegexError("an expression of this length")
    spend(50 * len(regex))  # which take as long as reading it, at most
    try:
        return _Translation(regex, re.ASCII | flags).translate()
    except RecursionError as error:
        raise UnknownRegexError("groups nested this deeply") from error


def refusal(regex: str, *, ignores_case: bool = False) -> str:
    """Return why Java refuses an expression, empty where it takes it, or where that is not known."""
    try:
        read_regex(regex, ignores_case=ignores_case)
    except InvalidRegexError as error:
        return str(error)
    except UnknownRegexError:
        pass
    return ""


def matches(regex: str, text: str, *, ignores_case: bool = False) -> bool | None:
    """Return whether an expression matches a whole text, ``None`` where that is not known."""
    try:
        return _matches(regex, text, ignores_case=ignores_case)
    except (InvalidRegexError, UnknownRegexError):
        return None


@lru_cache(maxsize=4096)
def _matches(regex: str, text: str, *, ignores_case: bool) -> bool | None:
    try:
        return read_regex(regex, ignores_case=ignores_case).fullmatch(text) is not None
    except SpentError:
        raise  # now: with another configuration there may be time for it
    except (InvalidRegexError, UnknownRegexError):
        return None


def only_text(regex: str) -> str | None:
    """Return the one text that an expression matches, ``None`` if it matches several, none, or that is not known."""
    return _text(regex, {})


def literal(regex: str) -> str | None:
    """Return the one name that an expression is written for, ``None`` if it is written for several.

    An unescaped dot counts as a dot: that is what the author of ``public.outbox`` meant.
    """
    if _PLAIN.fullmatch(regex):  # as most are: a list of thousands takes no step that comparing them needs
        return re.sub(r"\\(.)", r"\1", regex)
    name = _text(regex, {_ANY: "."})
    return None if name is None or _AROUND_NAMES & set(name) else name


def _text(regex: str, meant: Mapping[str, str]) -> str | None:
    """Return the characters that an expression is made of; anchors at its ends change nothing about a whole text."""
    try:
        program = read_regex(regex, ignores_case=True).program  # as lists are read, so that each is read once
    except (InvalidRegexError, UnknownRegexError):
        return None
    if not all(isinstance(step, Atom | Mark) for step in program):
        return None
    atoms = [step.pattern.pattern for step in program if isinstance(step, Atom)]
    atoms = atoms[atoms[:1] == [_START] : len(atoms) - (atoms[-1:] == [_END])]
    is_plain = all(atom in meant or atom == re.escape(atom[-1]) for atom in atoms)
    return "".join(meant.get(atom, atom[-1]) for atom in atoms) if atoms and is_plain else None


@dataclass
class _Translation:
    """Reads Java's expression from left to right."""

    regex: str
    flags: re.RegexFlag
    position: int = 0
    groups: int = 0
    repeated: int = 0
    names: dict[str, int] = field(default_factory=dict)

    def translate(self) -> Pattern:
        program, _ = self._alternatives()
        if self.position < len(self.regex):
            raise InvalidRegexError("a closing parenthesis without its opening one")
        return Pattern(program, self.groups, self.names)

    def _peek(self, length: int = 1) -> str:
        return self.regex[self.position : self.position + length]

    def _take(self, length: int = 1) -> str:
        taken = self._peek(length)
        self.position += length
        return taken

    def _alternatives(self) -> tuple[Program, bool]:
        """Return a whole group's content, and whether it can match nothing."""
        alternatives = [self._sequence()]
        while self._peek() == "|":
            self._take()
            alternatives.append(self._sequence())
        *others, (program, _) = alternatives
        for other, _ in reversed(others):
            program = either(other, program)
        return program, any(is_empty for _, is_empty in alternatives)

    def _sequence(self) -> tuple[Program, bool]:
        program: list[Instruction] = []
        is_empty = True
        while self._peek() not in {"", "|", ")"}:
            if self._peek() == "{":
                self._repeated((), is_empty=False)  # of the empty text
                continue
            atom, atom_is_empty = self._atom()
            repeated, makes_empty = self._repeated(atom, is_empty=atom_is_empty)
            program += repeated
            is_empty = is_empty and (atom_is_empty or makes_empty)
        return tuple(program), is_empty

    def _atom(self) -> tuple[Program, bool]:
        match self._take():
            case "(":
                return self._parenthesis()
            case "[":
                return self._one(self._bracket()), False
            case character if character in _ATOMS:
                translated, is_empty = _ATOMS[character]
                return self._one(translated), is_empty
            case "\\":
                return self._escape()
            case "*" | "+" | "?":
                raise InvalidRegexError("a repetition of nothing")
            case character:
                return self._one(re.escape(character)), False

    def _one(self, translated: str) -> Program:
        """Return the program of one character, or one place."""
        return (Atom(re.compile(translated, self.flags)),)

    def _parenthesis(self) -> tuple[Program, bool]:
        kind = self._group_kind()
        if kind == "(":
            self.groups += 1
        slot = 2 * self.groups
        program, is_empty = self._alternatives()
        if self._take() != ")":
            raise InvalidRegexError("a group that is not closed")
        match kind:
            case "(":
                return (Mark(slot), *program, Mark(slot + 1)), is_empty
            case ":":
                return program, is_empty
            case _:
                return (Look(program, is_negated=kind == "!"),), True

    def _group_kind(self) -> str:
        """Return ``(`` if the group captures, ``:`` if it does not, ``=`` or ``!`` if it looks ahead."""
        if self._peek() != "?":
            return "("
        self._take()
        match self._take():
            case ":" | "=" | "!" as kind:
                return kind
            case "<" if self._peek() not in {"=", "!"}:
                self.names[self._name()] = self.groups + 1
                return "("
            case "":
                raise InvalidRegexError("a group that is not closed")
            case "P":
                raise InvalidRegexError("a group's name is written (?<name>…) in Java")
            case _:
                raise UnknownRegexError("a group of this kind")

    def _name(self) -> str:
        name = _NAME.match(self.regex, self.position)
        if not name or self.regex[name.end() : name.end() + 1] != ">":
            raise InvalidRegexError("a group's name is malformed")
        if name[0] in self.names:
            raise InvalidRegexError(f"two groups of the name {name[0]}")
        self.position = name.end() + 1
        return name[0]

    def _escape(self) -> tuple[Program, bool]:
        match self._peek():
            case "A" | "z" as anchor:
                self._take()
                return self._one("\\A" if anchor == "A" else "\\Z"), True
            case "Q":
                self._take()
                self._unquote()
                return self._atom()
            case kind if kind in _CLASSES:
                return self._one(f"\\{self._take()}"), False
            case _:
                return self._one(re.escape(self._character())), False

    def _unquote(self) -> None:
        r"""Escape what stands between ``\Q`` and ``\E``; a repetition behind it is of the last character."""
        text, _, rest = self.regex[self.position :].partition("\\E")
        if not text:
            raise UnknownRegexError("a quotation of nothing")
        self.regex, self.position = _PUNCTUATION.sub(r"\\\g<0>", text) + rest, 0

    def _character(self) -> str:
        """Return the character that is meant behind a backslash."""
        match self._take():
            case "":
                raise InvalidRegexError("a backslash at the end")
            case kind if kind in _CHARACTERS:
                return _CHARACTERS[kind]
            case kind if kind in _HEX:
                digits = self._take(_HEX[kind])
                if not re.fullmatch(f"[0-9a-fA-F]{{{_HEX[kind]}}}", digits) or int(digits, 16) in _SURROGATES:
                    raise UnknownRegexError(f"\\{kind} with these digits")
                return chr(int(digits, 16))
            case kind if not (kind.isascii() and kind.isalnum()):
                return kind
            case kind if kind in _NO_ESCAPES:
                raise InvalidRegexError(f"\\{kind} means nothing")
            case kind:
                raise UnknownRegexError(f"\\{kind}")

    def _bracket(self) -> str:
        opening = self.position
        negation = self._take() if self._peek() == "^" else ""
        items: list[str] = []
        while self._peek() != "]":
            # Java unites, intersects and subtracts sets; Python takes the signs for characters.
            if self._peek() == "[" or self._peek(2) == "&&" or self._peek(2) == "--":
                raise self._refuse_bracket(opening)
            items.append(self._item(opening))
        if not items:
            raise self._refuse_bracket(opening)
        self._take()
        return f"[{negation}{''.join(items)}]"

    def _item(self, opening: int) -> str:
        """Return a character, a range, or an escape that stands for several characters."""
        if self._peek() == "\\" and self._peek(2)[1:] in _CLASSES:
            kind = self._take(2)
            if self._peek() == "-" and self._peek(2) != "-]":
                raise self._refuse_bracket(opening)
            return kind
        first = self._bracket_character()
        if self._peek() != "-" or self._peek(2) == "-]":
            return _in_class(first)
        self._take()
        if self._peek() in {"[", "-"} or (self._peek() == "\\" and self._peek(2)[1:] in _CLASSES):
            raise self._refuse_bracket(opening)
        last = self._bracket_character()
        if last < first:
            raise InvalidRegexError("a range that ends before it begins")
        return f"{_in_class(first)}-{_in_class(last)}"

    def _bracket_character(self) -> str:
        match self._take():
            case "":
                raise InvalidRegexError("a set that is not closed")
            case "\\":
                if self._peek() in {"Q", "E"}:
                    raise UnknownRegexError("a quotation in a set")
                return self._character()
            case character:
                return character

    def _refuse_bracket(self, opening: int) -> ValueError:
        """Return the error of a set that Python reads otherwise, or that is malformed."""
        depth, position = 1, opening
        while depth and position < len(self.regex):
            position += 1 if self.regex[position] == "\\" else 0
            depth += {"[": 1, "]": -1}.get(self.regex[position : position + 1], 0)
            position += 1
        if depth:
            return InvalidRegexError("a set that is not closed")
        return UnknownRegexError("a set within a set, or an empty one")

    def _repeated(self, atom: Program, *, is_empty: bool) -> tuple[Program, bool]:
        """Return an atom with the repetition that follows it, and whether that makes nothing of something."""
        match self._peek():
            case "{":
                least, most = self._counted()
            case "*" | "+" | "?" as sign:
                self._take()
                least, most = int(sign == "+"), 1 if sign == "?" else None
            case _:
                return atom, False
        is_lazy = self._peek() == "?" and bool(self._take())
        if self._peek() == "+":
            raise UnknownRegexError("a possessive repetition")
        if self._peek() and self._peek() in "*?":
            raise InvalidRegexError("a repetition of a repetition")
        if is_empty:
            raise UnknownRegexError("a repetition of what can match nothing")
        self.repeated += len(atom) * max(least, most or 0)
        if self.repeated > _MOST_INSTRUCTIONS:
            raise UnknownRegexError("this many repetitions")
        if most is None:
            return atom * least + any_number(atom, is_lazy=is_lazy), least == 0
        return atom * least + at_most(most - least, atom, is_lazy=is_lazy), least == 0

    def _counted(self) -> tuple[int, int | None]:
        counted = re.compile(r"\{([0-9]+)(,([0-9]*))?\}").match(self.regex, self.position)
        if not counted:
            raise InvalidRegexError("a malformed number of repetitions")
        least, most = int(counted[1]), int(counted[3]) if counted[3] else None
        if most is not None and most < least:
            raise InvalidRegexError("repetitions that end before they begin")
        if max(least, most or 0) > _MOST_REPETITIONS:
            raise UnknownRegexError("this many repetitions")
        self.position = counted.end()
        return least, most if counted[2] else least


def _in_class(character: str) -> str:
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"
