"""Poll, apply, commit the offset: the loop around the inbox transaction.

It is written once, as a coroutine: :class:`~cdc_outbox.consumer.waits.Waits` says what waiting means.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from cdc_outbox.consumer.backlog import Backlog, origin_of
from cdc_outbox.consumer.delivery import Delivered
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.group import Membership, MembershipCheck, pass_over, pause, resume
from cdc_outbox.consumer.item import Item, Outcome, item_of
from cdc_outbox.consumer.limits import Limits
from cdc_outbox.consumer.offsets import is_fetched, is_still_owned, lags_of
from cdc_outbox.consumer.parking import Adoption
from cdc_outbox.consumer.retries import Cause, CircuitBreaker, RetryTracker, cause_of
from cdc_outbox.consumer.session import Session
from cdc_outbox.consumer.start_offsets import refuse_replaced, seek_back, take
from cdc_outbox.consumer.stats import ConsumerStats
from cdc_outbox.consumer.suspects import Suspects
from cdc_outbox.consumer.waits import Waits
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.errors import (
    CdcOutboxError,
    ConfigError,
    ConsumerError,
    DatabaseError,
    HandlerError,
    NoHandlerError,
    OutboxError,
    ParkFullError,
    PartitionLostError,
    TransactionConflictError,
    TransactionEndedError,
    TransactionTimeoutError,
    WatermarkMovedError,
)
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka import reading as kafka_reading

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
"""How long an idle consumer may take to notice that it is to stop."""
_ALIVE_SECONDS = 1.0
"""How often a consumer polls that has enough to do."""
_MOMENT_SECONDS = 0.1
"""Between events that were not tried yet in an outage."""
_MAX_STARTS = 3
"""How often an event may be begun and not ended before it is parked as the one that kills the process."""


class Loop:
    """One run of a consumer, from its connection to the group until it stops."""

    def __init__(
        self,
        member: Membership,
        session: Session,
        *,
        contract: WireContract,
        limits: Limits,
        retries: RetryTracker,
        stats: ConsumerStats,
        waits: Waits,
    ) -> None:
        self._client, self._poller = member.client, member.poller
        self._offsets, self._ownership, self._partitions = member.offsets, member.ownership, member.partitions
        self._session = session
        self._contract, self._limits, self._retries, self._stats = contract, limits, retries, stats
        self._waits = waits
        # A partition that must be given up waits for the batch at hand as long as for a handler that hangs.
        new = partial(Backlog, seconds=min(limits.batch_seconds, limits.handler_seconds / 2), isolated=session.isolated)
        most, most_bytes = limits.batch_events, limits.batch_bytes
        self._fresh, self._redo = new(most, self._read, most_bytes=most_bytes), new(most, most_bytes=most_bytes)
        self._breaker = CircuitBreaker()
        self._suspects = Suspects(session, member.ownership, _MAX_STARTS)
        self._is_new = False  # whether an event is tried for the first time in an outage
        self._adoption = Adoption(contract, partial(waits.call, kafka_reading.find_topics, self._client))
        self._membership_check = MembershipCheck(member, stats, waits)
        self._polled_at = 0.0

    async def run(self, is_stopping: Callable[[], bool]) -> None:
        """Apply events until ``is_stopping`` returns true, or only another client helps.

        Raises:
            CdcOutboxError: The error is not retryable, and no event caused it.
        """
        self._stats.started()
        while not is_stopping() and not await self._membership_check.has_ended():
            await self._take()
            self._offsets.commit(self._client)
            if await self._tried(self._own) and await self._tried(self._look):
                if self._breaker.is_open:
                    await self._try_one()
                else:
                    await self._apply(self._redo)
                    await self._apply(self._fresh)
        self._stats.stopping()

    async def _take(self) -> None:
        """Poll, so that a batch is at hand, and another one to be read while the server works."""
        most = self._limits.batch_events
        if not self._fresh and not self._fresh.unread:
            await self._poll(0.0 if self._redo or self._stats.is_due else _POLL_SECONDS, most)
        while len(self._fresh) < most and self._fresh.read_one():
            pass
        is_enough = len(self._fresh) > most or self._fresh.bytes > self._limits.batch_bytes
        if self._fresh and not is_enough and not self._fresh.unread:
            await self._poll(0.0, most)
        elif time.monotonic() - self._polled_at >= _ALIVE_SECONDS:
            await self._stay()
        self._stats.has_work(waits=bool(self._fresh or self._redo))

    async def _poll(self, seconds: float, events: int) -> None:
        records = await self._waits.call(self._poller.poll, seconds, events, self._limits.batch_bytes)
        self._stats.polled_at = self._polled_at = time.monotonic()
        self._drop_renewed()
        for record in records:
            if record.error():
                pass_over(record, self._stats)
            # What a rebalance took away while it was on its way here comes to its new owner.
            elif self._ownership.owns(origin_of(record)):
                self._fresh.put_unread(record)
                self._stats.reads()

    async def _stay(self) -> None:
        """Poll for the group's sake alone: in a long outage one event a second would fill the memory."""
        await self._waits.call(self._poller.stay)
        self._stats.polled_at = self._polled_at = time.monotonic()
        self._drop_renewed()

    def _read(self, record: "confluent.Message") -> Item:
        return item_of(kafka_reading.message_of(record), self._contract)

    def _drop_renewed(self) -> None:
        """Drop messages polled from partitions that were assigned again since: some may be missing here by now."""
        for tp in self._ownership.take_renewed():
            self._drop(tp)

    def _drop(self, tp: TopicPartition) -> list[int]:
        """Drop what is at hand of a partition, and return the offsets of what of it was polled."""
        self._retries.keep(lambda other: other != tp)
        if self._redo.drop_if(lambda item: item.topic_partition == tp):
            self._look_anew()
        return self._fresh.drop(tp)

    def _look_anew(self) -> None:
        """Leave in the park what was found there: some of it is another consumer's, and the rest may wait for that."""
        self._redo.drop_if(lambda _: True)

    async def _tried(self, step: Callable[[], Awaitable[None]]) -> bool:
        try:
            await step()
        except PartitionLostError as error:
            self._stats.retried(error)
            await self._lost([TopicPartition(*tp) for tp in error.partitions])
            return False
        except CdcOutboxError as error:
            if not error.retryable:
                raise
            self._retries.lost(())
            await self._back_off(error, close=True)
            return False
        return True

    async def _own(self) -> None:
        """Take the assigned partitions from their previous owners, and note where work gets done."""
        self._drop_renewed()
        find = partial(self._waits.call, self._partitions.find)
        with self._poller.busy():
            if await self._session.compare(dict(self._ownership.held), dict(self._ownership.stored)):
                await refuse_replaced(dict(self._ownership.topic_ids), find)
        if self._ownership.unissued:
            partitions = list(self._ownership.unissued)
            with self._poller.busy():
                assignments, starts = await take(partitions, self._session, find)
            self._drop_renewed()  # partitions that were lost meanwhile, and came back
            for tp, start in starts.items():
                self._drop(tp)
                await self._waits.call(self._poller.drop, tp)
                await self._waits.call(seek_back, self._client, tp, start)
                self._offsets.begin(tp, start.offset)
            self._ownership.issued(assignments)
            self._stats.reads()
            self._poller.resume(partitions)
        self._ownership.refuse_other_topics()  # before anything is applied that was polled since
        answered = map(TopicPartition._make, self._offsets.take_answered())
        done = self._ownership.finishing(answered, partial(is_fetched, self._client))
        if done:
            with self._poller.busy():
                await self._session.finish(done)

    async def _look(self) -> None:
        """Look into the park for what is due."""
        self._retries.keep(self._ownership.owns)
        if self._redo or not self._stats.wants_a_look():
            return
        began_at, held = time.monotonic(), dict(self._ownership.held)
        counts = self._stats.wants_counts()
        with self._poller.busy():
            if counts:
                await self._adoption.look(await self._session.find_parked_partitions(), held)
            partitions, most = {*held, *self._adoption.adopted}, (self._limits.batch_events, self._limits.batch_bytes)
            found = await self._session.find_due(partitions, *most, counts=counts)
        due = [row for row in found[0] if self._adoption.takes(row)]
        if found[1] is not None:
            self._stats.looked(found[1], time.monotonic() - began_at)
        # Polled events have no effects yet: a consumer that is stuck with the last ones must not seem idle.
        waiting = self._fresh.waiting()
        lags = {tp: lag + waiting[tp] for tp, lag in lags_of(self._client, held).items()}
        self._stats.lagged(lags, assigned=held)
        self._redo.put([item_of(row.message, self._contract, row, self._adoption.owner_of(row)) for row in due])
        if not self._stats.room.reached:
            resume(self._poller, self._stats)

    async def _try_one(self) -> None:
        """In an outage, try one event, of all that are at hand: the next one that may need nothing of what is away."""
        rank = self._breaker.rank
        found = [(item, backlog) for backlog in (self._fresh, self._redo) if (item := backlog.find_first(rank))]
        if not found or self._ownership.has_suspects:
            await self._apply(self._fresh or self._redo)
            return
        item, backlog = min(found, key=lambda each: rank(each[0]))
        self._is_new = not rank(item)[0]
        self._breaker.tried(item.event)
        if not item.turn.is_ahead:
            backlog.bring_forward(item)
        await self._apply(backlog, ahead=item if item.turn.is_ahead else None)

    async def _apply(self, backlog: Backlog, ahead: Item | None = None) -> None:
        """Apply the next batch, or an event before its turn."""
        is_alone = self._suspects.is_one if self._ownership.has_suspects else None
        # Parked events come in order: where one is another consumer's, the others are read again.
        partitions = None if backlog is self._redo else self._ownership.held
        taken = [ahead] if ahead else backlog.take(partitions, is_alone, most=1 if self._breaker.is_open else None)
        held = self._ownership.epochs_of(item.topic_partition for item in taken)
        items: Sequence[Item] = [item for item in taken if item.topic_partition in held]  # some may be lost by now
        if backlog is self._redo and len(items) < len(taken):
            self._look_anew()
            return
        if not items:
            return
        begun_at = time.monotonic()
        try:
            with self._poller.busy():
                await self._session.open()
                begun_at = time.monotonic()  # what it takes to connect is no handler's fault
                items = await self._suspects.begun(items)
                stored = dict(self._ownership.stored)  # which a callback may change meanwhile
                meanwhile = self._fresh.read_one
                delivered = await self._session.apply(items, held, self._stats.room, meanwhile, stored=stored)
                # Who waits for the end of this wants these offsets to be committed, before the partitions go.
                self._done(backlog, items, delivered, time.monotonic() - begun_at)
        except CdcOutboxError as error:
            begun, seconds = items if self._stats.handler_at >= begun_at else (), time.monotonic() - begun_at
            error = self._retries.blamed(error, begun, seconds, self._limits.handler_seconds)
            await self._failed(backlog, items, error)
        else:
            self._stats.applied(items, delivered, time.monotonic() - begun_at)

    def _done(self, backlog: Backlog, items: Sequence[Item], delivered: Delivered, seconds: float) -> None:
        # A crash before this line repeats the events, and their claims tell; after it, they are done with.
        last = {item.topic_partition: item for item in items if item.parked is None}
        for tp, item in last.items():
            if tp in self._ownership.held:
                self._ownership.stored[tp] = item.next_offset
                if not item.turn.is_ahead:
                    self._offsets.done(item.last)
        if items[0].turn.is_ahead:
            backlog.done_before_its_turn(items[0])
        if self._ownership.has_suspects:
            for item in items:
                self._ownership.survived(item.topic_partition)
        backlog.size.succeeded(len(items), seconds)
        self._pass_over_chains(items, delivered)
        self._retries.forget(items)
        self._applied(items, delivered)

    def _applied(self, items: Sequence[Item], delivered: Delivered) -> None:
        was_open = self._breaker.is_open
        outcomes = zip(items, delivered.outcomes, strict=True)
        self._breaker.succeeded(item.event.type for item, outcome in outcomes if outcome is Outcome.APPLIED)
        if was_open and not self._breaker.is_open:
            _log.warning("an event was applied, so systems that handlers need are not waited for any more")

    def _pass_over_chains(self, items: Sequence[Item], delivered: Delivered) -> None:
        """Leave in the park what waits there behind an event that stays there."""
        stuck = {
            item.aggregate
            for item, outcome in zip(items, delivered.outcomes, strict=True)
            if item.parked is not None and item.parked.blocks and outcome is Outcome.PARKED
        }
        if stuck:
            self._redo.drop_if(lambda item: item.aggregate in stuck)

    async def _failed(self, backlog: Backlog, items: Sequence[Item], error: CdcOutboxError) -> None:
        match error:
            case PartitionLostError():
                self._stats.retried(error)
                backlog.put_back(items)
                backlog.size.conflicted()
                await self._lost([TopicPartition(*tp) for tp in error.partitions])
            # Its handler's own fault, unless none was to run.
            case TransactionTimeoutError() if any(item.failure is None for item in items):
                await self._close()
                await self._one_failed(backlog, items, error)
            case TransactionConflictError() | WatermarkMovedError() | NoHandlerError():
                backlog.put_back(items)
                backlog.size.conflicted()
                await self._back_off(error, close=False)
            case _ if error.retryable:
                backlog.put_back(items)
                await self._back_off(error, close=True)
            case TransactionEndedError() | ConfigError() | DatabaseError() | OutboxError():
                raise error
            case HandlerError() if (cause := cause_of(error.__cause__)) and not self._retries.is_hopeless(error):
                await self._refused(backlog, items, error, cause)
            case ConsumerError():
                await self._one_failed(backlog, items, error)
            case _:
                raise error

    async def _refused(self, backlog: Backlog, items: Sequence[Item], error: HandlerError, cause: Cause) -> None:
        """Decide whether a system that refused a handler is the trouble of one event, or of all."""
        was_open, is_alone = self._breaker.is_open, len(items) == 1
        if cause.is_conflict and not was_open and (not is_alone or self._retries.excuses(items[0])):
            backlog.put_back(items)
            backlog.size.conflicted()
            await self._back_off(error, close=False)
        # What comes out of the park is no evidence: all of it failed before, and most of the others may do well.
        elif is_alone and (was_open or not items[0].parked) and self._breaker.failed(items[0].event, cause):
            if not was_open:
                _log.error("handlers of several aggregates fail alike", extra={"reason": str(cause)})
            backlog.put_back(items)
            outage = f"systems that handlers need ({self._breaker.cause})"
            await self._back_off(error, close=False, outage=outage, at_once=was_open and self._is_new)
        else:
            # Of a host that others do not need it is known already that waiting a moment is in vain.
            await self._one_failed(backlog, items, error, at_once=cause.host == self._breaker.last_host != "")

    async def _one_failed(
        self, backlog: Backlog, items: Sequence[Item], error: CdcOutboxError, *, at_once: bool = False
    ) -> None:
        """Find the culprit by going through the batch one by one; then try it again, or set it aside."""
        self._stats.failed()
        is_ahead = items[0].turn.is_ahead
        if self._breaker.is_open and not (is_ahead and isinstance(error, ParkFullError)):
            self._breaker.close()  # it fails in another way, so that the consumer waits for nothing that it needs
        if is_ahead:
            return
        if len(items) > 1:
            backlog.put_back(items)
            backlog.size.failed(len(items))
            return
        [item] = items
        if isinstance(error, ParkFullError):
            self._fresh.drop(item.topic_partition)
            pause(self._client, self._poller, self._stats, item, error)
            return
        if item.failure is not None:  # not its handler: it cannot even be parked
            raise error
        judged, seconds = self._retries.judge(item, error, at_once=at_once)
        backlog.put_back([judged])
        if seconds is not None:
            await self._sleep(seconds)

    async def _back_off(self, error: CdcOutboxError, *, close: bool, outage: str = "", at_once: bool = False) -> None:
        if close:
            await self._close()
        seconds = _MOMENT_SECONDS if at_once else self._retries.next_pause()
        self._stats.retried(error, outage, seconds=seconds)
        await self._sleep(seconds)

    async def _close(self) -> None:
        with self._poller.busy():
            await self._session.close()

    async def _sleep(self, seconds: float) -> None:
        with self._poller.busy(may_hang=False):
            await self._waits.sleep(seconds)

    async def _lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Give up partitions that the database gave to another consumer, unless Kafka still assigns them to this one.

        Who was given a partition, and took it in the database only after it had lost it again, is that other consumer:
        then the owner takes it back.
        """
        for tp in partitions:
            dropped = [*self._drop(tp), *self._poller.drop(tp)]
            self._ownership.lose([tp])
            first = min(dropped, default=None)
            if await self._waits.call(is_still_owned, self._client, tp, first):
                self._ownership.assign([tp])
            _log.warning(
                "partition was taken by another consumer", extra={"topic": tp.topic, "partition": tp.partition}
            )
