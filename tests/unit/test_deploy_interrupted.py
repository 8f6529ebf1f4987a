"""What a deployment tells that is interrupted."""

from typing import Any
from unittest.mock import Mock

import pytest

from cdc_outbox.connect.deploy import Deployment, DeployOptions
from cdc_outbox.debezium.render import render
from cdc_outbox.spec import parse_spec
from tests.support.database_facts import GOOD
from tests.support.specs import MINIMAL

SPEC = parse_spec(MINIMAL, name="x.yaml")


def test_ctrl_c_during_a_first_deployment_comes_after_its_plan_and_says_what_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client, made, told = Mock(), dict[str, Any](), list[str]()
    client.find_config.side_effect = made.get
    client.find_configs.return_value = {}

    def create_stopped(config: dict[str, str]) -> None:
        told.append("it is created")
        made[SPEC.name] = config
        raise KeyboardInterrupt

    client.create_stopped.side_effect = create_stopped
    deployment = Deployment(SPEC, client, Mock(), DeployOptions(), lambda step, text: told.append(f"{step}: {text}"))
    monkeypatch.setattr(deployment, "check", lambda: GOOD)
    with pytest.raises(KeyboardInterrupt):
        deployment.run()
    assert told == [
        f"plan: create the connector with {len(render(SPEC))} options",
        "it is created",
        "undo: interrupted",
        "undo: connector orders, created by this deployment, was deleted",
    ]
    client.delete.assert_called_once_with("orders")
