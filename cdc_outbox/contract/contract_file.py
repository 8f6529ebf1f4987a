"""A contract as a JSON file, so that a consuming service neither repeats it in Python nor needs the producer's YAML."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from cdc_outbox.contract.wire import WireContract
from cdc_outbox.errors import ConfigError
from cdc_outbox.formats.attributes import HeaderNames
from cdc_outbox.formats.foreign import ForeignOutbox
from cdc_outbox.text_files.document import did_you_mean, read_text_file
from cdc_outbox.text_files.json_text import read_json

VERSION = 1
"""The version of the file's layout; a reader refuses one that it does not know."""
_HINT = "Write it with `cdc-outbox contract export SPEC`."
_KEYS = ("version", *(field.name for field in fields(WireContract)))


def contract_json(contract: WireContract) -> dict[str, Any]:
    """Return a contract as a JSON object with the keys ``version`` and those of :class:`WireContract`.

    Every key is written, those with a default too: another version of this package may have other defaults.
    """
    return {"version": VERSION, **asdict(contract)}


def load_contract(path: str | Path) -> WireContract:
    """Read the file that ``cdc-outbox contract export`` wrote.

    Args:
        path: Relative to the current folder.

    Raises:
        ConfigError: The file cannot be read, or holds no contract.
    """
    return parse_contract(read_text_file(Path(path), hint=_HINT), name=str(path))


def parse_contract(text: str, *, name: str = "contract") -> WireContract:
    """Read the text of a contract file.

    Args:
        name: What errors call it.

    Raises:
        ConfigError: It holds no contract.
    """
    document = read_json(text, name=name)
    if document.findings:
        raise ConfigError(f"{name} is not JSON", findings=document.findings, hint=_HINT)
    try:
        return _contract(document.content)
    except ConfigError as error:
        raise ConfigError(f"{name} is not a contract: {error}", field=error.field, hint=error.hint or _HINT) from error


def _contract(content: object) -> WireContract:
    given = _object(content, "contract", _KEYS)
    if given.get("version") != str(VERSION):
        hint = f"This cdc-outbox reads version {VERSION}; export the contract again with this release."
        raise ConfigError(f"version must be {VERSION}, not {given.get('version')}", field="version", hint=hint)
    for key in ("aggregates", "topic"):
        if key not in given:
            raise ConfigError(f"the key {key!r} is missing", field=key)
    aggregates = _object(given["aggregates"], "aggregates")
    options: dict[str, Any] = {"topic": _text(given["topic"], "topic")}
    if "headers" in given:
        names = _object(given["headers"], "headers", [field.name for field in fields(HeaderNames)])
        options["headers"] = HeaderNames(**{role: _text(name, f"headers.{role}") for role, name in names.items()})
    for key in ("latest", "by_watermark", "extra_headers"):
        if key in given:
            options[key] = _texts(given[key], key)
    options |= {key: given[key] for key in ("format", "payload_type") if key in given}
    if given.get("foreign") is not None:
        foreign = _object(given["foreign"], "foreign", [field.name for field in fields(ForeignOutbox)])
        options["foreign"] = ForeignOutbox(
            **{key: _text(each, f"foreign.{key}") for key, each in foreign.items() if each is not None}
        )
    return WireContract(aggregates=aggregates, **options)


def _object(value: object, key: str, known: Iterable[str] = ()) -> Mapping[str, Any]:
    """Return an object, and refuse keys that are not known; without known ones all are taken."""
    if not isinstance(value, dict):
        raise ConfigError(f"{key} must be an object", field=key)
    known = list(known or value)
    for name in value.keys() - set(known):
        offer = did_you_mean(name, known) or f"Known are {', '.join(known)}."
        raise ConfigError(f"unknown key {name!r} in {key}", field=key, hint=offer)
    return value


def _text(value: object, key: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{key} must be a string", field=key)
    return value


def _texts(value: object, key: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{key} must be a list", field=key)
    return tuple(_text(each, key) for each in value)
