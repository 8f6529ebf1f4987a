"""The seam to the park: events set aside as messages until they are applied or an operator decides."""

import base64
import json
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, zip_longest
from typing import Any, NamedTuple, Protocol

from cdc_outbox.consumer.fencing import TopicPartition, partition_of
from cdc_outbox.consumer.ordering import Aggregate, Verdict
from cdc_outbox.databases.drivers import AnyConnection
from cdc_outbox.event import RecordedEvent
from cdc_outbox.message import Message

Rank = tuple[Aggregate, int | None]
"""What an event is besides its id: its aggregate, and its number there."""


class State(StrEnum):
    """What happens next to a parked event."""

    WAITING = "waiting"
    """It is tried again, by itself."""
    DEAD = "dead"
    """Nothing, until an operator decides."""


class Reason(StrEnum):
    """Why an event is parked."""

    GAP = "gap"
    """A predecessor is missing."""
    BEHIND = "behind"
    """A predecessor is parked."""
    FAILED = "failed"
    """Its handler raised."""
    CRASHED = "crashed"
    """Its handler took the process with it, or the connection each time."""
    CONFLICT = "conflict"
    """Another event holds its place."""
    EXPIRED = "expired"
    """Whether it was applied before is forgotten."""
    UNREADABLE = "unreadable"
    """Its message does not keep the contract."""

    @property
    def blocks(self) -> bool:
        """Whether later events of its aggregate wait for it; for what is unreadable, if its aggregate is known."""
        return self in {Reason.GAP, Reason.BEHIND, Reason.FAILED, Reason.CRASHED}

    @property
    def state(self) -> State:
        """What an event is that is parked for this reason and not tried again at a time of its own."""
        return State.WAITING if self in {Reason.GAP, Reason.BEHIND} else State.DEAD


REASONS = {
    Verdict.GAP: Reason.GAP,
    Verdict.BEHIND: Reason.BEHIND,
    Verdict.CONFLICT: Reason.CONFLICT,
    Verdict.EXPIRED: Reason.EXPIRED,
}
"""Why an event is parked that its verdict sets aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How an event's handler failed.

    Args:
        error: What happened, in a sentence without the payload.
        attempts: How often it was tried by now, in rounds: immediate retries count as one.
        retry_seconds: When it is tried again; ``None`` where it is not.
        keeps_order: Whether the aggregate of a message that cannot be read is known, so that later events wait for it.
        is_stray: Whether the message has no header of the contract.
    """

    reason: Reason
    error: str
    attempts: int = 1
    retry_seconds: float | None = None
    keeps_order: bool = False
    is_stray: bool = False

    @property
    def blocks(self) -> bool:
        """Whether later events of the aggregate wait for this one."""
        return self.reason.blocks or self.keeps_order

    @property
    def state(self) -> State:
        """What the event is from now on."""
        return self.reason.state if self.retry_seconds is None else State.WAITING


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedEvent:
    """A row of the park.

    Args:
        parked_id: Its number there, by which it is named.
        is_due: Whether it is this one that is due, or one that waits behind it.
        forced: Whether an operator decided to apply it in spite of its verdict.
        aggregate: The one it was parked under; three empty texts where that is unknown.
    """

    parked_id: int
    event_id: str
    state: State
    reason: Reason
    blocks: bool
    forced: bool
    attempts: int
    message: Message
    is_due: bool
    aggregate: Aggregate


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkedCount:
    """How many events are parked for one reason.

    Args:
        bytes: Those of their messages' keys, values and headers.
        gap_events: How many of them wait for one that is missing. What waits behind a failed one is not among them.
        gap_seconds: How long the first of those has been there.
    """

    state: State
    reason: Reason
    events: int
    bytes: int = 0
    gap_events: int = 0
    gap_seconds: float = 0.0


class Due(NamedTuple):
    """A parked event that is due."""

    parked_id: int
    aggregate: Aggregate
    blocks: bool
    bytes: int


