"""A Connect cluster as it is reached: its workers, how one logs in, whom one trusts."""

import re
from base64 import b64encode
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from cdc_outbox.connect.timings import Timings
from cdc_outbox.errors import ConfigError

_HEADER_SAFE = re.compile(r"[\x21-\x7e]+")
"""What a token consists of; anything else would end the header, or begin another one."""


@dataclass(frozen=True, slots=True)
class Basic:
    """A user and a password, as HTTP's basic authentication takes them."""

    user: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        if not self.user or ":" in self.user:
            raise ConfigError("a user name must not be empty or contain a colon", field="Basic.user")

    @classmethod
    def parse(cls, text: str, *, field: str) -> "Basic":
        """Return the login that a text of the form ``user:password`` says.

        Args:
            field: Where the text is from.

        Raises:
            ConfigError: It is of another form.
        """
        user, colon, password = text.partition(":")
        if not user or not colon:
            raise ConfigError("a Connect login must be user:password", field=field)
        return cls(user, password)

    @property
    def text(self) -> str:
        """``user:password``, as :meth:`parse` takes it."""
        return f"{self.user}:{self.password}"

    @property
    def header(self) -> str:
        """What the header Authorization says."""
        return f"Basic {self._encoded}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must stand in nothing that is said."""
        return self.password, self._encoded

    @property
    def _encoded(self) -> str:
        return b64encode(self.text.encode()).decode()


@dataclass(frozen=True, slots=True)
class Bearer:
    """A token, as a gateway before Connect takes it."""

    token: str = field(repr=False)

    def __post_init__(self) -> None:
        if not _HEADER_SAFE.fullmatch(self.token):
            raise ConfigError("a token must not be empty or contain blanks", field="Bearer.token")

    @property
    def header(self) -> str:
        """What the header Authorization says."""
        return f"Bearer {self.token}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must stand in nothing that is said."""
        return (self.token,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Whom one trusts, and who one is.

    Args:
        ca: Certificates in PEM that the workers' are signed by; ``None`` are those that this machine trusts.
        certificate: One's own, in PEM, for workers that want one.
        key: Of that certificate, in PEM and not encrypted; ``None`` if it stands in the same file.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if self.key is not None and self.certificate is None:
            raise ConfigError("a key needs its certificate", field="Tls.key")
        for name in ("ca", "certificate", "key"):
            path: Path | None = getattr(self, name)
            if path is not None and not path.is_file():
                raise ConfigError(f"there is no file {str(path)!r}", field=f"Tls.{name}")


class ManagedBy(StrEnum):
    """What defines the connectors of a cluster: requests to its REST API, or the resources of an operator."""

    REST = "rest"
    STRIMZI = "strimzi"


_PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The workers of one Connect cluster; any of them may answer.

    Args:
        urls: For example ``http://localhost:8083``; credentials in one are refused.
        login: ``None`` where Connect wants none.
        patience_seconds: How long one request is repeated that meets a rebalance, an error of the worker's or no
            worker at all. ``None`` is thirty, because a worker that was killed is replaced within that time; commands
            that only look do not wait then for workers that are away.
        allow_plaintext_login: Whether the login may go over ``http`` to other hosts than this one; not by default,
            because it can be read on the way.
        proxy: The URL of an HTTP proxy that leads to the workers; those of the environment are not used.
        managed_by: ``None`` takes it for Strimzi where workers are named as Strimzi names them.
        timings: How long is waited for its workers and its connectors.
    """

    urls: tuple[str, ...]
    login: Basic | Bearer | None = None
    tls: Tls = field(default_factory=Tls)
    patience_seconds: float | None = None
    allow_plaintext_login: bool = False
    proxy: str | None = None
    managed_by: ManagedBy | None = None
    timings: Timings = field(default_factory=Timings)

    def __post_init__(self) -> None:
        if not self.urls:
            raise ConfigError("a Connect cluster needs at least one URL", field="connect_url")
        if self.patience_seconds is not None and self.patience_seconds < 0:
            raise ConfigError("patience must not be negative", field="Cluster.patience_seconds")
        for url in self.urls:
            _refuse_url(url)
            if self.login is not None and not self.allow_plaintext_login:
                _refuse_plaintext(url, self.proxy)
        if self.proxy is not None:
            _refuse_url(self.proxy, "proxy's")
        # One slash at the end more or less is the same worker.
        object.__setattr__(self, "urls", tuple(dict.fromkeys(url.rstrip("/") for url in self.urls)))

    @property
    def patience(self) -> float:
        """The seconds for which a request is repeated."""
        return _PATIENCE_SECONDS if self.patience_seconds is None else self.patience_seconds


def _refuse_url(url: str, whose: str = "Connect") -> None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:  # such as half an IPv6 address
        raise ConfigError(f"the {whose} URL is invalid", field="connect_url") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        # Not quoted: a value that is no URL may be credentials and a host without a scheme.
        raise ConfigError(
            f"the {whose} URL must start with http:// or https://",
            field="connect_url",
            hint="Write it as http://host:port or https://host:port.",
        )
    if parts.username or parts.password:
        raise ConfigError(
            f"the {whose} URL must not contain credentials",
            field="connect_url",
            hint="Put them into CDC_OUTBOX_CONNECT_LOGIN, or into a context as references (see docs/deploying.md).",
        )
    if parts.query or parts.fragment:
        raise ConfigError(f"the {whose} URL must not have a query or a fragment", field="connect_url")


def _refuse_plaintext(url: str, proxy: str | None) -> None:
    parts = urlsplit(url)
    if parts.scheme == "http" and not (proxy is None and _is_loopback(parts.hostname or "")):
        raise ConfigError(
            f"a login must not be sent to {parts.hostname} over http, which is not encrypted",
            field="connect_url",
            hint="Give an https URL. If CDC_OUTBOX_CONNECT_LOGIN belongs to another cluster, unset it. If the "
            "network is safe, set allow_plaintext_login in the context.",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
