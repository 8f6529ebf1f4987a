"""A Connect worker as a part of the stack."""

import json
import os
import re
import secrets
import urllib.request
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from cdc_outbox.connect.cluster import Basic, Cluster
from cdc_outbox.debezium.event_router.jvm import Jvm
from cdc_outbox.testing.folder import HOST
from cdc_outbox.testing.process import Server, ServerCommand, write_private
from cdc_outbox.testing.settings import settings_file

_SETTINGS = "connect.properties"
_LOGIN_SETTINGS = {
    "rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
}
_HEAP = "768m"
"""Enough for a backlog of a million small events on a few connectors."""
OWN_VARIABLES = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
"""The worker's own. Without a locale Java reads the variables that connectors refer to as ASCII."""


class Worker(Server):
    """A Connect worker of the stack."""

    def __init__(
        self,
        folder: Path,
        command: ServerCommand,
        *,
        port: int,
        login: Basic | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(folder, command)
        self.port, self._login, self._settings = port, login, dict(settings)

    def add_variables(self, variables: Mapping[str, str]) -> None:
        """Add variables that connectors may refer to, from its next start on."""
        self._command = replace(self._command, environment={**self._command.environment, **variables})
        shared = settings_file(_SETTINGS)
        # Every client of the REST API can have references resolved, and read their values.
        allowed = {
            "config.providers.env.param.allowlist.pattern": "|".join(
                name
                for name in self._command.environment
                if name not in OWN_VARIABLES and re.fullmatch(r"\w+", name, re.ASCII)
            ),
            "config.providers.file.param.allowed.paths": str(_secrets_of(self.folder)),
        }
        # Of a setting that is given twice, the last one counts.
        further = "".join(f"{name}={value}\n" for name, value in (allowed | dict(self._settings)).items())
        (self.folder / _SETTINGS).write_text(shared.read_text() + further)

    @property
    def url(self) -> str:
        """Its REST API."""
        return f"http://{HOST}:{self.port}"

    @property
    def cluster(self) -> Cluster:
        """Its REST API and the login to it, for :class:`~cdc_outbox.connect.client.ConnectClient`."""
        return Cluster(urls=(self.url,), login=self._login)

    def answers(self) -> bool:
        """Return whether the worker has joined its group and takes requests."""
        headers = {} if self._login is None else {"Authorization": self._login.header}
        health = urllib.request.Request(f"{self.url}/health", headers=headers)  # noqa: S310 - our own URL
        # The login must not go through a proxy of the environment's.
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(health, timeout=2) as answer:
                return bool(json.load(answer)["status"] == "healthy")
        except (OSError, ValueError, KeyError):
            return False


def _secrets_of(folder: Path) -> Path:
    return folder.parent / "secrets"


def worker_environment(port: int, bootstrap_servers: str) -> dict[str, str]:
    """Return what connect.properties takes from the environment, for a worker of the local stack."""
    return {"CONNECT_BOOTSTRAP_SERVERS": bootstrap_servers, "CONNECT_LISTENERS": f"http://{HOST}:{port}"}


def make_login() -> Basic:
    """Return a login that no other user of this machine knows."""
    return Basic("cdc-outbox", secrets.token_urlsafe(24))


def make_worker(
    folder: Path,
    port: int,
    environment: Mapping[str, str],
    jvm: Jvm,
    *,
    login: Basic | None,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Worker:
    """Set up a Connect worker and return it, not started yet.

    Args:
        environment: The worker's own variables, and what connectors may refer to as ``${env:NAME}``, where the name
            is a word. As ``${file:PATH:key}`` they may refer to files in the folder ``secrets`` beside the worker's.
        login: What the REST API asks for, the same at all workers of one group. ``None`` opens it to every user of this
            machine.
        settings: What differs from the local stack's settings.
    """
    folder.mkdir(mode=0o700)
    _secrets_of(folder).mkdir(mode=0o700, exist_ok=True)
    # Connect reads plugin.path before it resolves references, so the settings say `plugins`, relative to here.
    plugins = folder / "plugins"
    plugins.mkdir()
    for plugin in jvm.plugins:
        (plugins / plugin.name).symlink_to(plugin)
    if login is not None:
        write_private(folder / "login.properties", f"{login.user}={login.password}\n")
        jaas = f"-Djava.security.auth.login.config={settings_file('jaas.conf')}"
        jvm, settings = replace(jvm, options=(*jvm.options, jaas)), {**_LOGIN_SETTINGS, **settings}
    arguments = ("org.apache.kafka.connect.cli.ConnectDistributed", str(folder / _SETTINGS))
    command = ServerCommand(
        arguments=jvm.command(*arguments, heap=_HEAP, archive="connect"),
        environment=OWN_VARIABLES,
    )
    worker = Worker(folder, command, port=port, login=login, settings=settings)
    worker.add_variables(environment)
    return worker
