"""JSON of `cdc-outbox plan` and `doctor`, where Connect answers as it was recorded to."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run_command
from tests.support.connect_server import BROKEN, NOBODY, REBALANCING, Answer, Asked, answering
from tests.support.golden import golden, neutral_json
from tests.support.specs import MINIMAL, MONGODB

TRACE = "org.apache.kafka.connect.errors.ConnectException: x\nCaused by: java.net.UnknownHostException: db.x\n\tat y"


@dataclass
class Recorded:
    """What a worker answers about connectors: their configurations and states, and what it finds in a new one."""

    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    state: str = "RUNNING"
    tasks: tuple[tuple[str, str], ...] = (("RUNNING", ""),)
    topics: tuple[str, ...] = ()
    errors: dict[str, str] = field(default_factory=dict)
    always: Answer | None = None

    def __call__(self, asked: Asked) -> Answer:
        path, _, query = asked.path.partition("?")
        if self.always is not None:
            return self.always
        if path.endswith("/config/validate"):
            return 200, {"configs": [self._validated(name) for name in self.errors]}
        if path == "/connectors":
            return 200, self._expanded() if "expand" in query else [*self.configs]
        name, _, what = path.removeprefix("/connectors/").partition("/")
        if name not in self.configs:
            return NOBODY
        tasks = [{"id": number, "state": state, "trace": trace} for number, (state, trace) in enumerate(self.tasks)]
        answers: dict[str, object] = {
            "config": self.configs[name],
            "status": {"name": name, "connector": {"state": self.state}, "tasks": tasks},
            "topics": {name: {"topics": [*self.topics]}},
            "offsets": {"offsets": []},
        }
        return (200, answers[what]) if what in answers else NOBODY

    def _expanded(self) -> dict[str, object]:
        return {name: {"info": {"name": name, "config": config}} for name, config in self.configs.items()}

    def _validated(self, option: str) -> dict[str, object]:
        return {"definition": {"name": option}, "value": {"name": option, "errors": [self.errors[option]]}}


CHANGES: dict[str, dict[str, str | None]] = {
    "nothing": {},
    "a default that is written out": {"max.batch.size": "2048", "tombstones.on.delete": "true"},
    "latency": {"poll.interval.ms": "77"},
    "the slot and the publication": {"slot.name": "other", "publication.name": "other"},
    "the topics": {"transforms.outbox.route.topic.replacement": "x.${routedByValue}"},
    "the topic's partitions": {"topic.creation.default.partitions": "9"},
    "the table": {"table.include.list": "public\\.other"},
    "a header": {"transforms.outbox.table.fields.additional.placement": "type:header:eventType"},
    "the converter": {"value.converter": "org.apache.kafka.connect.json.JsonConverter"},
    "durability": {"producer.override.acks": "1", "errors.tolerance": "all"},
    "secrets": {"producer.override.sasl.jaas.config": 'x required password="hunter2";', "database.password": "hunter2"},
    "the prefix": {"topic.prefix": "other"},
    "options left out": {"heartbeat.interval.ms": None, "snapshot.mode": None, "predicates": None},
    "an old name": {"database.server.name": "orders", "topic.prefix": None},
    "an unknown option": {"my.option": "x"},
    "a republication that was interrupted": {
        "snapshot.mode": "initial_only",
        "snapshot.select.statement.overrides": "public.outbox",
    },
}
FEWER = ("nothing", "latency", "the slot and the publication", "the topics", "secrets", "durability")
"""What is also compared on other databases than PostgreSQL, and by `doctor`."""
SPECS = {"postgresql": MINIMAL, "mariadb": MINIMAL.replace("postgresql", "mariadb"), "mongodb": MONGODB}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def config_of(text: str) -> dict[str, str]:
    """Return the configuration that the spec becomes, and leave the spec in ``x.yaml``."""
    Path("x.yaml").write_text(text)
    config: dict[str, str] = json.loads(run_command("render", "x.yaml").stdout)
    return config


def changed(config: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    return {option: value for option, value in {**config, **changes}.items() if value is not None}


def asked(command: str, recorded: Recorded, *options: str, url: str = "") -> Any:
    """Return exit code, document and stderr of a command that asks this worker."""
    with answering(recorded) as (given, _):
        known = ("--connect-url", url or given, "--connect-patience", "0s")
        done = run_command(command, "x.yaml", *known, *options, "--output", "json")
        content = json.loads(done.stdout) if done.stdout else None
        return neutral_json({"exit": done.returncode, "stdout": content, "stderr": done.stderr.splitlines()})


def situations(config: dict[str, str]) -> Iterator[tuple[str, Recorded]]:
    """Yield what a worker may answer about a pipeline."""
    running = {"orders": config}
    yield "no connector", Recorded()
    yield "it runs", Recorded(running)
    yield "it runs and has written", Recorded(running, topics=("outbox.event.customer",))
    yield "paused", Recorded(running, state="PAUSED", tasks=(("PAUSED", ""),))
    yield "stopped", Recorded(running, state="STOPPED", tasks=())
    yield "no task", Recorded(running, tasks=())
    yield "the task failed", Recorded(running, tasks=(("FAILED", TRACE),))
    yield "the connector failed", Recorded(running, state="FAILED", tasks=())
    yield "unassigned", Recorded(running, state="UNASSIGNED", tasks=(("UNASSIGNED", ""),))
    yield "another one on the table", Recorded({**running, "former": config | {"name": "former", "slot.name": "left"}})
    yield "only another one on the table", Recorded({"former": config | {"name": "former"}})
    yield "Connect refuses the configuration", Recorded(running, errors={"database.hostname": "no such host"})
    yield "another Connect", Recorded(always=(404, "<html>"))
    yield "a broken worker", Recorded(always=BROKEN)
    yield "a rebalance", Recorded(always=REBALANCING)
    yield "a login is needed", Recorded(always=(401, {"error_code": 401, "message": "Unauthorized"}))


@pytest.mark.parametrize("kind", SPECS)
def test_plans_of_changes(kind: str) -> None:
    config = config_of(SPECS[kind])
    found = {
        name: asked("plan", Recorded({"orders": changed(config, changes)}))
        for name, changes in CHANGES.items()
        if kind == "postgresql" or name in FEWER
    }
    golden(f"plan/changes-{kind}.json").check_json(found)


@pytest.mark.parametrize("command", ["plan", "doctor"])
def test_answers_of_connect(command: str) -> None:
    config = config_of(MINIMAL)
    found = {name: asked(command, recorded) for name, recorded in situations(config)}
    found["no Connect"] = asked(command, Recorded(), url="http://127.0.0.1:1")
    golden(f"{command}/answers.json").check_json(found)


@pytest.mark.parametrize("kind", SPECS)
def test_diagnoses_of_changes(kind: str) -> None:
    config = config_of(SPECS[kind])
    found = {name: asked("doctor", Recorded({"orders": changed(config, CHANGES[name])})) for name in FEWER}
    golden(f"doctor/changes-{kind}.json").check_json(found)


def test_plans_as_text() -> None:
    config = config_of(MINIMAL)
    recorded = {name: Recorded({"orders": changed(config, CHANGES[name])}) for name in FEWER}
    recorded["no connector"] = Recorded()
    parts = []
    for name, each in recorded.items():
        with answering(each) as (url, _):
            done = run_command("plan", "x.yaml", "--connect-url", url, "--connect-patience", "0s")
        parts.append(f"# {name}\n{done.stdout}{done.stderr}exit {done.returncode}\n")
    golden("plan/changes.txt").check("\n".join(parts))
