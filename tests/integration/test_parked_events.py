"""What operators decide about parked events, and what the consumer does then."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from cdc_outbox.consumer import InboxTable, Outcome
from cdc_outbox.consumer.parked_events import Reason, State
from cdc_outbox.databases.drivers.psycopg import Psycopg, connect
from cdc_outbox.errors import InboxError, TransactionConflictError
from cdc_outbox.formats.event_format import PayloadType
from cdc_outbox.operations.connections import OpenInbox
from cdc_outbox.operations.parked import Park
from cdc_outbox.operations.parked_rules import ParkFilter
from cdc_outbox.testing import Stack
from tests.support.brokerless_service import CONTRACT, BrokerlessService
from tests.support.events import SOURCE, make_event
from tests.support.rig import eventually
from tests.support.service import ServiceTables
from tests.support.threads import Threads

APPLIED, DUPLICATE, PARKED = Outcome.APPLIED, Outcome.DUPLICATE, Outcome.PARKED


@pytest.fixture(scope="module")
def dsn(outbox_stack: Stack) -> str:
    dsn = outbox_stack.postgres.create_database("parked_events")
    ServiceTables(dsn).create_tables()
    return dsn


@pytest.fixture
def service(dsn: str) -> Iterator[BrokerlessService]:
    yield BrokerlessService(dsn)
    with psycopg.connect(dsn) as connection:
        connection.execute("truncate effects, inbox, inbox_watermarks, inbox_parked, inbox_holes, inbox_epochs")


def retry(service: BrokerlessService, *parked_ids: int, forced: Reason | None = None) -> list[int]:
    with service.opened() as inbox:
        retried = Park(inbox).retry(ParkFilter(parked_ids=parked_ids), forced={forced} if forced else set())
        return [row.parked_id for row in retried.due]


def skip(service: BrokerlessService, *parked_ids: int, note: str = "by hand") -> None:
    with service.opened() as inbox:
        Park(inbox).skip(parked_ids, note=note)


def test_a_dead_event_that_is_retried_is_applied_by_its_consumer_and_those_behind_it_in_order(
    service: BrokerlessService,
) -> None:
    service.broken = {"1"}
    events = [make_event(sequence) for sequence in (1, 2, 3)]
    assert service.deliver(*events) == [PARKED] * 3
    assert service.parked() == [(1, "dead", "failed"), (2, "waiting", "gap"), (3, "waiting", "gap")]
    service.broken = set()
    assert service.retry_parked() == []
    assert retry(service, service.parked_id_of(1)) == [service.parked_id_of(1)]
    assert service.rows("select attempts from inbox_parked where sequence = 1") == [(0,)]
    assert service.effects() == []
    assert service.retry_parked() == [APPLIED] * 3
    assert service.effects() == [("1", 1), ("1", 2), ("1", 3)]
    assert (service.watermark(), service.parked_behind(), service.parked()) == (3, 0, [])


def test_a_retry_of_all_takes_what_can_go_on_and_says_what_cannot(service: BrokerlessService) -> None:
    service.broken = {"1", "2"}
    service.deliver(make_event(1), make_event(2), make_event(1, "2"))
    service.deliver(make_event(1, "3"), make_event(1, "3"))
    with service.opened() as inbox:
        retried = Park(inbox).retry(ParkFilter())
    assert [(row.aggregate.aggregate_id, row.reason) for row in retried.due] == [("1", "failed"), ("2", "failed")]
    assert [(row.reason, bool(why)) for row, why in retried.left] == [("gap", True), ("conflict", True)]
    service.broken = set()
    service.retry_parked()
    assert service.effects() == [("3", 1), ("1", 1), ("1", 2), ("2", 1)]


def test_a_conflict_is_applied_in_spite_of_it_only_where_that_is_said(service: BrokerlessService) -> None:
    first, second = make_event(1), make_event(1)
    assert service.deliver(first, second) == [APPLIED, PARKED]
    parked_id = service.parked_id_of(1)
    for forced in (None, Reason.EXPIRED):
        with pytest.raises(InboxError, match=f"{parked_id} cannot be retried: it is parked as conflict") as caught:
            retry(service, parked_id, forced=forced)
        assert "--force conflict" in caught.value.hint
    assert service.retry_parked() == []
    retry(service, parked_id, forced=Reason.CONFLICT)
    assert service.retry_parked() == [APPLIED]
    assert service.effects() == [("1", 1), ("1", 1)]
    assert (service.watermark(), service.parked_behind()) == (1, 0)
    assert service.deliver(second) == [DUPLICATE]


def test_what_contradicts_its_own_id_is_never_applied_again(service: BrokerlessService) -> None:
    event = make_event(1)
    service.deliver(event)
    service.deliver(replace(event, sequence=2), make_event(3))
    with pytest.raises(InboxError, match="another event was applied under its id"):
        retry(service, service.parked_id_of(2), forced=Reason.CONFLICT)
    skip(service, service.parked_id_of(2))
    assert service.retry_parked() == [APPLIED]
    assert service.effects() == [("1", 1), ("1", 3)]
    assert service.holes() == [("1", 2, 2, "skipped", event.id, "by hand")]


def test_an_unreadable_message_is_read_again_by_the_contract_of_today(service: BrokerlessService) -> None:
    message = service.message_of(make_event(1))
    renamed = tuple(("kind" if name == "eventType" else name, value) for name, value in message.headers)
    broken = replace(message, headers=renamed)
    assert service.deliver(broken) == [PARKED]
    parked_id = service.parked_id_of(None)
    assert service.parked_by_id()[parked_id] == (None, "dead", "unreadable")
    retry(service, parked_id)
    assert service.retry_parked() == [PARKED]
    assert service.parked_by_id()[parked_id] == (None, "dead", "unreadable")
    service.contract = replace(CONTRACT, headers=replace(CONTRACT.headers, type="kind"))
    retry(service, parked_id)
    assert service.retry_parked() == [APPLIED]
    assert service.effects() == [("1", 1)]
    assert (service.watermark(), service.parked_behind(), service.parked()) == (1, 0, [])


def test_an_unreadable_message_at_the_position_of_another_one_is_parked_too(service: BrokerlessService) -> None:
    """A topic that is created anew, and another cluster, give the same offsets again."""
    first = replace(service.message_of(make_event(1)), value=b"\xff first")
    others = [replace(first, value=b"\xff second"), replace(first, key=b"2"), replace(first, timestamp_ms=7)]
    service.deliver(first, *others, first)
    assert service.rows('select value, "key", "offset" from inbox_parked order by parked_id') == [
        (message.value, message.key, first.offset) for message in (first, *others)
    ]


def test_what_cannot_be_read_any_more_goes_on_to_be_waited_for(service: BrokerlessService) -> None:
    service.broken = {"1"}
    events = [make_event(None, aggregate_type="visit"), make_event(None, aggregate_type="visit")]
    assert service.deliver(*events) == [PARKED] * 2
    service.broken = set()
    service.contract = replace(CONTRACT, headers=replace(CONTRACT.headers, type="kind"))
    first = min(service.parked_by_id())
    retry(service, first)
    assert service.retry_parked() == [PARKED] * 2
    assert (service.watermark(aggregate_type="visit"), service.parked_behind(aggregate_type="visit")) == (0, 2)
    assert service.parked_by_id()[first] == (None, "dead", "failed")
    service.contract = CONTRACT
    retry(service, first)
    assert service.retry_parked() == [APPLIED] * 2
    assert (service.watermark(aggregate_type="visit"), service.parked_behind(aggregate_type="visit")) == (0, 0)


@pytest.mark.parametrize("sequence", [1, 2])
def test_what_became_readable_takes_the_place_in_its_aggregate_that_it_should_have_had(
    service: BrokerlessService, sequence: int
) -> None:
    unknown = replace(CONTRACT, aggregates={"visit": CONTRACT.aggregates["visit"]})
    late = replace(service, contract=unknown)
    assert late.deliver(service.message_of(make_event(sequence))) == [PARKED]
    parked_id = service.parked_id_of(None)
    retry(service, parked_id)
    service.retry_parked()
    if sequence == 1:
        assert service.parked() == []
    else:  # now it waits for the first one, as the event that it is
        assert service.parked() == [(2, "waiting", "gap")]
        assert (service.watermark(), service.parked_behind()) == (0, 1)
        service.deliver(make_event(1))
        assert service.retry_parked() == [APPLIED]
    assert service.effects() == [("1", number) for number in range(1, sequence + 1)]


@pytest.mark.parametrize("aggregate_type", ["price", "visit"])
@pytest.mark.parametrize("decision", ["retry", "skip"])
def test_what_waits_behind_an_unreadable_message_goes_on_when_that_is_read_or_skipped(
    service: BrokerlessService, aggregate_type: str, decision: str
) -> None:
    is_numbered = aggregate_type == "price"
    events = [make_event(number if is_numbered else None, aggregate_type=aggregate_type) for number in (1, 2, 3)]
    first, third = service.message_of(events[0]), service.message_of(events[2])
    unreadable = replace(service.message_of(events[1]), value=b"\xff")
    assert service.deliver(first, unreadable, third) == [APPLIED, PARKED, PARKED]
    parked_id, behind = sorted(service.parked_by_id())
    with service.opened() as inbox:
        [row] = Park(inbox).get([parked_id])
    assert (row.aggregate.aggregate_type, row.aggregate.aggregate_id) == (aggregate_type, "1")
    if is_numbered:
        with pytest.raises(
            InboxError, match=rf"an event without a number \(unreadable\), parked as {parked_id}, comes first"
        ):
            skip(service, behind)
    if decision == "skip":
        skip(service, parked_id)
        assert service.retry_parked() == [APPLIED]
    else:
        service.contract = replace(CONTRACT, payload_type=PayloadType.BYTES)
        assert retry(service, parked_id) == [parked_id]
        assert service.retry_parked() == [APPLIED, APPLIED]
    assert len(service.effects()) == (2 if decision == "skip" else 3)
    assert (service.parked(), service.parked_behind(aggregate_type=aggregate_type)) == ([], 0)


def test_a_skip_leaves_a_hole_that_says_why_and_lets_go_on_what_waited(service: BrokerlessService) -> None:
    service.broken = {"1"}
    events = [make_event(sequence) for sequence in (1, 2, 3)]
    service.deliver(*events)
    service.broken = set()
    skip(service, service.parked_id_of(1), note="ticket 4711")
    assert (service.watermark(), service.parked_behind()) == (1, 2)
    assert service.holes() == [("1", 1, 1, "skipped", events[0].id, "ticket 4711")]
    assert service.retry_parked() == [APPLIED, APPLIED]
    assert service.effects() == [("1", 2), ("1", 3)]
    assert service.deliver(events[0]) == [DUPLICATE]
    assert (service.watermark(), service.parked_behind(), service.parked()) == (3, 0, [])


def test_what_is_skipped_between_a_consumers_look_and_its_transaction_is_left_alone(service: BrokerlessService) -> None:
    service.broken = {"1"}
    service.deliver(*(make_event(None, aggregate_type="visit") for _ in range(3)))
    service.broken = set()
    first, second, third = service.parked_by_id()
    retry(service, first)
    outcomes = service.retry_parked(meanwhile=lambda: skip(service, first, third))
    assert outcomes == [PARKED, APPLIED, PARKED]
    assert (service.watermark(aggregate_type="visit"), service.parked_behind(aggregate_type="visit")) == (0, 0)
    assert (service.parked(), len(service.effects())) == ([], 1), second


def test_several_are_skipped_in_their_order_whatever_order_they_are_named_in(service: BrokerlessService) -> None:
    service.broken = {"1"}
    service.deliver(*(make_event(sequence) for sequence in (1, 2, 3)))
    skip(service, service.parked_id_of(2), service.parked_id_of(1))
    assert (service.watermark(), service.parked_behind()) == (2, 1)
    assert [hole[1:3] for hole in service.holes()] == [(1, 1), (2, 2)]


def test_an_event_that_is_not_the_next_one_is_not_skipped(service: BrokerlessService) -> None:
    service.broken = {"1"}
    service.deliver(make_event(1), make_event(3), make_event(5, "2"))
    with pytest.raises(InboxError, match=r"order/1 #3, but #1, parked as \d+, comes first") as caught:
        skip(service, service.parked_id_of(3))
    assert "earlier ones first" in caught.value.hint
    with pytest.raises(InboxError, match="order/1 #3, but #2 has not arrived") as caught:
        skip(service, service.parked_id_of(1), service.parked_id_of(3))
    assert (service.watermark(), service.parked_behind()) == (0, 2), "all or none"
    with pytest.raises(InboxError, match="order/2 #5, but #1 has not arrived") as caught:
        skip(service, service.parked_id_of(5))
    assert f"baseline --aggregate order/2 --source {SOURCE}" in caught.value.hint
    assert (len(service.parked()), service.holes()) == (3, [])


@pytest.mark.parametrize(("kind", "sequences"), [("price", (4, 9, 12)), ("visit", (None, None, None))])
def test_where_numbers_have_gaps_or_there_are_none_a_skip_lets_go_on_what_came_next(
    service: BrokerlessService, kind: str, sequences: tuple[int | None, ...]
) -> None:
    service.broken = {"1"}
    events = [make_event(sequence, aggregate_type=kind) for sequence in sequences]
    assert service.deliver(*events) == [PARKED] * 3
    first, second, _ = service.parked_by_id()
    if kind == "price":
        with pytest.raises(InboxError, match=f"#4, parked as {first}, comes first"):
            skip(service, second)
    service.broken = set()
    skip(service, first)
    assert service.retry_parked() == [APPLIED, APPLIED]
    assert service.effects() == [("1", sequence) for sequence in sequences[1:]]
    assert service.deliver(*events) == [DUPLICATE] * 3
    assert [hole[1] for hole in service.holes()] == ([4] if kind == "price" else [])
    assert service.parked_behind(aggregate_type=kind) == 0


def test_a_conflict_that_is_skipped_leaves_no_hole_for_its_place_is_taken(service: BrokerlessService) -> None:
    first, second = make_event(1), make_event(1)
    service.deliver(first, second)
    skip(service, service.parked_id_of(1))
    assert (service.parked(), service.holes()) == ([], [])
    assert (service.watermark(), service.parked_behind()) == (1, 0)
    assert service.deliver(second) == [DUPLICATE]


def test_an_event_under_a_second_number_is_parked_until_it_is_skipped(service: BrokerlessService) -> None:
    """It was written again with its id, after prune had deleted its row."""
    event = make_event(1)
    again = replace(event, sequence=2)
    assert service.deliver(event, again, make_event(3)) == [APPLIED, PARKED, PARKED]
    assert [(sequence, reason) for sequence, _, reason in service.parked()] == [(2, "conflict"), (3, "gap")]
    skip(service, service.parked_id_of(2))
    assert service.retry_parked() == [APPLIED]
    assert service.effects() == [("1", 1), ("1", 3)]
    assert service.deliver(event, again) == [DUPLICATE] * 2


def test_a_place_that_is_not_there_is_told_with_those_that_are(service: BrokerlessService) -> None:
    service.deliver(make_event(2))
    parked_id = service.parked_id_of(2)
    for act in (retry, skip):
        with pytest.raises(InboxError, match=f"has the id 99; there is {parked_id}\n"):
            act(service, parked_id, 99)
    assert len(service.parked()) == 1


def test_a_name_that_nobody_uses_is_told_with_those_that_are_used(service: BrokerlessService) -> None:
    service.deliver(make_event(2))
    sentence = "no consumer 'shiping' has used the inbox"
    with replace(service, name="shiping").opened() as inbox, pytest.raises(InboxError, match=sentence) as caught:
        inbox.refuse_unknown()
    assert f"Consumers that have used it: {service.name}." in caught.value.hint


def test_who_decides_waits_for_the_consumer_that_is_at_work_on_the_aggregate(
    service: BrokerlessService,
) -> None:
    """The lock on the watermark comes first: what is decided is decided about what is there then."""
    service.broken = {"1"}
    service.deliver(make_event(1), make_event(2))
    parked_id = service.parked_id_of(1)
    with Threads() as threads, psycopg.connect(service.dsn) as consumer:
        consumer.execute("select from inbox_watermarks where aggregateid = '1' for update")
        threads.submit(skip, service, parked_id)
        waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = 'parked_events'"
        eventually(lambda: service.one(waiting) == 1, "the operator to wait")
        # As a consumer leaves it that applied the event meanwhile.
        consumer.execute("delete from inbox_parked where parked_id = %s", (parked_id,))
        consumer.execute("update inbox_watermarks set last = 1, parked = 1")
    assert (service.watermark(), service.parked_behind(), service.holes()) == (1, 1, [])


def test_an_operator_does_not_wait_for_ever(service: BrokerlessService, monkeypatch: pytest.MonkeyPatch) -> None:
    service.deliver(make_event(2))
    with psycopg.connect(service.dsn) as consumer, connect(service.dsn) as connection:
        consumer.execute("select from inbox_watermarks for update")
        inbox = OpenInbox(connection, Psycopg(), table=InboxTable(), consumer=service.name)
        ask = inbox.ask

        def impatient(statement: str, **parameters: Any) -> Any:
            rows = ask(statement, **parameters)
            if statement == "limit_locks":
                connection.execute("set local lock_timeout = '50ms'")
            return rows

        monkeypatch.setattr(inbox, "ask", impatient)
        with pytest.raises(TransactionConflictError) as caught:
            Park(inbox).retry(ParkFilter(parked_ids=(service.parked_id_of(2),)))
        assert "processing the same aggregate" in caught.value.hint


def test_an_event_that_was_taken_for_a_killer_begins_anew(service: BrokerlessService) -> None:
    service.broken = {"1"}
    event = make_event(1)
    service.deliver(event)
    with psycopg.connect(service.dsn) as connection:
        connection.execute("update inbox_parked set reason = 'crashed'")
        connection.execute(
            "insert into inbox_starts (consumer, event_id, started) values (%s, %s, 4)", (service.name, event.id)
        )
    retry(service, service.parked_id_of(1))
    assert service.one("select count(*) from inbox_starts") == 0


def test_filters_leave_what_they_say_and_the_rest_is_counted(service: BrokerlessService) -> None:
    service.broken = {"1"}
    service.deliver(make_event(1), make_event(2), make_event(7, "a/b"))
    with service.opened() as inbox:
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
