"""The table in the module's docstring, what stands beside it, and the laws that follow from it."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.consumer.ordering import (
    Aggregate,
    Judgement,
    Memory,
    Order,
    Verdict,
    Watermark,
    aggregate_of,
    bound_at,
    judge,
    moves_of,
    span_of,
)
from cdc_outbox.event import RecordedEvent, SequenceMode
from tests.support.events import make_event

GAPLESS, INCREASING, NONE = SequenceMode.GAPLESS, SequenceMode.INCREASING, SequenceMode.NONE
NEXT, DUPLICATE, CONFLICT, GAP = Verdict.NEXT, Verdict.DUPLICATE, Verdict.CONFLICT, Verdict.GAP
BEHIND, PARKED, SUPERSEDED, EXPIRED = Verdict.BEHIND, Verdict.PARKED, Verdict.SUPERSEDED, Verdict.EXPIRED
ONE = Aggregate("orders.1", "order", "1")


def make_events(*sequences: int | None) -> list[RecordedEvent]:
    """Return events whose ids are their sequence numbers and their indexes in the list."""
    return [make_event(sequence, event_id=f"{sequence}-{index}") for index, sequence in enumerate(sequences)]


def judged(
    events: list[RecordedEvent],
    mode: SequenceMode = GAPLESS,
    *,
    unseen: Iterable[str] | None = None,
    last: int = 0,
    parked: int = 0,
    is_parked: Iterable[str] = (),
    purged_before: datetime | None = None,
    latest: bool = False,
    by_watermark: bool = False,
    **sets: Any,
) -> list[Verdict]:
    """Return the verdicts on events of one aggregate; all ids are unseen unless told otherwise."""
    memory = Memory(
        unseen={one.id or "" for one in events} if unseen is None else set(unseen),
        watermarks={ONE: Watermark(last, parked)},
        parked=set(is_parked),
        purged_before=purged_before,
    )
    order = Order(mode=mode, latest=latest, by_watermark=by_watermark)
    return [judgement.verdict for judgement in judge(events, memory, lambda _: order, **sets)]


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
    assert judged([make_event(sequence, event_id="a")], mode, unseen={"a"} if is_new else set(), last=5) == [verdict]


def test_the_first_event_of_an_aggregate_is_number_one() -> None:
    assert [judged([make_event(number)]) for number in (1, 2)] == [[NEXT], [GAP]]


def test_another_incarnation_starts_again() -> None:
    assert judged([make_event(1, source="orders.2")], last=5) == [NEXT]


def test_a_list_is_judged_as_if_one_came_after_the_other() -> None:
    events = [
        make_event(1, event_id="a"),
        make_event(2, event_id="b"),
        make_event(1, event_id="a"),
        make_event(4, event_id="d"),
    ]
    memory = Memory(unseen={"a", "b", "d"}, watermarks={})
    judgements = judge(events, memory, lambda _: Order(mode=GAPLESS))
    assert [judgement.verdict for judgement in judgements] == [NEXT, NEXT, DUPLICATE, GAP]
    [move] = moves_of([one for one in judgements if one.verdict is NEXT], {})
    assert (move.before, move.after, move.parked) == (0, 2, 0)


@pytest.mark.parametrize(
    ("mode", "sequences", "verdicts"),
    [
        (GAPLESS, (1, 2, 3), [NEXT, GAP, GAP]),
        (INCREASING, (1, 5, 9), [NEXT, BEHIND, BEHIND]),
        (NONE, (None, None, None), [NEXT, BEHIND, BEHIND]),
    ],
)
def test_what_comes_after_a_failed_event_of_its_aggregate_is_not_applied(
    mode: SequenceMode, sequences: tuple[int | None, ...], verdicts: list[Verdict]
) -> None:
    events = make_events(*sequences)
    assert judged(events, mode, failed={events[0].id}) == verdicts


def test_what_comes_after_a_parked_event_waits_where_only_the_topic_tells_the_order() -> None:
    assert judged(make_events(6), INCREASING, last=5, parked=1) == [BEHIND]
    assert judged(make_events(None), NONE, parked=1) == [BEHIND]
    # Without gaps the number alone decides: what is missing comes after those that wait for it.
    assert judged(make_events(6), GAPLESS, last=5, parked=1) == [NEXT]


@pytest.mark.parametrize("mode", list(SequenceMode))
def test_what_comes_out_of_the_park_is_not_kept_by_what_is_parked_there(mode: SequenceMode) -> None:
    events = make_events(*((None, None) if mode is NONE else (1, 2)))
    redone = {one.id or "" for one in events}
    assert judged(events, mode, parked=2, is_parked=redone, redone=redone) == [NEXT, NEXT]


@pytest.mark.parametrize("mode", list(SequenceMode))
def test_an_event_that_is_parked_and_comes_again_stays_there(mode: SequenceMode) -> None:
    [again] = make_events(None if mode is NONE else 3)
    assert judged([again], mode, parked=1, is_parked={again.id or ""}) == [PARKED]


def test_an_event_that_is_set_aside_and_comes_again_in_the_same_list_is_parked_once() -> None:
    event = make_event(3)
    assert judged([event, event]) == [GAP, PARKED]


def test_a_conflict_is_set_aside_alone() -> None:
    events = make_events(2, 2, 3)
    assert judged(events, last=1) == [NEXT, CONFLICT, NEXT]


def test_what_somebody_decided_to_apply_is_applied_once() -> None:
    early, late = make_event(9, event_id="a"), make_event(3, event_id="a")
    assert judged([early], last=5, redone={"a"}, forced={"a"}) == [NEXT]
    assert judged([late], last=5, redone={"a"}, forced={"a"}) == [NEXT]
    assert judged([early], last=5, unseen=(), redone={"a"}, forced={"a"}) == [DUPLICATE]


def test_where_only_the_latest_state_counts_what_is_stale_is_superseded_and_nothing_is_missing() -> None:
    assert judged(make_events(3, 9, 8, 10), latest=True, last=5) == [SUPERSEDED, NEXT, SUPERSEDED, NEXT]
    assert judged([make_event(3)], latest=True, last=5, unseen=()) == [DUPLICATE]


def test_where_the_watermark_alone_remembers_what_is_stale_is_a_duplicate() -> None:
    assert judged(make_events(5, 6, 6, 8), by_watermark=True, last=5, unseen=()) == [DUPLICATE, NEXT, DUPLICATE, GAP]


NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def id_at(moment: datetime) -> str:
    return f"{bound_at(moment)}7000-8000-000000000000"


@pytest.mark.parametrize(
    ("mode", "sequence", "verdict"),
    [
        (GAPLESS, 6, NEXT),
        (GAPLESS, 3, DUPLICATE),
        (INCREASING, 6, NEXT),
        (INCREASING, 3, EXPIRED),
        (NONE, None, EXPIRED),
    ],
)
def test_an_id_that_may_be_forgotten_proves_nothing(mode: SequenceMode, sequence: int | None, verdict: Verdict) -> None:
    """A long outage must not park everything: what is next by its number is next."""
    old = make_event(sequence, event_id=id_at(NOW - timedelta(milliseconds=1)))
    assert judged([old], mode, last=5, purged_before=NOW) == [verdict]
    young = make_event(sequence, event_id=id_at(NOW))
    assert judged([young], mode, last=5, purged_before=NOW) == [CONFLICT if sequence == 3 else NEXT]
    # Decided by somebody, or parked before the purge.
    assert judged([old], mode, last=5, purged_before=NOW, redone={old.id}) == judged([old], mode, last=5)


@pytest.mark.parametrize(("days", "verdict"), [(0, EXPIRED), (6.9, EXPIRED), (7, NEXT)])
def test_an_id_that_tells_no_time_is_as_old_as_its_event(days: float, verdict: Verdict) -> None:
    """It is forgotten by when it was claimed, up to a week behind the purge that is noted."""
    created_at = NOW + timedelta(days=days)
    event = replace(make_event(None, event_id="04f3ac5e-0a4b-4a5c-9d0e-000000000001"), created_at=created_at)
    assert judged([event], NONE, purged_before=NOW) == [verdict]


def test_a_move_counts_what_is_parked_beside_what_is_applied() -> None:
    first, other = make_event(6, event_id="a"), Aggregate("orders.1", "order", "2")
    moves = moves_of(
        [Judgement(first, ONE, NEXT, 5)], {ONE: Watermark(5, 2), other: Watermark(7, 1)}, {ONE: -1, other: 1}
    )
    assert [(move.aggregate, move.before, move.after, move.parked) for move in moves] == [
        (ONE, 5, 6, -1),
        (other, 7, 7, 1),
    ]


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
    watermarks: dict[Aggregate, Watermark] = {}
    applied: dict[str, list[int]] = {"a": [], "b": []}
    for start in range(0, len(deliveries), size):
        events = [
            make_event(
                one.sequence,
                aggregate_id=one.aggregate,
                event_id=f"{'forged' if one.is_foreign else 'id'}-{one.aggregate}{one.sequence}",
            )
            for one in deliveries[start : start + size]
        ]
        unseen = {one.id or "" for one in events} - claimed
        judgements = judge(events, Memory(unseen=unseen, watermarks=watermarks), lambda _: Order(mode=GAPLESS))
        set_aside = {one.event.id for one in judgements if one.verdict.is_parked or one.verdict is PARKED}
        claimed |= unseen - set_aside
        done = [judgement for judgement in judgements if judgement.verdict is NEXT]
        for judgement in done:
            applied[judgement.event.aggregate_id].append(judgement.event.sequence or 0)
        watermarks |= {move.aggregate: Watermark(move.after) for move in moves_of(done, watermarks)}
    for aggregate_id, numbers in applied.items():
        assert numbers == list(range(1, len(numbers) + 1))
        assert watermarks.get(ONE._replace(aggregate_id=aggregate_id), Watermark()).last == len(numbers)


def test_a_span_is_from_behind_the_first_event_of_each_aggregate_to_its_last() -> None:
    orders = {
        "order": Order(mode=GAPLESS),
        "price": Order(mode=INCREASING),
        "state": Order(mode=GAPLESS, latest=True),
        "visit": Order(mode=NONE),
        "log": Order(mode=GAPLESS, by_watermark=True),
    }

    def span(*numbered: tuple[str, int | None], event_id: str | None = None) -> list[list[Any]] | None:
        events = [
            make_event(number, aggregate_type=name, event_id=event_id or str(place))
            for place, (name, number) in enumerate(numbered)
        ]
        found = span_of(events, map(aggregate_of, events), orders.__getitem__)
        return None if found is None else [list(each.values()) for each in found]

    numbered = [("order", 4), ("price", 7), ("order", 5), ("state", 3), ("price", 9), ("state", 7)]
    assert span(*numbered) == [[range(3, 4), range(7), range(3)], [5, 9, 7]]
    assert span(("order", 1), ("order", None)) is None
    assert span(("order", 1), ("visit", None)) is None
    assert span(("order", 1), ("log", 1)) is None
    assert span(("order", 1), ("order", 3)) is None
    assert span(("order", 2), ("order", 1)) is None
    assert span(("price", 2), ("price", 2)) is None
    assert span(("order", 1), ("order", 2), event_id="same") is None
