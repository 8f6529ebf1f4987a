"""The first message of a partition goes alone, and again after a while, in a new topic and behind an old message."""

from types import SimpleNamespace
from typing import Any

import pytest

from cdc_outbox.debezium.event_router.produce import RoutedEvent
from cdc_outbox.relay.open_partitions import OLD_SECONDS, OPEN_SECONDS, Alone, OpenPartitions, Report

NOW = 1_800_000_000.0
NOW_MS, OLD_MS = int(NOW * 1_000), int((NOW - OLD_SECONDS - 1) * 1_000)


class Producer:
    """Sends what it may, and reports it later."""

    def __init__(self, *, stamped: bool = False, alone: Alone | None = None) -> None:
        self.seconds = 0.0
        self.under_way: list[tuple[Report, int]] = []
        self.reports: list[tuple[Any, Any]] = []
        self.partitions = OpenPartitions(
            ["t"] if stamped else (), {} if alone is None else alone, lambda: self.seconds, lambda: NOW
        )
        self.partitions.learn("t", "one", 2)

    def sends(self, partition: int, timestamp_ms: int = NOW_MS) -> bool:
        if "t" in self.partitions.ready([timestamp_ms]):
            return True
        event: RoutedEvent = ("t", b"v", b"k", partition, timestamp_ms, [("id", b"7")])
        place = self.partitions.place(event)
        report = self.partitions.report(event, place, self.delivered)
        if report is None:
            return False
        if report != self.delivered:
            self.partitions.sent("t", place)
            self.under_way.append((report, place))
        return True

    def delivered(self, error: Any, record: Any) -> None:
        self.reports.append((error, record))

    def is_answered(self, error: object = None) -> None:
        for report, place in self.under_way:
            report(error, SimpleNamespace(partition=lambda place=place: place))
        self.under_way.clear()


def opened(*, stamped: bool = False) -> Producer:
    producer = Producer(stamped=stamped)
    assert producer.sends(0)
    assert producer.sends(1)
    producer.is_answered()
    return producer


def test_the_second_message_of_a_partition_waits_for_the_first_and_others_do_not() -> None:
    producer = Producer()
    assert [producer.sends(0), producer.sends(0), producer.sends(1), producer.sends(1)] == [True, False, True, False]
    producer.is_answered()
    assert all(producer.sends(partition) for partition in (0, 0, 1, 1))
    assert "t" in producer.partitions.ready([NOW_MS])


def test_an_open_partition_takes_messages_while_another_one_waits() -> None:
    producer = Producer()
    assert producer.sends(0)
    producer.is_answered()
    assert producer.sends(1)
    assert [producer.sends(0), producer.sends(0), producer.sends(1)] == [True, True, False]


def test_a_refused_first_message_opens_nothing_and_is_reported_with_its_event() -> None:
    producer = Producer()
    assert producer.sends(0)
    producer.is_answered("refused")
    assert producer.reports == [("refused", ("t", b"v", b"k", 0, NOW_MS, [("id", b"7")]))]
    assert [producer.sends(0), producer.sends(0)] == [True, False]


@pytest.mark.parametrize("change", ["time", "topic", "partition"])
def test_a_partition_closes(change: str) -> None:
    producer = opened()
    if change == "time":
        producer.seconds = OPEN_SECONDS
    else:
        assert producer.partitions.learn("t", *{"topic": ("two", 2), "partition": ("one", 3)}[change])
    partition = 2 if change == "partition" else 0
    assert [producer.sends(partition), producer.sends(partition)] == [True, False]
    if change == "partition":
        assert [producer.sends(0), producer.sends(0)] == [True, True]


def test_what_is_known_already_changes_nothing() -> None:
    assert not opened().partitions.learn("t", "one", 2)


def test_a_partition_that_was_first_used_later_is_open_for_longer() -> None:
    producer = Producer()
    for seconds, partition in ((0, 0), (10, 1)):
        producer.seconds = seconds
        assert producer.sends(partition)
        producer.is_answered()
    producer.seconds = OPEN_SECONDS
    assert [producer.sends(1), producer.sends(1), producer.sends(0), producer.sends(0)] == [True, True, True, False]


def test_an_old_message_goes_alone_unless_the_topic_has_the_time_of_arrival() -> None:
    producer = opened()
    assert [producer.sends(0, OLD_MS), producer.sends(0, OLD_MS), producer.sends(0)] == [True, False, False]
    producer.is_answered()
    assert [producer.sends(0), producer.sends(0)] == [True, False]
    producer = opened(stamped=True)
    assert [producer.sends(0, OLD_MS), producer.sends(0, OLD_MS)] == [True, True]


def test_messages_go_alone_where_one_of_several_was_refused_and_more_of_them_the_second_time() -> None:
    alone: Alone = {}
    for count in (1_000, 4_000):
        opened_before = Producer(alone=alone)
        opened_before.partitions.refused("t", 0)
        producer = Producer(alone=alone)
        for _ in range(count):
            assert [producer.sends(0), producer.sends(0)] == [True, False]
            producer.is_answered()
        assert [producer.sends(0), producer.sends(0)] == [True, True]


def test_a_topic_that_does_not_exist_has_one_message_under_way_and_is_described_once_it_exists() -> None:
    producer = Producer()
    producer.partitions.learn("t", "", 0)
    assert [producer.sends(-1), producer.sends(-1), producer.sends(1)] == [True, False, False]
    producer.is_answered()
    assert "t" not in producer.partitions.topics


def test_a_message_without_a_key_gets_a_partition() -> None:
    producer = Producer()
    assert {producer.partitions.place(("t", b"", None, -1, 1, [])) for _ in range(100)} == {0, 1}
