"""How a connector's transforms and predicates change a record, as far as that is known. Pure.

As in :mod:`cdc_outbox.debezium.event_router`, a :class:`RoutingError` means that the task would fail on the record, and
a :class:`ConfigError` that the result is not known.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from cdc_outbox.debezium.config import (
    DECODER,
    MONGO_ROUTER,
    ROUTER,
    TOPIC_NAMES,
    ConfiguredPlugin,
    is_reference,
    listed,
)
from cdc_outbox.debezium.event_router import Change, ConnectRecord, ConnectStruct, ConnectValue
from cdc_outbox.debezium.java_regex import InvalidRegexError, matches, read_regex
from cdc_outbox.debezium.lint.records import (
    KEY,
    MESSAGE,
    STRUCTURE,
    EnvelopeChange,
    change,
    fields_of,
    text,
    with_fields,
)
from cdc_outbox.debezium.regex_program import UnknownRegexError
from cdc_outbox.errors import ConfigError, RoutingError

_KAFKA = "org.apache.kafka.connect.transforms."
_DEBEZIUM = "io.debezium.transforms."
_TOMBSTONES = f"{_KAFKA}predicates.RecordIsTombstone"
_HEADER_KEY = f"{_KAFKA}predicates.HasHeaderKey"
TIMESTAMP_ROUTER = f"{_KAFKA}TimestampRouter"

UNWRAPPING = frozenset(
    {f"{_DEBEZIUM}ExtractNewRecordState", "io.debezium.connector.mongodb.transforms.ExtractNewDocumentState"}
)
"""Transforms that remove the envelope of a change, and do not change other records."""

_KEEPING_CHANGES = frozenset(
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
"""Transforms that change neither the topic of a change nor the columns of an outbox."""

_NEED_A_STRUCTURE = frozenset(
    {
        *(
            f"{_KAFKA}{name}"
            for name in (
                "ExtractField",
                "Flatten",
                "HeaderFrom",
                "InsertField",
                "MaskField",
                "ReplaceField",
                "SetSchemaMetadata",
                "TimestampConverter",
                "ValueToKey",
            )
        ),
        f"{_DEBEZIUM}HeaderToValue",
        f"{_DEBEZIUM}partitions.PartitionRouting",
    }
)
_READ_BY_ROUTERS = frozenset({"op", "after", "ts_ms"})
"""Envelope fields that a router reads; ``ts_ms`` only if no column contains the event's time."""
_SCRIPTS = frozenset({f"{_DEBEZIUM}Filter", f"{_DEBEZIUM}ContentBasedRouter"})
_Transform = Callable[[ConfiguredPlugin, ConnectRecord], ConnectRecord | None]


def keeps_topic(plugin: ConfiguredPlugin) -> bool:
    """Return whether a transform is known to keep the topics of records that no router has routed."""
    name = plugin.type.removeprefix(_KAFKA)
    keeps = {ROUTER, MONGO_ROUTER, DECODER, *UNWRAPPING, *_KEEPING_CHANGES}
    return plugin.type in keeps or (name in _KNOWN and name not in _RENAMING)


