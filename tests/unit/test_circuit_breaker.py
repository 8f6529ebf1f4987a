"""Whether failing handlers are the fault of their events, or of a system that is away."""

import socket
from collections.abc import Iterable

import psycopg
import pymysql
import pytest

from cdc_outbox.consumer.retries import Cause, CircuitBreaker, cause_of
from cdc_outbox.databases.drivers import translated_for_caller
from cdc_outbox.errors import (
    BrokerUnavailableError,
    DatabaseError,
    EventError,
    TableNotFoundError,
    TransactionConflictError,
    TransactionTimeoutError,
    WatermarkMovedError,
)
from cdc_outbox.event import RecordedEvent
from tests.support.events import make_event

AWAY = Cause("OperationalError", "08006", "db2")


def event(aggregate_id: str, event_type: str = "Reported") -> RecordedEvent:
    return make_event(1, aggregate_id, event_type=event_type)


def fail(breaker: CircuitBreaker, aggregates: Iterable[str], cause: Cause = AWAY, event_type: str = "Reported") -> bool:
    """Have an event of each of these aggregates fail, and return whether the circuit is open."""
    return [breaker.failed(event(aggregate, event_type), cause) for aggregate in aggregates][-1]


def test_the_third_aggregate_that_fails_alike_opens_the_circuit() -> None:
    breaker = CircuitBreaker()
    assert not fail(breaker, "ab")
    assert fail(breaker, "c")
    assert (breaker.is_open, breaker.cause) == (True, AWAY)


def test_one_aggregate_that_fails_again_and_again_does_not() -> None:
    assert not fail(CircuitBreaker(), ["a"] * 100)


@pytest.mark.parametrize("other", [AWAY._replace(host="db3"), AWAY._replace(code="53300"), AWAY._replace(kind="X")])
def test_what_fails_in_another_way_or_at_another_host_is_not_alike(other: Cause) -> None:
    breaker = CircuitBreaker()
    assert not fail(breaker, "ab")
    assert not fail(breaker, "cd", other)
    assert fail(breaker, "e")


def test_an_event_of_the_same_type_that_is_applied_acquits_the_system() -> None:
    breaker = CircuitBreaker()
    fail(breaker, "ab")
    breaker.succeeded(["Reported"])
    assert not fail(breaker, "cd")


def test_an_event_of_another_type_that_is_applied_proves_nothing() -> None:
    breaker = CircuitBreaker()
    fail(breaker, "ab")
    breaker.succeeded(["Shipped"])
    assert fail(breaker, "c")
    breaker.succeeded(["Shipped"])
    assert breaker.is_open


def test_the_event_that_is_tried_closes_the_circuit_once_it_is_applied() -> None:
    breaker = CircuitBreaker()
    fail(breaker, "a", event_type="Shipped")
    assert fail(breaker, "bc")
    breaker.succeeded(["Reported"])
    assert not breaker.is_open
    assert not fail(breaker, "d"), "one of those before and this one are two"


def test_an_outage_that_changes_its_face_is_the_same_outage() -> None:
    breaker = CircuitBreaker()
    fail(breaker, "abc")
    assert fail(breaker, "c", AWAY._replace(code="57P03"))
    breaker.succeeded(["Reported"])
    assert not breaker.is_open


def test_causes_that_are_new_each_time_are_forgotten() -> None:
    breaker = CircuitBreaker()
    for number in range(1000):
        fail(breaker, "a", AWAY._replace(code=str(number)))
    assert len(breaker._failed) <= 100


class ClientError(Exception):
    """What a client of HTTP raises of its own."""


def refused_by(*, port: int) -> psycopg.Error:
    """Return the error of a connection that no server accepts."""
    with pytest.raises(psycopg.OperationalError) as caught:
        psycopg.connect(f"host=127.0.0.1 port={port} dbname=x connect_timeout=2")
    return caught.value


def wrapped(error: Exception, *, explicitly: bool) -> Exception:
    """Return the error of a client that wraps another one."""
    try:
        try:
            raise error
        except Exception as inner:
            if explicitly:
                raise ClientError("cannot connect") from inner
            raise ClientError("cannot connect")  # noqa: B904 - as some clients do
    except ClientError as outer:
        return outer


def test_a_server_that_refuses_is_told_by_class_and_host() -> None:
    assert cause_of(refused_by(port=1)) == Cause("OperationalError", "", "127.0.0.1")


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (psycopg.errors.DiskFull(), Cause("DiskFull", "53100", "")),
        (psycopg.errors.LockNotAvailable(), Cause("LockNotAvailable", "55P03", "", is_conflict=True)),
        (psycopg.errors.DeadlockDetected(), Cause("DeadlockDetected", "40P01", "", is_conflict=True)),
        (
            pymysql.err.OperationalError(2003, "Can't connect to MySQL server on 'db2' ([Errno 111])"),
            Cause("OperationalError", "2003", "db2"),
        ),
        (
            ConnectionRefusedError(111, "Connect call failed ('10.0.0.7', 5432)"),
            Cause("ConnectionRefusedError", "111", "10.0.0.7"),
        ),
        (socket.gaierror(-2, "Name or service not known"), Cause("gaierror", "-2", "")),
        (TimeoutError("timed out"), Cause("TimeoutError", "", "")),
        (BrokerUnavailableError("no broker"), Cause("BrokerUnavailableError", "", "")),
        (wrapped(ConnectionResetError(104, "reset"), explicitly=True), Cause("ConnectionResetError", "104", "")),
        (wrapped(ConnectionResetError(104, "reset"), explicitly=False), Cause("ConnectionResetError", "104", "")),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_what_is_away_or_in_the_way_is_a_cause(error: Exception, cause: Cause) -> None:
    assert cause_of(error) == cause


@pytest.mark.parametrize(
    "error",
    [
        None,
        ValueError("bad"),
        FileNotFoundError(2, "no such file"),
        psycopg.errors.UniqueViolation(),
        psycopg.errors.UndefinedTable(),
        TableNotFoundError("x"),
        EventError("x"),
        WatermarkMovedError("x"),
        TransactionTimeoutError("it took longer than 60 s"),
    ],
)
def test_what_no_waiting_helps_against_is_none(error: Exception | None) -> None:
    assert cause_of(error) is None


@pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.SerializationFailure(),
        psycopg.errors.QueryCanceled(),
        psycopg.errors.UniqueViolation(),
        TimeoutError(),
        ConnectionResetError(104, "reset"),
    ],
)
def test_an_outbox_in_a_handler_is_judged_by_what_its_driver_said(error: Exception) -> None:
    with pytest.raises(DatabaseError) as caught, translated_for_caller():
        raise error
    assert bool(cause_of(caught.value)) == bool(cause_of(error))
    if isinstance(caught.value, TransactionConflictError):
        assert cause_of(caught.value) == cause_of(error)


def test_a_handler_that_took_too_long_for_us_has_itself_to_blame() -> None:
    error = TransactionTimeoutError("it took longer than 60 s")
    error.__cause__ = TimeoutError()
    assert cause_of(error) is None


def test_an_error_that_caused_itself_ends_the_search() -> None:
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    assert cause_of(first) is None
