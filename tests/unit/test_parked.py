"""What may be decided about parked events."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from cdc_outbox.consumer.ordering import Aggregate
from cdc_outbox.consumer.parked_events import Due, Reason, State, choose
from cdc_outbox.errors import InboxError
from cdc_outbox.operations.baseline import Gap, chosen
from cdc_outbox.operations.parked_rules import ParkedRow, decide_skip, hint_not_retried, why_not_retried

A, B = Aggregate("orders.1", "order", "a"), Aggregate("orders.1", "order", "b")


def row(parked_id: int, sequence: int | None, reason: Reason = Reason.GAP) -> ParkedRow:
    return ParkedRow(
        parked_id=parked_id,
        state=State.DEAD,
        reason=reason,
        aggregate=A,
        event_id=f"id-{parked_id}",
        type="OrderPlaced",
        sequence=sequence,
        blocks=reason.blocks,
        forced=False,
        attempts=1,
        error="",
        parked_at=datetime(2026, 1, 1, tzinfo=UTC),
        tried_at=datetime(2026, 1, 1, tzinfo=UTC),
        retry_at=None,
        topic="events",
        partition=0,
        offset=parked_id,
        turn=sequence or 0,
    )


def skipped(chosen: list[ParkedRow], parked: list[ParkedRow], last: int) -> tuple[int, list[int], int]:
    skip = decide_skip(chosen, parked, last)
    return skip.after, [hole.sequence or 0 for hole in skip.holes], skip.unblocked


def test_a_skip_moves_over_the_next_and_over_nothing_else() -> None:
    failed, gap, later = row(1, 5, Reason.FAILED), row(2, 6), row(3, 7)
    parked = [later, gap, failed]
    assert skipped([failed], parked, 4) == (5, [5], 1)
    assert skipped([later, failed, gap], parked, 4) == (7, [5, 6, 7], 3)
    for refused in ([gap], [later], [failed, later]):
        with pytest.raises(InboxError):
            decide_skip(refused, parked, 4)


def test_what_is_stale_is_skipped_without_a_hole() -> None:
    for reason in (Reason.CONFLICT, Reason.EXPIRED):
        assert skipped([row(1, 3, reason)], [row(1, 3, reason)], 4) == (4, [], 0)


def test_what_has_no_number_is_skipped_at_any_time() -> None:
    first, second = row(1, None, Reason.FAILED), row(2, None, Reason.BEHIND)
    assert skipped([second], [first, second], 0) == (0, [], 1)


def test_where_numbers_have_gaps_the_first_that_waits_is_the_next() -> None:
    first, second = row(7, 10, Reason.CRASHED), row(8, 20, Reason.BEHIND)
    assert skipped([first], [first, second], 3) == (10, [10], 1)
    assert skipped([second, first], [first, second], 3) == (20, [10, 20], 2)
    with pytest.raises(InboxError, match="#10, parked as 7, comes first"):
        decide_skip([second], [first, second], 3)


def test_what_waits_behind_an_unreadable_one_is_not_skipped_before_it() -> None:
    unreadable = replace(row(2, None, Reason.UNREADABLE), blocks=True, turn=10)
    first, last = row(1, 10, Reason.FAILED), row(3, 20, Reason.BEHIND)
    parked = [first, unreadable, last]
    assert skipped([first], parked, 3) == (10, [10], 1)
    assert skipped([unreadable], parked, 3) == (3, [], 1)
    assert skipped([last, unreadable, first], parked, 3) == (20, [10, 20], 3)
    with pytest.raises(InboxError, match=r"an event without a number \(unreadable\), parked as 2, comes first"):
        decide_skip([last], [unreadable, last], 10)


def test_a_conflict_ahead_of_its_aggregate_is_not_skipped_before_what_is_missing_came() -> None:
    with pytest.raises(InboxError, match="#6, but #4 has not arrived"):
        decide_skip([row(1, 6, Reason.CONFLICT)], [row(1, 6, Reason.CONFLICT)], 3)


@pytest.mark.parametrize("reason", list(Reason))
def test_each_reason_is_tried_again_as_it_may_be(reason: Reason) -> None:
    def why(*, forced: frozenset[Reason] = frozenset(), claimed: frozenset[str] = frozenset()) -> str:
        return why_not_retried(row(1, 1, reason), forced=forced, claimed=claimed)

    needs_force = reason in {Reason.CONFLICT, Reason.EXPIRED}
    leads_nowhere = reason in {Reason.GAP, Reason.BEHIND}
    assert bool(why()) == (needs_force or leads_nowhere)
    assert bool(why(forced=frozenset(Reason))) == leads_nowhere
    assert bool(why(forced=frozenset(Reason), claimed=frozenset({"id-1"}))) == (needs_force or leads_nowhere)


def test_what_is_forced_already_needs_no_force_again() -> None:
    forced = replace(row(1, 1, Reason.CONFLICT), forced=True)
    assert not why_not_retried(forced, forced=frozenset(), claimed=frozenset())


def test_a_baseline_is_for_what_was_never_seen_or_is_named() -> None:
    new, followed = Gap(A, 0, 41, 2), Gap(B, 7, 9, 1)
    assert chosen([new, followed], None) == [new]
    assert chosen([new, followed], B) == [followed]
    assert (new.missing, followed.missing) == (40, 1)
    assert (new.move.before, new.move.after) == (0, 40)
    assert (followed.hole.first, followed.hole.last) == (8, 8)


def test_what_is_due_and_cannot_go_on_keeps_others_from_their_turn_once() -> None:
    due = [Due(1, A, blocks=True, bytes=1), Due(2, B, blocks=True, bytes=1), Due(3, B, blocks=False, bytes=1)]
    looks = [choose(due, 2, number)[0] for number in range(3)]
    assert [[each.parked_id for each in chosen] for chosen in looks] == [[1, 2], [2, 3], [3, 1]]
    assert choose(due, 3, 1)[0] == [*due[1:], due[0]]  # there is room for all, unless for their bytes


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        (Reason.GAP, "Retry or skip the predecessor"),
        (Reason.CONFLICT, "--force conflict applies it anyway."),
    ],
)
def test_what_cannot_be_retried_has_a_hint(reason: Reason, hint: str) -> None:
    assert hint_not_retried(row(1, 2, reason), forced=frozenset()).startswith(hint)
    assert "skip" in hint_not_retried(row(1, 2, Reason.CONFLICT), forced=frozenset({Reason.CONFLICT}))
