"""The seam to ownership: who may work on a partition is a number that the database gave out last."""

from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from cdc_outbox.consumer.statements import Statements
from cdc_outbox.drivers import AnyConnection, Row
from cdc_outbox.message import Message


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


def place_of(message: Message) -> Place:
    """Return the partition that a message was read from."""
    return _place(message.topic, message.partition)


@cache
def _place(topic: str, partition: int | None) -> Place:
    # Asked for with every event, of a few partitions.
    return Place(topic, partition or 0)


class TopicId(NamedTuple):
    """Which topic of its name is meant: one that is created anew has another id, and another cluster has one too.

    Args:
        cluster: The cluster's id.
        topic: The topic's; both are empty where the brokers do not tell.
    """

    cluster: str = ""
    topic: str = ""


NO_IDS: Mapping[str, TopicId] = MappingProxyType({})


class Tenure(NamedTuple):
    """One assignment of a partition.

    Args:
        epoch: Its number; a higher one takes the partition away.
        unfinished: How many assignments in a row, this one counted, got nothing done: what they began with may kill.
        next_offset: The offset behind the last message whose effects the database has; ``None`` where it has none.
        topic_id: The topic that this offset counts in.
    """

    epoch: int
    unfinished: int
    next_offset: int | None = None
    topic_id: TopicId = TopicId()


class OffsetMove(NamedTuple):
    """A partition's next offset, before and after a transaction.

    Args:
        before: What the database is known to have, :data:`NO_OFFSET` where that is none; ``None`` compares nothing.
    """

    before: int | None
    after: int


NO_OFFSET = -1


class EpochStore(Protocol):
    """Who owns a partition, as the database of the effects knows it."""

    async def issue(
        self,
        connection: AnyConnection,
        places: Iterable[Place],
        topic_ids: Mapping[str, TopicId] = NO_IDS,
    ) -> Mapping[Place, Tenure]:
        """Give partitions to this consumer; from its commit on, who had them before is stale.

        Args:
            topic_ids: Each topic's as the brokers tell it now; stored for partitions that have no next offset yet.
        """

    async def find_stale(self, connection: AnyConnection, held: Mapping[Place, int]) -> list[Place]:
        """Return those partitions whose epoch is another one by now, without waiting for anybody."""

    async def store_offsets(
        self,
        connection: AnyConnection,
        held: Mapping[Place, int],
        moves: Mapping[Place, OffsetMove],
    ) -> list[Place]:
        """Store the next offsets of some of the held partitions, and return those held that are stale.

        Stale is a partition whose epoch is another one, and one whose next offset is not where its move starts: then
        the database has lost commits. A stored offset keeps others from taking its partition until this transaction
        ends.
        """

    async def finish(self, connection: AnyConnection, held: Mapping[Place, int]) -> None:
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
        places: Iterable[Place],
        topic_ids: Mapping[str, TopicId] = NO_IDS,
    ) -> Mapping[Place, Tenure]:
        """Count up."""
        wanted = sorted(places)
        ids = [topic_ids.get(place.topic, TopicId()) for place in wanted]
        names = {"cluster_ids": [each.cluster for each in ids], "topic_ids": [each.topic for each in ids]}
        rows = await self._sql.fetch(connection, "issue", **_columns(wanted), **names)
        return {
            Place(topic, partition): Tenure(epoch, unfinished, next_offset, TopicId(cluster, topic_id))
            for topic, partition, epoch, unfinished, next_offset, cluster, topic_id in rows
        }

    async def find_stale(self, connection: AnyConnection, held: Mapping[Place, int]) -> list[Place]:
        """Compare."""
        if not held:
            return []
        rows = await self._sql.fetch(connection, "find_stale", **_columns(held), epochs=list(held.values()))
        return [Place(*row) for row in rows]

    async def store_offsets(
        self,
        connection: AnyConnection,
        held: Mapping[Place, int],
        moves: Mapping[Place, OffsetMove],
    ) -> list[Place]:
        """Update the rows that are still as they are known."""
        others = held
        rows: list[Row] = []
        if moves:
            others = {place: epoch for place, epoch in held.items() if place not in moves}
            befores, afters = map(list, zip(*moves.values(), strict=True))
            numbers = {"epochs": [held[place] for place in moves], "befores": befores, "afters": afters}
            rows = await self._sql.fetch(connection, "store_offsets", **_columns(moves), **numbers)
        return [Place(*row) for row in rows] + await self.find_stale(connection, others)

    async def finish(self, connection: AnyConnection, held: Mapping[Place, int]) -> None:
        """Set the count to nothing."""
        if held:
            await self._sql.fetch(connection, "finish", **_columns(held), epochs=list(held.values()))

    async def start(self, connection: AnyConnection, event_id: str) -> int:
        """Count up."""
        [(started,)] = await self._sql.fetch(connection, "start", event_id=event_id)
        return int(started)

    async def forget_start(self, connection: AnyConnection, event_id: str) -> None:
        """Delete the row."""
        await self._sql.fetch(connection, "forget_start", event_id=event_id)


def _columns(places: Iterable[Place]) -> dict[str, list[Any]]:
    places = list(places)
    return {"topics": [place.topic for place in places], "partitions": [place.partition for place in places]}
