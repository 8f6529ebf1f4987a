"""One database with several connections, in memory: what the consumers of a model share.

Transactions are READ COMMITTED: what one commits is seen by the next step of the others. Who meets another's lock is
told so at once, as the victim of a deadlock is, for here nobody can wait.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from cdc_outbox.consumer.claims import ClaimedNext, Claims, IdClaimedError
from cdc_outbox.consumer.delivery import Stores
from cdc_outbox.consumer.fencing import NO_IDS, Assignment, OffsetMove, TopicId, TopicPartition
from cdc_outbox.consumer.ordering import Aggregate, Move, Watermark, aggregate_of
from cdc_outbox.consumer.parked_events import Failure, ParkedCount, ParkedEvent, Rank
from cdc_outbox.databases.drivers import TransactionState
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.errors import DatabaseUnavailableError, OutboxError, TransactionConflictError
from cdc_outbox.event import RecordedEvent
from cdc_outbox.message import Message
from cdc_outbox.testing import MemoryDatabase
from cdc_outbox.testing.memory_inbox import Remembered

ResultT = TypeVar("ResultT")


class Lock(NamedTuple):
    """What a transaction keeps others from changing."""

    kind: str
    name: object


class Server:
    """What all connections see."""

    def __init__(self) -> None:
        self.committed = Remembered()
        self.clock = 0.0
        self.opened: list[Connected] = []
        """Connections with an open transaction."""
        self.broken: list[str] = []
        """Laws of a single transaction that were broken; to raise here would pass for a handler's error."""

    def change(self, change: Callable[[Remembered], None], locks: Iterable[Lock]) -> bool:
        """Do in a transaction of its own what somebody does from outside; nothing where a lock is in the way."""
        if {lock for connected in self.opened for lock in connected.locks} & set(locks):
            return False
        now = copied(self.committed)
        change(now)
        self.keep(now)
        return True

    def keep(self, now: Remembered) -> None:
        """Let a transaction's state be everybody's."""
        self.committed = now
        for connected in self.opened:
            connected.rebase()


