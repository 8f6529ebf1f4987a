"""Findings of a preflight, located in the database."""

from collections.abc import Iterator

from cdc_outbox.finding import Finding, Location, Severity

UUID_LENGTH = 36
"""Length of the ids that the writer generates."""
MAKE_TABLE = "Run `cdc-outbox init`, or correct the spec."


def error(code: str, path: str, message: str, remedy: str) -> Finding:
    """Return a finding about a problem that loses events or prevents their delivery."""
    return _finding(Severity.ERROR, code, path, message, remedy)


def warning(code: str, path: str, message: str, remedy: str) -> Finding:
    """Return a finding about a problem that works now and causes trouble later."""
    return _finding(Severity.WARNING, code, path, message, remedy)


def note(code: str, path: str, message: str, remedy: str) -> Finding:
    """Return a finding that is worth knowing, such as a check that did not run."""
    return _finding(Severity.NOTE, code, path, message, remedy)


def another_database(found: str, wanted: str) -> Iterator[Finding]:
    """Yield a finding if this is another database than the spec's; a name that the worker resolves is not compared."""
    if found != wanted and not wanted.startswith("${"):
        message = f"this is the database {found!r}, and the spec names {wanted!r}."
        yield error("DB101", found, message, "Correct the DSN or database.name in the spec.")


def _finding(severity: Severity, code: str, path: str, message: str, remedy: str) -> Finding:
    location = Location(document="database", path=path)
    return Finding(code=code, severity=severity, location=location, message=message, remedy=remedy)
