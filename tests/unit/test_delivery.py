"""The order of steps, with a database in memory that writes down what it is asked."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from cdc_outbox.consumer.calls import BeforeCommit, Calls, Gathered
from cdc_outbox.consumer.delivery import Delivered, Delivery, Outcome
from cdc_outbox.consumer.epochs import Place, Tenure
from cdc_outbox.consumer.handlers import Handler, Handlers
from cdc_outbox.consumer.item import Item, unreadable
from cdc_outbox.consumer.ordering import Order
from cdc_outbox.consumer.park import Failure, Reason, State
from cdc_outbox.drivers import TransactionState
from cdc_outbox.drivers.immediate import finish
from cdc_outbox.errors import (
    ConsumerError,
    DatabaseUnavailableError,
    EventError,
    HandlerError,
    MessageError,
    ParkFullError,
    PartitionLostError,
    TransactionAbortedError,
    TransactionConflictError,
    TransactionEndedError,
    WatermarkMovedError,
)
from cdc_outbox.event import Event, SequenceMode
from cdc_outbox.message import Message
from cdc_outbox.metrics import GuardedMetrics, Metrics
from cdc_outbox.testing import MemoryDatabase, MemoryMetrics
from tests.unit.test_ordering import event

HOME = Place("orders", 0)
STEPS = {
    "begin": "begin",
    "claim": "claim",
    "find_stale": "fence",
    "find_marks": "look",
    "lock_marks": "lock",
    "add": "park",
    "release": "release",
    "remove": "unpark",
    "advance": "advance",
    "wake": "wake",
    "commit": "commit",
    "rollback": "rollback",
    "take_back": "take back",
}
"""What is written down, of the methods of a database and its stores; calls that do nothing are left out."""
UNTIL_THE_HANDLER = ["begin", "claim", "fence", "look"]
FROM_THE_HANDLER = ["advance", "fence", "commit"]
UNDONE = ["rollback", "begin", "take back", "commit"]
"""How a failure ends: with a look for claims that somebody committed by himself."""


class SpyDatabase(MemoryDatabase):
    """A database that writes down the steps, and that a handler can do things to."""

    def __init__(self) -> None:
        super().__init__()
        self.committed.epochs[HOME] = Tenure(1, 1)
        self.steps: list[str] = []
        self.within = False
        self.became: TransactionState | None = None
        self.commit_error: Exception | None = None

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in STEPS:
            return found

        async def spied(connection: Any, *arguments: Any) -> Any:
            if self.within:
                return await found(connection, *arguments)
            if not arguments or any(arguments):
                self.steps.append(STEPS[name])
            self.within = True
            try:
                return await found(connection, *arguments)
            finally:
                self.within = False

        return spied

    def state(self, connection: Any) -> TransactionState:
        return self.became or super().state(connection)

    async def commit(self, connection: Any) -> None:
        if self.commit_error:
            raise self.commit_error
        await super().commit(connection)


def item(one: Event, offset: int = 0, failure: Failure | None = None) -> Item:
    message = Message(topic=HOME.topic, partition=HOME.partition, offset=offset, key=b"1", value=b"{}")
    return Item(event=one, message=message, failure=failure)


def deliver(
    *items: Item | Event,
    handler: Handler | None = None,
    database: SpyDatabase | None = None,
    mode: SequenceMode = SequenceMode.GAPLESS,
    held: Mapping[Place, int] | None = None,
    room: int = 10,
    metrics: Metrics | None = None,
    before_commit: BeforeCommit | None = None,
) -> Delivered:
    database = database or SpyDatabase()
    handlers = Handlers()
    if handler:
        handlers.add(["OrderPlaced"], handler, takes_batch=False)
    delivery = Delivery(
        stores=database.stores,
        driver=database,
        calls=Calls(consumer="shop", driver=database, handlers=handlers, metrics=metrics, before_commit=before_commit),
        order_of=lambda _: Order(mode=mode),
    )
    wrapped = [item(one, place) if isinstance(one, Event) else one for place, one in enumerate(items)]
    return finish(delivery.apply(wrapped, None, held or {HOME: 1}, room))


def noting(database: SpyDatabase) -> Callable[[Event, Any], None]:
    return lambda _event, _connection: database.steps.append("handler")


def test_the_steps_come_in_the_one_order_that_is_safe() -> None:
    database = SpyDatabase()
    delivered = deliver(event(1), handler=noting(database), database=database)
    assert delivered.outcomes == [Outcome.APPLIED]
    assert database.steps == [*UNTIL_THE_HANDLER, "handler", *FROM_THE_HANDLER]


def test_a_type_without_a_handler_is_claimed_and_moves_the_watermark() -> None:
    database = SpyDatabase()
    assert deliver(event(1), database=database).outcomes == [Outcome.UNHANDLED]
    assert database.steps == [*UNTIL_THE_HANDLER, *FROM_THE_HANDLER]


def test_a_batch_is_one_transaction_and_a_duplicate_in_it_is_not_handled() -> None:
    handled: list[int | None] = []
    database = SpyDatabase()
    first, second = event(1, event_id="a"), event(2, event_id="b")
    delivered = deliver(first, first, second, handler=lambda e, _: handled.append(e.sequence), database=database)
    assert delivered.outcomes == [Outcome.APPLIED, Outcome.DUPLICATE, Outcome.APPLIED]
    assert handled == [1, 2]
    assert database.steps.count("commit") == 1


def test_what_is_set_aside_is_parked_under_the_lock_of_its_watermark_and_its_claim_given_back() -> None:
    database = SpyDatabase()
    delivered = deliver(event(3), database=database)
    assert delivered.outcomes == [Outcome.PARKED]
    assert delivered.parked == {Reason.GAP: 1}
    assert database.steps == [*UNTIL_THE_HANDLER, "lock", "park", "release", *FROM_THE_HANDLER]
    assert (database.committed.claims, [row.event.sequence for row in database.committed.rows.values()]) == (set(), [3])


def test_a_conflict_is_parked_and_its_neighbour_applied() -> None:
    delivered = deliver(event(1, event_id="a"), event(1, event_id="b"))
    assert delivered.outcomes == [Outcome.UNHANDLED, Outcome.PARKED]
    assert delivered.parked == {Reason.CONFLICT: 1}


def test_an_id_that_comes_twice_under_two_numbers_stays_claimed_by_the_first() -> None:
    database = SpyDatabase()
    delivered = deliver(event(1, event_id="a"), event(2, event_id="a"), database=database)
    assert delivered.outcomes == [Outcome.UNHANDLED, Outcome.PARKED]
    assert delivered.parked == {Reason.CONFLICT: 1}
    assert database.committed.claims == {"a"}


def test_what_waits_for_an_event_is_woken_after_its_watermark_moved() -> None:
    database = SpyDatabase()
    deliver(event(2, event_id="b"), event(3, event_id="c"), database=database)
    database.steps.clear()
    delivered = deliver(event(1, event_id="a"), handler=noting(database), database=database)
    assert delivered.woken == 1
    assert database.steps == [*UNTIL_THE_HANDLER, "lock", "handler", "advance", "wake", "fence", "commit"]


def test_what_comes_out_of_the_park_is_locked_before_anything_else_and_taken_out_with_its_effects() -> None:
    database = SpyDatabase()
    deliver(event(2, event_id="b"), database=database)
    deliver(event(1, event_id="a"), database=database)
    [row] = finish(database.find_due(None, [HOME], 10))
    database.steps.clear()
    redone = Item(event=event(2, event_id="b"), message=row.message, parked=row)
    assert deliver(redone, handler=noting(database), database=database).outcomes == [Outcome.APPLIED]
    assert database.steps == ["begin", "lock", "claim", "fence", "handler", "unpark", *FROM_THE_HANDLER]
    assert database.committed.rows == {}
    assert [mark.parked for mark in database.committed.marks.values()] == [0]


def test_a_failed_event_is_parked_instead_of_applied_and_those_behind_it_wait() -> None:
    database = SpyDatabase()
    poison = item(event(1, event_id="a"), failure=Failure(reason=Reason.FAILED, error="x", retry_seconds=5))
    delivered = deliver(poison, event(2, event_id="b"), handler=noting(database), database=database)
    assert delivered.outcomes == [Outcome.PARKED, Outcome.PARKED]
    assert delivered.parked == {Reason.FAILED: 1, Reason.GAP: 1}
    assert "handler" not in database.steps


def test_what_nobody_can_read_is_parked_without_a_claim() -> None:
    database = SpyDatabase()
    message = Message(topic=HOME.topic, partition=0, offset=7, key=None, value=b"?")
    delivered = deliver(unreadable(message, MessageError("what?")), event(1), database=database)
    assert delivered.outcomes == [Outcome.PARKED, Outcome.UNHANDLED]
    assert delivered.parked == {Reason.UNREADABLE: 1}
    assert database.committed.claims == {"new"}


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "taken-out-meanwhile"])
@pytest.mark.parametrize("mode", [SequenceMode.INCREASING, SequenceMode.NONE])
def test_what_is_parked_behind_one_that_cannot_be_read_any_more_waits_on(mode: SequenceMode, *, is_there: bool) -> None:
    database = SpyDatabase()
    failure = Failure(reason=Reason.FAILED, error="it failed", retry_seconds=0.0)
    deliver(item(event(1, event_id="a"), failure=failure), event(2, event_id="b"), database=database, mode=mode)
    first, second = finish(database.find_due(None, [HOME], 10))
    if not is_there:
        del database.committed.rows[first.place]
    database.committed.rows[second.place].retry_at = 0.0
    garbled = unreadable(first.message, MessageError("the contract is another one"), replace(first, is_due=is_there))
    behind = Item(event=event(2, event_id="b"), message=second.message, parked=replace(second, is_due=True))
    delivered = deliver(garbled, behind, handler=noting(database), database=database, mode=mode)
    if is_there:
        assert delivered.outcomes == [Outcome.PARKED, Outcome.PARKED]
        assert [row.parked.state for row in database.committed.rows.values()] == [State.DEAD, State.WAITING]
        assert [row.retry_at for row in database.committed.rows.values()] == [None, None], "until it is woken"
    else:
        assert delivered.outcomes == [Outcome.PARKED, Outcome.APPLIED]


def test_what_is_parked_before_one_that_cannot_be_read_any_more_is_applied() -> None:
    database, mode = SpyDatabase(), SequenceMode.INCREASING
    failure = Failure(reason=Reason.FAILED, error="it failed", retry_seconds=0.0)
    poison = item(event(1, event_id="a"), failure=failure)
    deliver(poison, event(2, event_id="b"), event(3, event_id="c"), database=database, mode=mode)
    rows = finish(database.find_due(None, [HOME], 10))
    items = [Item(event=event(1 + n, event_id="abc"[n]), message=row.message, parked=row) for n, row in enumerate(rows)]
    items[1] = unreadable(rows[1].message, MessageError("the contract is another one"), rows[1])
    delivered = deliver(*items, database=database, mode=mode)
    assert delivered.outcomes == [Outcome.UNHANDLED, Outcome.PARKED, Outcome.PARKED]


def test_no_more_is_parked_than_may_be() -> None:
    database = SpyDatabase()
    with pytest.raises(ParkFullError):
        deliver(event(3, event_id="a"), event(4, event_id="b"), database=database, room=1)
    assert database.committed.rows == {}


@pytest.mark.parametrize("looks", [1, 2])
def test_a_partition_that_was_given_to_another_is_noticed_at_the_beginning_and_at_the_end(looks: int) -> None:
    database = SpyDatabase()

    def take_away(_event: Event, _connection: object) -> None:
        database.now.epochs[HOME] = Tenure(2, 1)

    if looks == 1:
        take_away(event(1), None)
    with pytest.raises(PartitionLostError) as caught:
        deliver(event(1), handler=take_away, database=database)
    assert caught.value.places == (HOME,)
    assert database.steps.count("fence") == looks
    assert database.steps[-4:] == UNDONE
    assert database.committed.claims == set()


def test_a_watermark_that_moved_meanwhile_undoes_everything() -> None:
    database = SpyDatabase()

    def move(_event: Event, _connection: object) -> None:
        from cdc_outbox.consumer.ordering import Mark, aggregate_of

        database.now.marks[aggregate_of(event(1))] = Mark(1)

    with pytest.raises(WatermarkMovedError):
        deliver(event(1), handler=move, database=database)
    assert database.steps[-4:] == UNDONE


def test_a_failing_handler_is_named_without_the_payload_and_commits_nothing() -> None:
    database = SpyDatabase()

    def fail(_event: Event, _connection: object) -> None:
        raise ValueError("hunter2")

    with pytest.raises(
        HandlerError, match=r"OrderPlaced order/1 #1 \(new\) raised ValueError at test_delivery.py"
    ) as caught:
        deliver(event(1), handler=fail, database=database)
    assert "hunter2" not in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)
    assert database.steps == [*UNTIL_THE_HANDLER, *UNDONE]


def test_a_swallowed_sql_error_is_found_before_the_commit() -> None:
    database = SpyDatabase()

    def swallow(_event: Event, _connection: object) -> None:
        database.became = TransactionState.ABORTED

    with pytest.raises(TransactionAbortedError, match="swallowed an SQL error"):
        deliver(event(1), handler=swallow, database=database)
    assert database.steps == [*UNTIL_THE_HANDLER, *UNDONE]


def test_a_handler_that_ends_its_transaction_is_named_whatever_it_raises() -> None:
    for raised in (None, ValueError()):
        database = SpyDatabase()

        def end(_event: Event, _connection: object, raised: Exception | None = raised) -> None:
            database.became = TransactionState.ENDED  # noqa: B023 - called in this round
            if raised:
                raise raised

        with pytest.raises(TransactionEndedError, match=r"the handler of OrderPlaced order/1 #1 .* ended its"):
            deliver(event(1), handler=end, database=database)
        assert database.steps == [*UNTIL_THE_HANDLER, *UNDONE]


def test_a_connection_that_broke_in_the_handler_is_told_though_the_handler_swallowed_it() -> None:
    database = SpyDatabase()

    def swallow(_event: Event, _connection: object) -> None:
        database.became = TransactionState.LOST

    with pytest.raises(DatabaseUnavailableError):
        deliver(event(1), handler=swallow, database=database)
    assert database.steps == [*UNTIL_THE_HANDLER, "rollback"]


def test_one_of_our_errors_that_leaves_a_handler_is_retried_where_that_can_help() -> None:
    def lose(_event: Event, _connection: object) -> None:
        raise DatabaseUnavailableError("gone")

    def mistake(_event: Event, _connection: object) -> None:
        raise EventError("not JSON")

    with pytest.raises(DatabaseUnavailableError, match="gone"):
        deliver(event(1), handler=lose)
    with pytest.raises(HandlerError, match="raised EventError"):
        deliver(event(1), handler=mistake)


def test_a_bug_of_ours_is_not_taken_for_an_events_fault() -> None:
    database = SpyDatabase()
    database.commit_error = TypeError("'NoneType' object is not iterable")
    with pytest.raises(TypeError):
        deliver(event(1), database=database)
    assert database.steps[-1] == "rollback"


class BrokenBeforeCommit:
    """Somebody's own, which raises where the events are to be written."""

    @contextmanager
    def gathering(self, connection: Any) -> Iterator[Gathered]:
        yield self
        raise KeyError(connection)

    def caused_by(self, events: Sequence[Event]) -> None:
        """Nothing is noted."""


