"""The Connect REST API: one method an endpoint, one error a kind of refusal."""

import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import requests

from cdc_outbox.errors import (
    ConfigError,
    ConnectError,
    ConnectorInvalidError,
    ConnectorNotFoundError,
    ConnectUnavailableError,
    RebalanceError,
)
from cdc_outbox.finding import Finding, Place, Severity

_TIMEOUT_SECONDS = (5.0, 60.0)
"""To connect, and to wait for an answer: a validation opens a database connection, which may take its time."""
_PATIENCE_SECONDS = 30.0
"""How long a worker is asked again that is rebalancing (409) or forwards to a leader that is gone (500); both pass
within seconds."""
_PAUSE_SECONDS = 0.5
_CONFLICT = 409
_LOGIN_REFUSED = (
    "Give the role the password that database.password leads to; a variable is the worker's, as it was at its start."
)


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task's state as Connect reports it, with the stack trace of its last failure."""

    id: int
    state: str
    trace: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """A connector's state and its tasks'; a connector may be RUNNING with a failed task, or with none at all."""

    state: str
    tasks: tuple[TaskStatus, ...]
    trace: str = ""
    version: str = ""


class ConnectClient:
    """Talk to a Connect cluster through any of its workers.

    Args:
        url: For example ``http://localhost:8083``; credentials in it are refused.
    """

    def __init__(self, url: str) -> None:
        try:
            parts = urlsplit(url)
        except ValueError as error:  # such as half an IPv6 address
            raise ConfigError("the Connect URL cannot be read", field="connect_url") from error
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            # Not quoted: what is no URL may be credentials and a host without a scheme.
            raise ConfigError("the Connect URL is not an http:// or https:// URL", field="connect_url")
        if parts.username or parts.password:
            raise ConfigError("the Connect URL must not carry credentials", field="connect_url")
        self.url = url.rstrip("/")
        self._session = requests.Session()

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def find_config(self, name: str) -> dict[str, str] | None:
        """Return a connector's configuration with its references unresolved, ``None`` if there is no such connector."""
        try:
            config: dict[str, str] = self._ask("GET", f"/connectors/{_segment(name)}/config")
        except ConnectorNotFoundError:
            return None
        return config

    def find_names(self) -> list[str]:
        """Return the names of all connectors, sorted."""
        return sorted(self._ask("GET", "/connectors"))

    def find_status(self, name: str) -> ConnectorStatus:
        """Return what a connector and its tasks do; right after a change Connect may not know yet (not found)."""
        answer = self._ask("GET", f"/connectors/{_segment(name)}/status")
        connector = answer["connector"]
        tasks = tuple(TaskStatus(task["id"], task["state"], task.get("trace", "")) for task in answer["tasks"])
        return ConnectorStatus(connector["state"], tasks, connector.get("trace", ""), connector.get("version", ""))

    def find_offsets(self, name: str) -> list[dict[str, Any]]:
        """Return the offsets stored under a connector's name: ``[{"partition": …, "offset": …}]``."""
        offsets: list[dict[str, Any]] = self._ask("GET", f"/connectors/{_segment(name)}/offsets")["offsets"]
        return offsets

    def validate(self, config: dict[str, str]) -> tuple[Finding, ...]:
        """Let Connect and the connector check a configuration; Debezium logs into the database for it."""
        plugin = _segment(config["connector.class"])
        answer = self._ask("PUT", f"/connector-plugins/{plugin}/config/validate", config)
        return tuple(
            Finding(
                code="CC001",
                severity=Severity.ERROR,
                place=Place(document="connect", path=option["value"]["name"]),
                message=" ".join(message.split()),
                remedy=_LOGIN_REFUSED if "password authentication failed" in message else "",
            )
            for option in answer["configs"]
            # What a connector declares and then does not look at has none.
            if option["value"] is not None
            for message in option["value"]["errors"]
        )

    def create_stopped(self, config: dict[str, str]) -> None:
        """Create a connector that does not run yet, so that its stored offsets can be looked at.

        Raises:
            ConnectError: With status 409: somebody else made a connector of this name meanwhile.
        """
        name = config["name"]
        settings = {key: value for key, value in config.items() if key != "name"}
        body = {"name": name, "config": settings, "initial_state": "STOPPED"}
        deadline, may_be_ours = time.monotonic() + _PATIENCE_SECONDS, False
        while True:
            try:
                self._ask_once("POST", "/connectors", body)
            except ConnectError as error:
                if not error.retryable or error.status is None:
                    raise
                # A 409 says "rebalancing" and "already exists" alike, and after a 500 what exists may be our own.
                may_be_ours = may_be_ours or error.status != _CONFLICT
                found = self.find_config(name)
                if found is not None and not (may_be_ours and found == config):
                    raise _made_by_another(name, error) from error
                if found is None and time.monotonic() >= deadline:
                    raise
                if found is not None:
                    return
            else:
                return
            time.sleep(_PAUSE_SECONDS)

    def put_config(self, config: dict[str, str]) -> None:
        """Make a connector's configuration be this one; it keeps its state, and restarts if it runs."""
        self._ask("PUT", f"/connectors/{_segment(config['name'])}/config", config)

    def delete(self, name: str) -> None:
        """Delete a connector; the offsets stored under its name stay."""
        self._ask("DELETE", f"/connectors/{_segment(name)}")

    def stop(self, name: str) -> None:
        """Ask a connector to stop and to give up its tasks; it takes a moment."""
        self._ask("PUT", f"/connectors/{_segment(name)}/stop")

    def pause(self, name: str) -> None:
        """Ask a connector to pause; its tasks stay."""
        self._ask("PUT", f"/connectors/{_segment(name)}/pause")

    def resume(self, name: str) -> None:
        """Ask a stopped or paused connector to run."""
        self._ask("PUT", f"/connectors/{_segment(name)}/resume")

    def restart_failed(self, name: str) -> None:
        """Restart the connector and its tasks where they failed."""
        self._ask("POST", f"/connectors/{_segment(name)}/restart?includeTasks=true&onlyFailed=true")

    def reset_offsets(self, name: str) -> None:
        """Forget the offsets stored under a stopped connector's name."""
        self._ask("DELETE", f"/connectors/{_segment(name)}/offsets")

    def _ask(self, method: str, path: str, body: Any = None) -> Any:  # noqa: ANN401 - JSON
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return self._ask_once(method, path, body)
            except ConnectError as error:
                # No answer at all is the caller's to wait for: the worker may be down for good.
                if not error.retryable or error.status is None or time.monotonic() >= deadline:
                    raise
                time.sleep(_PAUSE_SECONDS)

    def _ask_once(self, method: str, path: str, body: Any) -> Any:  # noqa: ANN401 - JSON
        url = self.url + path
        try:
            answer = self._session.request(method, url, json=body, timeout=_TIMEOUT_SECONDS, allow_redirects=False)
        except requests.RequestException as error:
            raise ConnectUnavailableError(
                f"no Kafka Connect worker answers at {self.url} ({type(error).__name__})", url=url
            ) from error
        if answer.ok and not answer.is_redirect:
            return _content(answer, url)
        raise _refusal(answer, url)


