"""What is interrupted between taking a number and writing the event leaves no gap, though the caller commits."""

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from cdc_outbox import AsyncOutbox, Outbox, OutboxTable
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers import Parameters, Row
from cdc_outbox.databases.drivers.immediate import Immediate, finish
from cdc_outbox.databases.drivers.sqlite3 import Sqlite3
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.errors import DatabaseError
from cdc_outbox.event import Event, RecordedEvent
from cdc_outbox.writer import outbox
from cdc_outbox.writer.outbox_schema import outbox_component

PLACED = Event(aggregate_type="order", aggregate_id="1", type="OrderPlaced", payload={})


class Timeout(BaseException):
    """What gevent raises where a time is over."""


@pytest.fixture
def connection() -> Any:
    connection = sqlite3.connect(":memory:")
    component = outbox_component(OutboxTable(), first_source="orders.1", dialect=Dialect.SQLITE)
    upgrade(lambda sql: Sqlite3().fetch(connection, sql), component)
    connection.commit()
    return connection


def add(connection: sqlite3.Connection) -> RecordedEvent:
    return Outbox().add(connection, PLACED)


def add_asynchronously(connection: sqlite3.Connection) -> RecordedEvent:
    return finish(AsyncOutbox().add(connection, PLACED))


@pytest.mark.parametrize("writes", [add, add_asynchronously])
@pytest.mark.parametrize("error", [KeyboardInterrupt, asyncio.CancelledError, Timeout])
def test_an_interrupted_event_leaves_no_gap(
    monkeypatch: pytest.MonkeyPatch,
    connection: sqlite3.Connection,
    writes: Callable[[sqlite3.Connection], RecordedEvent],
    error: type[BaseException],
) -> None:
    fetch = Sqlite3.fetch

    def interrupted(driver: Sqlite3, connection: Any, sql: str, parameters: Parameters = None) -> list[Row]:
        if "returning" in sql:
            raise error
        return fetch(driver, connection, sql, parameters)

    monkeypatch.setattr(outbox, "find_async_driver", lambda _connection: Immediate(Sqlite3()))
    with monkeypatch.context() as patch:
        patch.setattr(Sqlite3, "fetch", interrupted)
        with pytest.raises(error):
            writes(connection)
    connection.commit()
    assert writes(connection).sequence == 1


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("executed", [True, False])
@pytest.mark.parametrize("event_id", [None, "0198c0de-0000-7000-8000-000000000001"])
def test_an_interrupted_step_gives_back_its_own_number_and_no_other(
    monkeypatch: pytest.MonkeyPatch, connection: sqlite3.Connection, event_id: str | None, step: int, *, executed: bool
) -> None:
    """Also where the aggregate's last event has the same id, as after a retry."""
    fetch, calls = Sqlite3.fetch, 0

    def interrupted(driver: Sqlite3, connection: Any, sql: str, parameters: Parameters = None) -> list[Row]:
        nonlocal calls
        calls += 1
        if calls == step:
            if executed and not (event_id and step == 2):  # the same id twice is refused
                fetch(driver, connection, sql, parameters)
            raise KeyboardInterrupt
        return fetch(driver, connection, sql, parameters)

    outbox, event = Outbox(), replace(PLACED, id=event_id)
    assert outbox.add(connection, event).sequence == 1
    with monkeypatch.context() as patch:
        patch.setattr(Sqlite3, "fetch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Outbox().add(connection, event)  # another one, as an outbox looks a driver's functions up once
    connection.commit()
    assert connection.execute("select sequence from outbox").fetchall() == [(1,)]
    assert outbox.add(connection, PLACED).sequence == 2


def test_a_locked_database_is_asked_once(monkeypatch: pytest.MonkeyPatch, connection: sqlite3.Connection) -> None:
    locked = Mock(side_effect=sqlite3.OperationalError("database is locked"))
    monkeypatch.setattr(Sqlite3, "fetch", locked)
    with pytest.raises(DatabaseError):
        add(connection)
    locked.assert_called_once()
