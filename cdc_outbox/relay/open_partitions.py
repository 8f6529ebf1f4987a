"""The partitions in which the brokers know a producer, and the messages that go alone into the others. Pure.

A broker checks the order of a producer's batches only in a partition that already has one of them. Where it refuses the
first one, it takes the second in its place; where it refuses the first for a moment only, librdkafka even reports that
one as delivered. So the first message of a partition is acknowledged before a second one is queued.
"""

import time
from collections.abc import Callable, Collection, Iterable, MutableMapping
from functools import lru_cache
from math import inf
from random import Random
from typing import Any

from cdc_outbox.debezium.event_router.java import java_partition
from cdc_outbox.debezium.event_router.produce import RoutedEvent

OPEN_SECONDS = 600.0
"""How long a partition is open after a first message was sent; the next message is a first one again.

Brokers forget a producer that was silent in a partition for ``producer.id.expiration.ms``, a day by default.
"""
OLD_SECONDS = 43_200.0
"""Brokers measure that silence by the messages' own times, unless the topic stamps their arrival: behind a message of
two days ago they forget the producer at their next look, which comes every ten minutes."""
_FIRST_ALONE, _MORE_ALONE, _MOST_ALONE = 1_000, 4, 256_000
"""How many messages go alone after one of several was refused; so many times more if that did not find it."""
_ANY = -1
"""Stands for every partition of a topic that does not exist."""
_MOST_KEYS = 4_096
"""Keys whose partition is kept: to compute it takes as long as the rest of an event."""

Report = Callable[[Any, Any], None]
Alone = MutableMapping[tuple[str, int], tuple[int, int]]
"""By partition: how many messages still go alone there, of how many."""


class _Topic:
    def __init__(self, identity: str, partitions: int) -> None:
        self.identity, self.partitions = identity, partitions
        self.opened, self.waiting = dict[int, float](), set[int]()


class OpenPartitions:
    """Decides which messages of a producer may follow others without waiting.

    Args:
        stamped: The topics whose messages get the time of their arrival.
        alone: Outlives the producer, because a refused batch does not show which of its messages is the reason.
        clock: Monotonic seconds.
        now: Seconds since 1970.

    Attributes:
        topics: Those that were described, by their names.
    """

    def __init__(
        self,
        stamped: Collection[str],
        alone: Alone,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._stamped, self._alone, self._clock, self._now = frozenset(stamped), alone, clock, now
        self.topics: dict[str, _Topic] = {}
        self._random = Random()  # noqa: S311 - a partition
        self._partition_of = lru_cache(_MOST_KEYS)(java_partition)
        self._ready, self._ready_for_old, self._ready_until = set[str](), set[str](), inf

    def learn(self, name: str, identity: str, partitions: int) -> bool:
        """Note what the brokers say of a topic; return whether they said something else before.

        A topic that was deleted and created again has another identity, and none of its partitions is open.
        """
        topic = self.topics.get(name)
        if topic is None or topic.identity != identity:
            self.topics[name] = _Topic(identity, partitions)
        elif topic.partitions != partitions:
            topic.partitions = partitions
        else:
            return False
        self._rate(name)
        return topic is not None

    def ready(self, times_ms: Iterable[int]) -> Collection[str]:
        """Return the topics whose partitions are all open: messages of these times are sent there without asking."""
        if self._clock() >= self._ready_until:
            self._ready_until = inf
            for name in [*self._ready]:
                self._rate(name)
        if len(self._ready) == len(self._ready_for_old) or not self._is_old(min(times_ms, default=0)):
            return self._ready
        return self._ready_for_old

    def place(self, event: RoutedEvent) -> int:
        """Return the partition of a message; one without a key gets one here."""
        topic, _, key, partition, _, _ = event
        count = self.topics[topic].partitions
        if not count or partition >= 0:
            return partition if count else _ANY
        return self._random.randrange(count) if key is None else self._partition_of(key, count)

    def report(self, event: RoutedEvent, place: int, delivered: Report) -> Report | None:
        """Return what takes the report of the next message of a partition, ``None`` while that message must wait."""
        name, value, key, _, timestamp_ms, headers = event
        topic, sent_at = self.topics[name], self._clock()
        if place in topic.waiting:
            return None
        left, of = self._alone.get((name, place), (0, 0))
        is_old = name not in self._stamped and self._is_old(timestamp_ms)
        if not is_old and not left and topic.opened.get(place, -inf) + OPEN_SECONDS > sent_at:
            return delivered

        def answered(error: Any, record: Any) -> None:  # noqa: ANN401 - the client's
            topic.waiting.discard(place)
            if error is None:
                topic.opened[record.partition()] = -inf if is_old or left > 1 else sent_at
                if left:
                    self._alone[name, place] = left - 1, of
                if not topic.partitions:
                    self.topics.pop(name, None)  # it exists now, and is described before its next message
                self._rate(name)
            delivered(error, (name, value, key, record.partition(), timestamp_ms, headers))

        return answered

    def sent(self, name: str, place: int) -> None:
        """Note that a message goes alone: the next one of its partition waits for its report."""
        self.topics[name].waiting.add(place)
        self._close(name)

    def refused(self, name: str, place: int) -> None:
        """Note that one of several messages was refused: the next producer sends those of the partition alone."""
        _, of = self._alone.get((name, place), (0, 0))
        self._alone[name, place] = (min(max(_FIRST_ALONE, of * _MORE_ALONE), _MOST_ALONE),) * 2

    def _is_old(self, timestamp_ms: int) -> bool:
        return timestamp_ms < (self._now() - OLD_SECONDS) * 1_000

    def _close(self, name: str) -> None:
        self._ready.discard(name)
        self._ready_for_old.discard(name)

    def _rate(self, name: str) -> None:
        self._close(name)
        topic = self.topics.get(name)
        if topic is None or topic.waiting or not 0 < topic.partitions <= len(topic.opened):
            return
        until = min(topic.opened.get(each, -inf) for each in range(topic.partitions)) + OPEN_SECONDS
        if until > self._clock():
            self._ready_until = min(self._ready_until, until)
            self._ready.add(name)
            if name in self._stamped:
                self._ready_for_old.add(name)
