"""What operators decide about parked events, and what the consumer does then."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from cdc_outbox.consumer import InboxTable, Outcome
from cdc_outbox.consumer.ordering import Aggregate
from cdc_outbox.consumer.park import Reason, State
from cdc_outbox.drivers.psycopg import Psycopg, connect
from cdc_outbox.errors import ConfigError, InboxError, TransactionConflictError
from cdc_outbox.operate.baseline import Baseline
from cdc_outbox.operate.inbox import OpenInbox
from cdc_outbox.operate.park import Park
from cdc_outbox.operate.parked import ParkFilter
from cdc_outbox.testing import Stack
from tests.support.parking import CONTRACT, SOURCE, Receiver, make_inbox
from tests.support.rig import eventually

APPLIED, DUPLICATE, PARKED = Outcome.APPLIED, Outcome.DUPLICATE, Outcome.PARKED


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> str:
    dsn = outbox_stack.postgres.create_database("dead_letters")
    make_inbox(dsn)
    return dsn


@pytest.fixture
def receiver(dsn: str) -> Iterator[Receiver]:
    yield Receiver(dsn)
    with psycopg.connect(dsn) as connection:
        connection.execute("truncate effects, inbox, inbox_watermarks, inbox_parked, inbox_holes, inbox_epochs")


@contextmanager
def opened(receiver: Receiver) -> Iterator[OpenInbox]:
    with connect(receiver.dsn) as connection:
        yield OpenInbox(connection, Psycopg(), table=InboxTable(), consumer=receiver.name)


def retry(receiver: Receiver, *places: int, forced: Reason | None = None) -> list[int]:
    with opened(receiver) as inbox:
        retried = Park(inbox).retry(ParkFilter(places=places), forced={forced} if forced else set())
        return [row.place for row in retried.due]


def skip(receiver: Receiver, *places: int, note: str = "by hand") -> None:
    with opened(receiver) as inbox:
        Park(inbox).skip(places, note=note)


def holes(receiver: Receiver) -> list[tuple[Any, ...]]:
    query = (
        "select aggregateid, first, last, reason, event_id, note from inbox_holes where consumer = %s order by first"
    )
    return receiver.rows(query, receiver.name)


def test_a_dead_event_that_is_retried_is_applied_by_its_consumer_and_those_behind_it_in_order(
    receiver: Receiver,
) -> None:
    receiver.broken = {"1"}
    events = [receiver.event(sequence) for sequence in (1, 2, 3)]
    assert receiver.take(*events) == [PARKED] * 3
    assert [row[:2] for row in receiver.parked().values()] == [
        ("dead", "failed"),
        ("waiting", "gap"),
        ("waiting", "gap"),
    ]
    receiver.broken = set()
    assert receiver.look() == []
    assert retry(receiver, receiver.place_of(1)) == [receiver.place_of(1)]
    assert receiver.effects() == []
    assert receiver.look() == [APPLIED] * 3
    assert receiver.effects() == [("1", 1), ("1", 2), ("1", 3)]
    assert (receiver.mark(), receiver.parked()) == ((3, 0), {})


def test_a_retry_of_all_takes_what_can_go_on_and_says_what_cannot(receiver: Receiver) -> None:
    receiver.broken = {"1", "2"}
    receiver.take(receiver.event(1), receiver.event(2), receiver.event(1, number="2"))
    receiver.take(receiver.event(1, number="3"), receiver.event(1, number="3"))
    with opened(receiver) as inbox:
        retried = Park(inbox).retry(ParkFilter())
    assert [(row.aggregate.aggregate_id, row.reason) for row in retried.due] == [("1", "failed"), ("2", "failed")]
    assert [(row.reason, bool(why)) for row, why in retried.left] == [("gap", True), ("conflict", True)]
    receiver.broken = set()
    receiver.look()
    assert receiver.effects() == [("3", 1), ("1", 1), ("1", 2), ("2", 1)]


def test_a_conflict_is_applied_in_spite_of_it_only_where_that_is_said(receiver: Receiver) -> None:
    first, second = receiver.event(1), receiver.event(1)
    assert receiver.take(first, second) == [APPLIED, PARKED]
    place = receiver.place_of(1)
    for forced in (None, Reason.EXPIRED):
        with pytest.raises(InboxError, match=f"{place} is not tried again: it is parked as conflict") as caught:
            retry(receiver, place, forced=forced)
        assert "--force conflict" in caught.value.hint
    assert receiver.look() == []
    retry(receiver, place, forced=Reason.CONFLICT)
    assert receiver.look() == [APPLIED]
    assert receiver.effects() == [("1", 1), ("1", 1)]
    assert receiver.mark() == (1, 0)
    assert receiver.take(second) == [DUPLICATE]


def test_what_contradicts_its_own_id_is_never_applied_again(receiver: Receiver) -> None:
    event = receiver.event(1)
    receiver.take(event)
    receiver.take(replace(event, sequence=2), receiver.event(3))
    with pytest.raises(InboxError, match="another event was applied under its id"):
        retry(receiver, receiver.place_of(2), forced=Reason.CONFLICT)
    skip(receiver, receiver.place_of(2))
    assert receiver.look() == [APPLIED]
    assert receiver.effects() == [("1", 1), ("1", 3)]
    assert holes(receiver) == [("1", 2, 2, "skipped", event.id, "by hand")]


def test_an_unreadable_message_is_read_again_by_the_contract_of_today(receiver: Receiver) -> None:
    message = receiver.message(receiver.event(1))
    renamed = tuple(("kind" if name == "eventType" else name, value) for name, value in message.headers)
    broken = replace(message, headers=renamed)
    assert receiver.take(broken) == [PARKED]
    place = receiver.place_of(None)
    assert receiver.parked()[place][:2] == ("dead", "unreadable")
    retry(receiver, place)
    assert receiver.look() == [PARKED]
    assert receiver.parked()[place][:2] == ("dead", "unreadable")
    receiver.contract = replace(CONTRACT, headers=replace(CONTRACT.headers, type="kind"))
    retry(receiver, place)
    assert receiver.look() == [APPLIED]
    assert (receiver.effects(), receiver.mark(), receiver.parked()) == ([("1", 1)], (1, 0), {})


def test_what_cannot_be_read_any_more_goes_on_to_be_waited_for(receiver: Receiver) -> None:
    receiver.broken = {"1"}
    events = [receiver.event(None, "visit"), receiver.event(None, "visit")]
    assert receiver.take(*events) == [PARKED] * 2
    receiver.broken = set()
    receiver.contract = replace(CONTRACT, headers=replace(CONTRACT.headers, type="kind"))
    first = min(receiver.parked())
    retry(receiver, first)
    assert receiver.look() == [PARKED] * 2
    assert (receiver.mark("visit"), receiver.parked()[first][:2]) == ((0, 2), ("dead", "failed"))
    receiver.contract = CONTRACT
    retry(receiver, first)
    assert receiver.look() == [APPLIED] * 2
    assert receiver.mark("visit") == (0, 0)


@pytest.mark.parametrize("sequence", [1, 2])
def test_what_became_readable_takes_the_place_in_its_aggregate_that_it_should_have_had(
    receiver: Receiver, sequence: int
) -> None:
    unknown = replace(CONTRACT, aggregates={"visit": CONTRACT.aggregates["visit"]})
    late = replace(receiver, contract=unknown)
    assert late.take(receiver.message(receiver.event(sequence))) == [PARKED]
    place = receiver.place_of(None)
    retry(receiver, place)
    receiver.look()
    if sequence == 1:
        assert receiver.parked() == {}
    else:  # now it waits for the first one, as the event that it is
        assert list(receiver.parked().values()) == [("waiting", "gap", 2)]
        assert receiver.mark() == (0, 1)
        receiver.take(receiver.event(1))
        assert receiver.look() == [APPLIED]
    assert receiver.effects() == [("1", number) for number in range(1, sequence + 1)]


def test_a_skip_leaves_a_hole_that_says_why_and_lets_go_on_what_waited(receiver: Receiver) -> None:
    receiver.broken = {"1"}
    events = [receiver.event(sequence) for sequence in (1, 2, 3)]
    receiver.take(*events)
    receiver.broken = set()
    skip(receiver, receiver.place_of(1), note="ticket 4711")
    assert receiver.mark() == (1, 2)
    assert holes(receiver) == [("1", 1, 1, "skipped", events[0].id, "ticket 4711")]
    assert receiver.look() == [APPLIED, APPLIED]
    assert receiver.effects() == [("1", 2), ("1", 3)]
    assert receiver.take(events[0]) == [DUPLICATE]
    assert (receiver.mark(), receiver.parked()) == ((3, 0), {})


def test_what_is_skipped_between_a_consumers_look_and_its_transaction_is_left_alone(receiver: Receiver) -> None:
    receiver.broken = {"1"}
    receiver.take(*(receiver.event(None, "visit") for _ in range(3)))
    receiver.broken = set()
    first, second, third = receiver.parked()
    retry(receiver, first)
    outcomes = receiver.look(meanwhile=lambda: skip(receiver, first, third))
    assert outcomes == [PARKED, APPLIED, PARKED]
    assert (receiver.mark("visit"), receiver.parked(), len(receiver.effects())) == ((0, 0), {}, 1), second


def test_several_are_skipped_in_their_order_whatever_order_they_are_named_in(receiver: Receiver) -> None:
    receiver.broken = {"1"}
    receiver.take(*(receiver.event(sequence) for sequence in (1, 2, 3)))
    skip(receiver, receiver.place_of(2), receiver.place_of(1))
    assert receiver.mark() == (2, 1)
    assert [hole[1:3] for hole in holes(receiver)] == [(1, 1), (2, 2)]


def test_an_event_that_is_not_the_next_one_is_not_skipped(receiver: Receiver) -> None:
    receiver.broken = {"1"}
    receiver.take(receiver.event(1), receiver.event(3), receiver.event(5, number="2"))
    with pytest.raises(InboxError, match=r"order/1 #3, and #1 is parked at \d+ before it") as caught:
        skip(receiver, receiver.place_of(3))
    assert "earlier ones first" in caught.value.hint
    with pytest.raises(InboxError, match="order/1 #3, and #2 did not come yet") as caught:
        skip(receiver, receiver.place_of(1), receiver.place_of(3))
    assert receiver.mark() == (0, 2), "all or none"
    with pytest.raises(InboxError, match="order/2 #5, and #1 did not come yet") as caught:
        skip(receiver, receiver.place_of(5))
    assert f"baseline --aggregate order/2 --source {SOURCE}" in caught.value.hint
    assert (len(receiver.parked()), holes(receiver)) == (3, [])


@pytest.mark.parametrize(("kind", "sequences"), [("price", (4, 9, 12)), ("visit", (None, None, None))])
def test_where_numbers_have_gaps_or_there_are_none_a_skip_lets_go_on_what_came_next(
    receiver: Receiver, kind: str, sequences: tuple[int | None, ...]
) -> None:
    receiver.broken = {"1"}
    events = [receiver.event(sequence, kind) for sequence in sequences]
    assert receiver.take(*events) == [PARKED] * 3
    first, second, _ = receiver.parked()
    if kind == "price":
        with pytest.raises(InboxError, match=f"#4 is parked at {first} before it"):
            skip(receiver, second)
    receiver.broken = set()
    skip(receiver, first)
    assert receiver.look() == [APPLIED, APPLIED]
    assert receiver.effects() == [("1", sequence) for sequence in sequences[1:]]
    assert receiver.take(*events) == [DUPLICATE] * 3
    assert [hole[1] for hole in holes(receiver)] == ([4] if kind == "price" else [])
    assert receiver.mark(kind)[1] == 0


def test_a_conflict_that_is_skipped_leaves_no_hole_for_its_place_is_taken(receiver: Receiver) -> None:
    first, second = receiver.event(1), receiver.event(1)
    receiver.take(first, second)
    skip(receiver, receiver.place_of(1))
    assert (receiver.parked(), holes(receiver), receiver.mark()) == ({}, [], (1, 0))
    assert receiver.take(second) == [DUPLICATE]


def test_a_place_that_is_not_there_is_told_with_those_that_are(receiver: Receiver) -> None:
    receiver.take(receiver.event(2))
    place = receiver.place_of(2)
    for act in (retry, skip):
        with pytest.raises(InboxError, match=f"nothing is parked at 99; there is {place}$"):
            act(receiver, place, 99)
    assert len(receiver.parked()) == 1


def test_a_name_that_nobody_uses_is_told_with_those_that_are_used(receiver: Receiver) -> None:
    receiver.take(receiver.event(2))
    sentence = f"no consumer 'shiping' has used the inbox .* there are: {receiver.name}"
    with opened(replace(receiver, name="shiping")) as inbox, pytest.raises(ConfigError, match=sentence):
        inbox.refuse_unknown()


def test_who_decides_waits_for_the_consumer_that_is_at_work_on_the_aggregate(
    receiver: Receiver,
) -> None:
    """The lock on the watermark comes first: what is decided is decided about what is there then."""
    receiver.broken = {"1"}
    receiver.take(receiver.event(1), receiver.event(2))
    place = receiver.place_of(1)
    done: list[BaseException | None] = []

    def decide() -> None:
        try:
            skip(receiver, place)
        except InboxError as error:
            done.append(error)
        else:
            done.append(None)

    with psycopg.connect(receiver.dsn) as consumer:
        consumer.execute("select from inbox_watermarks where aggregateid = '1' for update")
        operator = threading.Thread(target=decide)
        operator.start()
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = 'dead_letters'"
        eventually(lambda: receiver.ask(waiting) == 1, "the operator to wait")
        # As a consumer leaves it that applied the event meanwhile.
        consumer.execute("delete from inbox_parked where place = %s", (place,))
        consumer.execute("update inbox_watermarks set last = 1, parked = 1")
    operator.join(30)
    assert done == [None]
    assert (receiver.mark(), holes(receiver)) == ((1, 1), [])


def test_an_operator_does_not_wait_for_ever(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver.take(receiver.event(2))
    with psycopg.connect(receiver.dsn) as consumer, connect(receiver.dsn) as connection:
        consumer.execute("select from inbox_watermarks for update")
        inbox = OpenInbox(connection, Psycopg(), table=InboxTable(), consumer=receiver.name)
        ask = inbox.ask

        def impatient(statement: str, **parameters: Any) -> Any:
            rows = ask(statement, **parameters)
            if statement == "limit_locks":
                connection.execute("set local lock_timeout = '50ms'")
            return rows

        monkeypatch.setattr(inbox, "ask", impatient)
        with pytest.raises(TransactionConflictError) as caught:
            Park(inbox).retry(ParkFilter(places=(receiver.place_of(2),)))
        assert "at work on the same aggregate" in caught.value.hint


def test_an_event_that_was_taken_for_a_killer_begins_anew(receiver: Receiver) -> None:
    receiver.broken = {"1"}
    event = receiver.event(1)
    receiver.take(event)
    with psycopg.connect(receiver.dsn) as connection:
        connection.execute("update inbox_parked set reason = 'crashed'")
        connection.execute(
            "insert into inbox_starts (consumer, event_id, started) values (%s, %s, 4)", (receiver.name, event.id)
        )
    retry(receiver, receiver.place_of(1))
    assert receiver.ask("select count(*) from inbox_starts") == 0


def test_filters_leave_what_they_say_and_the_rest_is_counted(receiver: Receiver) -> None:
    receiver.broken = {"1"}
    receiver.take(receiver.event(1), receiver.event(2), receiver.event(7, number="a/b"))
    with opened(receiver) as inbox:
        park = Park(inbox)
        for selection, sequences in (
            (ParkFilter(), [1, 2, 7]),
            (ParkFilter(state=State.DEAD), [1]),
            (ParkFilter(reason=Reason.GAP), [2, 7]),
            (ParkFilter(aggregate_type="order", aggregate_id="a/b"), [7]),
            (ParkFilter(aggregate_type="visit"), []),
        ):
            rows, total = park.find(selection)
            assert ([row.sequence for row in rows], total) == (sequences, len(sequences))
        rows, total = park.find(ParkFilter(), limit=1)
        assert (len(rows), total) == (1, 3)


def test_a_baseline_accepts_what_came_before_of_those_that_were_never_seen(receiver: Receiver) -> None:
    receiver.take(receiver.event(41), receiver.event(42), receiver.event(7, number="2"))
    receiver.take(receiver.event(1, number="3"), receiver.event(3, number="3"))
    receiver.broken = {"4", "5"}
    receiver.take(receiver.event(1, number="4"), receiver.event(2, number="4"), receiver.event(5, "price", "5"))
    with opened(receiver) as inbox:
        work = Baseline(inbox)
        gaps = work.find()
        assert [(gap.aggregate.aggregate_id, gap.missing, gap.parked) for gap in gaps] == [("1", 40, 2), ("2", 6, 1)]
        assert holes(receiver) == []
        receiver.take(*(receiver.event(sequence, number="2") for sequence in range(1, 7)))  # they come after all
        assert [gap.aggregate.aggregate_id for gap in work.accept(gaps, note="from June")] == ["1"]
        assert work.find() == []
    assert holes(receiver) == [("1", 1, 40, "baseline", None, "from June")]
    receiver.look()
    assert receiver.mark() == (42, 0)
    assert [effect for effect in receiver.effects() if effect[0] == "1"] == [("1", 41), ("1", 42)]
    assert receiver.mark(number="3") == (1, 1)
    assert receiver.take(receiver.event(40)) == [PARKED]
    assert "conflict" in {reason for _, reason, _ in receiver.parked().values()}


def test_a_missing_event_in_the_middle_is_given_up_only_where_it_is_named(receiver: Receiver) -> None:
    receiver.take(receiver.event(1), receiver.event(4))
    receiver.take(receiver.event(1, number="2"), receiver.event(3, number="2"))
    with opened(receiver) as inbox:
        assert Baseline(inbox).find() == []
        with pytest.raises(
            InboxError, match=r"order/9 of 'orders.1' waits for no missing event; .*order/1 of orders.1"
        ):
            Baseline(inbox, Aggregate(SOURCE, "order", "9")).find()
        work = Baseline(inbox, Aggregate(SOURCE, "order", "1"))
        work.accept(work.find(), note=None)
    assert holes(receiver) == [("1", 2, 3, "baseline", None, None)]
    assert receiver.look() == [APPLIED]
    assert (receiver.mark(), receiver.mark(number="2")) == ((4, 0), (1, 1))
