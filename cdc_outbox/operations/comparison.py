"""Rows of an outbox compared with their topics, and with what a consumer applied.

A log's position says what a connector has passed, and not what it has sent: a table that was out of the publication
for an hour, a slot that was advanced by hand, an offset of another server leave rows out, and the position advances.
The topic is the durable witness of all of them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.ordering import Aggregate, aggregate_of
from cdc_outbox.consumer.topic_reader import TopicReader
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.drivers import Row
from cdc_outbox.errors import MessageError, UnprovenDeliveryError
from cdc_outbox.event import RecordedEvent, SequenceMode
from cdc_outbox.formats.event_format import EventFormat
from cdc_outbox.message import Message
from cdc_outbox.operations.reconciliation import Numbers, fingerprint
from cdc_outbox.operations.stages import InboxStage

Ends = Mapping[str, int]
"""``topic/partition/cluster's id/topic's id`` → the offset that its next message will have."""
ReadRows = Callable[[], Iterator[Row]]
"""Reads id, aggregate type, aggregate id, source and sequence number of each row, from the first one at each call."""

REPUBLISH = "`cdc-outbox deploy-connector --earlier-events republish` publishes the rows of the table again."
_RETENTION = " If retention has removed the messages, --consumer counts the events that a consumer has applied."


@dataclass(slots=True)
class _Held:
    """The events that were read from the topics.

    Args:
        numbers: With the first event's id for each number.
        others: Ids of events that came later under a number that had another event's id: a database that went back
            has given it out again.
        lacking: Ids of rows without a sequence number that no message has had yet.
    """

    numbers: dict[Aggregate, Numbers] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    lacking: set[str] = field(default_factory=set)

    def take(self, event: RecordedEvent) -> None:
        """Note an event that a topic holds."""
        self.lacking.discard(event.id)
        if event.sequence is not None:
            aggregate = aggregate_of(event)
            own = fingerprint(event.id)
            if self.numbers.setdefault(aggregate, Numbers()).add(event.sequence, own) != own:
                self.others.add(event.id)

    def has(self, row: Row) -> bool:
        """Return whether a message had a row's id and its sequence number, where it has one."""
        event_id, *_, sequence = row
        if sequence is None:
            return event_id not in self.lacking
        return self._holder(row) == fingerprint(event_id) or event_id in self.others

    def conflicts(self, row: Row) -> bool:
        """Return whether a message had a row's sequence number, and none had it with the row's id."""
        return not self.has(row) and self._holder(row) is not None

    def _holder(self, row: Row) -> int | None:
        """Return the fingerprint of the first id that came with a row's sequence number."""
        numbers = self.numbers.get(_aggregate(row))
        return None if numbers is None or row[4] is None else numbers.get(row[4])


