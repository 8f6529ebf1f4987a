"""An HTTP session whose answers have a bounded time and size, and that takes nothing from the environment."""

import time
from http.client import HTTPResponse
from io import BufferedReader, RawIOBase
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import ReadTimeoutError

MAX_BYTES = 64 * 1024 * 1024
"""Of an answer: a thousand connectors with their configurations and traces have a tenth of it."""
_PORTION = 64 * 1024


class AnswerTooLargeError(requests.RequestException):
    """An answer has more than :data:`MAX_BYTES`."""


def open_session(proxy: str | None = None) -> requests.Session:
    """Return a session that takes neither proxies, certificates nor logins from the environment.

    Args:
        proxy: The URL of an HTTP proxy for every request; ``None`` for none.
    """
    session = requests.Session()
    session.trust_env = False
    session.proxies = {} if proxy is None else {"http": proxy, "https": proxy}
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter())
    return session


def read_answer(answer: requests.Response) -> bytes:
    """Return the content of an answer that was asked for with ``stream=True``, and end with it.

    Raises:
        AnswerTooLargeError: It has more than :data:`MAX_BYTES`.
        requests.ReadTimeout: It was not complete within the timeout of its request.
        requests.RequestException: The connection broke off.
    """
    portions, size = [], 0
    with answer:
        try:
            for portion in answer.iter_content(_PORTION):
                size += len(portion)
                if size > MAX_BYTES:
                    raise AnswerTooLargeError
                portions.append(portion)
        except requests.ConnectionError as error:
            if error.args and isinstance(error.args[0], ReadTimeoutError):
                raise requests.ReadTimeout(*error.args) from error
            raise
    return b"".join(portions)


class _TimedReader(RawIOBase):
    """What a socket receives, until as much time is over as the socket has for one portion.

    A timeout of the socket restarts with every byte: a server that sends one now and then is never late.
    """

    def __init__(self, raw: RawIOBase, socket: Any) -> None:  # noqa: ANN401 - a socket, or TLS within TLS
        self._raw, self._socket = raw, socket
        seconds = socket.gettimeout()
        self._deadline = None if seconds is None else time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:  # noqa: ANN401 - any buffer
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._socket.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedResponse(HTTPResponse):
    def __init__(self, sock: Any, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - as the library calls it
        super().__init__(sock, *arguments, **options)
        self.fp = BufferedReader(_TimedReader(self.fp.detach(), sock))


class _Connection(HTTPConnection):
    response_class = _TimedResponse


class _TlsConnection(HTTPSConnection):
    response_class = _TimedResponse


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}

    def proxy_manager_for(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as the library calls it
        manager = super().proxy_manager_for(*arguments, **options)
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}
        return manager
