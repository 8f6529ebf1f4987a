"""What is a difference and what is not, on histories of pipelines that went right or wrong in one place."""

from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.consumer.ordering import Aggregate
from cdc_outbox.event import SequenceMode
from cdc_outbox.operations.reconciliation import (
    Account,
    Circumstances,
    DifferenceKind,
    Numbers,
    Parked,
    forgotten,
    judge,
    parked_difference,
)

ORDER = Aggregate("orders.1", "order", "42")
KNOWN = Circumstances(mode=SequenceMode.GAPLESS, consumer="shipping")


def kinds(account: Account, known: Circumstances = KNOWN, until: int | None = None) -> dict[DifferenceKind, int]:
    return {found.kind: found.events for found in judge(ORDER, account, known, until)}


def account_of(given: int, held: "list[int] | range", applied: int = 0, **more: object) -> Account:
    numbers = Numbers()
    for sequence in held:
        numbers.add(sequence, sequence)
    return replace(Account(given=given, given_later=given, numbers=numbers, applied=applied), **more)  # type: ignore[arg-type]


@dataclass
class History:
    """Moments at which an aggregate's events passed the stages, each later than the one before; by event, by stage."""

    stages: list[tuple[int, int, int]]

    def passed(self, stage: int, moment: int) -> list[int]:
        return [number for number, times in enumerate(self.stages, 1) if times[stage] <= moment]

    def look(self, inbox: int, heads: int, ends: int, heads_again: int) -> Account:
        """Read the stages at these moments, as a comparison does."""
        return account_of(
            len(self.passed(0, heads)),
            self.passed(1, ends),
            len(self.passed(2, inbox)),
            given_later=len(self.passed(0, heads_again)),
        )


@st.composite
def histories(draw: st.DrawFn) -> History:
    stages, at = [], [0, 0, 0]
    for _ in range(draw(st.integers(0, 8))):
        for stage in range(3):
            earliest = max(at[stage], at[stage - 1] if stage else 0)
            at[stage] = earliest + draw(st.integers(0, 5))
        stages.append((at[0], at[1], at[2]))
    return History(stages)


MOMENTS = st.lists(st.integers(0, 60), min_size=4, max_size=4).map(sorted)


@given(histories(), MOMENTS)
def test_what_goes_on_is_never_extra_and_never_lost_in_the_middle(history: History, moments: list[int]) -> None:
    found = kinds(history.look(*moments))
    assert found.keys() <= {DifferenceKind.MISSING, DifferenceKind.BEHIND}
    account = history.look(*moments)
    assert found.get(DifferenceKind.MISSING, 0) == max(0, account.given - (account.numbers or Numbers()).last)


@given(histories(), MOMENTS)
def test_who_looks_long_enough_finds_nothing(history: History, moments: list[int]) -> None:
    """What was suspect at the first look is none when its events have arrived, however many came after them."""
    first = history.look(*moments)
    until = first.numbers.last if first.numbers else 0
    given = len(history.stages)
    late = account_of(first.given, range(1, first.given + 1), given, given_later=given)
    assert kinds(late, until=until) == {}


def test_in_the_opposite_order_a_pipeline_that_runs_would_be_accused() -> None:
    """What the law above rests on: heads that are read before the topic only know less than it."""
    history = History([(1, 2, 3), (4, 5, 6)])
    assert kinds(history.look(0, 2, 7, 7)) == {DifferenceKind.BEHIND: 2}
    assert kinds(history.look(0, 2, 7, 2)) == {DifferenceKind.EXTRA: 1, DifferenceKind.BEHIND: 2}


@given(st.integers(1, 12), st.sets(st.integers(1, 12)))
def test_each_number_that_is_lost_is_missing(given: int, lost: set[int]) -> None:
    held = [number for number in range(1, given + 1) if number not in lost]
    found = kinds(account_of(given, held), replace(KNOWN, consumer=None))
    assert found == ({DifferenceKind.MISSING: given - len(held)} if len(held) < given else {})


@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 12))
def test_retention_explains_the_oldest_only_and_only_what_was_applied(given: int, kept_from: int, applied: int) -> None:
    held, applied = range(kept_from + 1, given + 1), min(applied, given)
    account, known = account_of(given, held, applied), replace(KNOWN, starts_later=True)
    gone = min(kept_from, given)
    assert kinds(account, known).get(DifferenceKind.MISSING, 0) == max(0, gone - applied)
    assert forgotten(account, known) == min(gone, applied)
    assert kinds(account).get(DifferenceKind.MISSING, 0) == gone


