"""What operators do to parked events. Nothing is applied here: the consumer that owns the partition does that."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import Any

from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.ordering import Aggregate, Move
from cdc_outbox.consumer.parked_events import Reason, State, parked_message
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.errors import InboxError
from cdc_outbox.message import Message
from cdc_outbox.operations.connections import OpenInbox, SequenceHole
from cdc_outbox.operations.parked_rules import (
    FORCED,
    ParkedRow,
    ParkFilter,
    decide_skip,
    hint_not_retried,
    why_not_retried,
)
from cdc_outbox.redaction import enumerated

_PAGE_EVENTS = 100
"""Read at once with their messages, each of which may have megabytes."""
_NAMED = 10
"""Places that an error lists."""


@dataclass(slots=True)
class Retried:
    """What became of events that were to be tried again.

    Args:
        due: Those that are due now.
        left: Those that are not, each with the reason.
    """

    due: list[ParkedRow] = field(default_factory=list)
    left: list[tuple[ParkedRow, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Skipped:
    """An event that was given up.

    Args:
        is_hole: Whether the watermark was moved over it.
    """

    row: ParkedRow
    is_hole: bool = False


class Park:
    """The parked events of one consumer."""

    def __init__(self, inbox: OpenInbox) -> None:
        self._inbox = inbox

    def find(self, wanted: ParkFilter, *, limit: int | None = None, after: int = 0) -> tuple[list[ParkedRow], int]:
        """Return events in the order in which they were parked, and how many there are without the limit.

        Args:
            after: The id behind which to begin.
        """
        rows = self._inbox.ask(
            "find",
            parked_ids=None if wanted.parked_ids is None else list(wanted.parked_ids),
            state=wanted.state,
            reason=wanted.reason,
            source=wanted.source,
            aggregate_type=wanted.aggregate_type,
            aggregate_id=wanted.aggregate_id,
            limit=sys.maxsize if limit is None else limit,
            after=after,
        )
        return [_parked(*columns) for *columns, _ in rows], rows[0][-1] if rows else 0

    def get(self, parked_ids: Sequence[int]) -> list[ParkedRow]:
        """Return events by their numbers.

        Raises:
            InboxError: One is not parked.
        """
        rows, _ = self.find(ParkFilter(parked_ids=tuple(parked_ids)))
        missing = sorted(set(parked_ids) - {row.parked_id for row in rows})
        if missing:
            others, total = self.find(ParkFilter(), limit=_NAMED)
            named = enumerated([str(row.parked_id) for row in others], _NAMED, total=total)
            there = f"there {'is' if total == 1 else 'are'} {named}" if total else "nothing is parked"
            absent = ", ".join(map(str, missing))
            raise InboxError(
                f"no parked event of {self._inbox.consumer} has the id {absent}; {there}",
                hint="Applied and skipped events are no longer parked.",
            )
        return rows

    def read_messages(self, rows: Sequence[ParkedRow]) -> Mapping[int, Message]:
        """Return the messages that events came in, by the ids; events that were applied meanwhile are left out."""
        messages = {}
        known = {row.parked_id: row for row in rows}
        for parked_id, timestamp_ms, key, value, headers in self._inbox.ask("read_messages", parked_ids=list(known)):
            row = known[parked_id]
            came_at = TopicPartition(row.topic, row.partition)
            messages[parked_id] = parked_message(came_at, row.offset, timestamp_ms, key, value, headers)
        return messages

    def export(self, wanted: ParkFilter) -> Iterator[tuple[ParkedRow, Message]]:
        """Yield events with their messages, however many there are."""
        after = 0
        while rows := self.find(wanted, limit=_PAGE_EVENTS, after=after)[0]:
            messages = self.read_messages(rows)
            yield from ((row, messages[row.parked_id]) for row in rows if row.parked_id in messages)
            after = rows[-1].parked_id

    def retry(self, wanted: ParkFilter, *, forced: Set[Reason] = frozenset()) -> Retried:
        """Make events due: of those that are named by their ids all or none, of others what can be.

        Args:
            forced: Reasons in spite of which an event is applied.

        Raises:
            InboxError: An event that was named is not parked, or trying it again would lead nowhere.
        """
        if wanted.parked_ids is not None:
            return self._inbox.transact(partial(self._retry, self.get(wanted.parked_ids), forced, named=True))
        done = Retried()
        # One by one, so that no two consumers wait for an operator at once.
        for _, rows in _by_aggregate(self.find(wanted)[0]):
            part = self._inbox.transact(partial(self._retry, rows, forced, named=False))
            done.due += part.due
            done.left += part.left
        return done

    def skip(self, parked_ids: Sequence[int], *, note: str) -> list[Skipped]:
        """Give events up, all or none.

        Their ids are claimed, so that they are duplicates should they come again. Watermarks are moved over those that
        are numbered, and a hole says why; the events that waited behind them continue.

        Args:
            note: Why, for later audits.

        Raises:
            InboxError: One is not parked, or is numbered and not the next one of its aggregate.
        """
        return self._inbox.transact(partial(self._skip, self.get(parked_ids), note))

    def skip_all(self, wanted: ParkFilter, *, note: str) -> tuple[list[Skipped], list[tuple[ParkedRow, str]]]:
        """Give up what can be given up of the selected events, and return the others with the reasons.

        An aggregate's events are skipped together or left.
        """
        skipped, left = list[Skipped](), list[tuple[ParkedRow, str]]()
        for _, rows in _by_aggregate(self.find(wanted)[0]):
            try:
                skipped += self._inbox.transact(partial(self._skip, rows, note))
            except InboxError as error:
                left += [(row, str(error)) for row in rows]
        return skipped, left

    def _retry(self, rows: Sequence[ParkedRow], forced: Set[Reason], *, named: bool) -> Retried:
        rows, _ = self._locked(rows)
        forcible = [row.event_id for row in rows if row.reason in FORCED]
        claimed = finish(self._inbox.stores.inbox.find_claims(self._inbox.connection, forcible))
        if named and forced and not FORCED & {row.reason for row in rows}:
            reasons = ", ".join(f"{row.parked_id} as {row.reason}" for row in rows)
            meant = ", ".join(sorted(forced))
            raise InboxError(f"none of them is parked as {meant}: {reasons}", hint="Retry without --force.")
        done = Retried()
        for row in rows:
            reason = why_not_retried(row, forced=forced, claimed=claimed)
            if not reason:
                done.due.append(row)
            elif not named:
                done.left.append((row, reason))
            else:
                raise InboxError(
                    f"{row.parked_id} cannot be retried: {reason}", hint=hint_not_retried(row, forced=forced)
                )
        self._forget_starts(done.due)
        self._inbox.ask(
            "retry",
            parked_ids=[row.parked_id for row in done.due],
            forced=[row.reason in FORCED for row in done.due],
        )
        return done

    def _skip(self, rows: Sequence[ParkedRow], note: str) -> list[Skipped]:
        stores, connection = self._inbox.stores, self._inbox.connection
        rows, lasts = self._locked(rows)
        moves, holes = [], []
        for aggregate, chosen in _by_aggregate(rows):
            if aggregate in lasts:
                last = lasts[aggregate]
                skip = decide_skip(chosen, self.find(ParkFilter.of(aggregate))[0], last)
                moves.append(Move(aggregate, last, skip.after, -skip.unblocked))
                holes += [
                    SequenceHole(aggregate, row.sequence or 0, row.sequence or 0, row.event_id) for row in skip.holes
                ]
        finish(stores.inbox.claim(connection, [row.event_id for row in rows if not row.is_unreadable]))
        finish(stores.park.remove(connection, [row.parked_id for row in rows]))
        self._forget_starts(rows)
        moves = [move for move in moves if move.after != move.before or move.parked]
        self._inbox.move(moves, holes, reason="skipped", note=note)
        skipped = {hole.event_id for hole in holes}
        return [Skipped(row, row.event_id in skipped) for row in rows]

    def _locked(self, rows: Sequence[ParkedRow]) -> tuple[list[ParkedRow], Mapping[Aggregate, int]]:
        """Lock the watermarks of events, and return those that are parked still, and where the watermarks stand.

        For a message whose aggregate is unknown, nothing waits.
        """
        aggregates = {row.aggregate for row in rows if row.blocks or not row.is_unreadable}
        watermarks = finish(self._inbox.stores.inbox.lock_watermarks(self._inbox.connection, aggregates))
        still, _ = self.find(ParkFilter(parked_ids=tuple(row.parked_id for row in rows)))
        return still, {aggregate: watermark.last for aggregate, watermark in watermarks.items()}

    def _forget_starts(self, rows: Iterable[ParkedRow]) -> None:
        """Forget the start of an event that was assumed to kill the process, so that it is tried again."""
        for row in rows:
            if row.reason is Reason.CRASHED:
                finish(self._inbox.stores.epochs.forget_start(self._inbox.connection, row.event_id))


def _by_aggregate(rows: Iterable[ParkedRow]) -> list[tuple[Aggregate, list[ParkedRow]]]:
    ordered = sorted(rows, key=lambda row: (row.aggregate, row.parked_id))
    return [(aggregate, list(group)) for aggregate, group in groupby(ordered, key=lambda row: row.aggregate)]


def _parked(*columns: Any) -> ParkedRow:
    parked_id, state, reason, source, aggregate_type, aggregate_id, event_id, kind, sequence, *others = columns
    blocks, forced, attempts, error, parked_at, tried_at, retry_at, topic, partition, offset, turn = others
    return ParkedRow(
        parked_id=parked_id,
        state=State(state),
        reason=Reason(reason),
        aggregate=Aggregate(source, aggregate_type, aggregate_id),
        event_id=event_id,
        type=kind,
        sequence=sequence,
        blocks=bool(blocks),
        forced=bool(forced),
        attempts=attempts,
        error=error,
        parked_at=_moment(parked_at),
        tried_at=_moment(tried_at),
        retry_at=None if retry_at is None else _moment(retry_at),
        topic=topic,
        partition=partition,
        offset=offset,
        turn=turn,
    )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)