class ParkStore(Protocol):
    """Where events are set aside, in the same database as the inbox.

    Every method works inside the transaction that is open on the connection. A caller that adds or removes events
    that block an aggregate holds the lock on its watermark, and stores there how many there are.
    """

    async def find_parked(self, connection: AnyConnection, event_ids: Sequence[str]) -> Mapping[str, Rank]:
        """Return those ids that are parked, and the rank of the event that is parked under each."""

    async def add(self, connection: AnyConnection, event: RecordedEvent, message: Message, failure: Failure) -> None:
        """Park an event; one that is parked already stays as it is."""

    async def remove(self, connection: AnyConnection, parked_ids: Sequence[int]) -> None:
        """Take events out."""

    async def fail(self, connection: AnyConnection, parked_id: int, failure: Failure) -> None:
        """Note that an event failed again; an operator's decision to apply it all the same holds until it is dead."""

    async def rest(self, connection: AnyConnection, parked_ids: Sequence[int]) -> None:
        """Let events wait for their predecessors that were due and could not be applied."""

    async def wake(self, connection: AnyConnection, successors: Mapping[Aggregate, int | None]) -> int:
        """Make due what can be applied now, and return how many.

        Args:
            successors: The one sequence that follows, of each aggregate that moved; events before it have nothing to
                wait for either. ``None`` for whatever came first.
        """

    async def find_due(
        self,
        connection: AnyConnection,
        owned: Iterable[TopicPartition],
        limit: int,
        most_bytes: float = math.inf,
    ) -> list[ParkedEvent]:
        """Return what is due in these partitions, each with what waits behind it, in order from the first.

        Where there is more than the limit, each aggregate has as much of it as any other, as far as they are looked at:
        the cost does not grow with what is parked. What others own is among it.

        Args:
            limit: The largest number of events.
            most_bytes: The largest number of bytes of their messages; one event may have more.
        """

    async def find_partitions(self, connection: AnyConnection) -> set[TopicPartition]:
        """Return the topic-partitions that events came from which wait."""

    async def count(self, connection: AnyConnection) -> list[ParkedCount]:
        """Return how many events are parked."""


Sized = tuple[int, int]
"""The id of a parked event, and its bytes."""


def choose(due: Sequence[Due], limit: int, looks: int = 0) -> tuple[list[Due], int]:
    """Return which events are read, one for each aggregate in which others wait, and how many of each aggregate then.

    Args:
        due: In the order in which they became due.
        looks: How often was looked before. Another one comes first each time, so that events that stay due behind a
            dead one do not keep the others from being chosen, or from the room that there is for bytes.
    """
    heads: dict[Aggregate | int, Due] = {}
    for event in due:
        heads.setdefault(event.aggregate if event.blocks else event.parked_id, event)
    found = list(heads.values())
    first = looks % max(1, len(found))
    chosen = [*found[first:], *found[:first]][:limit]
    return chosen, max(1, limit // max(1, len(chosen)))


def fitting(chains: Iterable[Sequence[Sized]], most_bytes: float) -> list[int]:
    """Return which events are read of so many bytes: the first of each chain, then the second, until one has no room.

    So what is read of a chain is its beginning, and each has its turn.

    Args:
        chains: Events in order.
        most_bytes: One event may have more.
    """
    parked_ids: list[int] = []
    for parked_id, size in filter(None, chain.from_iterable(zip_longest(*chains))):
        most_bytes -= size
        if parked_ids and most_bytes < 0:
            break
        parked_ids.append(parked_id)
    return parked_ids


def unbroken(rows: Iterable[ParkedEvent], owned: Container[TopicPartition]) -> list[ParkedEvent]:
    """Return what may be applied by who owns these partitions: what waits behind another one's event waits for it.

    Args:
        rows: An aggregate's in order from the first.
    """
    broken: set[Aggregate] = set()
    ours = []
    for row in rows:
        if partition_of(row.message) not in owned:
            broken.add(row.aggregate)
        elif row.forced or not row.blocks or row.aggregate not in broken:
            ours.append(row)
    return ours


def written_headers(message: Message) -> str:
    """Return a message's headers as JSON: text as text, other bytes as an object; ``null`` if they are not known."""
    if not message.has_headers:
        return "null"
    return json.dumps([[name, _written(value)] for name, value in message.headers], ensure_ascii=False)


def parked_message(  # noqa: PLR0917 - a row's
    tp: TopicPartition,
    offset: int,
    timestamp_ms: int | None,
    key: object,
    value: object,
    headers: str,
) -> Message:
    """Return the message that an event came in, from its row in the park."""
    known = json.loads(headers)
    return Message(
        topic=tp.topic,
        partition=tp.partition,
        offset=offset,
        timestamp_ms=timestamp_ms,
        key=_bytes(key),
        value=_bytes(value),
        headers=tuple((name, _read(value)) for name, value in known or ()),
        has_headers=known is not None,
    )


def _written(value: bytes | None) -> str | dict[str, str] | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value or b"").decode()}


def _read(value: str | dict[str, str] | None) -> bytes | None:
    if isinstance(value, dict):
        return base64.b64decode(value["base64"])
    return None if value is None else value.encode()


def _bytes(value: Any) -> bytes | None:  # noqa: ANN401
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else bytes(value)
