"""What a deployment refuses before it creates a connector."""

from dataclasses import replace
from unittest.mock import Mock

import pytest

from cdc_outbox.connect.deploy import Deployment, DeployOptions
from cdc_outbox.databases.facts import SlotFacts, WrittenFacts
from cdc_outbox.debezium.slot_plan import EarlierEvents
from cdc_outbox.errors import ConnectorInvalidError, UnpublishedEventsError
from cdc_outbox.spec import parse_spec
from tests.support.database_facts import GOOD, SLOT
from tests.support.specs import MINIMAL

SPEC = parse_spec(MINIMAL, name="x.yaml")
EARLIER = replace(GOOD, written=WrittenFacts(rows=1))


@pytest.mark.parametrize("slot", [None, replace(SLOT, wal_status="lost")], ids=["missing", "lost"])
def test_events_from_before_the_slot_are_refused_before_a_connector_is_created(
    monkeypatch: pytest.MonkeyPatch, slot: SlotFacts | None
) -> None:
    client, steps = Mock(), list[str]()
    client.find_config.return_value, client.find_configs.return_value = None, {}
    deployment = Deployment(SPEC, client, Mock(), DeployOptions(), lambda step, text: steps.append(f"{step}: {text}"))
    monkeypatch.setattr(deployment, "check", lambda: replace(EARLIER, slot=slot))
    for deploy in (deployment.dry_run, deployment.run):
        with pytest.raises(UnpublishedEventsError, match="the table already contains 1 event"):
            deploy()
    assert (client.create_stopped.call_count, client.delete.call_count, steps) == (0, 0, [])


def test_rows_that_cannot_be_published_again_are_refused_before_a_connector_is_created(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, database = Mock(), Mock()
    client.find_config.return_value, client.find_configs.return_value = None, {}
    database.count_forgotten.return_value = 1
    options = DeployOptions(earlier=EarlierEvents.REPUBLISH)
    deployment = Deployment(SPEC, client, database, options, lambda *_: None)
    monkeypatch.setattr(deployment, "check", lambda: EARLIER)
    with pytest.raises(ConnectorInvalidError, match="the rows of the table cannot be published again"):
        deployment.run()
    assert client.create_stopped.call_count == 0
