"""Java's regular expressions in bounded time: a backtracking matcher that goes from no place of a text twice.

Python's own engine tries every way to divide a text between repetitions, and a few dozen characters keep it busy for
years. Nothing here depends on what a group has captured, so what failed once at an instruction and a place of the text
fails there again: a search takes no more steps than the program has instructions times the text has characters.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from cdc_outbox.debezium.java_replacement import ReplacementPart, read_replacement
from cdc_outbox.errors import ConfigError, RoutingError

_MOST_STEPS = 100_000
"""About a tenth of a second; a long text, or one that is looked ahead of at each place, needs more."""


@dataclass(slots=True)
class Allowance:
    """The steps that several searches may take together."""

    steps: int

    @property
    def is_spent(self) -> bool:
        """Whether a search was given up for it, or will be."""
        return self.steps <= 0


_ALLOWANCE: ContextVar[Allowance | None] = ContextVar("_ALLOWANCE", default=None)


class UnknownRegexError(ConfigError):
    """What Java makes of an expression is not known: it is read differently here, or takes too many steps."""


class SpentError(UnknownRegexError):
    """A search was given up because those before it took the steps that all of them may take together."""


@contextmanager
def limited(steps: int) -> Iterator[Allowance]:
    """Let all searches within take so many steps together; the next one raises :class:`SpentError`."""
    allowance = Allowance(steps)
    token = _ALLOWANCE.set(allowance)
    try:
        yield allowance
    finally:
        _ALLOWANCE.reset(token)


@dataclass(frozen=True, slots=True)
class Atom:
    """Match one character, or a place between two."""

    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Fork:
    """Continue at the first instruction, and if that fails at the second; both are relative to this one."""

    first: int
    second: int


@dataclass(frozen=True, slots=True)
class Jump:
    """Continue at another instruction, relative to this one."""

    offset: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Remember the place as the start or the end of a group."""

    slot: int


@dataclass(frozen=True, slots=True)
class Look:
    """Continue if a program matches from here, or, negated, if it does not."""

    program: "Program"
    is_negated: bool


Instruction = Atom | Fork | Jump | Mark | Look
Program = tuple[Instruction, ...]
Marks = tuple[int, int, "Marks"] | None
"""Slot and place of the last mark, and the marks before it."""


def spend(steps: int) -> None:
    """Take steps from what all searches may take together; raises :class:`SpentError` where none are left."""
    allowance = _ALLOWANCE.get()
    if allowance is None:
        return
    if allowance.is_spent:
        raise SpentError("the regular expressions take too many steps together")
    allowance.steps -= steps


def either(first: Program, second: Program) -> Program:
    """Return the program of two alternatives, the first of which is tried first."""
    return (Fork(1, len(first) + 2), *first, Jump(len(second) + 1), *second)


def at_most(most: int, program: Program, *, is_lazy: bool) -> Program:
    """Return the program that matches so many times, or fewer, or not at all."""
    repeated: list[Instruction] = []
    for left in range(most, 0, -1):
        repeated += [_fork(1, left * (len(program) + 1), is_lazy=is_lazy), *program]
    return tuple(repeated)


def any_number(program: Program, *, is_lazy: bool) -> Program:
    """Return the program that matches again and again; each time it matches at least one character."""
    return (_fork(1, len(program) + 2, is_lazy=is_lazy), *program, Jump(-len(program) - 1))


def _fork(inside: int, behind: int, *, is_lazy: bool) -> Fork:
    return Fork(behind, inside) if is_lazy else Fork(inside, behind)


