"""A missing event: what comes after it waits in the park, others go on, and nothing sleeps there when it comes."""

import logging
from dataclasses import replace

import pytest

from cdc_outbox.consumer import Outcome
from cdc_outbox.event import new_event_id
from tests.support.events import make_event
from tests.support.rig import eventually
from tests.support.service import Service, effects_of
from tests.support.timings import QUICK_LIMITS


def test_what_comes_after_a_missing_event_waits_and_is_applied_in_order_once_it_comes(fed_service: Service) -> None:
    first, missing, *later = (make_event(number) for number in range(1, 7))
    fed_service.send(first, *later, *(make_event(number, "other") for number in range(1, 4)))
    with fed_service.running() as consumer:
        fed_service.wait_for_effects(*effects_of(1), *effects_of(3, "other"))
        fed_service.wait_for_parked(*((number, "waiting", "gap") for number in (3, 4, 5, 6)))
        fed_service.send(make_event(4, "other"))
        fed_service.wait_for_effects(*effects_of(1), *effects_of(4, "other"))
        fed_service.send(missing)
        fed_service.wait_for_effects(*effects_of(6), *effects_of(4, "other"))
        fed_service.wait_for_parked()
        fed_service.send(make_event(7))
        fed_service.wait_for_effects(*effects_of(7), *effects_of(4, "other"))
    assert fed_service.watermark() == 7
    assert consumer.outcomes[Outcome.PARKED] == 4


def test_what_waits_is_there_after_a_restart(fed_service: Service) -> None:
    missing, *later = (make_event(number) for number in range(1, 5))
    fed_service.send(*later)
    with fed_service.running():
        fed_service.wait_for_parked(*((number, "waiting", "gap") for number in (2, 3, 4)))
    fed_service.send(missing)
    fed_service.consume(4)
    fed_service.wait_for_effects(*effects_of(4))
    assert fed_service.parked() == []


def test_each_of_several_gaps_is_waited_for(fed_service: Service) -> None:
    events = {number: make_event(number) for number in range(1, 9)}
    fed_service.send(*(events[number] for number in (1, 8, 3, 6, 5)))
    with fed_service.running():
        fed_service.wait_for_parked(*((number, "waiting", "gap") for number in (3, 5, 6, 8)))
        for number, reached in ((4, 1), (7, 1), (2, 8)):
            fed_service.send(events[number])
            fed_service.wait_for_effects(*effects_of(reached))
        fed_service.wait_for_parked()


def test_a_parked_event_that_is_delivered_again_is_parked_once_and_a_duplicate_after_that(
    fed_service: Service,
) -> None:
    first, second = make_event(1), make_event(2)
    fed_service.send(second, second)
    with fed_service.running() as consumer:
        fed_service.wait_for_parked((2, "waiting", "gap"))
        fed_service.send(second, make_event(1, "other"))
        fed_service.wait_for_effects(("other", 1))
        assert fed_service.parked() == [(2, "waiting", "gap")]
        fed_service.send(first)
        fed_service.wait_for_effects(*effects_of(2), ("other", 1))
        fed_service.send(second)
        eventually(lambda: consumer.outcomes[Outcome.DUPLICATE] == 3, "the duplicates")
    assert consumer.outcomes[Outcome.PARKED] == 1
    assert fed_service.watermark() == 2


def test_a_gap_that_lasts_is_told_once(fed_service: Service, caplog: pytest.LogCaptureFixture) -> None:
    fed_service.send(make_event(2))
    with (
        fed_service.running(fed_service.consumer(limits=replace(QUICK_LIMITS, gap_alarm_seconds=0.1))),
        caplog.at_level(logging.WARNING),
    ):
        eventually(lambda: "events wait for a missing one" in caplog.text, "the alarm")
        fed_service.send(make_event(1, "other"))
        fed_service.wait_for_effects(("other", 1))
    assert caplog.text.count("events wait for a missing one") == 1


def test_another_incarnation_of_the_source_neither_waits_nor_conflicts(fed_service: Service) -> None:
    fed_service.send(
        make_event(1), make_event(3), *(replace(make_event(number), source="orders.2") for number in (1, 2))
    )
    with fed_service.running():
        eventually(lambda: fed_service.effects() == [("1", 1), ("1", 1), ("1", 2)], "both incarnations")
        fed_service.wait_for_parked((3, "waiting", "gap"))


def test_where_only_the_latest_state_counts_what_is_late_is_superseded_and_nothing_waits(fed_service: Service) -> None:
    late = make_event(2)
    fed_service.send(make_event(1), make_event(3), late, make_event(7))
    contract = replace(fed_service.pipeline.spec.contract, latest=("order",))
    with fed_service.running(fed_service.consumer(contract=contract)) as consumer:
        eventually(lambda: consumer.outcomes.total() == 4, "four events")
        fed_service.send(late)
        eventually(lambda: consumer.outcomes[Outcome.DUPLICATE] == 1, "the duplicate")
    assert fed_service.effects() == [("1", 1), ("1", 3), ("1", 7)]
    assert consumer.outcomes[Outcome.SUPERSEDED] == 1
    assert fed_service.parked() == []
    assert fed_service.watermark() == 7


def test_where_the_watermark_alone_remembers_no_id_is_kept_and_duplicates_are_known(fed_service: Service) -> None:
    events = [make_event(number) for number in range(1, 5)]
    fed_service.send(*events, *events[:2])
    contract = replace(fed_service.pipeline.spec.contract, by_watermark=("order",))
    consumer = fed_service.consumer(contract=contract)
    with fed_service.running(consumer):
        eventually(lambda: consumer.outcomes.total() == 6, "six events")
        # A gap waits here as elsewhere, and the id does not matter.
        fed_service.send(make_event(6), replace(events[0], id=new_event_id()))
        fed_service.wait_for_parked((6, "waiting", "gap"))
        fed_service.send(make_event(5))
        fed_service.wait_for_effects(*effects_of(6))
        eventually(lambda: consumer.outcomes[Outcome.DUPLICATE] == 3, "three duplicates")
        fed_service.wait_for_parked()
    assert fed_service.rows("select count(*) from inbox") == [(0,)]


def test_where_no_id_is_remembered_one_that_no_park_can_take_is_unreadable_all_the_same(fed_service: Service) -> None:
    fed_service.send(*(replace(make_event(2), id=event_id) for event_id in ("i\0", "i" * 3000)), make_event(1))
    contract = replace(fed_service.pipeline.spec.contract, by_watermark=("order",))
    with fed_service.running(fed_service.consumer(contract=contract)):
        fed_service.wait_for_effects(*effects_of(1))
        fed_service.wait_for_parked(*[(None, "dead", "unreadable")] * 2)
