"""Compare an outbox, its topics and a consumer while all of them run.

The order of reading is what keeps a pipeline that runs from being accused:

1. the group's offsets, then the inbox in one view: an offset is committed after the effects, so that what is below it
   and not in the inbox was passed over;
2. the outbox's heads: what they say was given out is in the topics, or on its way, or lost;
3. where the topics end, and everything up to there: whatever was applied is in it, for it was there before;
4. the heads once more, where a topic holds more than they said: it was given out before it came into the topic.

An event that is *extra* after that was never given out, with one exception: PostgreSQL sends a commit to a connector a
little before others see it, and much before where it waits for a synchronous standby. A *missing*, *behind* or
*parked* event may have been on its way. So each suspect is looked at again, with reads of that moment, until nothing
is left of the suspicion or the time to settle is over; only what was seen at the first look counts, so that new
events never keep it from ending. Each remaining suspect is a difference: an event is lost, or needed longer than that.

All of this holds for the server that is written to. A replica, which lags, makes events look extra.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from cdc_outbox.backoff import Backoff
from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.ordering import Aggregate, time_of
from cdc_outbox.consumer.topic_reader import TopicReader
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.errors import MessageError
from cdc_outbox.event import RecordedEvent
from cdc_outbox.formats.event_format import EventFormat
from cdc_outbox.message import Message
from cdc_outbox.operations.accounts import Accounts, Findings, Sums, notes_of, sums_of
from cdc_outbox.operations.reconciliation import (
    LATE_OR_LOST,
    Circumstances,
    Difference,
    DifferenceKind,
    Parked,
    judge,
    parked_difference,
)
from cdc_outbox.operations.stages import InboxStage, OutboxStage

_BETWEEN_LOOKS = Backoff(0.1, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What a comparison found.

    Args:
        notes: What could not be proven, and what is worth knowing.
    """

    sums: Sequence[Sums]
    findings: Findings
    notes: Sequence[str] = ()
    seconds: float = 0.0


@dataclass(slots=True)
class _Topics:
    """The state of the topics beside their messages."""

    ends: dict[TopicPartition, int] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    starting_later: set[str] = field(default_factory=set)
    compacted: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    """Those that the consumer reads."""


