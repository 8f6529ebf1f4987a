"""What each finding's code means: what happens, what was observed, what to do. Told in the files beside it.

Where something was observed says how it is known: [exec] it was run, [code] it stands in the source, [docs] in the
documentation, [issue] it was reported, [inference] it follows.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from cdc_outbox.finding import Finding, Location, Severity

_PREFIXES = {"SP": "Specs", "DB": "Databases", "CC": "Connector configurations", "OP": "Running pipelines"}
_HEADING = re.compile(r"^## ([A-Z]{2}[0-9]{3}) (error|warning|note): (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One code's story.

    Args:
        observed: A failure that was seen, and how that is known; empty where there is none to tell.
    """

    code: str
    severity: Severity
    title: str
    happens: str
    observed: str
    remedy: str

    def __str__(self) -> str:
        parts = [f"{self.code} ({self.severity}): {self.title}", self.happens]
        parts += [f"Observed: {self.observed}"] if self.observed else []
        return "\n\n".join([*parts, f"Remedy: {self.remedy}"])

    @property
    def markdown(self) -> str:
        """Its section of a page."""
        told = f"**{self.severity.capitalize()}.** {_plain(self.happens)}\n"
        observed = f"\n*Observed:* {_plain(self.observed)}\n" if self.observed else ""
        return f"### {self.code} {_plain(self.title)}\n\n{told}{observed}\n*Remedy:* {_plain(self.remedy)}\n"


def _plain(text: str) -> str:
    """Return a text in which no star, angle or backslash means anything to Markdown."""
    return re.sub(r"([\\*<])", r"\\\1", text)


@cache
def explanations() -> dict[str, Explanation]:
    """Return every code's story by its code."""
    return {found.code: found for prefix in _PREFIXES for found in _read(prefix)}


def explained(code: str, location: Location, message: str, remedy: str = "") -> Finding:
    """Return a finding that is as severe as its code's explanation says."""
    return Finding(code=code, severity=explanations()[code].severity, location=location, message=message, remedy=remedy)


def page() -> str:
    """Return all of them as one page of Markdown."""
    parts = ["# Findings\n", _INTRODUCTION]
    for prefix, title in _PREFIXES.items():
        parts.append(f"## {title}\n")
        parts += [found.markdown for code, found in explanations().items() if code.startswith(prefix)]
    return "\n".join(parts)


_INTRODUCTION = """\
What the codes mean that `cdc-outbox lint`, `preflight`, `doctor`, `init --check` and `deploy-connector` print;
`cdc-outbox explain CODE` shows one of them. *Error*: a promise of the pipeline breaks, and deploy refuses. *Warning*:
it works, and will hurt. *Note*: worth knowing. `doctor` prints all but those that follow from another one that it
prints, such as DB301 from OP208. Where something was observed, [exec] means that it was run, [code] that
it stands in the source, [docs] in the documentation, [issue] that it was reported, [inference] that it follows.

What lint tells of a configuration is provoked wherever it can be: tests/proofs runs the configuration that is flagged
against Connect, Debezium, Kafka, PostgreSQL and MariaDB, sees it fail as the page says, and sees a fixed one not
fail. `.venv/bin/python -m tests.proofs` in a checkout counts the codes that are proven so, and says of the others why
they are not.

This page is made by `cdc-outbox explain --all > docs/findings.md`.
"""


def _read(prefix: str) -> Iterator[Explanation]:
    text = files("cdc_outbox.debezium.explanations").joinpath(f"{prefix}.md").read_text(encoding="utf-8")
    _, *parts = _HEADING.split(text)
    for code, severity, title, body in zip(*(parts[at::4] for at in range(4)), strict=True):
        happens, _, remedy = body.strip().partition("Remedy: ")
        happens, _, observed = happens.strip().partition("Observed: ")
        yield Explanation(
            code=code,
            severity=Severity(severity),
            title=title.strip(),
            happens=happens.strip(),
            observed=observed.strip(),
            remedy=remedy.strip(),
        )
