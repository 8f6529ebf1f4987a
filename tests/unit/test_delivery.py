"""The order of steps, with a driver that writes down what it is asked."""

from typing import Any

import pytest

from cdc_outbox.consumer.delivery import Delivery, Handler, Outcome
from cdc_outbox.drivers import Parameters, Row, TransactionState
from cdc_outbox.errors import (
    ConsumerError,
    DatabaseUnavailableError,
    EventError,
    HandlerError,
    SequenceConflictError,
    SequenceGapError,
    TransactionAbortedError,
    TransactionEndedError,
)
from cdc_outbox.event import Event, SequenceMode
from cdc_outbox.sql import PYFORMAT
from cdc_outbox.table import Dialect
from cdc_outbox.testing import MemoryInbox
from tests.unit.test_ordering import event


class SpyDriver:
    """A driver without a database."""

    dialect = Dialect.POSTGRESQL
    style = PYFORMAT
    transaction_hint = ""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.now = TransactionState.OPEN
        self.commit_error: Exception | None = None

    def joins_transaction(self, connection: Any) -> bool:
        return True

    def fetch(self, connection: Any, sql: str, parameters: Parameters = None) -> list[Row]:
        return []

    def prepare(self, connection: Any, *, idle_seconds: float) -> None:
        self.steps.append("prepare")

    def begin(self, connection: Any) -> None:
        self.steps.append("begin")

    def state(self, connection: Any) -> TransactionState:
        return self.now

    def flush(self, connection: Any) -> None:
        self.steps.append("flush")

    def commit(self, connection: Any) -> None:
        self.steps.append("commit")
        if self.commit_error:
            raise self.commit_error

    def rollback(self, connection: Any) -> None:
        self.steps.append("rollback")


UNDONE = ["rollback", "begin", "take back", "commit"]
"""How a failure ends: with a look for claims that somebody committed by himself."""


class SpyInbox(MemoryInbox):
    def __init__(self, steps: list[str]) -> None:
        super().__init__()
        self._steps = steps

    def claim(self, connection: Any, event_ids: Any) -> Any:
        self._steps.append("claim")
        return super().claim(connection, event_ids)

    def find_watermarks(self, connection: Any, aggregates: Any) -> Any:
        self._steps.append("look")
        return super().find_watermarks(connection, aggregates)

    def advance(self, connection: Any, claims: Any, moves: Any) -> None:
        self._steps.append("advance")
        super().advance(connection, claims, moves)

    def take_back(self, connection: Any, claims: Any) -> bool:
        self._steps.append("take back")
        return super().take_back(connection, claims)


def deliver(*events: Event, handler: Handler | None = None, driver: SpyDriver | None = None) -> list[Outcome]:
    driver = driver or SpyDriver()
    handlers = {"OrderPlaced": handler} if handler else {}
    delivery = Delivery(
        inbox=SpyInbox(driver.steps), driver=driver, handlers=handlers, mode_of=lambda _: SequenceMode.GAPLESS
    )
    return delivery.apply(events, connection=None)


def test_the_steps_come_in_the_one_order_that_is_safe() -> None:
    driver = SpyDriver()
    outcomes = deliver(event(1), handler=lambda _event, _connection: driver.steps.append("handle"), driver=driver)
    assert outcomes == [Outcome.APPLIED]
    assert driver.steps == ["begin", "claim", "look", "handle", "advance", "commit"]


def test_a_type_without_a_handler_is_claimed_and_moves_the_watermark() -> None:
    driver = SpyDriver()
    assert deliver(event(1), driver=driver) == [Outcome.UNHANDLED]
    assert driver.steps == ["begin", "claim", "look", "advance", "commit"]


def test_a_batch_is_one_transaction_and_a_duplicate_in_it_is_not_handled() -> None:
    handled: list[int | None] = []
    driver = SpyDriver()
    first, second = event(1, event_id="a"), event(2, event_id="b")
    outcomes = deliver(first, first, second, handler=lambda e, _: handled.append(e.sequence), driver=driver)
    assert outcomes == [Outcome.APPLIED, Outcome.DUPLICATE, Outcome.APPLIED]
    assert handled == [1, 2]
    assert driver.steps.count("commit") == 1


