"""JSON as Connect's JsonConverter writes it, to the byte."""

import base64
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import assert_never

from cdc_outbox.debezium.event_router.java import conversion_exception
from cdc_outbox.debezium.event_router.values import ConnectSchema, ConnectType, Scalar
from cdc_outbox.errors import ConfigError
from cdc_outbox.formats.envelope import json_text

_TYPE_NAMES = {ConnectType.FLOAT32: "float", ConnectType.FLOAT64: "double"}
_HOLDERS = {ConnectType.ARRAY: {"items": "items"}, ConnectType.MAP: {"keys": "keys", "values": "items"}}
"""What a schema says of the schemas inside it, and where we have them."""


def json_object(members: Iterable[tuple[str, str]]) -> str:
    """Return a JSON object of values that are JSON already."""
    return f"{{{','.join(f'{json_text(name)}:{value}' for name, value in members)}}}"


def json_schema(schema: ConnectSchema, write: Callable[[ConnectSchema, Scalar | None], str]) -> str:
    """Return a schema as JsonConverter puts it beside the payload.

    Args:
        write: Writes a value, for defaults.

    Raises:
        ConfigError: What an array, a map or a struct holds is not known.
    """
    return json_object(_schema_members(schema, write))


def _schema_members(
    schema: ConnectSchema, write: Callable[[ConnectSchema, Scalar | None], str]
) -> list[tuple[str, str]]:
    members = [("type", json_text(_TYPE_NAMES.get(schema.type, schema.type.lower())))]
    if schema.type is ConnectType.STRUCT:
        fields = (
            json_object([*_schema_members(inner, write), ("field", json_text(name))]) for name, inner in schema.fields
        )
        _refuse_unknown(schema, is_known=bool(schema.fields))
        members.append(("fields", f"[{','.join(fields)}]"))
    elif schema.type in _HOLDERS:
        inside = {name: getattr(schema, held) for name, held in _HOLDERS[schema.type].items()}
        _refuse_unknown(schema, is_known=None not in inside.values())
        members += [(name, json_schema(held, write)) for name, held in inside.items()]
    members.append(("optional", "true" if schema.optional else "false"))
    if schema.name is not None:
        members.append(("name", json_text(schema.name)))
    if schema.version is not None:
        members.append(("version", str(schema.version)))
    if schema.parameters:
        members.append(("parameters", json_object((name, json_text(value)) for name, value in schema.parameters)))
    if schema.default is not None:
        members.append(("default", write(schema, schema.default)))
    return members


def _refuse_unknown(schema: ConnectSchema, *, is_known: bool) -> None:
    if not is_known:
        raise ConfigError(f"values of type {schema.type} are not supported here", field=schema.type)


def json_scalar(value: Scalar, schema: ConnectSchema, *, numeric_decimals: bool) -> str:
    """Return a plain value as JSON.

    Raises:
        RoutingError: It is a decimal whose schema says another scale.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case str():
            return json_text(value)
        case bytes():
            return f'"{base64.b64encode(value).decode()}"'
        case Decimal():
            return str(value) if numeric_decimals else f'"{base64.b64encode(_unscaled(value, schema)).decode()}"'
        case _:
            assert_never(value)


def _unscaled(value: Decimal, schema: ConnectSchema) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if dict(schema.parameters).get("scale") != str(-int(exponent)):
        raise conversion_exception("Decimal value has mismatching scale for given Decimal schema")
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    # As BigInteger.toByteArray: the fewest octets of two's complement.
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)
