"""Whose connector may be deleted, and what is said to stay of it."""

import pytest

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.lint.config import Kind
from cdc_outbox.connect.retire import Remains, retire, what_stays
from cdc_outbox.errors import ConnectorInvalidError
from cdc_outbox.spec import parse_spec
from tests.connect_server import answering
from tests.specs import MINIMAL

DEBEZIUM = MINIMAL.replace("database:\n", "database:\n  slot: debezium\n")


@pytest.mark.parametrize(
    ("text", "config", "reads"),
    [
        (MINIMAL, {"connector.class": Kind.POSTGRESQL, "slot.name": "other"}, "reads the slot other, not orders"),
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
            retire(parse_spec(text), client, None, timeout_seconds=1, report=lambda *_step: None)
        client.close()
    assert [request.method for request in asked] == ["GET"]


def test_a_topic_of_several_aggregate_types_stays_once() -> None:
    text = MINIMAL.replace("aggregates:\n", "topics: {name: events}\naggregates:\n  order: {}\n")
    *_, topics = what_stays(parse_spec(text), Remains())
    assert topics == "stays: the topics events"
