"""What becomes of a transaction in which something fails, and whose fault it is."""

import asyncio
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
import psycopg2
import pytest

from cdc_outbox.consumer.handlers import Gathered
from cdc_outbox.databases.drivers import TransactionState, translated_for_caller
from cdc_outbox.errors import (
    ConsumerError,
    DatabaseUnavailableError,
    DuplicateEventError,
    EventError,
    HandlerError,
    MessageError,
    TableNotFoundError,
    TransactionAbortedError,
    TransactionConflictError,
    TransactionEndedError,
)
from cdc_outbox.event import RecordedEvent
from cdc_outbox.telemetry import GuardedMetrics
from cdc_outbox.testing import MemoryMetrics
from tests.support.delivery_rig import (
    FROM_THE_HANDLER,
    UNDONE,
    UNTIL_THE_HANDLER,
    SpyDatabase,
    deliver,
    noting,
)
from tests.support.events import make_event


def failing_with(error: BaseException) -> Callable[[RecordedEvent, object], None]:
    def fail(_event: RecordedEvent, _connection: object) -> None:
        raise error

    return fail


def test_what_a_connection_holds_back_is_sent_in_its_handler_and_fails_as_that() -> None:
    class HoldsBack(SpyDatabase):
        async def flush(self, connection: object) -> None:
            raise ValueError("late")

    database = HoldsBack()
    with pytest.raises(HandlerError, match=r"the handler of OrderPlaced order/1 #1 .* raised ValueError.*late"):
        deliver(make_event(1), handler=noting(database), database=database)


def test_a_synchronous_handler_in_which_a_task_was_cancelled_has_failed() -> None:
    database = SpyDatabase()
    with pytest.raises(HandlerError, match=r"the handler of OrderPlaced order/1 #1 .* raised CancelledError"):
        deliver(make_event(1), handler=failing_with(asyncio.CancelledError()), database=database)
    assert database.steps == [*UNTIL_THE_HANDLER, *UNDONE]


def test_a_failing_handler_is_named_with_what_it_raised_and_commits_nothing() -> None:
    database = SpyDatabase()
    with pytest.raises(
        HandlerError,
        match=r"OrderPlaced order/1 #1 \(a\) raised ValueError at test_delivery_failures.py:\d+: the account closed$",
    ) as caught:
        deliver(make_event(1, event_id="a"), handler=failing_with(ValueError("the account closed")), database=database)
    assert isinstance(caught.value.__cause__, ValueError)
    assert database.steps == [*UNTIL_THE_HANDLER, *UNDONE]


class BrokenError(Exception):
    def __str__(self) -> str:
        raise KeyError


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError(), ""),
        (BrokenError(), ""),
        (ValueError("relation does not exist\nLINE 1: insert\n    ^\n"), ": relation does not exist LINE 1: insert ^"),
        (ValueError("a\0b \x1b[2J \ud800 \u202e"), r": a\x00b \x1b[2J \ud800 \u202e"),
        (ValueError("no login with password=hunter2"), ": no login with password=********"),
        (
            ValueError("refused {'user': 'me', 'password': 'hunter2'}"),
            ": refused {'user': 'me', 'password': '********'}",
        ),
        (ValueError("x" * 1_000_000), f": {'x' * 499}…"),
    ],
    ids=["none", "none to be had", "lines", "controls", "secret", "secret in a dictionary", "long"],
)
def test_what_a_handler_raised_is_one_line_that_every_database_takes(error: Exception, text: str) -> None:
    with pytest.raises(HandlerError, match=rf"raised {type(error).__name__} at [\w.]+:\d+{re.escape(text)}$"):
        deliver(make_event(1), handler=failing_with(error))


def test_what_a_handler_raised_is_not_quoted_where_it_is_private() -> None:
    with pytest.raises(HandlerError, match=r"raised ValueError at test_delivery_failures.py:\d+$"):
        deliver(make_event(1), handler=failing_with(ValueError("card 4711")), error_texts=False)


def test_a_swallowed_sql_error_is_found_before_the_commit() -> None:
    database = SpyDatabase()

    def swallow(_event: RecordedEvent, _connection: object) -> None:
        database.became = TransactionState.ABORTED

    with pytest.raises(TransactionAbortedError, match="swallowed an SQL error"):
        deliver(make_event(1), handler=swallow, database=database)
    assert database.steps == [*UNTIL_THE_HANDLER, *UNDONE]


