"""Whether failing handlers are the fault of their events, or of a system that is away."""

import asyncio
import http.client
import smtplib
import socket
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack

import asyncpg
import psycopg
import psycopg2
import pymysql
import pytest
import requests

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
from tests.support.patience import patience

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


def test_errors_that_name_no_host_are_never_alike() -> None:
    breaker = CircuitBreaker()
    assert not fail(breaker, map(str, range(100)), Cause("TimeoutError", "", ""))
    assert not breaker.is_open


def test_an_event_of_another_type_that_is_applied_proves_nothing_before_the_circuit_is_open_and_closes_it() -> None:
    breaker = CircuitBreaker()
    fail(breaker, "ab")
    breaker.succeeded(["Shipped"])
    assert fail(breaker, "c")
    breaker.succeeded([])
    assert breaker.is_open
    breaker.succeeded(["Shipped"])
    assert not breaker.is_open


def test_the_event_that_is_tried_closes_the_circuit_once_it_is_applied() -> None:
    breaker = CircuitBreaker()
    fail(breaker, "a", event_type="Shipped")
    assert fail(breaker, "bc")
    breaker.succeeded(["Reported"])
    assert not breaker.is_open
    assert not fail(breaker, "d"), "one of those before and this one are two"


def test_an_outage_that_changes_its_face_is_the_same_outage_and_one_of_another_host_is_not() -> None:
    breaker = CircuitBreaker()
    fail(breaker, "abc")
    assert fail(breaker, "c", AWAY._replace(code="57P03"))
    assert not fail(breaker, "c", AWAY._replace(host="db3"))
    assert not fail(breaker, "c", AWAY._replace(host=""))
    assert breaker.is_open
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
    assert cause_of(refused_by(port=1)) == Cause("OperationalError", "", "127.0.0.1:1")


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
            Cause("ConnectionRefusedError", "111", "10.0.0.7:5432"),
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


class NoAnswerError(Exception):
    """What a service raises of its own, with what led to it."""


def caused_by(error: BaseException, text: str) -> NoAnswerError:
    """Return a service's error that another one led to."""
    outer = NoAnswerError(text)
    outer.__cause__ = error
    return outer


async def open_stream(host: str, port: int) -> None:
    """Connect by asyncio."""
    await asyncio.open_connection(host, port)


async def connect_asyncpg(host: str, port: int) -> None:
    """Connect by asyncpg."""
    await asyncpg.connect(host=host, port=port, ssl=False)


CLIENTS: dict[str, Callable[[str, int], object]] = {
    "requests": lambda host, port: requests.get(f"http://{host}:{port}/hook", timeout=patience()),
    "urllib": lambda host, port: urllib.request.urlopen(f"http://{host}:{port}/hook", timeout=patience()),
    "http.client": lambda host, port: http.client.HTTPConnection(host, port, timeout=patience()).request(
        "POST", "/hook"
    ),
    "socket": lambda host, port: socket.create_connection((host, port), timeout=patience()),
    "smtplib": lambda host, port: smtplib.SMTP(host, port, timeout=patience()),
    "pymysql": lambda host, port: pymysql.connect(host=host, port=port, connect_timeout=2),
    "asyncio": lambda host, port: asyncio.run(open_stream(host, port)),
    "asyncpg": lambda host, port: asyncio.run(connect_asyncpg(host, port)),
    "psycopg": lambda host, port: psycopg.connect(host=host, port=port, connect_timeout=2),
    "psycopg2": lambda host, port: psycopg2.connect(host=host, port=port, connect_timeout=2),
}


def host_met(client: str, host: str, port: int) -> str:
    """Return what is read of the error of a client, and of one that it caused."""
    with pytest.raises(Exception, match=r".+") as caught:
        CLIENTS[client](host, port)
    cause = cause_of(caught.value)
    assert cause is not None
    assert cause_of(caused_by(caught.value, "posting at 'deliver' failed")) == cause
    return cause.host


@pytest.fixture
def closed_ports() -> Iterator[list[int]]:
    """Return ports of this host that refuse connections."""
    with ExitStack() as stack:
        bound = [stack.enter_context(socket.socket()) for _ in range(2)]
        for each in bound:
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in bound]


@pytest.mark.parametrize("client", CLIENTS)
def test_whatever_client_is_refused_its_error_has_the_host_and_the_port(client: str, closed_ports: list[int]) -> None:
    assert [host_met(client, "127.0.0.1", port) for port in closed_ports] == [
        f"127.0.0.1:{port}" for port in closed_ports
    ]


@pytest.mark.parametrize("client", CLIENTS)
def test_whatever_client_does_not_find_a_name_its_error_has_the_name(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    hosts = [host_met(client, name, 8443).partition(":")[0] for name in ("a.invalid", "b.invalid")]
    assert hosts == ["a.invalid", "b.invalid"]


def test_an_error_whose_text_only_looks_as_if_it_named_a_host_names_none() -> None:
    error = caused_by(TimeoutError("timed out"), "the delivery at 'step 2' on 'monday' failed")
    assert cause_of(error) == Cause("TimeoutError", "", "")


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ('connection to server on socket "/run/postgresql/.s.PGSQL.5432" failed', "/run/postgresql/.s.PGSQL.5432"),
        ('connection to server at "db2" (10.0.0.7), port 5433 failed: FATAL', "db2:5433"),
        ("Cannot connect to host hooks.example:8443 ssl:default [Connect call failed]", "hooks.example:8443"),
        ("Error 111 connecting to cache:6379. Connection refused.", "cache:6379"),
        ("HTTPSConnectionPool(host='hooks.example', port=443): Read timed out.", "hooks.example:443"),
        ("[Errno 111] Connect call failed ('::1', 5432, 0, 0)", "::1:5432"),
    ],
)
def test_the_host_and_the_port_are_read_from_texts_of_known_clients(text: str, host: str) -> None:
    assert cause_of(ConnectionError(text)) == Cause("ConnectionError", "", host)


def test_an_error_that_caused_itself_ends_the_search() -> None:
    first, second = ValueError(), ValueError()
    first.__cause__, second.__cause__ = second, first
    assert cause_of(first) is None
