"""What the client makes of answers that a real Connect gives too seldom to wait for."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cdc_outbox.connect import workers
from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.errors import ConfigError, ConnectError

Answer = tuple[int, object]

CONFIG = {"name": "orders", "slot.name": "orders"}
EXISTS = (409, {"error_code": 409, "message": "Connector orders already exists"})
REBALANCING = (409, {"error_code": 409, "message": "stale configuration"})
BROKEN = (500, {"error_code": 500, "message": "IO Error trying to forward REST request"})
NOBODY = (404, {"error_code": 404, "message": "Connector orders not found"})
CREATED: Answer = (201, {})


@contextmanager
def connect_that_answers(*posts: Answer, config: Answer = NOBODY) -> Iterator[tuple[ConnectClient, list[str]]]:
    """Answer each POST with the next of ``posts``, and everything else with ``config``."""
    left, asked = list(posts), []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            asked.append(self.command)
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, content = left.pop(0) if self.command == "POST" else config
            body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - the server's names

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        client = ConnectClient(Cluster(urls=(f"http://127.0.0.1:{server.server_port}",), patience_seconds=0.5))
        try:
            yield client, asked
        finally:
            client.close()
            server.shutdown()
            thread.join()


def test_an_option_that_the_connector_did_not_look_at_is_no_finding() -> None:
    looked_at = {"definition": {}, "value": {"name": "database.hostname", "errors": ["refused"]}}
    answer: Answer = (200, {"configs": [{"definition": {}, "value": None}, looked_at]})
    with connect_that_answers(config=answer) as (client, _):
        found = client.validate({"connector.class": "x", "name": "orders"})
    assert [(finding.place.path, finding.message) for finding in found] == [("database.hostname", "refused")]


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_FIRST_PAUSE_SECONDS", 0.001)


def test_a_connector_that_somebody_else_made_meanwhile_is_not_ours() -> None:
    """Connect says 409 to this as to a rebalance; who loses the race must not wait, nor take it for its own."""
    with connect_that_answers(EXISTS, config=(200, CONFIG)) as (client, asked):
        with pytest.raises(ConnectError, match="somebody else made the connector orders meanwhile") as caught:
            client.create_stopped(CONFIG)
        assert not caught.value.retryable
        assert asked == ["POST", "GET"]


def test_a_connector_that_was_made_although_the_answer_was_500_is_ours() -> None:
    with connect_that_answers(BROKEN, config=(200, CONFIG)) as (client, asked):
        client.create_stopped(CONFIG)
        assert asked == ["POST", "GET"]


def test_after_a_500_another_configuration_is_somebody_elses() -> None:
    with (
        connect_that_answers(BROKEN, config=(200, CONFIG | {"slot.name": "other"})) as (client, _),
        pytest.raises(ConnectError, match="somebody else"),
    ):
        client.create_stopped(CONFIG)


def test_a_rebalance_is_waited_for() -> None:
    with connect_that_answers(REBALANCING, BROKEN, CREATED) as (client, asked):
        client.create_stopped(CONFIG)
        assert asked == ["POST", "GET", "POST", "GET", "POST"]


def test_a_rebalance_is_not_waited_for_for_ever() -> None:
    with connect_that_answers(*[REBALANCING] * 10_000) as (client, _), pytest.raises(ConnectError) as caught:
        client.create_stopped(CONFIG)
    assert caught.value.retryable


def test_what_is_not_connect_is_said_so() -> None:
    with (
        connect_that_answers(config=(200, "<html>Welcome</html>")) as (client, _),
        pytest.raises(ConnectError, match="is not Kafka Connect") as caught,
    ):
        client.find_config("orders")
    assert not caught.value.retryable


@pytest.mark.parametrize("url", ["http://[x", "http://[::1"])
def test_half_an_address_is_a_config_error(url: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        ConnectClient(url)
