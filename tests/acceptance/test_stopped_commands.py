"""What `watch`, `status` and `resume` say of a slot that is lost or moved under a connector that is stopped."""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from cdc_outbox.cli.contexts import Databases
from cdc_outbox.cli.heartbeats import Looks
from cdc_outbox.cli.watch import Watching
from cdc_outbox.connect.restart_policy import RestartOptions
from tests.support.commands import run_command
from tests.support.deployments import (
    halt_and_advance_slot,
    halt_and_drop_slot,
    halt_and_forget,
    publish_and_halt,
    sequences,
)
from tests.support.pipeline import Pipeline
from tests.support.rig import eventually, one

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


@contextmanager
def another_reader(pipeline: Pipeline) -> Iterator[str]:
    """Read the slot with another tool, and confirm nothing of it: no connector starts from an offset before that.

    Yield what is said of it.
    """
    slot, publication = pipeline.spec.database.slot, pipeline.spec.database.publication
    options = ("-o", "proto_version=1", "-o", f"publication_names={publication}")
    program = pipeline.stack.postgres.programs / "pg_recvlogical"
    dsn = make_conninfo(pipeline.dsn, options="-c wal_sender_timeout=0")  # the server asks for no confirmation either
    arguments = ("-d", dsn, "-S", slot, "--start", "--status-interval=0", *options, "--file=/dev/null")
    process = subprocess.Popen([program, *arguments])
    try:
        with pipeline.connect() as connection:
            reader = "select coalesce(max(active_pid), 0) from pg_replication_slots where slot_name = %s"
            eventually(lambda: one(connection, reader, slot), "the slot to be read")
            pid = one(connection, reader, slot)
        yield f"another connector or tool reads the slot (process {pid} of the server, pg_recvlogical)"
    finally:
        process.terminate()
        process.wait()


def test_a_slot_that_another_tool_reads_is_named_also_while_connect_calls_the_connector_running(
    deployed: Pipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, spec = deployed.name, tmp_path / "spec.yaml"
    spec.write_text(Pipeline.text(name))
    env = deployed.stack.environment() | {"CDC_OUTBOX_DSN": deployed.dsn}
    publish_and_halt(deployed)
    with another_reader(deployed) as text:
        refused = run_command("resume", name, "--stable-for=0s", env=env)
        assert (refused.returncode, text in refused.stderr) == (1, True), refused.stderr
        assert deployed.client.find_status(name).state == "STOPPED"

        deployed.client.resume(name)
        status = deployed.client.find_status
        eventually(lambda: [task.state for task in status(name).tasks] == ["RUNNING"], "the task to be called running")
        for command in (["resume", name], ["deploy-connector", spec], ["plan", spec], ["preflight", spec]):
            refused = run_command(*command, env=env)
            assert (refused.returncode, text in refused.stdout + refused.stderr) == (1, True), refused.stderr
        assert text in run_command("status", name, env=env).stdout
        assert f"DB503: {text}" in watched(deployed, capsys)
    # It may have confirmed what it read.
    done = run_command("deploy-connector", spec, "--earlier-events=republish", "--stable-for=0s", env=env)
    assert done.returncode == 0, done.stderr
    deployed.write(1)
    eventually(lambda: sequences(deployed) == [1, 2, 3], "an event after the other tool")
