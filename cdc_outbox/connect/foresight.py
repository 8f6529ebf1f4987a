"""What a deployment would change, as far as it can be told without the database."""

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.lint import lint
from cdc_outbox.connect.lint.specs import rendered
from cdc_outbox.connect.plan import Found, Plan, SlotPlan, SlotStep, make_plan
from cdc_outbox.connect.render import render
from cdc_outbox.connect.wait import wait_until_known
from cdc_outbox.errors import ConnectorInvalidError
from cdc_outbox.finding import Finding, errors_in
from cdc_outbox.spec import Spec


def plan_without_database(spec: Spec, client: ConnectClient, *, timeout_seconds: float) -> Plan:
    """Return the difference of a spec and the connector that runs; slot and offsets are taken for well.

    Raises:
        ConnectorInvalidError: The configuration would not work, with ``findings``.
    """
    config = render(spec)
    _refuse(spec, lint(rendered(spec)), "the configuration would not work")
    _refuse(spec, client.validate(config), "Connect refuses the configuration")
    running = client.find_config(spec.name)
    if running is None:
        return make_plan(None, config, SlotPlan(SlotStep.KEEP))
    found = Found(running, wait_until_known(client, spec.name, timeout_seconds=timeout_seconds))
    return make_plan(found, config, SlotPlan(SlotStep.KEEP))


def _refuse(spec: Spec, findings: tuple[Finding, ...], message: str) -> None:
    errors = errors_in(findings)
    if errors:
        raise ConnectorInvalidError(f"{spec.name}: {message}", findings=errors)
