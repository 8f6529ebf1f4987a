"""What the client makes of answers that a real Connect gives too seldom to wait for."""

import pytest

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.errors import ConfigError, ConnectError
from cdc_outbox.redaction import MASK
from tests.support.connect_server import (
    BROKEN,
    REBALANCING,
    Answer,
    Asked,
    answering,
    connect_that_answers,
    each,
)

CONFIG = {"name": "orders", "slot.name": "orders"}
EXISTS: Answer = (409, {"error_code": 409, "message": "Connector orders already exists"})
CREATED: Answer = (201, {})


def methods(asked: list[Asked]) -> list[str]:
    return [request.method for request in asked]


def test_an_option_that_the_connector_did_not_look_at_is_no_finding() -> None:
    definition = {"name": "database.hostname", "type": "STRING"}
    looked_at = {"definition": definition, "value": {"name": "database.hostname", "errors": ["refused"]}}
    answer: Answer = (200, {"configs": [{"definition": definition, "value": None}, looked_at]})
    with connect_that_answers(config=answer) as (client, _):
        found = client.validate({"connector.class": "x", "name": "orders"})
    assert [(finding.location.path, finding.message) for finding in found] == [("database.hostname", "refused.")]


def test_what_connect_says_twice_is_one_finding() -> None:
    option = {
        "definition": {"name": "database.hostname"},
        "value": {"name": "database.hostname", "errors": ["refused", "refused."]},
    }
    with connect_that_answers(config=(200, {"configs": [option, option]})) as (client, _):
        assert len(client.validate({"connector.class": "x", "name": "orders"})) == 1


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ('FATAL: password authentication failed for user "me"', "database.password refers to"),
        ("The connection attempt failed.", "host, port, firewalls"),
        ("Connection validation timed out after 60000 ms", "host, port, firewalls"),
        ("refused", ""),
    ],
)
def test_what_connect_refuses_has_the_remedy_that_a_failed_task_has(message: str, remedy: str) -> None:
    answer: Answer = (200, {"configs": [{"value": {"name": "database.hostname", "errors": [message]}}]})
    with connect_that_answers(config=answer) as (client, _):
        [found] = client.validate({"connector.class": "x", "name": "orders"})
    assert remedy in found.remedy
    assert bool(remedy) is bool(found.remedy)
    assert found.message == message.rstrip(".") + "."  # the remedy follows it on the same line


def test_what_a_worker_says_null_of_is_empty() -> None:
    task = {"id": 0, "state": "RUNNING", "trace": None, "worker_id": None}
    connector = {"state": "UNASSIGNED", "version": None, "trace": None}
    answer: Answer = (200, {"connector": connector, "tasks": [task]})
    with answering(lambda _: answer) as (url, _):
        status = ConnectClient(url).glance_at("orders")
    assert (status.version, status.trace, status.tasks[0].trace, status.tasks[0].worker) == ("", "", "", "")


def test_a_secret_that_came_into_the_configuration_since_is_not_shown() -> None:
    config = each(*((200, {"name": "orders", "x.password": secret}) for secret in ("first-s3cret", "other-s3cret")))
    task = {"id": 0, "state": "FAILED", "trace": "Invalid value first-s3cret, or was it other-s3cret?"}
    status: Answer = (200, {"connector": {"state": "RUNNING"}, "tasks": [task]})
    with answering(lambda asked: config(asked) if asked.path.endswith("/config") else status) as (url, _):
        client = ConnectClient(url)
        client.glance_at("orders")
        [shown] = client.glance_at("orders").tasks
        client.close()
    assert shown.trace == f"Invalid value {MASK}, or was it {MASK}?"


def test_a_connector_that_somebody_else_made_meanwhile_is_not_ours() -> None:
    """Connect says 409 to this as to a rebalance; who loses the race must not wait, nor take it for its own."""
    with connect_that_answers(EXISTS, config=(200, CONFIG)) as (client, asked):
        with pytest.raises(ConnectError, match="another process created the connector orders meanwhile") as caught:
            client.create_stopped(CONFIG)
        assert not caught.value.retryable
        assert methods(asked) == ["POST", "GET"]


def test_a_connector_that_was_made_although_the_answer_was_500_is_ours() -> None:
    with connect_that_answers(BROKEN, config=(200, CONFIG)) as (client, asked):
        client.create_stopped(CONFIG)
        assert methods(asked) == ["POST", "GET"]


def test_after_a_500_another_configuration_is_somebody_elses() -> None:
    with (
        connect_that_answers(BROKEN, config=(200, CONFIG | {"slot.name": "other"})) as (client, _),
        pytest.raises(ConnectError, match="another process"),
    ):
        client.create_stopped(CONFIG)


def test_a_rebalance_is_waited_for() -> None:
    with connect_that_answers(REBALANCING, BROKEN, CREATED) as (client, asked):
        client.create_stopped(CONFIG)
        assert methods(asked) == ["POST", "GET", "POST", "GET", "POST"]


def test_a_rebalance_is_not_waited_for_for_ever() -> None:
    with connect_that_answers(REBALANCING, patience_seconds=0.5) as (client, _), pytest.raises(ConnectError) as caught:
        client.create_stopped(CONFIG)
    assert caught.value.retryable


@pytest.mark.parametrize(
    "answer",
    [
        (200, "<html>Welcome</html>"),
        (404, {"detail": "Not Found"}),
        (404, "404 page not found"),
        (404, "<html>\n<head><title>404 Not Found</title></head>\n<body>\n<center><h1>404 Not Found</h1></center>"),
        (404, "<!doctype html>\n<title>404 Not Found</title>\n<h1>Not Found</h1>"),
        (404, ""),
    ],
    ids=["a page", "FastAPI", "Go", "nginx", "Flask", "nothing"],
)
def test_what_is_not_connect_is_said_so(answer: Answer) -> None:
    with (
        connect_that_answers(config=answer) as (client, _),
        pytest.raises(ConnectError, match="is not Kafka Connect") as caught,
    ):
        client.find_config("orders")
    assert not caught.value.retryable


@pytest.mark.parametrize("url", ["http://[x", "http://[::1"])
def test_half_an_address_is_a_config_error(url: str) -> None:
    with pytest.raises(ConfigError, match="is invalid"):
        ConnectClient(url)
