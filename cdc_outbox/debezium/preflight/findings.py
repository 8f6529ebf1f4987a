"""A preflight's findings, each at a place in the database."""

from collections.abc import Iterator

from cdc_outbox.finding import Finding, Location, Severity

UUID_LENGTH = 36
"""Characters of an id that the writer makes."""
MAKE_TABLE = "Run `cdc-outbox init`, or correct the spec."


def error(code: str, path: str, message: str, remedy: str) -> Finding:
    """Return what keeps events from arriving, or loses some."""
    return _finding(Severity.ERROR, code, path, message, remedy)


def warning(code: str, path: str, message: str, remedy: str) -> Finding:
    """Return what works, and will hurt."""
    return _finding(Severity.WARNING, code, path, message, remedy)


def note(code: str, path: str, message: str, remedy: str) -> Finding:
    """Return what is worth knowing, such as what was not looked at."""
    return _finding(Severity.NOTE, code, path, message, remedy)


def another_database(found: str, wanted: str) -> Iterator[Finding]:
    """Yield whether this is another database than the spec's; where the worker resolves the name, that tells."""
    if found != wanted and not wanted.startswith("${"):
        message = f"this is the database {found!r}; the spec speaks of {wanted!r}."
        yield error("DB101", found, message, "Correct the DSN or database.name in the spec.")


def _finding(severity: Severity, code: str, path: str, message: str, remedy: str) -> Finding:
    location = Location(document="database", path=path)
    return Finding(code=code, severity=severity, location=location, message=message, remedy=remedy)
