"""``/health`` and ``/metrics``, asked over a socket."""

import contextlib
import json
import logging
import re
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests
from prometheus_client import CollectorRegistry

from cdc_outbox import monitoring
from cdc_outbox.consumer import Telemetry
from cdc_outbox.errors import ConfigError
from cdc_outbox.monitoring import HealthLimits, MonitorServer, Progress
from cdc_outbox.monitoring.prometheus import PrometheusMetrics
from tests.support.commands import run_command
from tests.support.patience import patience
from tests.support.rig import eventually

PAGE = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()


class Told:
    """A consumer of which only what it says is there."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.running()

    def running(self, seconds_without_commit: float | None = None) -> None:
        now = time.monotonic()
        self.said = Progress(consumer="shipping", started_at=now, polled_at=now)
        if seconds_without_commit is not None:
            self.said = replace(self.said, waiting_since=now - seconds_without_commit)

    def progress(self) -> Progress:
        if self.error:
            raise self.error
        return self.said


@pytest.fixture(scope="module")
def consumer() -> Told:
    return Told()


@pytest.fixture(scope="module")
def metrics() -> PrometheusMetrics:
    return PrometheusMetrics(CollectorRegistry())


@pytest.fixture(scope="module")
def server(consumer: Told, metrics: PrometheusMetrics) -> Iterator[MonitorServer]:
    with MonitorServer(consumer, metrics=metrics, limits=HealthLimits(stuck_after_seconds=30)) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh(consumer: Told) -> None:
    consumer.error = None
    consumer.running()


def ask(server: MonitorServer, path: str, method: str = "GET", **headers: str) -> requests.Response:
    return requests.request(method, f"http://127.0.0.1:{server.port}{path}", headers=headers, timeout=patience())


def listening() -> int:
    return [thread.name for thread in threading.enumerate()].count("cdc-outbox monitor")


def test_health_is_200_while_it_goes_on_and_503_once_it_is_stuck(server: MonitorServer, consumer: Told) -> None:
    well = ask(server, "/health")
    assert (well.status_code, well.headers["Content-Type"], well.json()["status"]) == (200, "application/json", "ok")
    consumer.running(seconds_without_commit=31)
    stuck = ask(server, "/health?verbose")
    assert (stuck.status_code, stuck.json()["status"]) == (503, "stuck")
    assert stuck.json()["reasons"] == ["messages are available, but nothing was committed for 31 s"]
    consumer.said = replace(consumer.said, waiting_since=None, dead_events=1)
    assert (ask(server, "/health").status_code, ask(server, "/health").json()["status"]) == (200, "degraded")


def test_the_command_exits_with_0_while_there_is_progress_and_with_1_once_it_is_stuck(
    server: MonitorServer, consumer: Told
) -> None:
    def check(path: str = "/health") -> tuple[int, str]:
        # A proxy must not see the request.
        url, proxy = f"http://127.0.0.1:{server.port}{path}", {"http_proxy": "http://127.0.0.1:1"}
        done = run_command("monitor", "health", url, env=proxy)
        return done.returncode, done.stdout

    code, text = check()
    assert (code, json.loads(text)["status"]) == (0, "ok")
    consumer.running(seconds_without_commit=31)
    code, text = check()
    assert (code, json.loads(text)["status"]) == (1, "stuck")
    consumer.said = replace(consumer.said, waiting_since=None, dead_events=1)
    code, text = check()
    assert (code, json.loads(text)["status"]) == (0, "degraded")
    assert check("/nothing")[0] == 1


def test_the_command_exits_with_75_if_no_answer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc_outbox.cli.monitor._SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = run_command("monitor", "health", f"http://127.0.0.1:{silent.getsockname()[1]}/health")
    assert (done.returncode, done.stderr) == (75, "error: no answer: timed out\n")


def test_metrics_are_what_was_told_in_the_format_that_was_asked_for(
    server: MonitorServer, metrics: PrometheusMetrics
) -> None:
    metrics.set("cdc_outbox_consumer_assigned_partitions", 3, consumer="shipping")
    line = 'cdc_outbox_consumer_assigned_partitions{consumer="shipping"} 3.0'
    plain = ask(server, "/metrics")
    assert plain.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert line in plain.text.splitlines()
    newer = ask(server, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert newer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert newer.text.endswith("# EOF\n")


def test_what_is_not_there_says_what_is(server: MonitorServer) -> None:
    missing = ask(server, "/")
    assert (missing.status_code, missing.text) == (404, "only /health and /metrics exist\n")


def test_without_metrics_there_is_only_health(consumer: Told) -> None:
    with MonitorServer(consumer) as alone:
        assert ask(alone, "/health").status_code == 200
        assert ask(alone, "/metrics").text.startswith("only /health exists, and /metrics if the consumer has ")


def test_it_may_be_asked_for_the_head_alone_and_for_nothing_that_changes(server: MonitorServer) -> None:
    head = ask(server, "/health", "HEAD")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["Content-Length"]) > 0
    assert ask(server, "/health", "POST").status_code == 501


def test_a_consumer_that_cannot_tell_is_not_well(server: MonitorServer, consumer: Told) -> None:
    consumer.error = ValueError("hunter2")
    answer = ask(server, "/health")
    assert (answer.status_code, answer.text) == (500, "ValueError\n")


def test_a_client_that_says_nothing_keeps_nobody_waiting(server: MonitorServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=patience()):
        assert ask(server, "/health").status_code == 200


def test_clients_that_say_a_byte_now_and_then_are_few_and_soon_ended(
    consumer: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_outbox.monitoring.server._CONNECTION_SECONDS", 1.0)
    before = threading.active_count()
    with MonitorServer(consumer) as server, ExitStack() as stack:
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", server.port))) for _ in range(40)]

        def answers() -> bool:
            for client in slow:
                with contextlib.suppress(OSError):
                    client.send(b"G")
            assert threading.active_count() <= before + 1 + 8
            try:
                return requests.get(f"http://127.0.0.1:{server.port}/health", timeout=patience()).ok
            except requests.ConnectionError:  # there are too many
                return False

        eventually(answers, "the slow clients to be ended")


def test_a_request_without_an_end_is_refused(server: MonitorServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=patience()) as client:
        client.sendall(b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 2000)
        assert b" 431 " in client.recv(100)


def test_a_client_that_hangs_up_leaves_no_traceback(
    server: MonitorServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG, "cdc_outbox.monitoring.server")
    with socket.create_connection(("127.0.0.1", server.port), timeout=patience()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with a reset
        client.sendall(b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 50)
    eventually(lambda: "connection failed" in caplog.text, "the connection's end")
    assert "Traceback" not in capfd.readouterr().err


def test_an_address_that_is_taken_is_named(server: MonitorServer, consumer: Told) -> None:
    for host, port, reason in (
        ("127.0.0.1", server.port, "Address already in use"),
        ("127.0.0.1", 99_999, "invalid port"),
        ("203.0.113.1", 0, "Cannot assign requested address"),
    ):
        with pytest.raises(ConfigError, match=rf"cannot listen on {host}:{port}: {reason}"):
            MonitorServer(consumer, host=host, port=port)


def test_its_end_is_the_end_of_its_thread_and_of_its_port(consumer: Told) -> None:
    before = listening()
    server = MonitorServer(consumer)
    assert listening() == before + 1
    server.close()
    server.close()
    assert listening() == before
    with pytest.raises(requests.ConnectionError):
        ask(server, "/health")
    with MonitorServer(consumer, port=server.port) as again:
        assert again.port == server.port


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_it_listens_where_it_is_told_to(consumer: Told) -> None:
    try:
        server = MonitorServer(consumer, host="::1")
    except ConfigError:
        pytest.skip("this machine has no IPv6 address of its own")
    with server:
        url = f"http://[::1]:{server.port}/health"
        assert requests.get(url, timeout=patience()).status_code == 200


def test_the_code_that_the_page_shows_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[requests.Response] = []

    class Consumer(Told):
        def __init__(self, telemetry: Telemetry) -> None:
            super().__init__()
            self.metrics = telemetry.metrics

        def run(self) -> None:
            self.metrics.set("cdc_outbox_consumer_assigned_partitions", 3, consumer="shipping")
            answers.extend(ask(servers[0], path) for path in ("/health", "/metrics"))

    servers: list[MonitorServer] = []

    class Listening(MonitorServer):
        def __init__(self, consumer: Any, *, port: int, **arguments: Any) -> None:
            assert port == 9464
            super().__init__(consumer, **arguments)  # on a free one: tests run side by side
            servers.append(self)

    monkeypatch.setattr(monitoring, "MonitorServer", Listening)
    names: dict[str, Any] = {"make_consumer": Consumer}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        exec(block, names)  # noqa: S102 - the documentation's own
    health, metrics = answers
    assert (health.status_code, health.json()["status"]) == (200, "ok")
    assert 'cdc_outbox_consumer_assigned_partitions{consumer="shipping"} 3.0' in metrics.text.splitlines()
    assert type(names["consumer"].metrics).__name__ == "OpenTelemetryMetrics"
