"""``/health`` and ``/metrics`` of a process, over HTTP."""

import contextlib
import json
import logging
import socket
import threading
import time
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from socketserver import TCPServer, ThreadingMixIn
from types import TracebackType
from typing import Any, Protocol, Self

from cdc_outbox.errors import ConfigError
from cdc_outbox.monitoring.health import HealthLimits, HealthStatus, health_of
from cdc_outbox.telemetry import Monitored

_log = logging.getLogger(__name__)

_BOTH = "only /health and /metrics exist\n"
_NO_METRICS = "only /health exists, and /metrics if the consumer has Telemetry(metrics=PrometheusMetrics())\n"
_CONNECTION_SECONDS = 5.0
"""How long a client may take to send its request and to receive the answer; a scraper sends it at once."""
_CONNECTIONS = 8
"""How many are served at a time; those beyond are closed."""
_REQUEST_BYTES = 8192
"""How long a request may be, with its headers."""


class Exposition(Protocol):
    """An object that returns metrics in a scrape's format, such as ``PrometheusMetrics``."""

    def exposition(self, accept: str = "") -> tuple[str, bytes]:
        """Return the content type and the text, for a header ``Accept``."""


class MonitorServer:
    """Serve ``/health`` and ``/metrics`` from its own threads while a consumer or a relay runs.

    ::

        with MonitorServer(consumer, metrics=metrics, port=9464):
            consumer.run()

    ``/health`` is 200 for a healthy one and 503 for a stuck one; its JSON has the reasons. There is no
    authentication; the answers contain names, counts and times, and no payloads. Eight connections are served at a
    time, each for at most five seconds.

    Args:
        consumer: The consumer or relay whose progress is reported.
        metrics: What ``/metrics`` shows; without it there is none.
        host: 127.0.0.1 is reachable from this machine only; ``0.0.0.0`` and ``::`` from every machine that can reach
            it.
        port: 0 takes a free port, which :attr:`port` returns.
        limits: From when on it is stuck.

    Raises:
        ConfigError: The address is not available.
    """

    def __init__(
        self,
        consumer: Monitored,
        *,
        metrics: Exposition | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        limits: HealthLimits | None = None,
    ) -> None:
        self._consumer = consumer
        self._metrics = metrics
        self._limits = limits or HealthLimits()
        try:
            self._server = _Server(host, port, self)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "invalid port"
            raise ConfigError(f"cannot listen on {host}:{port}: {reason}", field="MonitorServer.port") from error
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="cdc-outbox monitor", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the server; repeated calls have no effect."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def answer(self, path: str, accept: str) -> tuple[int, str, bytes]:
        """Return the status, the content type and the content for a path."""
        if path == "/health":
            return self._health()
        if path == "/metrics" and self._metrics is not None:
            return 200, *self._metrics.exposition(accept)
        return 404, "text/plain; charset=utf-8", (_NO_METRICS if self._metrics is None else _BOTH).encode()

    def _health(self) -> tuple[int, str, bytes]:
        progress, now = self._consumer.progress(), time.monotonic()
        health = health_of(progress, now=now, limits=self._limits)
        status = 503 if health.status is HealthStatus.STUCK else 200
        return status, "application/json", json.dumps(health.as_json(progress, now=now)).encode() + b"\n"


class _Server(ThreadingMixIn, TCPServer):
    """Not the library's HTTPServer, which asks a name server for this machine's name."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 32

    def __init__(self, host: str, port: int, monitor: MonitorServer) -> None:
        self.monitor = monitor
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._free = threading.BoundedSemaphore(_CONNECTIONS)
        self._since: dict[socket.socket, float] = {}
        super().__init__((host, port), _Request)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - the library's
        """Serve a connection, unless there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._since[request] = time.monotonic()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Serve it to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._since.pop(request, None)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - the library's
        """Log why a connection failed; the library prints a traceback for every client that hangs up."""
        _log.debug("monitor's connection failed", exc_info=True)

    def service_actions(self) -> None:
        """End the connections that take too long, byte by byte; the library calls this twice a second."""
        late = time.monotonic() - _CONNECTION_SECONDS
        for request, since in self._since.copy().items():
            if since < late:
                with contextlib.suppress(OSError):  # it has ended by now
                    request.shutdown(socket.SHUT_RDWR)


class _Bounded:
    """The lines of a request, as far as it may be long."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file, self._left = file, _REQUEST_BYTES

    def readline(self, size: int) -> bytes:
        """Return the next line.

        Raises:
            LineTooLong: The request is too long; the library answers with 431.
        """
        if self._left <= 0:
            raise LineTooLong("request")
        line = self._file.readline(min(size, self._left))
        self._left -= len(line)
        return line

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _Request(BaseHTTPRequestHandler):
    server: _Server
    timeout = _CONNECTION_SECONDS
    server_version, sys_version = "cdc-outbox", ""

    def setup(self) -> None:
        super().setup()
        self.rfile = _Bounded(self.rfile)  # type: ignore[assignment] # as much of a file as the library needs

    def do_GET(self) -> None:
        try:
            status, content_type, content = self.server.monitor.answer(
                self.path.partition("?")[0], self.headers.get("Accept", "")
            )
        except Exception as error:  # noqa: BLE001 - who asks has to hear that it fails
            _log.exception("monitor cannot answer", extra={"path": self.path})
            status, content_type, content = 500, "text/plain; charset=utf-8", f"{type(error).__name__}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(ConnectionError):  # who asked did not wait
                self.wfile.write(content)

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        _log.debug("monitor got a request", extra={"request": format % args})