def test_retention_does_not_explain_a_gap_nor_a_last_event() -> None:
    known = replace(KNOWN, starts_later=True)
    assert kinds(account_of(6, [3, 5], applied=2), known)[DifferenceKind.MISSING] == 2
    assert kinds(account_of(6, [3, 5], applied=2), replace(known, consumer=None))[DifferenceKind.MISSING] == 2


def test_a_compacted_topic_proves_nothing_of_what_was_applied() -> None:
    known = replace(KNOWN, is_compacted=True)
    assert kinds(account_of(6, [6], applied=6), known) == {}
    assert kinds(account_of(6, [6], applied=4), known) == {DifferenceKind.MISSING: 1, DifferenceKind.BEHIND: 1}


def test_rows_of_mariadb_are_not_said_to_be_published_again_by_a_command() -> None:
    [found] = judge(ORDER, account_of(3, [1, 2]), replace(KNOWN, consumer=None, republishes=False))
    assert ("deploy-connector" in found.remedy, "snapshot.mode: initial" in found.remedy) == (False, True)


def test_a_missing_last_event_is_seen_though_it_leaves_no_gap() -> None:
    [found] = judge(ORDER, account_of(3, [1, 2], applied=2), KNOWN)
    assert (found.kind, found.events) == (DifferenceKind.MISSING, 1)
    assert found.message == "3 was given out and is not in the topic: late, or lost."
    first = "Check `cdc-outbox status` first: while the connector does not run, they are late."
    assert found.remedy.startswith(first)
    [forgetful] = judge(ORDER, account_of(3, [2], applied=2), replace(KNOWN, starts_later=True))
    assert forgetful.remedy.startswith(first)


def test_growing_numbers_tell_the_last_one_only() -> None:
    known = replace(KNOWN, mode=SequenceMode.INCREASING)
    assert kinds(account_of(90, [10, 20, 90], applied=90), known) == {}
    assert kinds(account_of(90, [10, 20], applied=20), known) == {DifferenceKind.MISSING: 1}
    assert kinds(account_of(90, [10, 20, 90], applied=10), known) == {DifferenceKind.BEHIND: 2}


def test_what_was_never_given_out_is_extra_in_the_topic_and_in_the_inbox() -> None:
    assert kinds(account_of(3, range(1, 6), applied=5)) == {DifferenceKind.EXTRA: 2}
    assert kinds(account_of(3, range(1, 4), applied=5)) == {DifferenceKind.EXTRA: 2}
    assert kinds(account_of(0, range(1, 3)), replace(KNOWN, has_heads=False, consumer=None)) == {}


def test_what_the_offset_has_passed_does_not_come_by_itself() -> None:
    account = account_of(5, range(1, 6), applied=2, partition=1, offset=9)
    assert kinds(account, replace(KNOWN, committed={1: 9})) == {DifferenceKind.BEHIND: 3}
    assert kinds(account, replace(KNOWN, committed={1: 10})) == {DifferenceKind.PASSED_OVER: 3}
    assert kinds(account, replace(KNOWN, committed={0: 10})) == {DifferenceKind.BEHIND: 3}


def test_parked_events_are_not_behind_too() -> None:
    parked = [Parked(2, "waiting", "failed"), Parked(3, "waiting", "gap")]
    account = account_of(4, range(1, 5), applied=1, parked=parked)
    assert kinds(account) == {DifferenceKind.BEHIND: 1, DifferenceKind.PARKED: 2}


@pytest.mark.parametrize(
    ("parked", "told"),
    [
        ([(1, "waiting", "failed")], "event 1 is parked (waiting, failed)."),
        (
            [(2, "waiting", "behind"), (1, "waiting", "failed")],
            "event 1 is parked (waiting, failed); 1 more waits behind it.",
        ),
        (
            [(1, "waiting", "gap"), *((number, "waiting", "behind") for number in range(2, 1202))],
            "event 1 is parked (waiting, gap); 1,200 more wait behind it.",
        ),
        (
            [(1, "dead", "conflict"), (2, "waiting", "failed"), (3, "waiting", "behind")],
            "event 1 is parked (dead, conflict); 2 more are parked too.",
        ),
        (
            [(None, "dead", "unreadable"), (None, "waiting", "failed")],
            "an event is parked (dead, unreadable); 1 more is parked too.",
        ),
    ],
)
def test_it_is_told_which_parked_event_others_wait_behind(parked: list[tuple[Any, str, str]], told: str) -> None:
    assert parked_difference("order/42 (orders.1)", [Parked(*each) for each in parked]).message == told


def test_a_hole_that_was_accepted_is_no_difference() -> None:
    account = account_of(4, range(1, 5), applied=4, holes=[(2, 3)])
    assert kinds(account) == {DifferenceKind.HOLE: 2}
    assert not DifferenceKind.HOLE.is_difference
