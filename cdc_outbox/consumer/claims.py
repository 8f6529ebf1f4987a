"""The seam to the inbox: claims and watermarks, in the handler's transaction."""

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from cdc_outbox.consumer.fencing import TopicPartition, columns_of_partitions
from cdc_outbox.consumer.inbox_tables import Statements
from cdc_outbox.consumer.ordering import Aggregate, Move, Watermark, key_of
from cdc_outbox.databases.drivers import AnyConnection, sqlstate_of
from cdc_outbox.databases.drivers.sqlstate import UNIQUE_VIOLATION
from cdc_outbox.errors import ConfigError, MessageError, TransactionEndedError, WatermarkMovedError

_MAX_KEY_BYTES = 2600
"""What the columns of a key may have together: an entry of PostgreSQL's index has 2,704 bytes with its own headers."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What one transaction claimed.

    Args:
        new: The ids that were not claimed before.
        transaction: The database's own name for the transaction, empty where nothing was new.
        tids: Where the rows of watermarks are in their table, as far as that was read with the claims.
    """

    new: frozenset[str] = frozenset()
    transaction: str = ""
    tids: Mapping[Aggregate, str] = field(default_factory=dict, compare=False, repr=False)


class ClaimedNext(NamedTuple):
    """The result of claiming events that are all next.

    Args:
        claims: All of them.
        watermarks: Of all their aggregates, new ones too.
        is_stale: Whether the epoch of a held partition has changed.
    """

    claims: Claims
    watermarks: Mapping[Aggregate, Watermark]
    is_stale: bool


class IdClaimedError(Exception):
    """One of the ids was claimed before; the transaction must be rolled back. It never leaves this package."""


class InboxStore(Protocol):
    """What a consumer remembers of events that it applied.

    Every method works inside the transaction that is open on the connection, under READ COMMITTED; nothing lasts before
    its commit, and a rollback undoes all of it. Lists may be of any length; an empty one does nothing.
    """

    def fits(self, aggregate: Aggregate) -> bool:
        """Return whether an aggregate can have a watermark here."""

    def refuse(self, event_ids: Sequence[str]) -> None:
        """Refuse what cannot be claimed, for those who write an id down before it is, or without.

        Raises:
            MessageError: An id cannot.
        """

    async def claim(self, connection: AnyConnection, event_ids: Sequence[str]) -> Claims:
        """Claim ids and return those that were new.

        An id that another open transaction has claimed makes this one wait until that one ends.
        """

    async def claim_next(
        self,
        connection: AnyConnection,
        event_ids: Sequence[str],
        expected: Mapping[Aggregate, range],
        held: Mapping[TopicPartition, int],
    ) -> ClaimedNext | None:
        """Claim ids if the watermark of each aggregate is one of those expected, and nothing is parked behind it.

        Watermarks and epochs are read before the claims, which may wait for another transaction: :meth:`advance` and
        :meth:`EpochStore.store_offsets` detect what that one changed.

        Returns:
            ``None``, with nothing claimed, if that is not so, if a list is empty, or if the database has no statement
            for it.

        Raises:
            IdClaimedError: One of the ids was claimed before.
        """

    async def find_claims(self, connection: AnyConnection, event_ids: Sequence[str]) -> set[str]:
        """Return the ids whose claims are committed, without a lock; refuse an id that cannot be claimed."""

    async def identify(self, connection: AnyConnection) -> Claims:
        """Claim nothing, and return the transaction's name all the same."""

    async def release(self, connection: AnyConnection, event_ids: Iterable[str]) -> None:
        """Give claims of this transaction back, whose events are not applied in it."""

    async def find_purge(self, connection: AnyConnection) -> datetime | None:
        """Return up to which time ids were forgotten; asked after the claims, it stays true until the end."""

    async def find_watermarks(
        self,
        connection: AnyConnection,
        aggregates: Iterable[Aggregate],
    ) -> Mapping[Aggregate, Watermark]:
        """Return what is remembered of each aggregate, without those of which nothing is."""

    async def lock_watermarks(
        self,
        connection: AnyConnection,
        aggregates: Iterable[Aggregate],
    ) -> Mapping[Aggregate, Watermark]:
        """Return the current watermark of every given aggregate, and lock it until the transaction ends."""

    async def advance(
        self,
        connection: AnyConnection,
        claims: Claims,
        moves: Sequence[Move],
    ) -> Sequence[Aggregate]:
        """Move the watermarks, and prove that the transaction is the one of the claims.

        Returns:
            Those aggregates that have events parked as of now.

        Raises:
            TransactionEndedError: It is another one.
            WatermarkMovedError: One of them was not where the move starts, or its row was changed since it was read.

        The transaction must be rolled back when it raises.
        """

    async def take_back(self, connection: AnyConnection, claims: Claims) -> bool:
        """Undo claims whose transaction a handler committed too early; return whether there were any."""


