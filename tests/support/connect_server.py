"""Something that answers where Connect is expected, as it is told to."""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import requests

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.connect.cluster import Cluster
from tests.support.patience import patience
from tests.support.threads import Threads
from tests.support.timings import QUICK_TIMINGS

Answer = tuple[int, object]

REBALANCING: Answer = (409, {"error_code": 409, "message": "stale configuration"})
BROKEN: Answer = (500, {"error_code": 500, "message": "IO Error trying to forward REST request"})
NOBODY: Answer = (404, {"error_code": 404, "message": "Connector orders not found"})
STARTING: Answer = (404, "<html>\n<body>\n<h2>HTTP ERROR 404 Not Found</h2>\n</body>\n</html>")


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


RESET = object()
"""An answer that does not come: the connection is closed under the request."""


@contextmanager
def answering(
    answer: Callable[[Asked], Answer | object], *, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[Asked]]]:
    """Answer every request so; give the URL, and the list of what was asked."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Asked(self.command, self.path, dict(self.headers), json.loads(body) if body else None)
            asked.append(request)
            told = answer(request)
            if not isinstance(told, tuple):
                self.close_connection = True
                return
            status, content = told
            octets = content.encode() if isinstance(content, str) else json.dumps(content).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"http://127.0.0.1:{server.server_port}/elsewhere")
            self.send_header("Content-Length", str(len(octets)))
            with suppress(ConnectionError):  # who asked did not wait
                self.end_headers()
                self.wfile.write(octets)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = _answer  # noqa: N815 - the server's names

        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        with Threads() as threads:
            threads.submit(server.serve_forever, poll_interval=0.01)
            try:
                yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}", asked
            finally:
                server.shutdown()


@contextmanager
def trickling(octets: bytes, pause_seconds: float) -> Iterator[str]:
    """Answer the first request so, a byte at a time; give the URL."""
    over = threading.Event()

    def send() -> None:
        with suppress(OSError), listener.accept()[0] as connection:  # who asked may have waited no longer
            connection.recv(65536)
            for octet in octets:
                connection.sendall(bytes([octet]))
                if over.wait(pause_seconds):
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener, Threads() as threads:
        threads.submit(send)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            over.set()


def each(*answers: Answer | object) -> Callable[[Asked], Answer | object]:
    """Give these answers in turn, the last one for good."""
    left = list(answers)
    return lambda _asked: left.pop(0) if len(left) > 1 else left[0]


def forward(url: str, asked: Asked) -> Answer:
    """Ask the real Connect, and answer as it does."""
    login = {name: value for name, value in asked.headers.items() if name == "Authorization"}
    answer = requests.request(asked.method, url + asked.path, json=asked.body, headers=login, timeout=patience())
    return answer.status_code, answer.text


@contextmanager
def passing_on(url: str, fault: Callable[[Asked], Answer | object | None]) -> Iterator[tuple[str, list[Asked]]]:
    """Stand before a real Connect, and answer in its place where ``fault`` has an answer."""

    def answer(asked: Asked) -> Answer | object:
        told = fault(asked)
        return forward(url, asked) if told is None else told

    with answering(answer) as found:
        yield found


@contextmanager
def connect_that_answers(
    *posts: Answer, config: Answer = NOBODY, patience_seconds: float = 60
) -> Iterator[tuple[ConnectClient, list[Asked]]]:
    """Answer each POST with the next of ``posts``, the last for good, and everything else with ``config``."""
    next_post = each(*posts)
    with answering(lambda asked: next_post(asked) if asked.method == "POST" else config) as (url, asked):
        client = ConnectClient(Cluster(urls=(url,), patience_seconds=patience_seconds, timings=QUICK_TIMINGS))
        try:
            yield client, asked
        finally:
            client.close()
