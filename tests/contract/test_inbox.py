"""What every inbox promises."""

import re
import secrets
import threading
from collections.abc import Iterator, Set
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox.consumer import Aggregate, Claims, Inbox, InboxTable, Move, SqlInbox, inbox_component
from cdc_outbox.drivers.psycopg import Psycopg
from cdc_outbox.errors import MessageError, OutboxError, TransactionEndedError, WatermarkMovedError
from cdc_outbox.testing import MemoryInbox, Stack
from tests.rig import eventually, one, run_upgrade

A, B = Aggregate("orders.1", "order", "a"), Aggregate("orders.1", "order", "b")


def advance(inbox: Inbox, connection: Any, moves: list[Move]) -> None:
    """Move watermarks as a delivery does, for an id that was claimed in the same transaction."""
    inbox.advance(connection, inbox.claim(connection, [str(uuid4())]), moves)


def noise(size: int) -> str:
    """Return text that PostgreSQL cannot compress."""
    return secrets.token_urlsafe(size)[:size]


class InboxContract:
    """Subclasses say what an inbox is made of."""

    @pytest.fixture
    def inbox(self) -> Inbox:
        raise NotImplementedError

    @pytest.fixture
    def connection(self) -> Any:
        return None

    def test_an_id_is_new_once(self, inbox: Inbox, connection: Any) -> None:
        assert inbox.claim(connection, ["1", "2"]).new == {"1", "2"}
        assert inbox.claim(connection, ["2", "3"]).new == {"3"}
        assert inbox.claim(connection, ["1", "2", "3"]).new == set()

    def test_ids_are_text_of_any_kind(self, inbox: Inbox, connection: Any) -> None:
        ids = ["42", "ünï'cödé", "a" * 500, "01a1fd38-56c2-7501-996e-34f2120154f5", "{}"]
        assert inbox.claim(connection, ids).new == set(ids)
        assert inbox.claim(connection, ids).new == set()

    def test_an_empty_list_does_nothing(self, inbox: Inbox, connection: Any) -> None:
        assert inbox.claim(connection, []).new == set()
        assert inbox.find_watermarks(connection, []) == {}
        inbox.advance(connection, Claims(), [])
        assert not inbox.take_back(connection, Claims())

    def test_a_watermark_is_where_it_was_moved_to(self, inbox: Inbox, connection: Any) -> None:
        assert inbox.find_watermarks(connection, [A, B]) == {}
        advance(inbox, connection, [Move(A, 0, 3)])
        advance(inbox, connection, [Move(A, 3, 4), Move(B, 0, 1)])
        assert inbox.find_watermarks(connection, [B, A, A]) == {A: 4, B: 1}

    @pytest.mark.parametrize("move", [Move(A, 0, 1), Move(A, 1, 2), Move(A, 4, 5)])
    def test_a_watermark_moves_only_from_where_it_is(self, inbox: Inbox, connection: Any, move: Move) -> None:
        advance(inbox, connection, [Move(A, 0, 3)])
        with pytest.raises(WatermarkMovedError) as caught:
            advance(inbox, connection, [move])
        assert caught.value.retryable

    def test_sources_are_kept_apart(self, inbox: Inbox, connection: Any) -> None:
        advance(inbox, connection, [Move(A, 0, 3)])
        advance(inbox, connection, [Move(A._replace(source="orders.2"), 0, 1)])
        assert inbox.find_watermarks(connection, [A]) == {A: 3}


class TestMemoryInbox(InboxContract):
    @pytest.fixture
    def inbox(self) -> Inbox:
        return MemoryInbox()


