"""Compare a spec with Connect: refuse an invalid configuration, and report how the connector differs."""

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

RENDER = "Print the configuration with `cdc-outbox render`, and send it to Connect: PUT /connectors/NAME/config."
"""How to deploy a connector manually."""


def refuse_other_kind(spec: Spec) -> None:
    """Refuse a database that is not PostgreSQL.

    Raises:
        ConfigError: It is not PostgreSQL.
    """
    if spec.database.kind is not DatabaseKind.POSTGRESQL:
        raise ConfigError(
            f"connectors can be deployed for postgresql only, not for {spec.database.kind}",
            field="database.kind",
            hint=RENDER,
        )


def refuse_unfit(spec: Spec) -> None:
    """Refuse a spec whose configuration has errors.

    Raises:
        ConnectorInvalidError: With ``findings``.
    """
    refuse(spec, lint(rendered_config(spec)), "the configuration has errors")


def refuse_what_connect_refuses(spec: Spec, config: dict[str, str], client: ConnectClient) -> None:
    """Validate a rendered configuration with Connect and the connector.

    Raises:
        ConnectorInvalidError: Connect refuses it, with ``findings``.
    """
    refuse(spec, client.validate(config), "Connect refuses the configuration")


def refuse(spec: Spec, findings: Sequence[Finding], message: str) -> None:
    """Refuse a pipeline if a finding is an error.

    Raises:
        ConnectorInvalidError: With the errors as ``findings``.
    """
    errors = errors_in(tuple(findings))
    if errors:
        raise ConnectorInvalidError(f"{spec.name}: {message}", findings=errors)


_TABLES = "table.include.list"


def divergences(spec: Spec, found: Found) -> Iterator[Finding]:
    """Yield a finding for each option in which a connector differs from its spec.

    An unfinished republication, which is a part of the configuration, does not count.
    """
    is_deployable = spec.database.kind is DatabaseKind.POSTGRESQL
    wanted = render_republishing(spec) if is_deployable and found.is_republishing else render(spec)
    plan = make_plan(found, wanted, SlotPlan(SlotStep.KEEP))
    for change in plan.changes:
        if _is_another_outbox(change):
            yield _another_outbox(spec, change)
            continue
        code, remedy = "OP204", "Run `cdc-outbox deploy-connector`." if is_deployable else RENDER
        if change in plan.dangers:
            code, how = "OP205", "with --replace" if is_deployable else "it manually"
            remedy = f"Correct the spec, or stop the writers and deploy {how}."
        effect = "" if change.effect is None else f" {change.effect.text}"
        yield explained(code, Location(document="connect", path=change.option), f"{change}.{effect}", remedy)


def another_outbox(spec: Spec, config: Mapping[str, str] | None) -> Iterator[Finding]:
    """Yield a finding if a connector reads another outbox than its spec names.

    Args:
        config: The connector's, ``None`` if it does not exist or Connect is not queried.
    """
    changes = () if config is None else changes_between(config, render(spec))
    yield from (_another_outbox(spec, change) for change in changes if _is_another_outbox(change))


def _is_another_outbox(change: OptionChange) -> bool:
    if change.option != _TABLES or not change.added:
        return False
    # A name that the worker resolves may be the same.
    return is_reference(change.before or "") == is_reference(change.after or "")


def _another_outbox(spec: Spec, change: OptionChange) -> Finding:
    reads, wanted = (literal(each) or each for each in (change.before or "", change.after or ""))
    message = f"the connector {spec.name} reads {reads}, and the spec names {wanted}."
    remedy = (
        "Correct outbox.table in the spec. To move the outbox, read first in `cdc-outbox plan` which events are lost."
    )
    return explained("OP208", Location(document="connect", path=change.option), message, remedy)


def plan_without_database(spec: Spec, client: ConnectClient, *, timings: Timings) -> Plan:
    """Return the difference between a spec and its connector, without checking slot and offsets.

    Raises:
        ConnectorInvalidError: The configuration has errors, with ``findings``.
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
    """Return the difference without validation, also for a deployment that would be refused."""
    found = find_connector(client, spec.name, timings=timings)
    return make_plan(found, render(spec), SlotPlan(SlotStep.KEEP), origins=origins_of(spec))
