"""The Connect REST API: one method an endpoint, one error a kind of refusal."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from cdc_outbox.connect.cluster import Cluster, ManagedBy
from cdc_outbox.connect.workers import CONFLICT, Workers
from cdc_outbox.debezium.diagnosis import diagnosis_of
from cdc_outbox.errors import ConnectError, ConnectorNotFoundError
from cdc_outbox.finding import Finding, Location, Severity
from cdc_outbox.redaction import SecretRedactor

_PODS = re.compile(r"(?P<cluster>.+)-connect-\d+\.(?P=cluster)-connect\.[^.]+\.svc(:\d+)?")
"""What Strimzi calls the workers of a KafkaConnect, and these each other."""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """One task's state as Connect reports it, with the stack trace of its last failure, and who runs it: host:port."""

    id: int
    state: str
    trace: str = ""
    worker: str = ""


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """A connector's state and its tasks'; a connector may be RUNNING with a failed task, or with none at all."""

    state: str
    tasks: tuple[TaskStatus, ...]
    trace: str = ""
    version: str = ""

    @property
    def is_halted(self) -> bool:
        """Whether it is stopped or paused."""
        return self.state in {"STOPPED", "PAUSED"}


class ConnectClient:
    """Talk to a Connect cluster through any of its workers.

    Args:
        cluster: Or the URL of its only worker.
        waits: Called once a request, with what it waits for.
    """

    def __init__(self, cluster: Cluster | str, *, waits: Callable[[str], None] = lambda _what: None) -> None:
        self.cluster = Cluster(urls=(cluster,)) if isinstance(cluster, str) else cluster
        self._redactor = SecretRedactor()
        if self.cluster.login is not None:
            self._redactor.remember(*self.cluster.login.secrets)
        self._workers = Workers(self.cluster, waits, self._redactor)
        self._ask = self._workers.ask

    def close(self) -> None:
        """Close the connections."""
        self._workers.close()

    def refuse_ill_worker(self) -> None:
        """Wait for a worker that is starting, and refuse one that cannot do its work, such as without its brokers.

        Raises:
            ConnectUnavailableError: It says so itself; a worker before Kafka 3.9 says nothing.
        """
        with suppress(ConnectorNotFoundError):
            self._ask("GET", "/health")

    def refuse_kept(self) -> None:
        """Refuse a cluster whose connectors an operator keeps as its resources say: it would undo what is written.

        Without ``managed_by``, the names of workers that run connectors are checked; where none runs, none is seen.

        Raises:
            ConnectError: It is kept so.
        """
        self._refuse_declared()
        if self.cluster.managed_by is not None:
            return
        for worker in self._find_workers():
            if found := _PODS.fullmatch(worker):
                raise _kept(f"the worker {worker} is a pod of Strimzi's KafkaConnect {found['cluster']}")

    def find_config(self, name: str) -> dict[str, str] | None:
        """Return a connector's configuration with its references unresolved, ``None`` if there is no such connector."""
        try:
            config: dict[str, str] = self._ask("GET", f"/connectors/{_segment(name)}/config")
        except ConnectorNotFoundError:
            return None
        self._redactor.remember_options(config)
        return config

    def find_names(self) -> list[str]:
        """Return the names of all connectors, sorted."""
        return sorted(self._ask("GET", "/connectors"))

    def find_configs(self) -> dict[str, Any]:
        """Return all connectors, as Connect shows them with ``expand=info``: name → an object with ``info``."""
        answer = self._ask("GET", "/connectors?expand=info")
        found = {name: each for name, each in answer.items() if isinstance(each, dict) and "info" in each}
        for each in found.values():
            self._redactor.remember_options(each["info"]["config"])
        return found

    def find_status(self, name: str) -> ConnectorStatus:
        """Return what a connector and its tasks do; right after a change Connect may not know yet (not found)."""
        return self._redacted(name, self._ask("GET", f"/connectors/{_segment(name)}/status"))

    def glance_at(self, name: str) -> ConnectorStatus:
        """Return the same without any patience, for who waits for something and looks again and again."""
        return self._redacted(name, self._workers.ask_once("GET", f"/connectors/{_segment(name)}/status"))

    def find_offsets(self, name: str) -> list[dict[str, Any]]:
        """Return the offsets stored under a connector's name: ``[{"partition": …, "offset": …}]``."""
        offsets: list[dict[str, Any]] = self._ask("GET", f"/connectors/{_segment(name)}/offsets")["offsets"]
        return offsets

    def find_topics(self, name: str) -> list[str]:
        """Return the topics that a connector has written to since Connect last forgot them, sorted.

        Raises:
            ConnectError: The workers take no notes of that.
        """
        answer: dict[str, Any] = self._ask("GET", f"/connectors/{_segment(name)}/topics")
        return sorted(answer.get(name, {"topics": []})["topics"])

    def validate(self, config: dict[str, str], *, seconds: float | None = None) -> tuple[Finding, ...]:
        """Let Connect and the connector check a configuration; Debezium logs into the database for it.

        Args:
            seconds: How long the answer may take: the worker waits for a database that says nothing. One worker is
                asked, once. By default the request is repeated as any other.
        """
        plugin = _segment(config["connector.class"])
        self._redactor.remember_options(config)
        path = f"/connector-plugins/{plugin}/config/validate"
        if seconds is None:
            answer = self._ask("PUT", path, config)
        else:
            answer = self._workers.ask_first("PUT", path, config, seconds=seconds)
        # A plugin knows its own secrets, whatever they are called.
        typed = {each["definition"]["name"] for each in answer["configs"] if _is_password(each)}
        self._redactor.remember(*(value for option, value in config.items() if option in typed))
        refusals = (
            _refused(option["value"]["name"], " ".join(self._redactor.over(message).split()))
            for option in answer["configs"]
            # What a connector declares and then does not look at has none.
            if option["value"] is not None
            for message in option["value"]["errors"]
        )
        return tuple(dict.fromkeys(refusals))  # MariaDB's connector says twice that it cannot log in

    def create_stopped(self, config: dict[str, str]) -> None:
        """Create a connector that does not run yet, so that its stored offsets can be looked at.

        Raises:
            ConnectError: With status 409: another client created a connector of this name meanwhile.
        """
        self._refuse_declared()
        name = config["name"]
        self._redactor.remember_options(config)
        settings = {key: value for key, value in config.items() if key != "name"}
        body = {"name": name, "config": settings, "initial_state": "STOPPED"}
        wait, may_be_ours = self._workers.patience(), False
        while True:
            try:
                self._workers.ask_once("POST", "/connectors", body)
            except ConnectError as error:
                if not error.retryable:
                    raise
                # A 409 says "rebalancing" and "already exists" alike; after another failure it may be from this call.
                may_be_ours = may_be_ours or error.status != CONFLICT
                found = self.find_config(name)
                if found is not None and not (may_be_ours and found == config):
                    raise _created_by_another(name, error) from error
                if found is not None:
                    return
                wait(error)
            else:
                return

    def put_config(self, config: dict[str, str]) -> None:
        """Make a connector's configuration be this one; it keeps its state, and restarts if it runs."""
        self._redactor.remember_options(config)
        self._write("PUT", f"/connectors/{_segment(config['name'])}/config", config)

    def delete(self, name: str) -> None:
        """Delete a connector; the offsets stored under its name stay.

        Raises:
            ConnectorNotFoundError: There is none.
        """
        self._refuse_declared()
        wait, may_be_gone = self._workers.patience(), False
        while True:
            try:
                self._workers.ask_once("DELETE", f"/connectors/{_segment(name)}")
            except ConnectorNotFoundError:
                if not may_be_gone:
                    raise
                return
            except ConnectError as error:
                # An answer that got lost may have been "done".
                may_be_gone = may_be_gone or error.status != CONFLICT
                wait(error)
            else:
                return

    def stop(self, name: str) -> None:
        """Ask a connector to stop and to give up its tasks; it takes a moment."""
        self._write("PUT", f"/connectors/{_segment(name)}/stop")

    def pause(self, name: str) -> None:
        """Ask a connector to pause; its tasks stay."""
        self._write("PUT", f"/connectors/{_segment(name)}/pause")

    def resume(self, name: str) -> None:
        """Ask a stopped or paused connector to run."""
        self._write("PUT", f"/connectors/{_segment(name)}/resume")

    def restart(self, name: str, *, only_failed: bool) -> None:
        """Restart the connector and its tasks, or what failed of them; no resource of an operator's contradicts it."""
        failed = str(only_failed).lower()
        self._ask("POST", f"/connectors/{_segment(name)}/restart?includeTasks=true&onlyFailed={failed}")

    def alter_offsets(self, name: str, offsets: Sequence[Mapping[str, Any]]) -> None:
        """Store offsets under a stopped connector's name; those of partitions that are not among them stay."""
        self._write("PATCH", f"/connectors/{_segment(name)}/offsets", {"offsets": list(offsets)})

    def reset_offsets(self, name: str) -> None:
        """Forget the offsets stored under a stopped connector's name."""
        self._write("DELETE", f"/connectors/{_segment(name)}/offsets")

    def _refuse_declared(self) -> None:
        if self.cluster.managed_by is ManagedBy.STRIMZI:
            raise _kept("managed_by in the context says that Strimzi manages the connectors of this cluster")

    def _find_workers(self) -> set[str]:
        """Return the addresses of the workers that run something, as far as one may know."""
        try:
            answer = self._ask("GET", "/connectors?expand=status")
        except ConnectError as error:
            if error.retryable:
                raise
            return set()
        if not isinstance(answer, dict):
            return set()
        statuses = [each.get("status", {}) for each in answer.values()]
        parts = [part for each in statuses for part in (each.get("connector", {}), *each.get("tasks", []))]
        return {part["worker_id"] for part in parts if "worker_id" in part}

    def _write(self, method: str, path: str, body: object = None) -> None:
        """Ask for a change, where no operator would undo it."""
        self._refuse_declared()
        self._ask(method, path, body)

    def _redacted(self, name: str, answer: dict[str, Any]) -> ConnectorStatus:
        """Return a status whose traces show no secret of the connector's configuration."""
        connector = answer["connector"]
        if any(part.get("trace") for part in (connector, *answer["tasks"])):
            # Each time: a secret may have come into it since.
            with suppress(ConnectError):
                self._redactor.remember_options(self._workers.ask_once("GET", f"/connectors/{_segment(name)}/config"))
        over = self._redactor.over
        tasks = tuple(
            TaskStatus(task["id"], task["state"], over(task.get("trace") or ""), task.get("worker_id") or "")
            for task in answer["tasks"]
        )
        trace = over(connector.get("trace") or "")
        # A worker that does not run the connector may say null.
        return ConnectorStatus(connector["state"], tasks, trace, connector.get("version") or "")


def _is_password(option: dict[str, Any]) -> bool:
    return bool(option.get("definition", {}).get("type") == "PASSWORD")


def _refused(option: str, message: str) -> Finding:
    cause = diagnosis_of(message)
    return Finding(
        code="CC001",
        severity=Severity.ERROR,
        location=Location(document="connect", path=option),
        message=message if message.endswith((".", "!", "?")) else f"{message}.",
        remedy="" if cause is None else cause.remedy,
    )


def _kept(reason: str) -> ConnectError:
    return ConnectError(
        f"{reason}, and would revert changes made through the REST API",
        hint="Create its resources with `cdc-outbox render --target strimzi`. If the KafkaConnect has no annotation "
        "strimzi.io/use-connector-resources, set managed_by: rest in the context.",
    )


def _created_by_another(name: str, error: ConnectError) -> ConnectError:
    return ConnectError(
        f"another process created the connector {name} meanwhile",
        status=error.status,
        url=error.url,
        hint="If another deployment is under way, wait for it and run the command again.",
    )


def _segment(text: str) -> str:
    """Return a text as one segment of a path, slashes included."""
    return quote(text, safe="")
