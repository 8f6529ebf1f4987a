"""Whose connector may be deleted, and what is said to stay of it."""

from dataclasses import replace
from unittest.mock import Mock

import pytest

from cdc_outbox.connect.client import ConnectClient, ConnectorStatus
from cdc_outbox.connect.delete import Leftovers, purge, retire, retire_unspecified, what_stays
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.databases.facts import SlotFacts
from cdc_outbox.databases.lsn import Lsn
from cdc_outbox.databases.slots import ReplicationSlots
from cdc_outbox.debezium.render import render
from cdc_outbox.errors import (
    CdcOutboxError,
    ConnectError,
    ConnectorFailedError,
    ConnectorInvalidError,
    DatabaseAccessError,
    UnpublishedEventsError,
)
from cdc_outbox.spec import parse_spec
from tests.support.connect_server import Answer, Asked, answering
from tests.support.database_facts import SLOT
from tests.support.specs import MINIMAL
from tests.support.timings import QUICK_TIMINGS

POSTGRESQL = DatabaseKind.POSTGRESQL.connector_class

DEBEZIUM = MINIMAL.replace("database:\n", "database:\n  slot: debezium\n")
PURGED = parse_spec(MINIMAL.replace("database:\n", "database:\n  slot: orders_outbox\n"))


@pytest.mark.parametrize(
    ("text", "config", "reads"),
    [
        (
            MINIMAL,
            {"connector.class": POSTGRESQL, "slot.name": "other"},
            "reads the slot other, not orders",
        ),
        (MINIMAL, {"connector.class": "Postgres"}, "reads the slot debezium, not orders"),
        (DEBEZIUM, {"connector.class": "org.example.Sink"}, "reads no slot, not debezium"),
    ],
)
def test_a_connector_of_this_name_that_is_somebody_elses_is_left_alone(
    text: str, config: dict[str, str], reads: str
) -> None:
    with answering(lambda _asked: (200, config)) as (url, asked):
        client = ConnectClient(url)
        with pytest.raises(ConnectorInvalidError, match=reads):
            retire(parse_spec(text), client, timings=QUICK_TIMINGS, report=lambda *_step: None)
        client.close()
    assert [request.method for request in asked] == ["GET"]


def test_a_topic_of_several_aggregate_types_stays_once() -> None:
    text = MINIMAL.replace("aggregates:\n", "topics: {name: events}\naggregates:\n  order: {}\n")
    *_, topics = what_stays(parse_spec(text), Leftovers())
    assert topics == ("topics", ("events",), "the topics events")


@pytest.mark.parametrize(
    ("config", "stays"),
    [
        (
            {
                "connector.class": DatabaseKind.POSTGRESQL.connector_class,
                "slot.name": "other",
                "publication.name": "rows",
            },
            ["the slot other, which keeps WAL until it is dropped", "the publication rows"],
        ),
        (
            {"connector.class": POSTGRESQL},
            ["the slot debezium, which keeps WAL until it is dropped", "the publication dbz_publication"],
        ),
        ({"connector.class": "org.example.Sink"}, []),
    ],
)
def test_a_connector_that_no_spec_describes_is_stopped_and_deleted_and_what_stays_is_told(
    config: dict[str, str], stays: list[str]
) -> None:
    gone: list[Asked] = []

    def answer(asked: Asked) -> Answer:
        if asked.method == "DELETE":
            gone.append(asked)
        if asked.path.endswith("/topics"):
            return 200, {"byhand": {"topics": ["rows.b", "rows.a"]}}
        if asked.path.endswith("/status"):
            return 200, {"connector": {"state": "STOPPED"}, "tasks": []}
        return (404, {"message": "Connector byhand not found"}) if gone and asked.method == "GET" else (200, config)

    steps: list[tuple[str, str]] = []
    with answering(answer) as (url, asked):
        client = ConnectClient(url)
        told = retire_unspecified("byhand", client, timings=QUICK_TIMINGS, report=lambda *step: steps.append(step))
        client.close()
    assert [each.text for each in told[:-1]] == ["the offsets that Connect keeps under byhand", *stays]
    assert told[-1] == ("topics", ("rows.a", "rows.b"), "the topics rows.a, rows.b")
    assert [each.path for each in asked if each.method != "GET"] == ["/connectors/byhand/stop", "/connectors/byhand"]
    assert steps == [("stop", "byhand is STOPPED"), ("connector", "byhand deleted")]


@pytest.fixture
def connect() -> Mock:
    """Return a client of a Connect where the spec's connector runs."""
    client, there = Mock(), [render(PURGED)]
    client.find_config.side_effect = lambda _name: there[0] if there else None
    client.glance_at.return_value = ConnectorStatus("RUNNING", ())
    client.stop.side_effect = lambda _name: client.configure_mock(
        **{"glance_at.return_value": ConnectorStatus("STOPPED", ())}
    )
    client.delete.side_effect = lambda _name: there.clear()
    client.find_offsets.return_value = []
    return client


