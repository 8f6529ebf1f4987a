"""Where a consumer begins to read, as a function of what the database and the brokers know."""

import logging
import time
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from cdc_outbox.consumer import start_offsets
from cdc_outbox.consumer.fencing import Assignment, TopicId, TopicPartition
from cdc_outbox.consumer.start_offsets import KafkaPartitions, PartitionOffsets, Start, start_of
from cdc_outbox.errors import BrokerError, OffsetOutOfRangeError, TopicReplacedError
from cdc_outbox.kafka import clients as kafka_clients
from cdc_outbox.kafka.clients import consumer_settings

HOME = TopicPartition("orders", 0)
TOPIC = TopicId("cluster", "topic")


def start(stored: int | None, committed: int | None, first: int = 10, end: int = 50) -> int | None:
    found = start_of(HOME, Assignment(1, 1, stored, TOPIC), PartitionOffsets(TOPIC, first, end, committed))
    assert found is None or found.leader_epoch is None
    return None if found is None else found.offset


@pytest.mark.parametrize(
    ("stored", "committed", "leaders", "expected"),
    [
        (20, 20, (3, 4), Start(20, 3)),
        (20, 15, (3, 4), Start(15, 3)),
        (20, 30, (3, 4), Start(20, 3)),
        (20, 20, (3, 3), None),
        (20, 30, (3, 3), Start(20)),
        (20, None, (3, 4), Start(20, 3)),
        (None, 20, (3, 4), Start(10)),
        (20, 20, (None, 4), None),
        (20, 20, (3, None), None),
    ],
)
def test_behind_another_leader_an_offset_is_checked_before_it_is_read_from(
    stored: int | None, committed: int | None, leaders: tuple[int | None, int | None], expected: Start | None
) -> None:
    known, now = leaders
    partition = PartitionOffsets(TOPIC, 10, 50, committed, now)
    assert start_of(HOME, Assignment(1, 1, stored, TOPIC, known), partition) == expected


@pytest.mark.parametrize(
    ("stored", "committed", "expected"),
    [
        (20, 30, 20),
        (20, 20, None),
        (30, 20, None),  # somebody set the group back
        (20, None, 20),  # the group's offsets expired, or it began from now
        (None, None, None),
        (None, 10, None),
        (None, 30, 10),  # this database has no effects at all
        (10, 30, 10),
        (9, 30, 10),  # at 9 there may have been a transaction's marker
        (50, 60, 50),
    ],
)
def test_a_partition_is_read_from_where_the_effects_end(
    stored: int | None, committed: int | None, expected: int | None
) -> None:
    assert start(stored, committed) == expected


@pytest.mark.parametrize("committed", [None, 10, 50])
@pytest.mark.parametrize(("stored", "what"), [(51, "ends at 50"), (8, "begins at 10: the messages between")])
def test_an_offset_that_the_topic_does_not_hold_is_refused(stored: int, what: str, committed: int | None) -> None:
    with pytest.raises(
        OffsetOutOfRangeError, match=rf"orders\[0\] up to offset {stored}, and the topic {what}"
    ) as caught:
        start(stored, committed)
    assert "reset SPEC --consumer NAME --offsets-only" in caught.value.hint


@pytest.mark.parametrize(
    ("found", "what"),
    [(TopicId("other", "topic"), "the cluster's id"), (TopicId("cluster", "other"), "the topic's id")],
)
def test_another_topic_of_the_name_is_refused_unless_nothing_of_the_first_was_applied(
    found: TopicId, what: str
) -> None:
    partition = PartitionOffsets(found, 0, 50, None)
    with pytest.raises(TopicReplacedError, match=what):
        start_of(HOME, Assignment(1, 1, 20, TOPIC), partition)
    assert start_of(HOME, Assignment(1, 1, None, TOPIC), partition) is None


@pytest.mark.parametrize(("known", "found"), [(TOPIC, TopicId()), (TopicId(), TOPIC), (TOPIC, TopicId("cluster", ""))])
def test_what_the_brokers_do_not_tell_is_not_compared(known: TopicId, found: TopicId) -> None:
    assert start_of(HOME, Assignment(1, 1, 20, known), PartitionOffsets(found, 0, 50, 30)) == Start(20)


@pytest.mark.parametrize(
    ("code", "seconds", "made"),
    [(KafkaError._TIMED_OUT, 29, 1), (KafkaError._TIMED_OUT, 30, 2), (KafkaError.TOPIC_AUTHORIZATION_FAILED, 30, 1)],
)
def test_clients_that_got_no_answer_for_half_a_minute_are_made_anew(
    monkeypatch: pytest.MonkeyPatch, code: int, seconds: float, made: int
) -> None:
    clients, now, make = list[Any](), [1_000.0], kafka_clients.make_consumer

    def make_client(*arguments: Any) -> Any:
        clients.append(make(*arguments))
        return clients[-1]

    def fail(*_: object) -> None:
        raise KafkaException(KafkaError(code))

    monkeypatch.setattr(kafka_clients, "make_consumer", make_client)
    monkeypatch.setattr(start_offsets, "find_topic_ids", fail)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    settings = consumer_settings(bootstrap_servers="127.0.0.1:1", group="g", extra={})
    partitions = KafkaPartitions(settings, logging.getLogger("silent"))
    now[0] += seconds
    with pytest.raises(BrokerError):
        partitions.find([HOME])
    monkeypatch.undo()
    assert len(clients) == made
    partitions.close()
