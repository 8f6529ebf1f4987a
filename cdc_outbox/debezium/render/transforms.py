"""What becomes of a change until it is a message: its predicate, its transforms and its converters."""

import re
from collections.abc import Iterator, Mapping

from cdc_outbox.contract.outbox_options import OutboxMode
from cdc_outbox.contract.placements import Placement, PlacementKind
from cdc_outbox.databases.database import DatabaseKind
from cdc_outbox.debezium.config import DECODER, MONGO_ROUTER, ROUTER, TOPIC_NAMES
from cdc_outbox.debezium.event_router import EventRouter
from cdc_outbox.debezium.render.capture import exactly, raw_topic, table_keys
from cdc_outbox.debezium.render.options import RenderedOption, option
from cdc_outbox.formats.cloudevents import ROW_HEADERS
from cdc_outbox.formats.event_format import EventFormat, PayloadType
from cdc_outbox.spec import Spec

_STRING_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"
_SIMPLE_CONVERTER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
_JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
BINARY_CONVERTER = "io.debezium.converters.BinaryDataConverter"

_PREDICATE = "isOutbox"
_PAYLOAD_KEYS = ("outbox.payload_type", "outbox.format")
_ROUTER_KEYS: Mapping[str, tuple[str, ...]] = {
    "table.field.event.id": ("outbox.columns.id",),
    "table.field.event.key": ("outbox.columns.aggregate_id",),
    "table.field.event.payload": ("outbox.columns.payload",),
    "table.field.event.timestamp": ("outbox.columns.created_at",),
    "route.by.field": ("outbox.columns.aggregate_type",),
    "route.topic.replacement": ("topics.name",),
}


def pipeline(spec: Spec) -> Iterator[RenderedOption]:
    """Yield what makes messages of what is read."""
    yield option("key.converter", _STRING_CONVERTER)
    yield from _value_converter(spec)
    # A worker may have another, which no consumer expects.
    yield option("header.converter", _SIMPLE_CONVERTER)
    yield option("predicates", _PREDICATE)
    yield option(f"predicates.{_PREDICATE}.type", TOPIC_NAMES)
    yield option(f"predicates.{_PREDICATE}.pattern", exactly(raw_topic(spec)), *_record_keys(spec))
    yield from _decoder(spec)
    yield from _router(spec)


def _record_keys(spec: Spec) -> tuple[str, ...]:
    """Return the keys that decide which records are events."""
    return ("outbox.mode", *table_keys(spec)) if spec.outbox.mode is OutboxMode.MESSAGE else table_keys(spec)


def _value_converter(spec: Spec) -> Iterator[RenderedOption]:
    payload_type, has_envelope = spec.outbox.payload_type, spec.outbox.format is EventFormat.ENVELOPE
    converter, schemas, delegate = _STRING_CONVERTER, "", ""
    if has_envelope or payload_type is PayloadType.EXPANDED:
        # A schema in every message would be larger than most payloads.
        converter, schemas = _JSON_CONVERTER, "false"
    elif payload_type is PayloadType.BYTES:
        # A heartbeat is no bytes, and would fail the task without it.
        converter, delegate = BINARY_CONVERTER, _STRING_CONVERTER
    yield option("value.converter", converter, *_PAYLOAD_KEYS)
    yield option("value.converter.schemas.enable", schemas, *_PAYLOAD_KEYS)
    yield option("value.converter.delegate.converter.type", delegate, *_PAYLOAD_KEYS)


def _decoder(spec: Spec) -> Iterator[RenderedOption]:
    """Yield what makes a logical message look like an inserted row, and the list of the transforms."""
    if spec.outbox.mode is not OutboxMode.MESSAGE:
        yield option("transforms", "outbox")
        return
    yield option("transforms", "decode,outbox", "outbox.mode")
    yield option("transforms.decode.type", DECODER, "outbox.mode")
    # Without this a null has no field at all, and the router fails on a tombstone or an event without a number.
    yield option("transforms.decode.fields.null.include", "true", "outbox.mode")
    yield option("transforms.decode.predicate", _PREDICATE, *_record_keys(spec))


