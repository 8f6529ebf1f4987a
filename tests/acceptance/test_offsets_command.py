"""`cdc-outbox offsets` from the shell: what it does to events is counted."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cdc_outbox.connect.lifecycle import ConnectorControl
from cdc_outbox.databases.lsn import Lsn
from tests.support.commands import run_command
from tests.support.deployments import sequences
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually, one
from tests.support.timings import QUICK_TIMINGS


@pytest.fixture
def env(pipeline: Pipeline) -> dict[str, str]:
    return pipeline.stack.environment() | {"CDC_OUTBOX_DSN": pipeline.dsn}


def shown(name: str, env: dict[str, str]) -> dict[str, Any]:
    found = json.loads(run_command("offsets", "show", name, "--output=json", env=env).stdout)
    assert isinstance(found, dict)
    return found


def log_end(pipeline: Pipeline) -> str:
    with pipeline.connect() as connection:
        return str(one(connection, "select pg_current_wal_lsn()::text"))


def test_offsets_are_set_and_forgotten_and_events_left_out_only_if_somebody_says_so(
    deployed: Pipeline, env: dict[str, str], tmp_path: Path
) -> None:
    name = deployed.name
    deployed.write(2)
    eventually(lambda: sequences(deployed) == [1, 2], "two events")
    assert run_command("stop", name, env=env).returncode == 0
    before = shown(name, env)
    assert before["slot"]["name"] == deployed.spec.database.slot
    assert Lsn.parse(before["slot"]["confirmed"]) <= Lsn.parse(before["slot"]["logEnd"])
    [entry] = before["offsets"]
    spec = tmp_path / "spec.yaml"
    spec.write_text(deployed.text(name))
    assert str(Lsn(entry["offset"]["lsn"])) in run_command("offsets", "show", spec, env=env).stdout
    deployed.write(1)
    end = log_end(deployed)

    refused = run_command("offsets", "set", name, "--to-offset", end, env=env)
    assert refused.returncode == 1
    assert "are never published" in refused.stderr
    assert "hint: To do it anyway, add --yes." in refused.stderr
    for nowhere, reason in (("0/1", "no longer holds events before"), ("FFFFFF/0", "the server's log ends at")):
        refused = run_command("offsets", "set", name, "--to-offset", nowhere, "--yes", env=env)
        assert (refused.returncode, reason in refused.stderr) == (1, True)
    assert shown(name, env)["offsets"] == before["offsets"]

    done = run_command("offsets", "set", name, "--to-offset", end, "--yes", env=env)
    assert done.returncode == 0, done.stderr
    assert f"before: {json.dumps(entry['offset'])}" in done.stdout
    assert deployed.client.find_status(name).state == "STOPPED"  # as it was
    assert run_command("resume", name, "--stable-for=0s", env=env).returncode == 0
    deployed.write(1)
    eventually(lambda: sequences(deployed) == [1, 2, 4], "the fourth without the third")

    # The slot knows where it stands: nothing is left out when the offset is forgotten.
    done = run_command("offsets", "reset", name, "--stable-for=0s", env=env)
    assert done.returncode == 0, done.stderr
    assert deployed.client.find_status(name).state == "RUNNING"
    deployed.write(1)
    eventually(lambda: sequences(deployed) == [1, 2, 4, 5], "the fifth")


def test_without_the_slot_a_reset_may_leave_events_out_and_a_place_is_not_judged(
    deployed: Pipeline, env: dict[str, str]
) -> None:
    without = env | {"CDC_OUTBOX_DSN": ""}
    refused = run_command("offsets", "reset", deployed.name, env=without)
    assert (refused.returncode, "depends on the slot" in refused.stderr) == (1, True)
    assert run_command("offsets", "set", deployed.name, "--to-offset", "0/1", env=without).returncode == 2
    assert run_command("offsets", "set", deployed.name, "--to-offset", "there", env=env).returncode == 2
    assert deployed.client.find_status(deployed.name).state == "RUNNING"
    missing = run_command("offsets", "show", f"{deployed.name}x", env=env)
    assert (missing.returncode, "Did you mean" in missing.stderr) == (1, True)


@pytest.mark.parametrize("state", ["RUNNING", "PAUSED"])
def test_a_change_that_fails_leaves_the_connector_doing_what_it_did(deployed: Pipeline, state: str) -> None:
    ward = ConnectorControl(deployed.client, deployed.name, timings=QUICK_TIMINGS, report=deployed.reports.append)
    if state == "PAUSED":
        ward.pause()
    within = []
    with suppress(KeyboardInterrupt), ward.stopped(stable_seconds=0):
        within.append(deployed.client.find_status(deployed.name).state)
        raise KeyboardInterrupt
    assert within == ["STOPPED"]
    eventually(lambda: deployed.client.find_status(deployed.name).state == state, f"it to be {state} again")
