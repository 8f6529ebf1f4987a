"""What stays paused, and what does not."""

import math
import threading
import time
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from cdc_outbox.consumer.group import BackgroundPoller
from tests.support.patience import patience
from tests.support.rig import eventually
from tests.support.threads import Threads

JUST_NOW = math.inf
"""When a handler began, however late this is looked at."""

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
def kept(client: Any, **options: Any) -> Iterator[BackgroundPoller]:
    poller = BackgroundPoller(client, **options)
    try:
        yield poller
    finally:
        poller.end()


def test_partitions_that_were_paused_go_on_together() -> None:
    client = SpyClient()
    with kept(client) as poller:
        poller.pause(("t", 0))
        poller.pause(("t", 2))
        assert client.paused == {("t", 0), ("t", 2)}
        assert poller.resume_all() == {("t", 0)}
        assert poller.resume_all() == set()


def test_a_partition_that_comes_back_is_not_paused_any_more() -> None:
    client = SpyClient()
    with kept(client) as poller:
        poller.pause(("t", 0))
        poller.pause(("t", 1))
        poller.resume([("t", 0), ("t", 2)])
        assert client.paused == {("t", 1)}
        assert poller.paused_partitions == {("t", 1)}


def test_what_fails_while_it_polls_is_raised_by_the_next_poll_and_leaves_nothing_paused() -> None:
    class Broken(SpyClient):
        def poll(self, _seconds: float) -> None:
            raise LookupError("a callback of the user's")

    client: Any = Broken()
    with kept(client) as poller:
        with poller.busy():
            eventually(lambda: poller._failure, "the poller to fail")
        with pytest.raises(LookupError):
            poller.poll(0, 1)
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

    def key(self) -> bytes:
        return b"1"

    def value(self) -> bytes:
        return b"{}"

    def headers(self) -> None:
        return None

    def error(self) -> None:
        return None


def test_what_was_polled_before_its_partition_came_anew_is_dropped_though_the_rest_was_polled_after() -> None:
    renewed = ("t", 0)

    class Rebalanced(SpyClient):
        def poll(self, _seconds: float) -> Record:
            return Record(renewed, 7)

        def consume(self, _events: int, _seconds: float) -> list[Record]:
            dropped.append(poller.drop(renewed))  # as the callback does
            return [Record(renewed, 3)]

    dropped: list[list[int]] = []
    client: Any = Rebalanced()
    with kept(client) as poller:
        assert [record.offset() for record in poller.poll(0, 10)] == [3]
        assert dropped == [[7]]
        assert [record.offset() for record in poller.poll(0, 1)] == [7], "where nothing comes between"


def test_what_the_other_thread_polls_last_is_dropped_too() -> None:
    place, polls, may_return = ("t", 0), threading.Event(), threading.Event()

    class Slow(SpyClient):
        def poll(self, _seconds: float) -> Record:
            polls.set()
            may_return.wait(patience())
            return Record(place, 7)

    client: Any = Slow()
    with kept(client) as poller, Threads() as threads:
        with poller.busy():
            assert polls.wait(patience())
        dropping = threads.submit(poller.drop, place)
        wait([dropping], 0.1)  # which would be enough for one that waits for nobody
        may_return.set()
        assert dropping.result() == [7]


class CountingClient(SpyClient):
    """A client that counts its polls, and what it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.polls = 0
        self.paused_at_poll: list[Places] = []

    def poll(self, _seconds: float) -> None:
        self.polls += 1
        self.paused_at_poll.append(set(self.paused))


def test_a_handler_that_hangs_is_polled_for_no_more_and_the_next_handler_is(caplog: pytest.LogCaptureFixture) -> None:
    client, handler_at = CountingClient(), [JUST_NOW]
    client_: Any = client
    with kept(client_, limit_seconds=0.2, handler_at=lambda: handler_at[0]) as poller, poller.busy():
        eventually(lambda: client.polls > 0, "the first poll")
        handler_at[0] = 0
        eventually(lambda: caplog.records, "the poller to give the handler up")
        polls = client.polls
        # The next handler of the same transaction begins.
        handler_at[0] = JUST_NOW
        eventually(lambda: client.polls > polls, "the poller to poll again")
    assert [record.message for record in caplog.records] == [
        "a handler or a server takes too long; the partitions are left to other members"
    ]


def test_handlers_that_follow_each_other_are_polled_for_as_long_as_they_do(caplog: pytest.LogCaptureFixture) -> None:
    client: Any = CountingClient()
    with kept(client, limit_seconds=0.2, handler_at=lambda: JUST_NOW) as poller, poller.busy():
        eventually(lambda: client.polls > 0, "the first poll")
        began_at = time.monotonic()
        eventually(lambda: time.monotonic() - began_at > 0.5, "more than twice the limit to pass")
        polls = client.polls
        eventually(lambda: client.polls > polls, "the poller to go on")
    assert caplog.records == []


def test_what_follows_each_other_without_a_poll_is_polled_for_as_if_it_were_one() -> None:
    client: Any = CountingClient()
    with kept(client) as poller:
        poller.stay()

        def is_polled_for() -> bool:
            with poller.busy():  # for much less time than the poller's patience lasts
                return bool(eventually_polled(client, more_than=1, within_seconds=0.05))

        eventually(is_polled_for, "the poller to poll in one of many short transactions")


def test_what_cannot_hang_is_polled_for_beyond_the_limit(caplog: pytest.LogCaptureFixture) -> None:
    client: Any = CountingClient()
    with kept(client, limit_seconds=0.2) as poller, poller.busy(may_hang=False):
        eventually(lambda: client.polls > 0, "the first poll")
        began_at = time.monotonic()
        eventually(lambda: time.monotonic() - began_at > 0.5, "more than twice the limit to pass")
        polls = client.polls
        eventually(lambda: client.polls > polls, "the poller to go on")
    assert caplog.records == []


def eventually_polled(client: CountingClient, *, more_than: int, within_seconds: float) -> bool:
    until = time.monotonic() + within_seconds
    while client.polls <= more_than and time.monotonic() < until:
        time.sleep(0.005)
    return client.polls > more_than


def test_to_stay_in_the_group_nothing_is_taken() -> None:
    client: Any = CountingClient()
    with kept(client) as poller:
        poller.stay()
    assert client.paused_at_poll == [{("t", 0), ("t", 1)}]
    assert client.paused == set()


def test_no_more_is_polled_at_once_than_so_many_bytes() -> None:
    class Full(SpyClient):
        """A client that has all that is asked for."""

        def poll(self, _seconds: float) -> Record:
            return Record(("t", 0), 0)

        def consume(self, events: int, _seconds: float) -> list[Record]:
            return [Record(("t", 0), number) for number in range(1, events + 1)]

    client: Any = Full()
    with kept(client) as poller:
        assert len(poller.poll(0, 1000)) == 1000
        assert len(poller.poll(0, 1000, most_bytes=100)) == 51, "a portion of 50, of which each has three bytes"
        assert len(poller.poll(0, 1000, most_bytes=3)) == 1
