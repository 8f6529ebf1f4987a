"""The order of steps, with a database in memory that writes down what it is asked."""

from dataclasses import replace

import pytest

from cdc_outbox.consumer.fencing import Assignment
from cdc_outbox.consumer.item import Item, Outcome, item_of, unreadable
from cdc_outbox.consumer.limits import Room
from cdc_outbox.consumer.parked_events import Failure, Reason, State
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.errors import MessageError, ParkFullError, PartitionLostError, WatermarkMovedError
from cdc_outbox.event import RecordedEvent, SequenceMode
from cdc_outbox.message import Message
from tests.support.delivery_rig import (
    FROM_THE_HANDLER,
    HOME,
    UNDONE,
    UNLESS_ALL_ARE_NEXT,
    UNTIL_THE_HANDLER,
    SpyDatabase,
    deliver,
    item,
    noting,
)
from tests.support.events import make_event


def test_the_steps_come_in_the_one_order_that_is_safe() -> None:
    database = SpyDatabase()
    delivered = deliver(make_event(1), handler=noting(database), database=database)
    assert delivered.outcomes == [Outcome.APPLIED]
    assert database.steps == [*UNTIL_THE_HANDLER, "handler", *FROM_THE_HANDLER]


def test_a_type_without_a_handler_is_claimed_and_moves_the_watermark() -> None:
    database = SpyDatabase()
    assert deliver(make_event(1), database=database).outcomes == [Outcome.UNHANDLED]
    assert database.steps == [*UNTIL_THE_HANDLER, *FROM_THE_HANDLER]


def test_a_batch_is_one_transaction_and_a_duplicate_in_it_is_not_handled() -> None:
    handled: list[int | None] = []
    database = SpyDatabase()
    first, second = make_event(1, event_id="a"), make_event(2, event_id="b")
    delivered = deliver(first, first, second, handler=lambda e, _: handled.append(e.sequence), database=database)
    assert delivered.outcomes == [Outcome.APPLIED, Outcome.DUPLICATE, Outcome.APPLIED]
    assert handled == [1, 2]
    assert database.steps.count("commit") == 1


def test_what_is_set_aside_is_parked_under_the_lock_of_its_watermark_and_its_claim_given_back() -> None:
    database = SpyDatabase()
    delivered = deliver(make_event(3), database=database)
    assert delivered.outcomes == [Outcome.PARKED]
    assert delivered.parked == {Reason.GAP: 1}
    assert database.steps == [*UNLESS_ALL_ARE_NEXT, "lock", "park", "release", *FROM_THE_HANDLER]
    assert (database.committed.claims, [row.event.sequence for row in database.committed.rows.values()]) == (set(), [3])


def test_a_conflict_is_parked_and_its_neighbour_applied() -> None:
    delivered = deliver(make_event(1, event_id="a"), make_event(1, event_id="b"))
    assert delivered.outcomes == [Outcome.UNHANDLED, Outcome.PARKED]
    assert delivered.parked == {Reason.CONFLICT: 1}


def test_what_comes_again_while_it_is_parked_is_a_duplicate() -> None:
    database = SpyDatabase()
    failing = Failure(reason=Reason.FAILED, error="it failed", retry_seconds=5)
    first, second = make_event(1, event_id="a"), make_event(2, event_id="b")
    deliver(item(first, failure=failing), second, database=database)
    delivered = deliver(first, second, make_event(3, event_id="c"), database=database)
    assert delivered.outcomes == [Outcome.DUPLICATE, Outcome.DUPLICATE, Outcome.PARKED]
    assert delivered.parked == {Reason.GAP: 1}


def test_an_id_that_comes_twice_under_two_numbers_stays_claimed_by_the_first() -> None:
    database = SpyDatabase()
    delivered = deliver(make_event(1, event_id="a"), make_event(2, event_id="a"), database=database)
    assert delivered.outcomes == [Outcome.UNHANDLED, Outcome.PARKED]
    assert delivered.parked == {Reason.CONFLICT: 1}
    assert database.committed.claims == {"a"}