class TopicComparison:
    """Finds rows that are in no topic.

    Args:
        inbox: Of a consumer whose applied events count as published, for topics that forget messages.
    """

    def __init__(self, contract: WireContract, topics: TopicReader, inbox: InboxStage | None = None) -> None:
        self._contract = contract
        self._topics = topics
        self._inbox = inbox
        # Attributes are headers then, and nothing of the payload needs to be understood.
        self._skips_values = contract.format is EventFormat.PLAIN and contract.foreign is None

    def ends(self) -> dict[str, int]:
        """Return where the topics end now; messages of later commits are behind these ends."""
        return {key: end for key, (_, end) in self._find_ends().items()}

    def find_starts(self, ends: Ends) -> dict[TopicPartition, int] | None:
        """Return where what came since a comparison begins.

        Args:
            ends: Of the topics at that time.

        Returns:
            ``None`` if a topic was deleted or created again since, or ends earlier: it may have lost what was found.
        """
        now = self._find_ends()
        if any(key not in now or now[key][1] < end for key, end in ends.items()):
            return None
        return {tp: ends[key] for key, (tp, _) in now.items() if key in ends}

    def _find_ends(self) -> dict[str, tuple[TopicPartition, int]]:
        partitions = self._topics.partitions(self._contract.topics)
        ids = self._topics.ids({tp.topic for tp in partitions})
        return {
            "/".join((tp.topic, str(tp.partition), *ids[tp.topic])): (tp, end)
            for tp, (_, end) in self._topics.bounds(partitions).items()
        }

    def refuse_missing(self, read_rows: ReadRows, since: Mapping[TopicPartition, int] | None = None) -> None:
        """Refuse rows that no message and no applied event proves to be published.

        Each message is read once: from ``since`` on, and only where a row is missing there, what lies before.

        Args:
            since: Where the topics ended before the rows were committed, as far as that is known.

        Raises:
            UnprovenDeliveryError: There are such rows.
        """
        held = _Held()
        held.lacking.update(row[0] for row in read_rows() if row[4] is None)
        bounds = self._topics.bounds(self._topics.partitions(self._contract.topics))
        starts = {tp: max(first, (since or {}).get(tp, first)) for tp, (first, _) in bounds.items()}
        self._read(held, {tp: (starts[tp], end) for tp, (_, end) in bounds.items()})
        if since and any(not held.has(row) for row in read_rows()):
            self._read(held, {tp: (first, starts[tp]) for tp, (first, _) in bounds.items()})
        missing = [row for row in read_rows() if not held.has(row)]
        if missing and self._inbox is not None:
            missing = self._without_applied(self._inbox, held, missing)
        if missing:
            conflicting = [row for row in missing if held.conflicts(row)]
            raise _refusal(missing, conflicting, forgets=any(first for first, _ in bounds.values()))

    def _read(self, held: _Held, spans: Mapping[TopicPartition, tuple[int, int]]) -> None:
        for message in self._topics.read(spans):
            event = self._event_of(message)
            if event is not None:
                held.take(event)

    def _event_of(self, message: Message) -> RecordedEvent | None:
        try:
            return self._contract.event_of(replace(message, value=None) if self._skips_values else message)
        except MessageError:  # it proves nothing
            return None

    def _without_applied(self, inbox: InboxStage, held: _Held, missing: Iterable[Row]) -> list[Row]:
        """Return those rows that the consumer has not applied: by its watermark, else by the ids that it keeps.

        Of a number that another event has in the topics, the watermark tells that one of the two was applied.
        """
        rows = list(missing)
        aggregates = list({_aggregate(row): None for row in rows if self._mode_of(row).is_gapless})
        watermarks = {Aggregate(*names): last for *names, last in inbox.watermarks_of(aggregates)}
        passed = {row[0] for row in rows if self._mode_of(row).is_passed(watermarks.get(_aggregate(row), 0), row[4])}
        left = [row for row in rows if row[0] not in passed or held.conflicts(row)]
        claimed = inbox.claimed([row[0] for row in left])
        return [row for row in left if row[0] not in claimed]

    def _mode_of(self, row: Row) -> SequenceMode:
        is_numbered = row[4] is not None and row[1] in self._contract.aggregates
        return self._contract.aggregates[row[1]] if is_numbered else SequenceMode.NONE


def _aggregate(row: Row) -> Aggregate:
    return Aggregate(row[3] or "", row[1], row[2])


def _refusal(missing: list[Row], conflicting: list[Row], *, forgets: bool) -> UnprovenDeliveryError:
    counts = Counter(row[1] for row in missing)
    types = ", ".join(f"{count:,} of {aggregate_type}" for aggregate_type, count in sorted(counts.items()))
    events = "1 event is" if len(missing) == 1 else f"{len(missing):,} events are"
    return UnprovenDeliveryError(
        f"{events} not in the topics ({types}; the first is {_described(missing[0])}){_conflict(conflicting)}; "
        "nothing was deleted",
        hint=f"{REPUBLISH}{_RETENTION if forgets else ''}",
    )


def _conflict(rows: list[Row]) -> str:
    """Return what else an operator wants to know about rows whose numbers other events have in the topics."""
    if not rows:
        return ""
    which = f"the number of {_described(rows[0])}"
    more = f", and the numbers of {len(rows) - 1:,} more" if len(rows) > 1 else ""
    return f". The topics hold another event under {which}{more}: the database assigned it twice"


def _described(row: Row) -> str:
    event_id, aggregate_type, aggregate_id, _, sequence = row
    number = "" if sequence is None else f" number {sequence},"
    return f"{aggregate_type}/{aggregate_id},{number} id {event_id}"
