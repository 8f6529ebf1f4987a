"""How many events go into a transaction, and which."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from cdc_outbox.consumer.backlog import Backlog, BatchSize
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.item import Item
from cdc_outbox.message import Message
from tests.support.events import make_event


def item(number: int, partition: int = 0) -> Item:
    message = Message(topic="t", key=None, value=None, partition=partition, offset=number)
    return Item(event=make_event(number, event_id=str(number)), message=message)


def numbers(items: list[Item]) -> list[int | None]:
    return [one.event.sequence for one in items]


def backlog(*items: Item, most: int = 100) -> Backlog:
    made = Backlog(most)
    made.put(items)
    return made


def test_an_event_of_an_isolated_type_is_a_batch_of_its_own() -> None:
    items = [replace(item(n), event=make_event(n, event_type=kind)) for n, kind in enumerate("aaIaIIa")]
    made = Backlog(100, isolated={"I"})
    made.size.succeeded(100)
    made.put(items)
    assert [numbers(made.take()) for _ in range(6)] == [[0, 1], [2], [3], [4], [5], [6]]


def test_batches_grow_while_all_goes_well_up_to_the_limit() -> None:
    size, sizes = BatchSize(10), []
    for _ in range(6):
        sizes.append(size.next())
        size.succeeded(size.next())
    assert sizes == [1, 2, 4, 8, 10, 10]


def test_only_a_full_batch_shows_that_more_may_be_in_the_next() -> None:
    size = BatchSize(100)
    size.succeeded(4)
    for _ in range(10):
        size.succeeded(1)
    assert size.next() == 8


def test_no_more_are_in_a_batch_than_fit_into_the_time_at_the_pace_of_the_last_one() -> None:
    size = BatchSize(500, seconds=1.0)
    size.succeeded(8, seconds=0.8)
    assert size.next() == 10
    size.succeeded(10, seconds=10.0)
    assert size.next() == 1
    size.succeeded(1, seconds=60.0)
    assert size.next() == 1, "there is one at least"
    size.succeeded(1, seconds=0.001)
    assert size.next() == 2, "it grows again"


def test_a_conflict_halves_them_down_to_one() -> None:
    size = BatchSize(10)
    size.succeeded(5)
    sizes = []
    for _ in range(5):
        size.conflicted()
        sizes.append(size.next())
    assert sizes == [5, 2, 1, 1, 1]


def test_a_failed_batch_is_gone_through_one_by_one_and_then_they_are_as_large_as_before() -> None:
    size = BatchSize(10)
    size.succeeded(4)
    assert size.next() == 8
    size.failed(3)
    for _ in range(3):
        assert size.next() == 1
        size.succeeded(1)
    assert size.next() == 8


def test_a_batch_is_taken_from_the_head_in_order_and_what_is_put_back_comes_first() -> None:
    queue = backlog(*(item(number) for number in range(1, 6)))
    assert numbers(queue.take()) == [1]
    queue.size.succeeded(1)
    taken = queue.take()
    assert numbers(taken) == [2, 3]
    queue.put_back(taken)
    queue.size.succeeded(2)
    assert numbers(queue.take()) == [2, 3, 4, 5]
    assert len(queue) == 0


def sized(number: int, size: int) -> Item:
    one = item(number)
    return replace(one, message=replace(one.message, value=b"x" * size))


def test_a_batch_has_no_more_bytes_than_the_limit_unless_one_event_has_them() -> None:
    queue = Backlog(100, most_bytes=100)
    queue.size.succeeded(50)
    queue.put([sized(1, 60), sized(2, 40), sized(3, 1), sized(4, 500), sized(5, 1)])
    assert queue.bytes == 602
    assert [numbers(queue.take()) for _ in range(4)] == [[1, 2], [3], [4], [5]]


def test_the_bytes_at_hand_are_those_of_the_events_that_are_left() -> None:
    queue = Backlog(100, read)
    queue.size.succeeded(1)
    queue.put([sized(1, 10), sized(2, 20), sized(3, 30)])
    queue.put_unread(record(4))
    taken = queue.take(most=2)
    assert queue.bytes == 30, "what is not read yet does not count"
    queue.put_back(taken)
    assert queue.bytes == 60
    queue.drop_if(lambda one: one.event.sequence == 2)
    assert queue.bytes == 40
    queue.take({TopicPartition("t", 1)})
    assert queue.bytes == 0, "neither does what belongs to another consumer by now"
    queue.put([sized(5, 50)])
    queue.read_one()
    assert queue.drop(TopicPartition("t", 0)) == [5, 4]
    assert queue.bytes == 0


def test_what_belongs_to_somebody_else_by_now_is_left_out() -> None:
    queue = backlog(item(1, 1), item(2), item(3, 1), item(4))
    queue.size.succeeded(2)
    assert numbers(queue.take({TopicPartition("t", 0)})) == [2, 4]
    assert len(queue) == 0


def test_what_may_kill_has_a_transaction_of_its_own() -> None:
    queue = backlog(*(item(number) for number in range(1, 5)))
    queue.size.succeeded(4)
    taken = [numbers(queue.take(None, lambda one: one.event.sequence == 2)) for _ in range(3)]
    assert taken == [[1], [2], [3, 4]]


def test_a_partitions_events_can_be_dropped() -> None:
    queue = backlog(item(1, 1), item(2), item(3, 1))
    assert queue.drop(TopicPartition("t", 1)) == [1, 3]
    queue.size.succeeded(3)
    assert numbers(queue.take()) == [2]


def record(number: int, partition: int = 0) -> Any:
    return SimpleNamespace(topic=lambda: "t", partition=lambda: partition, offset=lambda: number)


def read(record: Any) -> Item:
    return item(record.offset(), record.partition())


def test_records_are_read_one_at_a_time_and_come_after_what_was_read() -> None:
    queue = Backlog(100, read)
    for number in range(1, 4):
        queue.put_unread(record(number))
    assert (len(queue), queue.unread) == (0, 3)
    assert queue.read_one()
    assert (len(queue), queue.unread) == (1, 2)
    queue.size.succeeded(50)
    assert numbers(queue.take()) == [1]
    assert queue.read_one()
    assert not queue.read_one()
    assert not queue.read_one()
    assert numbers(queue.take()) == [2, 3]


def test_what_was_not_read_is_dropped_with_its_partition_too() -> None:
    queue = Backlog(100, read)
    queue.put([item(1, 1), item(2)])
    queue.put_unread(record(3, 1))
    queue.put_unread(record(4))
    assert queue.waiting() == {TopicPartition("t", 0): 2, TopicPartition("t", 1): 2}
    assert queue.drop(TopicPartition("t", 1)) == [1, 3]
    queue.read_one()
    queue.size.succeeded(4)
    assert numbers(queue.take()) == [2, 4]


def test_headers_count_for_the_bytes_of_a_batch() -> None:
    queue = Backlog(100, most_bytes=100)
    queue.size.succeeded(50)
    one = sized(1, 40)
    headers = (("ü" * 10, b"x" * 30), ("null", None))
    queue.put([replace(one, message=replace(one.message, headers=headers)), sized(2, 6), sized(3, 1)])
    assert queue.bytes == 40 + 20 + 30 + 4 + 6 + 1
    assert [numbers(queue.take()) for _ in range(2)] == [[1, 2], [3]]
