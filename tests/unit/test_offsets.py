"""What is committed and when, with a client that writes down what it is asked."""

import threading
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cdc_outbox.consumer.offsets import Offsets, is_still_owned, leave, rewind
from cdc_outbox.errors import BrokerError
from cdc_outbox.message import Message
from tests.support.patience import patience

Committed = list[tuple[str, int, int]]
FINISH_SECONDS = 0.3


class SpyClient:
    """A client of a broker that answers at the next poll, or never."""

    def __init__(self, answers: Offsets | None = None) -> None:
        self.answers = answers
        self.sent: list[tuple[bool, Committed]] = []
        self.error: KafkaException | None = None
        self.owned = [TopicPartition("t", 0)]
        self.sought: Committed = []
        self.at, self.now = 7, 0.0
        self._asked: list[TopicPartition] = []

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
        self.sent.append((asynchronous, places(offsets)))
        if self.error:
            raise self.error
        self._asked = offsets
        return offsets

    def position(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        return [TopicPartition(place.topic, place.partition, self.at) for place in partitions]

    def poll(self, seconds: float) -> None:
        self.now += seconds
        if self.answers and self._asked:
            self.answers.answered(None, self._asked)

    def seek(self, place: TopicPartition) -> None:
        if self.error:
            raise self.error
        self.sought += places([place])

    def assignment(self) -> list[TopicPartition]:
        return self.owned


def places(partitions: list[TopicPartition]) -> Committed:
    return [(place.topic, place.partition, place.offset) for place in partitions]


def message(offset: int, partition: int = 0) -> Message:
    return Message(topic="t", key=None, value=None, partition=partition, offset=offset)


def consumer(spy: SpyClient) -> Consumer:
    return cast("Consumer", spy)


def done(*messages: Message, interval_seconds: float = 0.0) -> Offsets:
    made = Offsets(interval_seconds=interval_seconds, finish_seconds=FINISH_SECONDS)
    for one in messages:
        made.done(one)
    return made


def failed(code: int = KafkaError._STATE) -> KafkaException:
    return KafkaException(KafkaError(code))


def test_the_offset_behind_the_last_message_is_sent_until_it_is_answered() -> None:
    open_offsets, client = done(message(3), message(4), message(9, partition=1)), SpyClient()
    open_offsets.commit(consumer(client))
    expected = (True, [("t", 0, 5), ("t", 1, 10)])
    assert client.sent == [expected]
    open_offsets.answered(KafkaError(KafkaError.REBALANCE_IN_PROGRESS), [])
    open_offsets.commit(consumer(client))
    assert client.sent == [expected, expected]
    open_offsets.answered(None, [TopicPartition("t", 0, 5), TopicPartition("t", 1, 10)])
    open_offsets.commit(consumer(client))
    assert len(client.sent) == 2


def test_an_answer_to_an_older_commit_leaves_the_newer_open() -> None:
    open_offsets, client = done(message(4)), SpyClient()
    open_offsets.answered(None, [TopicPartition("t", 0, 4)])
    open_offsets.commit(consumer(client))
    assert client.sent == [(True, [("t", 0, 5)])]


def test_commits_keep_their_distance() -> None:
    open_offsets, client = done(message(4), interval_seconds=3600.0), SpyClient()
    for _ in range(3):
        open_offsets.commit(consumer(client))
    assert len(client.sent) <= 1


@pytest.mark.parametrize("error", [None, failed()])
def test_partitions_that_are_taken_are_committed_first_and_then_forgotten(error: KafkaException | None) -> None:
    open_offsets, client = done(message(4), message(7, partition=1)), SpyClient()
    client.error = error
    open_offsets.revoke(consumer(client), [TopicPartition("t", 0)])
    assert client.sent == [(False, [("t", 0, 5), ("t", 1, 8)])]
    client.error = None
    open_offsets.commit(consumer(client))
    assert client.sent[1:] == [(True, [("t", 1, 8)])]


def test_partitions_that_are_lost_are_forgotten_without_a_commit() -> None:
    open_offsets, client = done(message(4)), SpyClient()
    open_offsets.lose(consumer(client), [TopicPartition("t", 0)])
    open_offsets.commit(consumer(client))
    assert client.sent == []


def test_a_partition_that_comes_back_is_committed_afresh() -> None:
    open_offsets, client = done(message(4)), SpyClient()
    open_offsets.answered(None, [TopicPartition("t", 0, 5)])
    open_offsets.lose(consumer(client), [TopicPartition("t", 0)])
    open_offsets.done(message(4))
    open_offsets.commit(consumer(client))
    assert client.sent == [(True, [("t", 0, 5)])]


def test_the_end_waits_for_the_answer_and_no_longer() -> None:
    open_offsets = done(message(4))
    client = SpyClient(answers=open_offsets)
    open_offsets.finish(consumer(client))
    assert client.sent == [(True, [("t", 0, 5)])]


def test_the_end_does_not_wait_for_brokers_that_are_gone() -> None:
    open_offsets, client = done(message(4)), SpyClient()
    with patch("cdc_outbox.consumer.offsets.time", SimpleNamespace(monotonic=lambda: client.now)):
        open_offsets.finish(consumer(client))
    assert FINISH_SECONDS <= client.now < 2 * FINISH_SECONDS
    open_offsets.revoke(consumer(client), [TopicPartition("t", 0)])
    assert all(asynchronous for asynchronous, _ in client.sent)


def test_leaving_does_not_wait_for_brokers_that_are_gone(caplog: pytest.LogCaptureFixture) -> None:
    answered = threading.Event()

    class Hanging:
        def close(self) -> None:
            answered.wait(patience())

    leave(cast("Consumer", Hanging()), within_seconds=0.3)
    assert "the group does not know" in caplog.text
    answered.set()


def test_a_message_that_is_tried_again_is_sought() -> None:
    client = SpyClient()
    rewind(consumer(client), message(4))
    assert client.sought == [("t", 0, 4)]


def test_a_partition_of_ours_that_cannot_be_rewound_is_an_error_and_anothers_is_not() -> None:
    client: Any = SpyClient()
    client.error = failed()
    with pytest.raises(BrokerError, match="_STATE"):
        rewind(client, message(4))
    client.owned = [TopicPartition("t", 1)]
    rewind(client, message(4))


def test_the_group_is_asked_whose_a_partition_is_by_a_commit_of_the_first_event_that_is_not_applied() -> None:
    client: Any = SpyClient()
    assert is_still_owned(client, ("t", 0), 4)
    assert (client.sent, client.sought) == ([(False, [("t", 0, 4)])], [("t", 0, 4)])
    assert is_still_owned(client, ("t", 0), None)
    assert client.sought[1:] == [("t", 0, 7)]


def test_a_partition_that_the_group_gave_away_is_not_ours() -> None:
    client: Any = SpyClient()
    client.error = failed(KafkaError.ILLEGAL_GENERATION)
    assert not is_still_owned(client, ("t", 0), 4)
    assert client.sought == []


def test_an_assigned_partition_of_which_nothing_was_read_yet_stays_ours() -> None:
    """Nobody else has it: to give it up would be to read it never again."""
    client: Any = SpyClient()
    client.at = -1001
    assert is_still_owned(client, ("t", 0), None)
    assert (client.sent, client.sought) == ([], [])


@pytest.mark.parametrize(
    "code", [KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR, KafkaError._TIMED_OUT]
)
def test_an_answer_that_says_nothing_of_the_membership_gives_nothing_up(code: int) -> None:
    class Undecided(SpyClient):
        def commit(self, *, offsets: list[TopicPartition], asynchronous: bool) -> list[TopicPartition]:
            raise failed(code)

    client: Any = Undecided()
    assert is_still_owned(client, ("t", 0), 4)
    assert client.sought == [("t", 0, 4)]


def test_a_partition_that_is_ours_and_cannot_be_read_from_there_is_an_error() -> None:
    class Stuck(SpyClient):
        def seek(self, place: TopicPartition) -> None:
            raise failed()

    client: Any = Stuck()
    with pytest.raises(BrokerError):
        is_still_owned(client, ("t", 0), 4)


def test_a_partition_that_was_given_up_is_not_set_back_to_find_out_whose_it_is() -> None:
    client: Any = SpyClient()
    client.owned = []
    assert not is_still_owned(client, ("t", 0), 4)
    assert client.sent == []


def test_partitions_whose_offsets_were_committed_are_told_once() -> None:
    open_offsets = done(message(4))
    open_offsets.answered(None, [TopicPartition("t", 0, 5)])
    assert open_offsets.take_answered() == {("t", 0)}
    assert open_offsets.take_answered() == set()
