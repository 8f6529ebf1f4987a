"""How a connector that runs differs from its spec, as findings. Pure."""

from collections.abc import Iterator, Mapping

from cdc_outbox.connect.change import Change, changes_between
from cdc_outbox.connect.lint.config import is_reference
from cdc_outbox.connect.lint.java import literal
from cdc_outbox.connect.plan import Found, SlotPlan, SlotStep, make_plan
from cdc_outbox.connect.refusals import RENDER
from cdc_outbox.connect.render import render
from cdc_outbox.database import DatabaseKind
from cdc_outbox.explanations import explanations
from cdc_outbox.finding import Finding, Place
from cdc_outbox.spec import Spec

_TABLES = "table.include.list"


def divergences(spec: Spec, found: Found) -> Iterator[Finding]:
    """Yield a finding for each option by which a connector is not what its spec says."""
    is_deployable = spec.database.kind is DatabaseKind.POSTGRESQL
    plan = make_plan(found, render(spec), SlotPlan(SlotStep.KEEP))
    for change in plan.changes:
        if _is_another_outbox(change):
            yield _another_outbox(spec, change)
            continue
        code, remedy = "OP204", "`cdc-outbox deploy-connector` makes it so." if is_deployable else RENDER
        if change in plan.dangers:
            code, how = "OP205", "with --replace" if is_deployable else "it by hand"
            remedy = f"Correct the spec, or deploy {how} once the writers rest."
        effect = "" if change.effect is None else f" {change.effect.text}"
        yield _finding(code, change.option, f"{change}.{effect}", remedy)


def another_outbox(spec: Spec, config: Mapping[str, str] | None) -> Iterator[Finding]:
    """Yield that a connector reads another outbox than its spec says.

    Args:
        config: The connector's, ``None`` where it does not exist or Connect is not asked.
    """
    changes = () if config is None else changes_between(config, render(spec))
    yield from (_another_outbox(spec, change) for change in changes if _is_another_outbox(change))


def _is_another_outbox(change: Change) -> bool:
    if change.option != _TABLES or not change.added:
        return False
    # A name that the worker resolves may be the other's.
    return is_reference(change.before or "") == is_reference(change.after or "")


def _another_outbox(spec: Spec, change: Change) -> Finding:
    reads, says = (literal(each) or each for each in (change.before or "", change.after or ""))
    message = f"the connector {spec.name} reads {reads}, and the spec says {says}."
    remedy = (
        "Correct outbox.table in the spec. If the outbox is to move, `cdc-outbox plan` says what becomes of its events."
    )
    return _finding("OP208", change.option, message, remedy)


def _finding(code: str, option: str, message: str, remedy: str) -> Finding:
    place = Place(document="connect", path=option)
    return Finding(code=code, severity=explanations()[code].severity, place=place, message=message, remedy=remedy)
