"""Several statements on their way at once, and what is done meanwhile."""

import logging
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from cdc_outbox.drivers import TransactionState, translate
from cdc_outbox.drivers.immediate import ImmediateTransactions, finish
from cdc_outbox.drivers.overlap import Overlapped, Step, immediate, together
from cdc_outbox.drivers.psycopg import Psycopg, connect
from cdc_outbox.drivers.sqlite3 import Sqlite3
from cdc_outbox.errors import DatabaseUnavailableError
from cdc_outbox.testing import Stack
from tests.rig import eventually


class Place:
    """A connection with an open transaction, a table ``t`` in it, and what was done meanwhile."""

    def __init__(self, dsn: str) -> None:
        self.connection = connect(dsn)
        self.driver = Overlapped(Psycopg())
        self.done = 0
        self.left = 3
        finish(self.driver.begin(self.connection))
        self.connection.execute("create temporary table t (number int primary key)")

    def meanwhile(self) -> bool:
        self.done += 1
        return self.done < self.left

    async def insert(self, number: int) -> Any:
        rows = await self.driver.fetch(
            self.connection, "insert into t values (%(number)s) returning number", {"number": number}
        )
        return rows[0][0]

    async def count(self) -> Any:
        first = await self.driver.fetch(self.connection, "select count(*) from t")
        return first + await self.driver.fetch(self.connection, "select count(*) from t")

    async def nothing(self) -> str:
        return "nothing"

    def together(self, *steps: Step) -> list[Any]:
        return finish(together(self.driver, self.connection, *steps, meanwhile=self.meanwhile))


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> str:
    return outbox_stack.postgres.create_database("overlap")


@pytest.fixture
def place(dsn: str) -> Iterator[Place]:
    place = Place(dsn)
    yield place
    place.connection.close()


def test_steps_that_send_at_once_see_each_other_in_their_order(place: Place) -> None:
    assert place.together(place.insert(1), place.count(), place.insert(2), place.nothing(), place.count()) == [
        1,
        [(1,), (2,)],
        2,
        "nothing",
        [(2,), (2,)],
    ]
    assert place.driver.state(place.connection) is TransactionState.OPEN
    assert finish(place.count()) == [(2,), (2,)]


def test_something_else_is_done_until_the_server_answers_or_nothing_is_left(place: Place) -> None:
    place.together(place.driver.fetch(place.connection, "select pg_sleep(0.2)"))
    assert place.done == 3
    place.left = 10**9
    place.together(place.driver.fetch(place.connection, "select pg_sleep(0.2)"))
    assert 3 < place.done < 10**9


def test_the_first_error_is_the_one_that_is_raised_and_the_transaction_can_be_undone(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(psycopg.errors.UniqueViolation):
        place.together(place.insert(1), place.insert(1), place.count())
    assert place.driver.state(place.connection) is TransactionState.ABORTED
    finish(place.driver.rollback(place.connection))
    assert place.driver.state(place.connection) is TransactionState.ENDED
    finish(place.driver.begin(place.connection))
    assert finish(place.driver.fetch(place.connection, "select 7")) == [(7,)]


def test_a_client_that_stops_in_the_middle_is_bounded_as_one_that_stops_between_two_statements(
    place: Place, dsn: str
) -> None:
    place.connection.execute("set idle_in_transaction_session_timeout = 100")

    def stop() -> bool:
        eventually(lambda: place.connection.info.backend_pid not in servers(dsn), "the server to end the transaction")
        return False

    with pytest.raises((psycopg.OperationalError, DatabaseUnavailableError)) as caught:
        finish(together(place.driver, place.connection, place.insert(1), place.count(), meanwhile=stop))
    assert isinstance(translate(caught.value) or caught.value, DatabaseUnavailableError)
    assert place.driver.state(place.connection) is TransactionState.LOST


def servers(dsn: str) -> set[int]:
    with connect(dsn) as connection:
        return {number for (number,) in connection.execute("select pid from pg_stat_activity")}


def test_an_old_client_library_waits_for_each_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(immediate(Psycopg())) is Overlapped
    monkeypatch.setattr(psycopg.Pipeline, "is_supported", lambda: False)
    assert type(immediate(Psycopg())) is ImmediateTransactions


def test_what_is_done_meanwhile_may_fail(place: Place) -> None:
    def fail() -> bool:
        raise RuntimeError("meanwhile")

    with pytest.raises(RuntimeError, match="meanwhile"):
        finish(together(place.driver, place.connection, place.insert(1), place.count(), meanwhile=fail))
    assert place.driver.state(place.connection) is TransactionState.OPEN
    assert finish(place.count()) == [(1,), (1,)]


def test_drivers_that_wait_for_each_answer_run_steps_one_after_the_other() -> None:
    async def step(number: int) -> int:
        return number

    driver = immediate(Sqlite3())
    assert type(driver) is ImmediateTransactions
    assert finish(together(driver, None, step(1), step(2), meanwhile=lambda: False)) == [1, 2]


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
    assert finish(place.driver.fetch(place.connection, sql, {"texts": texts})) == [(text,) for text in texts]


def test_lists_of_other_things_arrive_as_they_are(place: Place) -> None:
    sql = "select %(numbers)s::bigint[], %(flags)s::boolean[], %(some)s::text[], %(bytes)s::bytea[], %(deep)s::int[]"
    values = {
        "numbers": [1, -(2**62)],
        "flags": [True, False],
        "some": ["a", None],
        "bytes": [b"\0"],
        "deep": [[1, 2], [3, 4]],
    }
    assert finish(place.driver.fetch(place.connection, sql, values)) == [tuple(values.values())]


def test_each_of_several_lists_arrives_as_it_is(place: Place) -> None:
    sql = "select %(small)s::bigint[], %(large)s::bigint[], %(texts)s::text[], %(deep)s::int[], %(others)s::text[]"
    values = {"small": [1, None], "large": [2**40, None], "texts": [None, "a"], "deep": [[1]], "others": [["a"]]}
    assert finish(place.driver.fetch(place.connection, sql, values)) == [tuple(values.values())]


def test_texts_arrive_where_the_client_has_no_encoding(dsn: str) -> None:
    sql = "select %(text)s::text = any(%(texts)s::text[])"
    with connect(dsn, client_encoding="SQL_ASCII") as connection:
        assert Psycopg().fetch(connection, sql, {"text": "ä€", "texts": ["ä€"]}) == [(True,)]


def test_a_text_with_nul_is_refused_and_not_taken_for_two(place: Place) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        finish(place.driver.fetch(place.connection, "select cast(%(texts)s as text[])", {"texts": ["a\0b", "c"]}))
