"""Rules: a code, a severity and a function from a configuration to hits. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import Config, Router
from cdc_outbox.finding import Finding, Severity

_ENOUGH = 100
"""Maximum number of findings of one rule in one configuration; a fixed one is linted again."""

ERROR, WARNING, NOTE = Severity.ERROR, Severity.WARNING, Severity.NOTE


class Hit(NamedTuple):
    """One result of a rule: the option, the message, the remedy. Never contains a secret."""

    option: str
    message: str
    remedy: str = ""


Hits = Iterator[Hit]
Check = Callable[[Config], Hits]
RouterCheck = Callable[[Config, Router], Hits]


@dataclass(frozen=True, slots=True)
class Rule:
    """One lint rule; ``cdc-outbox explain`` shows the explanation of its code.

    Args:
        kinds: The kinds of connectors that the rule checks; empty for every connector.
    """

    code: str
    severity: Severity
    check: Check
    kinds: tuple[DatabaseKind, ...] = ()

    def hits(self, config: Config) -> Hits:
        """Return the hits in a configuration."""
        if not self.kinds or config.kind in self.kinds:
            yield from islice(self.check(config), _ENOUGH)

    def findings(self, config: Config) -> Iterator[Finding]:
        """Return the findings about a configuration."""
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
    """The rules of one module, in the order of their definition."""

    rules: list[Rule] = field(default_factory=list)

    def rule(self, code: str, severity: Severity, *kinds: DatabaseKind) -> Callable[[Check], Check]:
        """Register a function as a rule."""

        def enter(check: Check) -> Check:
            self.rules.append(Rule(code, severity, check, kinds))
            return check

        return enter

    def router_rule(self, code: str, severity: Severity, *kinds: DatabaseKind) -> Callable[[RouterCheck], RouterCheck]:
        """Register a function as a rule that checks each EventRouter of a configuration."""

        def enter(check: RouterCheck) -> RouterCheck:
            self.rules.append(Rule(code, severity, lambda c: (h for r in c.routers for h in check(c, r)), kinds))
            return check

        return enter
