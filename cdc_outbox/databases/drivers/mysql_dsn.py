"""A DSN of MariaDB or MySQL: where the server is, who logs in, and how the connection is secured."""

import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from cdc_outbox.errors import ConfigError

_HINT = (
    "Its form is mysql://user:password@host:3306/database; in the password write %40 for @, %2F for /, %3A for :, "
    "%3F for ?, %23 for # and %25 for %. Options may follow: ?ssl_ca=FILE, &ssl_cert=FILE, &ssl_key=FILE and "
    "&ssl_mode= with disabled, required, verify_ca or verify_identity."
)
_FILES = ("ssl_ca", "ssl_cert", "ssl_key")
_DISABLED, _REQUIRED, _VERIFY_CA, _VERIFY_IDENTITY = "disabled", "required", "verify_ca", "verify_identity"


def options_of(url: str) -> dict[str, Any]:
    """Return what PyMySQL's ``connect`` takes.

    Without ``ssl_…`` the driver's default decides whether the connection is encrypted. With one of them it is, or it
    fails; the server's certificate and name are verified unless ``ssl_mode`` says less, against the system's
    certificates without ``ssl_ca``.

    Raises:
        ConfigError: The URL or a file cannot be read. Nothing of the URL is quoted: a password that was not escaped may
            stand in any part of it.
    """
    try:
        parts: SplitResult | None = urlsplit(url)
        port = parts.port if parts else None
    except ValueError:  # it quotes the URL, so it is not passed on
        parts = port = None
    database = parts.path.removeprefix("/") if parts else ""
    if parts is None or not parts.hostname or not database or parts.fragment or set("/@") & {*database}:
        raise ConfigError("the DSN cannot be read", field="dsn", hint=_HINT)
    login = {"user": parts.username, "password": parts.password}
    return {
        **{name: unquote(text) for name, text in login.items() if text is not None},
        "host": unquote(parts.hostname),
        "port": port or 3306,
        "database": unquote(database),
        **_tls(_parameters(parts.query)),
    }


def _parameters(query: str) -> Mapping[str, str]:
    try:
        found = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        found = [("", "")]
    parameters = dict(found)
    modes = {_DISABLED, _REQUIRED, _VERIFY_CA, _VERIFY_IDENTITY}
    if (
        len(parameters) < len(found)
        or not all(parameters.values())
        or parameters.keys() - {*_FILES, "ssl_mode"}
        or parameters.get("ssl_mode", _DISABLED) not in modes
        or ("ssl_key" in parameters) > ("ssl_cert" in parameters)
    ):
        raise ConfigError("the DSN cannot be read", field="dsn", hint=_HINT)
    return parameters


def _tls(parameters: Mapping[str, str]) -> dict[str, Any]:
    if not parameters:
        return {}
    mode = parameters.get("ssl_mode", _VERIFY_IDENTITY)
    if mode == _DISABLED:
        return {"ssl_disabled": True}
    try:
        context = ssl.create_default_context(cafile=parameters.get("ssl_ca"))
        if "ssl_cert" in parameters:
            context.load_cert_chain(parameters["ssl_cert"], parameters.get("ssl_key"))
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError(f"a file of ssl_… cannot be read: {error.strerror or error}", field="dsn") from None
    # Certificates that a server has made for itself are not as strict as Python 3.13 wants them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.check_hostname = mode == _VERIFY_IDENTITY
    if mode == _REQUIRED:
        context.verify_mode = ssl.CERT_NONE
    return {"ssl": context}
