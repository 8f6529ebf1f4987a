"""What every inbox promises."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from cdc_outbox.consumer import Aggregate, Inbox, InboxTable, Move, SqlInbox, inbox_component
from cdc_outbox.drivers.psycopg import Psycopg
from cdc_outbox.errors import WatermarkMovedError
from cdc_outbox.testing import MemoryInbox, Stack
from tests.rig import run_upgrade

A, B = Aggregate("orders.1", "order", "a"), Aggregate("orders.1", "order", "b")


class InboxContract:
    """Subclasses say what an inbox is made of."""

    @pytest.fixture
    def inbox(self) -> Inbox:
        raise NotImplementedError

    @pytest.fixture
    def connection(self) -> Any:
        return None

    def test_an_id_is_new_once(self, inbox: Inbox, connection: Any) -> None:
        assert inbox.claim(connection, ["1", "2"]) == {"1", "2"}
        assert inbox.claim(connection, ["2", "3"]) == {"3"}
        assert inbox.claim(connection, ["1", "2", "3"]) == set()

    def test_ids_are_text_of_any_kind(self, inbox: Inbox, connection: Any) -> None:
        ids = ["42", "ünï'cödé", "a" * 500, "01a1fd38-56c2-7501-996e-34f2120154f5", "{}"]
        assert inbox.claim(connection, ids) == set(ids)
        assert inbox.claim(connection, ids) == set()

    def test_an_empty_list_does_nothing(self, inbox: Inbox, connection: Any) -> None:
        assert inbox.claim(connection, []) == set()
        assert inbox.find_watermarks(connection, []) == {}
        inbox.advance(connection, [])

    def test_a_watermark_is_where_it_was_moved_to(self, inbox: Inbox, connection: Any) -> None:
        assert inbox.find_watermarks(connection, [A, B]) == {}
        inbox.advance(connection, [Move(A, 0, 3)])
        inbox.advance(connection, [Move(A, 3, 4), Move(B, 0, 1)])
        assert inbox.find_watermarks(connection, [B, A, A]) == {A: 4, B: 1}

    @pytest.mark.parametrize("move", [Move(A, 0, 1), Move(A, 1, 2), Move(A, 4, 5)])
    def test_a_watermark_moves_only_from_where_it_is(self, inbox: Inbox, connection: Any, move: Move) -> None:
        inbox.advance(connection, [Move(A, 0, 3)])
        with pytest.raises(WatermarkMovedError) as caught:
            inbox.advance(connection, [move])
        assert caught.value.retryable

    def test_sources_are_kept_apart(self, inbox: Inbox, connection: Any) -> None:
        inbox.advance(connection, [Move(A, 0, 3)])
        inbox.advance(connection, [Move(A._replace(source="orders.2"), 0, 1)])
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
        inbox.advance(connection, [Move(A, 0, 3)])
        assert other.claim(connection, ["1"]) == {"1"}
        assert other.find_watermarks(connection, [A]) == {}
        other.advance(connection, [Move(A, 0, 3)])
        inbox.advance(connection, [Move(A, 3, 4)])
        assert other.find_watermarks(connection, [A]) == {A: 3}

    def test_a_rollback_undoes_claims_and_watermarks(self, inbox: Inbox, connection: Any) -> None:
        inbox.claim(connection, ["1"])
        inbox.advance(connection, [Move(A, 0, 3)])
        connection.rollback()
        assert inbox.claim(connection, ["1"]) == {"1"}
        assert inbox.find_watermarks(connection, [A]) == {}

    def test_claims_lie_in_partitions_by_range_of_the_id(self, connection: Any) -> None:
        strategy = "select partstrat from pg_partitioned_table where partrelid = 'inbox'::regclass"
        assert connection.execute(strategy).fetchall() == [("r",)]

    def test_the_second_of_two_claims_waits_and_is_told(self, inbox: Inbox, connection: Any, dsn: str) -> None:
        inbox.claim(connection, ["1"])
        with psycopg.connect(dsn) as second:
            second.execute("set lock_timeout = '100ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                inbox.claim(second, ["1"])
