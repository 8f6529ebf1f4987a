"""A consumer's loop over databases that refuse it, by a clock that nobody waits for."""

import time
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from cdc_outbox.consumer import Limits, loop, offsets
from cdc_outbox.consumer import group as group_module
from cdc_outbox.consumer.delivery import Delivered
from cdc_outbox.consumer.fencing import Assignment, TopicId, TopicPartition
from cdc_outbox.consumer.group import BackgroundPoller
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.start_offsets import PartitionOffsets
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.errors import (
    BrokerUnavailableError,
    DatabaseUnavailableError,
    NoHandlerError,
    PartitionLostError,
    TopicReplacedError,
)
from fuzz.consumer_group import Group
from fuzz.consumer_world import ModelPoller
from tests.support.loop_rig import OUTAGE_SECONDS, PLACE, ClockWaits, OnePartitionEach, Second, append, consume, rig
from tests.support.patience import patience

EVENTS = 20_000


@pytest.fixture
def second(monkeypatch: pytest.MonkeyPatch) -> Second:
    made = Second()
    for module in (loop, offsets):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=made.monotonic))
    return made


def test_two_hours_without_a_second_database_leave_no_dead_event_of_twenty_thousand(second: Second) -> None:
    consume(second, EVENTS, aggregates=EVENTS, until=OUTAGE_SECONDS + 60)
    assert (second.dead, len(second.rows)) == (0, 0)
    assert len(second.applied) == len(set(second.applied)) == EVENTS
    assert second.most_attempts == 1, "the outage counted as failures of the events that met it first"
    assert 1000 < second.attempts < 4000, "it was not probed every few seconds"


def test_two_hours_leave_no_dead_event_where_too_few_aggregates_fail_to_tell_an_outage(second: Second) -> None:
    consume(second, 2, aggregates=2, until=OUTAGE_SECONDS + 900)
    assert (second.dead, len(second.rows), len(second.applied)) == (0, 0, 2)


def test_an_event_that_fails_for_three_hours_is_dead_after_all(second: Second) -> None:
    second.back_at = 3.1 * 3600
    consume(second, 1, aggregates=1, until=second.back_at)
    assert second.dead == 1


class Fenced(Second):
    """A database that gives the partition to another consumer while a batch of eight is at work."""

    async def apply(self, items: Sequence[Item], *arguments: Any, stored: Mapping[TopicPartition, int]) -> Delivered:
        if len(items) == 8 and 8 not in self.sizes:
            self.sizes.append(8)
            raise PartitionLostError("belongs to another consumer now", partitions=(PLACE,))
        return await super().apply(items, *arguments, stored=stored)


def test_a_batch_whose_partition_was_lost_comes_again_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    second = Fenced(back_at=0)
    for module in (loop, offsets):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=second.monotonic))
    consume(second, 30, aggregates=1, until=60)
    assert second.sizes[:6] == [1, 2, 4, 8, 4, 8]
    assert len(second.applied) == 30


class Slow(Second):
    """A database whose handlers take half a second for each event."""

    async def apply(self, items: Sequence[Item], *arguments: Any, stored: Mapping[TopicPartition, int]) -> Delivered:
        self.clock += 0.5 * len(items)
        return await super().apply(items, *arguments, stored=stored)


def test_slow_handlers_have_batches_that_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    second = Slow(back_at=0)
    for module in (loop, offsets):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=second.monotonic))
    consume(second, 100, aggregates=1, until=120)
    assert len(second.applied) == 100
    assert 4 < max(second.sizes) * 0.5 <= Limits().batch_seconds


class Waiting(Second):
    """A database whose consumer has nothing but events without a handler; others come in the middle of an hour."""

    async def apply(self, items: Sequence[Item], *arguments: Any, stored: Mapping[TopicPartition, int]) -> Delivered:
        if self.clock < self.back_at:
            self.attempts += 1
            raise NoHandlerError("in the topics: Charged" if self.clock < self.back_at / 2 else "Charged, Opened")
        return await super().apply(items, *arguments, stored=stored)


def test_what_has_no_handler_is_logged_once_and_not_at_every_try(caplog: pytest.LogCaptureFixture) -> None:
    waiting = Waiting(back_at=3600)
    consume(waiting, 2, aggregates=1, until=3700)
    assert (len(waiting.applied), waiting.attempts > 500) == (2, True)
    told = [vars(record)["reason"] for record in caplog.records if record.message == "will be tried again"]
    assert told == ["in the topics: Charged", "Charged, Opened"]