class Connected(MemoryDatabase):
    """One connection, and so driver and stores of one consumer.

    Args:
        hook: Called before each step with its name.
    """

    def __init__(self, server: Server, hook: Callable[[str], None]) -> None:
        # Without the base's, whose state is the server's here.
        self.server = server
        self.locks: set[Lock] = set()
        self.held: Mapping[TopicPartition, int] = {}
        """The epochs under which the consumer works at the moment."""
        self._held_again: Mapping[TopicPartition, int] = {}
        self.now = server.committed
        self._hook = hook
        self._writes: list[Callable[[], Awaitable[object]]] = []
        self._is_open = False
        self._is_closed = False
        self._is_replaying = False

    @property
    def committed(self) -> Remembered:  # type: ignore[override]
        return self.server.committed

    @property
    def clock(self) -> float:  # type: ignore[override]
        return self.server.clock

    @property
    def stores(self) -> Stores:
        return Stores(inbox=self, park=self, epochs=self)

    def close(self) -> None:
        self._end()
        self._is_closed = True

    async def begin(self, connection: Any) -> None:  # noqa: ARG002
        if self._is_open:
            raise OutboxError("the connection has a transaction already")
        self._look_alive("begin")
        self.held, self._held_again = self._held_again or self.held, {}
        self.now, self._is_open = copied(self.server.committed), True
        self.server.opened.append(self)

    def state(self, connection: Any) -> TransactionState:
        if self._is_closed:
            return TransactionState.LOST
        return super().state(connection)

    async def commit(self, connection: Any) -> None:  # noqa: ARG002
        # What was given to another before now, its last look must have shown; what is given from here on, it need not.
        if any(self.now.epochs[place].epoch != epoch for place, epoch in self.held.items()):
            self.server.broken.append("a zombie has effects")
        self._look_alive("commit")
        now = self.now
        self._end()
        self.server.keep(now)
        self._hook("committed")

    async def rollback(self, connection: Any) -> None:  # noqa: ARG002
        self._end()

    def rebase(self) -> None:
        """See what another transaction committed, below what this one wrote."""
        self.now, self._is_replaying = copied(self.server.committed), True
        for write in self._writes:
            finish(_waited(write))
        self._is_replaying = False

    def effect(self, event: RecordedEvent) -> None:
        """Write what a handler writes."""
        self._look_alive("handler")

        async def write() -> None:
            self.now.effects.append(event)

        finish(write())
        self._writes.append(write)

    async def claim(self, connection: Any, event_ids: Sequence[str]) -> Claims:
        self._look_alive("claim")
        self._lock("id", event_ids)
        claims = await super().claim(connection, event_ids)
        self.locks = {lock for lock in self.locks if lock.kind != "id" or lock.name in claims.new}
        self._writes.append(partial(super().claim, connection, event_ids))
        return claims

    async def release(self, connection: Any, event_ids: Iterable[str]) -> None:
        ids = list(event_ids)
        await self._write("release", "id", (), partial(super().release, connection, ids))

    async def find_purge(self, connection: Any) -> Any:
        self._look_alive("find_purge")
        return await super().find_purge(connection)

    async def find_watermarks(self, connection: Any, aggregates: Iterable[Aggregate]) -> Mapping[Aggregate, Watermark]:
        self._look_alive("find_watermarks")
        return await super().find_watermarks(connection, aggregates)

    async def lock_watermarks(self, connection: Any, aggregates: Iterable[Aggregate]) -> Mapping[Aggregate, Watermark]:
        wanted = set(aggregates)
        return await self._write(
            "lock_watermarks", "mark", wanted, partial(super().lock_watermarks, connection, wanted)
        )

    async def advance(self, connection: Any, claims: Claims, moves: Sequence[Move]) -> Sequence[Aggregate]:
        names = [move.aggregate for move in moves]
        return await self._write("advance", "mark", names, partial(super().advance, connection, claims, moves))

    async def find_parked(self, connection: Any, event_ids: Sequence[str]) -> dict[str, Rank]:
        self._look_alive("find_parked")
        return await super().find_parked(connection, event_ids)

    async def add(self, connection: Any, event: RecordedEvent, message: Message, failure: Failure) -> None:
        self._expect_lock(aggregate_of(event), blocks=failure.blocks)
        write = partial(super().add, connection, event, message, failure)
        await self._write("add", "parked", [event.id], write)

    async def remove(self, connection: Any, parked_ids: Sequence[int]) -> None:
        for parked_id in parked_ids:
            if parked_id in self.now.rows:
                self._expect_lock(
                    aggregate_of(self.now.rows[parked_id].event), blocks=self.now.rows[parked_id].parked.blocks
                )
        await self._write("remove", "row", parked_ids, partial(super().remove, connection, list(parked_ids)))

    async def fail(self, connection: Any, parked_id: int, failure: Failure) -> None:
        await self._write("fail", "row", [parked_id], partial(super().fail, connection, parked_id, failure))

    async def rest(self, connection: Any, parked_ids: Sequence[int]) -> None:
        await self._write("rest", "row", parked_ids, partial(super().rest, connection, list(parked_ids)))

    async def wake(self, connection: Any, successors: Mapping[Aggregate, int | None]) -> int:
        return await self._write("wake", "row", (), partial(super().wake, connection, successors))

    async def find_due(
        self, connection: Any, owned: Iterable[TopicPartition], limit: int, most_bytes: float = math.inf
    ) -> list[ParkedEvent]:
        self._look_alive("find_due")
        return await super().find_due(connection, owned, limit, most_bytes)

    async def count(self, connection: Any) -> list[ParkedCount]:
        self._look_alive("count")
        return await super().count(connection)

    async def issue(
        self, connection: Any, places: Iterable[TopicPartition], topic_ids: Mapping[str, TopicId] = NO_IDS
    ) -> Mapping[TopicPartition, Assignment]:
        wanted = list(places)
        return await self._write("issue", "epoch", wanted, partial(super().issue, connection, wanted, topic_ids))

    async def find_stale(self, connection: Any, held: Mapping[TopicPartition, int]) -> list[TopicPartition]:
        self._look_alive("find_stale")
        return await super().find_stale(connection, held)

    async def store_offsets(
        self, connection: Any, held: Mapping[TopicPartition, int], moves: Mapping[TopicPartition, OffsetMove]
    ) -> list[TopicPartition]:
        write = partial(super().store_offsets, connection, held, moves)
        return await self._write("store_offsets", "epoch", moves, write)

    async def finish(self, connection: Any, held: Mapping[TopicPartition, int]) -> None:
        await self._write("finish", "epoch", held, partial(super().finish, connection, held))

    async def start(self, connection: Any, event_id: str) -> int:
        return await self._write("start", "start", [event_id], partial(super().start, connection, event_id))

    async def forget_start(self, connection: Any, event_id: str) -> None:
        await self._write("forget_start", "start", [event_id], partial(super().forget_start, connection, event_id))

    async def _write(
        self, step: str, kind: str, names: Iterable[object], write: Callable[[], Awaitable[ResultT]]
    ) -> ResultT:
        self._look_alive(step)
        self._lock(kind, names)
        result = await write()
        self._writes.append(write)
        return result

    async def claim_next(
        self, connection: Any, event_ids: Sequence[str], expected: Mapping[Aggregate, range], held: Any
    ) -> ClaimedNext | None:
        try:
            return await super().claim_next(connection, event_ids, expected, held)
        except IdClaimedError:
            self._held_again = held  # the same work goes on in another transaction
            raise

    def _lock(self, kind: str, names: Iterable[object]) -> None:
        wanted = {Lock(kind, name) for name in names}
        if any(wanted & other.locks for other in self.server.opened if other is not self):
            raise TransactionConflictError("a lock is in the way")
        self.locks |= wanted

    def _expect_lock(self, aggregate: Aggregate, *, blocks: bool) -> None:
        if blocks and Lock("mark", aggregate) not in self.locks:
            self.server.broken.append("what blocks an aggregate is added or removed without the lock on its watermark")

    def _look_alive(self, step: str) -> None:
        if self._is_replaying:
            return
        self._hook(step)
        if self._is_closed:
            raise DatabaseUnavailableError("the connection is closed")

    def _end(self) -> None:
        if self in self.server.opened:
            self.server.opened.remove(self)
        self.locks, self.held, self._writes = set(), {}, []
        self.now, self._is_open = self.server.committed, False


def copied(remembered: Remembered) -> Remembered:
    """Return the same in containers of its own; what is in them is frozen but for the rows."""
    return replace(
        remembered,
        claims=set(remembered.claims),
        watermarks=dict(remembered.watermarks),
        rows={place: replace(row) for place, row in remembered.rows.items()},
        epochs=dict(remembered.epochs),
        starts=dict(remembered.starts),
        effects=list(remembered.effects),
    )


async def _waited(write: Callable[[], Awaitable[object]]) -> object:
    return await write()
