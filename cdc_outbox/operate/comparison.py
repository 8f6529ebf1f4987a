"""Rows of an outbox compared with their topics, and with what a consumer applied.

A log's position says what a connector has passed, and not what it has sent: a table that was out of the publication
for an hour, a slot that was advanced by hand, an offset of another server leave rows out, and the position goes on.
The topic is the durable witness of all of them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from cdc_outbox.consumer.epochs import Place
from cdc_outbox.consumer.ordering import Aggregate
from cdc_outbox.consumer.topics import TopicReader
from cdc_outbox.drivers import Row
from cdc_outbox.errors import MessageError, UnprovenDeliveryError
from cdc_outbox.event import Event, SequenceMode
from cdc_outbox.message import Message
from cdc_outbox.modes import EventFormat
from cdc_outbox.operate.numbers import Numbers, fingerprint
from cdc_outbox.operate.stages import InboxStage
from cdc_outbox.wire import WireContract

Ends = Mapping[str, int]
"""``topic/partition`` → the offset that its next message will have."""
ReadRows = Callable[[], Iterator[Row]]
"""Reads id, aggregate type, aggregate id, source and sequence number of each row, from the first one at each call."""

REPUBLISH = "`cdc-outbox deploy-connector --earlier-events republish` publishes the rows of the table again."
_RETENTION = " Where retention has removed the messages, --consumer counts what a consumer has applied."


@dataclass(slots=True)
class _Held:
    """What was read of the topics.

    Args:
        lacking: Ids of rows without a sequence number that no message has had yet.
    """

    numbers: dict[Aggregate, Numbers] = field(default_factory=dict)
    lacking: set[str] = field(default_factory=set)

    def take(self, event: Event) -> None:
        """Note an event that a topic holds."""
        self.lacking.discard(event.id or "")
        if event.sequence is not None:
            aggregate = Aggregate(event.source or "", event.aggregate_type, event.aggregate_id)
            self.numbers.setdefault(aggregate, Numbers()).add(event.sequence, fingerprint(event.id or ""))

    def has(self, row: Row) -> bool:
        """Tell whether a message had a row's id and its sequence number, where it has one."""
        event_id, aggregate_type, aggregate_id, source, sequence = row
        if sequence is None:
            return event_id not in self.lacking
        numbers = self.numbers.get(Aggregate(source or "", aggregate_type, aggregate_id))
        return numbers is not None and numbers.get(sequence) == fingerprint(event_id)


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
        """Return where the topics end now; what is committed later has its message behind."""
        places = self._topics.places(self._contract.topics)
        return {f"{place.topic}/{place.partition}": end for place, (_, end) in self._topics.bounds(places).items()}

    def refuse_missing(self, read_rows: ReadRows, since: Ends | None = None) -> None:
        """Refuse rows that no message and no applied event proves to be published.

        Each message is read once: from ``since`` on, and only where a row is missing there, what lies before.

        Args:
            since: Ends of the topics before the rows were committed, as far as that is known.

        Raises:
            UnprovenDeliveryError: There are such rows.
        """
        held = _Held()
        held.lacking.update(row[0] for row in read_rows() if row[4] is None)
        bounds = self._topics.bounds(self._topics.places(self._contract.topics))
        starts = {place: _start(place, first, since) for place, (first, _) in bounds.items()}
        self._read(held, {place: (starts[place], end) for place, (_, end) in bounds.items()})
        if since and any(not held.has(row) for row in read_rows()):
            self._read(held, {place: (first, starts[place]) for place, (first, _) in bounds.items()})
        missing = [row for row in read_rows() if not held.has(row)]
        if missing and self._inbox is not None:
            missing = self._without_applied(self._inbox, missing)
        if missing:
            raise _refusal(missing, forgets=any(first for first, _ in bounds.values()))

    def _read(self, held: _Held, spans: Mapping[Place, tuple[int, int]]) -> None:
        for message in self._topics.read(spans):
            event = self._event_of(message)
            if event is not None:
                held.take(event)

    def _event_of(self, message: Message) -> Event | None:
        try:
            return self._contract.event_of(replace(message, value=None) if self._skips_values else message)
        except MessageError:  # it proves nothing
            return None

    def _without_applied(self, inbox: InboxStage, missing: Iterable[Row]) -> list[Row]:
        """Return those rows that the consumer has not applied: by its watermark, else by the ids that it keeps."""
        rows = list(missing)
        aggregates = list({_aggregate(row): None for row in rows if self._is_gapless(row)})
        marks = {Aggregate(*names): last for *names, last in inbox.marks_of(aggregates)}
        left = [row for row in rows if not (self._is_gapless(row) and row[4] <= marks.get(_aggregate(row), 0))]
        claimed = inbox.claimed([row[0] for row in left])
        return [row for row in left if row[0] not in claimed]

    def _is_gapless(self, row: Row) -> bool:
        return row[4] is not None and self._contract.aggregates.get(row[1]) is SequenceMode.GAPLESS


def _aggregate(row: Row) -> Aggregate:
    return Aggregate(row[3] or "", row[1], row[2])


def _start(place: Place, first: int, since: Ends | None) -> int:
    return max(first, (since or {}).get(f"{place.topic}/{place.partition}", first))


def _refusal(missing: list[Row], *, forgets: bool) -> UnprovenDeliveryError:
    counts = Counter(row[1] for row in missing)
    types = ", ".join(f"{count:,} of {aggregate_type}" for aggregate_type, count in sorted(counts.items()))
    event_id, aggregate_type, aggregate_id, _, sequence = missing[0]
    number = "" if sequence is None else f" number {sequence},"
    events = "1 event is" if len(missing) == 1 else f"{len(missing):,} events are"
    return UnprovenDeliveryError(
        f"{events} not in the topics ({types}; the first is {aggregate_type}/{aggregate_id},{number} id "
        f"{event_id}); nothing was deleted",
        hint=f"{REPUBLISH}{_RETENTION if forgets else ''}",
    )
