"""`cdc-outbox deploy-connector` and its neighbours from the shell: what they print, and what they exit with."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cdc_outbox.errors import ConnectorNotFoundError
from tests.support.commands import run_command
from tests.support.patience import patience
from tests.support.pipeline import SELDOM, Pipeline
from tests.support.rig import eventually

ROOT = Path(__file__).parents[2]


@pytest.fixture
def spec(pipeline: Pipeline, tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(Pipeline.text(pipeline.name))
    return path


@pytest.fixture
def env(pipeline: Pipeline) -> dict[str, str]:
    return pipeline.stack.environment() | {"CDC_OUTBOX_DSN": pipeline.dsn}


def test_data_goes_to_stdout_and_the_rest_to_stderr(pipeline: Pipeline, spec: Path, env: dict[str, str]) -> None:
    dry = run_command("deploy-connector", str(spec), "--dry-run", env=env)
    assert dry.returncode == 3, dry.stderr
    assert f"+ slot.name = {pipeline.spec.database.slot}" in dry.stdout
    assert dry.stdout.endswith(f"{pipeline.name}: would be created\n")

    first = run_command("deploy-connector", str(spec), "--stable-for", "1s", env=env)
    assert (first.returncode, first.stdout) == (0, f"{pipeline.name}: deployed\n"), first.stderr
    assert f"slot       {pipeline.spec.database.slot} created at " in first.stderr
    assert "wait       connector RUNNING, 1 task RUNNING" in first.stderr
    assert "wait       ran without interruption for 1 s" in first.stderr

    again = run_command("deploy-connector", str(spec), env=env)
    assert (again.returncode, again.stdout) == (0, f"{pipeline.name}: nothing to change\n")
    assert run_command("deploy-connector", str(spec), "--dry-run", env=env).returncode == 0

    spec.write_text(spec.read_text().replace(SELDOM, "latency: low\n"))
    change = run_command("deploy-connector", str(spec), "--stable-for=1s", env=env)
    assert change.stdout.splitlines() == [f"{pipeline.name}: deployed"]
    told = change.stderr.splitlines()
    for line in ("~ latency: poll.interval.ms = 100 -> 5", "+ latency: producer.override.linger.ms = 0"):
        waited = next(place for place, step in enumerate(told) if step.startswith("wait "))
        assert told.index(f"plan       {line}") < waited


def test_a_task_that_fails_is_shown_with_its_trace_and_exits_1(
    pipeline: Pipeline, spec: Path, env: dict[str, str]
) -> None:
    # A custom converter that nobody has: validation takes it, the task does not.
    spec.write_text(spec.read_text().replace(SELDOM, "overrides: {converters: custom, custom.type: nowhere.Nobody}\n"))
    done = run_command("deploy-connector", str(spec), env=env)
    assert done.returncode == 1
    assert "java.lang.ClassNotFoundException: nowhere.Nobody" in done.stderr
    assert f"error: {pipeline.name}: connector RUNNING, 1 task FAILED" in done.stderr
    assert f"undo       connector {pipeline.name}, created by this deployment, was deleted" in done.stderr
    assert "Traceback" not in done.stderr
    assert pipeline.client.find_config(pipeline.name) is None


def test_what_would_be_lost_is_said_with_the_two_ways_on(pipeline: Pipeline, spec: Path, env: dict[str, str]) -> None:
    pipeline.write(3)
    done = run_command("deploy-connector", str(spec), env=env)
    assert done.returncode == 1
    assert "does not exist, and the table already contains 3 events" in done.stderr
    assert "--earlier-events republish" in done.stderr
    assert "--earlier-events skip" in done.stderr
    way_on = run_command("deploy-connector", str(spec), "--earlier-events=skip", "--stable-for=0s", env=env)
    assert way_on.returncode == 0


def test_a_halted_connector_is_a_difference(pipeline: Pipeline, spec: Path, env: dict[str, str]) -> None:
    assert run_command("deploy-connector", str(spec), "--stable-for=0s", env=env).returncode == 0
    pipeline.client.stop(pipeline.name)
    eventually(lambda: pipeline.client.find_status(pipeline.name).state == "STOPPED", "the connector to stop")
    dry = run_command("deploy-connector", str(spec), "--dry-run", env=env)
    assert dry.returncode == 3
    assert dry.stdout == f"{pipeline.name}: would be changed: resume the connector, which is paused or stopped\n"
    done = run_command("deploy-connector", str(spec), "--stable-for=0s", env=env)
    assert (done.returncode, done.stdout) == (0, f"{pipeline.name}: deployed\n")


def is_running(pipeline: Pipeline) -> bool:
    try:
        return pipeline.client.find_status(pipeline.name).state == "RUNNING"
    except ConnectorNotFoundError:
        return False


def test_a_deployment_that_is_told_to_end_takes_back_what_it_did(
    pipeline: Pipeline, spec: Path, env: dict[str, str]
) -> None:
    command = [f"{sys.prefix}/bin/cdc-outbox", "deploy-connector", str(spec), "--stable-for=300s"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            # It is made stopped; once it runs, the deployment knows that it made it.
            eventually(lambda: is_running(pipeline), "the connector to run")
            process.terminate()
            _, told = process.communicate(timeout=patience())
        finally:
            process.kill()
    assert process.returncode == 130, told
    assert f"undo       connector {pipeline.name}, created by this deployment, was deleted" in told
    assert pipeline.client.find_config(pipeline.name) is None


@pytest.mark.parametrize(
    ("changes", "code", "sentence", "hint"),
    [
        ({"CDC_OUTBOX_DSN": "host=127.0.0.1 port=1"}, 75, "Connection refused", "Check that the server runs"),
        ({"CDC_OUTBOX_DSN": "{dsn} password=wrong"}, 1, "password authentication failed", "Check user and password"),
        ({"CDC_OUTBOX_DSN": "{dsn} dbname=nowhere"}, 1, 'database "nowhere" does not exist', "Create the database, or"),
        ({"CDC_OUTBOX_DSN": "no dsn at all"}, 2, "the DSN cannot be read", ""),
        ({"CDC_OUTBOX_CONNECT_URL": "http://[x"}, 2, "the Connect URL is invalid", ""),
        ({"CDC_OUTBOX_CONNECT_URL": "ftp://x"}, 2, "must start with http:// or https://", ""),
        ({"CDC_OUTBOX_CONNECT_URL": "http://user:hunter2@x"}, 2, "must not contain credentials", ""),
    ],
)
def test_what_is_not_there_is_a_sentence_a_hint_and_an_exit_code(
    pipeline: Pipeline, spec: Path, env: dict[str, str], changes: dict[str, str], code: int, sentence: str, hint: str
) -> None:
    changed = {name: value.format(dsn=pipeline.dsn) for name, value in changes.items()}
    done = run_command("deploy-connector", str(spec), env=env | changed)
    assert (done.returncode, sentence in done.stderr, hint in done.stderr) == (code, True, True), done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr
    assert pipeline.client.find_config(pipeline.name) is None


def test_a_database_that_cannot_be_asked_yet_is_a_sentence_before_anybody_connects() -> None:
    spec = str(ROOT / "connectors" / "orders-mariadb.yaml")
    nowhere = ["--dsn", "mysql://u:p@nowhere.invalid/orders", "--connect-url", "http://nowhere.invalid"]
    done = run_command("deploy-connector", spec, *nowhere)
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: connectors can be deployed for postgresql only, not for mariadb\n" in done.stderr
    assert "hint: Print the configuration with `cdc-outbox render`" in done.stderr


def test_a_wrong_spec_is_one_finding_a_mistake_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(Pipeline.text("orders").replace("aggregates:", "agregates:").replace("kind: postgresql", "kind: x"))
    done = run_command("render", str(path))
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{path}:4 database.kind: error SP104:" in done.stderr
    assert f"{path}:11 agregates: error SP101: unknown key 'agregates'. Did you mean 'aggregates'?" in done.stderr
    assert "hint: Correct the spec." in done.stderr


@pytest.mark.parametrize("path", ["nowhere.yaml", "/", "/etc/shadow-is-not-there"])
def test_a_spec_that_cannot_be_read_is_a_sentence(path: str) -> None:
    done = run_command("render", path)
    assert done.returncode == 2
    assert f"error: {path} cannot be read: " in done.stderr


def test_render_prints_the_configuration_and_nothing_else() -> None:
    done = run_command("render", str(ROOT / "connectors" / "orders.yaml"))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["name"] == "orders"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--help"],
        ["deploy-connector", "--help"],
        ["init", "--help"],
        ["stack", "--help"],
        ["stack", "up", "--help"],
    ],
)
def test_help_is_there_and_quick_to_read(arguments: list[str]) -> None:
    done = run_command(*arguments)
    text = done.stdout + done.stderr
    assert "Usage: cdc-outbox" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("arguments", [["nonsense"], ["deploy-connector"], ["init"], ["render", "--nonsense"]])
def test_wrong_use_exits_2(arguments: list[str]) -> None:
    done = run_command(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_an_option_is_also_a_variable() -> None:
    text = run_command("deploy-connector", "--help").stdout
    for variable in ("CDC_OUTBOX_DSN", "CDC_OUTBOX_CONNECT_URL", "CDC_OUTBOX_STABLE_FOR", "CDC_OUTBOX_TIMEOUT"):
        assert variable in text
