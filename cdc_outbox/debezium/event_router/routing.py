"""A connector's configuration as a function: the EventRouter and the converters around it, from record to message."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from cdc_outbox.contract.placements import trim
from cdc_outbox.debezium.event_router.converters import (
    SIMPLE_HEADER,
    STRING,
    BytesConverter,
    Converter,
    JsonConverter,
    to_message,
)
from cdc_outbox.debezium.event_router.expanded_envelope import EnvelopeMemory
from cdc_outbox.debezium.event_router.java import config_exception
from cdc_outbox.debezium.event_router.record import ConnectRecord
from cdc_outbox.debezium.event_router.router import EventRouter
from cdc_outbox.debezium.event_router.smt_options import NEWEST_VERSION
from cdc_outbox.errors import ConfigError
from cdc_outbox.message import Message

EVENT_ROUTER = "io.debezium.transforms.outbox.EventRouter"
MONGO_EVENT_ROUTER = "io.debezium.connector.mongodb.transforms.outbox.MongoEventRouter"
CONVERTERS = {
    name: f"{package}.{name}"
    for package, names in {
        "org.apache.kafka.connect.storage": ("StringConverter", "SimpleHeaderConverter"),
        "org.apache.kafka.connect.json": ("JsonConverter",),
        "io.debezium.converters": ("BinaryDataConverter",),
    }.items()
    for name in names
}
"""Converters that Connect also finds by their short names, where no two plugins have the same."""

_DELEGATE = "delegate.converter.type"
_ELSEWHERE = "Use `cdc-outbox simulate --engine real`, which runs Debezium's own."
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class ConnectPlugin:
    """One plugin of a configuration: its class and its own options, without their prefix."""

    java_class: str
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingConfig:
    """What a connector's configuration says about the way of a row.

    Args:
        alias: The EventRouter's own among the transforms.
        others: The aliases of transforms beside it, which are left out.
    """

    router: ConnectPlugin
    key: ConnectPlugin
    value: ConnectPlugin
    header: ConnectPlugin
    alias: str = "outbox"
    others: tuple[str, ...] = ()

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> "RoutingConfig":
        """Read the flat configuration that Connect gets.

        Raises:
            ConfigError: It has no EventRouter, or several, or leaves key or value converter to the worker.
        """
        aliases = [trim(alias) for alias in config.get("transforms", "").split(",") if trim(alias)]
        types = {alias: config.get(f"transforms.{alias}.type", "") for alias in aliases}
        routers = [alias for alias, name in types.items() if name.endswith("EventRouter")]
        if len(routers) != 1:
            raise ConfigError(
                f"the configuration has {'several EventRouters' if routers else 'no EventRouter'} among its transforms",
                field="transforms",
                hint="Name one transform, and its type io.debezium.transforms.outbox.EventRouter.",
            )
        [alias] = routers
        options = _under(config, f"transforms.{alias}")
        return cls(
            router=ConnectPlugin(
                {"EventRouter": EVENT_ROUTER, "MongoEventRouter": MONGO_EVENT_ROUTER}.get(types[alias], types[alias]),
                {name: value for name, value in options.items() if name not in {"type", "predicate", "negate"}},
            ),
            key=_converter(config, "key.converter"),
            value=_converter(config, "value.converter"),
            header=_converter(config, "header.converter", "SimpleHeaderConverter"),
            alias=alias,
            others=tuple(other for other in aliases if other != alias),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The EventRouter and its converters, running: it remembers, so each connector has its own.

    Args:
        memory: What the router remembers of the records so far.
    """

    router: EventRouter
    key: Converter = STRING
    value: Converter = STRING
    header: Converter = SIMPLE_HEADER
    memory: EnvelopeMemory = field(default_factory=EnvelopeMemory)

    @classmethod
    def from_config(
        cls, config: RoutingConfig, *, version: tuple[int, int] = NEWEST_VERSION, connector: str = ""
    ) -> "Routing":
        """Set up what a configuration describes.

        Args:
            version: Debezium's release, major and minor.
            connector: Debezium's word for the database.

        Raises:
            RoutingError: A component's ``configure()`` throws, and the task fails before its first record.
            ConfigError: It asks for what is not imitated.
        """
        if config.router.java_class != EVENT_ROUTER:
            raise ConfigError(f"{config.router.java_class} is not supported", field="transforms", hint=_ELSEWHERE)
        return cls(
            router=EventRouter.from_options(config.router.options, version=version, connector=connector),
            key=make_converter(config.key),
            value=make_converter(config.value),
            header=_header_converter(config.header),
        )

    def message(self, record: ConnectRecord) -> Message | None:
        """Return the message that a record becomes, ``None`` if none.

        Raises:
            RoutingError: The task would fail.
            ConfigError: The record holds what is not imitated.
        """
        routed = self.router.transform(record, self.memory)
        return None if routed is None else to_message(routed, key=self.key, value=self.value, header=self.header)


