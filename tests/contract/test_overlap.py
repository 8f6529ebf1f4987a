"""What is done while the server works, and lists on their way to it."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import psycopg
import pytest

from cdc_outbox.databases.drivers import TransactionState
from cdc_outbox.databases.drivers.immediate import ImmediateTransactions, Meanwhile, finish
from cdc_outbox.databases.drivers.psycopg import Psycopg, connect
from cdc_outbox.databases.drivers.sqlite3 import Sqlite3
from cdc_outbox.testing import Stack
from tests.support.rig import eventually

IDLE_SECONDS = 0.5


class Place:
    """A connection with an open transaction, and what was done meanwhile."""

    def __init__(self, dsn: str) -> None:
        self.connection = connect(dsn)
        self.driver = ImmediateTransactions(Psycopg())
        self.done = 0
        finish(self.driver.prepare(self.connection, idle_seconds=IDLE_SECONDS))
        finish(self.driver.begin(self.connection))

    def meanwhile(self, most: int = 10**9) -> Meanwhile:
        def work() -> bool:
            self.done += 1
            return self.done < most

        return work

    def fetch(self, sql: str, meanwhile: Meanwhile | None = None, **parameters: Any) -> list[Any]:
        with self.driver.overlapping(self.connection, meanwhile) if meanwhile else nullcontext():
            return finish(self.driver.fetch(self.connection, sql, parameters))


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> str:
    return outbox_stack.postgres.create_database("overlap")


@pytest.fixture
def place(dsn: str) -> Iterator[Place]:
    place = Place(dsn)
    yield place
    place.connection.close()


def test_something_else_is_done_until_the_server_answers(place: Place) -> None:
    assert place.fetch("select 1, pg_sleep(0.2)", place.meanwhile()) == [(1, "")]
    assert place.done > 3
    done = place.done
    assert place.fetch("select 2, pg_sleep(0.2)") == [(2, "")]
    assert place.done == done


def test_the_answer_is_waited_for_where_nothing_else_is_left(place: Place) -> None:
    assert place.fetch("select 1, pg_sleep(0.2)", place.meanwhile(most=3)) == [(1, "")]
    assert 3 <= place.done < 20


def test_statements_cost_no_more_than_elsewhere_once_nothing_else_is_left(place: Place) -> None:
    with place.driver.overlapping(place.connection, place.meanwhile(most=1)):
        assert "wait" in vars(place.connection)
        finish(place.driver.fetch(place.connection, "select pg_sleep(0.1)"))
        assert "wait" not in vars(place.connection)
        finish(place.driver.fetch(place.connection, "select pg_sleep(0.1)"))
    assert place.done == 1


def test_an_error_of_the_server_leaves_the_transaction_aborted_and_nothing_else_is_done_afterwards(
    place: Place,
) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        place.fetch("select 1 / 0", place.meanwhile())
    assert place.driver.state(place.connection) is TransactionState.ABORTED
    finish(place.driver.rollback(place.connection))
    done = place.done
    finish(place.driver.begin(place.connection))
    assert place.fetch("select 7") == [(7,)]
    assert place.done == done


def test_what_is_done_meanwhile_may_fail_and_the_connection_is_given_up(place: Place) -> None:
    def fail() -> bool:
        raise RuntimeError("meanwhile")

    with pytest.raises(RuntimeError, match="meanwhile"):
        place.fetch("select pg_sleep(0.2)", fail)
    finish(place.driver.rollback(place.connection))
    assert place.driver.state(place.connection) is not TransactionState.OPEN


def test_a_process_that_is_paused_between_two_statements_loses_its_transaction(place: Place, dsn: str) -> None:
    place.fetch("select 1", place.meanwhile())
    with connect(dsn) as watcher:
        there = "select 1 from pg_stat_activity where pid = %s"
        who = (place.connection.info.backend_pid,)
        eventually(lambda: not watcher.execute(there, who).fetchall(), "the server to end the session")


def test_other_drivers_do_nothing_else() -> None:
    driver = ImmediateTransactions(Sqlite3())
    with driver.overlapping(None, pytest.fail):
        pass


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["plain"],
        ["", "NULL", "null"],
        ['"', '""', "\\", '\\"', "{", "}", "{a,b}", ",", " a ", "\n", "'", "ä€😀"],
    ],
    ids=len,
)
def test_lists_of_texts_arrive_as_they_are(place: Place, texts: list[str]) -> None:
    sql = "select unnest(cast(%(texts)s as text[]))"
    assert place.fetch(sql, texts=texts) == [(text,) for text in texts]


def test_lists_of_other_things_arrive_as_they_are(place: Place) -> None:
    sql = "select %(numbers)s::bigint[], %(flags)s::boolean[], %(some)s::text[], %(bytes)s::bytea[], %(deep)s::int[]"
    values: dict[str, Any] = {
        "numbers": [1, -(2**62)],
        "flags": [True, False],
        "some": ["a", None],
        "bytes": [b"\0"],
        "deep": [[1, 2], [3, 4]],
    }
    assert place.fetch(sql, **values) == [tuple(values.values())]


def test_each_of_several_lists_arrives_as_it_is(place: Place) -> None:
    sql = "select %(small)s::bigint[], %(large)s::bigint[], %(texts)s::text[], %(deep)s::int[], %(others)s::text[]"
    values: dict[str, Any] = {
        "small": [1, None],
        "large": [2**40, None],
        "texts": [None, "a"],
        "deep": [[1]],
        "others": [["a"]],
    }
    assert place.fetch(sql, **values) == [tuple(values.values())]


def test_texts_arrive_where_the_client_has_no_encoding(dsn: str) -> None:
    sql = "select %(text)s::text = any(%(texts)s::text[])"
    with connect(dsn, client_encoding="SQL_ASCII") as connection:
        assert Psycopg().fetch(connection, sql, {"text": "ä€", "texts": ["ä€"]}) == [(True,)]


def test_a_text_with_nul_is_refused_and_not_taken_for_two(place: Place) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        place.fetch("select cast(%(texts)s as text[])", texts=["a\0b", "c"])
