"""What answers in Connect's place commands no terminal, gets nothing out of a command, and breaks none."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.attacks import SECRET, assert_harmless, hostile_text
from tests.support.commands import run_command
from tests.support.connect_server import Answer, Asked, answering
from tests.support.specs import ORDERS

HOSTILE = hostile_text(Path("/nonexistent/executed"))
NAME = "orders"
COMMANDS = [
    ["status"],
    ["status", NAME],
    ["plan", str(ORDERS)],
    ["adopt", NAME],
    ["offsets", "show", NAME],
    ["pause", NAME],
    ["resume", NAME],
    ["stop", NAME],
    ["restart", NAME],
    ["delete", NAME],
    ["doctor", str(ORDERS)],
]


def hostile(asked: Asked) -> Answer:
    """Answer as Connect does, with a hostile text wherever Connect has one of others."""
    path = re.sub(r"\?.*", "?", asked.path)
    task = {"id": 0, "state": HOSTILE, "worker_id": HOSTILE, "trace": HOSTILE}
    connector = {"state": HOSTILE, "worker_id": HOSTILE, "trace": HOSTILE, "version": HOSTILE}
    config = {
        "name": HOSTILE,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        HOSTILE: HOSTILE,
    }
    status = {"name": HOSTILE, "connector": connector, "tasks": [task], "type": HOSTILE}
    info = {"name": HOSTILE, "config": config, "tasks": [], "type": "source"}
    value = {"name": HOSTILE, "value": HOSTILE, "recommended_values": [], "errors": [HOSTILE], "visible": True}
    answers = {
        "/health": {"status": "healthy", "message": HOSTILE},
        "/connectors": [NAME, HOSTILE],
        "/connectors?": {name: {"info": info, "status": status} for name in (NAME, HOSTILE)},
        "/config": config,
        "/status": status,
        "/offsets": {"offsets": [{"partition": {HOSTILE: HOSTILE}, "offset": {HOSTILE: HOSTILE, "lsn": HOSTILE}}]},
        "/topics": {NAME: {"topics": [HOSTILE]}},
        "/validate": {"configs": [{"definition": {"name": HOSTILE, "type": "STRING"}, "value": value}]},
    }
    found = next((content for end, content in answers.items() if path.endswith(end)), None)
    if found is not None and (asked.method == "GET" or path.endswith("/validate")):
        return 200, found
    return 409 if asked.method == "POST" else 400, {"error_code": 400, "message": HOSTILE}


def in_place_of(answer: object) -> Callable[[Asked], Answer]:
    return lambda _asked: (200, answer)


def somewhere(place: str, wrong: object) -> Callable[[Asked], Answer]:
    """Answer as Connect does, but for one kind of request."""

    def answer(asked: Asked) -> Answer:
        return (200, wrong) if re.search(place, asked.path) else hostile(asked)

    return answer


SHAPES: dict[str, Any] = {
    "null": None,
    "number": 7,
    "text": HOSTILE,
    "list": [],
    "list of objects": [{HOSTILE: HOSTILE}],
    "object": {},
    "object of lists": {NAME: [], "connector": [], "tasks": {}, "offsets": {}, "configs": {}, "config": []},
    "object of nulls": {NAME: None, "connector": None, "tasks": None, "offsets": None, "configs": None},
    "objects of numbers": {
        NAME: {"info": {"config": {"a": 1}}, "status": {"connector": 7}, "topics": [7]},
        "connector": {"state": 7},
        "tasks": [7],
        "offsets": [7],
        "configs": [7],
    },
    "large numbers": '{"connector": {"state": "RUNNING"}, "tasks": [{"id": 1e999, "state": "RUNNING"}], "offsets": '
    '[{"partition": {}, "offset": {"lsn": 1' + "0" * 300 + "}}]}",
    "no JSON": "<html>\x1b[2J::error::x",
    "half a surrogate": '["\\ud800"]',
    "keys that stand twice": '{"connector": {}, "connector": []}',
}
PLACES = {
    r"/connectors($|\?)": ["status"],
    "/config$": ["adopt", NAME],
    "/status$": ["status", NAME],
    "/offsets$": ["offsets", "show", NAME],
    "/topics$": ["delete", NAME],
    "/validate$": ["plan", str(ORDERS)],
}
"""A kind of request, and a command that makes it."""


def attack(command: list[str], answer: Callable[[Asked], Answer | object]) -> str:
    """Run a command that has secrets within reach; return what it printed."""
    with answering(answer) as (url, asked):
        done = run_command(
            *command,
            env={
                "CDC_OUTBOX_CONNECT_URL": url,
                "CDC_OUTBOX_CONNECT_PATIENCE": "0s",
                "CDC_OUTBOX_TIMEOUT": "1s",
                "GITHUB_TOKEN": SECRET,
            },
        )
    printed = done.stdout + done.stderr
    assert done.returncode in {0, 1, 2, 3, 75}, printed
    assert SECRET not in json.dumps([(each.path, each.headers, each.body) for each in asked])
    assert_harmless(printed)
    return printed


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_text_of_an_answer_is_shown_and_obeyed_by_nothing(command: list[str]) -> None:
    attack(command, hostile)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_answer_of_another_shape_is_not_connects(command: list[str], shape: str) -> None:
    attack(command, in_place_of(SHAPES[shape]))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("place", PLACES)
def test_one_answer_of_another_shape_is_not_connects(place: str, shape: str) -> None:
    attack(PLACES[place], somewhere(place, SHAPES[shape]))
