"""Merge the findings of several sources into one list that contains each cause once. Pure.

Two sources may report the same problem, and one cause may have several codes. The list keeps:

- For a code at a location: the most severe finding, and of equally severe ones that of the first source. One source
  may report a code at a location several times, such as two settings of a topic.
- For a cause and its consequences: the cause, by :data:`_RULES`.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from cdc_outbox.finding import Finding, Location, Severity

_SEVERITIES = list(Severity)


def merge(*sources: Iterable[Finding]) -> list[Finding]:
    """Return the findings of several sources, in their order, each cause once.

    Args:
        sources: The more detailed source first.
    """
    found = _without_repetitions(sources)
    return [
        finding
        for finding in found
        if finding.code not in _RULES or not any(_follows(finding, cause) for cause in found)
    ]


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, the most severe first; equally severe ones keep their order."""
    return sorted(findings, key=_rank)


def _rank(finding: Finding) -> int:
    return _SEVERITIES.index(finding.severity)


def _without_repetitions(sources: Iterable[Iterable[Finding]]) -> list[Finding]:
    numbered = [(number, finding) for number, source in enumerate(sources) for finding in source]
    best: dict[tuple[str, Location], tuple[int, int]] = {}
    for number, finding in numbered:
        rank = (_rank(finding), number)
        best[_key(finding)] = min(rank, best.get(_key(finding), rank))
    return [finding for number, finding in numbered if number == best[_key(finding)][1]]


def _key(finding: Finding) -> tuple[str, Location]:
    return finding.code, finding.location


def _follows(finding: Finding, cause: Finding) -> bool:
    """Return whether a finding is a consequence of another one."""
    return any(cause.code.startswith(rule.cause) and rule.holds(finding, cause) for rule in _RULES[finding.code])


class _Rule(NamedTuple):
    """The condition under which a finding is a consequence of another one.

    Args:
        cause: The code of the other finding, or its beginning.
    """

    cause: str
    holds: Callable[[Finding, Finding], bool] = lambda _finding, _cause: True


def _same_location(finding: Finding, cause: Finding) -> bool:
    return finding.location == cause.location


def _hole_of_slot(finding: Finding, cause: Finding) -> bool:
    return finding.location == cause.location and cause.severity is Severity.ERROR


def _of_connect(_finding: Finding, cause: Finding) -> bool:
    return cause.location.document == "connect"


def _refutable(finding: Finding, cause: Finding) -> bool:
    """Return whether the offset of a Connect that does not respond may show that a hole does not exist."""
    return cause.location.document == "connect" and finding.severity is Severity.WARNING


def _same_remedy(finding: Finding, cause: Finding) -> bool:
    return finding.remedy != "" and finding.remedy == cause.remedy


def _same_override(finding: Finding, cause: Finding) -> bool:
    return cause.severity is Severity.ERROR and cause.location.path == f"overrides.{finding.location.path}"


_RULES = {
    # Lint reported it with its line in the spec, or a failed task reported it.
    "CC001": (_Rule("CC", _same_override), _Rule("OP202", _same_remedy)),
    # The table is missing in the wrong database, or has a wrong name in the spec: init must not create it.
    "DB301": (_Rule("DB101"), _Rule("OP208")),
    "DB401": (_Rule("DB101"),),
    # A type that the connector does not support is not init's type either.
    "DB311": (_Rule("DB304", _same_location),),
    # Consequences of a column or a key that differs from init's.
    "DB315": (_Rule("DB306", _same_location),),
    "DB316": (_Rule("DB308", _same_location),),
    # The hole names the lost slot and its lost events.
    "DB505": (_Rule("DB511", _hole_of_slot), _Rule("DB512", _hole_of_slot)),
    "DB511": (_Rule("OP101", _refutable),),
    # The connector cannot read the slot.
    "OP206": (_Rule("DB504", _same_location),),
    # Without a connector there are no offsets; without an answer of Connect they are not known.
    "DB601": (_Rule("OP201"), _Rule("OP101", _of_connect), _Rule("OP102", _of_connect)),
}
"""The possible causes of each code. A new code for a known cause needs an entry here."""
