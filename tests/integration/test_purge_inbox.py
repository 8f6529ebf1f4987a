"""What an inbox forgets, and what it makes of events that come again afterwards."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox.consumer import InboxTable, Outcome, RecordedEvent
from cdc_outbox.consumer.ordering import key_of
from cdc_outbox.databases.drivers.psycopg import Psycopg, connect
from cdc_outbox.errors import OutboxError, TransactionConflictError
from cdc_outbox.operations import purge as purging
from cdc_outbox.operations.horizon import WEEK, Horizon, week_of
from cdc_outbox.operations.purge import PartPurge, Purge
from cdc_outbox.testing import Stack
from tests.support.brokerless_service import BrokerlessService
from tests.support.events import id_made_at, make_event
from tests.support.rig import eventually
from tests.support.threads import Threads

APPLIED, DUPLICATE, PARKED = Outcome.APPLIED, Outcome.DUPLICATE, Outcome.PARKED
NOW = datetime.now(UTC)
DAYS = 30.0
LONG_AGO = NOW - timedelta(days=60)


@pytest.fixture
def service(outbox_stack: Stack) -> BrokerlessService:
    service = BrokerlessService(outbox_stack.postgres.create_database(f"purge_{uuid4().hex[:8]}"))
    service.create_tables()
    return service


@pytest.fixture
def reports() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def purge(service: BrokerlessService, reports: list[tuple[str, str]]) -> Iterator[Purge]:
    with connect(service.dsn) as connection:
        yield PartPurge(
            connection, Psycopg(), InboxTable(), lambda step, text: reports.append((step, text)), wait_seconds=0
        )


def visit(event_id: str) -> RecordedEvent:
    return make_event(None, aggregate_type="visit", event_id=event_id)


def untimed_id() -> str:
    """Return an id that does not tell when it was made."""
    return str(uuid4())


def at(moment: datetime) -> Horizon:
    return Horizon.at(moment, days=DAYS)


def age(service: BrokerlessService, **interval: int) -> None:
    """Let everything that was claimed or begun have been so long ago."""
    for statement in (
        "update inbox set claimed_at = claimed_at - make_interval(days => %s)",
        "update inbox_starts set started_at = started_at - make_interval(days => %s)",
    ):
        with psycopg.connect(service.dsn) as connection:
            connection.execute(statement.encode(), (interval["days"],))


def partitions(service: BrokerlessService) -> set[str]:
    query = "select inhrelid::regclass::text from pg_inherits where inhparent = 'inbox'::regclass"
    return {name for (name,) in service.rows(query)}


def claims_in(service: BrokerlessService, table: str) -> int:
    return int(service.one(f"select count(*) from {table}"))  # noqa: S608 - a name of ours


def test_this_week_and_the_next_ones_have_partitions_and_ids_fall_into_theirs(
    service: BrokerlessService, purge: Purge, reports: list[tuple[str, str]]
) -> None:
    purge.make_parts(NOW)
    weeks = [f"inbox_{week_of(NOW) + WEEK * number:%Y_%m_%d}" for number in range(5)]
    assert partitions(service) == {"inbox_rest", *weeks}
    service.deliver(make_event(1, event_id=id_made_at(NOW)), make_event(2, event_id=id_made_at(NOW + WEEK)))
    service.deliver(make_event(3, event_id=untimed_id()), make_event(4, event_id=id_made_at(LONG_AGO)))
    assert [claims_in(service, table) for table in (*weeks[:3], "inbox_rest")] == [1, 1, 0, 2]
    reports.clear()
    purge.make_parts(NOW)
    assert reports == []
    purge.make_parts(NOW + WEEK)
    assert reports == [("made", f"public.inbox_{week_of(NOW) + WEEK * 5:%Y_%m_%d}")]


def test_claims_that_lie_in_the_rest_are_moved_into_the_partition_that_is_made_for_them(
    service: BrokerlessService, purge: Purge
) -> None:
    events = [make_event(number, event_id=id_made_at(NOW)) for number in (1, 2)]
    service.deliver(*events)
    purge.make_parts(NOW)
    assert claims_in(service, "inbox_rest") == 0
    assert service.deliver(*events) == [DUPLICATE] * 2


def test_a_week_of_which_too_many_lie_in_the_rest_is_left_out_and_said(
    service: BrokerlessService, purge: Purge, reports: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "_MOST_MOVED", 1)
    service.deliver(*(make_event(number, event_id=id_made_at(NOW)) for number in (1, 2)))
    purge.make_parts(NOW)
    assert reports[0] == (
        "left out",
        f"public.inbox_{week_of(NOW):%Y_%m_%d}: public.inbox_rest holds more than 1 claims of its week",
    )
    assert len(partitions(service)) == 5


def test_a_partition_that_is_over_goes_as_a_whole_and_those_that_are_not_stay(
    service: BrokerlessService, purge: Purge
) -> None:
    for week in (9, 5, 4, 0):  # weeks ago
        purge.make_parts(NOW - WEEK * week)
    before = partitions(service)
    service.deliver(*(visit(id_made_at(NOW - timedelta(days=days))) for days in (60, 20, 0)))
    old = purge.find_old(at(NOW))
    assert sum(claims for _, claims in old.parts) == 1
    assert partitions(service) == before
    purge.forget(at(NOW))
    gone = before - partitions(service)
    assert gone == {name for name in before if name < f"inbox_{week_of(NOW - timedelta(days=DAYS)):%Y_%m_%d}"}
    assert service.one("select max(purged_before) from inbox_purges") == week_of(NOW - timedelta(days=DAYS))
    assert claims_in(service, "inbox") == 2
    purge.forget(at(NOW))
    assert claims_in(service, "inbox_purges") == 1


def test_what_was_purged_and_comes_again_is_not_run_unless_its_number_proves_that_it_is_next(
    service: BrokerlessService, purge: Purge
) -> None:
    purge.make_parts(LONG_AGO)
    purge.make_parts(NOW)
    old, young = (visit(id_made_at(moment)) for moment in (LONG_AGO, NOW))
    orders = [make_event(sequence, event_id=id_made_at(LONG_AGO)) for sequence in (1, 2, 3)]
    assert service.deliver(old, young, orders[0]) == [APPLIED] * 3
    purge.forget(at(NOW))
    assert service.deliver(old, young, orders[0]) == [PARKED, DUPLICATE, DUPLICATE]
    assert service.parked() == [(None, "dead", "expired")]
    # Under another id, younger than the purge, it contradicts what was applied.
    assert service.deliver(make_event(1, event_id=id_made_at(NOW))) == [PARKED]
    assert service.parked()[1:] == [(1, "dead", "conflict")]
    # After a long outage what is numbered goes on, however old it is, and so does what is young.
    assert service.deliver(*orders[1:], visit(id_made_at(NOW))) == [APPLIED] * 3
    assert service.effects() == [("1", None), ("1", None), ("1", 1), ("1", 2), ("1", 3), ("1", None)]


def test_a_consumer_that_forgot_nothing_takes_what_is_older_than_the_purge_of_another(
    service: BrokerlessService, purge: Purge
) -> None:
    purge.make_parts(LONG_AGO)
    in_partition, in_rest = visit(id_made_at(LONG_AGO)), visit(id_made_at(LONG_AGO - WEEK))
    young = BrokerlessService(service.dsn, name="young")
    for event in (in_partition, in_rest):
        service.deliver(event)
    age(service, days=60)
    young.deliver(visit(untimed_id()))
    purge.forget(at(NOW))
    assert service.deliver(in_partition, in_rest) == [PARKED] * 2
    assert young.deliver(in_partition, in_rest) == [APPLIED] * 2


def test_republished_events_that_were_purged_are_duplicates_and_new_ones_go_on(
    service: BrokerlessService, purge: Purge
) -> None:
    purge.make_parts(LONG_AGO)
    orders = [make_event(sequence, event_id=id_made_at(LONG_AGO)) for sequence in range(1, 7)]
    prices = [make_event(sequence, aggregate_type="price", event_id=id_made_at(LONG_AGO)) for sequence in (3, 5)]
    assert service.deliver(*orders[:5], *prices) == [APPLIED] * 7
    purge.forget(at(NOW))
    assert service.deliver(*orders) == [*[DUPLICATE] * 5, APPLIED]
    # Numbers with gaps do not tell whether one below the last was applied.
    assert service.deliver(*prices) == [PARKED] * 2
    assert {reason for _, _, reason in service.parked()} == {"expired"}


def test_a_conflict_that_is_parked_stays_an_operators_to_decide_when_it_comes_again_after_a_purge(
    service: BrokerlessService, purge: Purge
) -> None:
    purge.make_parts(LONG_AGO)
    first, other = (make_event(1, event_id=id_made_at(LONG_AGO)) for _ in range(2))
    assert service.deliver(first, other) == [APPLIED, PARKED]
    purge.forget(at(NOW))
    assert service.deliver(other) == [DUPLICATE]
    assert claims_in(service, "inbox") == 0
    assert service.parked() == [(1, "dead", "conflict")]


def test_the_rest_is_forgotten_by_its_claims_and_by_the_ids_own_times(
    service: BrokerlessService, purge: Purge, reports: list[tuple[str, str]]
) -> None:
    foreign = replace(visit(untimed_id()), created_at=LONG_AGO)
    late = visit(id_made_at(LONG_AGO))
    ahead = visit(id_made_at(NOW))  # by the clock of its writer
    service.deliver(foreign, late, ahead)
    age(service, days=31)
    service.deliver(visit(untimed_id()), visit(id_made_at(LONG_AGO)))
    old = purge.find_old(at(NOW))
    assert (old.timed, old.untimed, claims_in(service, "inbox")) == (1, 1, 5)
    purge.forget(at(NOW))
    assert reports == [("deleted", "2 ids in public.inbox_rest")]
    assert service.one("select count(*) from inbox where event_id = any(%s)", [key_of(str(ahead.id))]) == 1
    assert claims_in(service, "inbox") == 3
    assert service.deliver(late, foreign, ahead) == [PARKED, PARKED, DUPLICATE]


def test_many_claims_of_the_rest_go_in_batches(
    service: BrokerlessService, purge: Purge, reports: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "_PAGES", 2)
    with psycopg.connect(service.dsn) as connection:
        connection.execute(
            "insert into inbox (consumer, event_id, claimed_at)"
            " select 'shipping', '~' || gen_random_uuid(), now() - (number % 60) * interval '1 day'"
            " from generate_series(1, 3000) as number"
        )
    purge.forget(at(NOW))
    assert reports == [("deleted", "1,450 ids in public.inbox_rest")]
    assert service.one("select count(*) from inbox where claimed_at < now() - interval '30 days 1 hour'") == 0


def test_what_explains_a_sequence_stays_and_what_was_begun_long_ago_goes(
    service: BrokerlessService, purge: Purge
) -> None:
    purge.make_parts(LONG_AGO)
    service.deliver(make_event(1, event_id=id_made_at(LONG_AGO)), make_event(3, event_id=id_made_at(LONG_AGO)))
    with psycopg.connect(service.dsn) as connection:
        connection.execute("insert into inbox_starts (consumer, event_id, started) values ('shipping', 'x', 1)")
    age(service, days=90)
    assert purge.find_old(at(NOW)).starts == 1
    purge.forget(at(NOW))
    assert claims_in(service, "inbox_starts") == claims_in(service, "inbox") == 0
    assert (service.watermark(), service.parked_behind(), len(service.parked())) == (1, 1, 1)


def test_a_partition_is_not_dropped_under_a_handler_and_nothing_is_noted_then(
    service: BrokerlessService, purge: Purge
) -> None:
    """Who claimed before the drop ends before it; who claims behind it sees the note."""
    purge.make_parts(LONG_AGO)
    old = visit(id_made_at(LONG_AGO))
    service.deliver(old)
    with psycopg.connect(service.dsn) as handler:
        handler.execute("insert into inbox (consumer, event_id) values ('other', 'x')")
        with pytest.raises(TransactionConflictError) as caught:
            purge.forget(at(NOW))
        assert "A handler holds it" in caught.value.hint
        assert claims_in(service, "inbox_purges") == 0
    with psycopg.connect(service.dsn, autocommit=True) as dropping, Threads() as threads:
        with dropping.transaction():
            # As the purge does it: the note and the drop are there at once for whoever waited.
            dropping.execute("lock table inbox in access exclusive mode")
            note = "insert into inbox_purges (consumer, purged_before) values (%s, %s)"
            dropping.execute(note, (service.name, at(NOW).made_before))
            dropping.execute(f"drop table inbox_{week_of(LONG_AGO):%Y_%m_%d}".encode())
            outcomes = threads.submit(service.deliver, old)
            waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = %s"
            name = dropping.info.dbname
            with psycopg.connect(dropping.info.dsn, password=dropping.info.password, autocommit=True) as watcher:
                eventually(
                    lambda: watcher.execute(waiting, (name,)).fetchall() == [(1,)], "the consumer to wait for the drop"
                )
        assert outcomes.result() == [PARKED]
    assert [reason for _, _, reason in service.parked()] == ["expired"]


def test_an_inbox_that_is_not_there_is_told_so(outbox_stack: Stack) -> None:
    with connect(outbox_stack.postgres.dsn()) as connection, pytest.raises(OutboxError, match="has no partitions"):
        PartPurge(connection, Psycopg(), InboxTable(schema="nowhere"), print).make_parts(NOW)