def test_what_waits_for_an_event_is_woken_after_its_watermark_moved() -> None:
    database = SpyDatabase()
    deliver(make_event(2, event_id="b"), make_event(3, event_id="c"), database=database)
    database.steps.clear()
    delivered = deliver(make_event(1, event_id="a"), handler=noting(database), database=database)
    assert delivered.woken == 1
    until, after = [*UNLESS_ALL_ARE_NEXT, "lock"], ["advance", "wake", "store offsets", "commit"]
    assert database.steps == [*until, "handler", *after]


def test_what_comes_out_of_the_park_is_locked_before_anything_else_and_taken_out_with_its_effects() -> None:
    database = SpyDatabase()
    deliver(make_event(2, event_id="b"), database=database)
    deliver(make_event(1, event_id="a"), database=database)
    [row] = finish(database.find_due(None, [HOME], 10))
    database.steps.clear()
    redone = Item(event=make_event(2, event_id="b"), message=row.message, parked=row)
    assert deliver(redone, handler=noting(database), database=database).outcomes == [Outcome.APPLIED]
    assert database.steps == ["begin", "lock", "claim", "fence", "handler", "unpark", *FROM_THE_HANDLER]
    assert database.committed.rows == {}
    assert [mark.parked for mark in database.committed.watermarks.values()] == [0]


def test_a_failed_event_is_parked_instead_of_applied_and_those_behind_it_wait() -> None:
    database = SpyDatabase()
    poison = item(make_event(1, event_id="a"), failure=Failure(reason=Reason.FAILED, error="x", retry_seconds=5))
    delivered = deliver(poison, make_event(2, event_id="b"), handler=noting(database), database=database)
    assert delivered.outcomes == [Outcome.PARKED, Outcome.PARKED]
    assert delivered.parked == {Reason.FAILED: 1, Reason.GAP: 1}
    assert "handler" not in database.steps


def test_what_nobody_can_read_is_parked_without_a_claim() -> None:
    database = SpyDatabase()
    message = Message(topic=HOME.topic, partition=0, offset=7, key=None, value=b"?")
    delivered = deliver(unreadable(message, MessageError("what?")), make_event(1, event_id="a"), database=database)
    assert delivered.outcomes == [Outcome.PARKED, Outcome.UNHANDLED]
    assert delivered.parked == {Reason.UNREADABLE: 1}
    assert database.committed.claims == {"a"}


def test_one_message_of_another_producer_is_parked_for_all_of_its_partition() -> None:
    database, contract = SpyDatabase(), WireContract(aggregates={"order": SequenceMode.NONE}, topic=HOME.topic)
    theirs = [Message(topic=HOME.topic, partition=0, offset=7 + n, key=b"1", value=b"{}") for n in range(3)]
    first, *others = (item_of(message, contract) for message in theirs)
    delivered = deliver(first, others[0], make_event(1, event_id="a"), database=database)
    assert delivered.outcomes == [Outcome.PARKED, Outcome.PARKED, Outcome.UNHANDLED]
    assert delivered.parked == {Reason.UNREADABLE: 1}
    assert deliver(others[1], database=database).parked == {}
    [row] = database.committed.rows.values()
    assert (row.parked.message.offset, row.parked.blocks) == (7, False)


