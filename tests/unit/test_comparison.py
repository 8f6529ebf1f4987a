"""Rows compared with what the topics hold, where two events have one number."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast
from uuid import uuid4

import pytest

from cdc_outbox.consumer.fencing import TopicPartition
from cdc_outbox.consumer.topic_reader import TopicReader
from cdc_outbox.databases.drivers import Row
from cdc_outbox.errors import UnprovenDeliveryError
from cdc_outbox.event import RecordedEvent
from cdc_outbox.message import Message
from cdc_outbox.operations.comparison import TopicComparison
from cdc_outbox.operations.stages import InboxStage
from cdc_outbox.spec import parse_spec
from tests.support.specs import MINIMAL

CONTRACT = parse_spec(MINIMAL).contract
[TYPE] = CONTRACT.aggregates


class Topics:
    """One partition that holds these messages."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._messages = messages

    def partitions(self, topics: Sequence[str]) -> list[TopicPartition]:
        return [TopicPartition(topic, 0) for topic in topics]

    def bounds(self, places: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        return dict.fromkeys(places, (0, len(self._messages)))

    def read(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> Iterator[Message]:
        for start, end in spans.values():
            yield from self._messages[start:end]


class Inbox:
    """A consumer that has applied these ids, and each aggregate up to this number."""

    def __init__(self, watermark: int, *ids: str) -> None:
        self._watermark, self._ids = watermark, {*ids}

    def watermarks_of(self, aggregates: Sequence[Any]) -> Iterator[Row]:
        yield from ((*aggregate, self._watermark) for aggregate in aggregates)

    def claimed(self, event_ids: Sequence[str]) -> set[str]:
        return self._ids & {*event_ids}


def event(sequence: int) -> RecordedEvent:
    return RecordedEvent(
        id=str(uuid4()),
        aggregate_type=TYPE,
        aggregate_id="1",
        type="T",
        payload={},
        created_at=datetime.now(UTC),
        sequence=sequence,
        source="o.1",
    )


def row(event: RecordedEvent) -> Row:
    return event.id, event.aggregate_type, event.aggregate_id, event.source, event.sequence


def compare(
    rows: Sequence[RecordedEvent], published: Sequence[RecordedEvent], inbox: Inbox | None = None, *, since: int = 0
) -> None:
    topics = Topics([CONTRACT.message_of(each) for each in published])
    comparison = TopicComparison(CONTRACT, cast("TopicReader", topics), cast("InboxStage", inbox) if inbox else None)
    starts = {TopicPartition(topic, 0): since for topic in CONTRACT.topics} if since else None
    comparison.refuse_missing(lambda: iter([row(each) for each in rows]), starts)


LOST, KEPT = event(3), event(3)
FIRST, SECOND = event(1), event(2)


@pytest.mark.parametrize("since", [0, 2, 3])
@pytest.mark.parametrize("published", [[FIRST, SECOND, LOST, KEPT], [FIRST, KEPT, SECOND, LOST]])
def test_an_event_whose_number_another_one_has_counts_by_its_id(published: list[RecordedEvent], since: int) -> None:
    compare([FIRST, SECOND, KEPT], published, since=since)


def test_a_refusal_names_whose_number_another_event_has() -> None:
    with pytest.raises(UnprovenDeliveryError, match="1 event is not in the topics") as caught:
        compare([FIRST, KEPT], [FIRST, SECOND, LOST])
    assert f"another event under the number of {TYPE}/1, number 3, id {KEPT.id}" in str(caught.value)
    with pytest.raises(UnprovenDeliveryError) as caught:
        compare([FIRST, KEPT], [FIRST, SECOND])
    assert "another event" not in str(caught.value)


def test_a_watermark_does_not_prove_an_event_whose_number_another_one_has() -> None:
    compare([FIRST, KEPT], [FIRST, SECOND], Inbox(3))
    with pytest.raises(UnprovenDeliveryError):
        compare([FIRST, KEPT], [FIRST, SECOND, LOST], Inbox(3))
    compare([FIRST, KEPT], [FIRST, SECOND, LOST], Inbox(3, str(KEPT.id)))
