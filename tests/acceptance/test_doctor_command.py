"""`cdc-outbox doctor` from the shell: well pipelines, ill ones, and those who do not answer."""

import json
from pathlib import Path

import pytest

from cdc_outbox.connect.wait import Condition, condition_of
from cdc_outbox.debezium.render import render
from tests.support.commands import run_command
from tests.support.deployments import broken
from tests.support.pipeline import Pipeline
from tests.support.remedies import Operator
from tests.support.rig import eventually


@pytest.fixture
def spec(pipeline: Pipeline, tmp_path: Path) -> str:
    path = tmp_path / "spec.yaml"
    path.write_text(Pipeline.text(pipeline.name))
    return str(path)


@pytest.fixture
def env(pipeline: Pipeline) -> dict[str, str]:
    return pipeline.stack.environment() | {"CDC_OUTBOX_DSN": pipeline.dsn}


def found(*arguments: str, env: dict[str, str]) -> tuple[int, dict[str, str]]:
    """Return the exit code, and each finding's severity by its code and place."""
    done = run_command("doctor", *arguments, "--output", "json", env=env)
    findings = json.loads(done.stdout)["findings"]
    return done.returncode, {f"{each['code']} {each['document']} {each['path']}": each["severity"] for each in findings}


def test_a_pipeline_is_asked_about_before_it_is_deployed_while_it_runs_and_when_it_is_ill(
    pipeline: Pipeline, spec: str, env: dict[str, str]
) -> None:
    name = pipeline.name
    code, before = found(spec, env=env)
    assert (code, before[f"OP201 connect {name}"]) == (1, "error")
    assert before[f"OP301 topics {pipeline.topic}"] == "note"

    pipeline.deploy(stable_seconds=0)
    pipeline.stack.broker.create_topic(pipeline.topic, partitions=2)
    code, well = found(spec, env=env)
    assert (code, [each for each, severity in well.items() if severity == "error"]) == (0, [])
    assert well[f"OP302 topics {pipeline.topic}"] == "warning"
    assert run_command("doctor", spec, "--strict", env=env).returncode == 3

    changed = render(pipeline.spec) | {"poll.interval.ms": "77", "publication.name": "another"}
    pipeline.client.pause(name)
    pipeline.client.put_config(changed)
    eventually(lambda: pipeline.client.find_status(name).state == "PAUSED", "the pause")
    code, ill = found(spec, env=env)
    assert (code, ill[f"OP203 connect {name}"]) == (1, "warning")
    assert ill["OP204 connect poll.interval.ms"] == "warning"
    assert ill["OP205 connect publication.name"] == "error"

    pipeline.client.put_config(broken(render(pipeline.spec)))
    pipeline.client.resume(name)
    failed = Condition.FAILED
    eventually(lambda: condition_of(pipeline.client.find_status(name)) is failed, "the task to fail")
    shown = run_command("doctor", spec, env=env)
    assert shown.returncode == 1
    head, first, remedy, *_ = shown.stdout.splitlines()
    assert head.split() == ["SEVERITY", "CODE", "WHERE", "FINDING"]
    assert first.startswith(f"error     OP202  connect {name} ")
    assert remedy.startswith(" " * 20)


def test_one_that_does_not_answer_keeps_nobody_else_from_being_asked(
    pipeline: Pipeline, spec: str, env: dict[str, str]
) -> None:
    nowhere = env | {"CDC_OUTBOX_CONNECT_URL": "http://127.0.0.1:1", "CDC_OUTBOX_CONNECT_PATIENCE": "0s"}
    code, silent = found(spec, env=nowhere)
    assert (code, silent[f"OP101 connect {pipeline.name}"]) == (75, "error")
    assert f"OP101 database {pipeline.name}" not in silent
    assert silent[f"OP301 topics {pipeline.topic}"] == "note"

    alone = {key: value for key, value in nowhere.items() if "CONNECT" in key}
    _, unasked = found(spec, env=alone)
    assert {unasked[f"OP102 {part} {pipeline.name}"] for part in ("database", "topics")} == {"note"}

    without = {key: value for key, value in env.items() if "CONNECT" not in key}
    code, unasked = found(spec, env=without)
    assert (code, unasked[f"OP102 connect {pipeline.name}"]) == (0, "note")
    assert [each for each in unasked if each.startswith("DB")] == []


