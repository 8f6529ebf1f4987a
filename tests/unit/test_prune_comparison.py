"""Prune runs that rely on what an earlier run found in the topics."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from cdc_outbox.consumer.fencing import TopicId, TopicPartition
from cdc_outbox.consumer.topic_reader import TopicReader
from cdc_outbox.databases.drivers import Row
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.errors import UnprovenDeliveryError
from cdc_outbox.event import RecordedEvent
from cdc_outbox.message import Message
from cdc_outbox.operations.comparison import TopicComparison
from cdc_outbox.operations.delivery_proof import Checkpoint, DeliveryProof
from cdc_outbox.operations.prune import Counts, PruneOptions, Pruning
from cdc_outbox.spec import parse_spec
from tests.support.events import make_event
from tests.support.specs import MINIMAL

CONTRACT = parse_spec(MINIMAL).contract
[TYPE] = CONTRACT.aggregates
EVENTS = [make_event(n, aggregate_type=TYPE, event_id=f"id-{n}", source="o.1") for n in range(1, 8)]


class Topics:
    """One partition; ``topic_id`` is empty where there is no topic."""

    def __init__(self, *events: RecordedEvent, topic_id: str = "first") -> None:
        self.messages = [CONTRACT.message_of(each) for each in events]
        self.topic_id = topic_id
        self.read_messages = 0

    def partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        return [TopicPartition(topic, 0) for topic in topics] if self.topic_id else []

    def ids(self, topics: Collection[str]) -> dict[str, TopicId]:
        return {topic: TopicId("cluster", self.topic_id) for topic in topics}

    def bounds(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        return dict.fromkeys(places, (0, len(self.messages)))

    def read(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> Iterator[Message]:
        for start, end in spans.values():
            self.read_messages += end - start
            yield from self.messages[start:end]


class Outbox:
    """Rows whose transactions have their events' numbers, all of them delivered."""

    def __init__(self, *events: RecordedEvent) -> None:
        self.events = list(events)
        self.deleted = 0

    def check(self) -> None:
        pass

    def find_delivery(self) -> DeliveryProof[Lsn]:
        return DeliveryProof(kind="slot", name="orders", confirmed=Lsn(9), reader="1")

    def look(self, reader: str) -> Checkpoint[Lsn]:
        return Checkpoint(position=Lsn(1), reader=reader, taken_at=datetime.now(UTC), oldest=len(self.events) + 1)

    def find_remarks(self, checkpoint: Checkpoint[Lsn], counts: Counts) -> Iterator[tuple[str, str]]:
        del checkpoint, counts
        yield from ()

    def seen(self, checkpoint: Checkpoint[Lsn], since: Checkpoint[Lsn] | None) -> Iterator[Row]:
        for each in self.events:
            if (since.oldest if since else 0) <= (each.sequence or 0) < checkpoint.oldest:
                yield each.id, each.aggregate_type, each.aggregate_id, each.source, each.sequence

    def delete(self, checkpoint: Checkpoint[Lsn], before: datetime | None, first: Any, rows: int) -> tuple[Counts, Any]:
        del checkpoint, first, rows
        self.deleted += 0 if before else len(self.events)  # those that --keep names are all young
        return Counts(), None


class Memory:
    def __init__(self) -> None:
        self.checkpoints: list[tuple[Checkpoint[Lsn], bool]] = []

    def find(self) -> list[Checkpoint[Lsn]]:
        return [checkpoint for checkpoint, compared in self.checkpoints if not compared]

    def find_compared(self) -> Checkpoint[Lsn] | None:
        return next((checkpoint for checkpoint, compared in reversed(self.checkpoints) if compared), None)

    def record(self, checkpoint: Checkpoint[Lsn], *, compared: bool = False) -> None:
        self.checkpoints.append((checkpoint, compared))

    def forget_before(self, checkpoint: Checkpoint[Lsn]) -> None:
        pass


def prune(outbox: Outbox, topics: Topics, memory: Memory, *, keep_seconds: float | None = None) -> None:
    comparison = TopicComparison(CONTRACT, cast("TopicReader", topics))
    options = PruneOptions(keep_seconds=keep_seconds, wait_seconds=0)
    witness, rows = cast("Any", outbox), cast("Any", outbox)
    Pruning(witness, rows, options, lambda _step, _text: None, comparison=comparison, memory=memory).run()


FOUND, MORE = EVENTS[:3], EVENTS[3:]


@pytest.mark.parametrize(
    "topics",
    [
        Topics(topic_id=""),
        Topics(topic_id="second"),
        Topics(*MORE, topic_id="second"),
        Topics(*FOUND[:2]),
    ],
    ids=["deleted", "made anew", "made anew and grown", "cut off"],
)
def test_rows_that_a_topic_held_once_are_not_deleted_if_it_has_lost_them(topics: Topics) -> None:
    outbox, memory = Outbox(*FOUND), Memory()
    prune(outbox, Topics(*FOUND), memory, keep_seconds=60)
    with pytest.raises(UnprovenDeliveryError, match="not in the topics"):
        prune(outbox, topics, memory)
    assert outbox.deleted == 0


def test_what_was_found_is_not_read_again_while_the_topic_holds_it() -> None:
    outbox, topics, memory = Outbox(*FOUND), Topics(*FOUND), Memory()
    prune(outbox, topics, memory, keep_seconds=60)
    outbox.events += MORE
    topics.messages += [CONTRACT.message_of(each) for each in MORE]
    topics.read_messages = 0
    prune(outbox, topics, memory)
    assert (outbox.deleted, topics.read_messages) == (len(EVENTS), len(MORE))
