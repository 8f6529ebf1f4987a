"""The file of contexts: where it lies, everything that is wrong with it, and consent to it."""

import os
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from cdc_outbox.cli.contexts import REFERENCE, Context, Contexts
from cdc_outbox.connect.cluster import ManagedBy
from cdc_outbox.errors import ConfigError
from cdc_outbox.redaction import either, shows_password
from cdc_outbox.text_files.document import Document, JsonValue, did_you_mean, read_text_file
from cdc_outbox.text_files.yaml_text import read_yaml


def user_folder(variables: Mapping[str, str], variable: str, default: str) -> Path | None:
    """Return one of the user's own folders, ``None`` where the environment names none.

    Args:
        variable: Of the XDG base directories, such as ``XDG_STATE_HOME``.
        default: Where it is below the user's home without the variable.
    """
    # A relative one would be a folder of the working directory, whatever user owns that; XDG says to ignore it.
    named, home = Path(variables.get(variable, "")), Path(variables.get("HOME", ""))
    if named.is_absolute():
        return named
    return home / default if home.is_absolute() else None


class TrustedFiles:
    """The files of contexts that a user trusts: each by its path and its content, so that a change ends the trust."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        state = user_folder(variables, "XDG_STATE_HOME", ".local/state")
        self._folder = None if state is None else state / "cdc-outbox" / "trusted"

    def has(self, path: Path, text: str) -> bool:
        """Return whether a file is trusted with this content."""
        return self._folder is not None and (self._folder / _digest(path, text)).is_file()

    def add(self, path: Path, text: str) -> None:
        """Trust a file with this content from now on.

        Raises:
            ConfigError: The user's state folder cannot be written to.
        """
        if self._folder is None:
            raise ConfigError("the user has no state folder", hint="Set HOME or XDG_STATE_HOME to an absolute path.")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._folder / _digest(path, text)).write_text(f"{_absolute(path)}\n", encoding="utf-8")
        except OSError as error:
            raise ConfigError(f"{self._folder} cannot be written to: {error.strerror}") from error

    def remove(self, path: Path) -> None:
        """Trust a file no longer, whatever its content."""
        for consent in self._folder.glob("*") if self._folder is not None else ():
            if consent.read_text(encoding="utf-8") == f"{_absolute(path)}\n":
                consent.unlink()


def _digest(path: Path, text: str) -> str:
    return sha256(f"{_absolute(path)}\n{text}".encode()).hexdigest()


def _absolute(path: Path) -> Path:
    """Return a path as every working directory names it; relative references begin in the same folder."""
    return path.parent.resolve() / path.name


CONTEXTS_FILE = "cdc-outbox.yaml"
"""What it is called in a folder, where specs may lie too."""
_IN_CONNINFO = re.compile(r"password\s*=\s*'?[^\s$']", re.IGNORECASE)
_WHOLE = {
    "": ("version", "default", "contexts"),
    "context": ("connect", "dsn", "dsns", "inbox_dsn", "kafka"),
    "connect": (
        "url",
        "urls",
        "basic",
        "bearer",
        "allow_plaintext_login",
        "tls",
        "proxy",
        "patience_seconds",
        "managed_by",
    ),
    "connect.basic": ("user", "password"),
    "connect.tls": ("ca", "certificate", "key"),
    "kafka": ("bootstrap_servers", "settings"),
}
"""The keys that each section may have."""
_NO_TEXT = {"patience_seconds", "allow_plaintext_login"}


def contexts_path(variables: Mapping[str, str], folder: Path, named: Path | None = None) -> Path | None:
    """Return the file that counts: the one that is named, here or by a variable, the folder's own, or the user's."""
    if named is not None or variables.get("CDC_OUTBOX_CONTEXTS"):
        return named or Path(variables["CDC_OUTBOX_CONTEXTS"])
    own = user_folder(variables, "XDG_CONFIG_HOME", ".config")
    locations = (folder / CONTEXTS_FILE, *([] if own is None else [own / "cdc-outbox" / "contexts.yaml"]))
    return next((location for location in locations if location.is_file()), None)


def read_contexts(
    variables: Mapping[str, str] | None = None, folder: Path | None = None, *, named: Path | None = None
) -> Contexts:
    """Read the file of contexts, if there is one.

    Args:
        named: The file that counts; ``None`` leaves it to the environment, the working directory and the user.

    Raises:
        ConfigError: It cannot be read or is wrong, with every mistake; or it is the working directory's, and its user
            has not trusted it.
    """
    variables, folder = os.environ if variables is None else variables, folder or Path()
    path = contexts_path(variables, folder, named)
    if path is None:
        return Contexts()
    text = read_text_file(path, field="CDC_OUTBOX_CONTEXTS")
    is_found = not named and not variables.get("CDC_OUTBOX_CONTEXTS") and path == folder / CONTEXTS_FILE
    if is_found and not TrustedFiles(variables).has(path, text):
        raise ConfigError(
            f"{path} in the current folder is not trusted, or has changed since it was trusted",
            field="contexts",
            hint="Read it, then run `cdc-outbox contexts trust`; or give a file of contexts with --contexts.",
        )
    return parse_contexts(text, path, variables)


def parse_contexts(text: str, path: Path, variables: Mapping[str, str]) -> Contexts:
    """Return what a file of contexts says.

    Raises:
        ConfigError: It is wrong, with every mistake.
    """
    document = read_yaml(text, name=str(path))
    mistakes = [str(finding) for finding in document.findings] or list(_mistakes(document))
    if mistakes:
        raise ConfigError(
            "; ".join(mistakes), field="contexts", hint="Correct the file of contexts; docs/deploying.md describes it."
        )
    known = {
        name: Context(name=name, file=path, content=content, variables=variables)
        for name, content in document.content["contexts"].items()
    }
    return Contexts(path=path, default=document.content.get("default"), known=known)


def _mistakes(document: Document) -> Iterator[str]:
    """Yield each mistake, never with a value: it may be a secret."""
    content = document.content
    if not isinstance(content, Mapping) or not isinstance(content.get("contexts"), Mapping):
        yield f"{document.name}: the key contexts is missing; it maps names to contexts"
        return
    yield from _unknown(document, (), _WHOLE[""])
    if content.get("version", 1) != 1:
        yield f"{document.location(('version',))}: must be 1, the only supported version"
    if content.get("default") is not None and content["default"] not in content["contexts"]:
        yield f"{document.location(('default',))}: no context has this name"
    for name in content["contexts"]:
        yield from _in_context(document, ("contexts", name))


def _in_context(document: Document, path: tuple[str, ...]) -> Iterator[str]:
    context = _at(document, path)
    if not isinstance(context, Mapping):
        yield f"{document.location(path)}: must be a mapping"
        return
    yield from _unknown(document, path, _WHOLE["context"])
    for section in ("connect", "connect.basic", "connect.tls", "dsns", "kafka"):
        inner = (*path, *section.split("."))
        found = _at(document, inner)
        if found is not None and not isinstance(found, Mapping):
            yield f"{document.location(inner)}: must be a mapping"
        elif found is not None and section in _WHOLE:
            yield from _unknown(document, inner, _WHOLE[section])
    for location, text in _texts(context, path):
        if location[-1] not in _NO_TEXT and not isinstance(text, str):
            yield f"{document.location(location)}: must be text"
        if isinstance(text, str) and _shows_password(text):
            reference = "write ${env:NAME} or ${file:PATH}"
            yield f"{document.location(location)}: a password must be a reference: {reference}"
    yield from _connect_mistakes(document, (*path, "connect"))
    for address in (("connect", "url"), ("connect", "urls"), ("connect", "proxy"), ("kafka", "bootstrap_servers")):
        found = _at(document, (*path, *address))
        if any(isinstance(each, str) and REFERENCE.search(each) for each in (found, *_list(found))):
            # What a reference leads to would be said to name servers, proxies and logs.
            yield f"{document.location((*path, *address))}: an address must not contain a reference"


def _connect_mistakes(document: Document, path: tuple[str, ...]) -> Iterator[str]:
    connect = _at(document, path)
    if not isinstance(connect, Mapping):
        return
    location = document.location(path)
    if len(connect.keys() & {"url", "urls"}) != 1:
        yield f"{location}: needs either url or urls"
    elif "urls" in connect and (not isinstance(connect["urls"], list) or not connect["urls"]):
        yield f"{document.location((*path, 'urls'))}: must be a list of URLs"
    yield from _login_mistakes(location, connect)
    basic = connect.get("basic")
    if isinstance(basic, Mapping) and basic.keys() != {"user", "password"}:
        yield f"{document.location((*path, 'basic'))}: needs a user and a password"
    patience = connect.get("patience_seconds", 0)
    if isinstance(patience, bool) or not isinstance(patience, int | float) or patience < 0:
        yield f"{document.location((*path, 'patience_seconds'))}: must be a number of seconds"
    if not isinstance(connect.get("allow_plaintext_login", False), bool):
        yield f"{document.location((*path, 'allow_plaintext_login'))}: must be true or false"
    if connect.get("managed_by", ManagedBy.REST) not in list(ManagedBy):
        yield f"{document.location((*path, 'managed_by'))}: must be {either([*ManagedBy])}"
    for secret in (("bearer",), ("basic", "password")):
        value = _at(document, (*path, *secret))
        if isinstance(value, str) and not REFERENCE.fullmatch(value):
            wanted = "a secret must be a reference: write ${env:NAME} or ${file:PATH}"
            yield f"{document.location((*path, *secret))}: {wanted}"


def _unknown(document: Document, path: tuple[str, ...], known: tuple[str, ...]) -> Iterator[str]:
    for key in _at(document, path):
        if key not in known:
            offer = did_you_mean(str(key), list(known)) or f"Known are {', '.join(known)}."
            yield f"{document.location((*path, key))}: unknown key. {offer}"


def _texts(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield everything that is no mapping and no list."""
    match value:
        case Mapping():
            for key, each in value.items():
                yield from _texts(each, (*path, str(key)))
        case list():
            for each in value:
                yield from _texts(each, path)
        case _:
            yield path, value


def _at(document: Document, path: tuple[str, ...]) -> JsonValue:
    found = document.content
    for key in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(key)
    return found


def _login_mistakes(location: object, connect: Mapping[str, Any]) -> Iterator[str]:
    if any(_has_login(url) for url in (connect.get("url"), connect.get("proxy"), *_list(connect.get("urls")))):
        yield f"{location}: a URL must not contain a login: use basic or bearer"
    if {"basic", "bearer"} <= connect.keys():
        yield f"{location}: basic and bearer cannot be combined"


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _has_login(url: object) -> bool:
    """Return whether a URL contains a login, however a client would read it."""
    return isinstance(url, str) and "@" in REFERENCE.sub("", url)


def _shows_password(dsn: str) -> bool:
    return shows_password(dsn) or bool(_IN_CONNINFO.search(REFERENCE.sub("$", dsn)))
