"""What became of each pipeline, as lines and as one document."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from cdc_outbox.cli.output import ExitCode, document, error_content, exit_code_of, paint
from cdc_outbox.connect.plan import Plan
from cdc_outbox.debezium.diff import OptionChange
from cdc_outbox.debezium.options.behavior import Impact, ImpactLevel
from cdc_outbox.errors import CdcOutboxError
from cdc_outbox.redaction import visible


class PipelineState(StrEnum):
    """What became of a pipeline."""

    DEPLOYED = "deployed"
    UNCHANGED = "unchanged"
    DIFFERS = "differs"
    FAILED = "failed"
    NOT_TRIED = "not tried"


@dataclass(kw_only=True)
class PipelineOutcome:
    """One pipeline of a call."""

    name: str
    document: Path
    state: PipelineState = PipelineState.NOT_TRIED
    plan: Plan | None = None
    error: CdcOutboxError | None = None
    steps: list[tuple[str, str]] = field(default_factory=list)

    @property
    def exit_code(self) -> ExitCode:
        """What a command ends with that is about this one alone."""
        if self.error is not None:
            return exit_code_of(self.error)
        return ExitCode.DIFFERENCES if self.state is PipelineState.DIFFERS else ExitCode.DONE

    @property
    def verdict(self) -> str:
        """What became of it, in one line."""
        match self.state:
            case PipelineState.FAILED if self.plan is not None:
                passes = self.error is not None and self.error.retryable
                what = "could not be checked" if passes else "would be refused"
                return f"{self.name}: {what}; apart from that: {self.plan}"
            case PipelineState.UNCHANGED:
                return f"{self.name}: nothing to change"
            case PipelineState.DIFFERS if self.plan is not None:
                return f"{self.name}: would be {'created' if self.plan.creates else f'changed: {self.plan}'}"
        return f"{self.name}: {self.state}"

    def content(self) -> dict[str, Any]:
        """Return it for a document."""
        changes = [] if self.plan is None else [_change(change) for change in self.plan.changes]
        return {
            "name": self.name,
            "document": str(self.document),
            "state": self.state,
            "creates": self.plan is not None and self.plan.creates,
            "summary": None if self.plan is None else str(self.plan),
            "changes": changes,
            "steps": [{"step": step, "text": text} for step, text in self.steps],
            "error": None if self.error is None else error_content(self.error),
        }


def exit_code(outcomes: Sequence[PipelineOutcome]) -> ExitCode:
    """Return what the command ends with: the first failure's code, or whether anything differs."""
    failed = next((outcome.exit_code for outcome in outcomes if outcome.error is not None), None)
    return failed or max((outcome.exit_code for outcome in outcomes), default=ExitCode.DONE)


def as_json(kind: str, outcomes: Iterable[PipelineOutcome]) -> str:
    """Return one document."""
    return document(kind, {"pipelines": [outcome.content() for outcome in outcomes]})


def change_line(change: OptionChange) -> str:
    """Return a change in one line, in the colour of what it does."""
    colour = {"+": "green", "-": "red", "~": "yellow"}[str(change)[0]]
    return paint(visible(change.line), colour)


def effect_line(effect: Impact) -> str:
    """Return what a change does, in one line."""
    label = paint(effect.level, "red" if effect.level is ImpactLevel.DANGEROUS else None)
    return f"    {label}: {effect.text}"


def _change(change: OptionChange) -> dict[str, Any]:
    before, after = change.shown
    effect = change.effect
    return {
        "key": change.key or None,
        "option": change.option,
        "formerly": change.formerly or None,
        "before": before,
        "after": after,
        "level": None if effect is None else effect.level,
        "effect": None if effect is None else effect.text,
    }
