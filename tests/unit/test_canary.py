"""A canary is waited for no longer than it may take, and what keeps its topic from being read is told."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from cdc_outbox.errors import BrokerError
from cdc_outbox.operations.canary import find_event


class Record:
    """A message of somebody else's, or an error in its place."""

    def __init__(self, event_id: bytes = b"", error: KafkaError | None = None) -> None:
        self._event_id = event_id
        self._error = error

    def error(self) -> KafkaError | None:
        return self._error

    def headers(self) -> list[tuple[str, bytes]]:
        return [("id", self._event_id)]

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7


class Reader:
    """A topic to which something comes all the time: the last of these for good."""

    def __init__(self, *records: Record) -> None:
        self._records = list(records)

    def list_topics(self, *, timeout: float) -> SimpleNamespace:
        assert timeout > 0
        return SimpleNamespace(topics={"canaries": SimpleNamespace(partitions={0: None})})

    def assign(self, places: list[Any]) -> None:
        assert [(place.partition, place.offset) for place in places] == [(0, 5)]

    def poll(self, _seconds: float) -> Record:
        return self._records.pop(0) if len(self._records) > 1 else self._records[0]


def find(*records: Record) -> str | None:
    reader: Any = Reader(*records)
    return find_event(reader, "canaries", "ours", {0: 5}, timeout_seconds=0.05)


def test_a_canary_is_seen_among_others() -> None:
    assert find(Record(), Record(), Record(b"ours")) == "canaries[0]@7"


def test_a_topic_that_is_never_quiet_is_not_waited_for_for_ever() -> None:
    assert find(Record(b"another")) is None


def test_a_passing_error_is_passed_over_and_a_lasting_one_told() -> None:
    passing, lasting = KafkaError(KafkaError._ALL_BROKERS_DOWN), KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    assert find(Record(error=passing), Record(b"ours")) == "canaries[0]@7"
    with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"):
        find(Record(error=lasting))
