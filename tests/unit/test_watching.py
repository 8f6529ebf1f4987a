"""What `cdc-outbox watch` says, look after look."""

import json
from collections.abc import Iterator

import pytest

from cdc_outbox.cli.heartbeats import Looks
from cdc_outbox.cli.watch import Watching
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.restart_policy import RestartOptions
from cdc_outbox.errors import ConnectError, ConnectorInvalidError
from cdc_outbox.finding import Finding
from tests.support.connect_server import BROKEN, Answer, Asked, answering


def test_that_connect_answers_again_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    silent = False

    def answer(asked: Asked) -> Answer:
        running = {"connector": {"state": "RUNNING"}, "tasks": []}
        return BROKEN if silent else (200, running if asked.path.endswith("/status") else {"name": "orders"})

    with answering(answer) as (url, _):
        client = ConnectClient(Cluster(urls=(url,), patience_seconds=0))
        watching = Watching(client, ["orders"], RestartOptions(), Looks(client, None, None))
        for silent in (False, True, True, False, False):  # noqa: B007 - the answer reads it
            watching.look()
        client.close()
    first, lost, back = capsys.readouterr().out.splitlines()
    assert "orders: connector RUNNING" in first
    assert "Connect: Connect answered 500" in lost
    assert back.endswith(" Connect: answers again")


def test_each_change_is_an_object_of_json_on_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    state = "RUNNING"

    def answer(asked: Asked) -> Answer:
        found = {"connector": {"state": state}, "tasks": [{"id": 0, "state": state, "worker_id": "w"}]}
        return 200, found if asked.path.endswith("/status") else {"name": "orders"}

    with answering(answer) as (url, _):
        client = ConnectClient(url)
        options = RestartOptions(max_restarts=1, first_pause_seconds=0)
        watching = Watching(client, ["orders"], options, Looks(client, None, None), prints_json=True)
        for state in ("RUNNING", "RUNNING", "FAILED"):  # noqa: B007 - the answer reads it
            watching.look()
        client.close()
    up, failed, restart = map(json.loads, capsys.readouterr().out.splitlines())
    assert (up["kind"], up["connector"], up["event"], up["state"]) == ("WatchEvent", "orders", "state", "RUNNING")
    assert (failed["event"], failed["condition"]) == ("state", "failed")
    assert (restart["event"], restart["message"]) == ("restart", "restart 1 of 1")


def test_what_a_relay_publishes_instead_is_not_restarted(capsys: pytest.CaptureFixture[str]) -> None:
    class Relayed(Looks):
        def refuse_relayed(self, name: str) -> None:
            raise ConnectorInvalidError(f"a relay publishes the outbox of {name}")

    def answer(asked: Asked) -> Answer:
        assert asked.method == "GET"
        found = {"connector": {"state": "FAILED"}, "tasks": []}
        return 200, found if asked.path.endswith("/status") else {"name": "orders"}

    with answering(answer) as (url, _):
        client = ConnectClient(url)
        options = RestartOptions(max_restarts=1, first_pause_seconds=0)
        watching = Watching(client, ["orders"], options, Relayed(client, None, None))
        for _ in range(3):
            watching.look()
        client.close()
    failed, refused = capsys.readouterr().out.splitlines()
    assert "FAILED" in failed
    assert refused.endswith("orders: not restarted: a relay publishes the outbox of orders")


def test_a_history_that_could_not_be_read_is_looked_at_again_soon(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_outbox.cli.watch._AGAIN_SECONDS", 0)
    errors = [ConnectError("a rebalance is expected", status=500), ConnectError("a rebalance is expected")]
    looks: Iterator[ConnectError | list[Finding]] = iter([*errors, []])

    class Rebalancing(Looks):
        def look(self, name: str, *, runs: bool) -> list[Finding]:
            assert (name, runs) == ("orders", False)
            look = next(looks)  # a look too many is none within a minute
            if isinstance(look, ConnectError):
                raise look
            return look

    def answer(asked: Asked) -> Answer:
        found = {"connector": {"state": "PAUSED"}, "tasks": []}
        return 200, found if asked.path.endswith("/status") else {"name": "orders"}

    with answering(answer) as (url, _):
        client = ConnectClient(url)
        watching = Watching(client, ["orders"], RestartOptions(), Rebalancing(client, None, None))
        for _ in range(5):
            watching.look()
        client.close()
    _, unread, read = capsys.readouterr().out.splitlines()
    assert "cannot read its history: a rebalance is expected" in unread
    assert read.endswith("orders: its history has no gap")