def make_converter(component: ConnectPlugin) -> Converter:
    """Return a converter, configured.

    Raises:
        RoutingError: Its ``configure()`` throws.
        ConfigError: It is not imitated.
    """
    options = component.options
    match component.java_class:
        case "org.apache.kafka.connect.storage.StringConverter" if _is_utf8(options):
            return STRING
        case "org.apache.kafka.connect.storage.SimpleHeaderConverter":
            return SIMPLE_HEADER
        case "org.apache.kafka.connect.json.JsonConverter":
            return _json_converter(options)
        case "org.apache.kafka.connect.converters.ByteArrayConverter":
            return BytesConverter()
        case "io.debezium.converters.BinaryDataConverter":
            return BytesConverter(_delegate(options))
        case "io.debezium.converters.ByteArrayConverter":
            return BytesConverter(_delegate(options), takes_buffers=False)
        case other:
            raise ConfigError(f"{other} with these options is not supported", field="converter", hint=_ELSEWHERE)


def _header_converter(component: ConnectPlugin) -> Converter:
    """Return a header converter; Debezium's for bytes never read their delegate then."""
    options = {name: value for name, value in component.options.items() if name != _DELEGATE}
    return make_converter(ConnectPlugin(component.java_class, options))


def _is_utf8(options: Mapping[str, str]) -> bool:
    return options.get("converter.encoding", "UTF-8").upper() in {"UTF-8", "UTF8"}


def _json_converter(options: Mapping[str, str]) -> JsonConverter:
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", trim(options.get("schemas.cache.size", "1000"))):
        raise config_exception("schemas.cache.size is not a number")
    decimals = trim(options.get("decimal.format", "BASE64")).upper()
    if decimals not in {"BASE64", "NUMERIC"}:
        raise config_exception("decimal.format is neither BASE64 nor NUMERIC")
    return JsonConverter(
        schemas_enabled=_switch(options, "schemas.enable"),
        replaces_null=_switch(options, "replace.null.with.default"),
        numeric_decimals=decimals == "NUMERIC",
    )


def _switch(options: Mapping[str, str], option: str) -> bool:
    """Return a switch of Kafka's, on by default."""
    text = trim(options.get(option, "true")).lower()
    if text not in _TRUTH:
        raise config_exception(f"{option} is neither 'true' nor 'false'")
    return _TRUTH[text]


def _delegate(options: Mapping[str, str]) -> Converter | None:
    name = options.get(_DELEGATE)
    return None if name is None else make_converter(ConnectPlugin(name, _under(options, _DELEGATE)))


def _converter(config: Mapping[str, str], option: str, default: str | None = None) -> ConnectPlugin:
    name = config.get(option, default)
    if name is None:
        raise ConfigError(
            f"{option} is missing; the worker's default is unknown here",
            field=option,
            hint=f"Add it to the configuration, or use --set {option}=org.apache.kafka.connect.json.JsonConverter.",
        )
    return ConnectPlugin(CONVERTERS.get(name, name), _under(config, option))


def _under(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the options that begin with a prefix and a dot, without both."""
    return {name[len(prefix) + 1 :]: value for name, value in config.items() if name.startswith(f"{prefix}.")}
