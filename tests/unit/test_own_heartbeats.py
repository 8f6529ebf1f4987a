"""When a relay writes heartbeats, and which of those in Kafka it takes for another server's."""

import json
import logging
from collections.abc import Iterator
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pytest

from cdc_outbox.databases.drivers import Row
from cdc_outbox.databases.drivers.psycopg import Psycopg
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import DatabaseError, DatabaseUnavailableError
from cdc_outbox.kafka import own_heartbeats
from cdc_outbox.kafka.own_heartbeats import OwnHeartbeats
from cdc_outbox.message import Message


def id_of(name: str) -> str:
    """Return the id of the heartbeat that the test calls so."""
    return str(uuid5(NAMESPACE_OID, name))


class Database(Psycopg):
    """Knows some heartbeats by their names, and counts those that are written."""

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.is_written = False
        self.asked: list[str] = []
        self.written = 0
        self.error: Exception | None = None

    def fetch(self, connection: Any, statement: Any, parameters: Any = None) -> list[Row]:
        if "id" in parameters:
            [name] = [name for name in ("a1", "a2", "c1", "c2", "c3") if id_of(name) == parameters["id"]]
            self.asked.append(name)
            return [(name in self.known, self.is_written)]
        if self.error is not None:
            raise self.error
        self.written += 1
        return [(self.written,)]


class Rig:
    """A relay's heartbeats, with a topic, a database and a clock of the test."""

    def __init__(self) -> None:
        self.database, self.now, self.closed = Database(), 0.0, 0
        self.topic: list[Message] = []
        kafka = {"bootstrap.servers": "none"}
        self.heartbeats = OwnHeartbeats(
            "beats", kafka, outbox=OutboxTable(name="outbox"), pipeline="orders", clock=lambda: self.now
        )

    def publish(self, name: str, number: int, previous: str | None) -> None:
        content = {
            "number": number,
            "previous": previous and id_of(previous),
            "at": "2026-11-24T00:00:00+00:00",
            "system": "7",
        }
        self.put(json.dumps(content).encode(), id_of(name).encode())

    def put(self, value: bytes, event_id: bytes) -> None:
        headers, offset = (("id", event_id),), len(self.topic)
        self.topic.append(
            Message(topic="beats", partition=0, offset=offset, key=b"orders", value=value, headers=headers)
        )

    def look(self) -> str | None:
        found = self.heartbeats.find_foreign(None, self.database)
        return None if found is None else next(name for name in ("c1", "c2") if id_of(name) == found.id)

    def write(self) -> None:
        self.heartbeats.write(None, self.database)

    def read(self) -> Iterator[Message]:
        while self.topic:
            yield self.topic.pop(0)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    made = Rig()
    monkeypatch.setattr(own_heartbeats, "PartitionTail", lambda *_, **__: made)
    return made


def test_one_is_written_when_the_relay_publishes_and_then_each_minute(rig: Rig) -> None:
    assert rig.look() is None
    assert rig.database.written == 0
    rig.write()
    for rig.now in (1.0, 59.9, 60.0, 61.0, 119.0, 120.0):
        assert rig.look() is None
    assert rig.database.written == 3


def test_the_databases_own_are_asked_for_once(rig: Rig) -> None:
    rig.database.known = {"a1", "a2"}
    rig.publish("a1", 1, None)
    assert [rig.look(), rig.look()] == [None, None]
    rig.publish("a2", 2, "a1")
    assert [rig.look(), rig.look()] == [None, None]
    assert rig.database.asked == ["a1", "a2"]


def test_another_servers_is_returned_and_none_is_written_then(rig: Rig) -> None:
    rig.write()
    rig.now = 60.0
    rig.database.known = {"a1"}
    rig.publish("a1", 1, None)
    rig.publish("c2", 2, "a1")
    assert [rig.look(), rig.look()] == ["c2", "c2"]
    assert rig.database.written == 1


def test_what_a_copy_publishes_later_is_not_looked_at(rig: Rig) -> None:
    rig.database.known = {"a1", "a2"}
    for name, number, previous in (("a1", 1, None), ("a2", 2, "a1"), ("c2", 2, "a1"), ("c3", 3, "c2")):
        rig.publish(name, number, previous)
    assert rig.look() is None
    assert rig.database.asked == ["a2"]


@pytest.mark.parametrize("code", ["40P01", "55P03", "57014"])
def test_a_locked_outbox_is_waited_for(rig: Rig, code: str) -> None:
    rig.database.error = DatabaseError("locked", sqlstate=code)
    rig.write()
    assert rig.look() is None
    assert rig.heartbeats.warning == "heartbeats are not written: locked"
    rig.database.error = None
    assert rig.look() is None
    assert rig.database.written == 1
    assert rig.heartbeats.warning == ""


@pytest.mark.parametrize("code", ["42501", "23514", "42883"])
def test_one_that_cannot_be_written_is_told_once_and_tried_again_each_minute(
    rig: Rig, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, own_heartbeats.__name__)
    rig.database.error = DatabaseError("no", sqlstate=code)
    rig.write()
    for rig.now in (30.0, 60.0):
        assert rig.look() is None
    assert rig.heartbeats.warning == "heartbeats are not written: no"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    rig.database.error = None
    for rig.now in (119.0, 120.0):
        assert rig.look() is None
    assert (rig.database.written, rig.heartbeats.warning) == (1, "")


def test_a_database_that_cannot_be_reached_is_an_outage(rig: Rig) -> None:
    rig.database.error = DatabaseUnavailableError("gone")
    with pytest.raises(DatabaseUnavailableError):
        rig.write()


def test_one_that_its_own_session_does_not_show_yet_is_waited_for(rig: Rig) -> None:
    rig.publish("a1", 1, None)
    rig.database.is_written = True
    assert [rig.look(), rig.look()] == [None, None]
    assert "waits for a standby" in rig.heartbeats.warning
    rig.database.is_written, rig.database.known = False, {"a1"}
    assert rig.look() is None
    assert rig.heartbeats.warning == ""
    rig.publish("c2", 2, "a1")
    assert rig.look() == "c2"


def test_one_whose_session_ends_while_it_is_looked_for_is_asked_for_again(rig: Rig) -> None:
    class Late(Database):
        def fetch(self, connection: Any, statement: Any, parameters: Any = None) -> list[Row]:
            found = super().fetch(connection, statement, parameters)
            self.known = {"a1"}
            return found

    rig.database = Late()
    rig.publish("a1", 1, None)
    assert rig.look() is None


def test_nothing_is_kept_of_an_earlier_attempt(rig: Rig) -> None:
    rig.write()
    rig.publish("c1", 1, None)
    assert rig.look() == "c1"
    rig.heartbeats.close()
    rig.now = 60.0
    assert rig.look() is None
    assert (rig.database.written, rig.closed) == (1, 1)


@pytest.mark.parametrize(
    ("value", "event_id"),
    [
        ('{"number": 1, "previous": null, "at": "2026-11-24T00:00:00+00:00"}', "a\0b"),
        (f'{{"number": {10**30}, "previous": null, "at": "2026-11-24T00:00:00+00:00"}}', id_of("c1")),
        ('{"number": 1, "previous": null, "at": "2026-11-24T00:00:00"}', id_of("c1")),
    ],
)
def test_a_record_that_no_database_can_be_asked_about_ends_nothing(rig: Rig, value: str, event_id: str) -> None:
    rig.database.known = {"a1"}
    rig.publish("a1", 1, None)
    rig.put(value.encode(), event_id.encode())
    assert rig.look() is None
    assert rig.database.asked == ["a1"]
