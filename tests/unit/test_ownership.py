"""Which partitions a consumer has, and which of them may kill it."""

import pytest

from cdc_outbox.consumer.fencing import _SUSPECT_EVENTS, Assignment, Ownership, TopicId, TopicPartition
from cdc_outbox.errors import TopicReplacedError

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def is_fetched(place: TopicPartition) -> bool:
    return place == A


def held(**tenures: int) -> Ownership:
    """Return an owner of both partitions, each after so many assignments that got nothing done."""
    ownership = Ownership()
    ownership.assign([A, B])
    ownership.issued({A: Assignment(7, tenures.get("a", 1)), B: Assignment(9, tenures.get("b", 1))})
    return ownership


def test_a_partition_is_held_once_the_database_knows_it() -> None:
    ownership = Ownership()
    ownership.assign([A])
    assert (ownership.owns(A), ownership.held) == (True, {})
    ownership.issued({A: Assignment(7, 1)})
    assert (ownership.held, ownership.unissued) == ({A: 7}, set())
    assert ownership.epochs_of([A, A, B]) == {A: 7}


def test_a_partition_that_was_lost_while_it_was_issued_stays_lost() -> None:
    ownership = Ownership()
    ownership.assign([A])
    ownership.lose([A])
    ownership.issued({A: Assignment(7, 1)})
    assert not ownership.owns(A)


def test_a_partition_that_comes_back_is_issued_anew() -> None:
    ownership = held()
    ownership.assign([A])
    assert ownership.held == {B: 9}
    assert ownership.unissued == {A}


def test_the_first_work_under_an_epoch_is_told_once() -> None:
    ownership = held()
    assert ownership.finishing([A, TopicPartition("other", 0)], is_fetched) == {A: 7}
    assert ownership.finishing([A, B], is_fetched) == {B: 9}
    assert ownership.finishing([A, B], is_fetched) == {}


def test_after_assignments_that_got_nothing_done_the_next_events_are_suspect_until_they_are_survived() -> None:
    ownership = held(a=3, b=2)
    assert (ownership.is_suspect(A), ownership.is_suspect(B)) == (True, False)
    for _ in range(_SUSPECT_EVENTS):
        assert ownership.is_suspect(A)
        ownership.survived(A)
    assert not ownership.is_suspect(A)
    ownership.survived(B)
    assert not ownership.is_suspect(B)


def test_a_partition_is_done_with_that_had_nothing_to_do_once_a_broker_said_so() -> None:
    now = 1.0
    ownership = Ownership(clock=lambda: now)
    ownership.assign([A, B])
    ownership.issued({A: Assignment(7, 1), B: Assignment(9, 1)})
    assert ownership.finishing([], is_fetched) == {}
    now = 7.0
    assert ownership.finishing([], is_fetched) == {A: 7}
    assert ownership.finishing([], lambda _: True) == {B: 9}


@pytest.mark.parametrize("first", ["new", "old"], ids=["before the partition is issued", "after it"])
def test_another_topic_than_the_known_one_is_refused_once_the_client_reads_it(first: str) -> None:
    ownership = Ownership()
    ownership.assign([A])
    ownership.learn("t", first)
    ownership.issued({A: Assignment(7, 1, topic_id=TopicId("cluster", "old"))})
    if first == "old":
        ownership.refuse_other_topics()
        ownership.learn("t", "new")
    with pytest.raises(TopicReplacedError, match="the topic's id was old, and is now new"):
        ownership.refuse_other_topics()


@pytest.mark.parametrize("known", [TopicId(), TopicId("cluster", "")], ids=["brokers without ids", "no topic's id"])
def test_what_brokers_do_not_tell_is_not_compared(known: TopicId) -> None:
    ownership = Ownership()
    ownership.assign([A, B])
    ownership.learn("t", "new")
    ownership.learn("other", "x")
    ownership.issued({A: Assignment(7, 1, topic_id=known)})
    ownership.lose([A])
    ownership.refuse_other_topics()
    ownership.issued({B: Assignment(7, 1, topic_id=TopicId("cluster", "new"))})
    ownership.refuse_other_topics()