def test_a_handler_that_ends_its_transaction_is_named_whatever_it_raises() -> None:
    for raised in (None, ValueError()):
        database = SpyDatabase()

        def end(_event: RecordedEvent, _connection: object, raised: Exception | None = raised) -> None:
            database.became = TransactionState.ENDED  # noqa: B023 - called in this round
            if raised:
                raise raised

        with pytest.raises(TransactionEndedError, match=r"the handler of OrderPlaced order/1 #1 .* ended its"):
            deliver(make_event(1), handler=end, database=database)
        assert database.steps == [*UNTIL_THE_HANDLER, *UNDONE]


def test_a_connection_that_broke_in_the_handler_is_told_though_the_handler_swallowed_it() -> None:
    database = SpyDatabase()

    def swallow(_event: RecordedEvent, _connection: object) -> None:
        database.became = TransactionState.LOST

    with pytest.raises(DatabaseUnavailableError):
        deliver(make_event(1), handler=swallow, database=database)
    assert database.steps == [*UNTIL_THE_HANDLER, "rollback"]


class Busy(SpyDatabase):
    """A database whose connection is in the midst of something after the handler.

    Args:
        is_alive: Whether the server answers.
    """

    def __init__(self, *, is_alive: bool) -> None:
        super().__init__()
        self.is_alive = is_alive

    async def answers(self, connection: object) -> bool:
        assert self.became is TransactionState.UNKNOWN
        return self.is_alive

    def leave(self, error: Exception | None) -> None:
        """Do what a handler does that leaves the connection busy."""
        self.became = TransactionState.UNKNOWN
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [None, LookupError("no such order"), DatabaseUnavailableError("already in progress")])
def test_a_handler_that_leaves_its_connection_busy_has_failed(error: Exception | None) -> None:
    database = Busy(is_alive=True)
    said = f"raised {type(error).__name__} at .*: {error} and " if error else ""
    left = "left a statement, a COPY, a stream or a pipeline open"
    with pytest.raises(HandlerError, match=rf"^the handler of OrderPlaced order/1 #1 .* {said}{left}$") as caught:
        deliver(make_event(1), handler=lambda *_: database.leave(error), database=database)
    assert caught.value.__cause__ is (error if isinstance(error, LookupError) else None), "else it looks like an outage"
    assert database.steps == [*UNTIL_THE_HANDLER, "rollback"]


@pytest.mark.parametrize("error", [None, DatabaseUnavailableError("connection socket closed")])
def test_a_busy_connection_whose_server_does_not_answer_is_lost(error: Exception | None) -> None:
    database = Busy(is_alive=False)
    with pytest.raises(DatabaseUnavailableError):
        deliver(make_event(1), handler=lambda *_: database.leave(error), database=database)


@pytest.mark.parametrize("error", [DatabaseUnavailableError("gone"), TransactionConflictError("x"), EventError("x")])
def test_what_leaves_a_handler_is_the_handlers_where_our_own_database_answers(error: Exception) -> None:
    def fail(_event: RecordedEvent, _connection: object) -> None:
        raise error

    with pytest.raises(HandlerError, match=f"raised {type(error).__name__}") as caught:
        deliver(make_event(1), handler=fail)
    assert caught.value.__cause__ is error


def test_a_handler_that_finds_our_own_database_gone_is_not_to_blame() -> None:
    class Gone(SpyDatabase):
        async def begin(self, connection: Any) -> None:
            if "rollback" in self.steps:
                raise DatabaseUnavailableError("refused")
            await super().begin(connection)

    def fail(_event: RecordedEvent, _connection: object) -> None:
        raise DatabaseUnavailableError("gone")

    with pytest.raises(DatabaseUnavailableError, match="gone"):
        deliver(make_event(1), handler=fail, database=Gone())


@pytest.mark.parametrize(
    "error",
    [
        DatabaseUnavailableError("gone"),
        ConnectionResetError(104, "reset"),
        psycopg2.DatabaseError("error with status PGRES_COPY_OUT and no message from the libpq"),
    ],
)
def test_a_connection_that_breaks_under_a_handler_is_our_own_databases(error: Exception) -> None:
    database = SpyDatabase()

    def fail(_event: RecordedEvent, _connection: object) -> None:
        database.became = TransactionState.LOST
        raise error

    with pytest.raises(DatabaseUnavailableError):
        deliver(make_event(1), handler=fail, database=database)


def test_a_bug_of_ours_is_not_taken_for_an_events_fault() -> None:
    database = SpyDatabase()
    database.commit_error = TypeError("'NoneType' object is not iterable")
    with pytest.raises(TypeError):
        deliver(make_event(1), database=database)
    assert database.steps[-1] == "rollback"


