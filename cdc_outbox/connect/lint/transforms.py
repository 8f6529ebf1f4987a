"""What a connector's transforms and predicates make of a record, as far as that is known. Pure.

As in :mod:`cdc_outbox.router`, a :class:`RoutingError` means that the task would fail on the record, and a
:class:`ConfigError` that it is not known what would become of it.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from cdc_outbox.connect.lint.config import DECODER, MONGO_ROUTER, ROUTER, Config, Kind, Plugin, Router, is_reference
from cdc_outbox.connect.lint.java import compiled, matches
from cdc_outbox.errors import ConfigError, RoutingError
from cdc_outbox.router import (
    Change,
    ConnectRecord,
    ConnectSchema,
    ConnectStruct,
    ConnectType,
    ConnectValue,
    EventRouter,
    LogicalName,
    PlacementKind,
)
from cdc_outbox.router.envelope import EnvelopeMemory
from cdc_outbox.router.java_regex import InvalidRegexError, replace_first

_KAFKA = "org.apache.kafka.connect.transforms."
_DEBEZIUM = "io.debezium.transforms."
TOPIC_NAMES = f"{_KAFKA}predicates.TopicNameMatches"
_TOMBSTONES = f"{_KAFKA}predicates.RecordIsTombstone"
_HEADER_KEY = f"{_KAFKA}predicates.HasHeaderKey"
TIMESTAMP_ROUTER = f"{_KAFKA}TimestampRouter"

UNWRAPPING = frozenset(
    {f"{_DEBEZIUM}ExtractNewRecordState", "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState"}
)
"""They take the envelope off a change, and leave other records as they are."""

_LEAVE_CHANGES = frozenset(
    {
        *(
            f"{_DEBEZIUM}{name}"
            for name in (
                "ExtractChangedRecordState",
                "GeometryFormatTransformer",
                "SwapGeometryCoordinates",
                "TimezoneConverter",
                "VectorToJsonConverter",
                "openlineage.OpenLineage",
                "partitions.PartitionRouting",
                "tracing.ActivateTracingSpan",
            )
        ),
        "io.debezium.connector.mysql.transforms.ReadToInsertEvent",
    }
)
"""They leave a change under its topic, and the columns of an outbox as they are."""

_NEED_A_STRUCTURE = frozenset(
    {
        *(
            f"{_KAFKA}{name}"
            for name in (
                "ExtractField",
                "Flatten",
                "InsertField",
                "MaskField",
                "ReplaceField",
                "SetSchemaMetadata",
                "TimestampConverter",
                "ValueToKey",
            )
        ),
        f"{_DEBEZIUM}partitions.PartitionRouting",
    }
)
_SCRIPTS = frozenset({f"{_DEBEZIUM}Filter", f"{_DEBEZIUM}ContentBasedRouter"})
_ENVELOPE = frozenset({"before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"})
_STRUCTURE = ConnectSchema(type=ConnectType.STRUCT)
_MESSAGE = "io.debezium.connector.postgresql.MessageValue"
_HEARTBEAT = ConnectSchema(
    type=ConnectType.STRUCT,
    name="io.debezium.connector.common.Heartbeat",
    fields=(("ts_ms", ConnectSchema(type=ConnectType.INT64, optional=False)),),
)
_KEY = ConnectStruct(_STRUCTURE, {})
_KEY_OF_HEARTBEAT = ConnectStruct(
    ConnectSchema(type=ConnectType.STRUCT, fields=(("serverName", ConnectSchema(type=ConnectType.STRING)),)), {}
)

_Transform = Callable[[Plugin, ConnectRecord], ConnectRecord | None]


def compiled_router(router: Router, config: Config) -> tuple[EventRouter, bool]:
    """Return a router that routes as this one does, and whether the topics that it gives are known.

    JSON is not expanded. MongoDB's options are those of the usual router under another name.

    Raises:
        RoutingError: The real one's ``configure()`` throws.
        ConfigError: It cannot be imitated.
    """
    options = {
        f"table.{option.removeprefix('collection.')}" if option.startswith("collection.") else option: value
        for option, value in router.options.items()
        if not option.endswith(".expand.json.payload")
    }
    knows = _is_known(router.get("route.topic.regex")) and not is_reference(router.get("route.topic.replacement"))
    if not knows:
        options = {option: value for option, value in options.items() if not option.startswith("route.topic.re")}
    connector = "oracle" if config.kind is Kind.ORACLE else ""
    version = (config.version[0], config.version[1])
    return EventRouter.from_options(options, version=version, connector=connector), knows


def _is_known(regex: str) -> bool:
    try:
        return compiled(regex) is not None
    except InvalidRegexError:
        return True  # EventRouter refuses it, as the real one does


def typical_row(routers: list[EventRouter]) -> dict[str, ConnectValue]:
    """Return an outbox's row with every column that the routers read, of a type that they take."""
    row = {}
    for router in routers:
        for placement in router.placements:
            integer = placement.kind is PlacementKind.PARTITION
            row[placement.column] = ConnectValue(ConnectType.INT32, 0) if integer else _text("x")
        if router.version_column is not None:
            row[router.version_column] = ConnectValue(ConnectType.INT32, 1)
        if router.timestamp_column is not None:
            row[router.timestamp_column] = ConnectValue(ConnectType.INT64, 0, LogicalName.MICRO_TIMESTAMP)
        row |= {column: _text("1") for column in (router.id_column, router.key_column)}
        row |= {router.payload_column: _text("{}"), router.route_by_column: _text("order")}
    return row


