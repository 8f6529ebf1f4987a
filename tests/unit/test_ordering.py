"""The table in the module's docstring, and the laws that follow from it."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.consumer.ordering import Aggregate, Verdict, aggregate_of, judge, moves_of
from cdc_outbox.event import Event, SequenceMode

GAPLESS, INCREASING, NONE = SequenceMode.GAPLESS, SequenceMode.INCREASING, SequenceMode.NONE
NEXT, DUPLICATE, CONFLICT, GAP = Verdict.NEXT, Verdict.DUPLICATE, Verdict.CONFLICT, Verdict.GAP


def event(sequence: int | None, *, event_id: str = "new", aggregate_id: str = "1", source: str = "orders.1") -> Event:
    return Event(
        aggregate_type="order",
        aggregate_id=aggregate_id,
        type="OrderPlaced",
        payload={},
        id=event_id,
        sequence=sequence,
        source=source,
    )


@pytest.mark.parametrize(
    ("mode", "sequence", "is_new", "verdict"),
    [
        (GAPLESS, 3, True, CONFLICT),
        (GAPLESS, 5, True, CONFLICT),
        (GAPLESS, 3, False, DUPLICATE),
        (GAPLESS, 5, False, DUPLICATE),
        (GAPLESS, 6, True, NEXT),
        (GAPLESS, 6, False, CONFLICT),
        (GAPLESS, 7, True, GAP),
        (GAPLESS, 7, False, CONFLICT),
        (INCREASING, 5, True, CONFLICT),
        (INCREASING, 5, False, DUPLICATE),
        (INCREASING, 6, True, NEXT),
        (INCREASING, 6, False, CONFLICT),
        (INCREASING, 9, True, NEXT),
        (INCREASING, 9, False, CONFLICT),
        (NONE, None, True, NEXT),
        (NONE, None, False, DUPLICATE),
    ],
)
def test_every_cell_of_the_table(mode: SequenceMode, sequence: int | None, is_new: bool, verdict: Verdict) -> None:  # noqa: FBT001
    [judgement] = judge(
        [event(sequence)],
        unseen={"new"} if is_new else set(),
        watermarks={Aggregate("orders.1", "order", "1"): 5},
        mode_of=lambda _: mode,
    )
    assert judgement.verdict is verdict


def test_the_first_event_of_an_aggregate_is_number_one() -> None:
    first, second = (judge([event(n)], unseen={"new"}, watermarks={}, mode_of=lambda _: GAPLESS) for n in (1, 2))
    assert [first[0].verdict, second[0].verdict] == [NEXT, GAP]


def test_another_incarnation_starts_again() -> None:
    watermarks = {Aggregate("orders.1", "order", "1"): 5}
    [judgement] = judge([event(1, source="orders.2")], unseen={"new"}, watermarks=watermarks, mode_of=lambda _: GAPLESS)
    assert judgement.verdict is NEXT


def test_a_list_is_judged_as_if_one_came_after_the_other() -> None:
    events = [event(1, event_id="a"), event(2, event_id="b"), event(1, event_id="a"), event(4, event_id="d")]
    judgements = judge(events, unseen={"a", "b", "d"}, watermarks={}, mode_of=lambda _: GAPLESS)
    assert [judgement.verdict for judgement in judgements] == [NEXT, NEXT, DUPLICATE, GAP]
    [move] = moves_of(judgements)
    assert (move.before, move.after) == (0, 2)


class Delivered(NamedTuple):
    aggregate: str
    sequence: int
    is_foreign: bool


@given(
    st.lists(st.builds(Delivered, st.sampled_from("ab"), st.integers(1, 6), st.integers(0, 9).map(lambda n: n == 0))),
    st.integers(1, 4),
)
def test_any_delivery_applies_each_number_once_and_in_order(deliveries: list[Delivered], size: int) -> None:
    """Whatever is repeated, reordered or forged, in batches of any size: what is next was never seen, in sequence."""
    claimed: set[str] = set()
    watermarks: dict[Aggregate, int] = {}
    applied: dict[str, list[int]] = {"a": [], "b": []}
    for start in range(0, len(deliveries), size):
        events = [
            event(
                one.sequence,
                aggregate_id=one.aggregate,
                event_id=f"{'forged' if one.is_foreign else 'id'}-{one.aggregate}{one.sequence}",
            )
            for one in deliveries[start : start + size]
        ]
        unseen = {one.id or "" for one in events} - claimed
        judgements = judge(events, unseen=unseen, watermarks=watermarks, mode_of=lambda _: GAPLESS)
        if any(judgement.verdict in {GAP, CONFLICT} for judgement in judgements):
            continue  # the transaction is rolled back, claims and all
        claimed |= unseen
        for judgement in judgements:
            if judgement.verdict is NEXT:
                applied[judgement.event.aggregate_id].append(judgement.event.sequence or 0)
        watermarks |= {move.aggregate: move.after for move in moves_of(judgements)}
    for aggregate, numbers in applied.items():
        assert numbers == list(range(1, len(numbers) + 1))
        assert watermarks.get(aggregate_of(event(1, aggregate_id=aggregate)), 0) == len(numbers)
