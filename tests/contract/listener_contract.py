"""What a driver does with SQLAlchemy's listeners, which run in the midst of a commit of ours.

Not collected itself: see ``test_driver_sqlalchemy.py`` and ``test_consumer_drivers.py``.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import text
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Session

from cdc_outbox.consumer import RecordedEvent
from cdc_outbox.databases.drivers.listeners import ListenerError
from cdc_outbox.errors import TransactionAbortedError, TransactionEndedError
from tests.support.driver_clients import Client
from tests.support.events import make_event
from tests.support.rig import eventually

LOGGED = "callback failed after the commit"


@contextmanager
def listening(name: str, listener: Callable[..., object]) -> Iterator[None]:
    """Have every session call a listener."""
    sqlalchemy_event.listen(Session, name, listener)
    try:
        yield
    finally:
        sqlalchemy_event.remove(Session, name, listener)


def fail(*_: object) -> None:
    raise OSError("the broker of the tasks is away")


class ListenerContract:
    """What every driver below them does."""

    @pytest.mark.parametrize("name", ["before_commit", "before_flush"])
    def test_what_a_listener_raises_before_the_commit_undoes_the_transaction(self, client: Client, name: str) -> None:
        client.begin()
        client.fetch("insert into t values (60)")
        # SQLAlchemy flushes only what there is.
        add = (lambda _: None) if name == "before_commit" else (lambda session: session.add(self.row(61)))
        with listening("before_commit", add), listening(name, fail), pytest.raises(ListenerError) as caught:
            client.commit()
        assert str(caught.value) == "a listener raised OSError before the commit"
        assert isinstance(caught.value.__cause__, OSError)
        client.rollback()
        assert (client.rows(60), client.rows(61)) == ([], [])
        client.begin()
        client.commit()

    def row(self, number: int) -> object:
        raise NotImplementedError

    @pytest.mark.parametrize("name", ["after_commit", "after_transaction_end"])
    def test_what_a_listener_raises_after_the_commit_is_logged_with_the_events(
        self, client: Client, caplog: pytest.LogCaptureFixture, name: str
    ) -> None:
        client.begin()
        client.fetch("insert into t values (62)")
        driver = getattr(client.driver, "direct", client.driver)
        for number in range(1, 6):
            driver.handled(client.connection, [make_event(number, "a")])
        with listening(name, fail), caplog.at_level(logging.ERROR, "cdc_outbox"):
            client.commit()
        [record] = caplog.records
        assert (record.message, vars(record)["reason"]) == (LOGGED, "OSError")
        assert "OrderPlaced order/a #1 (" in vars(record)["events"]
        assert "and 2 more" in vars(record)["events"]
        assert client.rows(62) == [(62,)]
        client.begin()
        client.fetch("delete from t where a = 62")
        client.commit()

    def test_a_listener_that_ends_the_transaction_itself_is_noticed(self, client: Client) -> None:
        client.begin()
        client.fetch("insert into t values (64)")
        end: Callable[[Any], object] = lambda session: session.connection().get_transaction().rollback()  # noqa: E731
        with listening("before_commit", end), pytest.raises((TransactionEndedError, InvalidRequestError)):
            client.commit()
        client.rollback()
        assert client.rows(64) == []


class AbortedListenerContract(ListenerContract):
    """Where nothing can be committed after a statement failed."""

    def test_a_listener_that_swallows_an_sql_error_leaves_nothing_to_commit(self, client: Client) -> None:
        def swallow(session: Session) -> None:
            with pytest.raises(Exception, match="nowhere"):
                session.connection().execute(text("select 1 from nowhere"))

        client.begin()
        client.fetch("insert into t values (63)")
        with listening("before_commit", swallow), pytest.raises(TransactionAbortedError):
            client.commit()
        client.rollback()
        assert client.rows(63) == []


class ListeningConsumerContract:
    """What a consumer does with them; its base is a ``ConsumerContract``."""

    def test_listeners_that_raise_stop_nothing(self, service: Any, caplog: pytest.LogCaptureFixture) -> None:
        async def apply(event: RecordedEvent, connection: Any) -> None:
            await service.apply_effect(event, connection)
            session = getattr(connection, "sync_session", connection)
            session.info.setdefault("handled", set()).add(event.aggregate_id)

        def refuse(session: Session) -> None:
            if "poison" in session.info.pop("handled", ()):
                fail()

        service.send(*(make_event(1, aggregate) for aggregate in ("a", "poison", "b", "c")))
        with (
            listening("before_commit", refuse),
            listening("after_commit", fail),
            caplog.at_level(logging.ERROR, "cdc_outbox"),
            service.running(service.consumer({"OrderPlaced": apply})),
        ):
            eventually(lambda: service.ledger.parked() and len(service.ledger.applied()) == 3, "the others")
        assert service.ledger.applied() == {"a": [1], "b": [1], "c": [1]}
        assert service.ledger.parked() == [("poison", 1, "failed")]
        logged = [vars(record).get("events", "") for record in caplog.records if record.message == LOGGED]
        assert {aggregate for aggregate in "abc" if any(f"/{aggregate}" in each for each in logged)} == {*"abc"}
