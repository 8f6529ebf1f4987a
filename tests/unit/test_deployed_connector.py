"""A connector that runs is not yet the one who reads our slot."""

import time
from dataclasses import replace
from typing import Any

import pytest

from cdc_outbox.connect.client import ConnectorStatus, TaskStatus
from cdc_outbox.connect.deployed_connector import DeployedConnector
from cdc_outbox.connect.timings import Timings
from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.errors import ConnectorFailedError, ConnectUnavailableError
from tests.support.database_facts import SLOT

TIMINGS = Timings(timeout_seconds=0.3, poll_seconds=0.01, failed_seconds=0.05, linger_seconds=0.01)
PATIENT = replace(TIMINGS, timeout_seconds=30)
UP = ConnectorStatus("RUNNING", (TaskStatus(0, "RUNNING"),))
FAILED = ConnectorStatus("RUNNING", (TaskStatus(0, "FAILED", "java.lang.Boom"),))
SILENCE = ConnectUnavailableError("nobody answers")


class Connect:
    """A client that says of the connector what it is told to."""

    def __init__(self, status: ConnectorStatus, *offsets: list[dict[str, Any]] | Exception) -> None:
        self._status = status
        self._offsets = list(offsets)
        self.asked: list[str] = []

    def glance_at(self, _name: str) -> ConnectorStatus:
        return ConnectorStatus("STOPPED", ()) if self.asked[-1:] == ["stop"] else self._status

    def find_offsets(self, _name: str) -> list[dict[str, Any]]:
        found = self._offsets.pop(0) if self._offsets else []
        if isinstance(found, Exception):
            raise found
        return found

    def __getattr__(self, verb: str) -> Any:
        return lambda _subject: self.asked.append(verb)


class Server:
    """A database whose slot these processes read in turn, the last one for good; 0 is none."""

    def __init__(self, *readers: int) -> None:
        self.readers = list(readers)

    def find_slot(self) -> SlotFacts:
        reader = self.readers.pop(0) if len(self.readers) > 1 else self.readers[0]
        return replace(SLOT, reader=reader)


def reader(client: Any, server: Any, timings: Timings = TIMINGS) -> DeployedConnector:
    return DeployedConnector("orders", client, server, timings=timings, report=lambda _step, _text: None)


def offset(**values: object) -> list[dict[str, Any]]:
    return [{"partition": {"server": "orders"}, "offset": values}]


def test_a_connector_that_runs_on_another_servers_slot_is_not_up() -> None:
    """The DSN led to staging, the spec's host to production, and Debezium made itself a slot there."""
    with pytest.raises(ConnectorFailedError, match="to read its slot, although it runs") as caught:
        reader(Connect(UP), Server(0)).wait_until_reading(stable_seconds=0)
    assert "same server" in caught.value.hint
    reader(Connect(UP), Server(7)).wait_until_reading(stable_seconds=0)


@pytest.mark.parametrize("between", [(), (0,), (0, 0)])
def test_a_slot_that_is_read_anew_has_not_been_read_for_long(between: tuple[int, ...]) -> None:
    """Where an offset is stored, Debezium reads the slot once to find its place, and then again."""
    server, timings = Server(7, *between, 8), replace(PATIENT, poll_seconds=0.06)
    began = time.monotonic()
    reader(Connect(UP), server, timings).wait_until_reading(stable_seconds=0.1)
    assert server.readers == [8]
    assert time.monotonic() - began >= 0.1 + timings.poll_seconds * (1 + len(between))


def test_who_read_the_slot_before_the_task_restarted_is_not_the_task() -> None:
    found = reader(Connect(UP), Server(7))
    found.expect_another_than(7)
    with pytest.raises(ConnectorFailedError, match="to read its slot, although it runs"):
        found.wait_until_reading(stable_seconds=0)
    stranger = found.find_stranger()
    assert stranger is not None
    assert stranger.reader == 7
    found.expect_another_than(6)
    found.wait_until_reading(stable_seconds=0)
    assert found.find_stranger() is None


def test_a_worker_that_does_not_answer_once_does_not_end_a_republish() -> None:
    client = Connect(UP, SILENCE, offset(lsn=1, snapshot="INITIAL"), SILENCE, offset(lsn=2))
    reader(client, Server(0), PATIENT).publish_rows("orders", {})
    assert client.asked == ["reset_offsets", "resume", "stop", "reset_offsets", "put_config"]


def test_a_republish_whose_task_fails_ends_with_its_trace() -> None:
    with pytest.raises(ConnectorFailedError) as caught:
        reader(Connect(FAILED), Server(0), PATIENT).publish_rows("orders", {})
    assert caught.value.trace == "java.lang.Boom"


def test_who_waits_for_a_slot_to_be_free_says_so_and_for_how_long() -> None:
    told: list[tuple[str, str]] = []
    client: Any = Connect(UP)
    server: Any = Server(7)
    watching = DeployedConnector("orders", client, server, timings=TIMINGS, report=lambda *step: told.append(step))
    found = watching.find_slot_without_strangers()
    assert found is not None
    assert found.active
    [(step, text)] = told
    assert (step, f"up to {TIMINGS.linger_seconds:g} s" in text) == ("slot", True)
