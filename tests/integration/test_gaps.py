"""A missing event: what comes after it waits in the park, others go on, and nothing sleeps there when it comes."""

import logging
from dataclasses import replace

import pytest

from cdc_outbox.consumer import Limits, Outcome
from cdc_outbox.event import new_event_id
from tests.support.desk import Desk, numbered, placed
from tests.support.rig import eventually


def test_what_comes_after_a_missing_event_waits_and_is_applied_in_order_once_it_comes(desk: Desk) -> None:
    first, missing, *later = (placed(number) for number in range(1, 7))
    desk.send(first, *later, *(placed(number, "other") for number in range(1, 4)))
    with desk.running() as consumer:
        desk.wait_for_effects(*numbered(1), *numbered(3, "other"))
        desk.wait_for_parked(*((number, "waiting", "gap") for number in (3, 4, 5, 6)))
        desk.send(placed(4, "other"))
        desk.wait_for_effects(*numbered(1), *numbered(4, "other"))
        desk.send(missing)
        desk.wait_for_effects(*numbered(6), *numbered(4, "other"))
        desk.wait_for_parked()
        desk.send(placed(7))
        desk.wait_for_effects(*numbered(7), *numbered(4, "other"))
    assert desk.watermark() == 7
    assert consumer.outcomes[Outcome.PARKED] == 4


def test_what_waits_is_there_after_a_restart(desk: Desk) -> None:
    missing, *later = (placed(number) for number in range(1, 5))
    desk.send(*later)
    with desk.running():
        desk.wait_for_parked(*((number, "waiting", "gap") for number in (2, 3, 4)))
    desk.send(missing)
    desk.consume(4)
    desk.wait_for_effects(*numbered(4))
    assert desk.parked() == []


def test_each_of_several_gaps_is_waited_for(desk: Desk) -> None:
    events = {number: placed(number) for number in range(1, 9)}
    desk.send(*(events[number] for number in (1, 8, 3, 6, 5)))
    with desk.running():
        desk.wait_for_parked(*((number, "waiting", "gap") for number in (3, 5, 6, 8)))
        for number, reached in ((4, 1), (7, 1), (2, 8)):
            desk.send(events[number])
            desk.wait_for_effects(*numbered(reached))
        desk.wait_for_parked()


def test_a_parked_event_that_is_delivered_again_is_parked_once_and_its_duplicate_is_known_later(desk: Desk) -> None:
    first, second = placed(1), placed(2)
    desk.send(second, second)
    with desk.running() as consumer:
        desk.wait_for_parked((2, "waiting", "gap"))
        desk.send(second, placed(1, "other"))
        desk.wait_for_effects(("other", 1))
        assert desk.parked() == [(2, "waiting", "gap")]
        desk.send(first)
        desk.wait_for_effects(*numbered(2), ("other", 1))
        desk.send(second)
        eventually(lambda: consumer.outcomes[Outcome.DUPLICATE] == 1, "the duplicate")
    assert desk.watermark() == 2


def test_a_gap_that_lasts_is_told_once(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.send(placed(2))
    with desk.running(desk.consumer(limits=Limits(gap_alarm_seconds=0.1))), caplog.at_level(logging.WARNING):
        eventually(lambda: "events wait for one that is missing" in caplog.text, "the alarm")
        desk.send(placed(1, "other"))
        desk.wait_for_effects(("other", 1))
    assert caplog.text.count("events wait for one that is missing") == 1


def test_another_incarnation_of_the_source_neither_waits_nor_conflicts(desk: Desk) -> None:
    desk.send(placed(1), placed(3), *(replace(placed(number), source="orders.2") for number in (1, 2)))
    with desk.running():
        eventually(lambda: desk.effects() == [("1", 1), ("1", 1), ("1", 2)], "both incarnations")
        desk.wait_for_parked((3, "waiting", "gap"))


def test_where_only_the_latest_state_counts_what_is_late_is_superseded_and_nothing_waits(desk: Desk) -> None:
    late = placed(2)
    desk.send(placed(1), placed(3), late, placed(7))
    with desk.running(desk.consumer(latest={"order"})) as consumer:
        eventually(lambda: consumer.outcomes.total() == 4, "four events")
        desk.send(late)
        eventually(lambda: consumer.outcomes[Outcome.DUPLICATE] == 1, "the duplicate")
    assert desk.effects() == [("1", 1), ("1", 3), ("1", 7)]
    assert consumer.outcomes[Outcome.SUPERSEDED] == 1
    assert desk.parked() == []
    assert desk.watermark() == 7


def test_where_the_watermark_alone_remembers_no_id_is_kept_and_duplicates_are_known(desk: Desk) -> None:
    events = [placed(number) for number in range(1, 5)]
    desk.send(*events, *events[:2])
    consumer = desk.consumer(by_watermark={"order"})
    with desk.running(consumer):
        eventually(lambda: consumer.outcomes.total() == 6, "six events")
        # A gap waits here as elsewhere, and the id does not matter.
        desk.send(placed(6), replace(events[0], id=new_event_id()))
        desk.wait_for_parked((6, "waiting", "gap"))
        desk.send(placed(5))
        desk.wait_for_effects(*numbered(6))
        eventually(lambda: consumer.outcomes[Outcome.DUPLICATE] == 3, "three duplicates")
        desk.wait_for_parked()
    assert desk.rows("select count(*) from inbox") == [(0,)]


def test_where_no_id_is_remembered_one_that_no_park_can_take_is_unreadable_all_the_same(desk: Desk) -> None:
    desk.send(*(replace(placed(2), id=event_id) for event_id in ("i\0", "i" * 3000)), placed(1))
    with desk.running(desk.consumer(by_watermark={"order"})):
        desk.wait_for_effects(*numbered(1))
        desk.wait_for_parked(*[(None, "dead", "unreadable")] * 2)
