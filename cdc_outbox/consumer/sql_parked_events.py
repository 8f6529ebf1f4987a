"""The park in the consumer's own database."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from cdc_outbox.consumer.claims import columns_of
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.inbox_tables import Statements
from cdc_outbox.consumer.ordering import Aggregate, aggregate_of
from cdc_outbox.consumer.parked_events import (
    Due,
    Failure,
    ParkedCount,
    ParkedEvent,
    Rank,
    Reason,
    Sized,
    State,
    choose,
    fitting,
    parked_message,
    written_headers,
)
from cdc_outbox.databases.drivers import AnyConnection
from cdc_outbox.event import RecordedEvent
from cdc_outbox.message import Message

_LOOKED_AT = 4
"""How many due events are looked at for each that is taken, so that aggregates of which many are due leave room."""


class SqlPark:
    """Parked events as rows."""

    def __init__(self, statements: Statements) -> None:
        self._sql, self._looks = statements, count()

    async def find_parked(self, connection: AnyConnection, event_ids: Sequence[str]) -> Mapping[str, Rank]:
        """Look."""
        if not event_ids:
            return {}
        rows = await self._sql.fetch(connection, "find_parked", event_ids=list(event_ids))
        return {event_id: (Aggregate(*names), sequence) for event_id, *names, sequence in rows}

    async def add(self, connection: AnyConnection, event: RecordedEvent, message: Message, failure: Failure) -> None:
        """Insert one row."""
        await self._sql.fetch(
            connection,
            "add",
            **aggregate_of(event)._asdict(),
            event_id=event.id,
            type=_without_nul(event.type),
            sequence=event.sequence,
            **_columns_of(failure),
            topic=message.topic,
            partition=message.partition or 0,
            offset=message.offset or 0,
            timestamp_ms=message.timestamp_ms,
            key=message.key,
            value=message.value,
            headers=written_headers(message),
            bytes=message.size,
        )

    async def remove(self, connection: AnyConnection, parked_ids: Sequence[int]) -> None:
        """Delete the rows."""
        if parked_ids:
            await self._sql.fetch(connection, "remove", parked_ids=sorted(parked_ids))

    async def fail(self, connection: AnyConnection, parked_id: int, failure: Failure) -> None:
        """Update the row."""
        await self._sql.fetch(connection, "fail", parked_id=parked_id, **_columns_of(failure))

    async def rest(self, connection: AnyConnection, parked_ids: Sequence[int]) -> None:
        """Update the rows."""
        if parked_ids:
            await self._sql.fetch(connection, "rest", parked_ids=sorted(parked_ids))

    async def wake(self, connection: AnyConnection, successors: Mapping[Aggregate, int | None]) -> int:
        """Update the rows: in a statement of its own, which sees what was parked while the watermark was waited for."""
        if not successors:
            return 0
        aggregates = sorted(successors)
        following = [successors[aggregate] for aggregate in aggregates]
        return len(await self._sql.fetch(connection, "wake", **columns_of(aggregates), successors=following))

    async def find_due(
        self,
        connection: AnyConnection,
        owned: Iterable[TopicPartition],
        limit: int,
        most_bytes: float = math.inf,
    ) -> list[ParkedEvent]:
        """Look for what is due, as far as that is looked at in one go, and read the rows of what is chosen."""
        tps = sorted(owned)
        if not tps:
            return []
        topics, partitions = [tp.topic for tp in tps], [tp.partition for tp in tps]
        most = limit * _LOOKED_AT
        rows = await self._sql.fetch(connection, "find_due", topics=topics, partitions=partitions, limit=most)
        due = [Due(parked_id, Aggregate(*names), bool(blocks), size) for parked_id, *names, blocks, size in rows]
        heads, share = choose(due, limit, next(self._looks))
        chains = await self._find_chains(connection, [head.aggregate for head in heads if head.blocks], share)
        each = [chains.get(head.aggregate, []) if head.blocks else [(head.parked_id, head.bytes)] for head in heads]
        chosen = fitting(each, most_bytes)
        found = await self._sql.fetch(connection, "read", parked_ids=chosen) if chosen else []
        return [_parked(*row) for row in found]

    async def _find_chains(
        self,
        connection: AnyConnection,
        aggregates: Sequence[Aggregate],
        share: int,
    ) -> dict[Aggregate, list[Sized]]:
        """Return so many events of each aggregate that others wait for or that wait, in order from the first."""
        found: dict[Aggregate, list[Sized]] = {}
        if aggregates:
            rows = await self._sql.fetch(connection, "find_chains", **columns_of(aggregates), share=share)
            for number, parked_id, size in rows:
                found.setdefault(aggregates[number - 1], []).append((parked_id, size))
        return found

    async def find_partitions(self, connection: AnyConnection) -> set[TopicPartition]:
        """Read the topic-partitions."""
        return {TopicPartition(*row) for row in await self._sql.fetch(connection, "find_partitions")}

    async def count(self, connection: AnyConnection) -> list[ParkedCount]:
        """Count the rows."""
        return [
            ParkedCount(
                state=State(state),
                reason=Reason(reason),
                events=events,
                bytes=int(total),
                gap_events=waiting,
                gap_seconds=float(seconds or 0),
            )
            for state, reason, events, total, waiting, seconds in await self._sql.fetch(connection, "count")
        ]


def _columns_of(failure: Failure) -> dict[str, Any]:
    return {
        "state": failure.state,
        "reason": failure.reason,
        "blocks": failure.blocks,
        "error": _without_nul(failure.error),
        "attempts": failure.attempts,
        "retry_seconds": failure.retry_seconds,
    }


def _parked(  # noqa: PLR0917 - a row
    parked_id: int,
    event_id: str,
    state: str,
    reason: str,
    blocks: bool,  # noqa: FBT001
    forced: bool,  # noqa: FBT001
    attempts: int,
    topic: str,
    partition: int,
    offset: int,
    timestamp_ms: int | None,
    key: object,
    value: object,
    headers: str,
    is_due: bool,  # noqa: FBT001
    *aggregate: str,
) -> ParkedEvent:
    return ParkedEvent(
        parked_id=parked_id,
        event_id=event_id,
        state=State(state),
        reason=Reason(reason),
        blocks=bool(blocks),
        forced=bool(forced),
        attempts=attempts,
        message=parked_message(TopicPartition(topic, partition), offset, timestamp_ms, key, value, headers),
        is_due=bool(is_due),
        aggregate=Aggregate(*aggregate),
    )


def _without_nul(text: str) -> str:
    """Return the text as a database takes it."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