class Verification:
    """One comparison.

    Args:
        inbox: Of the consumer; ``None`` compares outbox and topics only.
        settle_seconds: How long what is on its way may take to arrive before it counts as a difference.
        wait: Waits so many seconds.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        contract: WireContract,
        *,
        outbox: OutboxStage,
        topics: TopicReader,
        inbox: InboxStage | None = None,
        settle_seconds: float = 10.0,
        wait: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._contract, self._outbox, self._reader, self._inbox = contract, outbox, topics, inbox
        self._settle_seconds, self._wait, self._clock = settle_seconds, wait, clock
        self._accounts = Accounts(contract)
        self._topics = _Topics()
        self._parked: dict[Aggregate, list[Parked]] = {}
        """Parked events that have no number, or that cannot be read."""
        self._parked_ids: set[str] = set()
        self._purged_before: datetime | None = None
        # Attributes are headers then, and nothing of the payload needs to be understood.
        self._skips_values = contract.format is EventFormat.PLAIN and contract.foreign is None

    def run(self) -> Verified:
        """Look, look again at the suspects, and return the remaining differences.

        Raises:
            BrokerError, DatabaseError: One of the three cannot be read; trying again may help if ``retryable``.
        """
        began_at = self._clock()
        self._look()
        suspects = self._judge_all()
        pauses = _BETWEEN_LOOKS.within(self._settle_seconds, self._clock)
        left = self._left(suspects)
        while left and (pause := next(pauses, None)) is not None:
            self._wait(pause)
            self._look_again(suspects, left)
            left = self._left(suspects)
        for found, aggregate_type in left:
            self._accounts.findings.add(found, aggregate_type)
        return Verified(
            sums=[
                sums_of(name, self._accounts, self._circumstances(name)) for name in sorted(self._contract.aggregates)
            ],
            findings=self._accounts.findings,
            notes=list(self._notes()),
            seconds=self._clock() - began_at,
        )

    def _look(self) -> None:
        partitions = self._reader.partitions(self._contract.topics)
        if self._inbox is not None:
            self._topics.committed = self._reader.committed(partitions)
            self._topics.taken = self._inbox.topics() or set(self._contract.topics)
            self._read_inbox(self._inbox)
        self._read_heads(is_first=True)
        if self._accounts.unnumbered:
            self._read_ids()
        bounds = self._reader.bounds(partitions)
        self._topics.ends = {tp: end for tp, (_, end) in bounds.items()}
        for message in self._reader.read(bounds):
            event = self._event_of(message)
            if event is not None:
                self._accounts.take(event, message)
        # Asked again: messages that the topic removed during the read do not count as missing.
        starts = {tp: start for tp, (start, _) in self._reader.bounds(partitions).items()}
        self._topics.starting_later = {tp.topic for tp, start in starts.items() if start > 0}
        self._topics.compacted = self._reader.compacted({tp.topic for tp in partitions})
        if any(
            account.numbers and account.numbers.last > account.given for account in self._accounts.accounts.values()
        ):
            self._read_heads(is_first=False)
        self._compare_rows()
        if self._inbox is not None:
            self._forget_applied(self._inbox)

    def _look_again(self, suspects: dict[Aggregate, int], left: Iterable[tuple[Difference, str]]) -> None:
        kinds = {found.kind for found, _ in left}
        if self._inbox is not None:
            with self._inbox.at_one_moment():
                for *names, last in self._inbox.watermarks_of(list(suspects)):
                    self._accounts.account(*names).applied = last
                self._read_parked(self._inbox)
        accounts = (self._accounts.accounts[aggregate] for aggregate in suspects)
        # After the watermarks, which may have passed what the heads said at the first look.
        if DifferenceKind.EXTRA in kinds or any(account.applied > account.given_later for account in accounts):
            self._read_heads(is_first=False)
        if DifferenceKind.MISSING in kinds:
            partitions = self._reader.partitions(self._contract.topics)
            bounds = self._reader.bounds(partitions)
            ends = self._topics.ends
            spans = {tp: (ends.get(tp, start), end) for tp, (start, end) in bounds.items()}
            for message in self._reader.read(spans):
                event = self._event_of(message, is_first_look=False)
                if event is not None:
                    self._accounts.take_later(event, message)
            self._topics.ends = {tp: end for tp, (_, end) in bounds.items()}
        if self._inbox is not None:
            self._forget_applied(self._inbox)

    def _read_inbox(self, inbox: InboxStage) -> None:
        with inbox.at_one_moment():
            self._purged_before = inbox.purged_before()
            for *names, last in inbox.watermarks():
                if last > 0:  # otherwise it is a row to lock
                    self._accounts.account(*names).applied = last
            for *names, first, last in inbox.holes():
                account = self._accounts.account(*names)
                account.holes = [*(account.holes or ()), (first, last)]
            self._read_parked(inbox)

    def _read_parked(self, inbox: InboxStage) -> None:
        for account in self._accounts.accounts.values():
            account.parked = None
        self._parked, self._parked_ids = {}, set()
        for aggregate, topic, event_id, parked in inbox.parked():
            if topic not in self._contract.topics:
                continue  # of another pipeline of the same consumer
            if parked.sequence is None:
                self._parked.setdefault(aggregate, []).append(parked)
                self._parked_ids.add(event_id)
            else:
                account = self._accounts.account(*aggregate)
                account.parked = [*(account.parked or ()), parked]

    def _read_heads(self, *, is_first: bool) -> None:
        for source, aggregate_type, aggregate_id, last in self._outbox.heads():
            if aggregate_type not in self._contract.aggregates:
                self._accounts.strangers[aggregate_type] += is_first
            elif aggregate_type not in self._accounts.unnumbered:
                account = self._accounts.account(source, aggregate_type, aggregate_id)
                if is_first:
                    account.given = last
                account.given_later = last

    def _read_ids(self) -> None:
        for event_id, aggregate_type, *_ in self._outbox.rows():
            unnumbered = self._accounts.unnumbered.get(aggregate_type)
            if unnumbered is not None:
                unnumbered.rows += 1
                unnumbered.lacking.add(event_id)

    def _compare_rows(self) -> None:
        if not self._accounts.accounts:
            return
        for event_id, aggregate_type, aggregate_id, source, sequence in self._outbox.rows():
            aggregate = Aggregate(source or "", aggregate_type, aggregate_id)
            account = self._accounts.accounts.get(aggregate)
            if account is not None and sequence is not None:
                self._accounts.compare_row(event_id, account, aggregate, sequence)

    def _forget_applied(self, inbox: InboxStage) -> None:
        """Let go of the ids that are applied, or of which that cannot be known any more."""
        for unnumbered in self._accounts.unnumbered.values():
            provable = [each for each in unnumbered.unapplied | unnumbered.late if self._is_provable(each)]
            left = set(provable) - inbox.claimed(provable)
            unnumbered.unapplied &= left
            unnumbered.late &= left

    def _is_provable(self, event_id: str) -> bool:
        if self._purged_before is None:
            return True
        made = time_of(event_id)
        return made is not None and made >= self._purged_before

    def _event_of(self, message: Message, *, is_first_look: bool = True) -> RecordedEvent | None:
        try:
            return self._contract.event_of(replace(message, value=None) if self._skips_values else message)
        except MessageError as error:
            if is_first_look:
                self._accounts.unreadable(message, str(error))
            return None

    def _circumstances(self, aggregate_type: str) -> Circumstances:
        topic, topics = self._contract.topic_of(aggregate_type), self._topics
        return Circumstances(
            mode=self._contract.aggregates[aggregate_type],
            consumer=self._inbox.consumer if self._inbox is not None and topic in topics.taken else None,
            has_heads=self._outbox.has_heads,
            starts_later=topic in topics.starting_later,
            is_compacted=topic in topics.compacted,
            committed={tp.partition: offset for tp, offset in topics.committed.items() if tp.topic == topic},
            republishes=self._outbox.republishes,
        )

    def _judge_all(self) -> dict[Aggregate, int]:
        """Note what no later look can change, and return each suspect with the topic's last number of it."""
        suspects = {}
        known = {name: self._circumstances(name) for name in self._contract.aggregates}
        for aggregate, account in self._accounts.accounts.items():
            if aggregate.aggregate_type not in known:  # of another pipeline of the same consumer
                continue
            for found in judge(aggregate, account, known[aggregate.aggregate_type]):
                if found.kind.may_pass:
                    suspects[aggregate] = account.numbers.last if account.numbers else 0
                else:
                    self._accounts.findings.add(found, aggregate.aggregate_type)
        return suspects

    def _left(self, suspects: dict[Aggregate, int]) -> list[tuple[Difference, str]]:
        """Return the remaining differences of the suspects."""
        left = []
        known = {name: self._circumstances(name) for name in self._contract.aggregates}
        for aggregate, until in list(suspects.items()):
            found = judge(aggregate, self._accounts.accounts[aggregate], known[aggregate.aggregate_type], until)
            passing = [(each, aggregate.aggregate_type) for each in found if each.kind.may_pass]
            left.extend(passing)
            if not passing:
                del suspects[aggregate]
        for name, unnumbered in self._accounts.unnumbered.items():
            left.extend((each, name) for each in self._unnumbered(name, unnumbered.lacking, unnumbered.unapplied))
        for aggregate, parked in self._parked.items():
            name = aggregate.aggregate_type
            location = f"{name}/{aggregate.aggregate_id}" if name else "unreadable"
            left.append((parked_difference(location, parked), name))
        return left

    def _unnumbered(self, name: str, lacking: set[str], unapplied: set[str]) -> Iterable[Difference]:
        if lacking and not self._forgets(name):
            message = f"{len(lacking):,} rows are in the outbox but not in the topic, the first is {min(lacking)}."
            remedy = f"{LATE_OR_LOST} They can be published again."
            yield Difference(
                kind=DifferenceKind.MISSING, location=name, events=len(lacking), message=message, remedy=remedy
            )
        waiting = unapplied - self._parked_ids
        if waiting and self._inbox is not None and self._contract.topic_of(name) in self._topics.taken:
            message = (
                f"{len(waiting):,} events that {self._inbox.consumer} has not applied, the first is {min(waiting)}."
            )
            remedy = "Check that the consumer runs. If it is far behind, raise --settle."
            yield Difference(
                kind=DifferenceKind.BEHIND, location=name, events=len(waiting), message=message, remedy=remedy
            )

    def _forgets(self, aggregate_type: str) -> bool:
        return self._contract.topic_of(aggregate_type) in self._topics.starting_later | self._topics.compacted

    def _notes(self) -> Iterable[str]:
        if self._inbox is not None:
            untaken = {tp.topic for tp in self._topics.ends} - self._topics.taken
            for name in sorted(self._contract.aggregates):
                if (topic := self._contract.topic_of(name)) in untaken:
                    reason = f"of {name}, only outbox and topic are compared"
                    yield f"{self._inbox.consumer} has never read {topic}: {reason}"
            if self._accounts.late:
                reason = f"{self._inbox.consumer} was not given time to apply them"
                yield f"events that reached the topics in the meantime: {self._accounts.late:,}; {reason}"
        yield from notes_of(
            self._accounts,
            known_topics={tp.topic for tp in self._topics.ends},
            starting_later=self._topics.starting_later,
            compacted=self._topics.compacted,
            has_heads=self._outbox.has_heads,
            keeps_rows=self._outbox.keeps_rows,
        )