class SqlInbox:
    """The inbox in the consumer's own database."""

    def __init__(self, statements: Statements) -> None:
        self._sql = statements

    def fits(self, aggregate: Aggregate) -> bool:
        """Ask whether it fits into the index."""
        try:
            self._refuse("aggregate", [aggregate])
        except MessageError:
            return False
        return True

    def refuse(self, event_ids: Sequence[str]) -> None:
        """Refuse an id that does not fit into the index."""
        if event_ids:
            self._refuse("id", [(event_id,) for event_id in event_ids])

    async def claim(self, connection: AnyConnection, event_ids: Sequence[str]) -> Claims:
        """Claim ids by inserting them first, in order; a second transaction waits, then finds them claimed.

        Raises:
            MessageError: An id does not fit into the index.
        """
        if not event_ids:
            return Claims()
        self.refuse(event_ids)
        ids = {key_of(event_id): event_id for event_id in event_ids}
        keys, transaction = await self._claim(connection, sorted(ids))
        return Claims(frozenset(map(ids.__getitem__, keys)), transaction)

    async def claim_next(
        self,
        connection: AnyConnection,
        event_ids: Sequence[str],
        expected: Mapping[Aggregate, range],
        held: Mapping[TopicPartition, int],
    ) -> ClaimedNext | None:
        """Claim by a statement that also reads watermarks and epochs, and looks at the isolation level on the way.

        Raises:
            ConfigError: The transaction's snapshot is not renewed with each statement.
            MessageError: An id or an aggregate does not fit into the index.
        """
        if not event_ids or not expected:
            return None
        self.refuse(event_ids)
        keys, wanted = sorted(set(map(key_of, event_ids))), self._wanted(expected)
        spans = [expected[aggregate] for aggregate in wanted]
        columns = {
            **columns_of(wanted),
            "lowest": [span.start for span in spans],
            "highest": [span.stop - 1 for span in spans],
            **columns_of_partitions(held),
            "epochs": list(held.values()),
        }
        try:
            [row] = await self._sql.fetch(connection, "claim_next", event_ids=keys, **columns)
        except Exception as error:
            if sqlstate_of(error) == UNIQUE_VIOLATION:
                raise IdClaimedError from error
            raise
        claimed, transaction, is_read_committed, is_stale, lasts, tids = row
        _refuse_isolation(is_read_committed=is_read_committed)
        if claimed < len(keys):
            return None
        claims = Claims(frozenset(event_ids), transaction, dict(zip(wanted, json.loads(tids), strict=True)))
        return ClaimedNext(claims, dict(zip(wanted, map(Watermark, json.loads(lasts)), strict=True)), is_stale)

    async def find_claims(self, connection: AnyConnection, event_ids: Sequence[str]) -> set[str]:
        """Look.

        Raises:
            MessageError: An id does not fit into the index, so it was never claimed.
        """
        self.refuse(event_ids)
        ids = {key_of(event_id): event_id for event_id in event_ids}
        rows = await self._sql.fetch(connection, "find_claims", event_ids=sorted(ids)) if ids else []
        return {ids[key] for (key,) in rows}

    async def identify(self, connection: AnyConnection) -> Claims:
        """Ask the server, which names the transaction if it has not yet; some take the name that we have for it."""
        [(transaction,)] = await self._sql.fetch(connection, "identify", transaction=new_name())
        return Claims(transaction=transaction)

    async def release(self, connection: AnyConnection, event_ids: Iterable[str]) -> None:
        """Delete the rows."""
        keys = sorted(map(key_of, event_ids))
        if keys:
            await self._sql.fetch(connection, "release", event_ids=keys)

    async def find_purge(self, connection: AnyConnection) -> datetime | None:
        """Read it, and look at the isolation level on the way.

        Raises:
            ConfigError: The transaction's snapshot is not renewed with each statement.
        """
        [(seconds, is_read_committed)] = await self._sql.fetch(connection, "look")
        _refuse_isolation(is_read_committed=is_read_committed)
        return None if seconds is None else datetime.fromtimestamp(float(seconds), UTC)

    async def find_watermarks(
        self,
        connection: AnyConnection,
        aggregates: Iterable[Aggregate],
    ) -> Mapping[Aggregate, Watermark]:
        """Read without a lock; :meth:`advance` detects a change by another transaction.

        Raises:
            MessageError: Source, aggregate type and aggregate id together do not fit into the index.
        """
        wanted = self._wanted(aggregates)
        rows = await self._sql.fetch(connection, "find_watermarks", **columns_of(wanted)) if wanted else []
        return {wanted[number - 1]: Watermark(last, parked) for number, last, parked in rows}

    async def lock_watermarks(
        self,
        connection: AnyConnection,
        aggregates: Iterable[Aggregate],
    ) -> Mapping[Aggregate, Watermark]:
        """Lock the rows in order, and make those that are not there."""
        wanted = self._wanted(aggregates)
        rows = await self._sql.fetch(connection, "lock_watermarks", **columns_of(wanted)) if wanted else []
        return {Aggregate(*key): Watermark(last, parked) for *key, last, parked in rows}

    async def advance(
        self,
        connection: AnyConnection,
        claims: Claims,
        moves: Sequence[Move],
    ) -> Sequence[Aggregate]:
        """Move the watermarks by conditional statements, and compare how many moved with how many should."""
        if not moves and not claims.transaction:
            return []
        moved, parked = await self._move(connection, claims, moves)
        if moved != len(moves):
            raise WatermarkMovedError(
                f"{len(moves) - moved} of {len(moves)} watermarks were changed by another transaction in the meantime"
            )
        return parked

    async def take_back(self, connection: AnyConnection, claims: Claims) -> bool:
        """Delete the rows that this very transaction wrote: by now another consumer may have claimed the same ids."""
        if not claims.new:
            return False
        keys = sorted(map(key_of, claims.new))
        return bool(await self._sql.fetch(connection, "take_back", event_ids=keys, transaction=claims.transaction))

    async def _claim(self, connection: AnyConnection, keys: Sequence[str]) -> tuple[Sequence[str], str]:
        """Return which keys are new, and the transaction's name unless none is."""
        [(new, transaction, names)] = await self._sql.fetch(connection, "claim", event_ids=keys)
        # As a rule all are, and none need be sent back.
        return (keys if new == len(keys) else json.loads(names or "[]")), transaction if new else ""

    async def _move(
        self, connection: AnyConnection, claims: Claims, moves: Sequence[Move]
    ) -> tuple[int, list[Aggregate]]:
        """Return how many watermarks moved, and what has events parked; the same statement tells the transaction."""
        tids = [claims.tids.get(move.aggregate, "") for move in moves]
        [(moved, transaction, parked)] = await self._sql.fetch(
            connection, "advance", **columns_of_moves(moves), tids=tids
        )
        # A handler may have ended its transaction and begun another, which looks the same from here.
        if claims.transaction and transaction != claims.transaction:
            raise TransactionEndedError(ANOTHER_TRANSACTION)
        return moved, [Aggregate(*names) for names in json.loads(parked or "[]")]

    def _wanted(self, aggregates: Iterable[Aggregate]) -> list[Aggregate]:
        """Return each once, in order, if they can be keys at all."""
        wanted = sorted(set(aggregates))
        if wanted:
            self._refuse("aggregate", wanted)
        return wanted

    def _refuse(self, what: str, keys: Sequence[Sequence[str]]) -> None:
        """Refuse here what the database would refuse with less to say about it."""
        texts = list(map("".join, keys))
        # What no text can be too long for is looked at no closer.
        if (max(map(len, texts)) + len(self._sql.consumer)) * 4 <= _MAX_KEY_BYTES and "\0" not in "".join(texts):
            return
        for columns, text in zip(keys, texts, strict=True):
            size = len(text.encode()) + len(self._sql.consumer.encode())
            if size > _MAX_KEY_BYTES or "\0" in text:
                raise MessageError(
                    f"the {what} {'/'.join(columns)[:80]!r} cannot be a key of the inbox: together with the "
                    f"consumer's name it has {size:,} bytes; the limit is {_MAX_KEY_BYTES:,}, without NUL"
                )


def _refuse_isolation(*, is_read_committed: bool) -> None:
    if not is_read_committed:
        raise ConfigError(
            "the inbox needs READ COMMITTED: an older snapshot would miss events that other processes parked",
            field="EffectsDatabase.connect",
            hint="Do not change the isolation level of the consumer's connections.",
        )


ANOTHER_TRANSACTION = "the transaction that claimed the events was ended, and another one was started"


def columns_of_moves(moves: Sequence[Move]) -> dict[str, list[Any]]:
    """Turn moves into the lists that a statement takes."""
    return {
        **columns_of([move.aggregate for move in moves]),
        "befores": [move.before for move in moves],
        "afters": [move.after for move in moves],
        "parked": [move.parked for move in moves],
    }


def new_name() -> str:
    """Return a name for a transaction, where the database has none."""
    return secrets.token_hex(16)


def columns_of(aggregates: Sequence[Aggregate]) -> dict[str, list[str]]:
    """Turn rows into the lists that a statement takes."""
    sources, aggregate_types, aggregate_ids = map(list, zip(*aggregates, strict=True)) if aggregates else ([], [], [])
    return {"sources": sources, "aggregate_types": aggregate_types, "aggregate_ids": aggregate_ids}