def _made_by_another(name: str, error: ConnectError) -> ConnectError:
    return ConnectError(
        f"somebody else made the connector {name} meanwhile",
        status=error.status,
        url=error.url,
        hint="If another deployment is under way, wait for it and run the command again.",
    )


def _content(answer: requests.Response, url: str) -> Any:  # noqa: ANN401 - JSON
    if not answer.content:
        return None
    try:
        return answer.json()
    except ValueError as error:
        raise ConnectError(
            f"what answers at {url} is not Kafka Connect",
            status=answer.status_code,
            url=url,
            hint="Check that the URL is the Connect worker's own: host, port, and no proxy or login page before it.",
        ) from error


def _refusal(answer: requests.Response, url: str) -> ConnectError:
    status, reason = answer.status_code, _reason(answer)
    match status:
        case 404 if reason:
            return ConnectorNotFoundError(reason, status=status, url=url)
        case 404:
            # Before a worker has joined its cluster, every path is "not found", in HTML.
            return ConnectUnavailableError(f"the worker at {url} is still starting", status=status, url=url)
        case _ if status == _CONFLICT:
            return RebalanceError(reason or "the Connect cluster is rebalancing", status=status, url=url)
        case 400 | 422:
            return ConnectorInvalidError(reason or f"Connect answered {status} at {url}")
        case _ if status >= 500:
            return ConnectUnavailableError(f"Connect answered {status} at {url}: {reason}", status=status, url=url)
        case _:
            return ConnectError(f"Connect answered {status} at {url}: {reason}", status=status, url=url)


def _reason(answer: requests.Response) -> str:
    """Return Connect's own words, empty where the answer is not Connect's."""
    try:
        return " ".join(str(answer.json()["message"]).split())
    except (ValueError, KeyError, TypeError):
        return ""


def _segment(text: str) -> str:
    """Return a text as one segment of a path, slashes included."""
    return quote(text, safe="")
