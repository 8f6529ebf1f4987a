"""What goes to ``RouterDriver.java`` and comes back, as JSON."""

import base64
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from cdc_outbox.debezium.event_router import Change, ConnectRecord, ConnectSchema, ConnectStruct, ConnectValue
from cdc_outbox.debezium.event_router.java import JAVA_EXCEPTIONS
from cdc_outbox.debezium.event_router.routing import ConnectPlugin
from cdc_outbox.debezium.event_router.values import Scalar
from cdc_outbox.errors import RoutingError
from cdc_outbox.message import Message

_SHORT_NAMES = {java_class: name for name, java_class in JAVA_EXCEPTIONS.items()}


def component(plugin: ConnectPlugin) -> dict[str, Any]:
    """Return a plugin and its options."""
    return {"class": plugin.java_class, "options": dict(plugin.options)}


def record(asked: ConnectRecord) -> dict[str, Any]:
    """Return a record."""
    return {
        "topic": asked.topic,
        "key": _typed(asked.key),
        "value": {"change": _change(asked.value)} if isinstance(asked.value, Change) else _typed(asked.value),
        "headers": [[name, _typed(held)] for name, held in asked.headers],
        "partition": asked.partition,
        "timestamp": asked.timestamp_ms,
    }


def outcome(answered: Mapping[str, Any]) -> Message | RoutingError | None:
    """Return what became of a record: a message, nothing, or the error that would be raised.

    An exception that :data:`JAVA_EXCEPTIONS` does not have keeps its whole name.
    """
    if "exception" in answered:
        return _error(answered)
    if not answered:
        return None
    return Message(
        topic=answered["topic"],
        partition=answered["partition"],
        timestamp_ms=answered["timestamp"],
        key=_octets(answered["key"]),
        value=_octets(answered["value"]),
        headers=tuple((name, _octets(held)) for name, held in answered["headers"]),
    )


def _error(answered: Mapping[str, Any]) -> RoutingError:
    java_class = answered["exception"]
    exception = _SHORT_NAMES.get(java_class, java_class)
    return RoutingError(answered["text"] or exception, exception=exception, stage=answered["stage"])


def _octets(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def _change(change: Change) -> dict[str, Any]:
    encoded: dict[str, Any] = {"op": change.operation, "time": change.connector_time_ms, "name": change.row_schema}
    if change.document is not None:
        return encoded | {"document": change.document}
    return encoded | {
        "row": None if change.row is None else [[name, _typed(held)] for name, held in change.row.items()]
    }


def _typed(typed: ConnectStruct | ConnectValue | None) -> dict[str, Any] | None:
    match typed:
        case ConnectValue():
            return _schema(typed.schema) | {"value": _scalar(typed.value)}
        case ConnectStruct():
            fields = [
                [name, _schema(schema) | {"value": _scalar(typed.values.get(name))}]
                for name, schema in typed.schema.fields
            ]
            return _schema(typed.schema) | {"fields": fields}
        case None:
            return None


def _schema(schema: ConnectSchema) -> dict[str, Any]:
    return {
        "type": schema.type,
        "name": schema.name,
        "optional": schema.optional,
        "version": schema.version,
        "default": _scalar(schema.default),
        "parameters": schema.parameters,
        "keys": None if schema.keys is None else _schema(schema.keys),
        "items": None if schema.items is None else _schema(schema.items),
    }


def _scalar(value: Scalar | None) -> str | int | None:
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            return str(value)
        case _:
            return value
