"""The seam to ownership: who may work on a partition is a number that the database gave out last."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple, Protocol

from cdc_outbox.consumer.statements import Statements
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


class Tenure(NamedTuple):
    """One assignment of a partition.

    Args:
        epoch: Its number; a higher one takes the partition away.
        unfinished: How many assignments in a row, this one counted, got nothing done: what they began with may kill.
    """

    epoch: int
    unfinished: int


class EpochStore(Protocol):
    """Who owns a partition, as the database of the effects knows it."""

    async def issue(self, connection: Any, places: Iterable[Place]) -> Mapping[Place, Tenure]:  # noqa: ANN401
        """Give partitions to this consumer; from its commit on, who had them before is stale."""

    async def find_stale(self, connection: Any, held: Mapping[Place, int]) -> list[Place]:  # noqa: ANN401
        """Return those partitions whose epoch is another one by now, without waiting for anybody."""

    async def finish(self, connection: Any, held: Mapping[Place, int]) -> None:  # noqa: ANN401
        """Note that work on these partitions gets done."""

    async def start(self, connection: Any, event_id: str) -> int:  # noqa: ANN401
        """Note that an event is begun, and return how often it was by now; committed before its handler runs."""

    async def forget_start(self, connection: Any, event_id: str) -> None:  # noqa: ANN401
        """Forget that it was begun, for it ended."""


class SqlEpochs:
    """Ownership in the consumer's own database."""

    def __init__(self, statements: Statements) -> None:
        self._sql = statements

    async def issue(self, connection: Any, places: Iterable[Place]) -> Mapping[Place, Tenure]:  # noqa: ANN401
        """Count up."""
        rows = await self._sql.fetch(connection, "issue", **_columns(sorted(places)))
        return {Place(topic, partition): Tenure(epoch, unfinished) for topic, partition, epoch, unfinished in rows}

    async def find_stale(self, connection: Any, held: Mapping[Place, int]) -> list[Place]:  # noqa: ANN401
        """Compare."""
        if not held:
            return []
        rows = await self._sql.fetch(connection, "find_stale", **_columns(held), epochs=list(held.values()))
        return [Place(*row) for row in rows]

    async def finish(self, connection: Any, held: Mapping[Place, int]) -> None:  # noqa: ANN401
        """Set the count to nothing."""
        if held:
            await self._sql.fetch(connection, "finish", **_columns(held), epochs=list(held.values()))

    async def start(self, connection: Any, event_id: str) -> int:  # noqa: ANN401
        """Count up."""
        [(started,)] = await self._sql.fetch(connection, "start", event_id=event_id)
        return int(started)

    async def forget_start(self, connection: Any, event_id: str) -> None:  # noqa: ANN401
        """Delete the row."""
        await self._sql.fetch(connection, "forget_start", event_id=event_id)


def _columns(places: Iterable[Place]) -> dict[str, list[Any]]:
    places = list(places)
    return {"topics": [place.topic for place in places], "partitions": [place.partition for place in places]}
