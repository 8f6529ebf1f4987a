"""Who may work on a partition: a number that the database gave out last, and which of them may kill their consumer."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from cdc_outbox.consumer.inbox_tables import Statements
from cdc_outbox.databases.drivers import AnyConnection, Row
from cdc_outbox.errors import PartitionLostError, TopicReplacedError
from cdc_outbox.message import Message


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


def partition_of(message: Message) -> TopicPartition:
    """Return the partition that a message was read from."""
    return topic_partition_of(message.topic, message.partition)


@cache
def topic_partition_of(topic: str, partition: int | None) -> TopicPartition:
    """Return the same object for the same partition: it is asked for with every event, of a few partitions."""
    return TopicPartition(topic, partition or 0)


class TopicId(NamedTuple):
    """Which topic of its name is meant: a recreated topic has another id, and another cluster has one too.

    Args:
        cluster: The cluster's id.
        topic: The topic's; both are empty where the brokers do not tell.
    """

    cluster: str = ""
    topic: str = ""

    def refuse_other(self, name: str, found: "TopicId") -> None:
        """Refuse another topic of this name; what the brokers do not tell is not compared.

        Raises:
            TopicReplacedError: An id differs.
        """
        for what, known, now in zip(self._fields, self, found, strict=True):
            if known and now and known != now:
                raise TopicReplacedError(
                    f"{name} is not the topic whose effects the database has: the {what}'s id was {known}, and is now "
                    f"{now}"
                )


NO_IDS: Mapping[str, TopicId] = MappingProxyType({})


class Assignment(NamedTuple):
    """One assignment of a partition.

    Args:
        epoch: Its number; a higher one takes the partition away.
        unfinished: How many assignments in a row, this one counted, got nothing done: what they began with may kill.
        next_offset: The offset behind the last message whose effects the database has; ``None`` where it has none.
        topic_id: The topic that this offset counts in.
        leader_epoch: The number of the leader that took the message before this offset; ``None`` where it is not known.
            A later leader may have begun without that message.
    """

    epoch: int
    unfinished: int
    next_offset: int | None = None
    topic_id: TopicId = TopicId()
    leader_epoch: int | None = None


class OffsetMove(NamedTuple):
    """A partition's next offset, before and after a transaction.

    Args:
        before: What the database is known to have, :data:`NO_OFFSET` where that is none; ``None`` compares nothing.
        leader_epoch: That of the last message; ``None`` leaves what is stored.
    """

    before: int | None
    after: int
    leader_epoch: int | None = None


NO_OFFSET = -1


class EpochStore(Protocol):
    """Who owns a partition, as the database of the effects knows it."""

    async def issue(
        self,
        connection: AnyConnection,
        partitions: Iterable[TopicPartition],
        topic_ids: Mapping[str, TopicId] = NO_IDS,
    ) -> Mapping[TopicPartition, Assignment]:
        """Give partitions to this consumer; from its commit on, who had them before is stale.

        Args:
            topic_ids: Each topic's as the brokers tell it now; stored for partitions that have no next offset yet.
        """

    async def find_stale(self, connection: AnyConnection, held: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """Return the partitions whose epoch has changed, without waiting for a lock."""

    async def store_offsets(
        self,
        connection: AnyConnection,
        held: Mapping[TopicPartition, int],
        moves: Mapping[TopicPartition, OffsetMove],
    ) -> list[TopicPartition]:
        """Store the next offsets of some of the held partitions, and return those held that are stale.

        Stale is a partition whose epoch is another one, and one whose next offset is not where its move starts: then
        the database has lost commits. A stored offset keeps others from taking its partition until this transaction
        ends.
        """

    async def finish(self, connection: AnyConnection, held: Mapping[TopicPartition, int]) -> None:
        """Note that work on these partitions gets done."""

    async def start(self, connection: AnyConnection, event_id: str) -> int:
        """Note that an event is begun, and return how often it was by now; committed before its handler runs."""

    async def forget_start(self, connection: AnyConnection, event_id: str) -> None:
        """Forget that it was begun, for it ended."""


class SqlEpochs:
    """Ownership in the consumer's own database."""

    def __init__(self, statements: Statements) -> None:
        self._sql = statements

    async def issue(
        self,
        connection: AnyConnection,
        partitions: Iterable[TopicPartition],
        topic_ids: Mapping[str, TopicId] = NO_IDS,
    ) -> Mapping[TopicPartition, Assignment]:
        """Count up."""
        wanted = sorted(partitions)
        ids = [topic_ids.get(tp.topic, TopicId()) for tp in wanted]
        names = {"cluster_ids": [each.cluster for each in ids], "topic_ids": [each.topic for each in ids]}
        rows = await self._sql.fetch(connection, "issue", **columns_of_partitions(wanted), **names)
        return {
            TopicPartition(topic, partition): Assignment(epoch, unfinished, next_offset, TopicId(*ids), leader_epoch)
            for topic, partition, epoch, unfinished, next_offset, *ids, leader_epoch in rows
        }

    async def find_stale(self, connection: AnyConnection, held: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        """Compare."""
        if not held:
            return []
        rows = await self._sql.fetch(
            connection, "find_stale", **columns_of_partitions(held), epochs=list(held.values())
        )
        return [TopicPartition(*row) for row in rows]

    async def store_offsets(
        self,
        connection: AnyConnection,
        held: Mapping[TopicPartition, int],
        moves: Mapping[TopicPartition, OffsetMove],
    ) -> list[TopicPartition]:
        """Update the rows that are still as they are known."""
        others = held
        rows: list[Row] = []
        if moves:
            others = {tp: epoch for tp, epoch in held.items() if tp not in moves}
            befores, afters, leaders = map(list, zip(*moves.values(), strict=True))
            numbers = {"epochs": [held[tp] for tp in moves], "befores": befores, "afters": afters}
            numbers["leader_epochs"] = leaders
            rows = await self._sql.fetch(connection, "store_offsets", **columns_of_partitions(moves), **numbers)
        return [TopicPartition(*row) for row in rows] + await self.find_stale(connection, others)

    async def finish(self, connection: AnyConnection, held: Mapping[TopicPartition, int]) -> None:
        """Set the count to nothing."""
        if held:
            await self._sql.fetch(connection, "finish", **columns_of_partitions(held), epochs=list(held.values()))

    async def start(self, connection: AnyConnection, event_id: str) -> int:
        """Count up."""
        [(started,)] = await self._sql.fetch(connection, "start", event_id=event_id)
        return int(started)

    async def forget_start(self, connection: AnyConnection, event_id: str) -> None:
        """Delete the row."""
        await self._sql.fetch(connection, "forget_start", event_id=event_id)


def refuse_stale(stale: Sequence[TopicPartition]) -> None:
    """Raise PartitionLostError, unless there are none."""
    if stale:
        names = ", ".join(f"{topic}[{partition}]" for topic, partition in stale)
        message = f"{names} now belongs to another consumer, or the database has lost commits"
        raise PartitionLostError(message, partitions=tuple(stale))


def columns_of_partitions(partitions: Iterable[TopicPartition]) -> dict[str, list[Any]]:
    """Turn partitions into the lists that a statement takes."""
    partitions = list(partitions)
    return {"topics": [tp.topic for tp in partitions], "partitions": [tp.partition for tp in partitions]}


_SUSPECT_ASSIGNMENTS = 2
"""One unfinished assignment may be a restart at the wrong moment; two in a row have a reason."""
_IDLE_SECONDS = 5.0
"""An assignment that had nothing to do for so long has no event that kills: messages are fetched within a second."""
_SUSPECT_EVENTS = 2000
"""How many events are gone through one by one then: more than one assignment can have prefetched and lost."""


class Ownership:
    """The partitions that Kafka assigned, and what the database gave out for them.

    Kafka's callbacks write it, also from the thread that keeps polling while the loop is busy; the loop reads it.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.unissued: set[TopicPartition] = set()
        """Assigned, and not yet known to the database."""
        self.held: dict[TopicPartition, int] = {}
        """Epoch by partition."""
        self.stored: dict[TopicPartition, int] = {}
        """The next offset that the database was last known to have, by partition."""
        self.topic_ids: dict[TopicPartition, TopicId] = {}
        """The topic that the next offset counts in, by partition."""
        self._read_ids: dict[str, str] = {}
        self._is_compared = True
        self._renewed: set[TopicPartition] = set()
        self._unfinished: dict[TopicPartition, float] = {}
        """When each was issued of which it is not known yet that work gets done."""
        self._suspects: dict[TopicPartition, int] = {}

    def owns(self, tp: TopicPartition) -> bool:
        """Return whether a partition is assigned."""
        return tp in self.held or tp in self.unissued

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Note what Kafka assigned."""
        with self._lock:
            for tp in partitions:
                self.held.pop(tp, None)
                self._renewed.add(tp)
                self.unissued.add(tp)

    def take_renewed(self) -> set[TopicPartition]:
        """Return the partitions assigned since the last call: they are read again from the committed offset."""
        renewed = set()
        while self._renewed:  # one by one, for the other thread may be adding some
            renewed.add(self._renewed.pop())
        return renewed

    def issued(self, assignments: Mapping[TopicPartition, Assignment]) -> None:
        """Note what the database gave out; a partition that was lost meanwhile stays lost."""
        with self._lock:
            for tp, assignment in assignments.items():
                if tp in self.unissued:
                    self.unissued.discard(tp)
                    self.held[tp] = assignment.epoch
                    self.stored[tp] = NO_OFFSET if assignment.next_offset is None else assignment.next_offset
                    self.topic_ids[tp] = assignment.topic_id
                    self._is_compared = False
                    self._unfinished[tp] = self._clock()
                    if assignment.unfinished > _SUSPECT_ASSIGNMENTS:
                        self._suspects[tp] = _SUSPECT_EVENTS

    def learn(self, topic: str, topic_id: str) -> None:
        """Note which topic of its name the Kafka client reads from here on."""
        self._read_ids[topic] = topic_id
        self._is_compared = False

    def refuse_other_topics(self) -> None:
        """Raise if the Kafka client reads another topic than the one that the next offset counts in.

        Raises:
            TopicReplacedError: So it is.
        """
        if self._is_compared:
            return
        self._is_compared = True
        for tp, known in dict(self.topic_ids).items():
            known.refuse_other(tp.topic, TopicId(topic=self._read_ids.get(tp.topic, "")))

    def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that belong to another consumer now."""
        with self._lock:
            for tp in partitions:
                self.unissued.discard(tp)
                self.held.pop(tp, None)
                self.stored.pop(tp, None)
                self.topic_ids.pop(tp, None)
                self._unfinished.pop(tp, None)
                self._suspects.pop(tp, None)

    def epochs_of(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the epochs of those that are still held."""
        held = dict(self.held)  # which a callback may change meanwhile
        return {tp: held[tp] for tp in set(partitions) if tp in held}

    def finishing(
        self, answered: Iterable[TopicPartition], is_fetched: Callable[[TopicPartition], bool]
    ) -> dict[TopicPartition, int]:
        """Return the epochs under which it is known from now on that work gets done, once each.

        Args:
            answered: Partitions whose offsets were committed; others are known by having had nothing to do.
            is_fetched: Returns whether a broker has answered what a partition holds.
        """
        idle_since = self._clock() - _IDLE_SECONDS
        old = [tp for tp, issued_at in list(self._unfinished.items()) if issued_at < idle_since]
        done = {*answered, *filter(is_fetched, old)}
        return self.epochs_of([tp for tp in done if self._unfinished.pop(tp, None)])

    @property
    def has_suspects(self) -> bool:
        """Whether the next event of any partition may be one that kills the process."""
        return bool(self._suspects)

    def is_suspect(self, tp: TopicPartition) -> bool:
        """Return whether the next event of a partition may be one that kills the process."""
        return tp in self._suspects

    def survived(self, tp: TopicPartition) -> None:
        """Note that the process outlived an event of this partition."""
        left = self._suspects.pop(tp, 0)
        if left > 1:
            self._suspects[tp] = left - 1