def test_a_gap_names_what_is_missing_and_commits_nothing() -> None:
    driver = SpyDriver()
    with pytest.raises(SequenceGapError) as caught:
        deliver(event(3), driver=driver)
    assert (caught.value.expected, caught.value.actual) == (1, 3)
    assert driver.steps == ["begin", "claim", "look", *UNDONE]


def test_a_conflict_commits_nothing() -> None:
    driver = SpyDriver()
    with pytest.raises(SequenceConflictError):
        deliver(event(1, event_id="a"), event(1, event_id="b"), driver=driver)
    assert driver.steps == ["begin", "claim", "look", *UNDONE]


def test_a_failing_handler_is_named_without_the_payload_and_commits_nothing() -> None:
    driver = SpyDriver()

    def fail(_event: Event, _connection: object) -> None:
        raise ValueError("hunter2")

    with pytest.raises(
        HandlerError, match=r"OrderPlaced order/1 #1 \(new\) raised ValueError at test_delivery.py"
    ) as caught:
        deliver(event(1), handler=fail, driver=driver)
    assert "hunter2" not in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)
    assert driver.steps == ["begin", "claim", "look", *UNDONE]


def test_a_swallowed_sql_error_is_found_before_the_commit() -> None:
    driver = SpyDriver()

    def swallow(_event: Event, _connection: object) -> None:
        driver.now = TransactionState.ABORTED

    with pytest.raises(TransactionAbortedError, match="swallowed an SQL error"):
        deliver(event(1), handler=swallow, driver=driver)
    assert driver.steps == ["begin", "claim", "look", *UNDONE]


def test_a_handler_that_ends_its_transaction_is_named_whatever_it_raises() -> None:
    def end(_event: Event, _connection: object) -> None:
        driver.now = TransactionState.ENDED

    def end_and_raise(event: Event, connection: object) -> None:
        end(event, connection)
        raise ValueError

    for handler in (end, end_and_raise):
        driver = SpyDriver()
        with pytest.raises(TransactionEndedError, match=r"the handler of OrderPlaced order/1 #1 .* ended its"):
            deliver(event(1), handler=handler, driver=driver)
        assert driver.steps == ["begin", "claim", "look", *UNDONE]


def test_a_connection_that_broke_in_the_handler_is_told_though_the_handler_swallowed_it() -> None:
    driver = SpyDriver()

    def swallow(_event: Event, _connection: object) -> None:
        driver.now = TransactionState.LOST

    with pytest.raises(DatabaseUnavailableError):
        deliver(event(1), handler=swallow, driver=driver)
    assert driver.steps == ["begin", "claim", "look", "rollback"]


def test_one_of_our_errors_that_leaves_a_handler_is_retried_where_that_can_help() -> None:
    def lose(_event: Event, _connection: object) -> None:
        raise DatabaseUnavailableError("gone")

    def mistake(_event: Event, _connection: object) -> None:
        raise EventError("not JSON")

    with pytest.raises(DatabaseUnavailableError, match="gone"):
        deliver(event(1), handler=lose)
    with pytest.raises(HandlerError, match="raised EventError"):
        deliver(event(1), handler=mistake)


def test_what_the_commit_refuses_is_told_with_the_event_and_without_the_detail() -> None:
    driver = SpyDriver()
    driver.commit_error = LookupError("Key (card)=(hunter2) is not present")
    with pytest.raises(ConsumerError, match=r"OrderPlaced order/1 #1 \(new\) could not be applied: LookupError$"):
        deliver(event(1), driver=driver)
    # The claims are left alone: whether a commit that was not answered took place, nobody here knows.
    assert driver.steps == ["begin", "claim", "look", "advance", "commit", "rollback"]


def test_even_an_interrupt_undoes_the_transaction() -> None:
    driver = SpyDriver()

    def interrupt(_event: Event, _connection: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deliver(event(1), handler=interrupt, driver=driver)
    assert driver.steps[-1] == "rollback"
