"""What stays paused, and what does not."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from cdc_outbox.consumer.keeper import Keeper
from tests.support.rig import eventually

Places = set[tuple[str, int]]


class SpyClient:
    """A client that keeps a partition paused until it is resumed, whoever has it, as librdkafka does."""

    def __init__(self) -> None:
        self.paused: Places = set()

    def pause(self, partitions: list[TopicPartition]) -> None:
        self.paused |= {(place.topic, place.partition) for place in partitions}

    def resume(self, partitions: list[TopicPartition]) -> None:
        self.paused -= {(place.topic, place.partition) for place in partitions}

    def assignment(self) -> list[TopicPartition]:
        return [TopicPartition("t", 0), TopicPartition("t", 1)]


@contextmanager
def kept(client: Any) -> Iterator[Keeper]:
    keeper = Keeper(client)
    try:
        yield keeper
    finally:
        keeper.end()


def test_partitions_that_were_paused_go_on_together() -> None:
    client = SpyClient()
    with kept(client) as keeper:
        keeper.pause(("t", 0))
        keeper.pause(("t", 2))
        assert client.paused == {("t", 0), ("t", 2)}
        assert keeper.resume_all() == {("t", 0)}
        assert keeper.resume_all() == set()


def test_a_partition_that_comes_back_is_not_paused_any_more() -> None:
    client = SpyClient()
    with kept(client) as keeper:
        keeper.pause(("t", 0))
        keeper.pause(("t", 1))
        keeper.resume([("t", 0), ("t", 2)])
        assert client.paused == {("t", 1)}
        assert keeper.paused_places == {("t", 1)}


def test_what_fails_while_it_polls_is_raised_by_the_next_poll_and_leaves_nothing_paused() -> None:
    class Broken(SpyClient):
        def poll(self, _seconds: float) -> None:
            raise LookupError("a callback of the user's")

    client: Any = Broken()
    with kept(client) as keeper:
        with keeper.busy():
            eventually(lambda: keeper._failure, "the keeper to fail")
        with pytest.raises(LookupError):
            keeper.poll(0, 1)
        assert client.paused == set()


@dataclass
class Record:
    """A message as librdkafka gives it."""

    place: tuple[str, int]
    number: int

    def topic(self) -> str:
        return self.place[0]

    def partition(self) -> int:
        return self.place[1]

    def offset(self) -> int:
        return self.number

    def error(self) -> None:
        return None


def test_what_was_polled_before_its_partition_came_anew_is_dropped_though_the_rest_was_polled_after() -> None:
    renewed = ("t", 0)

    class Rebalanced(SpyClient):
        def poll(self, _seconds: float) -> Record:
            return Record(renewed, 7)

        def consume(self, _events: int, _seconds: float) -> list[Record]:
            dropped.append(keeper.drop(renewed))  # as the callback does
            return [Record(renewed, 3)]

    dropped: list[list[int]] = []
    client: Any = Rebalanced()
    with kept(client) as keeper:
        assert [record.offset() for record in keeper.poll(0, 10)] == [3]
        assert dropped == [[7]]
        assert [record.offset() for record in keeper.poll(0, 1)] == [7], "where nothing comes between"


def test_what_the_other_thread_polls_last_is_dropped_too() -> None:
    place, polls, may_return = ("t", 0), threading.Event(), threading.Event()

    class Slow(SpyClient):
        def poll(self, _seconds: float) -> Record:
            polls.set()
            may_return.wait(10)
            return Record(place, 7)

    client: Any = Slow()
    dropped: list[list[int]] = []
    with kept(client) as keeper:
        with keeper.busy():
            assert polls.wait(10)
        dropping = threading.Thread(target=lambda: dropped.append(keeper.drop(place)))
        dropping.start()
        dropping.join(0.1)  # which would be enough for one that waits for nobody
        may_return.set()
        dropping.join(10)
    assert dropped == [[7]]
