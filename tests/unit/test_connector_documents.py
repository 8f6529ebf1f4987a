"""The JSON documents of commands that change a connector, beside a Connect that does what it is told."""

import json
from collections.abc import Iterator
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.support.commands import run_command
from tests.support.connect_server import Answer, Asked, answering

SLOT_CLASS = "io.debezium.connector.postgresql.PostgresConnector"
OFFSETS = [{"partition": {"server": "shop"}, "offset": {"lsn": 42}}]
TOLD = {"pause": "PAUSED", "stop": "STOPPED", "resume": "RUNNING"}


class Connect:
    """Two connectors, of which `billing` can be told nothing."""

    def __init__(self) -> None:
        self.states = {"orders": "RUNNING", "billing": "RUNNING"}
        self.url = ""

    def answer(self, asked: Asked) -> Answer:
        """Answer one request."""
        _, _, name, *path = [*asked.path.partition("?")[0].split("/"), ""]
        what = path[0] if path else ""
        if not name:
            return 200, [*self.states]
        if name not in self.states:
            return 404, {"message": f"Connector {name} not found"}
        if asked.method != "GET" and name == "billing":
            return 403, {"message": "not this one"}
        if asked.method == "DELETE" and not what:
            del self.states[name]
        if asked.method != "GET":
            self.states |= {name: TOLD[what]} if what in TOLD else {}
            return 204, ""
        state = self.states[name]
        tasks = [] if state == "STOPPED" else [{"id": 0, "state": state, "worker_id": "w"}]
        return 200, {
            "status": {"name": name, "connector": {"state": state, "worker_id": "w"}, "tasks": tasks},
            "offsets": {"offsets": OFFSETS},
            "topics": {name: {"topics": ["shop.a"]}},
        }.get(what, {"name": name, "connector.class": SLOT_CLASS, "slot.name": name, "topic.prefix": "shop"})

    def run(self, *arguments: str) -> CompletedProcess[str]:
        """Run a command that prints a document."""
        return run_command(*arguments, "--output=json", env={"CDC_OUTBOX_CONNECT_URL": self.url})

    def document(self, *arguments: str) -> dict[str, Any]:
        """Return what a command prints that succeeds."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


@pytest.fixture
def connect() -> Iterator[Connect]:
    connect = Connect()
    with answering(connect.answer) as (connect.url, _):
        yield connect


@pytest.mark.parametrize(
    ("command", "state", "slot"),
    [("pause", "paused", "orders"), ("stop", "stopped", "orders"), ("resume", "running", None),
     ("restart", "running", None)],
)  # fmt: skip
def test_what_a_connector_does_now(connect: Connect, command: str, state: str, slot: str | None) -> None:
    runs = ["--stable-for=0s"] if state == "running" else []
    found = connect.document(command, "orders", *runs)
    assert (found["apiVersion"], found["kind"]) == ("cdc-outbox/v1", "ConnectorStates")
    assert found["connectors"] == [{"name": "orders", "state": state, "slot": slot, "error": None}]


def test_where_one_fails_it_says_which_were_changed(connect: Connect) -> None:
    connect.states["third"] = "RUNNING"
    done = connect.run("pause", "orders", "billing", "third")
    assert (done.returncode, "error: " in done.stderr) == (1, True)
    paused, failed, left = json.loads(done.stdout)["connectors"]
    assert (paused["state"], failed["state"], left["state"]) == ("paused", "failed", "not tried")
    assert "not this one" in failed["error"]["message"]


def test_what_stays_of_a_deleted_connector(connect: Connect) -> None:
    found = connect.document("delete", "orders")
    assert (found["kind"], found["connector"], found["purged"]) == ("Deletion", "orders", False)
    stays = {each["what"]: each["names"] for each in found["stays"]}
    assert (stays["slot"], stays["offsets"], stays["topics"]) == (["orders"], ["orders"], ["shop.a"])


def test_what_offsets_were_and_are(connect: Connect) -> None:
    found = connect.document("offsets", "reset", "orders", "--yes", "--stable-for=0s")
    assert (found["kind"], found["connector"]) == ("OffsetChange", "orders")
    assert (found["before"], found["after"]) == ({"lsn": 42}, None)
    assert isinstance(found["skips"], bool)
    assert found["effect"]
