"""What lint, preflight, plan, status and `init --check` find of a pipeline on the real stack, `doctor` finds once."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdc_outbox.connect.wait import Condition, condition_of
from cdc_outbox.debezium.render import render, render_republishing
from tests.support.deployments import broken, halt_and_drop_slot
from tests.support.pipeline import SELDOM, Pipeline
from tests.support.remedies import Operator
from tests.support.rig import eventually

CAUSES = {"DB301": "OP208", "DB311": "DB304", "DB315": "DB306", "DB316": "DB308", "DB601": "OP201"}
"""Codes that `doctor` does not repeat where it names their cause, which is the other one."""
OF_CHANGES = {"OP204", "OP205", "OP208"}

Known = tuple[str, str]
"""A code, and what it is about."""


@pytest.fixture
def operator(pipeline: Pipeline, tmp_path: Path) -> Operator:
    path = tmp_path / "spec.yaml"
    path.write_text(Pipeline.text(pipeline.name))
    return Operator(pipeline, path)


def execute(operator: Operator, *statements: str) -> None:
    with operator.pipeline.connect() as connection:
        for statement in statements:
            connection.execute(statement.format(name=operator.pipeline.name).encode())


def add_to_spec(operator: Operator, text: str) -> None:
    operator.spec.write_text(f"{operator.spec.read_text()}{text}")


def content(operator: Operator, command: str, *options: str) -> Any:
    done = operator.run(command, "--output=json", *options)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def known_by_findings(operator: Operator) -> Iterator[Known]:
    """Yield what the commands find that print findings."""
    for command, *options in (["lint"], ["preflight"], ["init", "--check"]):
        for each in content(operator, command, *options)["findings"]:
            yield each["code"], each["path"]


def known_by_plan(operator: Operator) -> Iterator[Known]:
    """Yield what a plan shows as changes, and why it would be refused."""
    [planned] = content(operator, "plan")["pipelines"]
    changes = [each["option"] for each in planned["changes"] if not planned["creates"]]
    # Rows are owed by means of these options.
    owed = [option for option in changes if option.startswith("snapshot.")]
    yield from (("DB515", operator.pipeline.spec.database.slot) for _ in owed)
    yield from (("change", option) for option in changes if option not in owed)
    if planned["creates"]:
        yield "OP201", operator.pipeline.name
    if planned["error"] is not None:
        refusals = [re.search(r"(\S+): error ([A-Z]{2}\d{3}):", each) for each in planned["error"]["findings"]]
        yield from ((each[2], each[1]) for each in refusals if each)
        if planned["error"]["kind"] == "UnpublishedEventsError" and not owed:
            yield "message", planned["error"]["message"].removesuffix(".")


def known_by_status(operator: Operator) -> Iterator[Known]:
    """Yield a connector's state, the cause of its failure and its findings."""
    done = operator.run("status", "--output=json")
    for row in json.loads(done.stdout)["connectors"] if done.stdout else ():
        yield from (("code", each["code"]) for each in row["findings"])
        if row["cause"] and not row["owesRows"]:
            yield "message", row["cause"]
        if row["owesRows"]:
            yield "DB515", operator.pipeline.spec.database.slot
        if not row["up"]:
            yield "message", row["says"]


def misses(known: set[Known], diagnosed: list[dict[str, Any]]) -> list[Known]:
    """Return what is known elsewhere and not diagnosed, under its own code or its cause's."""
    codes = {each["code"] for each in diagnosed}
    places = {(each["code"], each["path"]) for each in diagnosed}
    places |= {("change", path) for code, path in places if code in OF_CHANGES} | {("code", code) for code in codes}
    told = " ".join(each["message"] for each in diagnosed)
    return [
        (code, what)
        for code, what in known
        if not (what in told if code == "message" else (code, what) in places or CAUSES.get(code) in codes)
    ]


def compare(operator: Operator, *expected: str) -> set[str]:
    """Hold that `doctor` finds these codes, misses nothing that another command knows, and repeats nothing.

    Returns:
        The codes that the other commands find.
    """
    known = {*known_by_findings(operator), *known_by_plan(operator), *known_by_status(operator)}
    diagnosed = operator.findings("doctor")
    assert misses(known, diagnosed) == []
    repeated = Counter((each["code"], each["document"], each["path"], each["message"]) for each in diagnosed)
    assert max(repeated.values()) == 1
    places = Counter((each["code"], each["path"]) for each in diagnosed if each["code"] != "OP302")
    assert [place for place, count in places.items() if count > 1] == []
    severities = [each["severity"] for each in diagnosed]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    assert all(each["remedy"] for each in diagnosed if each["severity"] != "note")
    codes = {each["code"] for each in diagnosed}
    assert codes >= {*expected}, codes
    assert not codes & {code for code, cause in CAUSES.items() if cause in codes}
    return {code for code, _ in known}


