"""Check a connector configuration: findings with code, location and remedy. Pure.

Connect's ``/validate`` accepts most configurations that fail, hang or lose events, because it does not configure the
transforms. Each module contains the rules of one subject; ``cdc-outbox explain`` shows the explanation of a code.
"""

from collections.abc import Iterable, Sequence

from cdc_outbox.debezium.config import NEWEST, Config, Version
from cdc_outbox.debezium.lint import (
    capture,
    converters,
    databases,
    framework,
    options,
    placements,
    postgresql,
    router,
    routing,
    rows,
    secrets,
    topics,
    values,
)
from cdc_outbox.debezium.lint.rule import Rule
from cdc_outbox.debezium.lint.several import compare
from cdc_outbox.debezium.regex_program import limited
from cdc_outbox.finding import Finding, Severity

__all__ = [
    "NEWEST",
    "RULES",
    "Config",
    "Rule",
    "Version",
    "compare",
    "lint",
    "lint_all",
]

RULES: tuple[Rule, ...] = (
    *options.book.rules,
    *values.book.rules,
    *secrets.book.rules,
    *framework.book.rules,
    *topics.book.rules,
    *router.book.rules,
    *placements.book.rules,
    *routing.book.rules,
    *converters.book.rules,
    *capture.book.rules,
    *rows.book.rules,
    *postgresql.book.rules,
    *databases.book.rules,
)
"""Every rule about one configuration; :func:`compare` checks several."""


_MOST_STEPS = 1_000_000
"""Maximum of steps of all regular expressions of one configuration: about a second."""
_OF_DEFAULTS = frozenset({"CC110", "CC258", "CC335", "CC515"})
"""Notes about defaults that nearly every configuration has."""


def lint(config: Config) -> tuple[Finding, ...]:
    """Return the findings about a configuration, in the order of its lines."""
    with limited(_MOST_STEPS) as allowance:
        found = [finding for rule in RULES for finding in rule.findings(config)]
    findings = _in_order([*found, *([_not_evaluated(config)] if allowance.is_spent else [])])
    of_defaults = [finding for finding in findings if finding.code in _OF_DEFAULTS]
    if len({finding.code for finding in of_defaults}) < 2:
        return findings
    rest = (finding for finding in findings if finding.code not in _OF_DEFAULTS)
    return _in_order((*rest, _combined(of_defaults)))


def _not_evaluated(config: Config) -> Finding:
    return Finding(
        code="CC122",
        severity=Severity.WARNING,
        location=config.locations("connector.class"),
        message="the regular expressions take too long: some of them were not evaluated.",
        remedy="Simplify the expressions, or list fewer.",
    )


def _combined(findings: Sequence[Finding]) -> Finding:
    """Return one note instead of several about defaults."""
    named = ", ".join(f"{finding.location.path} ({finding.code})" for finding in findings)
    return Finding(
        code="CC119",
        severity=Severity.NOTE,
        location=findings[0].location,
        message=f"defaults that suit few outboxes: {named}.",
        remedy="Run `cdc-outbox explain CODE` for each code.",
    )


def lint_all(configs: Sequence[Config]) -> tuple[Finding, ...]:
    """Return the findings about each configuration, and about all of them together."""
    alone = [finding for config in configs for finding in lint(config)]
    return (*alone, *_in_order(compare(configs)))


def _in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda found: (found.location.document, found.location.line or 0, found.code)))
