"""A connector's configuration → findings, each with a code, a place and a remedy. Pure.

Connect's ``/validate`` takes most configurations that then fail, hang or lose events, for it never asks the
transforms. The rules stand by theme, each a few lines; what a code means at length, ``cdc-outbox explain`` tells.
"""

from collections.abc import Iterable, Sequence

from cdc_outbox.connect.lint import (
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
from cdc_outbox.connect.lint.config import NEWEST, Config, Kind, Version
from cdc_outbox.connect.lint.promises import PROMISE_RULES
from cdc_outbox.connect.lint.reading import find_configs
from cdc_outbox.connect.lint.rule import Rule
from cdc_outbox.connect.lint.several import compare
from cdc_outbox.connect.lint.texts import find_in_text
from cdc_outbox.finding import Finding

__all__ = [
    "NEWEST",
    "RULES",
    "Config",
    "Kind",
    "Rule",
    "Version",
    "compare",
    "find_configs",
    "find_in_text",
    "lint",
    "lint_all",
]

RULES: tuple[Rule, ...] = (
    *options.book.rules,
    *values.book.rules,
    *secrets.book.rules,
    *PROMISE_RULES,
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
"""Every rule about one configuration; what several have in common is compared besides."""


def lint(config: Config) -> tuple[Finding, ...]:
    """Return what is wrong with a configuration, in the order of its lines."""
    return _in_order(finding for rule in RULES for finding in rule.findings(config))


def lint_all(configs: Sequence[Config]) -> tuple[Finding, ...]:
    """Return what is wrong with each configuration, and with all of them together."""
    alone = [finding for config in configs for finding in lint(config)]
    return (*alone, *_in_order(compare(configs)))


def _in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda found: (found.place.document, found.place.line or 0, found.code)))
