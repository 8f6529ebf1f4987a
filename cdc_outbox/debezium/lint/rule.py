"""What a rule is: a code, a severity and a function from a configuration to hits. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import Config, Router
from cdc_outbox.finding import Finding, Severity

_ENOUGH = 100
"""Findings of one rule in one configuration; a fixed configuration is linted again."""

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


class Hit(NamedTuple):
    """What a rule found: at which option, what is the case, what to do. Never with the value of a secret."""

    option: str
    message: str
    remedy: str = ""


Hits = Iterator[Hit]
Check = Callable[[Config], Hits]
RouterCheck = Callable[[Config, Router], Hits]


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of the catalogue; the code's story is told by ``cdc-outbox explain``.

    Args:
        kinds: Whose connectors it looks at; none means any connector at all.
    """

    code: str
    severity: Severity
    check: Check
    kinds: tuple[DatabaseKind, ...] = ()

    def hits(self, config: Config) -> Hits:
        """Return what it hits in a configuration."""
        if not self.kinds or config.kind in self.kinds:
            yield from islice(self.check(config), _ENOUGH)

    def findings(self, config: Config) -> Iterator[Finding]:
        """Return what it finds in a configuration."""
        for hit in self.hits(config):
            yield Finding(
                code=self.code,
                severity=self.severity,
                location=config.locations(hit.option),
                message=hit.message,
                remedy=hit.remedy,
            )


@dataclass(frozen=True, slots=True)
class Rulebook:
    """The rules of one theme, in the order in which they are written down."""

    rules: list[Rule] = field(default_factory=list)

    def rule(self, code: str, severity: Severity, *kinds: DatabaseKind) -> Callable[[Check], Check]:
        """Make a rule of a function."""

        def enter(check: Check) -> Check:
            self.rules.append(Rule(code, severity, check, kinds))
            return check

        return enter

    def router_rule(self, code: str, severity: Severity, *kinds: DatabaseKind) -> Callable[[RouterCheck], RouterCheck]:
        """Make a rule of a function that looks at each EventRouter of a configuration."""

        def enter(check: RouterCheck) -> RouterCheck:
            self.rules.append(Rule(code, severity, lambda c: (h for r in c.routers for h in check(c, r)), kinds))
            return check

        return enter
