"""Slot and offsets are decided together; nothing written is left out unless somebody said so."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.cli.pipeline_outcomes import PipelineOutcome, PipelineState
from cdc_outbox.connect.client import ConnectorStatus, TaskStatus
from cdc_outbox.connect.plan import Found, make_plan
from cdc_outbox.databases.facts import COUNTED_ROWS, SlotFacts, WrittenFacts
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.debezium.diff import OptionChange, changes_between
from cdc_outbox.debezium.slot_plan import (
    EarlierEvents,
    SlotPlan,
    SlotState,
    SlotStep,
    StoredOffset,
    plan_slot,
    refuse_another_log,
    stored_offset,
)
from cdc_outbox.errors import CdcOutboxError, DatabaseAccessError, DatabaseUnavailableError, UnpublishedEventsError
from tests.support.database_facts import SLOT

REPUBLISHING = {"snapshot.mode": "initial_only", "snapshot.select.statement.overrides": "public.outbox"}
NOTHING = WrittenFacts()
ROWS = WrittenFacts(rows=7, has_heads=True)
PRUNED = WrittenFacts(rows=0, has_heads=True)
KEPT_NONE = WrittenFacts(rows=0, has_heads=True, keeps_rows=False)


def slot(confirmed: int = 100, *, wal_status: str = "reserved", active: bool = False) -> SlotFacts:
    return replace(SLOT, reader=7 if active else 0, wal_status=wal_status, confirmed=Lsn(confirmed))


def at(lsn: int) -> StoredOffset:
    return StoredOffset(Lsn(lsn))


KEEP, CREATE, RECREATE = (SlotPlan(step) for step in (SlotStep.KEEP, SlotStep.CREATE, SlotStep.RECREATE))


@pytest.mark.parametrize(
    ("found", "stored", "written", "plan"),
    [
        (None, None, NOTHING, CREATE),
        (slot(), None, NOTHING, KEEP),
        (slot(), None, ROWS, KEEP),
        (slot(100), at(100), ROWS, KEEP),
        (slot(100), at(200), ROWS, KEEP),
        (slot(wal_status="lost"), None, NOTHING, RECREATE),
        (slot(active=True), None, WrittenFacts(rows=7, rows_outside_slot=3), KEEP),
    ],
)
def test_what_fits_needs_no_decision(
    found: SlotFacts | None, stored: StoredOffset | None, written: WrittenFacts, plan: SlotPlan
) -> None:
    assert plan_slot("s", SlotState(slot=found, stored=stored, written=written), None) == plan


@pytest.mark.parametrize(
    ("found", "stored", "written", "said"),
    [
        (None, None, ROWS, "does not exist, and the table already contains 7 events"),
        (None, None, PRUNED, "sequence numbers were already assigned"),
        (None, at(5), NOTHING, "Connect's offset is 0/5: events that were committed after it are lost with the slot"),
        (slot(), None, WrittenFacts(rows=7, rows_outside_slot=3), "does not hold 3 events"),
        (slot(100), at(99), ROWS, "is at 0/64, ahead of Connect's offset 0/63"),
        (slot(wal_status="lost"), at(99), ROWS, "has lost its WAL, and Connect's offset is 0/63"),
        (None, None, WrittenFacts(rows=COUNTED_ROWS), "at least 100,000 events"),
    ],
)
def test_a_hole_stops_and_names_the_two_ways_on(
    found: SlotFacts | None, stored: StoredOffset | None, written: WrittenFacts, said: str
) -> None:
    with pytest.raises(UnpublishedEventsError) as caught:
        plan_slot("orders_outbox", SlotState(slot=found, stored=stored, written=written), None)
    assert "slot orders_outbox" in str(caught.value)
    assert said in str(caught.value)
    # What can lose events is never the first advice; `plan`, which says so too, has no such option.
    hint, command = caught.value.hint, "`cdc-outbox deploy-connector --earlier-events"
    assert hint.index(f"{command} republish") < hint.index(f"{command} skip")
    assert hint.index("republish") < hint.index("skip")


def test_a_healthy_slot_republishes_rows_where_that_is_wanted() -> None:
    healthy = SlotState(slot=slot(100), stored=at(200), written=ROWS)
    assert plan_slot("s", healthy, EarlierEvents.REPUBLISH) == SlotPlan(
        SlotStep.KEEP, resets_offsets=True, republishes=True
    )
    assert plan_slot("s", healthy, EarlierEvents.SKIP) == KEEP
    assert plan_slot("s", replace(healthy, written=PRUNED), EarlierEvents.REPUBLISH) == KEEP


def test_an_interrupted_republish_is_a_hole_whether_its_offset_or_its_configuration_tells() -> None:
    inside = StoredOffset(Lsn(200), in_snapshot=True)
    for state in (
        SlotState(slot=slot(100), stored=inside, written=ROWS),
        SlotState(slot=slot(100), stored=at(200), written=ROWS, republishing=True),
        SlotState(slot=slot(100), written=ROWS, republishing=True),
    ):
        with pytest.raises(UnpublishedEventsError, match="publishing the rows of the table was interrupted"):
            plan_slot("s", state, None)
        for earlier in EarlierEvents:
            # A connector that still republishes stores an offset when it is stopped.
            plan = plan_slot("s", state, earlier)
            assert plan.resets_offsets
            assert plan.republishes == (earlier is EarlierEvents.REPUBLISH)


def test_an_offset_beyond_the_servers_log_is_of_another_server() -> None:
    state = SlotState(slot=slot(100), stored=at(5 << 32), wal_end=Lsn(200))
    with pytest.raises(UnpublishedEventsError, match="log ends at 0/C8, before Connect's offset 5/0"):
        plan_slot("s", state, None)
    assert plan_slot("s", state, EarlierEvents.SKIP) == SlotPlan(SlotStep.KEEP, resets_offsets=True)
    assert plan_slot("s", SlotState(slot=slot(100), stored=at(200), wal_end=Lsn(200)), None) == KEEP


slots = st.none() | st.builds(slot, st.integers(1, 9), wal_status=st.sampled_from(["reserved", "lost"]))
writtens = st.builds(WrittenFacts, rows=st.integers(0, 2), rows_outside_slot=st.integers(0, 2), has_heads=st.booleans())
states = st.builds(
    SlotState,
    slot=slots,
    stored=st.none() | st.builds(StoredOffset, st.integers(1, 9).map(Lsn), in_snapshot=st.booleans()),
    wal_end=st.none() | st.integers(1, 9).map(Lsn),
    written=writtens,
    republishing=st.booleans(),
)


@given(states, st.sampled_from(EarlierEvents))
def test_a_decision_always_leads_on_and_to_a_slot_that_fits(state: SlotState, earlier: EarlierEvents) -> None:
    plan = plan_slot("s", state, earlier)
    found, stored = state.slot, state.stored
    usable = found is not None and found.wal_status != "lost"
    assert (plan.step is SlotStep.KEEP) == usable
    # Offsets of another slot, of another server or of half a snapshot never survive.
    fits = usable and found is not None and found.confirmed and stored and found.confirmed <= stored.lsn
    beyond = stored is not None and state.wal_end is not None and stored.lsn > state.wal_end
    unfinished = state.republishing or (stored is not None and stored.in_snapshot)
    if stored is not None and (not fits or beyond or unfinished):
        assert plan.resets_offsets
    if stored is None and not state.republishing:
        assert not plan.resets_offsets
    assert not plan.republishes or earlier is EarlierEvents.REPUBLISH


@given(states)
def test_without_a_decision_no_offset_and_no_row_is_given_up(state: SlotState) -> None:
    try:
        plan = plan_slot("s", state, None)
    except UnpublishedEventsError:
        return
    assert not plan.resets_offsets
    written, stored = state.written, state.stored
    assert plan.step is SlotStep.KEEP or not (written.rows or written.has_heads or stored)
    assert plan.step is not SlotStep.KEEP or not (state.republishing or (stored and stored.in_snapshot))


def test_offsets_are_read_by_the_topic_prefix() -> None:
    offsets = [
        {"partition": {"server": "other"}, "offset": {"lsn": 1}},
        {"partition": {"server": "orders"}, "offset": {"lsn": 24323008, "lsn_proc": 1}},
    ]
    assert stored_offset(offsets, topic_prefix="orders") == at(24323008)
    assert stored_offset(offsets, topic_prefix="nobody") is None
    assert stored_offset([{"partition": {"server": "orders"}, "offset": None}], topic_prefix="orders") is None


def test_a_slot_at_the_commit_of_a_transaction_that_overlapped_another_is_not_ahead() -> None:
    """A inserts, B inserts and commits, A commits: ``lsn`` is A's insert, and the slot is at A's commit."""
    offset = {"lsn": 100, "lsn_proc": 100, "lsn_commit": 300}
    stored = stored_offset([{"partition": {"server": "orders"}, "offset": offset}], topic_prefix="orders")
    state = SlotState(slot=slot(300), stored=stored, wal_end=Lsn(400))
    assert plan_slot("s", state, None) == KEEP
    with pytest.raises(UnpublishedEventsError, match="ahead of Connect's offset"):
        plan_slot("s", replace(state, slot=slot(301)), None)


def test_what_relays_published_is_no_hole_and_an_offset_before_it_is_of_no_use() -> None:
    state = SlotState(slot=slot(301), stored=at(300), wal_end=Lsn(400), relayed=Lsn(301))
    assert plan_slot("s", state, None) == replace(KEEP, resets_offsets=True)
    assert plan_slot("s", replace(state, slot=slot(300)), None) == KEEP
    outside = replace(state, stored=None, written=WrittenFacts(rows=7, rows_outside_slot=3))
    assert plan_slot("s", outside, None) == KEEP
    for missed in (replace(state, slot=slot(302)), replace(outside, slot=slot(302))):
        with pytest.raises(UnpublishedEventsError):
            plan_slot("s", missed, None)


def test_a_slot_that_is_read_is_ahead_of_the_offset_until_connect_stores_the_next_one() -> None:
    """Debezium confirms what was sent while Connect stored an offset."""
    state = SlotState(slot=slot(301, active=True), stored=at(300), wal_end=Lsn(400))
    assert plan_slot("s", state, None) == KEEP
    with pytest.raises(UnpublishedEventsError, match="ahead of Connect's offset"):
        plan_slot("s", replace(state, slot=slot(301)), None)


def test_a_snapshot_is_finished_when_the_offset_no_longer_speaks_of_it() -> None:
    def inside(**offset: object) -> bool:
        stored = stored_offset([{"partition": {"server": "orders"}, "offset": offset}], topic_prefix="orders")
        assert stored
        return stored.in_snapshot

    assert inside(lsn=1, snapshot="INITIAL")
    assert inside(lsn=1, snapshot=True, last_snapshot_record=False)
    assert not inside(lsn=1)


WANTED = {"slot.name": "s", "snapshot.mode": "no_data"}


def found(state: str, *tasks: str, config: dict[str, str] | None = None) -> Found:
    status = ConnectorStatus(state, tuple(TaskStatus(number, task) for number, task in enumerate(tasks)))
    return Found(config or WANTED, status)


@pytest.mark.parametrize(
    ("state", "resumes", "fails", "text"),
    [
        (found("RUNNING", "RUNNING"), False, False, "nothing to change"),
        (found("RUNNING"), False, False, "nothing to change"),
        (found("STOPPED"), True, False, "resume the connector, which is paused or stopped"),
        (found("PAUSED", "PAUSED"), True, False, "resume the connector, which is paused or stopped"),
        (found("RUNNING", "FAILED"), False, True, "restart what failed"),
        (
            found("PAUSED", "FAILED"),
            True,
            True,
            "resume the connector, which is paused or stopped, restart what failed",
        ),
    ],
)
def test_what_does_not_run_is_part_of_the_plan(state: Found, *, resumes: bool, fails: bool, text: str) -> None:
    plan = make_plan(state, WANTED, KEEP)
    assert (plan.resumes, plan.failed, str(plan)) == (resumes, fails, text)
    assert plan.is_empty == (not resumes and not fails)
    # Only what ran already, and is not touched, need not show that it stays up.
    assert plan.is_settled == (state == found("RUNNING", "RUNNING"))


def test_a_new_connector_and_one_that_is_stopped_for_its_slot_are_resumed() -> None:
    assert make_plan(None, WANTED, CREATE).resumes
    assert make_plan(found("RUNNING", "RUNNING"), WANTED, RECREATE).resumes
    assert not make_plan(found("RUNNING", "RUNNING"), WANTED | {"x": "1"}, KEEP).is_empty
    text = "change 1 option, recreate the slot, reset the offsets, publish the rows of the table again"
    slot_plan = SlotPlan(SlotStep.RECREATE, resets_offsets=True, republishes=True)
    assert str(make_plan(found("RUNNING", "RUNNING"), WANTED | {"x": "1"}, slot_plan)) == text


@pytest.mark.parametrize(
    ("state", "reads"),
    [
        (found("RUNNING", "RUNNING"), True),
        (found("RUNNING"), True),
        (found("PAUSED", "PAUSED"), True),
        (found("RUNNING", "FAILED"), False),
        (found("STOPPED"), False),
        (found("RUNNING", "RUNNING", config={"slot.name": "another"}), False),
    ],
)
def test_only_a_connector_that_runs_on_this_slot_may_be_the_one_who_reads_it(state: Found, *, reads: bool) -> None:
    assert state.may_read(replace(SLOT, name="s", reader=7)) == reads


@pytest.mark.parametrize(
    ("application", "reads"),
    [("Debezium Streaming", True), ("Debezium Streaming - 10.0.0.1:5432", True), ("", True), ("pg_recvlogical", False)],
)
def test_a_tool_that_is_no_debezium_is_not_the_connector(application: str, *, reads: bool) -> None:
    reader = replace(SLOT, name="s", reader=7, reader_name=application)
    assert found("RUNNING", "RUNNING").may_read(reader) == reads


def test_a_connector_that_republishes_is_known_by_its_snapshot() -> None:
    assert found("RUNNING", "RUNNING", config=REPUBLISHING).is_republishing
    # Others take a snapshot only too.
    assert not found("RUNNING", "RUNNING", config={"snapshot.mode": "initial_only"}).is_republishing
    assert not found("RUNNING", "RUNNING").is_republishing


def test_changes_are_by_option_and_empty_for_the_same() -> None:
    assert changes_between({"a": "1"}, {"a": "1"}) == ()
    changes = changes_between({"a": "1", "b": "2", "c": "3"}, {"b": "x", "c": "3", "d": "4"})
    assert list(map(str, changes)) == ["- a = 1", "~ b = 2 -> x", "+ d = 4"]


@pytest.mark.parametrize("option", ["database.password", "producer.override.sasl.jaas.config", "ssl.keystore.key"])
def test_a_secret_in_clear_text_is_masked_and_a_reference_is_not(option: str) -> None:
    assert "hunter2" not in str(OptionChange(option, "hunter2", "${env:X}"))
    assert "${env:X}" in str(OptionChange(option, "hunter2", "${env:X}"))


def test_an_option_that_only_sounds_secret_is_shown() -> None:
    assert str(OptionChange("transforms.outbox.table.field.event.key", None, "id")).endswith("= id")


@pytest.mark.parametrize(
    ("found", "stored", "written", "said"),
    [
        (None, None, KEPT_NONE, "events were written, and would not be published."),
        (None, at(5), KEPT_NONE, "would fail at every start. The outbox keeps no rows."),
        (slot(), None, replace(KEPT_NONE, rows_outside_slot=3), "does not hold 3 events, which"),
    ],
)
def test_where_no_rows_are_kept_nothing_is_said_of_publishing_them(
    found: SlotFacts | None, stored: StoredOffset | None, written: WrittenFacts, said: str
) -> None:
    with pytest.raises(UnpublishedEventsError, match=re.escape(said)) as caught:
        plan_slot("s", SlotState(slot=found, stored=stored, written=written), None)
    assert "republish" not in caught.value.hint
    assert "skip" in caught.value.hint


def test_rows_and_messages_are_not_exchanged_under_a_connector() -> None:
    rows, messages = {"message.prefix.exclude.list": ".*"}, {"message.prefix.include.list": "x"}
    for before, after in ((rows, rows), (messages, messages), (None, rows), (None, messages)):
        refuse_another_log(before, after)
    for before, after in ((rows, messages), (messages, rows)):
        with pytest.raises(UnpublishedEventsError, match="would not be published"):
            refuse_another_log(before, after)
        plan = make_plan(replace(found("RUNNING", "RUNNING"), config=before), after, KEEP)
        assert (plan.needs_stop, plan.resumes) == (True, True)
    assert not make_plan(replace(found("RUNNING", "RUNNING"), config=rows), rows, KEEP).needs_stop


def test_what_a_republishing_left_behind_is_taken_back_without_asking() -> None:
    """Its snapshot mode is the deployment's own, and what it did not publish is asked for elsewhere."""
    wanted = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "snapshot.mode": "no_data"}
    state = replace(found("STOPPED"), config={**wanted, **REPUBLISHING})
    plan = make_plan(state, wanted, KEEP)
    assert [change.option for change in plan.changes] == sorted(REPUBLISHING)
    assert plan.dangers == ()
    other = make_plan(state, {**wanted, "slot.name": "another"}, KEEP)
    assert [change.option for change in other.dangers] == ["slot.name"]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (DatabaseUnavailableError("the server is silent"), "could not be checked"),
        (DatabaseAccessError("permission denied"), "would be refused"),
        (UnpublishedEventsError("3 events"), "would be refused"),
    ],
)
def test_what_passes_refuses_no_deployment(error: CdcOutboxError, text: str) -> None:
    plan = make_plan(None, {}, SlotPlan(SlotStep.KEEP))
    outcome = PipelineOutcome(
        name="orders", document=Path("orders.yaml"), state=PipelineState.FAILED, plan=plan, error=error
    )
    assert outcome.verdict.startswith(f"orders: {text}; apart from that: ")
