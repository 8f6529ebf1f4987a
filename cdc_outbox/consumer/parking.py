"""What a transaction does not apply, and what it takes out of the parked events.

Parked events of topic-partitions that no consumer is assigned are applied by one instance of the consumer.
"""

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace

from cdc_outbox.consumer.claims import Claims, InboxStore
from cdc_outbox.consumer.fencing import EpochStore, TopicPartition, partition_of
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.limits import Room
from cdc_outbox.consumer.ordering import Aggregate, Judgement, Verdict, sentence
from cdc_outbox.consumer.parked_events import REASONS, Failure, ParkedEvent, ParkStore, Rank, Reason
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.drivers import AnyConnection
from cdc_outbox.errors import MessageError, ParkFullError


class ParkingPlan:
    """The events of one transaction that are not applied in it, and those that leave the park.

    The locks on the watermarks of all of them are held.

    Args:
        room: How much more may be parked.
    """

    def __init__(
        self,
        *,
        inbox: InboxStore,
        park: ParkStore,
        epochs: EpochStore,
        connection: AnyConnection,
        room: Room,
    ) -> None:
        self._inbox, self._park, self._epochs = inbox, park, epochs
        self._connection = connection
        self._room = room
        self.reasons: Counter[Reason] = Counter()
        """How many events were parked, and why."""
        self.bytes = 0
        """How many bytes they have."""
        self._blocking: Counter[Aggregate] = Counter()
        self._released: set[str] = set()
        self._done: set[str] = set()
        self._removed: list[int] = []
        self._rested: list[int] = []

    @property
    def blocking(self) -> dict[Aggregate, int]:
        """How many more events of an aggregate are parked than before, so that those after them wait."""
        return {aggregate: events for aggregate, events in self._blocking.items() if events}

    async def put_unreadable(self, item: Item) -> None:
        """Park an unreadable message; events that wait for it keep waiting."""
        failure, row = item.failure, item.parked
        assert failure is not None  # noqa: S101 - that is what unreadable means
        if row is None and failure.is_stray and await self._park.find_parked(self._connection, [item.event_id]):
            _log.info("passing over a message without any header of the contract", extra={"at": item.message.position})
        elif row is None:
            await self._put(item, failure)
        elif row.is_due or not row.blocks:
            was_read = row.blocks and row.reason is not Reason.UNREADABLE
            reason = Reason.FAILED if was_read else Reason.UNREADABLE
            await self._park.fail(self._connection, row.parked_id, replace(failure, reason=reason))

    async def put(self, item: Item, judgement: Judgement) -> None:
        """Do with an event what its verdict says, unless it is applied: then take it out of the park."""
        verdict, row = judgement.verdict, item.parked
        if row is not None and not _keeps_row(item, verdict):
            self._removed.append(row.parked_id)
            self._blocking[row.aggregate] -= row.blocks
        if item.is_stuck or (not verdict.is_done and (verdict is not Verdict.NEXT or item.failure)):
            self._released.add(item.event_id)
        elif verdict.is_done:
            self._done.add(item.event_id)
        if row is not None and _keeps_row(item, verdict):
            if not item.is_stuck:
                await self._put_back(item, row, judgement)
        elif item.failure is not None and (verdict is Verdict.NEXT or (item.is_unreadable and verdict.is_parked)):
            await self._put(item, item.failure)
        elif verdict.is_parked:
            await self._put(item, Failure(reason=REASONS[verdict], error=sentence(judgement), attempts=0))
        # Who has it tried again once it is fixed does not want the old counts held against it.
        if item.is_begun or (item.failure is not None and item.failure.reason is Reason.CRASHED):
            await self._epochs.forget_start(self._connection, item.event_id)

    async def settle(self, claims: Claims, applied: Iterable[Item]) -> None:
        """Give back the claims that have no effects, and take out of the park what has."""
        if self._released:  # an id may have come twice, and have been applied the first time
            self._released -= {item.event_id for item in applied} | self._done
        await self._inbox.release(self._connection, self._released & claims.new)
        await self._park.remove(self._connection, self._removed)
        await self._park.rest(self._connection, self._rested)

    async def _put(self, item: Item, failure: Failure) -> None:
        # What leaves its row for another one takes no room that it did not have.
        if item.parked is None and (limit := self._room.without(self.reasons.total(), self.bytes).reached):
            raise ParkFullError(f"{item.event} cannot be parked: {limit} is reached")
        await self._park.add(self._connection, item.event, item.message, failure)
        self._blocking[item.aggregate] += failure.blocks
        self.reasons[failure.reason] += 1
        self.bytes += item.size

    async def _put_back(self, item: Item, row: ParkedEvent, judgement: Judgement) -> None:
        aggregate, verdict = item.aggregate, judgement.verdict
        failure = item.failure if verdict is Verdict.NEXT else None
        if verdict is Verdict.CONFLICT:
            failure = Failure(reason=Reason.CONFLICT, error=sentence(judgement), attempts=row.attempts)
        if failure is not None:
            await self._park.fail(self._connection, row.parked_id, failure)
            self._blocking[aggregate] += failure.blocks - row.blocks
        elif verdict in {Verdict.GAP, Verdict.BEHIND, Verdict.PARKED}:  # the last one behind itself, read at last
            if row.is_due:
                self._rested.append(row.parked_id)
        else:
            self._removed.append(row.parked_id)
            self._blocking[aggregate] -= row.blocks