def _text(value: str) -> ConnectValue:
    return ConnectValue(ConnectType.STRING, value)


def change(topic: str, row: dict[str, ConnectValue]) -> ConnectRecord:
    """Return the record of an inserted row, before any transform."""
    value = Change(row=row, connector_time_ms=0, row_schema=f"{topic}.Value")
    return ConnectRecord(topic=topic, key=_KEY, value=value)


def logical_message(topic: str) -> ConnectRecord:
    """Return the record of a logical message of PostgreSQL's, before any transform."""
    return ConnectRecord(topic=topic, key=_KEY, value=ConnectStruct(replace(_STRUCTURE, name=_MESSAGE), {}))


def heartbeat(topic: str) -> ConnectRecord:
    """Return the record of a heartbeat."""
    return ConnectRecord(topic=topic, key=_KEY_OF_HEARTBEAT, value=ConnectStruct(_HEARTBEAT, {"ts_ms": 0}))


def keeps_topic(plugin: Plugin) -> bool:
    """Tell whether a transform is known to leave the topics of what no router has routed as they are."""
    name = plugin.type.removeprefix(_KAFKA)
    keeps = {ROUTER, MONGO_ROUTER, DECODER, *UNWRAPPING, *_LEAVE_CHANGES}
    return plugin.type in keeps or (name in _KNOWN and name not in _RENAMING)


def holds(predicate: Plugin, record: ConnectRecord) -> bool:
    """Tell whether a predicate is true of a record.

    Raises:
        ConfigError: That is not known.
    """
    answer = None
    if predicate.type == TOPIC_NAMES and record.topic:
        # Lists are compared without regard to case: the case that a table's name has in its topic is not known.
        answers = {matches(predicate.get("pattern"), record.topic, ignores_case=ignores) for ignores in (False, True)}
        answer = answers.pop() if len(answers) == 1 else None
    elif predicate.type == _TOMBSTONES:
        answer = record.value is None
    elif predicate.type == _HEADER_KEY and not predicate.get("name").startswith("__debezium"):
        answer = predicate.get("name") in dict(record.headers)
    if answer is None:
        raise ConfigError(f"what the predicate {predicate.alias} answers is not known")
    return answer


