"""The function that opens the transaction itself (acceptance B18), and the policy that decides what is written (C3)."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from cdc_outbox import (
    AsyncOutbox,
    ConfigError,
    Event,
    EventError,
    Outbox,
    OutboxError,
    OutboxTable,
    execute_with_events,
)
from cdc_outbox.consumer import Consumer, EffectsDatabase, InboxTable, SequenceMode, WireContract
from cdc_outbox.testing import OutboxEvents, Stack, assert_event
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.support.rig import Connection, one, run_upgrade
from tests.support.sqlite import SqliteStore

ORDER = Event(aggregate_type="order", aggregate_id="42", type="OrderPlaced", payload={"total": 10, "note": "x"})


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> str:
    dsn = outbox_stack.postgres.create_database("execution")
    with psycopg.connect(dsn, autocommit=True) as connection:
        run_upgrade(connection, outbox_component(OutboxTable(), first_source="orders.1"))
        connection.execute("create table orders (id bigserial primary key, total int)")
    return dsn


@pytest.fixture(params=[False, True], ids=["transactional", "autocommit"])
def connection(request: pytest.FixtureRequest, dsn: str) -> Iterator[Connection]:
    with psycopg.connect(dsn, autocommit=request.param) as connection:
        yield connection


@pytest.fixture
def counted(dsn: str) -> Iterator[Any]:
    with psycopg.connect(dsn, autocommit=True) as reader:
        reader.execute("truncate outbox, outbox_heads, orders")
        yield lambda table: one(reader, f"select count(*) from {table}")  # noqa: S608 - ours


def place(connection: Connection) -> int:
    [(number,)] = connection.execute("insert into orders (total) values (10) returning id").fetchall()
    return int(number)


def events_of(number: int) -> list[Event]:
    return [replace(ORDER, aggregate_id=str(number)), replace(ORDER, aggregate_id=str(number), type="OrderPaid")]


def test_b18_operation_and_events_are_committed_together_and_the_result_comes_back(
    connection: Connection, counted: Any
) -> None:
    """B18: ``execute_with_events(business_operation, events)``; here the connection is the caller's."""
    assert execute_with_events(connection, place, events_of) > 0
    assert execute_with_events(connection, place, [ORDER]) > 0
    assert (counted("orders"), counted("outbox")) == (2, 3)
    assert connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE


def test_whatever_is_raised_undoes_both(connection: Connection, counted: Any) -> None:
    def fail(connection: Connection) -> None:
        place(connection)
        raise LookupError

    with pytest.raises(LookupError):
        execute_with_events(connection, fail, [ORDER])
    with pytest.raises(EventError):
        execute_with_events(connection, place, [ORDER, replace(ORDER, payload="not json")])
    with pytest.raises(psycopg.ProgrammingError, match="forbidden"):
        execute_with_events(connection, lambda inner: (place(inner), inner.commit()), [ORDER])
    assert (counted("orders"), counted("outbox")) == (0, 0)


def test_a_transaction_that_is_open_is_not_taken_over(connection: Connection) -> None:
    with connection.transaction(), pytest.raises(OutboxError, match="already has a transaction"):
        execute_with_events(connection, place, [ORDER])


class ShouldPublish:
    """What C3 calls the marker of events that leave the service."""


@dataclass(frozen=True)
class Placed(ShouldPublish):
    total: int


@dataclass(frozen=True)
class Looked:
    total: int


def test_c3_a_policy_decides_which_events_are_written(dsn: str, counted: Any) -> None:
    """C3: only events that implement ``ShouldPublish``; the policy is any function of the event."""
    outbox = Outbox(policy=lambda event: isinstance(event.payload, ShouldPublish))
    placed, looked = replace(ORDER, payload=Placed(1)), replace(ORDER, payload=Looked(1))
    with psycopg.connect(dsn) as connection:
        alone = outbox.add(connection, looked)
        assert (alone.payload, alone.is_written, alone.sequence, alone.source) == (Looked(1), False, None, None)
        assert outbox.add(connection, placed).sequence == 1
        declined, written = outbox.add_all(connection, [looked, placed])
        assert (declined.payload, declined.is_written) == (Looked(1), False)
        assert (written.sequence, written.is_written) == (2, True)
    assert counted("outbox") == 2


def test_the_asynchronous_outbox_asks_the_policy_too(dsn: str) -> None:
    async def write() -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            outbox = AsyncOutbox(policy=lambda event: event.type != "OrderPlaced")
            assert not (await outbox.add(connection, ORDER)).is_written
            assert not (await outbox.add_all(connection, [ORDER]))[0].is_written

    asyncio.run(write())


def test_a_users_test_asks_which_events_were_written(dsn: str, outbox_events: OutboxEvents) -> None:
    assert outbox_events == []
    with psycopg.connect(dsn) as connection:
        Outbox().add(connection, ORDER)
        Outbox().add_all(connection, [replace(ORDER, type="OrderPaid", payload=Placed(7)), ORDER])
        connection.rollback()
    assert outbox_events.types == ["OrderPlaced", "OrderPaid", "OrderPlaced"]
    assert assert_event(outbox_events, "OrderPaid", payload={"total": 7}).aggregate_id == "42"
    assert assert_event(outbox_events, "OrderPlaced", payload={"total": 10}, count=2).sequence is not None
    for wrong in ({"payload": {"total": 11}}, {"aggregate_id": "1"}, {"count": 1}, {"aggregate_type": "cart"}):
        with pytest.raises(AssertionError, match="found:\n  OrderPlaced order/42"):
            assert_event(outbox_events, "OrderPlaced", **wrong)
    with pytest.raises(AssertionError, match="0 events instead of 1 with type='OrderSent'"):
        assert_event([], "OrderSent")


def test_sqlite_and_its_kind_do_it_too(tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "orders.db")) as store, closing(sqlite3.connect(store.path)) as connection:
        assert execute_with_events(connection, lambda place: place.execute("select 7").fetchone()[0], [ORDER]) == 7
        with pytest.raises(ZeroDivisionError):
            execute_with_events(connection, lambda _: 1 / 0, [ORDER])
        assert store.numbers() == [("42", 1)]


def test_an_inbox_elsewhere_than_where_the_connection_leads_is_refused(tmp_path: Path) -> None:
    contract = WireContract(aggregates={"order": SequenceMode.GAPLESS})
    with closing(sqlite3.connect(tmp_path / "shipping.db")) as connection:
        database = EffectsDatabase(connect=lambda: connection, inbox=InboxTable())
        consumer = Consumer(name="s", contract=contract, kafka="nowhere:1", database=database)
        with pytest.raises(ConfigError, match="the inbox is on postgresql, but the consumer's connection leads to sql"):
            consumer._know(connection)
