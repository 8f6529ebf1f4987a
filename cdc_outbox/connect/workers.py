"""What Connect's workers are asked by HTTP: any of them may answer, and what passes is waited for."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from http.client import IncompleteRead

import requests
from requests.auth import AuthBase

from cdc_outbox.connect.answers import is_answer
from cdc_outbox.connect.cluster import Cluster
from cdc_outbox.connect.http import AnswerTooLargeError, open_session, read_answer
from cdc_outbox.connect.timings import Timings
from cdc_outbox.debezium.diagnosis import diagnosis_of
from cdc_outbox.errors import (
    ConnectError,
    ConnectorInvalidError,
    ConnectorNotFoundError,
    ConnectUnavailableError,
    RebalanceError,
)
from cdc_outbox.redaction import SecretRedactor
from cdc_outbox.text_files.document import JsonValue

CONFLICT = 409
_JETTY = b"HTTP ERROR 404"
"""In the page of Connect's web server, which has no path before the worker has joined its cluster."""
_BUSY = 429
_STALLED = (
    "A worker does not answer while it cannot reach its brokers, or the database that validates a configuration. "
    "Check that these run, and check the worker's log."
)
_BROKEN_OFF = "Check that the worker still runs, and check any proxy or load balancer in front of it."
_NOT_CONNECT = (
    "Check that the URL is that of the Connect worker: host, port, and no proxy or login page in front of it."
)
_LOGIN = (
    "Give a login that Connect accepts: in the context (basic or bearer), in CDC_OUTBOX_CONNECT_LOGIN together with "
    "CDC_OUTBOX_CONNECT_URL, or with --connect-login-file (see docs/deploying.md)."
)
_REDIRECT = "Redirects are not followed, because a login would be sent along. If the new URL is correct, give it."
_CERTIFICATE = "Give the CA that signed the workers' certificates in the context (tls.ca) (see docs/deploying.md)."


class Workers:
    """The workers of one cluster. What answered last is asked first.

    Args:
        waits: Called once for each request that has to wait, with what it waits for.
        redactor: Over what Connect says.
    """

    def __init__(self, cluster: Cluster, waits: Callable[[str], None], redactor: SecretRedactor) -> None:
        self.cluster = cluster
        self._redactor = redactor
        self._waits = waits
        self._urls = list(cluster.urls)
        self._session = open_session(cluster.proxy)
        self._login = _Login(cluster.login.header if cluster.login is not None else None)

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def ask(self, method: str, path: str, body: object = None) -> JsonValue:
        """Return the answer; what passes by itself is waited for, as long as the cluster's patience goes.

        Raises:
            ConnectError: Refused, or the patience is at its end.
        """
        wait = self.patience()
        while True:
            try:
                return self.ask_once(method, path, body)
            except ConnectError as error:
                wait(error)

    def patience(self) -> Callable[[ConnectError], None]:
        """Return a function that waits before one request is repeated, and raises once a repetition cannot help."""
        left, said = self.cluster.timings.backoff.within(self.cluster.patience, time.monotonic), set[str]()

        def wait(error: ConnectError) -> None:
            pause = next(left, None) if error.retryable else None
            if pause is None:
                raise error
            if not said:
                said.add(str(error))
                self._waits(str(error))
            time.sleep(pause)

        return wait

    def ask_once(self, method: str, path: str, body: object = None) -> JsonValue:
        """Return the answer of the first worker that gives one; what must not be done twice is asked of one alone.

        Raises:
            ConnectError: That of the first worker that refused, or of the last if none can be reached.
        """
        asked = 0
        while True:
            asked += 1
            try:
                return self._ask_worker(self._urls[0], method, path, body)
            except ConnectUnavailableError:
                # The next one may answer; this one is asked last from now on.
                self._urls.append(self._urls.pop(0))
                if asked == len(self._urls) or method == "POST":
                    raise

    def ask_first(self, method: str, path: str, body: object, *, seconds: float) -> JsonValue:
        """Return the answer of one worker, which may take at most so long.

        Raises:
            ConnectError: It refused, or has not answered.
        """
        hurried = replace(self.cluster.timings, answer_seconds=min(seconds, self.cluster.timings.answer_seconds))
        return self._ask_worker(self._urls[0], method, path, body, hurried)

    def _ask_worker(
        self, worker: str, method: str, path: str, body: object, timings: Timings | None = None
    ) -> JsonValue:
        url, tls, timings = worker + path, self.cluster.tls, timings or self.cluster.timings
        try:
            answer = self._session.request(
                method,
                url,
                json=body,
                timeout=(timings.reach_seconds, timings.answer_seconds),
                allow_redirects=False,
                stream=True,
                auth=self._login,
                verify=str(tls.ca) if tls.ca is not None else True,
                cert=_own_certificate(self.cluster),
            )
            content = read_answer(answer)
        except requests.RequestException as error:
            raise _silence(error, worker, url, timings) from error
        except OSError as error:  # a file of certificates that cannot be used
            raise ConnectError(
                f"the certificates for {worker} cannot be used ({type(error).__name__})", url=url, hint=_CERTIFICATE
            ) from error
        if 200 <= answer.status_code < 300:
            parsed = _parsed(content, answer.status_code, url)
            if not is_answer(method, path, parsed):
                raise _stranger(answer.status_code, url)
            return parsed
        raise _refusal(answer.status_code, self._redactor.over(_reason(content)), url, is_jetty=_JETTY in content)