class BrokenBeforeCommit:
    """Somebody's own, which raises where the events are to be written."""

    @contextmanager
    def gathering(self, connection: Any) -> Iterator[Gathered]:
        yield self
        raise KeyError(connection)

    def caused_by(self, events: Sequence[RecordedEvent]) -> None:
        """Nothing is noted."""


def test_what_is_raised_by_who_writes_before_the_commit_is_the_events_fault_as_a_handlers_is() -> None:
    database = SpyDatabase()
    with pytest.raises(HandlerError, match=r"before the commit of OrderPlaced order/1 #1 \(a\) raised KeyError at"):
        deliver(make_event(1, event_id="a"), database=database, before_commit=BrokenBeforeCommit())
    assert database.committed.claims == set()


class RefusedBeforeCommit(BrokenBeforeCommit):
    """An outbox whose database refuses what the handlers added."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    @contextmanager
    def gathering(self, connection: Any) -> Iterator[Gathered]:
        yield self
        with translated_for_caller():
            raise self.error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (sqlite3.IntegrityError("not null"), ConsumerError),
        (psycopg.errors.NumericValueOutOfRange("x"), ConsumerError),
        (psycopg.errors.InFailedSqlTransaction("x"), TransactionAbortedError),
        (psycopg.errors.SerializationFailure("x"), TransactionConflictError),
        (psycopg.errors.QueryCanceled("x"), ConsumerError),
        (psycopg.errors.UndefinedTable("x"), TableNotFoundError),
        (DuplicateEventError("x"), HandlerError),
    ],
)
def test_what_an_outbox_cannot_write_before_the_commit_is_judged_by_what_the_driver_said(
    error: Exception, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as caught:
        deliver(make_event(1, event_id="a"), database=SpyDatabase(), before_commit=RefusedBeforeCommit(error))
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("error", "kind"), [(TimeoutError(), TransactionConflictError), (BrokenPipeError(), DatabaseUnavailableError)]
)
def test_an_answer_that_does_not_come_is_no_events_fault(error: Exception, kind: type[Exception]) -> None:
    database = SpyDatabase()
    database.commit_error = error
    with pytest.raises(kind):
        deliver(make_event(1), database=database)


def test_half_a_surrogate_pair_is_the_events_own_fault() -> None:
    database = SpyDatabase()
    try:
        "\ud800".encode()
    except UnicodeEncodeError as error:
        database.commit_error = error
    with pytest.raises(MessageError, match="surrogate"):
        deliver(make_event(1), database=database)


def test_metrics_are_told_after_the_transaction_and_cannot_undo_it() -> None:
    database, told = SpyDatabase(), list[str]()

    class Broken(MemoryMetrics):
        def measure(self, name: str, /, *values: float, **labels: str) -> None:
            told.append(f"{name} after {database.steps[-1]}")
            raise RuntimeError("the collector is gone")

    deliver(make_event(1), handler=noting(database), database=database, metrics=GuardedMetrics(Broken()))
    assert told == ["cdc_outbox_consumer_handler_seconds after commit"]

    def fail(_event: RecordedEvent, _connection: object) -> None:
        raise ValueError

    with pytest.raises(HandlerError):
        deliver(make_event(2, event_id="b"), handler=fail, database=database, metrics=GuardedMetrics(Broken()))
    assert len(told) == 2, "of a handler that failed, too"


@pytest.mark.parametrize("error_texts", [True, False])
def test_what_the_commit_refuses_is_told_with_the_event(*, error_texts: bool) -> None:
    database = SpyDatabase()
    database.commit_error = sqlite3.IntegrityError("Key (card)=(4711) is not present")
    text = r": Key \(card\)=\(4711\) is not present" if error_texts else ""
    with pytest.raises(
        ConsumerError, match=rf"OrderPlaced order/1 #1 \(a\) could not be applied: IntegrityError{text}$"
    ):
        deliver(make_event(1, event_id="a"), database=database, error_texts=error_texts)
    # The claims are left alone: whether a commit that was not answered took place, nobody here knows.
    assert database.steps == [*UNTIL_THE_HANDLER, *FROM_THE_HANDLER, "rollback"]


def test_even_an_interrupt_undoes_the_transaction() -> None:
    database = SpyDatabase()

    def interrupt(_event: RecordedEvent, _connection: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deliver(make_event(1), handler=interrupt, database=database)
    assert database.steps[-1] == "rollback"
