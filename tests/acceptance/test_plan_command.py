"""`cdc-outbox plan` from the shell, and deployments of several pipelines."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline
from tests.support.release import IMPATIENT
from tests.support.rig import eventually

SECRET = "hunter2-s3cret"
LOOKS_SELDOM = "poll.interval.ms: '100', "
CANARY = "  cdc-outbox.canary: {sequence: none}\n"


@pytest.fixture(scope="module")
def running(outbox_stack: Stack) -> Iterator[Pipeline]:
    """One pipeline that runs, for tests that leave it as it is."""
    made = Pipeline.make(outbox_stack, IMPATIENT)
    made.deploy(stable_seconds=0)
    yield made
    made.close()


@pytest.fixture
def folder(running: Pipeline, tmp_path: Path) -> Path:
    """Where its spec lies, beside a context that leads to the stack."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "a.yaml").write_text(Pipeline.text(running.name, IMPATIENT))
    (tmp_path / "cdc-outbox.yaml").write_text(
        "contexts:\n  here:\n    connect:\n"
        f"      urls: ['http://127.0.0.1:1', '{running.stack.connect_url}']\n"
        "      basic: {user: '${env:CONNECT_USER}', password: '${env:CONNECT_PASSWORD}'}\n"
        f"    dsns: {{{running.name}: '${{env:THE_DSN}}'}}\n"
    )
    return tmp_path


@pytest.fixture
def env(running: Pipeline, folder: Path) -> dict[str, str]:
    contexts = {"CDC_OUTBOX_CONTEXTS": str(folder / "cdc-outbox.yaml"), "CDC_OUTBOX_CONTEXT": "here"}
    user, _, password = running.stack.environment()["CDC_OUTBOX_CONNECT_LOGIN"].partition(":")
    return contexts | {"THE_DSN": running.dsn, "CONNECT_USER": user, "CONNECT_PASSWORD": password}


def test_nothing_to_change_is_0_with_and_without_the_database(folder: Path, env: dict[str, str]) -> None:
    for dsn in ({}, {"THE_DSN": "host=127.0.0.1 port=1"}):
        done = run_command("plan", str(folder / "specs"), env=env | dsn)
        assert done.returncode == (75 if dsn else 0), done.stderr
    only_connect = (folder / "cdc-outbox.yaml").read_text().split("    dsns")[0]
    (folder / "cdc-outbox.yaml").write_text(only_connect)
    done = run_command("plan", str(folder / "specs"), env=env)
    assert (done.returncode, done.stdout.endswith(": nothing to change\n")) == (0, True), done.stderr


def test_changes_are_told_with_what_they_do(running: Pipeline, folder: Path, env: dict[str, str]) -> None:
    spec = folder / "specs" / "a.yaml"
    changed = spec.read_text().replace("{aggregate_type}", "x.{aggregate_type}").replace(LOOKS_SELDOM, "")
    spec.write_text(changed + "latency: low\n")
    done = run_command("plan", str(spec), env=env)
    assert done.returncode == 3
    lines = done.stdout.splitlines()
    assert lines[0] == f"{running.name}: would be changed: change 4 options"
    assert "  ~ latency: poll.interval.ms = 100 -> 5" in lines
    assert any(line.startswith("  ~ topics.name: topic.creation.heartbeat.include: - ") for line in lines)
    assert "    connector: Events arrive sooner or later than now; messages do not change." in lines
    assert any(line.startswith("    dangerous: Events go to other topics") for line in lines)
    assert lines[-1] == "  deploy-connector refuses this without --replace"

    found = json.loads(run_command("plan", str(spec), "--output=json", env=env).stdout)
    [pipeline] = found["pipelines"]
    assert (found["kind"], pipeline["name"], pipeline["state"]) == ("Plan", running.name, "differs")
    assert {change["level"] for change in pipeline["changes"]} == {"connector", "dangerous"}

    for more in ([], ["--dry-run"]):
        refused = run_command("deploy-connector", str(spec), *more, env=env)
        assert refused.returncode == 1
        assert "~ topics.name: transforms.outbox.route.topic.replacement = " in refused.stderr
        assert ". Events go to other topics" in refused.stderr
        assert "--replace" in refused.stderr
    assert run_command("deploy-connector", str(spec), "--dry-run", "--replace", env=env).returncode == 3
    assert run_command("plan", str(folder / "specs"), env=env).returncode == 3  # nothing was changed


def test_the_difference_is_shown_where_the_database_is_not_ready(
    running: Pipeline, folder: Path, env: dict[str, str]
) -> None:
    spec = folder / "specs" / "a.yaml"
    changed = spec.read_text().replace(LOOKS_SELDOM, "")
    spec.write_text(f"{changed}latency: low\noutbox: {{headers: {{tenant: tenant-id}}}}\n")
    done = run_command("plan", str(spec), env=env)
    assert done.returncode == 1
    assert "the column does not exist. Run `cdc-outbox init`" in done.stderr
    first, *lines = done.stdout.splitlines()
    assert first == f"{running.name}: would be refused; apart from that: change 3 options"
    assert "  ~ latency: poll.interval.ms = 100 -> 5" in lines
    placement = "transforms.outbox.table.fields.additional.placement"
    assert f"  ~ outbox.headers: {placement}: + tenant:header:tenant-id" in lines


@pytest.mark.parametrize("command", [["plan"], ["deploy-connector"], ["deploy-connector", "--dry-run"]])
def test_a_changed_source_is_refused(running: Pipeline, folder: Path, env: dict[str, str], command: list[str]) -> None:
    spec = folder / "specs" / "a.yaml"
    spec.write_text(f"{spec.read_text()}source: shop\n")
    done = run_command(*command, str(spec), env=env)
    message = f"the source of the table is {running.name}.1, and the spec sets shop."
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr
    assert f"error DB333: {message}" in done.stderr