def test_what_is_raised_by_who_writes_before_the_commit_is_the_events_fault_as_a_handlers_is() -> None:
    database = SpyDatabase()
    with pytest.raises(HandlerError, match=r"before the commit of OrderPlaced order/1 #1 \(new\) raised KeyError at"):
        deliver(event(1), database=database, before_commit=BrokenBeforeCommit())
    assert database.committed.claims == set()


@pytest.mark.parametrize(
    ("error", "kind"), [(TimeoutError(), TransactionConflictError), (BrokenPipeError(), DatabaseUnavailableError)]
)
def test_an_answer_that_does_not_come_is_no_events_fault(error: Exception, kind: type[Exception]) -> None:
    database = SpyDatabase()
    database.commit_error = error
    with pytest.raises(kind):
        deliver(event(1), database=database)


def test_half_a_surrogate_pair_is_the_events_own_fault() -> None:
    database = SpyDatabase()
    try:
        "\ud800".encode()
    except UnicodeEncodeError as error:
        database.commit_error = error
    with pytest.raises(MessageError, match="surrogate"):
        deliver(event(1), database=database)


def test_metrics_are_told_after_the_transaction_and_cannot_undo_it() -> None:
    database, told = SpyDatabase(), list[str]()

    class Broken(MemoryMetrics):
        def measure(self, name: str, /, *values: float, **labels: str) -> None:
            told.append(f"{name} after {database.steps[-1]}")
            raise RuntimeError("the collector is gone")

    deliver(event(1), handler=noting(database), database=database, metrics=GuardedMetrics(Broken()))
    assert told == ["cdc_outbox_consumer_handler_seconds after commit"]

    def fail(_event: Event, _connection: object) -> None:
        raise ValueError

    with pytest.raises(HandlerError):
        deliver(event(2, event_id="b"), handler=fail, database=database, metrics=GuardedMetrics(Broken()))
    assert len(told) == 2, "of a handler that failed, too"


def test_what_the_commit_refuses_is_told_with_the_event_and_without_the_detail() -> None:
    database = SpyDatabase()
    database.commit_error = sqlite3.IntegrityError("Key (card)=(hunter2) is not present")
    with pytest.raises(ConsumerError, match=r"OrderPlaced order/1 #1 \(new\) could not be applied: IntegrityError$"):
        deliver(event(1), database=database)
    # The claims are left alone: whether a commit that was not answered took place, nobody here knows.
    assert database.steps == [*UNTIL_THE_HANDLER, *FROM_THE_HANDLER, "rollback"]


def test_even_an_interrupt_undoes_the_transaction() -> None:
    database = SpyDatabase()

    def interrupt(_event: Event, _connection: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deliver(event(1), handler=interrupt, database=database)
    assert database.steps[-1] == "rollback"
