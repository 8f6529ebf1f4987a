"""What operators do to an inbox on MariaDB and SQLite, by the commands that PostgreSQL has."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest

from cdc_outbox import Event, Outbox
from cdc_outbox.cli.inbox import InboxLocation
from cdc_outbox.consumer.ordering import Move
from cdc_outbox.consumer.parked_events import Failure, Reason
from cdc_outbox.databases.drivers import find_transaction_driver
from cdc_outbox.databases.drivers.immediate import ImmediateTransactions, finish
from cdc_outbox.databases.drivers.transactions import transaction
from cdc_outbox.operations.connections import OpenInbox
from cdc_outbox.testing import Stack
from tests.contract.inbox_contract import A, B, Opened, gap
from tests.support.commands import run_here
from tests.support.events import id_made_at
from tests.support.places import Place

NOW = datetime.now(UTC)
CONSUMER = "shipping"
DEAD = Failure(reason=Reason.FAILED, error="no such customer\nTraceback …", attempts=3)
BEHIND = Failure(reason=Reason.BEHIND, error="", attempts=0)


@pytest.fixture(params=["mariadb", "sqlite"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    sqlite = request.param == "sqlite"
    place = Place.on_sqlite(tmp_path) if sqlite else Place.on_mariadb(tmp_path, request.getfixturevalue("mariadb"))
    monkeypatch.setenv("CDC_OUTBOX_INBOX_DSN", place.dsn)
    monkeypatch.setenv("CDC_OUTBOX_DSN", "host=nowhere.invalid")
    made = run_here("init", "--inbox")
    assert made.returncode == 0, made.stderr
    assert f"database {place.database}\n" in made.stderr
    return place


@contextmanager
def opened(place: Place) -> Iterator[Opened]:
    with InboxLocation(place.dsn).connected() as (connection, driver):
        inbox = OpenInbox(connection, driver, table=InboxLocation(place.dsn).table, consumer=CONSUMER)
        with transaction(connection, driver):
            yield Opened(connection, ImmediateTransactions(find_transaction_driver(connection)), inbox.stores)


@pytest.fixture
def ids(place: Place) -> list[str]:
    """A consumer that has applied a's first event: its second one failed, and two of b's are missing."""
    with opened(place) as park:
        park.advance(Move(A, 0, 1, parked=2), Move(B, 0, 1, parked=1))
        return [
            park.add(2, DEAD, key=b"a", value=b"\xff\0", headers=(("id", b"1"), ("ü", b"\xff"))),
            park.add(3, BEHIND),
            park.add(4, gap(), aggregate=B),
        ]


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    """Return what goes to stdout, and the words that go to stderr."""
    done = run_here(*arguments, "--consumer", CONSUMER)
    assert done.returncode == code, done.stderr
    return done.stdout, " ".join(done.stderr.split())


def watermarks(place: Place) -> list[tuple[object, ...]]:
    return place.query("select last, parked from inbox_watermarks order by aggregateid")


def test_what_is_parked_is_listed_shown_and_exported(ids: list[str]) -> None:
    listed = json.loads(run("parked", "list", "--output=json")[0])["events"]
    assert [(row["parked_id"], row["event_id"], row["aggregate"]) for row in listed] == [
        (1, ids[0], "order/a"),
        (2, ids[1], "order/a"),
        (3, ids[2], "order/b"),
    ]
    assert (listed[0]["consumer"], listed[0]["retry_at"], listed[0]["forced"]) == (CONSUMER, None, False)
    for moment in (listed[0]["parked_at"], listed[0]["tried_at"]):
        assert NOW - timedelta(minutes=1) < datetime.fromisoformat(moment) <= datetime.now(UTC)
    lines = run("parked", "list", "--state=dead", "--reason=failed", "--aggregate=order/a")[0].splitlines()
    assert len(lines) == 2
    assert lines[1].endswith("  no such customer")
    assert run("parked", "list")[1] == "missing: 2 to 3 of order/b (orders.1), with 1 event waiting"
    shown = run("parked", "show", "1", "--payload")[0]
    assert "source     orders.1\n" in shown
    exported = [json.loads(line) for line in run("parked", "export")[0].splitlines()]
    assert exported[0]["payload"] == {"base64": "/wA="}
    assert exported[0]["headers"] == [["id", "1"], ["ü", {"base64": "/w=="}]]
    assert exported[1]["payload"] == "{}"
    assert "have used it: shipping" in run_here("parked", "list", "--consumer=nobody").stderr
    assert "has the id 9; there are 1, 2, 3" in run("parked", "show", "9", code=1)[1]


def test_events_are_tried_again_and_given_up(place: Place, ids: list[str]) -> None:
    retried, left = run("parked", "retry", "--all", "--output=json")
    retry = json.loads(retried)
    assert (retry["kind"], retry["consumer"], retry["due"]) == ("Retry", CONSUMER, [1])
    assert retry["left"] == [{"parked_id": 2, "reason": "behind"}, {"parked_id": 3, "reason": "gap"}]
    assert "left: 1 behind" in left
    assert run("parked", "retry", "--all")[0] == "1\n"
    assert place.query(
        "select state, forced, attempts, retry_at is not null from inbox_parked where parked_id = 1"
    ) == [("waiting", 0, 0, 1)]
    skipped, told = run("parked", "skip", "1", "--note=cancelled by hand", "--output=json")
    assert told.endswith("of order/a, order/a is at 2 now")
    [event] = json.loads(skipped)["events"]
    assert (event["parked_id"], event["event_id"], event["isHole"]) == (1, ids[0], True)
    assert watermarks(place) == [(2, 1), (1, 1)]
    assert place.query("select first, last, reason, note from inbox_holes") == [(2, 2, "skipped", "cancelled by hand")]
    # What waited behind it is due now, and what was given up is a duplicate should it come again.
    assert place.query("select parked_id from inbox_parked where retry_at is not null") == [(2,)]
    with opened(place) as park:
        assert park.claim(ids[0]) == set()


def test_a_conflict_is_applied_by_force_unless_its_id_was(place: Place) -> None:
    conflict = Failure(reason=Reason.CONFLICT, error="another event has its place", attempts=0)
    with opened(place) as park:
        park.advance(Move(A, 0, 5))
        park.add(1, conflict)
        claimed = park.add(2, conflict)
        park.claim(claimed)
    assert "--force conflict applies it anyway" in run("parked", "retry", "1", code=1)[1]
    assert run("parked", "retry", "1", "--force=conflict")[0] == "1\n"
    assert place.query("select parked_id, forced from inbox_parked order by parked_id") == [(1, 1), (2, 0)]
    refused = run("parked", "retry", "2", "--force=conflict", code=1)[1]
    assert "another event was applied under its id" in refused


@pytest.mark.usefixtures("ids")
def test_a_baseline_accepts_what_is_missing_of_the_one_that_is_named(place: Place) -> None:
    assert run("baseline")[0] == ""
    named = ["baseline", "--aggregate=order/b", "--source=orders.1", "--note=lost"]
    document = json.loads(run(*named, "--dry-run", "--output=json")[0])
    assert (document["kind"], document["isDryRun"], document["unreadable"]) == ("Baseline", True, 0)
    [dry] = document["aggregates"]
    assert (dry["aggregate"], dry["missing_first"], dry["missing_last"], dry["parked"]) == ("order/b", 2, 3, 1)
    assert watermarks(place) == [(1, 2), (1, 1)]
    titles, line = run(*named)[0].splitlines()
    assert titles.split() == ["AGGREGATE", "SOURCE", "LAST", "MISSING_FIRST", "MISSING_LAST", "PARKED"]
    assert line.split() == ["order/b", "orders.1", "1", "2", "3", "1"]
    assert watermarks(place) == [(1, 2), (3, 1)]
    assert place.query("select first, last, reason from inbox_holes") == [(2, 3, "baseline")]
    assert place.query("select parked_id from inbox_parked where retry_at is not null") == [(3,)]


def test_old_ids_are_forgotten_page_by_page_and_young_ones_are_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_outbox.operations.purge._PAGE_CLAIMS", 2)
    old, young = ([id_made_at(NOW - timedelta(days=days)) for _ in range(5)] for days in (60, 1))
    untimed = ["1", "foreign", "x" * 200]
    with opened(place) as inbox:
        inbox.claim(*old, *young, *untimed)
    for consumer in ("another", "zebra"):
        place.query(
            f"insert into inbox select '{consumer}', event_id, claim_token, claimed_at from inbox "  # noqa: S608
            f"where consumer = '{CONSUMER}'"
        )
    purge = ["purge-inbox", "--horizon=30d", "--accept-shorter-horizon"]
    assert "deleted    nothing: no ids were made before" in run_here(*purge).stdout  # all of them were claimed today
    long_ago = (NOW - timedelta(days=40)).strftime("%Y-%m-%dT%H:%M:%S.000")
    place.query(f"update inbox set claimed_at = '{long_ago}'")  # noqa: S608
    dry = run_here(*purge, "--dry-run", "--output=json")
    assert "to delete  24 ids and 0 starts: ids made before" in dry.stderr
    document = json.loads(dry.stdout)
    assert (document["kind"], document["isDryRun"]) == ("InboxPurge", True)
    assert (document["ids"], document["starts"], document["partitions"]) == (24, 0, [])
    assert datetime.fromisoformat(document["madeBefore"]) < NOW - timedelta(days=29)
    assert place.query("select count(*) from inbox") == [(39,)]
    done = run_here(*purge)
    assert "deleted    24 ids and 0 starts: ids made before" in done.stdout, done.stderr
    left = place.query("select distinct event_id from inbox")
    assert sorted(event_id for (event_id,) in left) == sorted(young)
    assert len(place.query("select * from inbox_purges")) == 3  # one for each consumer that forgot something
    with opened(place) as inbox:
        purged_before = finish(inbox.inbox.find_purge(inbox.connection))
        assert purged_before is not None
        assert timedelta(days=30) <= NOW - purged_before < timedelta(days=38)
        assert inbox.claim(*young, *old) == set(old)
    assert run_here(*purge).stdout.startswith("deleted    nothing: ")


@pytest.fixture
def brokers(outbox_stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDC_OUTBOX_BOOTSTRAP_SERVERS", outbox_stack.broker.bootstrap_servers)


@pytest.fixture
def topic(place: Place) -> str:
    """The one that the spec names, and that nobody has made."""
    name = f"{place.name}-{uuid4().hex[:8]}"
    place.write_spec(f"topics: {{name: {name}}}\n")
    return name


@pytest.mark.usefixtures("brokers")
def test_a_reset_forgets_one_aggregate_or_all_of_them(place: Place, topic: str) -> None:
    with opened(place) as park:
        park.advance(Move(A, 0, 1, parked=1), Move(B, 0, 1))
        park.add(2, DEAD, topic=topic)
    reset = ["reset", str(place.spec)]
    unknown = run_here(*reset, "--all", "--consumer=nobody")
    assert (unknown.returncode, "have used it: shipping" in unknown.stderr) == (1, True)
    gone = run(*reset, "--all", code=1)[1]
    assert "no topic still has 1 parked event" in gone
    place.query("delete from inbox_parked")
    said = run(*reset, "--aggregate=order/a", "--dry-run")[0]
    assert said.startswith("would be deleted: 0 claims, 1 watermark, 0 parked events, 0 gaps\n")
    document = json.loads(run(*reset, "--aggregate=order/a", "--output=json", code=2)[0])
    assert (document["kind"], document["isDryRun"], document["aggregates"]) == ("Reset", True, 1)
    run(*reset, "--aggregate=order/a", "--run-effects-again")
    # The topic holds none of its events, so what was applied stays applied.
    assert watermarks(place) == [(1, 0), (1, 0)]
    run(*reset, "--all", "--run-effects-again")
    assert place.query("select count(*) from inbox") == [(0,)]


@pytest.mark.usefixtures("brokers")
def test_a_consumer_is_compared_with_the_outbox(place: Place, topic: str) -> None:
    place.made()
    with place.connect() as connection:
        for _ in range(3):
            Outbox().add(connection, Event(aggregate_type="order", aggregate_id="a", type="OrderPlaced", payload={}))
        connection.commit()
    with opened(place) as park:
        park.advance(Move(A, 0, 1, parked=1))
        park.add(2, DEAD, topic=topic)
    verify = ["verify", str(place.spec), "--dsn", place.dsn, "--settle=0s"]
    found = json.loads(run(*verify, "--output=json", code=3)[0])
    [sums] = [each for each in found["types"] if each["type"] == "order"]
    assert (sums["aggregates"], sums["givenOut"], sums["inTopic"], sums["applied"]) == (1, 3, 0, 1)
    assert {kind: events for kind, events in sums["events"].items() if events} == {"missing": 3, "parked": 1}
    unknown = run_here(*verify, "--consumer=nobody")
    assert (unknown.returncode, "have used it: shipping" in unknown.stderr) == (1, True)


def test_where_there_is_no_inbox_that_is_said_with_what_makes_one(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    for bare in (Place.on_sqlite(tmp_path), Place.on_mariadb(tmp_path, request.getfixturevalue("mariadb"))):
        done = run_here("parked", "list", "--consumer=shipping", "--inbox-dsn", bare.dsn)
        assert done.returncode == 1
        said = " ".join(done.stderr.split())
        assert f"in the database {bare.database}" in said
        assert "Create it there with `cdc-outbox init --inbox`" in said
