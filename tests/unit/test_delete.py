"""Whose connector may be deleted, and what is said to stay of it."""

import pytest

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.delete import Leftovers, retire, retire_unspecified, what_stays
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.errors import ConnectorInvalidError
from cdc_outbox.spec import parse_spec
from tests.support.connect_server import Answer, Asked, answering
from tests.support.specs import MINIMAL
from tests.support.timings import QUICK_TIMINGS

POSTGRESQL = DatabaseKind.POSTGRESQL.connector_class

DEBEZIUM = MINIMAL.replace("database:\n", "database:\n  slot: debezium\n")


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