def test_a_secret_that_runs_is_never_shown(running: Pipeline, folder: Path, env: dict[str, str]) -> None:
    """Somebody wrote secrets into the connector by hand."""
    before = running.client.find_config(running.name)
    assert before is not None
    by_hand = {
        "producer.override.sasl.jaas.config": f'x.PlainLoginModule required username="me" password="{SECRET}";',
        "value.converter.basic.auth.user.info": f"me:{SECRET}",
        "heartbeat.action.query": f"select dblink('host=x password={SECRET}')",
    }
    running.client.stop(running.name)
    eventually(lambda: running.client.find_status(running.name).state == "STOPPED", "the connector to stop")
    running.client.put_config({**before, **by_hand})
    try:
        spec = str(folder / "specs")
        for arguments in (["plan"], ["plan", "--output=json"], ["deploy-connector", "--dry-run"]):
            done = run_command(arguments[0], spec, *arguments[1:], env=env)
            assert done.returncode == 3, done.stderr
            assert "********" in done.stdout
            assert SECRET not in done.stdout + done.stderr
    finally:
        running.client.put_config(before)
        running.client.resume(running.name)
        eventually(lambda: running.client.find_status(running.name).state == "RUNNING", "the connector to run")


def test_of_several_specs_the_first_that_fails_ends_the_deployment(
    running: Pipeline, folder: Path, env: dict[str, str]
) -> None:
    for number, name in enumerate(("missing", "later")):
        (folder / "specs" / f"b{number}.yaml").write_text(Pipeline.text(name))
    (folder / "cdc-outbox.yaml").write_text(
        (folder / "cdc-outbox.yaml").read_text().replace("    dsns", "    dsn: '${env:THE_DSN}'\n    dsns")
    )
    done = run_command("deploy-connector", str(folder / "specs"), env=env)
    assert done.returncode == 1
    assert done.stdout == f"{running.name}: nothing to change\nlater: not tried\n"
    assert "error: missing: " in done.stderr

    told = run_command("deploy-connector", str(folder / "specs"), "--output=json", env=env)
    assert told.returncode == 1
    found = json.loads(told.stdout)["pipelines"]
    assert [each["state"] for each in found] == ["unchanged", "failed", "not tried"]
    assert found[1]["error"]["kind"] == "ConnectorInvalidError"
    assert [step["step"] for step in found[0]["steps"][:2]] == ["preflight", "check"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "both define the pipeline"),
        ("twin", "the specs contradict each other"),
    ],
)
def test_specs_that_do_not_go_together_are_refused_before_anything_is_asked(
    running: Pipeline, folder: Path, env: dict[str, str], name: str, said: str
) -> None:
    text = Pipeline.text(name or running.name).replace("kind: postgresql", "kind: postgresql\n  slot: the_same")
    for file in ("a", "b"):
        (folder / "specs" / f"{file}.yaml").write_text(text.replace("name: twin\n", f"name: twin_{file}\n", 1))
    done = run_command("deploy-connector", str(folder / "specs"), env=env | {"THE_DSN": "host=127.0.0.1 port=1"})
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_a_folder_without_specs_is_wrong_use(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "empty").mkdir()
    done = run_command("plan", str(tmp_path / "empty"), env=env)
    assert (done.returncode, "contains no spec" in done.stderr) == (2, True)


def test_a_canary_is_seen_in_kafka_and_leaves_no_row(pipeline: Pipeline, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    env = pipeline.stack.environment() | {"CDC_OUTBOX_DSN": pipeline.dsn}
    spec.write_text(Pipeline.text(pipeline.name))
    undeclared = run_command("deploy-connector", str(spec), "--canary", env=env)
    assert undeclared.returncode == 2
    assert "Add `cdc-outbox.canary: {sequence: none}` to aggregates" in undeclared.stderr
    assert pipeline.client.find_config(pipeline.name) is None

    spec.write_text(Pipeline.text(pipeline.name).replace("topics:", f"{CANARY}topics:"))
    for _ in range(2):
        done = run_command("deploy-connector", str(spec), "--canary", "--stable-for=0s", env=env)
        assert done.returncode == 0, done.stderr
        assert f"canary     reached {pipeline.name}.cdc-outbox.canary[" in done.stderr
    with pipeline.connect() as connection:
        assert connection.execute("select count(*) from outbox").fetchone() == (0,)

    without = {name: value for name, value in env.items() if name != "CDC_OUTBOX_BOOTSTRAP_SERVERS"}
    assert run_command("deploy-connector", str(spec), "--canary", env=without).returncode == 2


def test_a_canary_that_is_not_seen_takes_the_deployment_back(pipeline: Pipeline, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(Pipeline.text(pipeline.name).replace("topics:", f"{CANARY}topics:"))
    env = pipeline.stack.environment() | {"CDC_OUTBOX_DSN": pipeline.dsn}
    with pipeline.connect() as connection:
        # What nobody sees but who looks for it: a trigger of somebody's keeps the rows away.
        connection.execute("create function nothing() returns trigger language plpgsql as 'begin return null; end'")
        connection.execute("create trigger nothing before insert on outbox for each row execute function nothing()")
    done = run_command("deploy-connector", str(spec), "--canary", "--stable-for=0s", "--timeout=10s", env=env)
    assert done.returncode == 1, done.stderr
    assert pipeline.client.find_config(pipeline.name) is None