def transformed(plugin: Plugin, record: ConnectRecord, row: dict[str, ConnectValue]) -> ConnectRecord | None:
    """Return what a transform other than a router makes of a record, ``None`` where it drops it.

    Args:
        row: What a decoded message holds.

    Raises:
        RoutingError: The task fails on it.
        ConfigError: What becomes of it is not known.
    """
    if plugin.type in _NEED_A_STRUCTURE and isinstance(_side(plugin, record), ConnectValue):
        raise RoutingError("it needs a structure, and gets text or bytes", exception="DataException")
    if plugin.type in _SCRIPTS:
        return _scripted(plugin, record)
    if plugin.type in _LEAVE_CHANGES and isinstance(record.value, Change):
        return record
    if plugin.type in UNWRAPPING:
        return _unwrapped(record)
    if plugin.type == DECODER:
        is_message = isinstance(record.value, ConnectStruct) and record.value.schema.name == _MESSAGE
        return change(record.topic, row) if is_message else record
    known = _KNOWN.get(plugin.type.removeprefix(_KAFKA)) or _KNOWN.get(plugin.type)
    if known is None:
        raise _unknown(plugin)
    return known(plugin, record)


def routed(router: Router, real: EventRouter, record: ConnectRecord, *, knows_topic: bool) -> ConnectRecord | None:
    """Return what a router makes of a record; an expanded payload is a structure of fields that are not known.

    Raises:
        RoutingError: The task fails on it.
        ConfigError: What becomes of it is not known.
    """
    found = real.transform(record, EnvelopeMemory())
    if found is None or not isinstance(record.value, Change):
        return found
    if not knows_topic:
        found = replace(found, topic="")
    return replace(found, value=ConnectStruct(_STRUCTURE, {})) if router.expands else found


def _unknown(plugin: Plugin) -> ConfigError:
    return ConfigError(f"what {plugin.alias} makes of it is not known")


def _is_for_keys(plugin: Plugin) -> bool:
    return plugin.options.get("type", "").strip().endswith("$Key")


def _side(plugin: Plugin, record: ConnectRecord) -> object:
    return record.key if _is_for_keys(plugin) else record.value


def _scripted(plugin: Plugin, record: ConnectRecord) -> ConnectRecord:
    script, topics = plugin.get("condition") or plugin.get("topic.expression"), plugin.get("topic.regex")
    asked = matches(topics, record.topic) if topics and record.topic else not topics
    if asked is False:
        return record
    if asked and isinstance(record.value, ConnectValue) and "value." in script:
        raise RoutingError("its script reads a field, and the value is text or bytes", exception="DebeziumException")
    raise _unknown(plugin)


def _unwrapped(record: ConnectRecord) -> ConnectRecord:
    return replace(record, value=ConnectStruct(_STRUCTURE, {})) if isinstance(record.value, Change) else record


def _renamed(plugin: Plugin, record: ConnectRecord) -> ConnectRecord:
    """Return the record under the topic that RegexRouter or Debezium's router of logical tables gives it."""
    of_debezium = plugin.type.startswith(_DEBEZIUM)
    regex, replacement = (f"topic.{name}" if of_debezium else name for name in ("regex", "replacement"))
    try:
        pattern = compiled(plugin.get(regex))
    except InvalidRegexError as reason:
        raise RoutingError(str(reason), exception="ConfigException", stage="configure") from reason
    if pattern is None or not record.topic or is_reference(plugin.get(replacement)):
        return replace(record, topic="")
    if not pattern.fullmatch(record.topic):
        return record
    if of_debezium and not isinstance(record.value, Change):
        raise _unknown(plugin)
    topic = replace_first(pattern, record.topic, plugin.get(replacement))
    if not isinstance(record.value, Change) and not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic):
        raise RoutingError("it gives a topic that no broker takes", exception="InvalidTopicException")
    return replace(record, topic=topic)


def _dated(plugin: Plugin, record: ConnectRecord) -> ConnectRecord:
    if record.timestamp_ms is None:
        raise RoutingError("it has no timestamp", exception="DataException")
    form = plugin.get("topic.format", "${topic}-${timestamp}")
    topic = form.replace("${topic}", record.topic).replace("${timestamp}", "19700101")
    return replace(record, topic=topic if record.topic else "")


def _extracted(plugin: Plugin, record: ConnectRecord) -> ConnectRecord:
    side, name = _side(plugin, record), plugin.get("field")
    fields = [field for field, _ in side.schema.fields] if isinstance(side, ConnectStruct) else []
    if fields and name not in fields and plugin.get("field.syntax.version", "V1").upper() == "V1":
        raise RoutingError(f"there is no field {name}", exception="IllegalArgumentException")
    if _is_for_keys(plugin):
        return replace(record, key=_text("1"))
    if isinstance(record.value, Change) and plugin.get("field") in {"before", "after", "source"}:
        return _unwrapped(record)
    raise _unknown(plugin)


