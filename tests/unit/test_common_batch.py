"""A batch whose events are all new and next takes a short way, with the results of the whole one."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from cdc_outbox.consumer import delivery
from cdc_outbox.consumer.delivery import Delivered
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.ordering import Aggregate, Judgement, Memory, Order, Watermark, judge
from cdc_outbox.errors import MessageError
from cdc_outbox.event import RecordedEvent, SequenceMode
from tests.support.delivery_rig import SpyDatabase, deliver, item
from tests.support.events import SOURCE, make_event

KINDS = tuple(
    make_event(sequence, event_id=event_id, event_type=event_type)
    for event_id, event_type in (("a", "OrderPlaced"), ("b", "OrderShipped"))
    for sequence in (None, 1, 2)
)
"""Events of one aggregate; the second type has no handler."""
ORDERS = tuple(Order(mode=mode, by_watermark=by) for mode in SequenceMode for by in {False, mode.is_numbered})
NO_ID = frozenset({"no event's id"})
"""As `failed`, it turns the quick branch of `judge` off without changing a verdict."""
OF_ONE_WAY = {"claim", "claim next", "fence", "look", "begin", "rollback"}
"""Steps in which the ways differ: what is claimed is among what is left, and a claim that fails begins anew."""


def lists(longest: int) -> Iterator[Sequence[RecordedEvent]]:
    for length in range(1, longest + 1):
        yield from product(KINDS, repeat=length)


def memories() -> Iterable[Memory]:
    aggregate = Aggregate(SOURCE, "order", "1")
    for unseen, parked, last, waiting in product(("", "a", "ab"), ("", "a"), (0, 1), (0, 1)):
        yield Memory(unseen=set(unseen), watermarks={aggregate: Watermark(last, waiting)}, parked=set(parked))


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_both_ways_judge_alike(order: Order) -> None:
    for memory, events in product(memories(), lists(3)):
        expected = judge(events, memory, lambda _: order, failed=NO_ID)
        assert judge(events, memory, lambda _: order) == expected, (events, memory)


@pytest.mark.parametrize("by_watermark", [False, True])
def test_both_ways_judge_alike_where_two_types_share_an_id(by_watermark: bool) -> None:  # noqa: FBT001 - pytest's
    orders = {
        "order": Order(mode=SequenceMode.GAPLESS, by_watermark=by_watermark),
        "bill": Order(mode=SequenceMode.GAPLESS),
    }
    kinds = [
        make_event(number, event_id=one, aggregate_type=kind) for one, kind, number in product("ab", orders, (1, 2))
    ]
    for unseen, events in product(("", "a", "ab"), product(kinds, repeat=3)):
        memory = Memory(unseen=set(unseen), watermarks={})
        expected = judge(events, memory, orders.__getitem__, failed=NO_ID)
        assert judge(events, memory, orders.__getitem__) == expected, (events, memory)


def delivered(
    batches: Iterable[Sequence[RecordedEvent]], order: Order, purged_before: datetime | None = None
) -> list[Any]:
    """Deliver batches one after the other; return what was said of each, all that was done, and what is left."""
    database = SpyDatabase()
    database.committed.purged_before = purged_before
    handled: list[str] = []
    said: list[Delivered | str] = []
    for events in batches:
        items = [item(event, place) for place, event in enumerate(events)]
        try:
            said.append(
                deliver(
                    *items,
                    handler=lambda event, _: handled.append(event.id),
                    database=database,
                    mode=order.mode,
                    by_watermark=order.by_watermark,
                )
            )
        except MessageError as error:  # another event has the id of one that is parked
            said.append(str(error))
    return [said, handled, [step for step in database.steps if step not in OF_ONE_WAY], database.committed]


@pytest.mark.parametrize("purged_before", [None, datetime(2100, 1, 1, tzinfo=UTC)], ids=["kept", "purged"])
@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_all_ways_deliver_alike(order: Order, purged_before: datetime | None, monkeypatch: pytest.MonkeyPatch) -> None:
    stories = [[first, second] for first, second in product(lists(1), lists(2))]
    quick = [delivered(batches, order, purged_before) for batches in stories]
    monkeypatch.setattr(SpyDatabase, "claim_next", nothing)
    assert quick == [delivered(batches, order, purged_before) for batches in stories]
    monkeypatch.setattr(delivery, "_are_plain", lambda _: False)
    assert quick == [delivered(batches, order, purged_before) for batches in stories]


async def nothing(*_: object) -> None:
    """Stand for a database that has no statement for it."""


def test_a_common_batch_takes_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def note(item: Item, _judgement: Judgement) -> bool:
        asked.append(item)
        return False

    monkeypatch.setattr(delivery, "_is_applied", note)
    first, second = make_event(1, event_id="a"), make_event(2, event_id="b")
    delivered([[first, second]], Order(mode=SequenceMode.GAPLESS))
    assert not asked
    delivered([[second]], Order(mode=SequenceMode.GAPLESS))
    assert asked


def test_the_count_of_starts_of_an_event_is_forgotten_once_it_is_applied() -> None:
    database, event = SpyDatabase(), make_event(1)
    database.committed.starts[event.id] = 1
    deliver(item(event).begun(), handler=lambda _event, _connection: None, database=database)
    assert not database.committed.starts
