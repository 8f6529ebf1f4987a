"""What the faults showed of a consumer's handlers."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from cdc_outbox.redaction import counted

_SHOWN = 3
"""How many rows of a difference are quoted: enough to recognise it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One way in which the handlers are not safe.

    Args:
        scenario: What happened to the consumer meanwhile.
        what: The failure that followed.
        remedy: What to do about it.
    """

    scenario: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.scenario}: {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """Something outside the database that happened more often than without the fault.

    Args:
        name: As it was given to the kit.
        times: How many times more.
    """

    name: str
    scenario: str
    times: int

    def __str__(self) -> str:
        return f"{self.name} happen again: {self.times} more times, for example in {self.scenario!r}"


@dataclass(slots=True, kw_only=True)
class FaultReport:
    """The result of :meth:`HandlerFaults.run`.

    Args:
        consumer: The consumer of the handlers.
        scenarios: The scenarios that ran, in order.
        skipped: Those that did not, with the reason.
        repetitions: Effects outside of the database that happened again; none of them is a problem by itself.
    """

    consumer: str
    scenarios: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    repetitions: list[Repetition] = field(default_factory=list)

    def raise_for_problems(self) -> None:
        """Fail the test if there are any.

        Raises:
            AssertionError: With all of them, and what to do about each.
        """
        if self.problems:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        verdict = "are not safe" if self.problems else "are safe"
        lines = [f"the handlers of {self.consumer} {verdict}: {counted(len(self.scenarios), 'scenario')}"]
        for remedy in dict.fromkeys(problem.remedy for problem in self.problems):
            lines += [f"- {problem}" for problem in self.problems if problem.remedy == remedy]
            lines.append(f"  → {remedy}")
        lines += [f"note: {note}" for note in (*self._worst, *(f"not tried: {why}" for why in self.skipped))]
        return "\n".join(lines)

    @property
    def _worst(self) -> list[Repetition]:
        """The most repetitions of each kind; all of them would bury it."""
        in_order = sorted(self.repetitions, key=lambda repetition: repetition.times)
        return list({repetition.name: repetition for repetition in in_order}.values())


def difference(expected: Iterable[object], actual: Iterable[object]) -> str | None:
    """Return how rows differ from those that were expected, in whatever order; ``None`` where they do not."""
    wanted, found = Counter(map(repr, expected)), Counter(map(repr, actual))
    sides = {"are missing": wanted - found, "are surplus": found - wanted}
    said = [f"{rows.total()} {side}: {_quoted(rows)}" for side, rows in sides.items() if rows]
    return "; ".join(said) or None


def _quoted(rows: Counter[str]) -> str:
    shown = list(rows.elements())
    return ", ".join(shown[:_SHOWN]) + (", …" if len(shown) > _SHOWN else "")