def test_of_a_spec_and_its_first_deployment(operator: Operator) -> None:
    overrides = "{max.queue.size: '2048', exactly.once.support: required, producer.override.delivery.timeout.ms: '1'}"
    operator.spec.write_text(operator.spec.read_text().replace(SELDOM, f"overrides: {overrides}\n"))
    compare(operator, "OP201", "CC108", "CC219", "CC208")


@pytest.mark.parametrize(
    ("expected", "repeated", "statements"),
    [
        (
            ["DB306", "DB307", "DB308", "DB309", "DB311", "DB314", "DB327"],
            {"DB315", "DB316"},
            [
                "alter table outbox drop constraint outbox_pkey",
                "alter table outbox alter column aggregateid drop not null",
                "alter table outbox alter column created_at drop default",
                "alter table outbox alter column aggregatetype type varchar(2)",
                "alter table outbox add column tenant text not null",
                "create function ignored() returns trigger language plpgsql as 'begin return null; end'",
                "create trigger ignored before insert on outbox for each row execute function ignored()",
            ],
        ),
        (
            ["DB304", "DB332", "DB406", "DB203", "DB209"],
            set(),
            [
                "alter table outbox alter column created_at type timestamptz",
                "alter table outbox_heads alter column source set default 'shop.1'",
                "alter publication {name}_outbox set (publish = 'insert, update')",
                "revoke select on outbox from connector",
                "revoke execute on function outbox_heartbeat(text, interval) from connector",
            ],
        ),
        (["DB301", "DB401"], set(), ["drop publication {name}_outbox", "drop table outbox"]),
    ],
    ids=["the table", "rights and settings", "nothing there"],
)
def test_of_a_database(operator: Operator, expected: list[str], repeated: set[str], statements: list[str]) -> None:
    execute(operator, *statements)
    assert compare(operator, *expected) >= repeated | {"DB601"}


def change_connector(operator: Operator) -> None:
    pipeline = operator.pipeline
    changed = render(pipeline.spec) | {"poll.interval.ms": "77", "publication.name": "another"}
    pipeline.client.pause(pipeline.name)
    pipeline.client.put_config(changed)
    eventually(lambda: pipeline.client.find_status(pipeline.name).state == "PAUSED", "the pause")


def fail_task(operator: Operator) -> None:
    pipeline = operator.pipeline
    pipeline.client.put_config(broken(render(pipeline.spec)))
    failed = Condition.FAILED
    eventually(lambda: condition_of(pipeline.client.find_status(pipeline.name)) is failed, "the task to fail")


def age_heartbeats(operator: Operator) -> None:
    topic = operator.pipeline.spec.heartbeat_topic or ""
    eventually(lambda: operator.pipeline.stack.broker.ends(topic), "the first heartbeat")
    # The connector would write the next one at once.
    execute(
        operator,
        "revoke execute on function outbox_heartbeat(text, interval) from connector",
        "update outbox_heartbeats set written_at = written_at - interval '1 hour'",
    )


def lose_slot(operator: Operator) -> None:
    halt_and_drop_slot(operator.pipeline)


def owe_rows(operator: Operator) -> None:
    pipeline = operator.pipeline
    pipeline.client.stop(pipeline.name)
    eventually(lambda: pipeline.client.find_status(pipeline.name).state == "STOPPED", "the stop")
    pipeline.client.put_config(render_republishing(pipeline.spec))


def read_another_table(operator: Operator) -> None:
    add_to_spec(operator, "outbox: {table: outbux}\n")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (change_connector, ["OP203", "OP204", "OP205"]),
        (fail_task, ["OP202"]),
        (age_heartbeats, ["OP405", "DB209"]),
        (lose_slot, ["OP203", "DB512"]),
        (owe_rows, ["OP203", "DB515"]),
        (read_another_table, ["OP208"]),
    ],
)
def test_of_a_connector(operator: Operator, damage: Callable[[Operator], None], expected: list[str]) -> None:
    operator.pipeline.deploy(stable_seconds=0)
    damage(operator)
    compare(operator, *expected)
