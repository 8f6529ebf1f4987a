"""First contact in the middle of a history: accept earlier events as missing, and continue those that wait.

A consumer that needs no history at all begins at the end of its topics, with the last numbers that they hold.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from cdc_outbox.consumer.claims import columns_of
from cdc_outbox.consumer.fencing import OffsetMove
from cdc_outbox.consumer.ordering import Aggregate, Move, aggregate_of
from cdc_outbox.consumer.topic_reader import TopicReader
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.drivers.immediate import finish
from cdc_outbox.errors import ConsumerError, InboxError, MessageError
from cdc_outbox.operations.connections import OpenInbox, SequenceHole
from cdc_outbox.redaction import counted, enumerated

_AGGREGATES = 100
"""Decided about in one transaction: it is over before a consumer notices that it waits."""
_NAMED = 10
"""Aggregates that an error lists."""


@dataclass(frozen=True, slots=True)
class Gap:
    """An aggregate whose parked events wait for one that is missing.

    Args:
        last: Its watermark.
        lowest: The lowest sequence that is parked.
        parked: How many of its events wait.
    """

    aggregate: Aggregate
    last: int
    lowest: int
    parked: int

    def __str__(self) -> str:
        """Return the gap in one line."""
        source, aggregate_type, aggregate_id = self.aggregate
        first, last = self.hole.first, self.hole.last
        numbers = f"{first}" if first == last else f"{first} to {last}"
        return f"{numbers} of {aggregate_type}/{aggregate_id} ({source}), with {counted(self.parked, 'event')} waiting"

    @property
    def missing(self) -> int:
        """How many sequences are accepted as missing."""
        return self.lowest - 1 - self.last

    @property
    def move(self) -> Move:
        """The watermark's way over the hole."""
        return Move(self.aggregate, self.last, self.lowest - 1)

    @property
    def hole(self) -> SequenceHole:
        """The sequences to note as accepted."""
        return SequenceHole(self.aggregate, self.last + 1, self.lowest - 1)


def chosen(gaps: Iterable[Gap], named: Aggregate | None) -> list[Gap]:
    """Return those gaps that a baseline closes: of aggregates never seen before, or of the one that is named.

    In the middle of an aggregate that was followed from its start, a missing event is a lost one.
    """
    return [gap for gap in gaps if (gap.last == 0 if named is None else gap.aggregate == named)]


def find_gaps(inbox: OpenInbox, aggregates: Sequence[Aggregate] | None = None) -> list[Gap]:
    """Return where an event is missing, of these aggregates or of all."""
    of_any = dict.fromkeys(columns_of([]))
    rows = inbox.ask("find_gaps", **(of_any if aggregates is None else columns_of(aggregates)))
    return [Gap(Aggregate(source, kind, number), *counts) for source, kind, number, *counts in rows]


class Baseline:
    """The baseline of one consumer.

    Args:
        named: The one aggregate that it is about, of which events may be given up for lost.
    """

    def __init__(self, inbox: OpenInbox, named: Aggregate | None = None) -> None:
        self._inbox = inbox
        self._named = named

    def find(self) -> list[Gap]:
        """Return what there is to accept.

        Raises:
            InboxError: The aggregate that was named waits for nothing; it says which do.
        """
        gaps = find_gaps(self._inbox)
        found = chosen(gaps, self._named)
        if self._named is not None and not found:
            names = [f"{kind}/{number} of {source}" for source, kind, number in (gap.aggregate for gap in gaps)]
            there = f"these do: {enumerated(names, _NAMED)}" if names else "no other aggregate does"
            source, kind, number = self._named
            message = f"{kind}/{number} of {source!r} does not wait for a missing event; {there}"
            raise InboxError(message, hint="Name one that does, or omit the aggregate to accept all of them.")
        return found

    def count_unreadable(self) -> int:
        """Return how many parked messages cannot be read; the missing events may be among them."""
        [(events,)] = self._inbox.ask("count_unreadable")
        return int(events)

    def accept(self, gaps: Sequence[Gap], *, note: str | None) -> list[Gap]:
        """Accept what is missing, and return where that was done; what came meanwhile is not missing any more."""
        done: list[Gap] = []
        for first in range(0, len(gaps), _AGGREGATES):
            aggregates = [gap.aggregate for gap in gaps[first : first + _AGGREGATES]]
            done += self._inbox.transact(partial(self._accept, aggregates, note))
        return done

    def _accept(self, aggregates: Sequence[Aggregate], note: str | None) -> list[Gap]:
        finish(self._inbox.stores.inbox.lock_watermarks(self._inbox.connection, aggregates))
        gaps = chosen(find_gaps(self._inbox, aggregates), self._named)
        self._inbox.move([gap.move for gap in gaps], [gap.hole for gap in gaps], reason="baseline", note=note)
        return gaps


_PAGE = 10_000
"""Watermarks that one statement stores."""


def begin_from_now(inbox: OpenInbox, topics: TopicReader, contract: WireContract, *, dry_run: bool) -> dict[str, int]:
    """Have a consumer that has done nothing yet begin at the end of its topics, in one transaction.

    Return how many partitions and aggregates these are, and how many messages cannot be read.

    Raises:
        ConsumerError: The consumer has begun, or its topics do not exist. Nothing was changed.
        BrokerError, DatabaseError: A server cannot be asked.
    """
    partitions = topics.partitions(contract.topics)
    if missing := set(contract.topics) - {tp.topic for tp in partitions}:
        hint = "Create them first: events that are written until then would have no baseline."
        raise ConsumerError(f"there is no topic {', '.join(sorted(missing))}; nothing was changed", hint=hint)
    [(is_known,)] = inbox.ask("is_known")
    if is_known or topics.members(inbox.consumer) or topics.committed(partitions):
        hint = "Choose another name for the consumer, or run `baseline` without --from-now."
        raise ConsumerError(f"the consumer {inbox.consumer} has begun to read; nothing was changed", hint=hint)
    bounds, ids = topics.bounds(partitions), topics.ids(contract.topics)
    lasts, unreadable = dict[Aggregate, int](), 0
    for message in topics.read(bounds):
        try:
            event = contract.event_of(message)
        except MessageError:
            unreadable += 1
            continue
        if event.sequence is not None:
            aggregate = aggregate_of(event)
            lasts[aggregate] = max(event.sequence, lasts.get(aggregate, 0))

    def store() -> None:
        epochs, connection, aggregates = inbox.stores.epochs, inbox.connection, list(lasts)
        held = {tp: each.epoch for tp, each in finish(epochs.issue(connection, partitions, ids)).items()}
        moves = {tp: OffsetMove(None, end) for tp, (_, end) in bounds.items()}
        finish(epochs.store_offsets(connection, held, moves))
        finish(epochs.finish(connection, held))
        for start in range(0, len(aggregates), _PAGE):
            page = aggregates[start : start + _PAGE]
            numbers = [lasts[aggregate] for aggregate in page]
            inbox.database("reset").ask("keep_watermarks", consumer=inbox.consumer, **columns_of(page), lasts=numbers)

    if not dry_run:
        inbox.transact(store)
    return {"partitions": len(partitions), "aggregates": len(lasts), "unreadable": unreadable}
