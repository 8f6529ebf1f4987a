"""Findings as text for people, and as JSON, SARIF and annotations for machines; ``cdc-outbox explain``."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from importlib.metadata import version
from typing import Any, TypeVar, cast
from urllib.parse import quote

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from cdc_outbox.cli.options import json_option
from cdc_outbox.cli.output import ExitCode, document, say
from cdc_outbox.debezium.explanations import explanations, page
from cdc_outbox.errors import ConfigError
from cdc_outbox.finding import Finding, Severity, errors_in
from cdc_outbox.redaction import safe_json, visible
from cdc_outbox.text_files.document import did_you_mean

FC = TypeVar("FC", bound=Callable[..., Any])

_SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def as_text(findings: Iterable[Finding]) -> str:
    """One finding a line; what a terminal would obey is shown instead."""
    return "\n".join(visible(str(finding)) for finding in findings)


def as_json(findings: Sequence[Finding]) -> str:
    """One document."""
    counts = {str(severity): sum(found.severity is severity for found in findings) for severity in Severity}
    return document("Findings", {"findings": [*map(finding_content, findings)], "counts": counts})


def finding_content(finding: Finding) -> dict[str, Any]:
    """Return a finding for a document."""
    return {
        "code": finding.code,
        "severity": finding.severity,
        "document": finding.location.document,
        "path": finding.location.path,
        "line": finding.location.line,
        "message": finding.message,
        "remedy": finding.remedy,
    }


def as_sarif(findings: Sequence[Finding]) -> str:
    """One run of SARIF 2.1.0, with a rule for each code that occurs."""
    codes = sorted({finding.code for finding in findings})
    driver = {
        "name": "cdc-outbox",
        "semanticVersion": version("cdc-outbox"),
        "rules": [_sarif_rule(code) for code in codes],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_sarif_result(finding, codes) for finding in findings],
    }
    return safe_json({"$schema": _SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def as_annotations(findings: Iterable[Finding]) -> str:
    """Workflow commands that GitHub and its likes show beside the line."""
    return "\n".join(_annotation(finding) for finding in findings)


FORMATS: Mapping[str, Callable[[Sequence[Finding]], str]] = {
    "text": as_text,
    "json": as_json,
    "sarif": as_sarif,
    "ci": as_annotations,
}


def output_options(command: FC) -> FC:
    """Add ``--output``, and ``--report`` for what reads findings of any tool; the command takes the format's name."""

    @wraps(command)
    def gathered(*, prints_json: bool, report: str | None, **others: object) -> Any:  # noqa: ANN401 - a command's own
        # A variable says what to do where the command line says nothing.
        source = click.get_current_context().get_parameter_source
        is_typed = {name: source(name) is ParameterSource.COMMANDLINE for name in ("report", "prints_json")}
        if is_typed["prints_json"] and not is_typed["report"]:
            report = None
        return command(output=report or ("json" if prints_json else "text"), **others)

    report = click.option(
        "--report",
        type=click.Choice(["sarif", "ci"]),
        help="Print findings as SARIF for code scanning, or as annotations of a CI runner; replaces --output.",
    )
    return cast("FC", json_option()(report(gathered)))


strict_option = click.option("--strict", is_flag=True, help="Exit with 3 if there are warnings but no errors.")


def tell(findings: Sequence[Finding], *, output: str, strict: bool) -> ExitCode:
    """Print findings, say on stderr how many there are, and return what the command exits with."""
    text = FORMATS[output](findings)
    if text:
        say(text, script=output == "ci")
    return sum_up(findings, strict=strict)


def sum_up(findings: Sequence[Finding], *, strict: bool) -> ExitCode:
    """Say on stderr how many findings there are, and return what the command exits with."""
    counts = {severity: sum(found.severity is severity for found in findings) for severity in Severity}
    parts = [f"{count} {severity}{'s' * (count != 1)}" for severity, count in counts.items() if count]
    say(", ".join(parts) or "nothing found", err=True)
    if errors_in(tuple(findings)):
        return ExitCode.FAILED
    return ExitCode.DIFFERENCES if strict and counts[Severity.WARNING] else ExitCode.DONE


def _sarif_rule(code: str) -> dict[str, Any]:
    found = explanations()[code]
    return {
        "id": code,
        "shortDescription": {"text": found.title},
        "fullDescription": {"text": found.happens},
        "help": {"text": str(found), "markdown": found.markdown},
        "defaultConfiguration": {"level": _LEVELS[found.severity]},
    }


def _sarif_result(finding: Finding, codes: Sequence[str]) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": quote(finding.location.document.encode(errors="replace"))},
            "region": {"startLine": finding.location.line or 1},
        }
    }
    if finding.location.path:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.location.path}]
    return {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.message} {finding.remedy}".rstrip()},
        "locations": [location],
    }


def _annotation(finding: Finding) -> str:
    location = finding.location
    properties = {"file": location.document, "line": str(location.line or 1), "title": finding.code}
    listed = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    path = f"{location.path}: " if location.path else ""
    message = visible(f"{path}{finding.message} {finding.remedy}".rstrip())
    return f"::{_COMMANDS[finding.severity]} {listed}::{_escaped(message)}"


def _escaped(text: str, more: str = "") -> str:
    return re.sub(f"[%\r\n{more}]", lambda found: f"%{ord(found[0]):02X}", text)


def _known_codes(_context: click.Context, _argument: click.Parameter, incomplete: str) -> list[CompletionItem]:
    known = explanations().items()
    return [CompletionItem(code, help=each.title) for code, each in known if code.startswith(incomplete.upper())]


@click.command()
@click.argument(
    "code", metavar="[CODE]", required=False, shell_complete=_known_codes, help="The code of a finding, such as CC302."
)
@click.option("--all", "everything", is_flag=True, help="Select all: explain every code, as a Markdown page.")
def explain(code: str | None, *, everything: bool) -> None:
    """Explain the code of a finding.

    The page shows the problem, the evidence for it and the remedy.

    \b
    Example:
      cdc-outbox explain CC302
    """
    if everything == (code is not None):
        raise click.UsageError("give a CODE, or --all")
    if code is None:
        say(page(), nl=False)
        return
    known = explanations()
    if code.upper() not in known:
        hint = f"{did_you_mean(code.upper(), list(known))} `cdc-outbox explain --all` prints every code.".lstrip()
        raise ConfigError(f"there is no code {code!r}", field="CODE", hint=hint)
    say(str(known[code.upper()]))