@dataclass(frozen=True)
class _Login(AuthBase):
    header: str | None

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self.header is not None:
            request.headers["Authorization"] = self.header
        return request


def _own_certificate(cluster: Cluster) -> str | tuple[str, str] | None:
    certificate, key = cluster.tls.certificate, cluster.tls.key
    if certificate is None:
        return None
    return str(certificate) if key is None else (str(certificate), str(key))


def _silence(error: requests.RequestException, worker: str, url: str, timings: Timings) -> ConnectError:
    """Return what it means that there was no answer; never in the words of the error, which may quote a header."""
    match error:
        case requests.exceptions.SSLError():
            message = f"cannot connect securely to {worker}: this side or the worker refused the certificate"
            return ConnectError(message, url=url, hint=_CERTIFICATE)
        case AnswerTooLargeError():
            message = f"{worker} sent more data than Kafka Connect does"
            return ConnectError(message, url=url, hint=_NOT_CONNECT)
        case requests.ReadTimeout():
            seconds = timings.answer_seconds
            message = f"the worker at {worker} accepted a request but did not answer within {seconds:g} s"
            return ConnectUnavailableError(message, url=url, hint=_STALLED)
    if _broke_off(error):
        message = f"the connection to the worker at {worker} broke before it answered"
        return ConnectUnavailableError(message, url=url, hint=_BROKEN_OFF)
    return ConnectUnavailableError(f"no Kafka Connect worker answers at {worker} ({type(error).__name__})", url=url)


def _broke_off(error: BaseException | None) -> bool:
    """Return whether there was a connection, and it ended under the request."""
    ends = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError, IncompleteRead)
    return error is not None and (isinstance(error, ends) or _broke_off(error.__context__))


def _parsed(content: bytes, status: int, url: str) -> JsonValue:
    if not content:
        return None
    try:
        parsed = json.loads(content)
        # Java writes no half of a character, and no file or terminal takes one.
        json.dumps(parsed, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise _stranger(status, url) from error
    return parsed


def _stranger(status: int, url: str) -> ConnectError:
    return ConnectError(f"{url} is not Kafka Connect", status=status, url=url, hint=_NOT_CONNECT)


def _refusal(status: int, reason: str, url: str, *, is_jetty: bool) -> ConnectError:
    said = f"Connect answered {status} at {url}{f': {reason}' if reason else ''}"
    if status == CONFLICT:
        return RebalanceError(reason or "the Connect cluster is rebalancing", status=status, url=url)
    if status in {400, 422}:
        return ConnectorInvalidError(reason or said)
    if status == 404 and reason:
        return ConnectorNotFoundError(reason, status=status, url=url)
    if status == 404:
        starting = ConnectUnavailableError(f"the worker at {url} is still starting", status=status, url=url)
        return starting if is_jetty else _stranger(status, url)
    hint: str | None = None
    if status >= 500 or status == _BUSY:
        cause = diagnosis_of(reason)
        if cause is not None:
            said, hint = f"{said}. {cause.sentence}", cause.remedy
        return ConnectUnavailableError(said, status=status, url=url, hint=hint)
    redirects = 300 <= status < 400
    hint = _LOGIN if status in {401, 403} else _REDIRECT if redirects else None
    return ConnectError(f"{said}, a redirect" if redirects else said, status=status, url=url, hint=hint)


def _reason(content: bytes) -> str:
    """Return Connect's own words, empty where the answer is not Connect's."""
    try:
        return " ".join(str(json.loads(content)["message"]).split())
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
