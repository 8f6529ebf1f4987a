"""Give a consumer messages again that are in the topics already.

A replay takes part in no group, commits no offset and owns no partition: it is issued no epoch, and needs none. What an
epoch keeps a zombie from is to work on what its successor works on, and between a replay and the consumer that runs
beside it the inbox decides that: who claims an id second waits for the first one and finds a duplicate, and a watermark
moves only from where it was read. So each event has its effects once, and an aggregate's in order, whichever of the two
applies them. What a replay sets aside is the owner's to try again.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

from cdc_outbox.consumer.backlog import Backlog
from cdc_outbox.consumer.delivery import Delivered
from cdc_outbox.consumer.handlers import ours_of
from cdc_outbox.consumer.item import Item, Outcome, item_of
from cdc_outbox.consumer.limits import Limits
from cdc_outbox.consumer.ordering import (
    Aggregate,
    Judgement,
    Memory,
    Verdict,
    Watermark,
    aggregate_of,
    judge,
    orders_of,
)
from cdc_outbox.consumer.parked_events import REASONS
from cdc_outbox.consumer.retries import CircuitBreaker, RetryTracker, cause_of
from cdc_outbox.consumer.session import Session
from cdc_outbox.consumer.topic_reader import Selection, TopicReader, refuse_ahead
from cdc_outbox.consumer.waits import Waits
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.errors import (
    ConsumerError,
    HandlerError,
    MessageError,
    ParkFullError,
    TransactionConflictError,
    TransactionEndedError,
    WatermarkMovedError,
)
from cdc_outbox.message import Message

_CONFLICT_SECONDS = 0.05
"""How long to stay out of the way of the consumer that works on the same aggregates."""


class Fate(StrEnum):
    """The outcome of a message in a replay."""

    APPLIED = "applied"
    """Its effects are committed, for the first time; it may have no handler."""
    DUPLICATE = "duplicate"
    """It had been applied before, or a later state of its aggregate, or this replay has parked it."""
    PARKED = "parked"
    """It was set aside: its handler failed, or a predecessor is missing or parked."""
    WAITING = "waiting"
    """It had been set aside before, and still is."""
    LEFT_OUT = "left out"
    """It is not next, and its id is unknown: another event holds its place, or it was applied and is forgotten."""
    UNREADABLE = "unreadable"
    """Its message does not keep the contract."""


_FATES = {
    Verdict.NEXT: Fate.APPLIED,
    Verdict.DUPLICATE: Fate.DUPLICATE,
    Verdict.SUPERSEDED: Fate.DUPLICATE,
    Verdict.PARKED: Fate.WAITING,
    Verdict.GAP: Fate.PARKED,
    Verdict.BEHIND: Fate.PARKED,
    Verdict.CONFLICT: Fate.LEFT_OUT,
    Verdict.EXPIRED: Fate.LEFT_OUT,
}
_OUTCOMES = {
    Outcome.APPLIED: Fate.APPLIED,
    Outcome.UNHANDLED: Fate.APPLIED,
    Outcome.DUPLICATE: Fate.DUPLICATE,
    Outcome.SUPERSEDED: Fate.DUPLICATE,
    Outcome.PARKED: Fate.PARKED,
}


@dataclass(slots=True)
class Replayed:
    """The result of a replay, or of a dry run.

    Args:
        fates: The number of messages by outcome.
        examples: The first event of each outcome.
        passed_over: The types of events that were read and not selected, with their numbers.
        is_complete: Whether the replay reached its end, and was not stopped.
    """

    fates: Counter[Fate] = field(default_factory=Counter)
    examples: dict[Fate, str] = field(default_factory=dict)
    passed_over: Counter[str] = field(default_factory=Counter)
    is_complete: bool = True

    def add(self, fate: Fate, example: object) -> None:
        """Count one."""
        self.fates[fate] += 1
        self.examples.setdefault(fate, str(example))


class Replay:
    """One replay into one consumer.

    Args:
        rate: How many events a second are given to handlers at most.
    """

    def __init__(
        self,
        session: Session,
        reader: TopicReader,
        *,
        contract: WireContract,
        limits: Limits,
        retries: RetryTracker,
        waits: Waits,
        rate: float | None = None,
    ) -> None:
        self._session, self._reader, self._contract = session, reader, contract
        self._order_of = orders_of(contract).__getitem__
        self._limits, self._retries, self._waits = limits, retries, waits
        self._rate = rate
        # No batch of more than a second, or handlers would run in bursts.
        most = limits.batch_events if rate is None else max(1, min(limits.batch_events, int(rate)))
        self._backlog = Backlog(
            most, seconds=limits.batch_seconds, most_bytes=limits.batch_bytes, isolated=session.isolated
        )
        self._room = limits.room
        self._breaker = CircuitBreaker()
        self._replayed = Replayed()

    async def run(
        self, selection: Selection, *, dry_run: bool = False, is_stopping: Callable[[], bool] = lambda: False
    ) -> Replayed:
        """Give the consumer what is selected, as far as it is in the topics when this begins.

        Args:
            dry_run: Return the outcome of each, as far as it is known without its handler; write nothing.

        Raises:
            ConfigError: The selection passes over events that the consumer has not read yet, see :func:`refuse_ahead`.
            ParkFullError: More events must be set aside than the limits allow.
            CdcOutboxError: No single event caused it; committed events stay committed, and a second run skips them.
        """
        spans = await self._waits.call(self._reader.spans, selection, self._contract)
        await self._waits.call(refuse_ahead, selection, self._reader, self._contract, spans)
        messages = self._reader.read(spans)
        imagined = Imagined()
        _, counts = await self._session.find_due((), 0)
        self._room = self._room.without(
            sum(count.events for count in counts or ()), sum(count.bytes for count in counts or ())
        )
        while items := await self._waits.call(self._next, messages, selection):
            if is_stopping():
                self._replayed.is_complete = False
                break
            items, remembered = await self._recall(items)
            memory = imagined.added_to(remembered)
            judgements = judge([item.event for item in items], memory, self._order_of)
            if dry_run:
                imagined.apply(judgements, memory)
            # A stale event under an unseen id would be parked, for an operator to decide event by event. When it
            # came for the first time that was right.
            wanted = [
                item
                for item, judgement in zip(items, judgements, strict=True)
                if not self._count(judgement, everything=dry_run)
            ]
            await self._apply(wanted, is_stopping)
            if self._backlog:
                self._replayed.is_complete = False
                break
        return self._replayed

    def _next(self, messages: Iterator[Message], selection: Selection) -> list[Item]:
        return list(islice(self._selected(messages, selection), self._limits.batch_events))

    def _selected(self, messages: Iterable[Message], selection: Selection) -> Iterator[Item]:
        for message in messages:
            item = item_of(message, self._contract)
            if item.is_unreadable:
                self._replayed.add(Fate.UNREADABLE, message.position)
            elif selection.takes(item.event):
                yield item
            else:
                self._replayed.passed_over[item.event.type] += 1

    async def _recall(self, items: list[Item]) -> tuple[list[Item], Memory]:
        """Return what is remembered of events, without those that no inbox can take."""
        try:
            return items, await self._session.recall([item.event for item in items])
        except MessageError:
            fitting = [item for item in items if await self._fits(item)]
            return fitting, await self._session.recall([item.event for item in fitting])

    async def _fits(self, item: Item) -> bool:
        try:
            await self._session.recall([item.event])
        except MessageError:
            self._replayed.add(Fate.UNREADABLE, item.message.position)
            return False
        return True

    def _count(self, judgement: Judgement, *, everything: bool) -> bool:
        """Count an event whose fate is known from its verdict, and return whether it is."""
        fate = _FATES[judgement.verdict]
        if judgement.verdict is Verdict.EXPIRED and judgement.event.sequence is not None:
            fate = Fate.DUPLICATE  # the watermark shows what the id no longer can
        if fate in {Fate.APPLIED, Fate.PARKED} and not everything:
            return False
        self._replayed.add(fate, judgement.event)
        return True

    async def _apply(self, items: Sequence[Item], is_stopping: Callable[[], bool]) -> None:
        self._backlog.put(items)
        while self._backlog and not is_stopping():  # for then no wait waits, and what is in the way may stay there
            batch = self._backlog.take()
            began_at = time.monotonic()
            try:
                delivered = await self._session.apply(batch, {}, self._room)
            except (TransactionConflictError, WatermarkMovedError):
                await self._conflicted(batch)
            except (ParkFullError, TransactionEndedError):
                raise
            except ConsumerError as error:
                await self._failed(batch, error)
            else:
                self._done(batch, delivered, time.monotonic() - began_at)
                if self._rate is not None:
                    await self._waits.sleep(max(0.0, len(batch) / self._rate - (time.monotonic() - began_at)))

    def _done(self, batch: Sequence[Item], delivered: Delivered, seconds: float) -> None:
        self._room = self._room.without(sum(delivered.parked.values()), delivered.parked_bytes)
        self._backlog.size.succeeded(len(batch), seconds)
        self._retries.forget(batch)
        for item, outcome in zip(batch, delivered.outcomes, strict=True):
            self._replayed.add(_OUTCOMES[outcome], item.event)
            if outcome is Outcome.APPLIED:
                self._breaker.succeeded([item.event.type])

    async def _conflicted(self, batch: Sequence[Item]) -> None:
        self._backlog.put_back(batch)
        self._backlog.size.conflicted()
        await self._waits.sleep(_CONFLICT_SECONDS)

    async def _failed(self, batch: Sequence[Item], error: ConsumerError) -> None:
        """Go through the batch one by one; what fails alone is tried again, and then parked."""
        if error.retryable or (len(batch) == 1 and batch[0].failure is not None):
            raise error
        cause = cause_of(error.__cause__) if isinstance(error, HandlerError) else None
        if cause is not None and cause.is_conflict and (len(batch) > 1 or self._retries.excuses(batch[0])):
            await self._conflicted(batch)
            return
        if cause is not None and len(batch) == 1 and self._breaker.failed(batch[0].event, cause):
            # A replay does not wait for the end of an outage: the operator runs a failed one again.
            assert error.__cause__ is not None  # noqa: S101 - it has a cause
            raise ours_of(error.__cause__) or error
        if len(batch) > 1:
            self._backlog.put_back(batch)
            self._backlog.size.failed(len(batch))
            return
        judged, pause = self._retries.judge(batch[0], error)
        self._backlog.put_back([judged])
        if pause is not None:
            await self._waits.sleep(pause)


@dataclass(slots=True)
class Imagined:
    """What a consumer would remember after what a dry run did not do. Pure."""

    watermarks: dict[Aggregate, Watermark] = field(default_factory=dict)
    applied: set[str] = field(default_factory=set)
    parked: set[str] = field(default_factory=set)

    def added_to(self, memory: Memory) -> Memory:
        """Return a memory as if it had been done."""
        watermarks: Mapping[Aggregate, Watermark] = {**memory.watermarks, **self.watermarks}
        return Memory(
            unseen=memory.unseen - self.applied,
            watermarks=watermarks,
            parked=memory.parked | self.parked,
            purged_before=memory.purged_before,
        )

    def apply(self, judgements: Sequence[Judgement], memory: Memory) -> None:
        """Take note of what these would have done."""
        for judgement in judgements:
            event, event_id = judgement.event, judgement.event.id
            aggregate = aggregate_of(event)
            watermark = self.watermarks.get(aggregate, memory.watermarks.get(aggregate, Watermark()))
            if judgement.verdict is Verdict.NEXT:
                self.applied.add(event_id)
                if event.sequence is not None:
                    self.watermarks[aggregate] = watermark._replace(last=max(watermark.last, event.sequence))
            elif judgement.verdict in {Verdict.GAP, Verdict.BEHIND}:
                self.parked.add(event_id)
                blocks = REASONS[judgement.verdict].blocks
                self.watermarks[aggregate] = watermark._replace(parked=watermark.parked + blocks)
