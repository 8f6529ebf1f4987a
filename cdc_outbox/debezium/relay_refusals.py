"""What a connector's configuration asks for that the relay does not do. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cdc_outbox.contract.topics import raw_topic_name
from cdc_outbox.debezium.config import DECODER, TOPIC_NAMES
from cdc_outbox.debezium.event_router import Routing, RoutingConfig
from cdc_outbox.debezium.event_router.column_values import ColumnModes
from cdc_outbox.debezium.java_regex import matches
from cdc_outbox.errors import CdcOutboxError, ConfigError, RoutingError

_LITERAL = re.compile(r"(?:[A-Za-z0-9_]|\\[^A-Za-z0-9])+")
"""A regular expression that matches one name only, as the rendered configuration has it."""
_MODES = {
    "binary.handling.mode": ("bytes", "base64", "base64-url-safe", "hex"),
    "decimal.handling.mode": ("precise", "string", "double"),
    "time.precision.mode": ("adaptive", "adaptive_time_microseconds", "connect"),
}
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "plugin.name": ("pgoutput",),
    "snapshot.mode": ("no_data", "never"),
    "extended.headers.enabled": ("false",),
}
"""Options that the relay takes with these values alone."""
_DEFAULTS: Mapping[str, str] = {
    "errors.tolerance": "none",
    "field.name.adjustment.mode": "none",
    "provide.transaction.metadata": "false",
}
"""Options that the relay takes with their default alone."""
_FOREIGN = re.compile(
    r"column\..*|converters|post\.processors|producer\.override\.(partitioner\..*|interceptor\.classes)"
)
"""Options that change rows, or the partitions of messages, by code that the relay does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayRefusal:
    """One thing that the relay does not do.

    Args:
        option: The connector's option that asks for it.
        reason: What the relay does not do.
        remedy: What the operator can do.
    """

    option: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.option}: {self.reason}. {self.remedy}"


def find_relay_refusals(config: Mapping[str, str]) -> list[RelayRefusal]:
    """Return everything in a configuration that the relay refuses.

    Args:
        config: The flat configuration that Connect would get.
    """
    return [*_source(config), *_options(config), *_routing(config)]


def _source(config: Mapping[str, str]) -> Iterator[RelayRefusal]:
    if not config.get("connector.class", "").endswith(".PostgresConnector"):
        remedy = "Publish with Debezium; of other databases the relay reads no log."
        yield RelayRefusal(option="connector.class", reason="the relay reads PostgreSQL only", remedy=remedy)
    if _table(config) is None:
        remedy = "Name one table, with its schema, or publish with Debezium."
        yield RelayRefusal(option="table.include.list", reason="the relay reads one table", remedy=remedy)


def _options(config: Mapping[str, str]) -> Iterator[RelayRefusal]:
    for option, values in _REQUIRED.items():
        if config.get(option, "").strip().lower() not in values:
            reason = f"the relay needs the value {' or '.join(values)}"
            yield RelayRefusal(option=option, reason=reason, remedy="Set it, or publish with Debezium.")
    for option, value in _DEFAULTS.items():
        if config.get(option, value).strip().lower() != value:
            reason = f"the relay knows the value {value} only"
            yield RelayRefusal(option=option, reason=reason, remedy="Remove the option, or publish with Debezium.")
    for option, modes in _MODES.items():
        try:
            ColumnModes(config).choice(option, modes)
        except ConfigError as error:
            remedy = f"Choose one of {', '.join(modes)}, or publish with Debezium."
            yield RelayRefusal(option=option, reason=str(error), remedy=remedy)
    for option in sorted(filter(_FOREIGN.fullmatch, config)):
        reason = "the relay changes neither rows nor partitions"
        yield RelayRefusal(option=option, reason=reason, remedy="Remove the option, or publish with Debezium.")


def _routing(config: Mapping[str, str]) -> Iterator[RelayRefusal]:
    try:
        read = RoutingConfig.from_config(config)
    except ConfigError as error:
        yield RelayRefusal(option=error.field, reason=str(error), remedy=error.hint or "Publish with Debezium.")
        return
    for alias in read.others:
        option = f"transforms.{alias}.type"
        reason, remedy = "the relay runs no transform beside the EventRouter", "Publish with Debezium."
        if config.get(option) == DECODER:
            reason = "the relay does not read logical messages (outbox.mode: message)"
            remedy = "Choose the mode keep or delete, or publish with Debezium."
        yield RelayRefusal(option=option, reason=reason, remedy=remedy)
    if "header.converter" not in config:
        remedy = "Set header.converter=org.apache.kafka.connect.storage.SimpleHeaderConverter."
        yield RelayRefusal(option="header.converter", reason="it is left to the worker", remedy=remedy)
    try:
        Routing.from_config(read, connector="postgresql")
    except (ConfigError, RoutingError) as error:
        yield _of_routing(error)
    # A logical message has a topic of its own, and is refused already.
    if not read.others and not _is_rendered(config, read.alias):
        option = f"transforms.{read.alias}.predicate"
        reason = "the relay sends every row of the table through the EventRouter"
        yield RelayRefusal(option=option, reason=reason, remedy="Remove the predicate, or publish with Debezium.")


def _of_routing(error: CdcOutboxError) -> RelayRefusal:
    option, reason = getattr(error, "field", "") or "transforms", str(error)
    remedy = "Correct the option, or publish with Debezium."
    if option == "table.expand.json.payload":
        reason = "the relay does not expand JSON payloads"
        remedy = "Set outbox.payload_type: json, or publish with Debezium."
    return RelayRefusal(option=option, reason=reason, remedy=remedy)


def _is_rendered(config: Mapping[str, str], alias: str) -> bool:
    """Return whether the EventRouter sees every row of the table."""
    name, table = config.get(f"transforms.{alias}.predicate"), _table(config)
    if name is None or table is None:
        return True
    if config.get(f"transforms.{alias}.negate", "false").strip().lower() != "false":
        return False
    if config.get(f"predicates.{name}.type") != TOPIC_NAMES:
        return False
    topic = raw_topic_name(config.get("topic.prefix", ""), *table, delimiter=config.get("topic.delimiter", "."))
    return matches(config.get(f"predicates.{name}.pattern", ""), topic) is True


def _table(config: Mapping[str, str]) -> tuple[str, str] | None:
    """Return schema and name of the table, ``None`` if the list is anything but one name."""
    listed = config.get("table.include.list", "")
    if not _LITERAL.fullmatch(listed):
        return None
    schema, dot, name = re.sub(r"\\(.)", r"\1", listed).partition(".")
    return (schema, name) if dot and name else None
