"""What is found wrong with the messages that arrived of what was committed."""

from dataclasses import replace

import pytest

from tests.faults.deliveries import Arrived, Committed, Deliveries

COMMITTED = [Committed(str(number), f"aggregate {number % 2}", number // 2) for number in range(8)]
"""Four transactions of two events."""
STRUCK_AT = 100.0


def sent(*numbers: int, producer: str = "victim 1", at: float = 0.0, offset: int = 0) -> list[Arrived]:
    """Return messages of events, one second after the other, in one partition."""
    return [Arrived(str(number), 0, offset + n, producer, at + n) for n, number in enumerate(numbers)]


def judged(arrived: list[Arrived], *, struck_at: float = STRUCK_AT, relieved: str | None = None) -> list[str]:
    found = Deliveries(committed=COMMITTED, arrived=arrived, struck_at=[struck_at], relieved={relieved or ""})
    return list(found.violations())


def test_what_arrives_once_and_in_order_is_right() -> None:
    assert judged(sent(*range(8))) == []


def test_repeats_from_the_last_second_to_the_tail_are_right() -> None:
    before = sent(0, 1, 2, 3, 4, 5, at=94)
    assert judged([*before, *sent(4, 5, 6, 7, producer="successor 1", at=110, offset=6)]) == []


def test_an_older_transaction_under_way_may_be_repeated_and_a_second_one_may_not() -> None:
    before = sent(0, 1, 2, 3, at=50)
    assert judged([*before, *sent(2, 3, 4, 5, 6, 7, producer="successor 1", at=110, offset=4)]) == []
    [found] = judged([*before, *sent(*range(1, 8), producer="successor 1", at=110, offset=4)])
    assert found == "successor 1 repeats 2 transactions that were delivered long before the fault"


def test_repeats_are_equal_in_bytes() -> None:
    arrived = [*sent(*range(8), at=98), *sent(7, producer="successor 1", at=110, offset=8)]
    assert judged([replace(each, content=b"same") for each in arrived]) == []
    assert judged([replace(each, content=each.producer) for each in arrived]) == [
        "1 events were repeated with other bytes"
    ]


def test_a_paused_relay_may_repeat_what_it_had_in_its_hands() -> None:
    successor = sent(*range(2, 8), producer="successor 1", at=110, offset=2)
    arrived = [*sent(0, 1, at=98), *successor, *sent(2, 3, at=120, offset=8)]
    assert judged(arrived, relieved="victim 1") == []
    [found] = judged(arrived, relieved="victim 2")
    assert "repeats an event, and nothing has happened to it" in found


@pytest.mark.parametrize(
    ("arrived", "reason"),
    [
        (sent(0, 1, 2, 3, 4, 5, 6), "1 events are lost, the first one of transaction 3"),
        ([*sent(*range(8)), *sent(8, offset=8)], "1 messages are of no committed event"),
        (sent(0, 2, 1, 3, 4, 5, 6, 7), "partition 0, offset 1: event 2 came before event 1"),
        (
            # As if a failed message was produced again alone, behind those that came after it.
            sent(0, 1, 2, 3, 4, 5, 6, 7, 2),
            "partition 0, offset 8: victim 1 sent event 2 after event 7",
        ),
        (
            [*sent(*range(8), at=98), *sent(4, 6, 7, producer="successor 1", at=110, offset=8)],
            "partition 0, offset 9: successor 1 sent event 6 after event 4",
        ),
        (
            [*sent(*range(8), at=98), *sent(4, 5, producer="successor 1", at=110, offset=8)],
            "successor 1 repeated events of partition 0 up to 5, not to 7",
        ),
        (
            [*sent(*range(8), at=110), *sent(6, 7, producer="victim 2", at=99, offset=8)],
            "partition 0, offset 8: victim 2 repeats an event, and nothing has happened to it",
        ),
        (
            [*sent(*range(7)), replace(*sent(7), partition=1)],
            "the events of aggregate aggregate 1 are in the partitions [0, 1]",
        ),
    ],
    ids=["lost", "invented", "swapped", "alone", "with a gap", "not to the tail", "without a fault", "moved"],
)
def test_what_is_wrong_is_said(arrived: list[Arrived], reason: str) -> None:
    assert reason in judged(arrived)