class Away(Second):
    """A database that takes long for one step: until the client was polled, or for longer than a group may wait.

    Args:
        step: The session's method that takes so long, the first time that it is called.
    """

    def __init__(self, step: str) -> None:
        super().__init__(back_at=0, clock=1.0)
        self.step: str | None = step
        self.is_polled = False
        self.polls: Sequence[float] = ()

    def waits(self, step: str) -> None:
        if step == self.step:
            self.step, polls, until = None, len(self.polls), time.monotonic() + patience()
            while len(self.polls) == polls and time.monotonic() < until:
                time.sleep(0.01)
            self.is_polled = len(self.polls) > polls

    async def open(self) -> None:
        self.waits("open")

    async def close(self) -> None:
        self.waits("close")

    async def compare(self, held: Mapping[TopicPartition, int], stored: Mapping[TopicPartition, int]) -> bool:
        self.waits("compare")
        return await super().compare(held, stored)

    async def issue(
        self, places: Iterable[TopicPartition], topic_ids: Mapping[str, TopicId]
    ) -> Mapping[TopicPartition, Assignment]:
        self.waits("issue")
        return await super().issue(places, topic_ids)

    async def finish(self, held: Mapping[TopicPartition, int]) -> None:
        self.waits("finish")

    async def find_parked_partitions(self) -> set[TopicPartition]:
        self.waits("find_parked_places")
        return await super().find_parked_partitions()

    async def find_due(self, owned: Iterable[TopicPartition], limit: int, most_bytes: float, *, counts: bool) -> Any:
        self.waits("find_due")
        if self.step in {"close", "sleep"}:
            raise DatabaseUnavailableError("terminating connection")
        return await super().find_due(owned, limit, most_bytes, counts=counts)

    async def apply(self, items: Sequence[Item], *arguments: Any, stored: Mapping[TopicPartition, int]) -> Delivered:
        self.waits("apply")
        return await super().apply(items, *arguments, stored=stored)


class _Replaced(OnePartitionEach):
    """Brokers that tell of a topic when its partition is taken, and afterwards of another one or nothing."""

    def __init__(self, then: TopicId | BrokerUnavailableError) -> None:
        self._then = then
        self.asked = 0

    def find(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, PartitionOffsets]:
        self.asked += 1
        if self.asked > 1 and isinstance(self._then, BrokerUnavailableError):
            raise self._then
        found = self._then if self.asked > 1 and isinstance(self._then, TopicId) else TopicId("here", "first")
        return {place: PartitionOffsets(found, 0, 0, None) for place in places}


@pytest.mark.parametrize("then", [TopicId("here", "second"), TopicId("there", "first")])
def test_a_topic_that_is_created_anew_while_it_is_read_stops_the_consumer(second: Second, then: TopicId) -> None:
    second.back_at = 0
    running, _, _ = rig(second, Group([PLACE]), ModelPoller, partitions=_Replaced(then))
    turns = iter(range(20))
    with pytest.raises(TopicReplacedError, match=f"{PLACE.topic} is not the topic"):
        finish(running.run(lambda: next(turns, None) is None))


def test_brokers_that_do_not_tell_whether_a_topic_is_another_one_are_asked_again(second: Second) -> None:
    second.back_at, group = 0, Group([PLACE])
    append(group, PLACE, "a", 1)
    partitions = _Replaced(BrokerUnavailableError("no answer"))
    running, _, _ = rig(second, group, ModelPoller, partitions=partitions)
    turns = iter(range(20))
    finish(running.run(lambda: next(turns, None) is None))
    assert (len(second.applied), partitions.asked > 5) == (1, True)


class _AwayPartitions(OnePartitionEach):
    def __init__(self, away: Away) -> None:
        self._away = away

    def find(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, PartitionOffsets]:
        self._away.waits("find")
        return super().find(places)


class _AwayWaits(ClockWaits):
    def __init__(self, away: Away) -> None:
        super().__init__(away)
        self._away = away

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self._away.waits("sleep")


STEPS = ["find", "issue", "compare", "find_parked_places", "find_due", "open", "apply", "finish", "close", "sleep"]


@pytest.mark.parametrize("step", STEPS)
def test_the_consumer_is_polled_for_whatever_it_waits_for(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_module, "_PATIENCE_SECONDS", 0.05)
    away, group = Away(step), Group([PLACE])
    append(group, PLACE, "a", 1)
    running, client, poller = rig(
        away, group, BackgroundPoller, partitions=_AwayPartitions(away), waits=_AwayWaits(away)
    )
    served, polls = client.poll, []

    def poll(seconds: float) -> object:
        polls.append(seconds)
        return served(seconds)

    monkeypatch.setattr(client, "poll", poll)
    away.polls = polls
    until = time.monotonic() + patience()
    try:
        finish(running.run(lambda: away.step is None or time.monotonic() > until))
    finally:
        poller.end()
    assert away.step is None, "it never came to this step"
    assert away.is_polled, "the group's patience may have ended meanwhile"
