"""A consumer's loop over a model of Kafka and of two databases, by a clock that nobody waits for."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, cast

import psycopg

from cdc_outbox.consumer import Limits, Retry, SequenceMode, WireContract
from cdc_outbox.consumer.delivery import Delivered
from cdc_outbox.consumer.fencing import Assignment, Ownership, TopicId, TopicPartition
from cdc_outbox.consumer.group import BackgroundPoller, Membership, subscribe
from cdc_outbox.consumer.item import Item, Outcome
from cdc_outbox.consumer.loop import Loop
from cdc_outbox.consumer.offsets import Offsets
from cdc_outbox.consumer.parked_events import ParkedCount, ParkedEvent, Reason, State
from cdc_outbox.consumer.retries import RetryTracker
from cdc_outbox.consumer.start_offsets import GroupPartitions, PartitionOffsets
from cdc_outbox.consumer.stats import ConsumerStats
from cdc_outbox.consumer.waits import Waits
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.errors import (
    HandlerError,
)
from cdc_outbox.telemetry import NoMetrics
from fuzz.consumer_group import Client, Group
from fuzz.consumer_world import ModelPoller
from tests.support.events import make_event

OUTAGE_SECONDS = 2 * 3600.0
PLACE = TopicPartition("outbox.event.order", 0)
CONTRACT = WireContract(aggregates={"order": SequenceMode.GAPLESS})


class ShortestPauses(Random):
    """Jitter that always makes a pause as short as it can be."""

    def uniform(self, a: float, b: float) -> float:
        return min(a, b)


@dataclass
class Second:
    """A consumer's database that works, and a second one, which its handlers need and which is away.

    Args:
        back_at: When the second database is back, in seconds.
    """

    isolated: ClassVar[frozenset[str]] = frozenset()
    back_at: float = OUTAGE_SECONDS
    clock: float = 0.0
    attempts: int = 0
    applied: list[str] = field(default_factory=list)
    rows: dict[str, tuple[ParkedEvent, float | None]] = field(default_factory=dict)
    """Parked events, each with the time at which it is due."""
    most_attempts: int = 0
    sizes: list[int] = field(default_factory=list)
    """How many events were in each transaction."""

    def monotonic(self) -> float:
        """Return the time by the clock."""
        return self.clock

    async def open(self) -> None:
        """Nothing needs to be opened."""

    async def close(self) -> None:
        """Nothing is open."""

    async def issue(
        self, places: Iterable[TopicPartition], topic_ids: Mapping[str, TopicId]
    ) -> Mapping[TopicPartition, Assignment]:
        return {place: Assignment(1, 0, topic_id=topic_ids[place.topic]) for place in places}

    async def compare(self, held: Mapping[TopicPartition, int], stored: Mapping[TopicPartition, int]) -> bool:
        """Nothing is ever lost."""
        del held, stored
        return True

    async def finish(self, held: Mapping[TopicPartition, int]) -> None:
        """Nothing is noted."""

    async def apply(
        self,
        items: Sequence[Item],
        _held: Mapping[TopicPartition, int],
        _room: int,
        _meanwhile: object,
        *,
        stored: Mapping[TopicPartition, int],
    ) -> Delivered:
        del stored
        self.clock += 0.01
        self.sizes.append(len(items))
        wanted = [item for item in items if item.failure is None]
        if wanted and self.clock < self.back_at:
            self.attempts += 1
            cause = psycopg.OperationalError('connection to server at "db2", port 5432 failed: Connection refused')
            raise HandlerError("the handler raised OperationalError") from cause
        for item in items:
            self.rows.pop(item.event_id, None)
            if item.failure is None:
                self.applied.append(item.event_id)
            else:
                self._park(item)
        outcomes = [Outcome.PARKED if item.failure else Outcome.APPLIED for item in items]
        return Delivered(outcomes=outcomes)

    def _park(self, item: Item) -> None:
        assert item.failure is not None
        self.most_attempts = max(self.most_attempts, item.failure.attempts)
        row = ParkedEvent(
            parked_id=1,
            event_id=item.event_id,
            state=item.failure.state,
            reason=Reason.FAILED,
            blocks=True,
            forced=False,
            attempts=item.failure.attempts,
            message=item.message,
            is_due=True,
            aggregate=item.aggregate,
        )
        seconds = item.failure.retry_seconds
        self.rows[item.event_id] = row, None if seconds is None else self.clock + seconds

    async def find_parked_partitions(self) -> set[TopicPartition]:
        return {PLACE} if self.rows else set()

    async def find_due(
        self, _owned: Iterable[TopicPartition], limit: int, most_bytes: float, *, counts: bool
    ) -> tuple[list[ParkedEvent], list[ParkedCount]]:
        assert (most_bytes, counts) == (Limits().batch_bytes, True)
        due = [row for row, due_at in self.rows.values() if due_at is not None and due_at <= self.clock]
        parked = [ParkedCount(state=row.state, reason=row.reason, events=1) for row, _ in self.rows.values()]
        return due[:limit], parked

    @property
    def dead(self) -> int:
        """How many events were given up."""
        return sum(row.state is State.DEAD for row, _ in self.rows.values())


class OnePartitionEach:
    """Partitions that begin at 0, are empty, and whose group has no offset."""

    def find(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, PartitionOffsets]:
        return {place: PartitionOffsets(TopicId(), 0, 0, None) for place in places}

    def members(self) -> Mapping[str, int]:
        return {"this one": 1}


class ClockWaits:
    """What waits goes on at once; sleeping moves the clock."""

    def __init__(self, second: Second) -> None:
        self._second = second

    async def call(self, function: Any, *arguments: Any) -> Any:
        return function(*arguments)

    async def sleep(self, seconds: float) -> None:
        self._second.clock += seconds


def consume(second: Second, events: int, *, aggregates: int, until: float) -> None:
    """Run a consumer's loop over so many events until this time by the clock."""
    group = Group([PLACE])
    for number in range(events):
        append(group, PLACE, str(number % aggregates), number // aggregates + 1)
    running, _, _ = rig(second, group, ModelPoller)
    seen = [0.0]

    def is_stopping() -> bool:
        if seen == [second.clock]:  # nothing was done, so that it polled, and waited for that
            second.clock += 0.5
        seen[:] = [second.clock]
        return second.clock >= until

    finish(running.run(is_stopping))


def append(group: Group, place: TopicPartition, aggregate_id: str, sequence: int) -> None:
    """Write the message of an event into a partition."""
    message = CONTRACT.message_of(make_event(sequence, aggregate_id))
    fields = {"topic": place.topic, "partition": place.partition, "offset": len(group.logs[place])}
    group.logs[place].append(type(message)(**{**_fields_of(message), **fields}))


def rig(
    second: Second,
    group: Group,
    poller_type: Callable[[Any], BackgroundPoller],
    *,
    partitions: GroupPartitions | None = None,
    waits: Waits | None = None,
) -> tuple[Loop, Client, BackgroundPoller]:
    """Return a consumer's loop that is given all partitions, its client and its poller."""
    done, ownership = Offsets(), Ownership(clock=second.monotonic)
    client = Client(group, lambda _step: None, done.answered)
    for place in group.logs:
        group.give(place, client)
    limits, untyped = Limits(), cast("Any", client)
    poller = poller_type(untyped)
    stats = ConsumerStats(name="shipping", limits=limits, metrics=NoMetrics(), clock=second.monotonic)
    member = Membership(
        client=untyped, poller=poller, offsets=done, ownership=ownership, partitions=partitions or OnePartitionEach()
    )
    subscribe(member, CONTRACT.topics, limits, stats)
    running = Loop(
        member,
        cast("Any", second),
        contract=CONTRACT,
        limits=limits,
        retries=RetryTracker(Retry(), random=ShortestPauses(), clock=second.monotonic),
        stats=stats,
        waits=waits or ClockWaits(second),
    )
    return running, client, poller


def _fields_of(message: Any) -> dict[str, Any]:
    return {"key": message.key, "value": message.value, "headers": message.headers}
