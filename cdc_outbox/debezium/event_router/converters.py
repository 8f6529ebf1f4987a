"""Connect's converters: a typed value becomes bytes, the same ones as there, or the error."""

import base64
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from cdc_outbox.debezium.event_router.connect_json import json_object, json_scalar, json_schema
from cdc_outbox.debezium.event_router.java import conversion_exception, encode
from cdc_outbox.debezium.event_router.record import Change, ConnectRecord
from cdc_outbox.debezium.event_router.values import (
    CONNECT_DATES,
    ConnectSchema,
    ConnectStruct,
    ConnectType,
    ConnectValue,
    Scalar,
)
from cdc_outbox.errors import ConfigError
from cdc_outbox.message import Message

Convertible = ConnectStruct | ConnectValue | None
"""What a converter is given; ``None`` for neither a value nor a schema."""

_OPAQUE = frozenset({ConnectType.FLOAT32, ConnectType.FLOAT64, ConnectType.ARRAY, ConnectType.MAP, ConnectType.STRUCT})
"""Types whose text differs between releases of Java, or that no row of an outbox is made of."""


class Converter(Protocol):
    """One of Connect's converters, configured.

    A value gives the same bytes every time. It is refused with a :class:`RoutingError` where the real one throws, and
    with a :class:`ConfigError` where what it does is not imitated.
    """

    def convert(self, value: Convertible) -> bytes | None:
        """Return the bytes, ``None`` for a null in the record."""


@dataclass(frozen=True, slots=True)
class StringConverter:
    """``org.apache.kafka.connect.storage.StringConverter``: what Java's ``toString`` says, of bytes nothing useful."""

    def convert(self, value: Convertible) -> bytes | None:
        """Return the text in UTF-8."""
        match value:
            case ConnectStruct():
                return encode(_struct_text(value))
            case ConnectValue(value=scalar) if scalar is not None:
                _refuse_opaque(value.schema)
                _refuse_dates(value.schema)
                return encode(_text(scalar))
            case _:
                return None


@dataclass(frozen=True, slots=True)
class SimpleHeaderConverter:
    """``org.apache.kafka.connect.storage.SimpleHeaderConverter``, the worker's default: as text, bytes as base64."""

    def convert(self, value: Convertible) -> bytes | None:
        """Return the text in UTF-8."""
        if not isinstance(value, ConnectValue):
            raise ConfigError("a header with a struct is not supported", field="header", hint=_ELSEWHERE)
        if value.value is None:
            return None
        _refuse_opaque(value.schema)
        _refuse_dates(value.schema)
        return base64.b64encode(value.value) if isinstance(value.value, bytes) else encode(_text(value.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonConverter:
    """``org.apache.kafka.connect.json.JsonConverter``.

    Args:
        schemas_enabled: Each message tells its schema, and the payload beside it.
        replaces_null: A default takes the place of a null (``replace.null.with.default``).
        numeric_decimals: ``decimal.format=NUMERIC``.
    """

    schemas_enabled: bool = True
    replaces_null: bool = True
    numeric_decimals: bool = False

    def convert(self, value: Convertible) -> bytes | None:
        """Return the JSON in UTF-8."""
        if value is None:
            return None
        schema = value.schema
        if self.schemas_enabled:
            beside = json_schema(schema, self._scalar)
            return encode(json_object([("schema", beside), ("payload", self._json(value))]))
        return encode(self._json(value))

    def _json(self, value: ConnectStruct | ConnectValue) -> str:
        if isinstance(value, ConnectValue):
            return self._scalar(value.schema, value.value)
        return json_object((name, self._scalar(inner, value.values.get(name))) for name, inner in value.schema.fields)

    def _scalar(self, schema: ConnectSchema, value: Scalar | None) -> str:
        if value is None:
            if schema.default is not None and self.replaces_null:
                return self._scalar(schema, schema.default)
            if schema.optional:
                return "null"
            raise conversion_exception("Conversion error: null value for field that is required and has no default")
        _refuse_opaque(schema)
        return json_scalar(value, schema, numeric_decimals=self.numeric_decimals)


@dataclass(frozen=True, slots=True)
class BytesConverter:
    """Kafka's and Debezium's converters for bytes, which pass them on, and differ in what else they take.

    Args:
        delegate: Converts everything else (``delegate.converter.type``); without it everything else fails.
        takes_buffers: Not so Debezium's ``ByteArrayConverter``, which gives them to its delegate: the relational
            connectors' bytes are buffers.
    """

    delegate: Converter | None = None
    takes_buffers: bool = True

    def convert(self, value: Convertible) -> bytes | None:
        """Return the bytes as they are, or what the delegate makes of another value."""
        if value is None:
            return None
        if isinstance(value, ConnectValue) and value.type is ConnectType.BYTES:
            if value.value is None:
                return None
            if isinstance(value.value, bytes) and self.takes_buffers:
                return value.value
        if self.delegate is None:
            raise conversion_exception("a value that is not bytes requires a delegate.converter.type")
        return self.delegate.convert(value)


STRING = StringConverter()
SIMPLE_HEADER = SimpleHeaderConverter()

_ELSEWHERE = "Use `cdc-outbox simulate --engine real`, which runs Debezium's own EventRouter."


def to_message(record: ConnectRecord, *, key: Converter, value: Converter, header: Converter) -> Message:
    """Return the message that a record becomes, in the order in which Connect's worker converts it.

    Raises:
        RoutingError: A converter throws, and the task fails.
        ConfigError: A value is of a kind whose conversion is not imitated.
    """
    if isinstance(record.value, Change):
        raise ConfigError(
            "a change event that no EventRouter has read is not supported", field="value", hint=_ELSEWHERE
        )
    return Message(
        topic=record.topic,
        headers=tuple((name, header.convert(held)) for name, held in record.headers),
        key=key.convert(record.key),
        value=value.convert(record.value),
        timestamp_ms=record.timestamp_ms,
        partition=record.partition,
    )


def _text(value: Scalar) -> str:
    """Return what Java's ``toString`` says; a decimal's is Python's."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            return f"java.nio.HeapByteBuffer[pos=0 lim={len(value)} cap={len(value)}]"
        case str() | int() | Decimal():
            return str(value)


def _struct_text(struct: ConnectStruct) -> str:
    shown = []
    for name, schema in struct.schema.fields:
        value = struct.values.get(name)
        if value is not None:
            _refuse_opaque(schema)
            _refuse_dates(schema)
            shown.append(f"{name}={_text(value)}")
    return f"Struct{{{','.join(shown)}}}"


def _refuse_opaque(schema: ConnectSchema) -> None:
    if schema.type in _OPAQUE:
        raise ConfigError(f"converting a {schema.type} is not supported", field=schema.type, hint=_ELSEWHERE)


def _refuse_dates(schema: ConnectSchema) -> None:
    if schema.name in CONNECT_DATES:
        raise ConfigError(f"the text form of a {schema.name} is not supported", field=schema.type, hint=_ELSEWHERE)
