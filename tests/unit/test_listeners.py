"""What frameworks call around a commit of ours."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.orm import Session

from cdc_outbox.consumer import Retry
from cdc_outbox.consumer.failures import error_of
from cdc_outbox.databases.drivers import find_transaction_driver
from cdc_outbox.databases.drivers.listeners import AfterCommit, ListenerError
from cdc_outbox.errors import HandlerError
from tests.support.events import make_event


def fail(*_: object) -> None:
    raise OSError("the broker of the tasks is away")


@contextmanager
def committing(listener: str, call: Callable[..., object]) -> Iterator[tuple[Any, Session]]:
    session = Session(create_engine("sqlite://"))
    event.listen(session, listener, call)
    driver = find_transaction_driver(session)
    driver.begin(session)
    session.execute(text("create table t (a int)"))
    yield driver, session
    driver.rollback(session)
    session.close()


def test_what_raises_before_the_commit_is_the_failure_of_the_event() -> None:
    with committing("before_commit", fail) as (driver, session), pytest.raises(ListenerError) as caught:
        driver.commit(session)
    told = error_of(caught.value, [make_event(1, "a")], lambda error: f": {error}")
    assert isinstance(told, HandlerError)
    assert "a listener raised OSError before the commit of OrderPlaced order/a #1 (" in str(told)
    assert str(told).endswith(": the broker of the tasks is away")


def test_such_a_failure_may_be_one_that_is_parked_at_once() -> None:
    with committing("before_commit", fail) as (driver, session), pytest.raises(ListenerError) as caught:
        driver.commit(session)
    assert Retry(park_at_once=(OSError,)).is_hopeless(caught.value)
    assert not Retry(park_at_once=(LookupError,)).is_hopeless(caught.value)


def test_what_raises_after_the_commit_is_logged_with_its_event(caplog: pytest.LogCaptureFixture) -> None:
    with committing("after_commit", fail) as (driver, session), caplog.at_level(logging.ERROR, "cdc_outbox"):
        driver.handled(session, [make_event(1, "a")])
        driver.commit(session)
    [record] = caplog.records
    assert vars(record)["events"].startswith("OrderPlaced order/a #1 (")


def test_an_interruption_of_a_callback_is_no_failure_of_its_event() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        AfterCommit(interrupt, ())()