def test_a_role_that_may_read_little_is_a_note(pipeline: Pipeline, spec: str, env: dict[str, str]) -> None:
    role = f"{pipeline.name}_guest"
    with pipeline.connect() as connection:
        connection.execute(f"create role {role} login password 'guest'".encode())
    guest = pipeline.stack.postgres.dsn(pipeline.name, user=role, password="guest")
    try:
        code, told = found(spec, env=env | {"CDC_OUTBOX_DSN": guest})
    finally:
        with pipeline.connect() as connection:
            connection.execute(f"drop role {role}".encode())
    assert (code, told["DB602 database public.outbox"]) == (1, "note")
    assert told[f"OP406 heartbeats {pipeline.spec.heartbeat_topic}"] == "note"
    assert not [each for each in told if each.startswith("OP101")]


def test_a_slot_that_the_running_connector_does_not_read_is_told_as_the_spec_s_other_name(
    deployed: Pipeline, spec: str, env: dict[str, str]
) -> None:
    other = f"{deployed.name}_other"
    with deployed.connect() as connection:
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (other,))
        Path(spec).write_text(Path(spec).read_text().replace("database:\n", f"database:\n  slot: {other}\n"))
        try:
            code, unread = found(spec, env=env)
        finally:
            connection.execute("select pg_drop_replication_slot(%s)", (other,))
    assert (code, unread["OP205 connect slot.name"]) == (1, "error")
    assert not [each for each in unread if each.startswith("OP206")]


def test_a_slip_in_the_table_s_name_is_told_and_nothing_false_of_the_database(
    deployed: Pipeline, spec: str, env: dict[str, str]
) -> None:
    """Also behind an `init` that made what the slip names."""
    beats = deployed.spec.heartbeat_topic or ""
    eventually(lambda: sum(deployed.stack.broker.ends(beats).values()), "a heartbeat")
    Path(spec).write_text(f"{Path(spec).read_text()}outbox: {{table: outbux}}\n")
    message = f"the connector {deployed.name} reads public.outbox, and the spec names public.outbux."
    commands = ("preflight", "doctor", "status", "recover", "deploy-connector")
    for is_made in (False, True):
        for command in commands:
            done = run_command(command, spec, env=env)
            told = done.stdout + done.stderr
            assert ("OP401" in told, done.returncode) == (False, 0 if command == "recover" else 1), told
            assert (message in told) or (is_made and "outbox.table: table.include.list" in told), told
        if not is_made:
            assert run_command("init", spec, env=env).returncode == 1
            assert run_command("init", spec, "--shared-publication", env=env).returncode == 0
            with deployed.connect() as connection:
                connection.execute("grant execute on function outbux_heartbeat to connector")
    unasked = {key: value for key, value in env.items() if "CONNECT" not in key}
    alone = run_command("preflight", spec, env=unasked).stdout
    assert "public.outbux_heartbeats contains none. The database was restored, or is not the connector's" in alone


def test_another_connector_on_the_table_and_a_slot_that_nobody_reads_are_told(
    deployed: Pipeline, spec: str, env: dict[str, str]
) -> None:
    former, left = f"{deployed.name}-former", f"{deployed.name}_former"
    config = render(deployed.spec) | {"name": former, "topic.prefix": former, "slot.name": left}
    deployed.client.create_stopped(config)
    with deployed.connect() as connection:
        connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (left,))
        try:
            code, told = found(spec, env=env)
            planned = run_command("plan", spec, env=env)
        finally:
            deployed.client.delete(former)
        operator = Operator(deployed, Path(spec))
        [idle] = [each for each in operator.findings("doctor") if each["code"] in {"OP207", "DB518"}]
        operator.obey(idle["remedy"].removeprefix("If its connector no longer exists: "))
    assert {"OP207", "DB518"}.isdisjoint(each["code"] for each in operator.findings("doctor"))
    assert (code, told[f"OP207 connect {former}"], told[f"DB518 database {left}"]) == (1, "error", "warning")
    assert planned.returncode == 0, planned.stderr
    assert f"the connector {former} also publishes public.outbox from the slot {left}" in planned.stdout
