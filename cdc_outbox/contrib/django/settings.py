"""``CDC_OUTBOX``: which outbox a Django project has, and in which of its databases."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, TypeVar

from django.conf import settings
from django.db import connections
from django.utils.connection import ConnectionDoesNotExist

from cdc_outbox.contract.outbox_options import OutboxMode, Partitions
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.django import find
from cdc_outbox.databases.migrations import Component
from cdc_outbox.databases.quoting import quote
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import ConfigError, OutboxError
from cdc_outbox.event import SequenceMode
from cdc_outbox.formats.attributes import BUILT_IN_HEADERS
from cdc_outbox.formats.event_format import EventFormat, PayloadType
from cdc_outbox.redaction import either
from cdc_outbox.writer.outbox_schema import outbox_component

SETTING = "CDC_OUTBOX"
_SOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
"""As a spec allows it."""
_Choice = TypeVar("_Choice", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxSettings:
    """What ``CDC_OUTBOX`` says.

    Args:
        source: Who writes this outbox, without the incarnation: ``orders``.
        database: The alias of the database that has it.
        publication: On PostgreSQL; ``None`` where migrations create none.
        contract: ``None`` where every aggregate type is taken and numbered gaplessly.
    """

    source: str
    database: str = "default"
    table: OutboxTable
    publication: str | None = None
    contract: WireContract | None = None

    @property
    def first_source(self) -> str:
        """The source's first incarnation."""
        return f"{self.source}.1"

    @property
    def dialect(self) -> Dialect:
        """That of the database; it is not connected to.

        Raises:
            OutboxError: No outbox can be in a database of this kind.
        """
        return find(connections[self.database]).dialect

    @property
    def component(self) -> Component:
        """The outbox's tables, as migrations make them.

        Raises:
            OutboxError, ConfigError: This outbox cannot be in a database of this kind.
        """
        return outbox_component(self.table, first_source=self.first_source, dialect=self.dialect)


def outbox_settings() -> OutboxSettings:
    """Return what the project's settings say now.

    Raises:
        ConfigError: They say nothing, or something that cannot be.
    """
    return parse_settings(getattr(settings, SETTING, None))


def described_table() -> OutboxTable:
    """Return the outbox for models and admin, or any where the settings are wrong.

    A check says then what is wrong; to stop before it would keep it from that.
    """
    try:
        return outbox_settings().table
    except ConfigError:
        return OutboxTable()


def event_table() -> str:
    """Return the outbox's name as a model's ``db_table``, in quotes that Django leaves as they are."""
    try:
        dialect = outbox_settings().dialect
    except (ConfigError, OutboxError, ConnectionDoesNotExist):
        dialect = Dialect.POSTGRESQL
    return described_table().table_in(dialect).quoted


def parse_settings(given: object) -> OutboxSettings:
    """Return what a value of ``CDC_OUTBOX`` says.

    Raises:
        ConfigError: It is not what it must be; ``field`` says where.
    """
    if not isinstance(given, Mapping):
        state = "is missing" if given is None else f"must be a dict, not {type(given).__name__}"
        raise ConfigError(f"the setting {SETTING} {state}", field=SETTING, hint='It needs at least {"source": "…"}.')
    for key in given:
        if key not in _KEYS:
            near = get_close_matches(str(key), _KEYS, n=1)
            offer = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(_KEYS)}."
            raise ConfigError(f"the setting {SETTING} has no key {key!r}", field=f"{SETTING}.{key}", hint=offer)
    source, publication = _text(given, "source"), given.get("publication")
    if not _SOURCE.fullmatch(source):
        raise _wrong("source", "consist of letters, digits, underscores and hyphens")
    try:
        if publication is not None:
            quote(_text(given, "publication"))
        table = _table(given)
        contract = _contract(given, table)
    except ConfigError as error:
        raise _placed(error) from error
    return OutboxSettings(
        source=source,
        database=_text(given, "database", "default"),
        table=table,
        publication=publication,
        contract=contract,
    )


_KEYS = (
    "source",
    "database",
    "schema",
    "table",
    "publication",
    "aggregates",
    "headers",
    "mode",
    "format",
    "payload_type",
    "partitions",
)


def _table(given: Mapping[str, Any]) -> OutboxTable:
    partitions = given.get("partitions")
    return OutboxTable(
        schema=None if given.get("schema") is None else _text(given, "schema"),
        name=_text(given, "table", "outbox"),
        headers={**BUILT_IN_HEADERS, **_texts(given, "headers")},
        payload_type=_choice(PayloadType, given.get("payload_type", "json"), "payload_type"),
        mode=_choice(OutboxMode, given.get("mode", "keep"), "mode"),
        format=_choice(EventFormat, given.get("format", "plain"), "format"),
        partitions=None if partitions is None else _choice(Partitions, partitions, "partitions"),
    )


def _contract(given: Mapping[str, Any], table: OutboxTable) -> WireContract | None:
    if given.get("aggregates") is None:
        return None
    modes = {name: _choice(SequenceMode, mode, "aggregates") for name, mode in _texts(given, "aggregates").items()}
    return WireContract(
        aggregates=modes,
        extra_headers=tuple(table.headers.values()),
        format=table.format,
        payload_type=table.payload_type,
    )


def _text(given: Mapping[str, Any], key: str, default: str = "") -> str:
    text = given.get(key, default)
    if not isinstance(text, str) or not text:
        raise _wrong(key, "be a string")
    return text


def _texts(given: Mapping[str, Any], key: str) -> Mapping[str, str]:
    texts = given.get(key, {})
    if not isinstance(texts, Mapping) or not all(isinstance(text, str) for pair in texts.items() for text in pair):
        raise _wrong(key, "be a dict of strings")
    return texts


def _choice(choices: type[_Choice], given: object, key: str) -> _Choice:
    known: Iterable[_Choice] = choices
    for choice in known:
        if choice == given:
            return choice
    raise _wrong(key, f"be {either([repr(str(choice)) for choice in known])}")


def _wrong(key: str, wanted: str) -> ConfigError:
    return ConfigError(f"{key!r} in the setting {SETTING} must {wanted}", field=f"{SETTING}.{key}")


def _placed(error: ConfigError) -> ConfigError:
    """Return the error of a value that was made from the setting as one of the setting."""
    if error.field.startswith(SETTING):
        return error
    key = error.field.rpartition(".")[2]
    field = f"{SETTING}.{key}" if key in _KEYS else SETTING
    return ConfigError(f"the setting {SETTING}: {error}", field=field, hint=error.hint)
