"""What was committed, what arrived, and what is wrong with that. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

from cdc_outbox.relay.wal_source import LATE_SECONDS, TELL_SECONDS

EARLIEST_SECONDS = TELL_SECONDS + LATE_SECONDS + 1
"""How long before a fault what is repeated may have been delivered, and a second for a busy machine."""


@dataclass(frozen=True, slots=True)
class Committed:
    """An event of a transaction that was committed."""

    id: str
    aggregate_id: str
    transaction: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message in the topic.

    Args:
        producer: Which one sent it: a relay makes a new one each time that it starts to read.
        at: When the broker appended it, in seconds since 1970.
        content: All of it but the broker's time and the producer's name.
    """

    id: str
    partition: int
    offset: int
    producer: str
    at: float
    content: object = None


@dataclass(frozen=True, kw_only=True)
class Deliveries:
    """What arrived of what was committed.

    Args:
        committed: In the order of the commits.
        arrived: All of the topic.
        struck_at: When something happened that makes a relay start again, in seconds since 1970.
        relieved: The producers that were paused while another one took over, or ended by a refusal: they repeat what
            they had in their hands, and not up to the tail.
    """

    committed: Sequence[Committed]
    arrived: Sequence[Arrived]
    struck_at: Sequence[float]
    relieved: Collection[str] = ()

    def violations(self) -> Iterator[str]:
        """Say what is wrong."""
        found = {each.id for each in self.arrived}
        lost = [event for event in self.committed if event.id not in found]
        if lost:
            yield f"{len(lost)} events are lost, the first one of transaction {lost[0].transaction}"
        invented = found - self._events.keys()
        if invented:
            yield f"{len(invented)} messages are of no committed event"
        if invented or lost:
            return
        yield from self._moved()
        changed = {each.id for each in self.arrived if each.content != self._first[each.id].content}
        if changed:
            yield f"{len(changed)} events were repeated with other bytes"
        for partition in sorted({each.partition for each in self.arrived}):
            yield from self._disordered(partition)
        yield from self._repeated_too_early()

    @cached_property
    def _events(self) -> Mapping[str, Committed]:
        return {event.id: event for event in self.committed}

    @cached_property
    def _partitions(self) -> Mapping[int, Sequence[Arrived]]:
        ordered = sorted(self.arrived, key=lambda each: (each.partition, each.offset))
        return {partition: list(each) for partition, each in groupby(ordered, lambda each: each.partition)}

    @cached_property
    def _first(self) -> Mapping[str, Arrived]:
        """The first message of each event."""
        first: dict[str, Arrived] = {}
        for partition in self._partitions.values():
            for each in partition:
                first.setdefault(each.id, each)
        return first

    def _moved(self) -> Iterator[str]:
        """An aggregate's events are in one partition."""
        partitions: dict[str, set[int]] = {}
        for each in self.arrived:
            partitions.setdefault(self._events[each.id].aggregate_id, set()).add(each.partition)
        for aggregate, found in partitions.items():
            if len(found) > 1:
                yield f"the events of aggregate {aggregate} are in the partitions {sorted(found)}"

    def _disordered(self, partition: int) -> Iterator[str]:
        """First messages come in the order of the commits, and each producer sends a run that reaches the tail."""
        here = [event.id for event in self.committed if self._first[event.id].partition == partition]
        number_of = {event_id: number for number, event_id in enumerate(here)}
        last, tail_of, tail = dict[str, int](), dict[str, int](), -1
        for each in self._partitions[partition]:
            number = number_of.get(each.id)
            if number is None:
                continue
            if number > tail + 1:
                yield f"{self._at(each)}: event {number} came before event {tail + 1}"
            before = last.get(each.producer)
            if before is not None and number != before + 1:
                yield f"{self._at(each)}: {each.producer} sent event {number} after event {before}"
            tail_of.setdefault(each.producer, tail)
            last[each.producer] = number
            tail = max(tail, number)
        for producer, number in last.items():
            if number < tail_of[producer] and producer not in self.relieved:
                yield f"{producer} repeated events of partition {partition} up to {number}, not to {tail_of[producer]}"

    def _repeated_too_early(self) -> Iterator[str]:
        """What is repeated was delivered in the last seconds before the fault, or is of the transaction under way."""
        began: dict[str, float] = {}
        for each in self.arrived:
            began[each.producer] = min(each.at, began.get(each.producer, each.at))
        early: dict[str, set[int]] = {}
        for each in self.arrived:
            first = self._first[each.id]
            if first is each or each.producer in self.relieved:
                continue
            strikes = [at for at in self.struck_at if at <= began[each.producer]]
            if not strikes or first.producer == each.producer:
                yield f"{self._at(each)}: {each.producer} repeats an event, and nothing has happened to it"
                return
            if first.at < max(strikes) - EARLIEST_SECONDS:
                early.setdefault(each.producer, set()).add(self._events[each.id].transaction)
        for producer, transactions in early.items():
            if len(transactions) > 1:
                yield f"{producer} repeats {len(transactions)} transactions that were delivered long before the fault"

    @staticmethod
    def _at(message: Arrived) -> str:
        return f"partition {message.partition}, offset {message.offset}"