def holds(predicate: ConfiguredPlugin, record: ConnectRecord) -> bool:
    """Return whether a predicate is true for a record.

    Raises:
        ConfigError: The result is not known.
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
        raise ConfigError(f"the result of the predicate {predicate.alias} is not known")
    return answer


def transformed(plugin: ConfiguredPlugin, record: ConnectRecord, row: dict[str, ConnectValue]) -> ConnectRecord | None:
    """Return the result of a transform other than a router, ``None`` if it drops the record.

    Args:
        row: The content of a decoded message.

    Raises:
        RoutingError: The task fails on the record.
        ConfigError: The result is not known.
    """
    if plugin.type in _NEED_A_STRUCTURE and isinstance(_side(plugin, record), ConnectValue):
        raise RoutingError("it needs a structure, and receives text or bytes", exception="DataException")
    if plugin.type in _SCRIPTS:
        return _scripted(plugin, record)
    if plugin.type in _KEEPING_CHANGES and isinstance(record.value, Change):
        return record
    if plugin.type in UNWRAPPING:
        return _unwrapped(record)
    if plugin.type == DECODER:
        is_message = isinstance(record.value, ConnectStruct) and record.value.schema.name == MESSAGE
        return change(record.topic, row) if is_message else record
    known = _KNOWN.get(plugin.type.removeprefix(_KAFKA)) or _KNOWN.get(plugin.type)
    if known is None:
        raise _unknown(plugin)
    return known(plugin, record)


def _unknown(plugin: ConfiguredPlugin) -> ConfigError:
    return ConfigError(f"the result of the transform {plugin.alias} is not known")


def _is_for_keys(plugin: ConfiguredPlugin) -> bool:
    return plugin.options.get("type", "").strip().endswith("$Key")


def _side(plugin: ConfiguredPlugin, record: ConnectRecord) -> object:
    return record.key if _is_for_keys(plugin) else record.value


def _with_fields(plugin: ConfiguredPlugin, record: ConnectRecord, fields: frozenset[str]) -> ConnectRecord:
    """Return the record with these fields in the structure that a transform changes."""
    if _is_for_keys(plugin):
        return replace(record, key=with_fields(record.key, fields))
    return replace(record, value=with_fields(record.value, fields))


def _scripted(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    script, topics = plugin.get("condition") or plugin.get("topic.expression"), plugin.get("topic.regex")
    asked = matches(topics, record.topic) if topics and record.topic else not topics
    if asked is False:
        return record
    if asked and isinstance(record.value, ConnectValue) and "value." in script:
        raise RoutingError("its script reads a field, and the value is text or bytes", exception="DebeziumException")
    raise _unknown(plugin)


def _unwrapped(record: ConnectRecord) -> ConnectRecord:
    return replace(record, value=ConnectStruct(STRUCTURE, {})) if isinstance(record.value, Change) else record


def _renamed(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    """Return the record with the topic that RegexRouter or ByLogicalTableRouter sets."""
    of_debezium = plugin.type.startswith(_DEBEZIUM)
    regex, replacement = (f"topic.{name}" if of_debezium else name for name in ("regex", "replacement"))
    try:
        pattern = read_regex(plugin.get(regex))
    except InvalidRegexError as reason:
        raise RoutingError(str(reason), exception="ConfigException", stage="configure") from reason
    except UnknownRegexError:
        return replace(record, topic="")
    if not record.topic or is_reference(plugin.get(replacement)):
        return replace(record, topic="")
    if not pattern.fullmatch(record.topic):
        return record
    if of_debezium and not isinstance(record.value, Change):
        raise _unknown(plugin)
    topic = pattern.replace_first(record.topic, plugin.get(replacement))
    if not isinstance(record.value, Change) and not re.fullmatch(r"[A-Za-z0-9._-]{1,249}", topic):
        raise RoutingError("it sets an invalid topic name", exception="InvalidTopicException")
    return replace(record, topic=topic)


def _dated(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    if record.timestamp_ms is None:
        raise RoutingError("the record has no timestamp", exception="DataException")
    form = plugin.get("topic.format", "${topic}-${timestamp}")
    topic = form.replace("${topic}", record.topic).replace("${timestamp}", "19700101")
    return replace(record, topic=topic if record.topic else "")


def _extracted(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    name, fields = plugin.get("field"), fields_of(_side(plugin, record))
    if plugin.get("field.syntax.version", "V1").upper() != "V1":
        raise _unknown(plugin)
    if fields is not None and name not in fields:
        raise RoutingError(f"the record has no field {name}", exception="IllegalArgumentException")
    if _is_for_keys(plugin):
        return replace(record, key=text("1"))
    if isinstance(record.value, Change) and name in {"before", "after", "source"}:
        return _unwrapped(record)
    if isinstance(record.value, Change) and name in {"op", "ts_ms", "ts_us", "ts_ns"}:
        return replace(record, value=text("c"))
    raise _unknown(plugin)


def _replaced(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    fields = fields_of(_side(plugin, record))
    if fields is None:
        return record
    if plugin.get("whitelist") or plugin.get("blacklist"):
        raise _unknown(plugin)  # read by Kafka before 4.0
    included, excluded = listed(plugin.get("include")), listed(plugin.get("exclude"))
    renames = dict(entry.partition(":")[::2] for entry in listed(plugin.get("renames")))
    if renames.keys() & _READ_BY_ROUTERS or set(renames.values()) & _READ_BY_ROUTERS:
        raise _unknown(plugin)
    kept = {name for name in fields if name not in excluded and (not included or name in included)}
    return _with_fields(plugin, record, frozenset(renames.get(name, name) for name in kept))


def _inserted(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    sources = ("offset", "partition", "static", "timestamp", "topic")
    return _widened(plugin, record, *(plugin.get(f"{source}.field").rstrip("!?") for source in sources))


def _widened(plugin: ConfiguredPlugin, record: ConnectRecord, *names: str) -> ConnectRecord:
    """Return the record with additional fields in the structure that a transform changes."""
    fields = fields_of(_side(plugin, record))
    return record if fields is None else _with_fields(plugin, record, fields | set(filter(None, names)))


def _masked(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    if isinstance(record.value, Change) and _READ_BY_ROUTERS & set(listed(plugin.get("fields"))):
        raise _unknown(plugin)
    return record


def _with_field_as_header(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    names, fields = listed(plugin.get("fields")), fields_of(_side(plugin, record))
    if fields is None:
        raise _unknown(plugin)
    missing = sorted(set(names) - fields)
    if missing:
        raise RoutingError(f"the record has no field {missing[0]}", exception="NullPointerException")
    headers = tuple((name, text("x")) for name in listed(plugin.get("headers")))
    if plugin.get("operation").lower() == "move":
        record = _with_fields(plugin, record, fields - set(names))
    return replace(record, headers=(*record.headers, *headers))


def _with_header_as_field(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    """Return a record without any of the headers unchanged; the fields of other records are not known."""
    if set(listed(plugin.get("headers"))) & dict(record.headers).keys():
        raise _unknown(plugin)
    return record


def _with_schema_name(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    """Return the record with another schema name; a router may then no longer recognize it as a change."""
    name = plugin.get("schema.name")
    if _is_for_keys(plugin) or not name or name.endswith(".Envelope"):
        return record
    return _unwrapped(record)


def _cast(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    """Return the record; only the type of ``ts_ms`` matters to the router."""
    takes_fields, is_text = ":" in plugin.get("spec"), isinstance(_side(plugin, record), ConnectValue)
    if takes_fields is is_text:
        needed = (
            "a structure, and receives text or bytes" if takes_fields else "text or bytes, and receives a structure"
        )
        raise RoutingError(f"it needs {needed}", exception="DataException")
    types = dict(entry.partition(":")[::2] for entry in listed(plugin.get("spec")))
    return _retyped(plugin, record, {name for name, kind in types.items() if (name, kind) != ("ts_ms", "int64")})


def _converted(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    return _retyped(plugin, record, {plugin.get("field")} if plugin.get("target.type") != "unix" else set())


def _retyped(plugin: ConfiguredPlugin, record: ConnectRecord, names: set[str]) -> ConnectRecord:
    """Return the record with changed types of these fields."""
    if _is_for_keys(plugin) or not isinstance(record.value, EnvelopeChange) or not names & _READ_BY_ROUTERS:
        return record
    if names & {"op", "after"}:
        raise _unknown(plugin)
    return replace(record, value=replace(record.value, connector_time_ms=None))


def _keyed(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    """Return the record with a key that consists of fields of its value."""
    there = fields_of(record.value)
    if there is None:
        raise _unknown(plugin)
    missing = sorted(set(listed(plugin.get("fields"))) - there)
    if missing:
        raise RoutingError(f"the value has no field {missing[0]}", exception="DataException")
    return replace(record, key=KEY)


def _flattened(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    if not isinstance(record.value, EnvelopeChange) or _is_for_keys(plugin):
        return record
    if record.value.document is not None:
        raise _unknown(plugin)  # MongoDB's documents are text, and are not flattened
    return _with_fields(plugin, record, record.value.fields - {"before", "after", "source"})


def _hoisted(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    structure = ConnectStruct(STRUCTURE, {})
    return replace(record, key=structure) if _is_for_keys(plugin) else replace(record, value=structure)


def _dropped(_plugin: ConfiguredPlugin, _record: ConnectRecord) -> None:
    return None


def _with_header(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    return replace(record, headers=(*record.headers, (plugin.get("header"), text("x"))))


def _without_headers(plugin: ConfiguredPlugin, record: ConnectRecord) -> ConnectRecord:
    names = listed(plugin.get("headers"))
    return replace(record, headers=tuple(header for header in record.headers if header[0] not in names))


_KNOWN: dict[str, _Transform] = {
    "Cast": _cast,
    "DropHeaders": _without_headers,
    "ExtractField": _extracted,
    "Filter": _dropped,
    "Flatten": _flattened,
    "HeaderFrom": _with_field_as_header,
    "HoistField": _hoisted,
    "InsertField": _inserted,
    "InsertHeader": _with_header,
    "MaskField": _masked,
    "RegexRouter": _renamed,
    "ReplaceField": _replaced,
    "SetSchemaMetadata": _with_schema_name,
    "TimestampConverter": _converted,
    "TimestampRouter": _dated,
    "ValueToKey": _keyed,
    f"{_DEBEZIUM}ByLogicalTableRouter": _renamed,
    f"{_DEBEZIUM}HeaderToValue": _with_header_as_field,
}
"""By class name, without Kafka's package."""

_RENAMING = frozenset({"RegexRouter", "TimestampRouter", f"{_DEBEZIUM}ByLogicalTableRouter"})
"""Those of these transforms that change the topic."""
