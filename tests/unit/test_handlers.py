"""Which handler an event goes to, and with which others."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import psycopg
import pytest

from cdc_outbox.consumer import Consumer, RecordedEvent, SequenceMode, WireContract
from cdc_outbox.consumer.handlers import Handlers
from cdc_outbox.consumer.item import Item
from cdc_outbox.errors import ConfigError
from cdc_outbox.message import Message
from tests.support.events import make_event

CONTRACT = WireContract(aggregates={"order": SequenceMode.GAPLESS})


def handler(_event: Any, _connection: Any) -> None:
    """Do nothing."""


async def coroutine(_event: Any, _connection: Any) -> None:
    """Do nothing."""


def test_neighbours_of_a_batch_handler_are_one_call_and_all_others_are_calls_of_their_own() -> None:
    handlers = Handlers()
    handlers.add(["A", "B"], handler, takes_batch=True)
    handlers.add(["C"], handler, takes_batch=False)
    kinds = "ABACCxAxxBC"
    events = [replace(make_event(number), id=str(number), type=kind) for number, kind in enumerate(kinds)]
    message = Message(topic="orders", partition=0, offset=0, key=None, value=None)
    items = [Item(event=one, message=message) for one in events]
    runs = ["".join(one.event.type for one in run) for _, run in handlers.runs(items)]
    assert runs == ["ABA", "C", "C", "A", "B", "C"]


@pytest.mark.parametrize(
    ("types", "call", "reason"),
    [
        (["A"], handler, "'A' already has a handler"),
        (["B"], coroutine, "coroutine is a coroutine function, which Consumer does not await"),
    ],
)
def test_what_cannot_be_registered_is_refused(types: list[str], call: Any, reason: str) -> None:
    handlers = Handlers()
    handlers.add(["A"], handler, takes_batch=False)
    with pytest.raises(ConfigError, match=reason):
        handlers.add(types, call, takes_batch=False)


@pytest.mark.parametrize(
    ("types", "reason"), [((), "at least one event type"), ((handler,), "event types of a handler must be str")]
)
def test_event_types_are_checked_before_there_is_a_handler(types: tuple[Any, ...], reason: str) -> None:
    consumer: Consumer[Any] = Consumer(name="s", contract=CONTRACT, kafka={"bootstrap.servers": "x:1"}, database=print)
    for decorator in (consumer.on, consumer.on_batch):
        with pytest.raises(ConfigError, match=reason):
            decorator(*types)


class Callable:
    """Something with a method that takes what a handler takes."""

    def __call__(self, _event: Any, connection: Any = None, *, times: int = 1) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    "call",
    [handler, Callable(), partial(Callable(), times=2), lambda *_: None, print],
    ids=["function", "object", "partial", "any", "builtin"],
)
def test_whatever_takes_an_event_and_a_connection_is_a_handler(call: Any) -> None:
    Handlers().add(["A"], call, takes_batch=False)


@pytest.mark.parametrize(
    "call",
    [lambda _event: None, lambda _event, _connection, _more: None, lambda _event, *, connection: connection],
    ids=["one", "three", "keyword"],
)
@pytest.mark.parametrize("takes_batch", [True, False])
def test_what_cannot_be_called_as_a_handler_is_refused_before_there_is_an_event(
    call: Any, *, takes_batch: bool
) -> None:
    with pytest.raises(ConfigError, match=r"must accept (an event|events) and a connection"):
        Handlers().add(["A"], call, takes_batch=takes_batch)


def test_where_somebody_awaits_them_coroutine_functions_are_taken() -> None:
    handlers = Handlers(asynchronous=True)
    assert not handlers
    handlers.add(["A"], coroutine, takes_batch=False)
    assert handlers
    assert handlers.get("A")
    assert handlers.get("B") is None


def test_a_handler_takes_the_connection_that_connect_returns() -> None:
    """Type checkers know: they would report the comment below if what it hides were no error."""
    consumer = Consumer(
        name="shipping", contract=CONTRACT, kafka="nowhere", database=lambda: sqlite3.connect(":memory:")
    )

    @consumer.on("A")
    def right(event: RecordedEvent, connection: sqlite3.Connection) -> int:
        return len(connection.execute("select 1", event.payload).fetchall())

    @consumer.on("B")  # type: ignore[arg-type]
    def wrong(_event: RecordedEvent, _connection: psycopg.Connection) -> None:
        """Do nothing."""

    with closing(sqlite3.connect(":memory:")) as connection:
        assert right(replace(make_event(1), payload=()), connection) == 1
