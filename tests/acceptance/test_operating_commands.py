"""`cdc-outbox status`, `pause`, `resume`, `stop`, `restart` and `delete` from the shell."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from psycopg import conninfo

from cdc_outbox.connect.postgresql_database import PostgresqlDatabase
from cdc_outbox.connect.wait import Condition, condition_of
from cdc_outbox.debezium.render import render
from tests.support.commands import run_command
from tests.support.deployments import broken, sequences, slot_exists
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually
from tests.support.threads import Threads


@pytest.fixture
def spec(pipeline: Pipeline, tmp_path: Path) -> str:
    path = tmp_path / "spec.yaml"
    path.write_text(Pipeline.text(pipeline.name))
    return str(path)


@pytest.fixture
def env(pipeline: Pipeline) -> dict[str, str]:
    return pipeline.stack.environment() | {"CDC_OUTBOX_DSN": pipeline.dsn}


def row(name: str, env: dict[str, str]) -> dict[str, Any]:
    found = json.loads(run_command("status", name, "--output=json", env=env).stdout)
    [only] = found["connectors"]
    assert isinstance(only, dict)
    return only


def test_a_connector_is_halted_resumed_and_restarted_and_each_is_waited_for(
    deployed: Pipeline, spec: str, env: dict[str, str]
) -> None:
    name = deployed.name
    done = run_command("status", spec, env=env)
    assert done.returncode == 0, done.stderr
    head, line = done.stdout.splitlines()
    assert head.split() == ["CONNECTOR", "STATE", "TASKS", "SLOT", "NOT", "CONFIRMED", "BEHIND", "WAL", "KEPT"]
    assert line.split()[:5] == [name, "RUNNING", "1", "RUNNING", deployed.spec.database.slot]
    without = {key: value for key, value in env.items() if key != "CDC_OUTBOX_DSN"}
    assert row(name, without)["slot"] is None

    for command, state in (("pause", "PAUSED"), ("resume", "RUNNING"), ("stop", "STOPPED")):
        told = run_command(command, name, "--stable-for=0s" if command == "resume" else "--timeout=5m", env=env)
        assert told.returncode == 0, told.stderr
        assert deployed.client.find_status(name).state == state
        assert run_command("status", name, env=env).returncode == (0 if state == "RUNNING" else 1)
    deployed.write(3)
    halted = row(name, env)
    assert (halted["slotActive"], halted["unconfirmedBytes"] > 0) == (False, True)
    assert halted["behindSeconds"] > 0
    for arguments in (["resume", spec], ["restart", name], ["restart", name, "--failed"]):
        told = run_command(*arguments, "--stable-for=0s", env=env)
        assert told.returncode == 0, told.stderr
    eventually(lambda: sequences(deployed) == [1, 2, 3], "what waited in the slot")


def test_how_many_messages_come_to_its_topics_is_looked_at_twice(deployed: Pipeline, env: dict[str, str]) -> None:
    deployed.write(1)
    eventually(lambda: deployed.client.find_topics(deployed.name), "Connect to note the topic")
    over = threading.Event()

    def write() -> None:
        while not over.is_set():
            deployed.write(5)

    with Threads() as pool:
        pool.submit(write)
        try:
            found = run_command("status", deployed.name, "--rates=2s", "--output=json", env=env)
        finally:
            over.set()
    [topic] = json.loads(found.stdout)["connectors"][0]["topics"]
    assert topic["name"] == deployed.topic
    assert topic["perSecond"] > 0
    shown = run_command("status", deployed.name, "--rates=0.1s", env=env)
    assert shown.stdout.splitlines()[0].endswith("EVENTS/S")
    without = {key: value for key, value in env.items() if key != "CDC_OUTBOX_BOOTSTRAP_SERVERS"}
    assert run_command("status", "--rates=1s", env=without).returncode == 2


def test_a_failure_is_explained_and_what_does_not_run_is_not_called_restarted(
    pipeline: Pipeline, env: dict[str, str]
) -> None:
    config = render(pipeline.spec)
    pipeline.deploy(stable_seconds=0)
    pipeline.client.put_config(broken(config))
    failed = Condition.FAILED
    eventually(lambda: condition_of(pipeline.client.find_status(pipeline.name)) is failed, "the task to fail")
    done = run_command("status", pipeline.name, env=env)
    assert done.returncode == 1
    assert " 1 FAILED " in done.stdout
    assert "Connect refuses the value of an option" in done.stdout
    again = run_command("restart", pipeline.name, "--failed", env=env)
    assert again.returncode == 1
    assert "ConfigException" in again.stderr


def test_a_name_that_does_not_exist_lists_what_does(deployed: Pipeline, env: dict[str, str]) -> None:
    almost = f"{deployed.name}x"
    for command in ("status", "pause", "resume", "stop", "restart"):
        done = run_command(command, almost, env=env)
        assert done.returncode == 1
        assert f"error: there is no connector {almost!r}" in done.stderr
        assert f"Did you mean {deployed.name!r}?" in done.stderr


def test_a_deleted_connector_goes_on_where_it_ended_and_a_purged_one_leaves_nothing(
    deployed: Pipeline, spec: str, env: dict[str, str]
) -> None:
    slot, name = deployed.spec.database.slot, deployed.name
    deployed.write(2)
    eventually(lambda: sequences(deployed) == [1, 2], "two events")
    done = run_command("delete", spec, env=env)
    assert done.returncode == 0, done.stderr
    assert f"stays: the slot {slot}, which keeps WAL until it is dropped\n" in done.stdout
    assert f"stays: the offsets that Connect keeps under {name}\n" in done.stdout
    assert deployed.client.find_config(name) is None
    assert run_command("delete", spec, env=env).returncode == 1  # there is none any more
    deployed.write(1)
    assert run_command("deploy-connector", spec, "--stable-for=0s", env=env).returncode == 0
    eventually(lambda: sequences(deployed) == [1, 2, 3], "what was written meanwhile")

    # An interrupted purge is finished by the next one, also without a connector.
    by_name = run_command("delete", name, env=env)
    assert by_name.returncode == 0, by_name.stderr
    assert f"stays: the slot {slot}, which keeps WAL until it is dropped\n" in by_name.stdout
    for _ in range(2):
        done = run_command("delete", spec, "--purge", env=env)
        assert done.returncode == 0, done.stderr
        assert "the slot" not in done.stdout
        assert f"stays: the publication {deployed.spec.database.publication}\n" in done.stdout
        assert not slot_exists(deployed)
        assert deployed.client.find_config(name) is None
    deployed.client.create_stopped(render(deployed.spec))
    assert deployed.client.find_offsets(name) == []


def test_a_purge_counts_what_was_not_published_and_wants_to_be_sure(
    deployed: Pipeline, spec: str, env: dict[str, str]
) -> None:
    slot, name = deployed.spec.database.slot, deployed.name
    deployed.write(2)
    eventually(lambda: sequences(deployed) == [1, 2], "two events")
    deployed.stop()
    deployed.write(3)
    for _ in range(2):  # also without a connector
        refused = run_command("delete", spec, "--purge", env=env)
        assert refused.returncode == 1, refused.stderr
        assert f"the slot {slot} holds 3 unpublished events" in refused.stderr
        assert "--yes" in refused.stderr
        assert slot_exists(deployed)
        if deployed.client.find_config(name) is not None:
            assert deployed.client.find_status(name).state == "STOPPED"
            assert run_command("delete", spec, env=env).returncode == 0
    done = run_command("delete", spec, "--purge", "--yes", env=env)
    assert done.returncode == 0, done.stderr
    assert not slot_exists(deployed)


def test_a_purge_that_is_refused_lets_the_connector_run_on(
    deployed: Pipeline, spec: str, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PostgresqlDatabase, "count_undelivered", lambda *_: 2)
    refused = run_command("delete", spec, "--purge", env=env)
    assert (refused.returncode, "holds 2 unpublished events" in refused.stderr) == (1, True), refused.stderr
    eventually(lambda: deployed.client.find_status(deployed.name).state == "RUNNING", "the connector to run again")
    assert slot_exists(deployed)


def test_a_purge_that_cannot_drop_the_slot_leaves_the_connector_running(
    deployed: Pipeline, spec: str, env: dict[str, str]
) -> None:
    other = deployed.stack.postgres.create_database(f"{deployed.name}_other")
    refused = run_command("delete", spec, "--purge", env=env | {"CDC_OUTBOX_DSN": other})
    assert refused.returncode == 1, refused.stderr
    assert f"DB101: this is the database '{deployed.name}_other'" in refused.stderr
    assert "Correct the DSN" in refused.stderr
    role = f"{deployed.name}_guest"
    with deployed.connect() as connection:
        connection.execute(f"create role {role} login password 'guest'".encode())
    try:
        guest = conninfo.make_conninfo(deployed.dsn, user=role, password="guest")
        refused = run_command("delete", spec, "--purge", env=env | {"CDC_OUTBOX_DSN": guest})
        assert (refused.returncode, "permission denied to use replication slots" in refused.stderr) == (1, True)
    finally:
        with deployed.connect() as connection:
            connection.execute(f"drop role {role}".encode())
    assert condition_of(deployed.client.find_status(deployed.name)) is Condition.UP
    assert slot_exists(deployed)


def test_a_connector_of_another_slot_is_not_deleted(deployed: Pipeline, spec: str, env: dict[str, str]) -> None:
    Path(spec).write_text(Path(spec).read_text().replace("database:\n", "database:\n  slot: elsewhere\n"))
    for more in ([], ["--purge"]):
        done = run_command("delete", spec, *more, env=env)
        assert (done.returncode, "reads the slot" in done.stderr) == (1, True)
    assert condition_of(deployed.client.find_status(deployed.name)) is Condition.UP
    assert run_command("delete", spec, "--purge", env={**env, "CDC_OUTBOX_DSN": ""}).returncode == 2
