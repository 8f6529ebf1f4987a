"""Convert the configuration of an existing connector to a spec that renders to an equivalent one. Pure.

The keys of a spec are recognized in the configuration, the spec is rendered, and the result is compared with the
configuration. Each remaining difference becomes an override if one is allowed, and a finding otherwise.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.adopt.recognition import WORDS, Recognition, Statement
from cdc_outbox.debezium.adopt.written import written
from cdc_outbox.debezium.lint import Config
from cdc_outbox.debezium.lint.secrets import secret_in_clear_text
from cdc_outbox.debezium.normalized_config import NormalizedConfig, OptionDifference, default_of, differences
from cdc_outbox.debezium.options.behavior import ImpactLevel
from cdc_outbox.debezium.options.lookup import adoption_of, reason_against
from cdc_outbox.debezium.options.router_options import placed
from cdc_outbox.debezium.render.spec_config import rendered_config
from cdc_outbox.errors import ConfigError
from cdc_outbox.event import SequenceMode
from cdc_outbox.finding import Finding, Severity
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.text_files.document import Document, Path

_GRADES = {
    ImpactLevel.CONNECTOR: ("CC952", Severity.NOTE),
    ImpactLevel.MESSAGES: ("CC953", Severity.WARNING),
    ImpactLevel.DANGEROUS: ("CC954", Severity.ERROR),
}
"""The finding that it is if a spec makes an option another, by what that does to who reads the events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A spec, and findings about the parts of the configuration that it cannot express.

    Args:
        text: The YAML of the spec.
        findings: Notes do not affect messages.
    """

    text: str
    spec: Spec
    findings: tuple[Finding, ...]

    @property
    def is_same(self) -> bool:
        """Whether the messages of events do not change."""
        return all(finding.severity is Severity.NOTE for finding in self.findings)


def adopt(config: Config, aggregates: Mapping[str, SequenceMode | None], *, made_from: str) -> Adopted:
    """Return the spec of a connector's configuration.

    Args:
        aggregates: The aggregate types with their sequence modes, which a configuration does not contain; ``None``
            selects a mode by the table's columns. If empty, the spec has one type, named after the connector.
        made_from: The name of the source, for the spec's first line.

    Raises:
        ConfigError: With ``findings``: it is not the configuration of an outbox, or of a database that cannot be
            rendered. Or the aggregates do not fit the table.
    """
    _refuse_others(config)
    draft = _Draft(config, Recognition(config), aggregates)
    draft.take_words()
    draft.take_overrides()
    return draft.adopted(made_from)


def _refuse_others(config: Config) -> None:
    """Refuse a configuration without an outbox."""
    where, message, remedy = "", "", ""
    if config.kind is None:
        where, message = "connector.class", "this is not a Debezium connector, so it reads no outbox."
    elif not config.routers:
        where, message = (
            "transforms",
            "the configuration has no EventRouter, so the connector publishes table changes and no events.",
        )
        remedy = "Adopt only connectors with an EventRouter."
    if message:
        location = config.locations(where)
        finding = Finding(code="CC957", severity=Severity.ERROR, location=location, message=message, remedy=remedy)
        raise ConfigError("there is nothing to adopt", field=where, findings=(finding,))


@dataclass
class _Draft:
    """A spec under construction."""

    config: Config
    seen: Recognition
    aggregates: Mapping[str, SequenceMode | None]
    comments: dict[Path, str] = field(default_factory=dict)
    overrides: dict[str, str] = field(default_factory=dict)
    content: dict[str, Any] = field(default_factory=dict)
    hidden: dict[str, str] = field(default_factory=dict)
    """Option → the reference that replaces its secret."""

    def take_words(self) -> None:
        """Set the recognized keys in the spec; refused values stay at their defaults, and become differences."""
        statements = [self._without_secret(statement) for statement in self.seen.statements()]
        modes = self._modes()
        self.content = _with(self._least(modes), statements)
        if _spec_of(self.content) is not None:
            return
        # A value is refused. Add the statements one by one, so that each refused one is omitted alone.
        self.content = self._least(dict.fromkeys(modes, SequenceMode.NONE))
        for statement in statements:
            more = _with(self.content, [statement])
            self.content = more if _spec_of(more) is not None else self.content
        self.content = _with(self.content, [(("aggregates",), _aggregates(modes))])
        parse_spec(Document(name="spec", content=self.content))

    def take_overrides(self) -> None:
        """Set as overrides the options without a spec key, if they are allowed."""
        plain = self._rendered()
        for difference in differences(self.config, plain):
            value = self._value(difference)
            if value is not None and not reason_against(difference.key, value, plain.options):
                self.overrides[difference.key] = self._hide(difference.option, value)
                if difference.before is None:
                    self.comments["overrides", difference.key] = "Debezium's default, as before"
        if self.overrides:
            self.content["overrides"] = dict(sorted(self.overrides.items()))

    def adopted(self, made_from: str) -> Adopted:
        """Return the spec with its findings."""
        self._comment(made_from)
        text = written(self.content, self.comments)
        spec, findings = parse_spec(text), tuple(self._findings())
        order = sorted(findings, key=lambda found: (found.location.line or 0, found.code, found.location.path))
        return Adopted(text=text, spec=spec, findings=tuple(order))

    def _findings(self) -> Iterator[Finding]:
        after = self._rendered()
        for option, reference in self.hidden.items():
            message = f"{option} is a secret in clear text; the spec contains {reference} instead."
            remedy = "Set this variable on the worker, or write another reference that it resolves. Change the secret."
            yield self._finding("CC955", Severity.WARNING, option, message, remedy)
        for difference in differences(self.config, after):
            if difference.option not in self.hidden:
                yield self._consequence(difference, after)
        for option in NormalizedConfig(self.config).idle:
            if option not in after.options:
                message = f"{option} has no effect, and is not in the spec."
                yield self._finding("CC951", Severity.NOTE, option, message)
        if not self.aggregates:
            message = (
                "the configuration does not list aggregate types; the spec contains one, named after the pipeline."
            )
            remedy = "Add the types below aggregates, or run the command again with --aggregate-type TYPE for each."
            yield self._finding("CC956", Severity.NOTE, "connector.class", message, remedy)

    def _consequence(self, difference: OptionDifference, after: Config) -> Finding:
        """Return what a difference that a spec cannot make good means."""
        option, before, now = difference.option, placed(difference.before), placed(difference.after)
        impact = adoption_of(difference.key, difference.before, difference.after)
        if impact is None:
            reason = reason_against(difference.key, "", after.options)
            message = f"{option} is not carried over{f': {reason}' if reason else ''}."
            return self._finding("CC953", Severity.WARNING, option, message, "Check whether anything depends on it.")
        text = impact.text.format(lost=_enumerated(before - now), gained=_enumerated(now - before))
        return self._finding(*_GRADES[impact.level], option, f"{option} {text}", impact.remedy)

    def _finding(self, code: str, severity: Severity, option: str, message: str, remedy: str = "") -> Finding:
        location = self.config.locations(option)
        return Finding(code=code, severity=severity, location=location, message=message, remedy=remedy)

    def _modes(self) -> dict[str, SequenceMode]:
        numbered = self.seen.is_ours and self.seen.is_numbered
        default = SequenceMode.GAPLESS if numbered else SequenceMode.NONE
        return {name: mode or default for name, mode in (self.aggregates or {self._name(): None}).items()}

    def _least(self, modes: Mapping[str, SequenceMode]) -> dict[str, Any]:
        """Return the smallest valid content of a spec."""
        kind, name = self.seen.kind, self._name()
        login = {
            "host": self._reference("database.hostname"),
            "user": _identifier(f"{name}_connector"),
            "password": self._reference("database.password"),
        }
        if kind is DatabaseKind.MONGODB:
            login = {"connection_string": self._reference("mongodb.connection.string")}
        content: dict[str, Any] = {
            "version": 1,
            "name": name,
            "database": {"kind": str(kind), "name": _identifier(name), **login},
            "aggregates": _aggregates(modes),
        }
        return {**content, "outbox": {"schema": "OUTBOX"}} if kind is DatabaseKind.ORACLE else content

    def _name(self) -> str:
        """Return the connector's name, with characters that a spec does not allow replaced."""
        return re.sub(r"[^A-Za-z0-9._-]+", "-", self.config.name).strip("._-")[:100] or "outbox"

    def _reference(self, option: str) -> str:
        """Return a reference to an environment variable for an option."""
        return f"${{env:{re.sub(r'[^A-Z0-9]+', '_', f'{self._name()}_{option}'.upper())}}}"

    def _without_secret(self, statement: Statement) -> Statement:
        path, value = statement
        option = next((option for word, option in WORDS if word == path and self.config.has(option)), "")
        return (path, self._hide(option, value)) if isinstance(value, str) and option else statement

    def _hide(self, option: str, value: str) -> str:
        """Return a value, or a reference if it is a secret."""
        if not any(hit.option == option for hit in secret_in_clear_text(self.config)):
            return value
        self.hidden[option] = self._reference(option)
        return self.hidden[option]

    def _value(self, difference: OptionDifference) -> str | None:
        """Return the effective value of an option in the configuration; ``None`` if it is not known."""
        if difference.before is None:
            return default_of(self.config, difference.key)
        return difference.before if isinstance(difference.before, str) else self.config.get(difference.option)

    def _rendered(self) -> Config:
        return rendered_config(parse_spec(Document(name="spec", content=self.content)), self.config.version)

    def _comment(self, made_from: str) -> None:
        unknown = "sequence modes" if self.aggregates else "aggregate types"
        self.comments[()] = (
            f"Made by `cdc-outbox adopt` from {made_from}.\n"
            "It renders to an equivalent configuration, except for the findings of `adopt`."
        )
        self.comments["aggregates",] = f"not in the configuration: check the {unknown}"
        hidden = (path for path, option in WORDS if option in self.hidden)
        self.comments |= dict.fromkeys(hidden, "was in clear text")
        if self.seen.columns["type"] not in self.seen.placed and "columns" in self.content.get("outbox", {}):
            self.comments["outbox", "columns", "type"] = (
                "not in the configuration, because it is not a header: check the column"
            )
        table, usual = self.seen.table or "", str.upper if self.seen.kind is DatabaseKind.ORACLE else str.lower
        if table != usual(table) and not self.seen.router.get("predicate"):
            # Debezium's lists ignore case; the predicate that a spec renders does not.
            self.comments["outbox", "table"] = "case-sensitive here, unlike before: write the name as in the database"
        if self.content["database"].get("slot") == "debezium":
            self.comments["database", "slot"] = "the default slot of every connector without slot.name"


def _enumerated(placements: Set[str]) -> str:
    """Return where columns are placed, and as what."""
    text = []
    for placement in sorted(placements):
        _, kind, name = [*placement.split(":"), "", ""][:3]
        text.append("a partition of their own" if kind == "partition" else f"the {kind or 'header'} {name!r}")
    return " and ".join(text)


def _with(content: Mapping[str, Any], statements: Iterable[tuple[Path, Any]]) -> dict[str, Any]:
    """Return a spec's content with these statements."""
    more = {key: dict(value) if isinstance(value, dict) else value for key, value in content.items()}
    for path, value in statements:
        inside = more
        for key in path[:-1]:
            inside[str(key)] = dict(inside.get(str(key), {}))
            inside = inside[str(key)]
        inside[str(path[-1])] = value
    return more


def _aggregates(modes: Mapping[str, SequenceMode]) -> dict[str, dict[str, str]]:
    return {aggregate_type: {"sequence": str(mode)} for aggregate_type, mode in modes.items()}


def _spec_of(content: Mapping[str, Any]) -> Spec | None:
    try:
        return parse_spec(Document(name="spec", content=content))
    except ConfigError:
        return None


def _identifier(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", name)[:63]
