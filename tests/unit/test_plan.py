"""Slot and offsets are decided together; nothing written is left out unless somebody said so."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.connect.facts import COUNTED_ROWS, SlotFacts, WrittenFacts
from cdc_outbox.connect.plan import (
    Change,
    EarlierEvents,
    SlotPlan,
    SlotStep,
    changes_between,
    has_finished_snapshot,
    plan_slot,
    refuse_another_log,
    stored_lsn,
)
from cdc_outbox.errors import UnpublishedEventsError
from cdc_outbox.lsn import Lsn

NOTHING = WrittenFacts()
ROWS = WrittenFacts(rows=7, has_heads=True)
PRUNED = WrittenFacts(rows=0, has_heads=True)
KEPT_NONE = WrittenFacts(rows=0, has_heads=True, keeps_rows=False)


def slot(confirmed: int = 100, *, wal_status: str = "reserved", active: bool = False) -> SlotFacts:
    return SlotFacts("pgoutput", "orders", active=active, wal_status=wal_status, confirmed=Lsn(confirmed))


KEEP, CREATE, RECREATE = (SlotPlan(step) for step in (SlotStep.KEEP, SlotStep.CREATE, SlotStep.RECREATE))


@pytest.mark.parametrize(
    ("found", "stored", "written", "plan"),
    [
        (None, None, NOTHING, CREATE),
        (slot(), None, NOTHING, KEEP),
        (slot(), None, ROWS, KEEP),
        (slot(100), Lsn(100), ROWS, KEEP),
        (slot(100), Lsn(200), ROWS, KEEP),
        (slot(wal_status="lost"), None, NOTHING, RECREATE),
        (slot(active=True), None, WrittenFacts(rows=7, rows_outside_slot=3), KEEP),
    ],
)
def test_what_fits_needs_no_decision(
    found: SlotFacts | None, stored: Lsn | None, written: WrittenFacts, plan: SlotPlan
) -> None:
    assert plan_slot("s", found, stored, written, None) == plan


@pytest.mark.parametrize(
    ("found", "stored", "written", "said"),
    [
        (None, None, ROWS, "does not exist, and the table holds 7 events already"),
        (None, None, PRUNED, "sequences were given out already"),
        (None, Lsn(5), NOTHING, "Connect's offset stands at 0/5: what was committed since then is lost with the slot"),
        (slot(), None, WrittenFacts(rows=7, rows_outside_slot=3), "is younger than 3 events"),
        (slot(100), Lsn(99), ROWS, "is at 0/64, ahead of Connect's offset 0/63"),
        (slot(wal_status="lost"), Lsn(99), ROWS, "has lost its WAL, while Connect's offset stands at 0/63"),
        (None, None, WrittenFacts(rows=COUNTED_ROWS), "at least 100,000 events"),
    ],
)
def test_a_hole_stops_and_names_the_two_ways_on(
    found: SlotFacts | None, stored: Lsn | None, written: WrittenFacts, said: str
) -> None:
    with pytest.raises(UnpublishedEventsError) as caught:
        plan_slot("orders_outbox", found, stored, written, None)
    assert "slot orders_outbox" in str(caught.value)
    assert said in str(caught.value)
    assert "--earlier-events republish" in caught.value.hint
    assert "--earlier-events skip" in caught.value.hint


slots = st.none() | st.builds(slot, st.integers(1, 9), wal_status=st.sampled_from(["reserved", "lost"]))
writtens = st.builds(WrittenFacts, rows=st.integers(0, 2), rows_outside_slot=st.integers(0, 2), has_heads=st.booleans())


@given(slots, st.none() | st.integers(1, 9).map(Lsn), writtens, st.sampled_from(EarlierEvents))
def test_a_decision_always_leads_on_and_to_a_slot_that_fits(
    found: SlotFacts | None, stored: Lsn | None, written: WrittenFacts, earlier: EarlierEvents
) -> None:
    plan = plan_slot("s", found, stored, written, earlier)
    usable = found is not None and found.wal_status != "lost"
    assert (plan.step is SlotStep.KEEP) == usable
    # Offsets of another slot never survive, or the task would fail for good.
    assert plan.resets_offsets == (
        stored is not None and not (usable and found is not None and found.confirmed and found.confirmed <= stored)
    )
    assert not plan.republishes or earlier is EarlierEvents.REPUBLISH


@given(slots, st.none() | st.integers(1, 9).map(Lsn), writtens)
def test_without_a_decision_no_offset_and_no_row_is_given_up(
    found: SlotFacts | None, stored: Lsn | None, written: WrittenFacts
) -> None:
    try:
        plan = plan_slot("s", found, stored, written, None)
    except UnpublishedEventsError:
        return
    assert not plan.resets_offsets
    assert plan.step is SlotStep.KEEP or not (written.rows or written.has_heads or stored)


def test_offsets_are_read_by_the_topic_prefix() -> None:
    offsets = [
        {"partition": {"server": "other"}, "offset": {"lsn": 1}},
        {"partition": {"server": "orders"}, "offset": {"lsn": 24323008, "lsn_proc": 1}},
    ]
    assert stored_lsn(offsets, topic_prefix="orders") == Lsn(24323008)
    assert stored_lsn(offsets, topic_prefix="nobody") is None
    assert stored_lsn([{"partition": {"server": "orders"}, "offset": None}], topic_prefix="orders") is None


def test_a_snapshot_is_finished_when_the_offset_no_longer_speaks_of_it() -> None:
    def offsets(**offset: object) -> list[dict[str, object]]:
        return [{"partition": {"server": "orders"}, "offset": offset}]

    assert not has_finished_snapshot([], topic_prefix="orders")
    assert not has_finished_snapshot(offsets(lsn=1, snapshot="INITIAL"), topic_prefix="orders")
    assert has_finished_snapshot(offsets(lsn=1), topic_prefix="orders")


def test_changes_are_by_option_and_empty_for_the_same() -> None:
    assert changes_between({"a": "1"}, {"a": "1"}) == ()
    changes = changes_between({"a": "1", "b": "2", "c": "3"}, {"b": "x", "c": "3", "d": "4"})
    assert list(map(str, changes)) == ["- a = 1", "~ b = 2 -> x", "+ d = 4"]


@pytest.mark.parametrize("option", ["database.password", "producer.override.sasl.jaas.config", "ssl.keystore.key"])
def test_a_secret_in_clear_text_is_masked_and_a_reference_is_not(option: str) -> None:
    assert "hunter2" not in str(Change(option, "hunter2", "${env:X}"))
    assert "${env:X}" in str(Change(option, "hunter2", "${env:X}"))


def test_an_option_that_only_sounds_secret_is_shown() -> None:
    assert str(Change("transforms.outbox.table.field.event.key", None, "id")).endswith("= id")


@pytest.mark.parametrize(
    ("found", "stored", "written", "said"),
    [
        (None, None, KEPT_NONE, "events were written, and would not be published."),
        (None, Lsn(5), KEPT_NONE, "would fail for good. No rows are kept."),
        (slot(), None, replace(KEPT_NONE, rows_outside_slot=3), "is younger than 3 events, which"),
    ],
)
def test_where_no_rows_are_kept_nothing_is_said_of_publishing_them(
    found: SlotFacts | None, stored: Lsn | None, written: WrittenFacts, said: str
) -> None:
    with pytest.raises(UnpublishedEventsError, match=re.escape(said)) as caught:
        plan_slot("s", found, stored, written, None)
    assert "republish" not in caught.value.hint
    assert "skip" in caught.value.hint


def test_rows_and_messages_are_not_exchanged_under_a_connector() -> None:
    rows, messages = {"message.prefix.exclude.list": ".*"}, {"message.prefix.include.list": "x"}
    for before, after in ((rows, rows), (messages, messages), (None, rows), (None, messages)):
        refuse_another_log(before, after)
    for before, after in ((rows, messages), (messages, rows)):
        with pytest.raises(UnpublishedEventsError, match="would be left out"):
            refuse_another_log(before, after)