@dataclass(frozen=True, slots=True)
class Match:
    """Where a regular expression matched, and its groups."""

    text: str
    start: int
    end: int
    positions: Mapping[int, int]
    names: Mapping[str, int]

    def __getitem__(self, group: int | str) -> str | None:
        number = self.names[group] if isinstance(group, str) else group
        if number == 0:
            return self.text[self.start : self.end]
        start, end = self.positions.get(2 * number), self.positions.get(2 * number + 1)
        return None if start is None or end is None else self.text[start:end]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression.

    Args:
        program: What it is made of.
        groups: How many groups capture.
        names: The numbers of the groups that have names.
    """

    program: Program
    groups: int
    names: Mapping[str, int]

    def fullmatch(self, text: str) -> Match | None:
        """Return the match of a whole text; raises :class:`UnknownRegexError` where that takes too many steps."""
        return self._match(text, [0], is_whole=True)

    def search(self, text: str) -> Match | None:
        """Return the first match within a text; raises :class:`UnknownRegexError` where that takes too many steps."""
        return self._match(text, range(len(text) + 1), is_whole=False)

    def replace_first(self, text: str, replacement: str) -> str:
        """Replace the first match as Java's ``Matcher.replaceFirst`` does.

        Raises:
            RoutingError: The replacement is malformed, or names a group that the expression does not have.
            UnknownRegexError: The search takes too many steps.
        """
        match = self.search(text)
        if match is None:
            return text
        parts = read_replacement(replacement, self.groups)
        expanded = "".join(self._expanded(match, part) for part in parts)
        return text[: match.start] + expanded + text[match.end :]

    def _expanded(self, match: Match, part: ReplacementPart) -> str:
        group = part.group
        if part.is_malformed:
            is_escape = part.text == "\\"
            raise _bad_replacement(
                "the character to be escaped is missing" if is_escape else "a dollar sign names no group"
            )
        if group is None:
            return part.text
        if part.is_misnamed:
            raise _bad_replacement("a group's name is malformed")
        if isinstance(group, str) and group not in self.names:
            raise _bad_replacement(f"there is no group {group!r}")
        if isinstance(group, int) and group > self.groups:
            raise RoutingError(f"the topic's replacement: no group {group}", exception="IndexOutOfBoundsException")
        return match[group] or ""

    def _match(self, text: str, starts: Sequence[int], *, is_whole: bool) -> Match | None:
        spend(0)
        steps = [_MOST_STEPS]
        search = _Search(self.program, text, is_whole=is_whole, steps=steps)
        try:
            for start in starts:
                found = search.match(start)
                if found is not None:
                    end, marks = found
                    return Match(text, start, end, _positions(marks), self.names)
            return None
        finally:
            allowance = _ALLOWANCE.get()
            if allowance is not None:
                allowance.steps -= _MOST_STEPS - steps[0]


def _bad_replacement(reason: str) -> RoutingError:
    return RoutingError(f"the topic's replacement: {reason}", exception="IllegalArgumentException")


def _positions(marks: Marks) -> Mapping[int, int]:
    """Return the last place of each slot."""
    positions: dict[int, int] = {}
    while marks is not None:
        slot, position, marks = marks
        positions.setdefault(slot, position)
    return positions


class _Search:
    """One program on one text, and where it has been."""

    def __init__(self, program: Program, text: str, *, steps: list[int], is_whole: bool = False) -> None:
        self.text = text
        self._program = program
        self._is_whole = is_whole
        self._seen: set[tuple[int, int]] = set()
        # Shared with the programs that look ahead.
        self._steps = steps

    def match(self, start: int, marks: Marks = None) -> tuple[int, Marks] | None:
        """Return where a match from here ends, and its marks."""
        ways = [(0, start, marks)]
        while ways:
            found = self._follow(*ways.pop(), ways)
            if found is not None:
                return found
        return None

    def _follow(
        self, at: int, position: int, marks: Marks, ways: list[tuple[int, int, Marks]]
    ) -> tuple[int, Marks] | None:
        """Follow one way to its end; the other ways that it passes are added."""
        while self._is_new(at, position):
            if at == len(self._program):
                return (position, marks) if position == len(self.text) or not self._is_whole else None
            match self._program[at]:
                case Atom(pattern):
                    found = pattern.match(self.text, position)
                    if found is None:
                        return None
                    at, position = at + 1, found.end()
                case Fork(first, second):
                    ways.append((at + second, position, marks))
                    at += first
                case Jump(offset):
                    at += offset
                case Mark(slot):
                    at, marks = at + 1, (slot, position, marks)
                case Look(program, is_negated):
                    ahead = _Search(program, self.text, steps=self._steps).match(position, marks)
                    if (ahead is None) is not is_negated:
                        return None
                    at, marks = at + 1, marks if ahead is None else ahead[1]
        return None

    def _is_new(self, at: int, position: int) -> bool:
        """Return whether no way has come here before, and count the step; what came here has failed."""
        if (at, position) in self._seen:
            return False
        self._seen.add((at, position))
        self._steps[0] -= 1
        if self._steps[0] < 0:
            raise UnknownRegexError(
                f"the regular expression takes too many steps for a text of {len(self.text)} characters",
                hint="Simplify the expression.",
            )
        return True