@pytest.mark.parametrize("is_there", [True, False], ids=["there", "taken-out-meanwhile"])
@pytest.mark.parametrize("mode", [SequenceMode.INCREASING, SequenceMode.NONE])
def test_what_is_parked_behind_one_that_cannot_be_read_any_more_waits_on(mode: SequenceMode, *, is_there: bool) -> None:
    database = SpyDatabase()
    failure = Failure(reason=Reason.FAILED, error="it failed", retry_seconds=0.0)
    deliver(
        item(make_event(1, event_id="a"), failure=failure), make_event(2, event_id="b"), database=database, mode=mode
    )
    first, second = finish(database.find_due(None, [HOME], 10))
    if not is_there:
        del database.committed.rows[first.parked_id]
    database.committed.rows[second.parked_id].retry_at = 0.0
    garbled = unreadable(first.message, MessageError("the contract is another one"), replace(first, is_due=is_there))
    behind = Item(event=make_event(2, event_id="b"), message=second.message, parked=replace(second, is_due=True))
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
    poison = item(make_event(1, event_id="a"), failure=failure)
    deliver(poison, make_event(2, event_id="b"), make_event(3, event_id="c"), database=database, mode=mode)
    rows = finish(database.find_due(None, [HOME], 10))
    items = [
        Item(event=make_event(1 + n, event_id="abc"[n]), message=row.message, parked=row) for n, row in enumerate(rows)
    ]
    items[1] = unreadable(rows[1].message, MessageError("the contract is another one"), rows[1])
    delivered = deliver(*items, database=database, mode=mode)
    assert delivered.outcomes == [Outcome.UNHANDLED, Outcome.PARKED, Outcome.PARKED]


@pytest.mark.parametrize(
    ("room", "limit"),
    [
        (Room(events=1), "max_parked_events"),
        (Room(bytes=3), "max_parked_bytes"),
        (Room(bytes=0), "max_parked_bytes"),
        (Room(bytes=-1), "max_parked_bytes"),
    ],
)
def test_no_more_is_parked_than_may_be(room: Room, limit: str) -> None:
    database = SpyDatabase()
    with pytest.raises(ParkFullError, match=f"{limit} is reached"):
        deliver(make_event(3, event_id="a"), make_event(4, event_id="b"), database=database, room=room)
    assert database.committed.rows == {}


def test_the_last_event_that_is_parked_may_have_more_bytes_than_there_is_room_for() -> None:
    delivered = deliver(make_event(3, event_id="a"), make_event(4, event_id="b"), room=Room(bytes=4))
    assert (delivered.parked, delivered.parked_bytes) == ({Reason.GAP: 2}, 2 * len(b"1{}"))


def test_what_is_parked_again_needs_no_room() -> None:
    database, message = SpyDatabase(), item(make_event(2)).message
    deliver(unreadable(message, MessageError("the contract is another one")), database=database)
    [row] = database.committed.rows.values()
    assert row.parked.reason is Reason.UNREADABLE
    retried = replace(row.parked, state=State.WAITING)
    readable = Item(event=make_event(2, event_id="b"), message=message, parked=retried)
    deliver(readable, database=database, room=Room(events=0, bytes=0))
    [row] = database.committed.rows.values()
    assert row.parked.reason is Reason.GAP


@pytest.mark.parametrize("looks", [1, 2])
def test_a_partition_that_was_given_to_another_is_noticed_at_the_beginning_and_at_the_end(looks: int) -> None:
    database = SpyDatabase()

    def take_away(_event: RecordedEvent, _connection: object) -> None:
        database.steps.append("handler")
        database.now.epochs[HOME] = Assignment(2, 1)

    if looks == 1:
        take_away(make_event(1), None)
        database.steps.clear()
    with pytest.raises(PartitionLostError) as caught:
        deliver(make_event(1), handler=take_away, database=database)
    assert caught.value.partitions == (HOME,)
    assert ("fence" in database.steps, "handler" in database.steps) == (looks == 1, looks == 2)
    assert database.steps.count("store offsets") == looks - 1
    assert database.committed.epochs[HOME].next_offset is None
    assert database.steps[-4:] == UNDONE
    assert database.committed.claims == set()


def test_a_watermark_that_moved_meanwhile_undoes_everything() -> None:
    database = SpyDatabase()

    def move(_event: RecordedEvent, _connection: object) -> None:
        from cdc_outbox.consumer.ordering import Watermark, aggregate_of

        database.now.watermarks[aggregate_of(make_event(1))] = Watermark(1)

    with pytest.raises(WatermarkMovedError):
        deliver(make_event(1), handler=move, database=database)
    assert database.steps[-4:] == UNDONE