def _replaced(plugin: Plugin, record: ConnectRecord) -> ConnectRecord:
    named = set(
        ",".join(plugin.get(option) for option in ("exclude", "renames", "blacklist")).replace(":", ",").split(",")
    )
    narrows = plugin.get("include") or plugin.get("whitelist") or named & _ENVELOPE
    if isinstance(record.value, Change) and narrows and not _is_for_keys(plugin):
        raise _unknown(plugin)
    return record


def _named_anew(plugin: Plugin, record: ConnectRecord) -> ConnectRecord:
    """Return the record under another schema's name, by which a router may know it for a change no more."""
    name = plugin.get("schema.name")
    if _is_for_keys(plugin) or not name or name.endswith(".Envelope"):
        return record
    return _unwrapped(record)


def _cast(plugin: Plugin, record: ConnectRecord) -> ConnectRecord:
    """Return the record as it is: which type a text has makes no difference here."""
    takes_fields, is_text = ":" in plugin.get("spec"), isinstance(_side(plugin, record), ConnectValue)
    if takes_fields is is_text:
        needed = "a structure, and gets text or bytes" if takes_fields else "text or bytes, and gets a structure"
        raise RoutingError(f"it needs {needed}", exception="DataException")
    if isinstance(record.value, Change) and not _is_for_keys(plugin):
        raise _unknown(plugin)
    return record


def _keyed(plugin: Plugin, record: ConnectRecord) -> ConnectRecord:
    """Return the record with a key of fields of its value."""
    fields = {name.strip() for name in plugin.get("fields").split(",")}
    if isinstance(record.value, Change):
        there: frozenset[str] | set[str] = _ENVELOPE
    elif isinstance(record.value, ConnectStruct) and record.value.schema.fields:
        there = {name for name, _ in record.value.schema.fields}
    else:
        raise _unknown(plugin)
    missing = sorted(fields - there)
    if missing:
        raise RoutingError(f"the value has no field {missing[0]}", exception="DataException")
    return replace(record, key=_KEY)


def _flattened(plugin: Plugin, record: ConnectRecord) -> ConnectRecord:
    if isinstance(record.value, Change) and not _is_for_keys(plugin):
        raise _unknown(plugin)
    return record


def _hoisted(plugin: Plugin, record: ConnectRecord) -> ConnectRecord:
    structure = ConnectStruct(_STRUCTURE, {})
    return replace(record, key=structure) if _is_for_keys(plugin) else replace(record, value=structure)


def _same(_plugin: Plugin, record: ConnectRecord) -> ConnectRecord:
    return record


def _dropped(_plugin: Plugin, _record: ConnectRecord) -> None:
    return None


def _with_header(plugin: Plugin, record: ConnectRecord) -> ConnectRecord:
    return replace(record, headers=(*record.headers, (plugin.get("header"), _text("x"))))


def _without_headers(plugin: Plugin, record: ConnectRecord) -> ConnectRecord:
    names = {name.strip() for name in plugin.get("headers").split(",")}
    return replace(record, headers=tuple(header for header in record.headers if header[0] not in names))


_KNOWN: dict[str, _Transform] = {
    "Cast": _cast,
    "DropHeaders": _without_headers,
    "ExtractField": _extracted,
    "Filter": _dropped,
    "Flatten": _flattened,
    "HoistField": _hoisted,
    "InsertField": _same,
    "InsertHeader": _with_header,
    "MaskField": _same,
    "RegexRouter": _renamed,
    "ReplaceField": _replaced,
    "SetSchemaMetadata": _named_anew,
    "TimestampConverter": _same,
    "TimestampRouter": _dated,
    "ValueToKey": _keyed,
    f"{_DEBEZIUM}ByLogicalTableRouter": _renamed,
}
"""By the name of the class, without Kafka's package."""

_RENAMING = frozenset({"RegexRouter", "TimestampRouter", f"{_DEBEZIUM}ByLogicalTableRouter"})
"""Of these, what gives records other topics."""
