"""Contexts: the database, the Connect cluster and the brokers that belong together, under a name, in a file."""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cdc_outbox.connect.cluster import Basic, Bearer, Cluster, ManagedBy, Tls
from cdc_outbox.errors import ConfigError
from cdc_outbox.text_files.document import suggestion

REFERENCE = re.compile(r"\$\{(env|file):([^}]+)\}")
"""What stands for a secret: a variable, or a file's text; a relative path begins where the file of contexts lies."""

_HOST = re.compile(r"(?:^|[\s?&])(?:host|hostaddr|service)\s*=\s*'?([^\s'&]+)")
"""Where a connection string, or the query of a URL, names the server."""
_OPTIONS = ("patience_seconds", "allow_plaintext_login", "proxy")
"""What a context says of its cluster in the cluster's own words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Databases:
    """The DSNs of one context: one for every pipeline, or one for each by its name.

    Args:
        resolve: Puts in what the references of a DSN stand for; of others it is not needed.
    """

    default: str | None = field(default=None, repr=False)
    by_pipeline: Mapping[str, str] = field(default_factory=dict, repr=False)
    resolve: Callable[[str], str] = field(default=str, repr=False)

    def of(self, pipeline: str) -> str:
        """Return a pipeline's.

        Raises:
            ConfigError: There is none, or a reference leads nowhere.
        """
        found = self.by_pipeline.get(pipeline, self.default)
        if found is None:
            known = ", ".join(sorted(self.by_pipeline))
            raise ConfigError(
                f"the context has no DSN for the pipeline {pipeline}",
                field="--dsn",
                hint=f"It has DSNs for {known}; give --dsn, or add one to dsns.",
            )
        return self.resolve(found)

    def has(self, pipeline: str) -> bool:
        """Return whether the context has a DSN for a pipeline."""
        return self.default is not None or pipeline in self.by_pipeline

    def find(self, pipeline: str) -> str | None:
        """Return a pipeline's, ``None`` where :meth:`of` raises."""
        with suppress(ConfigError):
            return self.of(pipeline)
        return None

    def shared(self) -> str | None:
        """Return the DSN that is no pipeline's own, ``None`` if there is none."""
        return None if self.default is None else self.resolve(self.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """One context, with its references unresolved until what they stand for is asked for."""

    name: str
    file: Path
    content: Mapping[str, Any] = field(repr=False)
    variables: Mapping[str, str] = field(repr=False)

    def cluster(self) -> Cluster | None:
        """Return how Connect is reached, ``None`` if the context says nothing of it.

        Raises:
            ConfigError: A reference leads nowhere, or what it leads to cannot be used.
        """
        connect = self.content.get("connect")
        if connect is None:
            return None
        tls = {name: self._path(path) for name, path in connect.get("tls", {}).items()}
        options = {name: connect[name] for name in _OPTIONS if name in connect}
        managed_by = ManagedBy(connect["managed_by"]) if "managed_by" in connect else None
        return Cluster(
            urls=urls_of(connect), login=self._login(connect), tls=Tls(**tls), managed_by=managed_by, **options
        )

    def databases(self) -> Databases | None:
        """Return the DSNs, ``None`` if there are none."""
        if not self.content.keys() & {"dsn", "dsns"}:
            return None
        content = self.content
        return Databases(default=content.get("dsn"), by_pipeline=content.get("dsns", {}), resolve=self._resolve)

    def inbox_database(self) -> Databases | None:
        """Return the DSN of the consuming service's database; where none is said, that of the outbox."""
        found = self.content.get("inbox_dsn", self.content.get("dsn"))
        return None if found is None else Databases(default=found, resolve=self._resolve)

    def bootstrap_servers(self) -> str | None:
        """Return the brokers, ``None`` if nothing is said of them."""
        found: str | None = self.content.get("kafka", {}).get("bootstrap_servers")
        return found

    def kafka_settings(self) -> Path | None:
        """Return the file of librdkafka's settings, ``None`` if there is none."""
        found = self.content.get("kafka", {}).get("settings")
        return None if found is None else self._path(found)

    def addresses(self) -> dict[str, str]:
        """Return where the context leads, by ``connect``, ``database``, ``inbox_database`` and ``brokers``."""
        content, dsn = self.content, self.content.get("dsn")
        dsns = dict.fromkeys(host_of(each) for each in (dsn, *content.get("dsns", {}).values()) if each is not None)
        connect, inbox = content.get("connect"), content.get("inbox_dsn", dsn)
        proxy = f" by the proxy {connect['proxy']}" if connect and "proxy" in connect else ""
        found = {
            "connect": ", ".join(urls_of(connect)) + proxy if connect else "",
            "database": ", ".join(dsns),
            "inbox_database": host_of(inbox) if inbox is not None else "",
            "brokers": self.bootstrap_servers() or "",
        }
        return {what: address for what, address in found.items() if address}

    def _login(self, connect: Mapping[str, Any]) -> Basic | Bearer | None:
        if "bearer" in connect:
            return Bearer(self._resolve(connect["bearer"]))
        if "basic" in connect:
            basic = connect["basic"]
            return Basic(self._resolve(basic["user"]), self._resolve(basic["password"]))
        return None

    def _path(self, text: str) -> Path:
        return self.file.parent / Path(self._resolve(text)).expanduser()

    def _resolve(self, text: str) -> str:
        return REFERENCE.sub(self._value, text)

    def _value(self, reference: re.Match[str]) -> str:
        kind, name = reference.groups()
        where = f"contexts.{self.name}"
        if kind == "env":
            if name not in self.variables:
                raise ConfigError(f"the variable {name}, which the context {self.name} needs, is not set", field=where)
            return self.variables[name]
        try:
            return (self.file.parent / Path(name).expanduser()).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            message = f"{name}, which the context {self.name} needs, cannot be read: {reason}"
            raise ConfigError(message, field=where) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Contexts:
    """What a file of contexts says; none if there is no file."""

    path: Path | None = None
    default: str | None = None
    known: Mapping[str, Context] = field(default_factory=dict)

    def find(self, name: str) -> Context:
        """Return the context of a name.

        Raises:
            ConfigError: There is none, with those that there are.
        """
        if name in self.known:
            return self.known[name]
        if self.path is None:
            raise ConfigError(
                f"there is no context {name!r}: no file of contexts was found",
                field="--context",
                hint="Write cdc-outbox.yaml, or give the file with --contexts; docs/deploying.md describes it.",
            )
        hint = suggestion(name, sorted(self.known), "Contexts")
        raise ConfigError(f"{self.path} has no context {name!r}", field="--context", hint=hint)


def host_of(dsn: str) -> str:
    """Return the host that a DSN names, never its login; a reference stands for itself."""
    if REFERENCE.fullmatch(dsn):
        return dsn
    hosts = _HOST.findall(dsn)
    if "://" in dsn:
        # A reference to a file has slashes in it, and stands before the last @.
        hosts.insert(0, dsn.partition("://")[2].rpartition("@")[2].partition("/")[0].partition("?")[0])
    return ", ".join(filter(None, hosts)) or "this machine"


def urls_of(connect: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the workers' URLs as they are written."""
    return (connect["url"],) if "url" in connect else tuple(connect["urls"])