def _keeps_row(item: Item, verdict: Verdict) -> bool:
    """Return whether a parked event stays in its row, unless it is applied; otherwise it gets a new row, if any.

    The row of an unreadable message holds its place in the aggregate. An event that is readable at last, and waits for
    no parked event, no longer needs that place, but a row that says what it is.
    """
    if item.is_stuck:
        return True
    is_read_at_last = item.parked is not None and item.parked.reason is Reason.UNREADABLE
    return item.is_redone and not (is_read_at_last and verdict in {Verdict.GAP, Verdict.CONFLICT, Verdict.EXPIRED})


def refuse_ids_of_others(judgements: Sequence[Judgement], parked: Mapping[str, Rank]) -> None:
    """Refuse an event under the id of another one that is set aside: it would pass for that one, and be lost.

    Raises:
        MessageError: There is one. The park identifies events by their ids, so this one is parked under its message's.
    """
    ranks = dict(parked)
    for event, aggregate, verdict, _ in judgements:
        rank = ranks.setdefault(event.id, (aggregate, event.sequence))
        if verdict is Verdict.PARKED and rank != (aggregate, event.sequence):
            raise MessageError(f"{event} has the id of another event, which is parked")


def behind_unreadable(items: Sequence[Item], there: Set[str]) -> set[str]:
    """Return the ids of what comes out of the park behind what stays there, and is no event of the same aggregate."""
    stopped: set[Aggregate] = set()
    behind = set()
    for item in items:
        if item.is_redone and item.aggregate in stopped:
            behind.add(item.event_id)
        elif item.parked is None or not item.parked.blocks or item.parked.event_id not in there:
            continue
        elif item.is_unreadable or (item.is_stuck and not item.is_redone):
            stopped.add(item.parked.aggregate)
    return behind


_log = logging.getLogger(__name__)

_ASK_SECONDS = 30.0
"""How often the brokers are asked which partitions there are, while events of others than the consumer's are parked."""


class Adoption:
    """What one instance of a consumer applies beside the events of its own partitions.

    Args:
        find_topics: Asks the brokers which topics there are, each with its partitions.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        contract: WireContract,
        find_topics: Callable[[], Awaitable[Mapping[str, Collection[int]]]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._contract, self._find_topics, self._clock = contract, find_topics, clock
        self._asked_at: float | None = None
        self._known: set[TopicPartition] = set()
        self.adopted: frozenset[TopicPartition] = frozenset()
        """Topic-partitions that no consumer is assigned, if this instance is the one that looks after them."""
        self.guardian: TopicPartition | None = None
        """The assigned topic-partition whose owner looks after the others."""

    async def look(self, parked: Collection[TopicPartition], held: Collection[TopicPartition]) -> None:
        """Find out what to adopt.

        Args:
            parked: The topic-partitions of all parked events that wait.
            held: Those that this instance is assigned.

        Raises:
            BrokerUnavailableError: The brokers do not answer.
        """
        if self._known.issuperset(parked) or set(parked) <= set(held):
            self.adopted = frozenset()
            return
        if self._asked_at is None or self._clock() - self._asked_at >= _ASK_SECONDS:
            topics = await self._find_topics()
            self._known = {
                TopicPartition(topic, number) for topic in self._contract.topics for number in topics.get(topic, ())
            }
            self._asked_at = self._clock()
        self.guardian = min(self._known, default=None)
        before = self.adopted
        is_guardian = self.guardian is not None and self.guardian in held
        self.adopted = frozenset(set(parked) - self._known) if is_guardian else frozenset()
        for tp in sorted(self.adopted - before):
            _log.warning(
                "parked events of a partition that no consumer owns are applied here",
                extra={"topic": tp.topic, "partition": tp.partition},
            )

    def takes(self, row: ParkedEvent) -> bool:
        """Return whether this consumer can apply a parked event: another one may know aggregate types more."""
        is_own = partition_of(row.message) not in self.adopted
        return is_own or row.aggregate.aggregate_type in {"", *self._contract.aggregates}

    def owner_of(self, row: ParkedEvent) -> TopicPartition:
        """Return the assigned topic-partition under whose epoch a parked event is applied."""
        tp = partition_of(row.message)
        return self.guardian if tp in self.adopted and self.guardian is not None else tp
