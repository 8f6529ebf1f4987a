"""Records that a connector passes to its transforms: a row change, a logical message, a heartbeat. Pure."""

from dataclasses import dataclass, replace

from cdc_outbox.contract.placements import PlacementKind
from cdc_outbox.debezium.event_router import (
    Change,
    ConnectRecord,
    ConnectSchema,
    ConnectStruct,
    ConnectType,
    ConnectValue,
    EventRouter,
    LogicalName,
)
from cdc_outbox.debezium.event_router.record import ENVELOPE_SUFFIX
from cdc_outbox.text_files.document import JsonValue

_FIELDS = frozenset({"before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"})
STRUCTURE = ConnectSchema(type=ConnectType.STRUCT)
MESSAGE = "io.debezium.connector.postgresql.MessageValue"
_HEARTBEAT = ConnectSchema(
    type=ConnectType.STRUCT,
    name="io.debezium.connector.common.Heartbeat",
    fields=(("ts_ms", ConnectSchema(type=ConnectType.INT64, optional=False)),),
)
KEY = ConnectStruct(STRUCTURE, {})
_KEY_OF_HEARTBEAT = ConnectStruct(
    ConnectSchema(type=ConnectType.STRUCT, fields=(("serverName", ConnectSchema(type=ConnectType.STRING)),)), {}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeChange(Change):
    """A change whose envelope fields transforms have changed.

    Its ``connector_time_ms`` is ``None`` if ``ts_ms`` is missing, or no longer a number.
    """

    fields: frozenset[str] = _FIELDS

    @property
    def structure(self) -> ConnectStruct:
        """The structure that the EventRouter receives if the change has no row."""
        schema = ConnectSchema(type=ConnectType.STRING)
        fields = tuple((name, schema) for name in sorted(self.fields))
        return ConnectStruct(replace(STRUCTURE, name=ENVELOPE_SUFFIX, fields=fields), {"op": self.operation})


def fields_of(value: object) -> frozenset[str] | None:
    """Return the names of a structure's fields, ``None`` if they are not known."""
    if isinstance(value, EnvelopeChange):
        return value.fields
    if isinstance(value, ConnectStruct) and value.schema.fields:
        return frozenset(name for name, _ in value.schema.fields)
    return None


def with_fields(value: JsonValue, fields: frozenset[str]) -> JsonValue:
    """Return a structure with these fields if its fields were known."""
    if isinstance(value, EnvelopeChange):
        return replace(value, fields=fields, connector_time_ms=value.connector_time_ms if "ts_ms" in fields else None)
    if isinstance(value, ConnectStruct) and value.schema.fields:
        schema = ConnectSchema(type=ConnectType.STRING)
        return replace(value, schema=replace(value.schema, fields=tuple((name, schema) for name in sorted(fields))))
    return value


def typical_row(routers: list[EventRouter]) -> dict[str, ConnectValue]:
    """Return an outbox row with every column that the routers read, of a type that they support."""
    row = {}
    for router in routers:
        for placement in router.placements:
            integer = placement.kind is PlacementKind.PARTITION
            row[placement.column] = ConnectValue(ConnectType.INT32, 0) if integer else text("x")
        if router.version_column is not None:
            row[router.version_column] = ConnectValue(ConnectType.INT32, 1)
        if router.timestamp_column is not None:
            row[router.timestamp_column] = ConnectValue(ConnectType.INT64, 0, LogicalName.MICRO_TIMESTAMP)
        row |= {column: text("1") for column in (router.id_column, router.key_column)}
        row |= {router.payload_column: text("{}"), router.route_by_column: text("order")}
    return row


def text(value: str) -> ConnectValue:
    """Return a text value of Connect."""
    return ConnectValue(ConnectType.STRING, value)


def change(topic: str, row: dict[str, ConnectValue], *, of_mongo: bool = False) -> ConnectRecord:
    """Return the record of an inserted row or document, before any transform."""
    value = EnvelopeChange(
        row=row, connector_time_ms=0, row_schema=f"{topic}.Value", document="{}" if of_mongo else None
    )
    return ConnectRecord(topic=topic, key=KEY, value=value)


def logical_message(topic: str) -> ConnectRecord:
    """Return the record of a PostgreSQL logical message, before any transform."""
    return ConnectRecord(topic=topic, key=KEY, value=ConnectStruct(replace(STRUCTURE, name=MESSAGE), {}))


def heartbeat(topic: str) -> ConnectRecord:
    """Return the record of a heartbeat."""
    return ConnectRecord(topic=topic, key=_KEY_OF_HEARTBEAT, value=ConnectStruct(_HEARTBEAT, {"ts_ms": 0}))
