"""The event shares the fate of the caller's transaction, and nothing else does."""

import asyncio
import dataclasses
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid4

import psycopg
import psycopg.errors
import pytest

from cdc_outbox import (
    AsyncOutbox,
    DuplicateEventError,
    Event,
    EventError,
    NotInTransactionError,
    Outbox,
    OutboxError,
    OutboxTable,
    RecordedEvent,
    SequenceMode,
    TableNotFoundError,
    TransactionConflictError,
    WireContract,
)
from cdc_outbox.errors import DatabaseAccessError
from cdc_outbox.testing import Stack
from cdc_outbox.writer.outbox_schema import outbox_component
from tests.support.patience import patience
from tests.support.rig import Connection, one, run_upgrade, sent_statements
from tests.support.threads import Threads

ORDER = Event(aggregate_type="order", aggregate_id="42", type="OrderPlaced", payload={"total": 10})


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> str:
    dsn = outbox_stack.postgres.create_database("writer")
    with psycopg.connect(dsn, autocommit=True) as connection:
        run_upgrade(connection, outbox_component(OutboxTable(), first_source="orders.1"))
    return dsn


@pytest.fixture
def connection(dsn: str) -> Iterator[Connection]:
    """An ordinary connection on empty tables."""
    with psycopg.connect(dsn) as connection:
        connection.execute("truncate outbox, outbox_heads")
        connection.commit()
        yield connection


