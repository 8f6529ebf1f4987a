"""What a check found: a code, a severity, a place and a remedy."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad a finding is."""

    ERROR = "error"
    """A promise of the pipeline breaks; deploy refuses."""
    WARNING = "warning"
    """It works, and will hurt."""
    NOTE = "note"
    """Worth knowing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """Where a finding points: a document, an object in it and, for a text, the line.

    Args:
        document: A file's name as the user gave it, ``database`` or ``connect``.
        path: What in it: ``outbox.table`` in a spec, ``public.outbox.payload`` in a database, an option's name.
        line: Counted from 1; ``None`` where lines mean nothing.
    """

    document: str
    path: str = ""
    line: int | None = None

    def __str__(self) -> str:
        line = f":{self.line}" if self.line is not None else ""
        path = f" {self.path}" if self.path else ""
        return f"{self.document}{line}{path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result of a check.

    Args:
        code: Stable across releases: two letters for the checked thing (``SP`` spec, ``DB`` database,
            ``CC`` connector config, ``OP`` what runs) and three digits.
        message: One sentence saying what is the case.
        remedy: One sentence saying what to do.
    """

    code: str
    severity: Severity
    location: Location
    message: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f" {self.remedy}" if self.remedy else ""
        return f"{self.location}: {self.severity} {self.code}: {self.message}{remedy}"


def errors_in(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings that stop a deployment."""
    return tuple(finding for finding in findings if finding.severity is Severity.ERROR)
