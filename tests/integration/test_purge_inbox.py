"""What an inbox forgets, and what it makes of events that come again afterwards."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest

from cdc_outbox.consumer import InboxTable, Outcome
from cdc_outbox.consumer.ids import key_of
from cdc_outbox.drivers.psycopg import Psycopg, connect
from cdc_outbox.errors import OutboxError, TransactionConflictError
from cdc_outbox.operate import purge as purging
from cdc_outbox.operate.horizon import WEEK, Horizon, week_of
from cdc_outbox.operate.purge import PartPurge, Purge
from cdc_outbox.testing import Stack
from tests.support.parking import Receiver, id_made_at, make_inbox
from tests.support.rig import eventually

APPLIED, DUPLICATE, PARKED = Outcome.APPLIED, Outcome.DUPLICATE, Outcome.PARKED
NOW = datetime.now(UTC)
DAYS = 30.0
LONG_AGO = NOW - timedelta(days=60)


@pytest.fixture
def receiver(outbox_stack: Stack) -> Receiver:
    dsn = outbox_stack.postgres.create_database(f"purge_{uuid4().hex[:8]}")
    make_inbox(dsn)
    return Receiver(dsn)


@pytest.fixture
def reports() -> list[tuple[str, str]]:
    return []


@pytest.fixture
def purge(receiver: Receiver, reports: list[tuple[str, str]]) -> Iterator[Purge]:
    with connect(receiver.dsn) as connection:
        yield PartPurge(
            connection, Psycopg(), InboxTable(), lambda step, text: reports.append((step, text)), wait_seconds=0
        )


def at(moment: datetime) -> Horizon:
    return Horizon.at(moment, days=DAYS)


def age(receiver: Receiver, **interval: int) -> None:
    """Let everything that was claimed or begun have been so long ago."""
    for statement in (
        "update inbox set claimed_at = claimed_at - make_interval(days => %s)",
        "update inbox_starts set started_at = started_at - make_interval(days => %s)",
    ):
        with psycopg.connect(receiver.dsn) as connection:
            connection.execute(statement.encode(), (interval["days"],))


def partitions(receiver: Receiver) -> set[str]:
    query = "select inhrelid::regclass::text from pg_inherits where inhparent = 'inbox'::regclass"
    return {name for (name,) in receiver.rows(query)}


def claims_in(receiver: Receiver, table: str) -> int:
    return int(receiver.ask(f"select count(*) from {table}"))  # noqa: S608 - a name of ours


def test_this_week_and_the_next_ones_have_partitions_and_ids_fall_into_theirs(
    receiver: Receiver, purge: Purge, reports: list[tuple[str, str]]
) -> None:
    purge.make_parts(NOW)
    weeks = [f"inbox_{week_of(NOW) + WEEK * number:%Y_%m_%d}" for number in range(5)]
    assert partitions(receiver) == {"inbox_rest", *weeks}
    receiver.take(receiver.event(1, id=id_made_at(NOW)), receiver.event(2, id=id_made_at(NOW + WEEK)))
    receiver.take(receiver.event(3), receiver.event(4, id=id_made_at(LONG_AGO)))
    assert [claims_in(receiver, table) for table in (*weeks[:3], "inbox_rest")] == [1, 1, 0, 2]
    reports.clear()
    purge.make_parts(NOW)
    assert reports == []
    purge.make_parts(NOW + WEEK)
    assert reports == [("made", f"public.inbox_{week_of(NOW) + WEEK * 5:%Y_%m_%d}")]


def test_claims_that_lie_in_the_rest_are_moved_into_the_partition_that_is_made_for_them(
    receiver: Receiver, purge: Purge
) -> None:
    events = [receiver.event(number, id=id_made_at(NOW)) for number in (1, 2)]
    receiver.take(*events)
    purge.make_parts(NOW)
    assert claims_in(receiver, "inbox_rest") == 0
    assert receiver.take(*events) == [DUPLICATE] * 2


def test_a_week_of_which_too_many_lie_in_the_rest_is_left_out_and_said(
    receiver: Receiver, purge: Purge, reports: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "_MOST_MOVED", 1)
    receiver.take(*(receiver.event(number, id=id_made_at(NOW)) for number in (1, 2)))
    purge.make_parts(NOW)
    assert reports[0] == (
        "left out",
        f"public.inbox_{week_of(NOW):%Y_%m_%d}: public.inbox_rest holds more than 1 claims of its week",
    )
    assert len(partitions(receiver)) == 5


def test_a_partition_that_is_over_goes_as_a_whole_and_those_that_are_not_stay(receiver: Receiver, purge: Purge) -> None:
    for week in (9, 5, 4, 0):  # weeks ago
        purge.make_parts(NOW - WEEK * week)
    before = partitions(receiver)
    receiver.take(*(receiver.event(None, "visit", id=id_made_at(NOW - timedelta(days=days))) for days in (60, 20, 0)))
    old = purge.find_old(at(NOW))
    assert sum(claims for _, claims in old.parts) == 1
    assert partitions(receiver) == before
    purge.forget(at(NOW))
    gone = before - partitions(receiver)
    assert gone == {name for name in before if name < f"inbox_{week_of(NOW - timedelta(days=DAYS)):%Y_%m_%d}"}
    assert receiver.ask("select max(purged_before) from inbox_purges") == week_of(NOW - timedelta(days=DAYS))
    assert claims_in(receiver, "inbox") == 2
    purge.forget(at(NOW))
    assert claims_in(receiver, "inbox_purges") == 1


def test_what_was_purged_and_comes_again_is_not_run_unless_its_number_proves_that_it_is_next(
    receiver: Receiver, purge: Purge
) -> None:
    purge.make_parts(LONG_AGO)
    purge.make_parts(NOW)
    old, young = (receiver.event(None, "visit", id=id_made_at(moment)) for moment in (LONG_AGO, NOW))
    numbered = [receiver.event(sequence, id=id_made_at(LONG_AGO)) for sequence in (1, 2, 3)]
    assert receiver.take(old, young, numbered[0]) == [APPLIED] * 3
    purge.forget(at(NOW))
    assert receiver.take(old, young, numbered[0]) == [PARKED, DUPLICATE, PARKED]
    assert [row[:2] for row in receiver.parked().values()] == [("dead", "expired")] * 2
    # After a long outage what is numbered goes on, however old it is, and so does what is young.
    assert receiver.take(*numbered[1:], receiver.event(None, "visit", id=id_made_at(NOW))) == [APPLIED] * 3
    assert receiver.effects() == [("1", None), ("1", None), ("1", 1), ("1", 2), ("1", 3), ("1", None)]


def test_the_rest_is_forgotten_by_its_claims_and_by_the_ids_own_times(
    receiver: Receiver, purge: Purge, reports: list[tuple[str, str]]
) -> None:
    foreign = receiver.event(None, "visit")
    late = receiver.event(None, "visit", id=id_made_at(LONG_AGO))
    ahead = receiver.event(None, "visit", id=id_made_at(NOW))  # by the clock of its writer
    receiver.take(foreign, late, ahead)
    age(receiver, days=31)
    receiver.take(receiver.event(None, "visit"), receiver.event(None, "visit", id=id_made_at(LONG_AGO)))
    old = purge.find_old(at(NOW))
    assert (old.timed, old.untimed, claims_in(receiver, "inbox")) == (1, 1, 5)
    purge.forget(at(NOW))
    assert reports == [("deleted", "2 ids in public.inbox_rest")]
    assert receiver.ask("select count(*) from inbox where event_id = any(%s)", [key_of(str(ahead.id))]) == 1
    assert claims_in(receiver, "inbox") == 3
    assert receiver.take(late, foreign, ahead) == [PARKED, APPLIED, DUPLICATE]


def test_many_claims_of_the_rest_go_in_batches(
    receiver: Receiver, purge: Purge, reports: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "_PAGES", 2)
    with psycopg.connect(receiver.dsn) as connection:
        connection.execute(
            "insert into inbox (consumer, event_id, claimed_at)"
            " select 'shop', '~' || gen_random_uuid(), now() - (number % 60) * interval '1 day'"
            " from generate_series(1, 3000) as number"
        )
    purge.forget(at(NOW))
    assert reports == [("deleted", "1,450 ids in public.inbox_rest")]
    assert receiver.ask("select count(*) from inbox where claimed_at < now() - interval '30 days 1 hour'") == 0


def test_what_explains_a_sequence_stays_and_what_was_begun_long_ago_goes(receiver: Receiver, purge: Purge) -> None:
    purge.make_parts(LONG_AGO)
    receiver.take(receiver.event(1, id=id_made_at(LONG_AGO)), receiver.event(3, id=id_made_at(LONG_AGO)))
    with psycopg.connect(receiver.dsn) as connection:
        connection.execute("insert into inbox_starts (consumer, event_id, started) values ('shop', 'x', 1)")
    age(receiver, days=90)
    assert purge.find_old(at(NOW)).starts == 1
    purge.forget(at(NOW))
    assert claims_in(receiver, "inbox_starts") == claims_in(receiver, "inbox") == 0
    assert (receiver.mark(), len(receiver.parked())) == ((1, 1), 1)


def test_a_partition_is_not_dropped_under_a_handler_and_nothing_is_noted_then(receiver: Receiver, purge: Purge) -> None:
    """Who claimed before the drop ends before it; who claims behind it sees the note."""
    purge.make_parts(LONG_AGO)
    old = receiver.event(None, "visit", id=id_made_at(LONG_AGO))
    receiver.take(old)
    with psycopg.connect(receiver.dsn) as handler:
        handler.execute("insert into inbox (consumer, event_id) values ('other', 'x')")
        with pytest.raises(TransactionConflictError) as caught:
            purge.forget(at(NOW))
        assert "A handler holds it" in caught.value.hint
        assert claims_in(receiver, "inbox_purges") == 0
    with psycopg.connect(receiver.dsn, autocommit=True) as dropping:
        outcomes: list[Outcome] = []
        with dropping.transaction():
            # As the purge does it: the note and the drop are there at once for whoever waited.
            dropping.execute("lock table inbox in access exclusive mode")
            dropping.execute("insert into inbox_purges (purged_before) values (%s)", (at(NOW).made_before,))
            dropping.execute(f"drop table inbox_{week_of(LONG_AGO):%Y_%m_%d}".encode())
            consumer = threading.Thread(target=lambda: outcomes.extend(receiver.take(old)))
            consumer.start()
            waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname = %s"
            name = dropping.info.dbname
            with psycopg.connect(dropping.info.dsn, password=dropping.info.password, autocommit=True) as watcher:
                eventually(
                    lambda: watcher.execute(waiting, (name,)).fetchall() == [(1,)], "the consumer to wait for the drop"
                )
        consumer.join(30)
    assert outcomes == [PARKED]
    assert [reason for _, reason, _ in receiver.parked().values()] == ["expired"]


def test_an_inbox_that_is_not_there_is_told_so(outbox_stack: Stack) -> None:
    with connect(outbox_stack.postgres.dsn()) as connection, pytest.raises(OutboxError, match="has no partitions"):
        PartPurge(connection, Psycopg(), InboxTable(schema="nowhere"), print).make_parts(NOW)