def rows(dsn: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as reader:
        return reader.execute("select aggregateid, sequence from outbox order by aggregateid, sequence").fetchall()


def test_the_event_comes_back_with_what_the_writer_gave_it(connection: Connection) -> None:
    event = Outbox().add(connection, ORDER)
    given = {field.name: getattr(ORDER, field.name) for field in dataclasses.fields(ORDER)}
    added = {"id": event.id, "sequence": 1, "source": "orders.1", "created_at": event.created_at}
    assert event == RecordedEvent(**given | added)
    assert UUID(event.id).version == 7
    assert abs(event.created_at - datetime.now(UTC)) < timedelta(minutes=1)


def test_the_row_holds_what_the_event_says(connection: Connection) -> None:
    event = Outbox().add(connection, replace(ORDER, payload='{ "as":  "is" }', headers={"traceparent": "00-1-2-01"}))
    [row] = connection.execute(
        "select cast(id as text), aggregatetype, aggregateid, type, cast(payload as text), sequence, source, "
        "traceparent, tracestate from outbox"
    ).fetchall()
    assert row == (event.id, "order", "42", "OrderPlaced", '{ "as":  "is" }', 1, "orders.1", "00-1-2-01", None)


def test_outside_a_transaction_nothing_is_written(connection: Connection, dsn: str) -> None:
    del connection
    with psycopg.connect(dsn, autocommit=True) as autocommit:
        with pytest.raises(NotInTransactionError) as caught:
            Outbox().add(autocommit, ORDER)
        assert "with connection.transaction()" in caught.value.hint
        with autocommit.transaction():
            Outbox().add(autocommit, ORDER)
    assert rows(dsn) == [("42", 1)]


def test_the_writer_neither_commits_nor_closes(connection: Connection) -> None:
    Outbox().add(connection, ORDER)
    assert connection.info.transaction_status is psycopg.pq.TransactionStatus.INTRANS
    assert not connection.closed


def test_one_statement_writes_event_and_number(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = sent_statements(monkeypatch)
    Outbox().add(connection, ORDER)
    assert len(sent) == 1


def test_eight_writers_of_one_aggregate_number_it_without_gaps_and_in_commit_order(
    dsn: str, connection: Connection
) -> None:
    outbox, each = Outbox(), 25
    del connection

    def write(writer: int) -> None:
        with psycopg.connect(dsn) as own:
            for number in range(each):
                with own.transaction() as transaction:
                    outbox.add(own, replace(ORDER, payload={"writer": writer, "number": number}))
                    if number % 5 == 4:
                        raise psycopg.Rollback(transaction)

    with Threads(8) as pool:
        list(pool.map(write, range(8)))
    with psycopg.connect(dsn) as reader:
        by_commit = reader.execute(
            "select sequence from outbox order by pg_xact_commit_timestamp(xmin), sequence"
        ).fetchall()
    assert [sequence for (sequence,) in by_commit] == list(range(1, 8 * each * 4 // 5 + 1))


def test_writers_of_different_aggregates_do_not_wait_for_each_other(connection: Connection, dsn: str) -> None:
    Outbox().add(connection, ORDER)
    with psycopg.connect(dsn) as other:
        other.execute("set lock_timeout = '200ms'")
        assert Outbox().add(other, replace(ORDER, aggregate_id="43")).sequence == 1
        other.commit()
        with pytest.raises(TransactionConflictError):
            Outbox().add(other, ORDER)


def test_the_second_of_two_serializable_writers_may_try_again(connection: Connection, dsn: str) -> None:
    with psycopg.connect(dsn) as other:
        other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        other.execute("select 1 from outbox")
        Outbox().add(connection, ORDER)
        connection.commit()
        with pytest.raises(TransactionConflictError):
            Outbox().add(other, ORDER)
        other.rollback()
        assert Outbox().add(other, ORDER).sequence == 2


def test_a_type_that_is_not_numbered_has_no_number_and_no_lock(connection: Connection, dsn: str) -> None:
    contract = WireContract(aggregates={"metric": SequenceMode.NONE})
    metric = Event(aggregate_type="metric", aggregate_id="cpu", type="Measured", payload=1)
    event = Outbox(table=OutboxTable(), contract=contract).add(connection, metric)
    assert (event.sequence, event.source) == (None, "orders.1")
    with psycopg.connect(dsn) as other:
        other.execute("set lock_timeout = '200ms'")
        assert Outbox(table=OutboxTable(), contract=contract).add(other, metric).sequence is None


def test_an_id_of_the_callers_own_is_kept_and_unique(connection: Connection) -> None:
    mine = str(uuid4())
    assert Outbox().add(connection, replace(ORDER, id=mine)).id == mine
    with pytest.raises(DuplicateEventError):
        Outbox().add(connection, replace(ORDER, id=mine))


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (replace(ORDER, payload="not json"), "the payload is a str that is not JSON text: Expecting value"),
        (replace(ORDER, payload={"x": float("nan")}), "the payload is not JSON"),
        (replace(ORDER, payload=None), "tombstone"),
        (replace(ORDER, payload="x" * 2_000_000), "not JSON"),
        (
            replace(ORDER, payload=["x" * 1_000_000]),
            "payload, key and headers have 1,000,006 bytes; the limit is 1,000,000",
        ),
        (replace(ORDER, aggregate_id=""), "aggregate_id must be a non-empty str"),
        (replace(ORDER, aggregate_id=cast("Any", 42)), "aggregate_id must be a non-empty str"),
        (replace(ORDER, aggregate_id="a\0b"), "aggregate_id contains a NUL"),
        (replace(ORDER, type="\ud800"), "type contains a lone surrogate"),
        (replace(ORDER, aggregate_type="has space"), "which Kafka refuses"),
        (replace(ORDER, id="no uuid"), "the id 'no uuid' is not the text of a UUID"),
        (replace(ORDER, sequence=7), "the writer assigns the sequence"),
        (replace(ORDER, headers={"x": "y"}), "no column for the header 'x'"),
    ],
)
def test_an_event_that_cannot_be_written_is_refused_and_the_transaction_lives(
    connection: Connection, event: Event, reason: str
) -> None:
    with pytest.raises(EventError, match=reason):
        Outbox().add(connection, event)
    assert Outbox().add(connection, ORDER).sequence == 1


def test_an_aggregate_type_outside_the_contract_is_refused(connection: Connection) -> None:
    with pytest.raises(EventError, match="'order' is not in the contract; its types are metric"):
        Outbox(table=OutboxTable(), contract=WireContract(aggregates={"metric": SequenceMode.NONE})).add(
            connection, ORDER
        )


def test_the_limit_of_the_payload_can_be_set_and_lifted(connection: Connection) -> None:
    with pytest.raises(EventError, match="limit is 5"):
        Outbox(max_message_bytes=5).add(connection, ORDER)
    assert Outbox(max_message_bytes=None).add(connection, replace(ORDER, payload=["x" * 1_500_000])).sequence == 1


def test_a_missing_table_is_named_with_what_to_do(connection: Connection) -> None:
    with pytest.raises(TableNotFoundError, match=r'"public.nowhere_heads" does not exist') as caught:
        Outbox(table=OutboxTable(name="nowhere")).add(connection, ORDER)
    assert "cdc-outbox init" in caught.value.hint
    assert isinstance(caught.value.__cause__, psycopg.errors.UndefinedTable)


def test_a_role_without_privileges_is_told(connection: Connection) -> None:
    connection.execute("create role nobody_special")
    connection.execute("set role nobody_special")
    with pytest.raises(DatabaseAccessError, match="permission denied"):
        Outbox().add(connection, ORDER)
    connection.rollback()


@pytest.mark.parametrize("name", ["Größe", 'or"der', "select", "a b.c%s{x}:y", "x" * 63])
def test_any_table_name_works(outbox_stack: Stack, name: str) -> None:
    table = OutboxTable(name=name)
    with psycopg.connect(outbox_stack.postgres.dsn("writer"), autocommit=True) as connection:
        run_upgrade(connection, outbox_component(table, first_source="it's.1"))
        with connection.transaction():
            event = Outbox(table=table).add(connection, ORDER)
        assert (event.sequence, event.source) == (1, "it's.1")
        count = psycopg.sql.SQL("select count(*) from {}").format(psycopg.sql.Identifier(name))
        assert connection.execute(count).fetchall() == [(1,)]


def test_a_connection_of_the_other_kind_is_refused(connection: Connection) -> None:
    with pytest.raises(OutboxError, match=r"psycopg\.Connection is not an asynchronous connection"):
        asyncio.run(AsyncOutbox().add(connection, ORDER))


def test_one_outbox_serves_many_threads(connection: Connection, dsn: str) -> None:
    outbox, start = Outbox(), threading.Barrier(4)
    del connection

    def write(aggregate_id: str) -> None:
        with psycopg.connect(dsn) as own:
            start.wait(patience())
            for _ in range(20):
                outbox.add(own, replace(ORDER, aggregate_id=aggregate_id))
                own.commit()

    with Threads(4) as pool:
        list(pool.map(write, "abcd"))
    assert rows(dsn) == [(aggregate_id, number) for aggregate_id in "abcd" for number in range(1, 21)]


def test_the_asynchronous_twin_does_the_same(connection: Connection, dsn: str) -> None:
    del connection
    outbox = AsyncOutbox()

    async def write() -> None:
        async with await psycopg.AsyncConnection.connect(dsn) as own:
            first = await outbox.add(own, ORDER)
            assert (first.sequence, first.source) == (1, "orders.1")
            await own.rollback()
            assert (await outbox.add(own, ORDER)).sequence == 1
            with pytest.raises(EventError):
                await outbox.add(own, replace(ORDER, payload="not json"))
            with pytest.raises(OutboxError, match=r"psycopg\.AsyncConnection is not a synchronous connection"):
                Outbox().add(own, ORDER)
            await own.commit()
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as autocommit:
            with pytest.raises(NotInTransactionError):
                await outbox.add(autocommit, ORDER)

    asyncio.run(write())
    assert rows(dsn) == [("42", 1)]


def test_heads_are_kept_by_source(connection: Connection) -> None:
    """After a restore the incarnation changes, and numbers start again beside the old ones."""
    outbox = Outbox()
    assert [outbox.add(connection, ORDER).sequence for _ in range(2)] == [1, 2]
    connection.execute("alter table outbox alter source set default 'orders.2'")
    connection.execute("alter table outbox_heads alter source set default 'orders.2'")
    event = outbox.add(connection, ORDER)
    assert (event.sequence, event.source) == (1, "orders.2")
    assert one(connection, "select count(*) from outbox_heads") == 2
    connection.rollback()
