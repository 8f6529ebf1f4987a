"""What a comparison adds up when what was on its way at its first look has arrived."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, cast

import pytest

from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.event import RecordedEvent, SequenceMode
from cdc_outbox.message import Message
from cdc_outbox.operations.verify import Verification, Verified
from tests.support.events import make_event

CONTRACT = WireContract(aggregates={"order": SequenceMode.GAPLESS, "metric": SequenceMode.NONE})


class Pipeline:
    """An outbox, its topics and a consumer's inbox in memory; what is written arrives while a comparison waits."""

    has_heads = keeps_rows = True
    consumer = "shipping"

    def __init__(self, *events: RecordedEvent) -> None:
        self.events = events
        self.messages: dict[str, list[Message]] = {topic: [] for topic in CONTRACT.topics}
        self.applied: list[RecordedEvent] = []

    republishes = True

    def arrive(self, _seconds: float = 0.0) -> None:
        """Publish one event more, and apply the one before."""
        published = sum(map(len, self.messages.values()))
        self.applied = list(self.events[:published])
        for event in self.events[published : published + 1]:
            message = CONTRACT.message_of(event)
            held = self.messages[message.topic]
            held.append(replace(message, partition=0, offset=len(held)))

    def compare(self) -> Verified:
        own = cast("Any", self)
        return Verification(CONTRACT, outbox=own, topics=own, inbox=own, wait=self.arrive).run()

    def heads(self) -> Iterator[tuple[Any, ...]]:
        numbers = [each.sequence for each in self.events if each.sequence is not None]
        if numbers:
            yield self.events[0].source, "order", "1", max(numbers)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        return ((e.id, e.aggregate_type, e.aggregate_id, e.source, e.sequence) for e in self.events)

    def partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        return [TopicPartition(topic, 0) for topic in topics]

    def bounds(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        return {place: (0, len(self.messages[place.topic])) for place in places}

    def read(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> Iterator[Message]:
        for place, (start, end) in spans.items():
            yield from self.messages[place.topic][start:end]

    def committed(self, _places: object) -> dict[TopicPartition, int]:
        return {}

    def compacted(self, _topics: object) -> set[str]:
        return set()

    def at_one_moment(self) -> nullcontext[None]:
        return nullcontext()

    def topics(self) -> set[str]:
        return {*CONTRACT.topics}

    def watermarks(self) -> Iterator[tuple[Any, ...]]:
        numbered = [each for each in self.applied if each.sequence is not None]
        if numbered:
            yield numbered[-1].source, "order", "1", numbered[-1].sequence

    def watermarks_of(self, _aggregates: object) -> Iterator[tuple[Any, ...]]:
        return self.watermarks()

    def claimed(self, ids: Collection[str]) -> set[str]:
        return {*ids} & {each.id or "" for each in self.applied}

    def holes(self) -> list[Any]:
        return []

    parked = holes

    def purged_before(self) -> None:
        return None


@pytest.mark.parametrize("aggregate_type", ["order", "metric"])
@pytest.mark.parametrize("published", range(4))
def test_what_arrived_meanwhile_is_counted(aggregate_type: str, published: int) -> None:
    numbered = aggregate_type == "order"
    pipeline = Pipeline(*(make_event(n if numbered else None, aggregate_type=aggregate_type) for n in (1, 2, 3)))
    for _ in range(published):
        pipeline.arrive()
    found = pipeline.compare()
    [sums] = [each for each in found.sums if each.aggregate_type == aggregate_type]
    assert not found.findings.has_differences
    late = max(0, 3 - published)
    assert (sums.given, sums.held, sums.applied) == (3, 3, 2 if late else 3)
    assert ("shipping was not given time to apply them" in " ".join(found.notes)) is bool(late)


def test_a_message_that_comes_again_meanwhile_is_no_event_more(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline(make_event(1), make_event(2))
    pipeline.arrive()
    [held] = [each for each in pipeline.messages.values() if each]

    def arrive(_seconds: float) -> None:
        pipeline.applied = [*pipeline.events]
        held.append(replace(held[0], offset=len(held)))
        held.append(replace(CONTRACT.message_of(pipeline.events[1]), partition=0, offset=len(held)))

    monkeypatch.setattr(pipeline, "arrive", arrive)
    notes = " ".join(pipeline.compare().notes)
    assert "events that reached the topics in the meantime: 1;" in notes
    assert "1 message came twice" in notes
