"""What may be confirmed, for every order in which messages are delivered."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.debezium.event_router.produce import RoutedEvent
from cdc_outbox.relay.relay_errors import DeliveryError, MessageRefusedError
from cdc_outbox.relay.units import Outstanding, Unit

EVENT: RoutedEvent = ("topic", b"value", b"key", -1, 1, [])
SHAPES = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12)
"""The events of each unit, and whether the unit ends with a transaction."""


def units_of(shapes: Sequence[tuple[int, bool]]) -> list[Unit[int]]:
    return [Unit([EVENT] * count, number if ends else None) for number, (count, ends) in enumerate(shapes, 1)]


@given(SHAPES, st.randoms(use_true_random=False), st.data())
def test_nothing_undelivered_is_passed_and_in_the_end_everything_is_confirmed(
    shapes: list[tuple[int, bool]], random: Random, data: st.DataObject
) -> None:
    outstanding: Outstanding[int] = Outstanding()
    units = units_of(shapes)
    waiting, read, last = list[Unit[int]](), 0, 0
    while read < len(units) or waiting:
        if read < len(units) and (not waiting or data.draw(st.booleans())):
            outstanding.push(units[read])
            waiting += [units[read]] * len(units[read].events)
            read += 1
        else:
            waiting.pop(random.randrange(len(waiting))).delivered(None, None)
        confirmable = outstanding.settle() or 0
        assert confirmable >= last
        assert all(not unit.undelivered for unit in units[:confirmable])
        assert confirmable in {0, *(unit.position for unit in units)}
        last = confirmable
    assert outstanding.settle() == max((unit.position for unit in units if unit.position), default=None)
    assert len(outstanding) == 0


def test_a_keepalive_waits_for_the_transaction_before_it() -> None:
    outstanding: Outstanding[int] = Outstanding()
    transaction, keepalive = Unit([EVENT], 7), Unit[int](position=9)
    outstanding.push(transaction)
    outstanding.push(keepalive)
    assert outstanding.settle() is None
    transaction.delivered()
    assert outstanding.settle() == 9


def test_what_failed_is_raised_and_nothing_behind_it_is_confirmed() -> None:
    outstanding: Outstanding[int] = Outstanding()
    first, failed, behind = Unit([EVENT], 1), Unit([EVENT, EVENT], 2), Unit[int](position=3)
    for unit in (first, failed, behind):
        outstanding.push(unit)
    first.delivered()
    failed.delivered("queue full")
    failed.delivered(MessageRefusedError("later"))
    for _ in range(2):
        with pytest.raises(DeliveryError, match="queue full"):
            outstanding.settle()
        assert outstanding.confirmable == 1


def test_a_sink_translates_the_errors_of_its_client() -> None:
    unit = Unit([EVENT], 1)
    unit.translate = lambda error, record: MessageRefusedError(f"{record}: {error}")
    unit.delivered("too large", "order-1")
    assert isinstance(unit.failure, MessageRefusedError)
    assert str(unit.failure) == "order-1: too large"


def test_reports_of_an_earlier_opening_confirm_nothing_of_a_later_one() -> None:
    earlier: Outstanding[int] = Outstanding()
    unit = Unit([EVENT], 5)
    earlier.push(unit)
    later: Outstanding[int] = Outstanding()
    later.push(Unit([EVENT], 3))
    unit.delivered()
    assert later.settle() is None
