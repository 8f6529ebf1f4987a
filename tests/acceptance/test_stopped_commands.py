"""What `watch`, `status` and `resume` say of a slot that is lost or moved under a connector that is stopped."""

import json
from collections.abc import Callable

import pytest

from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.heartbeats import Looks
from cdc_outbox.cli.watch import Watching
from cdc_outbox.connect.restart_policy import RestartOptions
from tests.support.commands import run_command
from tests.support.deployments import halt_and_advance_slot, halt_and_drop_slot, halt_and_forget, publish_and_halt
from tests.support.pipeline import Pipeline

DAMAGES = [
    pytest.param(halt_and_drop_slot, "DB512", "does not exist", id="dropped"),
    pytest.param(halt_and_advance_slot, "DB513", "ahead of Connect's offset", id="advanced"),
    pytest.param(halt_and_forget, "DB511", "the table already contains 2 events", id="forgotten"),
]


def watched(pipeline: Pipeline, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a watch says at its first look."""
    looks = Looks(pipeline.client, None, Databases(default=pipeline.dsn))
    Watching(pipeline.client, [pipeline.name], RestartOptions(), looks).look()
    return capsys.readouterr().out


@pytest.mark.parametrize(("damage", "code", "text"), DAMAGES)
def test_watch_and_status_tell_of_the_slot_and_resume_refuses(
    deployed: Pipeline, capsys: pytest.CaptureFixture[str], damage: Callable[[Pipeline], None], code: str, text: str
) -> None:
    env = deployed.stack.environment() | {"CDC_OUTBOX_DSN": deployed.dsn}
    damage(deployed)
    told = watched(deployed, capsys)
    assert code in told
    assert text in told
    env.pop("CDC_OUTBOX_BOOTSTRAP_SERVERS")
    status = run_command("status", deployed.name, "--output=json", env=env)
    [row] = json.loads(status.stdout)["connectors"]
    assert status.returncode == 1
    assert [each["code"] for each in row["findings"]] == [code]
    assert f"{code}: " in run_command("status", deployed.name, env=env).stdout
    refused = run_command("resume", deployed.name, "--stable-for=0s", env=env)
    assert (refused.returncode, text in refused.stderr, "republish" in refused.stderr) == (1, True, True)
    assert deployed.client.find_status(deployed.name).state == "STOPPED"


def test_a_slot_that_holds_everything_is_no_finding(deployed: Pipeline, capsys: pytest.CaptureFixture[str]) -> None:
    publish_and_halt(deployed)
    deployed.write(1)
    env = deployed.stack.environment() | {"CDC_OUTBOX_DSN": deployed.dsn}
    assert "DB5" not in watched(deployed, capsys)
    assert run_command("resume", deployed.name, "--stable-for=0s", env=env).returncode == 0
    assert run_command("status", deployed.name, env=env).returncode == 0
