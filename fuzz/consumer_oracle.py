"""What must be true of a consumer's database, whatever happened."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.item import identity_of, stray_id
from cdc_outbox.consumer.ordering import Aggregate, Watermark, aggregate_of, time_of
from cdc_outbox.consumer.parked_events import Reason, State
from cdc_outbox.errors import MessageError
from cdc_outbox.event import RecordedEvent
from cdc_outbox.message import Message
from cdc_outbox.testing.memory_inbox import MemoryRow
from fuzz.consumer_world import GAPLESS, LATEST, MENDED, NONE, RETRY_ATTEMPTS, WATERMARK, World


@dataclass
class Oracle:
    """What was written and decided, and the laws that follow.

    Args:
        written: All events by id, in the order in which they were written.
        disordered: Aggregates whose events may come in another order than written, or contradict each other.
        skipped: Ids that an operator gave up.
        holes: Sequences that he gave up with them.
        forced: Ids that an operator had applied in spite of their verdict.
        hopeless: Ids whose handlers said once that another try cannot help.
    """

    world: World
    written: dict[str, RecordedEvent] = field(default_factory=dict)
    disordered: set[Aggregate] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    holes: set[tuple[Aggregate, int | None]] = field(default_factory=set)
    forced: set[str] = field(default_factory=set)
    hopeless: set[str] = field(default_factory=set)
    _claimed: set[str] = field(default_factory=set)
    _looked: dict[TopicPartition, int] = field(default_factory=dict)

    def check(self) -> None:
        """Hold what is committed against every law."""
        assert not self.world.server.broken, self.world.server.broken[0]
        committed = self.world.server.committed
        self._claimed |= committed.claims
        ids = [event.id for event in committed.effects]
        assert len(ids) == len(set(ids)), "an effect happened twice"
        self._check_claims(set(ids))
        self._check_order()
        self._check_marks()
        for row in committed.rows.values():
            self._check_row(row)
        for place, offset in self.world.group.committed.items():
            for message in self.world.group.logs[place][self._looked.get(place, 0) : offset]:
                self._check_kept(message)
            self._looked[place] = max(offset, self._looked.get(place, 0))

    def check_end(self) -> None:
        """Hold what is committed once nothing moves any more, and nothing fails, against the laws of the end."""
        committed = self.world.server.committed
        for place, log in self.world.group.logs.items():
            assert self.world.group.committed.get(place, 0) == len(log), f"{place} is not read to its end"
            for message in log:
                self._check_kept(message)
        waiting = [row for row in committed.rows.values() if row.parked.blocks]
        for row in waiting:
            # Where only the topic's order counts, what came late may wait for what its sequence says is later.
            is_gapless = row.event.aggregate_type in {GAPLESS, WATERMARK}
            before = [
                other
                for other in waiting
                if aggregate_of(other.event) == aggregate_of(row.event)
                and (not is_gapless or (other.event.sequence or 0) <= (row.event.sequence or 0))
            ]
            assert any(other.parked.state is State.DEAD for other in before), f"{row.event} sleeps"

    def check_all_done(self) -> None:
        """Hold what is committed after every failed event was retried with success."""
        committed = self.world.server.committed
        assert not [row for row in committed.rows.values() if row.parked.blocks], "events wait for nothing"
        ended = {event.id for event in committed.effects} | self._claimed | self.skipped
        ended |= {row.parked.event_id for row in committed.rows.values()}
        tops: dict[Aggregate, int] = {}
        for event_id, event in self.written.items():
            aggregate = aggregate_of(event)
            tops[aggregate] = max(tops.get(aggregate, 0), event.sequence or 0)
            assert event_id in ended or event.aggregate_type == WATERMARK, f"{event} is lost"
        for aggregate, top in tops.items():
            assert committed.watermarks.get(aggregate, Watermark()).last == top, f"{aggregate} stands before {top}"

    def _check_claims(self, applied: set[str]) -> None:
        committed = self.world.server.committed
        parked = {row.parked.event_id for row in committed.rows.values()}
        assert not committed.claims & parked, "a parked event is claimed"
        for event_id in committed.claims - applied - self.skipped:
            event = self.written[event_id]
            last = committed.watermarks.get(aggregate_of(event), Watermark()).last
            # Of one that is older than the purge the number alone counts, and it had effects: see _check_order.
            is_known = event.aggregate_type == LATEST or (event.aggregate_type == GAPLESS and self._is_purged(event_id))
            is_passed = is_known and (event.sequence or 0) <= last
            assert not has_handler(event) or is_passed, f"{event} is claimed and has no effects"
        for event_id in applied - committed.claims:
            is_unclaimed = self.written[event_id].aggregate_type == WATERMARK
            assert is_unclaimed or self._is_purged(event_id), "effects without a claim"

    def _is_purged(self, event_id: str) -> bool:
        """Tell whether the consumer may have forgotten an id, in a purge that it knows of."""
        made, horizon = time_of(event_id), self.world.server.committed.purged_before
        return made is not None and horizon is not None and made < horizon

    def _check_order(self) -> None:
        committed = self.world.server.committed
        orders: defaultdict[Aggregate, list[RecordedEvent]] = defaultdict(list)
        for event in committed.effects:
            if event.id not in self.forced:
                orders[aggregate_of(event)].append(event)
        numbers = {event_id: number for number, event_id in enumerate(self.written)}
        for aggregate, events in orders.items():
            sequences = [event.sequence or 0 for event in events]
            if aggregate.aggregate_type in {GAPLESS, WATERMARK}:
                last = committed.watermarks[aggregate].last
                assert sequences == self._numbers_of(aggregate, last), f"{aggregate} has holes or is out of order"
            elif aggregate.aggregate_type != NONE:
                assert sequences == sorted(set(sequences)), f"{aggregate} is out of order"
            elif aggregate not in self.disordered:
                places = [numbers[event.id] for event in events]
                assert places == sorted(places), f"{aggregate} is out of order"

    def _numbers_of(self, aggregate: Aggregate, last: int) -> list[int]:
        """Return the sequences up to a watermark that must have had effects."""
        return sorted(
            {
                event.sequence or 0
                for event in self.written.values()
                if aggregate_of(event) == aggregate
                and (event.sequence or 0) <= last
                and has_handler(event)
                and not self._is_skipped(event)
            }
        )

    def _is_skipped(self, event: RecordedEvent) -> bool:
        return (aggregate_of(event), event.sequence) in self.holes

    def _check_marks(self) -> None:
        committed = self.world.server.committed
        blocking = Counter(aggregate_of(row.event) for row in committed.rows.values() if row.parked.blocks)
        for aggregate in blocking.keys() | committed.watermarks.keys():
            mark = committed.watermarks.get(aggregate, Watermark())
            assert mark.parked == blocking[aggregate], f"{aggregate} counts {mark.parked}, not {blocking[aggregate]}"

    def _check_row(self, row: MemoryRow) -> None:
        parked, event = row.parked, row.event
        match parked.reason:
            case Reason.FAILED if parked.state is State.DEAD:
                assert parked.attempts >= RETRY_ATTEMPTS or parked.event_id in self.hopeless, f"{event} died early"
            case Reason.CONFLICT:
                assert aggregate_of(event) in self.disordered, f"{event} contradicts nothing"
            case Reason.EXPIRED:
                assert self._is_purged(parked.event_id), f"{event} cannot have been forgotten"
            case _:
                pass

    def _check_kept(self, message: Message) -> None:
        """Look for the event of a message that will not come again."""
        committed = self.world.server.committed
        parked = {row.parked.event_id for row in committed.rows.values()}
        known_as = stray_id(message, MENDED) or identity_of(message)
        if known_as in parked | self.skipped:
            return
        try:
            event = MENDED.event_of(message)
        except MessageError:
            raise AssertionError(f"{known_as} is lost") from None
        last = committed.watermarks.get(aggregate_of(event), Watermark()).last
        is_stale = event.aggregate_type == WATERMARK and (event.sequence or 0) <= last
        assert event.id in parked | self._claimed | self.skipped or is_stale, f"{event} is lost"


def has_handler(event: RecordedEvent) -> bool:
    """Tell whether an event has effects."""
    return event.type.endswith("-done")