def database_with(slot: SlotFacts | None, *, name: str = "orders") -> Mock:
    found = {} if slot is None else {slot.name: slot}
    database = Mock()
    database.read_slots.return_value = ReplicationSlots(database=name, log_end=Lsn(9), limit=10, slots=found)
    database.find_slot.return_value = slot
    database.count_undelivered.return_value = 0
    return database


def purge_of(connect: Mock, database: Mock, steps: list[str] | None = None) -> None:
    told = [] if steps is None else steps
    timings = replace(QUICK_TIMINGS, timeout_seconds=0.2)
    purge(PURGED, connect, database, timings=timings, report=lambda *step: told.append(" ".join(step)), agree=refuse)


def refuse(events: int | None) -> None:
    raise UnpublishedEventsError(f"it holds {events}", hint="Wait.")


def changes(connect: Mock) -> list[str]:
    return [call[0] for call in connect.method_calls if not call[0].startswith(("find", "glance"))]


def denied() -> Mock:
    database = database_with(SLOT)
    database.check_may_read_slot.side_effect = DatabaseAccessError("permission denied to use replication slots")
    return database


@pytest.mark.parametrize(
    ("database", "message"),
    [
        (database_with(SLOT, name="shipping"), "orders: the DSN leads to another database"),
        (database_with(None, name="shipping"), "orders: the DSN leads to another database"),
        (
            database_with(replace(SLOT, database="shipping")),
            "the slot orders_outbox belongs to the database 'shipping', and the DSN leads to 'orders'",
        ),
        (denied(), "permission denied to use replication slots"),
    ],
)
def test_a_purge_checks_the_database_before_it_changes_anything(connect: Mock, database: Mock, message: str) -> None:
    with pytest.raises(CdcOutboxError) as refused:
        purge_of(connect, database)
    assert str(refused.value) == message
    assert changes(connect) == []


@pytest.mark.parametrize("is_there", [True, False])
def test_a_purge_leaves_a_connector_alone_whose_slot_another_process_reads(connect: Mock, *, is_there: bool) -> None:
    connect.glance_at.return_value = ConnectorStatus("STOPPED", ())
    if not is_there:
        connect.find_config.side_effect = lambda _name: None
    with pytest.raises(ConnectorFailedError, match="waiting for the slot orders_outbox to be free"):
        purge_of(connect, database_with(replace(SLOT, reader=7)))
    assert changes(connect) == []


def test_a_purge_that_is_refused_says_that_the_connector_was_resumed(connect: Mock) -> None:
    database, steps = database_with(SLOT), list[str]()
    database.count_undelivered.return_value = 2
    with pytest.raises(UnpublishedEventsError) as refused:
        purge_of(connect, database, steps)
    assert changes(connect) == ["stop", "resume"]
    assert steps == ["stop orders is STOPPED", "stop orders was resumed"]
    assert refused.value.hint == "Wait. Nothing was deleted."


@pytest.mark.parametrize(
    ("step", "left"),
    [
        ("reset_offsets", "The connector orders is stopped; its offsets may be deleted."),
        ("delete", "The offsets are deleted; the connector orders and the slot orders_outbox are left."),
        ("drop_slot", "The connector orders and its offsets are deleted; the slot orders_outbox is left."),
    ],
)
def test_a_purge_that_fails_says_what_is_left_and_what_to_do(connect: Mock, step: str, left: str) -> None:
    database = database_with(SLOT)
    getattr(database if step == "drop_slot" else connect, step).side_effect = ConnectError("no answer", hint="Look.")
    with pytest.raises(ConnectError) as failed:
        purge_of(connect, database)
    assert failed.value.hint == f"Look. {left} Run the command again to complete the purge."


def test_a_purge_that_cannot_resume_the_connector_says_so(connect: Mock) -> None:
    database = database_with(SLOT)
    database.count_undelivered.return_value = 2
    connect.resume.side_effect = ConnectError("no answer", hint="Look.")
    with pytest.raises(ConnectError) as failed:
        purge_of(connect, database)
    assert failed.value.hint == "Look. orders is stopped; run `cdc-outbox resume orders`. Nothing was deleted."


def test_a_purge_that_cannot_delete_the_connector_that_it_created_says_so(connect: Mock) -> None:
    database = database_with(SLOT)
    database.count_undelivered.return_value = 2
    connect.find_config.side_effect = lambda _name: None
    connect.delete.side_effect = ConnectError("no answer", hint="Look.")
    with pytest.raises(ConnectError) as failed:
        purge_of(connect, database)
    left = "orders, created to read its offsets, is left stopped; run `cdc-outbox delete orders`."
    assert failed.value.hint == f"Look. {left} Nothing was deleted."
