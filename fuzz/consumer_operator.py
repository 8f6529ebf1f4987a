"""What a person does to parked events, each in a transaction of its own."""

from dataclasses import dataclass, replace

from cdc_outbox.consumer.ordering import Aggregate, Watermark, aggregate_of
from cdc_outbox.consumer.parked_events import Reason, State
from cdc_outbox.testing.memory_inbox import MemoryRow, Remembered
from fuzz.consumer_database import Lock
from fuzz.consumer_oracle import Oracle
from fuzz.consumer_world import GAPLESS, WATERMARK, World


@dataclass
class Operator:
    """Retries and skips what is parked, unless a consumer's lock is in the way."""

    world: World
    oracle: Oracle

    def rows(self) -> list[tuple[int, MemoryRow]]:
        """Return what is parked, by its number."""
        return sorted(self.world.server.committed.rows.items())

    def retry(self, place: int, *, is_forced: bool) -> None:
        """Make an event due, and have it applied in spite of its verdict where it contradicts another."""
        row = self.world.server.committed.rows[place]
        is_forced = is_forced and row.parked.reason is Reason.CONFLICT

        def change(now: Remembered) -> None:
            now.rows[place].parked = replace(row.parked, state=State.WAITING, forced=is_forced, attempts=0)
            now.rows[place].retry_at = self.world.server.clock

        if self.world.server.change(change, _locks(place, row)) and is_forced:
            self.oracle.forced.add(row.parked.event_id)

    def skip(self, place: int) -> None:
        """Give an event up: the watermark goes over it, and what waited behind it is due."""
        row = self.world.server.committed.rows[place]
        event, aggregate = row.event, aggregate_of(row.event)
        if row.parked.reason is Reason.UNREADABLE and row.parked.blocks:
            return  # it is read in the end
        mark = self.world.server.committed.watermarks.get(aggregate, Watermark())
        last = event.sequence or mark.last
        if row.parked.blocks and event.aggregate_type in {GAPLESS, WATERMARK} and last != mark.last + 1:
            return  # a watermark goes over a hole once it stands before it

        def change(now: Remembered) -> None:
            del now.rows[place]
            if row.parked.reason is not Reason.UNREADABLE:
                now.claims.add(row.parked.event_id)
            if row.parked.blocks:
                now.watermarks[aggregate] = Watermark(max(mark.last, last), mark.parked - 1)
                self._wake_first(now, aggregate)

        if self.world.server.change(change, _locks(place, row)):
            self.oracle.skipped.add(row.parked.event_id)
            if row.parked.blocks:
                self.oracle.holes.add((aggregate, event.sequence))

    def _wake_first(self, now: Remembered, aggregate: Aggregate) -> None:
        rows = [row for row in now.rows.values() if row.parked.blocks and aggregate_of(row.event) == aggregate]
        first = min(rows, key=lambda row: (row.event.sequence or 0, row.parked.parked_id), default=None)
        if first is not None and first.parked.state is State.WAITING and first.retry_at is None:
            first.retry_at = self.world.server.clock


def _locks(place: int, row: MemoryRow) -> list[Lock]:
    return [Lock("row", place), Lock("mark", aggregate_of(row.event)), Lock("id", row.parked.event_id)]