class TestSqlInboxOnPostgresql(InboxContract):
    @pytest.fixture(scope="class")
    @classmethod
    def dsn(cls, outbox_stack: Stack) -> str:
        dsn = outbox_stack.postgres.create_database("inbox_contract")
        with psycopg.connect(dsn) as connection:
            run_upgrade(connection, inbox_component(InboxTable()))
        return dsn

    @pytest.fixture
    def connection(self, dsn: str) -> Iterator[Any]:
        """Each test in a transaction of its own, which leaves nothing."""
        with psycopg.connect(dsn) as connection:
            yield connection
            connection.rollback()

    @pytest.fixture
    def inbox(self) -> Inbox:
        return SqlInbox(table=InboxTable(), consumer="shop", driver=Psycopg())

    def test_consumers_are_kept_apart(self, inbox: Inbox, connection: Any) -> None:
        other = SqlInbox(table=InboxTable(), consumer="other", driver=Psycopg())
        inbox.claim(connection, ["1"])
        advance(inbox, connection, [Move(A, 0, 3)])
        assert other.claim(connection, ["1"]).new == {"1"}
        assert other.find_watermarks(connection, [A]) == {}
        advance(other, connection, [Move(A, 0, 3)])
        advance(inbox, connection, [Move(A, 3, 4)])
        assert other.find_watermarks(connection, [A]) == {A: 3}

    def test_a_rollback_undoes_claims_and_watermarks(self, inbox: Inbox, connection: Any) -> None:
        inbox.claim(connection, ["1"])
        advance(inbox, connection, [Move(A, 0, 3)])
        connection.rollback()
        assert inbox.claim(connection, ["1"]).new == {"1"}
        assert inbox.find_watermarks(connection, [A]) == {}

    def test_claims_lie_in_partitions_by_range_of_the_id(self, connection: Any) -> None:
        strategy = "select partstrat from pg_partitioned_table where partrelid = 'inbox'::regclass"
        assert connection.execute(strategy).fetchall() == [("r",)]

    def test_the_second_of_two_claims_waits_and_is_told(self, inbox: Inbox, connection: Any, dsn: str) -> None:
        told: list[Set[str]] = []
        inbox.claim(connection, ["1"])
        with psycopg.connect(dsn) as second, psycopg.connect(dsn, autocommit=True) as watcher:
            thread = threading.Thread(target=lambda: told.append(inbox.claim(second, ["1", "2"]).new))
            thread.start()
            waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and pid = %s"
            eventually(lambda: one(watcher, waiting, second.info.backend_pid), "the second to wait")
            assert told == []
            connection.commit()
            thread.join(10)
            second.rollback()
            watcher.execute("delete from inbox")
        assert told == [{"2"}]

    @pytest.mark.parametrize("first_commits", [True, False])
    def test_the_second_of_two_moves_waits_and_is_told(
        self, inbox: Inbox, connection: Any, dsn: str, *, first_commits: bool
    ) -> None:
        advance(inbox, connection, [Move(A, 0, 3)])
        connection.commit()
        advance(inbox, connection, [Move(A, 3, 4)])
        told: list[bool] = []

        def move(second: Any) -> None:
            try:
                advance(inbox, second, [Move(A, 3, 5)])
            except WatermarkMovedError:
                told.append(False)
            else:
                told.append(True)

        with psycopg.connect(dsn) as second, psycopg.connect(dsn, autocommit=True) as watcher:
            thread = threading.Thread(target=move, args=(second,))
            thread.start()
            waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and pid = %s"
            eventually(lambda: one(watcher, waiting, second.info.backend_pid), "the second to wait")
            connection.commit() if first_commits else connection.rollback()
            thread.join(10)
            second.rollback()
            watcher.execute("truncate inbox, inbox_watermarks")
        assert told == [not first_commits]

    @pytest.mark.parametrize("statement", ["find_watermarks", "advance_watermarks"])
    def test_a_watermark_is_looked_up_and_not_searched_for_even_before_the_first_analyze(
        self, inbox: SqlInbox, connection: Any, statement: str
    ) -> None:
        connection.execute(
            "insert into inbox_watermarks (consumer, source, aggregatetype, aggregateid, last)"
            " select 'shipping', 'orders.1', 'order', cast(number as text), 1 from generate_series(1, 20000) as number"
        )
        keys = {"sources": ["orders.1"] * 500, "aggregate_types": ["order"] * 500, "aggregate_ids": ["7"] * 500}
        parameters = {"consumer": "shipping", **keys, "befores": [1] * 500, "afters": [2] * 500}
        sql = f"explain {inbox._statements[statement]}".encode()
        plan = "\n".join(line for (line,) in psycopg.ClientCursor(connection).execute(sql, parameters).fetchall())
        assert re.search(r"Index Cond: .*aggregateid", plan), plan

    @pytest.mark.parametrize("moves", [[Move(A, 0, 1)], []], ids=["numbered", "not numbered"])
    def test_another_transaction_than_that_of_the_claims_is_noticed(
        self, inbox: Inbox, connection: Any, moves: list[Move]
    ) -> None:
        claims = inbox.claim(connection, ["1"])
        connection.execute("rollback and chain")
        with pytest.raises(TransactionEndedError):
            inbox.advance(connection, claims, moves)

    def test_a_claim_that_was_committed_too_soon_is_taken_back_and_no_other(
        self, inbox: Inbox, connection: Any
    ) -> None:
        mine = inbox.claim(connection, ["1"])
        connection.commit()
        other = inbox.claim(connection, ["2"])
        connection.commit()
        assert not inbox.take_back(connection, Claims(frozenset("2"), mine.transaction))
        assert inbox.take_back(connection, mine)
        assert inbox.take_back(connection, other)
        connection.commit()
        assert inbox.claim(connection, ["1", "2"]).new == {"1", "2"}

    def test_what_is_as_long_as_a_key_can_be_is_stored(self, inbox: Inbox, connection: Any) -> None:
        room = 2600 - len("shop")
        claims = inbox.claim(connection, [noise(room)])
        aggregate = Aggregate("orders.1", "order", noise(room - len("orders.1order")))
        assert inbox.find_watermarks(connection, [aggregate]) == {}
        inbox.advance(connection, claims, [Move(aggregate, 0, 1)])
        assert inbox.find_watermarks(connection, [aggregate]) == {aggregate: 1}

    @pytest.mark.parametrize("text", ["a" * 2600, "a\0b"])
    def test_what_cannot_be_a_key_breaks_the_contract(self, inbox: Inbox, connection: Any, text: str) -> None:
        with pytest.raises(MessageError, match=r"the id 'a.* cannot be a key of the inbox"):
            inbox.claim(connection, [text])
        with pytest.raises(MessageError, match=r"the aggregate 'orders.1/order/a.* cannot be a key"):
            inbox.find_watermarks(connection, [Aggregate("orders.1", "order", text)])

    @pytest.mark.parametrize("name", ["inbox", "inbox_rest", "inbox_watermarks"])
    def test_a_foreign_table_of_the_same_name_is_refused(self, connection: Any, name: str) -> None:
        connection.execute("create schema foreign_one")
        connection.execute(f"create table foreign_one.{name} (a int)".encode())
        with pytest.raises(OutboxError, match=f"foreign_one.{name} exists already"):
            run_upgrade(connection, inbox_component(InboxTable(schema="foreign_one")))
