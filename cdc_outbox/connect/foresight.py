"""What a deployment would change, as far as it can be told without the database."""

from dataclasses import replace

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.neighbours import find_neighbours
from cdc_outbox.connect.plan import Plan, SlotPlan, SlotStep, make_plan
from cdc_outbox.connect.reader import find_connector
from cdc_outbox.connect.refusals import refuse, refuse_unfit, refuse_what_connect_refuses
from cdc_outbox.connect.render import render
from cdc_outbox.connect.timings import Timings
from cdc_outbox.spec import Spec


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
    return replace(make_plan(found, config, SlotPlan(SlotStep.KEEP)), neighbours=neighbours)


def compare(spec: Spec, client: ConnectClient, *, timings: Timings) -> Plan:
    """Return the same of a deployment that would be refused; Connect does not validate the configuration."""
    return make_plan(find_connector(client, spec.name, timings=timings), render(spec), SlotPlan(SlotStep.KEEP))