def _router(spec: Spec) -> Iterator[RenderedOption]:
    reads_documents = spec.database.kind is DatabaseKind.MONGODB
    yield option("transforms.outbox.type", MONGO_ROUTER if reads_documents else ROUTER, "database.kind")
    yield option("transforms.outbox.predicate", _PREDICATE, *_record_keys(spec))
    for each in _router_options(spec):
        name = re.sub(r"^table\.", "collection.", each.name) if reads_documents else each.name
        yield option(f"transforms.outbox.{name}", each.value, *each.origins)
    if reads_documents:
        # The payload is a text, and passes as it is.
        yield option("transforms.outbox.collection.expand.json.payload", "false")
    else:
        yield from (option(f"transforms.outbox.{each.name}", each.value, *each.origins) for each in _expansion(spec))
        # The older name of table.field.additional.missing, which Debezium 3.5 reads and later ones pass over: not all
        # connectors come in the same version.
        yield option("transforms.outbox.table.fields.additional.error.on.missing", "false")


def _router_options(spec: Spec) -> Iterator[RenderedOption]:
    """Yield the router's own options, by the names that they have where rows are read."""
    given = event_router_of(spec).options()
    headers = ("outbox.headers",) if spec.outbox.format is EventFormat.PLAIN else ("outbox.headers", "outbox.format")
    keys = {**_ROUTER_KEYS, "table.fields.additional.placement": headers}
    if spec.outbox.mode is OutboxMode.MESSAGE:
        keys["table.field.event.timestamp"] = ("outbox.mode",)  # a logical message has no time of its own
    for name in dict.fromkeys((*given, *keys)):
        yield option(name, given.get(name, ""), *keys.get(name, ()))


def _expansion(spec: Spec) -> Iterator[RenderedOption]:
    """Yield what makes an object of a payload, and keeps in it what Debezium would leave out."""
    expands = spec.outbox.payload_type is PayloadType.EXPANDED
    key, has_envelope = "outbox.payload_type", spec.outbox.format is EventFormat.ENVELOPE
    yield option("table.expand.json.payload", "true" if expands else "", key)
    yield option("table.json.payload.null.behavior", "optional_bytes" if expands else "", key)
    # Debezium before 3.7 does not know it, and drops empty lists.
    yield option("table.json.payload.empty.array.behavior", "optional_string" if expands else "", key)
    # JsonConverter writes the word null for a value that is none; in an envelope there always is one.
    yield option("route.tombstone.on.empty.payload", "true" if expands and not has_envelope else "", key)


def event_router_of(spec: Spec) -> EventRouter:
    """The EventRouter that carries this outbox's rows as this contract wants them."""
    columns = spec.outbox.columns.names()
    fields = {columns[role]: name for role, name in spec.contract.fields.items() if role in columns}
    own = {columns[role]: header for role, header in spec.contract.placed.items() if role in columns}
    for column, name in spec.role_headers.items():
        within = fields if column in fields else own
        within.pop(column, None) if name is None else within.update({column: name})
    placed = [*own.items()]
    placed += spec.outbox.header_columns.items()
    placed += [(columns[role], header) for header, role in ROW_HEADERS[spec.outbox.format].items()]
    return EventRouter(
        id_column=columns["id"],
        key_column=columns["aggregate_id"],
        payload_column=columns["payload"],
        timestamp_column=spec.outbox.timestamp_column,
        route_by_column=columns["aggregate_type"],
        topic_replacement=spec.contract.topic_of("${routedByValue}"),
        # Rows that were written before a header column was added are read after it.
        ignores_missing=True,
        placements=(
            *(Placement(column, PlacementKind.ENVELOPE, name) for column, name in fields.items()),
            *(Placement(column, alias=header) for column, header in placed),
        ),
    )
