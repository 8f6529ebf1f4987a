"""`cdc-outbox topics create` from the shell."""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient

from cdc_outbox.testing import Stack
from tests.support.commands import run_command
from tests.support.pipeline import Pipeline


@pytest.fixture
def name() -> str:
    return f"t{uuid4().hex[:10]}"


@pytest.fixture
def spec(name: str, tmp_path: Path) -> Path:
    path = tmp_path / "spec.yaml"
    path.write_text(f"{Pipeline.text(name)}  partitions: 2\n  retention: 2d\n")
    return path


def test_what_is_missing_is_created_and_what_differs_is_said_and_left(
    outbox_stack: Stack, spec: Path, name: str
) -> None:
    env = outbox_stack.environment()
    outbox_stack.broker.create_topic(f"{name}.metric", partitions=3)
    planned = run_command("topics", "create", str(spec), "--dry-run", env=env)
    assert planned.returncode == 3
    assert f"{name}.order: would be created, 2 partitions\n" in planned.stdout
    document = json.loads(run_command("topics", "create", spec, "--dry-run", "--output=json", env=env).stdout)
    topics = {topic["name"]: topic for topic in document["topics"]}
    assert topics[f"{name}.order"] == {
        "name": f"{name}.order",
        "partitions": 2,
        "state": "missing",
        "differences": [],
    }
    assert topics[f"{name}.metric"]["state"] == "exists"
    assert topics[f"{name}.metric"]["differences"][0]["message"] == "has 3 partitions, and the spec sets 2."
    assert outbox_stack.broker.ends(f"{name}.order") == {}

    done = run_command("topics", "create", str(spec), env=env)
    assert done.returncode == 3
    lines = done.stdout.splitlines()
    assert [line.split()[:2] for line in lines if f"{name}.metric" in line] == [["differs:", f"{name}.metric:"]] * 3
    made = [f"{name}.order: created, 2 partitions", f"__debezium-heartbeat.{name}: created, 1 partition"]
    assert [line for line in lines if line in made] == made
    # Differences stand where their topic's own line would.
    assert lines.index(made[0]) == 3
    assert f"differs: {name}.metric: has 3 partitions, and the spec sets 2." in done.stdout
    assert done.stderr == "3 topics created, 3 differences, 0 refusals\n"
    assert f"--topic {name}.metric --add-config retention.ms=172800000" in done.stdout
    assert f"{name}.order: has" not in done.stdout
    assert set(outbox_stack.broker.ends(f"{name}.order")) == {0, 1}

    admin = AdminClient({"bootstrap.servers": outbox_stack.broker.bootstrap_servers})
    [gone] = admin.delete_topics([f"{name}.metric"]).values()
    gone.result()
    assert run_command("topics", "create", str(spec), env=env).returncode == 0
    assert run_command("topics", "create", str(spec), env=env).stdout == ""


def test_more_partitions_are_refused_with_the_reason(outbox_stack: Stack, spec: Path, name: str) -> None:
    env = outbox_stack.environment()
    assert run_command("topics", "create", str(spec), env=env).returncode == 0
    spec.write_text(spec.read_text().replace("partitions: 2", "partitions: 6"))
    refused = run_command("topics", "create", str(spec), env=env)
    assert refused.returncode == 1
    sentence = f"error: {name}.order: has 2 partitions, and the spec sets 6. More partitions move keys"
    assert sentence in refused.stdout
    assert refused.stderr.endswith(", 2 refusals\n")
    assert set(outbox_stack.broker.ends(f"{name}.order")) == {0, 1}


def test_brokers_that_do_not_answer_are_tried_again_later(spec: Path, tmp_path: Path) -> None:
    quick = tmp_path / "kafka.properties"
    quick.write_text("socket.connection.setup.timeout.ms=1000\n")
    env = {"CDC_OUTBOX_BOOTSTRAP_SERVERS": "127.0.0.1:1", "CDC_OUTBOX_KAFKA_SETTINGS": str(quick)}
    assert run_command("topics", "create", str(spec), env=env).returncode == 75
