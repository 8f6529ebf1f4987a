"""A spec against Connect: what is refused before anything is changed, and how a running connector differs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.deployed_connector import find_connector
from cdc_outbox.connect.neighbours import find_neighbours
from cdc_outbox.connect.plan import Found, Plan, make_plan
from cdc_outbox.connect.timings import Timings
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import is_reference
from cdc_outbox.debezium.diff import OptionChange, changes_between
from cdc_outbox.debezium.explanations import explained
from cdc_outbox.debezium.java_regex import literal
from cdc_outbox.debezium.lint import lint
from cdc_outbox.debezium.render import origins_of, render, render_republishing
from cdc_outbox.debezium.render.spec_config import rendered_config
from cdc_outbox.debezium.slot_plan import SlotPlan, SlotStep
from cdc_outbox.errors import ConfigError, ConnectorInvalidError
from cdc_outbox.finding import Finding, Location, errors_in
from cdc_outbox.spec import Spec

RENDER = "`cdc-outbox render` prints the configuration, and Connect takes it at PUT /connectors/NAME/config."
"""How a connector is deployed by hand."""


def refuse_other_kind(spec: Spec) -> None:
    """Refuse a database that cannot be asked yet whether the connector would work.

    Raises:
        ConfigError: It is not PostgreSQL.
    """
    if spec.database.kind is not DatabaseKind.POSTGRESQL:
        raise ConfigError(
            f"connectors are deployed for postgresql so far, not for {spec.database.kind}",
            field="database.kind",
            hint=RENDER,
        )


def refuse_unfit(spec: Spec) -> None:
    """Refuse a spec whose configuration would not work, by itself.

    Raises:
        ConnectorInvalidError: With ``findings``.
    """
    refuse(spec, lint(rendered_config(spec)), "the configuration would not work")


def refuse_what_connect_refuses(spec: Spec, config: dict[str, str], client: ConnectClient) -> None:
    """Let Connect and the connector check the configuration that a spec became.

    Raises:
        ConnectorInvalidError: They refuse it, with ``findings``.
    """
    refuse(spec, client.validate(config), "Connect refuses the configuration")


def refuse(spec: Spec, findings: Sequence[Finding], message: str) -> None:
    """Refuse a pipeline that something was found of which is an error.

    Raises:
        ConnectorInvalidError: With those findings that are.
    """
    errors = errors_in(tuple(findings))
    if errors:
        raise ConnectorInvalidError(f"{spec.name}: {message}", findings=errors)


_TABLES = "table.include.list"


def divergences(spec: Spec, found: Found) -> Iterator[Finding]:
    """Yield a finding for each option by which a connector is not what its spec says.

    That it owes rows, which is a part of its configuration, is none.
    """
    is_deployable = spec.database.kind is DatabaseKind.POSTGRESQL
    wanted = render_republishing(spec) if is_deployable and found.is_republishing else render(spec)
    plan = make_plan(found, wanted, SlotPlan(SlotStep.KEEP))
    for change in plan.changes:
        if _is_another_outbox(change):
            yield _another_outbox(spec, change)
            continue
        code, remedy = "OP204", "`cdc-outbox deploy-connector` makes it so." if is_deployable else RENDER
        if change in plan.dangers:
            code, how = "OP205", "with --replace" if is_deployable else "it by hand"
            remedy = f"Correct the spec, or deploy {how} once the writers rest."
        effect = "" if change.effect is None else f" {change.effect.text}"
        yield explained(code, Location(document="connect", path=change.option), f"{change}.{effect}", remedy)


def another_outbox(spec: Spec, config: Mapping[str, str] | None) -> Iterator[Finding]:
    """Yield that a connector reads another outbox than its spec says.

    Args:
        config: The connector's, ``None`` where it does not exist or Connect is not asked.
    """
    changes = () if config is None else changes_between(config, render(spec))
    yield from (_another_outbox(spec, change) for change in changes if _is_another_outbox(change))


def _is_another_outbox(change: OptionChange) -> bool:
    if change.option != _TABLES or not change.added:
        return False
    # A name that the worker resolves may be the other's.
    return is_reference(change.before or "") == is_reference(change.after or "")


def _another_outbox(spec: Spec, change: OptionChange) -> Finding:
    reads, says = (literal(each) or each for each in (change.before or "", change.after or ""))
    message = f"the connector {spec.name} reads {reads}, and the spec says {says}."
    remedy = (
        "Correct outbox.table in the spec. If the outbox is to move, `cdc-outbox plan` says what becomes of its events."
    )
    return explained("OP208", Location(document="connect", path=change.option), message, remedy)


def plan_without_database(spec: Spec, client: ConnectClient, *, timings: Timings) -> Plan:
    """Return the difference of a spec and the connector that runs; slot and offsets are taken for well.

    Raises:
        ConnectorInvalidError: The configuration would not work, with ``findings``.
    """
    config = render(spec)
    refuse_unfit(spec)
    refuse_what_connect_refuses(spec, config, client)
    found = find_connector(client, spec.name, timings=timings)
    neighbours = find_neighbours(spec, client)
    if found is None:
        refuse(spec, tuple(each.finding for each in neighbours), "another connector publishes the table")
    plan = make_plan(found, config, SlotPlan(SlotStep.KEEP), origins=origins_of(spec))
    return replace(plan, neighbours=neighbours)


def compare(spec: Spec, client: ConnectClient, *, timings: Timings) -> Plan:
    """Return the same of a deployment that would be refused; Connect does not validate the configuration."""
    found = find_connector(client, spec.name, timings=timings)
    return make_plan(found, render(spec), SlotPlan(SlotStep.KEEP), origins=origins_of(spec))
