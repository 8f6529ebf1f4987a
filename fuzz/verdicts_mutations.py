"""Right configurations of a PostgreSQL pipeline, each with one mutation or two that decide whether an event arrives.

What lint cannot know is not mutated: names of columns, slots and publications that only the database has, how many
brokers there are. Nor is what shows only when something breaks down.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from cdc_outbox.databases.database import DatabaseKind
from tests.proofs.proof import Changes, config_with
from tests.support.configs import BINARY, DECODER, JSON, MONGO_ROUTER, ROUTER, STRING, TOPIC_NAMES

_KAFKA = "org.apache.kafka.connect."
_DEBEZIUM = "io.debezium."
_SMT = f"{_KAFKA}transforms."
_BYTES = f"{_KAFKA}converters.ByteArrayConverter"
_LONG = f"{_KAFKA}converters.LongConverter"
_R, _T = "transforms.outbox.", "transforms.outbox.table."
_PATTERN = "predicates.isOutbox.pattern"
_PLACEMENT = f"{_T}fields.additional.placement"

TOPIC = "{name}.{type}"
"""Where an event belongs, unless a mutation means another topic."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """Options that are changed together.

    Args:
        topic: Where events belong by what the mutation means, empty where it means nothing about it.
        key: The column that becomes the key by what the mutation means.
    """

    changes: Changes
    topic: str = ""
    key: str = ""


def _each(option: str, *values: str | None, more: Changes | None = None) -> list[Mutation]:
    """Return a mutation for each value of an option."""
    return [Mutation({option: value, **(more or {})}) for value in values]


def _transform(kind: str, *, first: bool, predicate: str = "", **options: str) -> Changes:
    """Return what adds a transform before the router or behind it."""
    own = {f"transforms.more.{name.replace('_', '.')}": value for name, value in options.items()}
    given: dict[str, str | None] = {
        "transforms": "more,outbox" if first else "outbox,more",
        "transforms.more.type": kind,
        **own,
    }
    if predicate:
        alias, _, negate = predicate.partition("!")
        given["transforms.more.predicate"] = alias
        if negate:
            given["transforms.more.negate"] = "true"
        given |= _PREDICATES.get(alias, {})
    return given


def _predicate(alias: str, kind: str, **options: str) -> dict[str, str]:
    own = {f"predicates.{alias}.{name}": value for name, value in options.items()}
    return {"predicates": f"isOutbox,{alias}", f"predicates.{alias}.type": kind, **own}


_PREDICATES: Mapping[str, Changes] = {
    "isEvent": _predicate("isEvent", TOPIC_NAMES, pattern="{name}\\.(order|customer)"),
    "isOrder": _predicate("isOrder", TOPIC_NAMES, pattern="{name}\\.order"),
    "isHeartbeat": _predicate("isHeartbeat", TOPIC_NAMES, pattern="__debezium-heartbeat\\..*"),
    "isTombstone": _predicate("isTombstone", f"{_SMT}predicates.RecordIsTombstone"),
    "hasType": _predicate("hasType", f"{_SMT}predicates.HasHeaderKey", name="eventType"),
    "hasNone": _predicate("hasNone", f"{_SMT}predicates.HasHeaderKey", name="nothing"),
}

_ASKED = ("", "", "isOutbox", "isOutbox!", "isEvent", "isOrder", "isOrder!", "isHeartbeat", "isTombstone", "hasType")
_FILTERED = (*_ASKED, "isTombstone!", "hasType!", "hasNone", "hasNone!", "isEvent!", "isAbsent")

_CAPTURED = [
    *_each("table.include.list", "{name}.outbox", "{name}\\..*", "{name}\\.(outbox|other)", ".*outbox", "outbox"),
    *_each("table.include.list", "{name}\\.outbox,{name}\\.other", "{name}\\.OUTBOX", '"{name}"."outbox"', None),
    *_each("table.include.list", "{database}.{name}.outbox", "public\\.outbox", " {name}\\.outbox ", "{name}\\.out"),
    *_each("table.include.list", "({name}\\.outbox", "^{name}\\.outbox$", "{name}\\.(?!outbox).*", "{name}\\.o.*"),
    *_each("schema.include.list", "{name}", "public", "{name}.*", "public,{name}", "{name}x"),
    *_each("schema.exclude.list", "{name}", "public", ".*", "(public"),
    *_each("table.exclude.list", "{name}\\.outbox", "{name}\\.other", ".*\\.o.*", more={"table.include.list": None}),
    *_each("table.exclude.list", "{name}\\.other"),
    *_each("column.exclude.list", "{name}\\.outbox\\.payload", "{name}\\.outbox\\.sequence", ".*\\.aggregateid"),
    *_each("column.exclude.list", "{name}\\.outbox\\.id", "{name}\\.other\\.note", "outbox\\.payload"),
    *_each("column.include.list", "{name}\\.outbox\\..*", "{name}\\.outbox\\.(id|payload)"),
]
_NAMED = [
    *_each("topic.delimiter", "_", "-", "."),
    *_each("topic.delimiter", "_", more={_PATTERN: "{name}_{name}_outbox"}),
    *_each("topic.prefix", "{name}x", "{name}.x", "{name} x", None),
    *_each(
        "topic.naming.strategy",
        *(f"{_DEBEZIUM}schema.{name}TopicNamingStrategy" for name in ("Schema", "Default", "SchemaUnicode", "Shcema")),
    ),
    *_each("topic.heartbeat.prefix", "{name}", "{name}.order"),
]
_PREDICATE = [
    *_each(_PATTERN, "{name}.{name}.outbox", ".*", ".*outbox", ".*\\.outbox", "outbox", "{name}\\.outbox", "", None),
    *_each(_PATTERN, "{name}\\.{name}\\.outbox.*", "{name}\\.{name}\\.(outbox", "{name}\\.public\\.outbox"),
    *_each(
        _PATTERN, "(?i){name}\\.{name}\\.OUTBOX", "{name}\\.{name}\\.Outbox", "{name}\\..*", "[^.]+\\.[^.]+\\.outbox"
    ),
    *_each(_PATTERN, "{name}\\.{name}\\.o\\w+", "(?!.*heartbeat).*", ".*(outbox|other)", "^{name}[.]{name}[.]outbox$"),
    *_each(f"{_R}negate", "true", "TRUE", "false", "yes"),
    *_each(f"{_R}predicate", None, "isOutbx", "isoutbox", " isOutbox "),
    *_each("predicates", None, "isOutbx", "isOutbox,isOutbox", "isOutbox,"),
    *_each("predicates.isOutbox.type", f"{_SMT}predicates.RecordIsTombstone", "TopicNameMatches", None),
    *_each("predicates.isOutbox.type", f"{_SMT}predicates.HasHeaderKey", more={"predicates.isOutbox.name": "id"}),
    *_each("predicates.isOutbox.type", f"{_SMT}predicates.TopicNameMatch", f"{_SMT}TopicNameMatches"),
]


def _added(*, first: bool) -> Iterator[Mutation]:
    """Yield mutations that add a transform before the router or behind it."""
    for predicate in _FILTERED:
        yield Mutation(_transform(f"{_SMT}Filter", first=first, predicate=predicate))
    for kind, options in _TRANSFORMS:
        yield Mutation(_transform(kind, first=first, predicate=_ASKED[len(str(options)) % 3], **options))
    for predicate in ("", "isOutbox", "isEvent"):
        for kind in (
            f"{_DEBEZIUM}transforms.ExtractNewRecordState",
            f"{_SMT}ExtractField$Value",
            f"{_SMT}Flatten$Value",
        ):
            options = {"field": "after"} if "ExtractField" in kind else {}
            yield Mutation(_transform(kind, first=first, predicate=predicate, **options))


_TRANSFORMS: Sequence[tuple[str, dict[str, str]]] = (
    (f"{_SMT}InsertField$Value", {"static_field": "region", "static_value": "eu"}),
    (f"{_SMT}InsertField$Key", {"static_field": "region", "static_value": "eu"}),
    (f"{_SMT}InsertHeader", {"header": "region", "value_literal": "eu"}),
    (f"{_SMT}DropHeaders", {"headers": "region"}),
    (f"{_SMT}DropHeaders", {"headers": "id"}),
    (f"{_SMT}HoistField$Value", {"field": "event"}),
    (f"{_SMT}HoistField$Key", {"field": "event"}),
    (f"{_SMT}ReplaceField$Value", {"exclude": "nothing"}),
    (f"{_SMT}ReplaceField$Value", {"exclude": "op"}),
    (f"{_SMT}ReplaceField$Value", {"include": "after,op"}),
    (f"{_SMT}MaskField$Value", {"fields": "region"}),
    (f"{_SMT}ExtractField$Key", {"field": "id"}),
    (f"{_SMT}ExtractField$Value", {"field": "payload"}),
    (f"{_SMT}SetSchemaMetadata$Value", {"schema_name": "orders.Event"}),
    (f"{_SMT}SetSchemaMetadata$Key", {"schema_name": "orders.Key"}),
    (f"{_SMT}ValueToKey", {"fields": "after"}),
    (f"{_SMT}ValueToKey", {"fields": "id"}),
    (f"{_SMT}TimestampConverter$Value", {"field": "ts_ms", "target_type": "string", "format": "yyyy"}),
    (f"{_SMT}Cast$Value", {"spec": "string"}),
    (f"{_SMT}Cast$Value", {"spec": "ts_ms:string"}),
    (f"{_SMT}HeaderFrom$Value", {"fields": "op", "headers": "op", "operation": "copy"}),
    (f"{_SMT}Filtre", {}),
    (f"{_DEBEZIUM}transforms.ExtractChangedRecordState", {"header_changed_name": "changed"}),
    (f"{_DEBEZIUM}transforms.TimezoneConverter", {"converted_timezone": "+01:00"}),
    (f"{_DEBEZIUM}transforms.HeaderToValue", {"headers": "id", "fields": "id", "operation": "copy"}),
    (f"{_DEBEZIUM}transforms.ByLogicalTableRouter", {"topic_regex": "(.*)outbox", "topic_replacement": "$1events"}),
    (DECODER, {}),
    (ROUTER, {"route_topic_replacement": "{name}.first.${routedByValue}"}),
)

_RENAMED = [
    Mutation(
        _transform(f"{_SMT}RegexRouter", first=first, predicate=predicate, regex=regex, replacement=replacement), topic
    )
    for first, predicate, regex, replacement, topic in (
        (True, "", ".*\\.(outbox)", "{name}.{name}.$1", ""),
        (True, "", ".*\\.(outbox)", "$1", ""),
        (True, "", "nothing", "x", ""),
        (True, "", "(.*)", "{name}.$1", ""),
        (True, "isOutbox", "(.*)", "$1", ""),
        (True, "", "(.*", "$1", ""),
        (False, "", "{name}\\.(.*)", "{name}.moved.$1", "{name}.moved.{type}"),
        (False, "isEvent", "(.*)", "$1.v1", "{name}.{type}.v1"),
        (False, "", "nothing", "x", ""),
        (False, "isOutbox", ".*", "{name}.raw", ""),
        (False, "isHeartbeat", ".*", "{name}.beats", ""),
        (False, "", "{name}\\.(.*)", "{name}/$1", ""),
        (False, "", "{name}\\.(.*)", "{name}.$2", ""),
    )
] + [
    Mutation(_transform(f"{_SMT}TimestampRouter", first=True)),
    Mutation(_transform(f"{_SMT}TimestampRouter", first=True, predicate="isOutbox")),
    Mutation(_transform(f"{_SMT}TimestampRouter", first=False, predicate="isHeartbeat")),
    Mutation(_transform(f"{_SMT}TimestampRouter", first=False, predicate="isOutbox")),
]

_CONVERTED = [
    *_each("key.converter", JSON, _BYTES, _LONG, BINARY, None, "org.apache.kafka.connect.storage.StringConvertr"),
    *_each("key.converter", JSON, more={"key.converter.schemas.enable": "false"}),
    *_each("value.converter", JSON, _BYTES, _LONG, BINARY, None, "io.debezium.converters.BinaryConverter"),
    *_each("value.converter", JSON, more={"value.converter.schemas.enable": "false"}),
    *_each("value.converter", BINARY, more={"value.converter.delegate.converter.type": JSON}),
    *_each("value.converter", BINARY, more={"value.converter.delegate.converter.type": STRING}),
    *_each(
        "value.converter",
        *(JSON, STRING),
        more={"value.converter.schemas.enable": "false", f"{_T}expand.json.payload": "true"},
    ),
    *_each("value.converter", _BYTES, BINARY, more={"heartbeat.interval.ms": "0"}),
    *_each("header.converter", JSON, _BYTES, _LONG, STRING, None, BINARY, "SimpleHeaderConverter"),
]

_ROUTED = [
    *_each(f"{_R}route.topic.replacement", "{name}.${routedByValu}", "{name}.$1", "{name}.${routedByValue"),
    *_each(
        f"{_R}route.topic.replacement", "{name}/${routedByValue}", "{name}.$routedByValue", "{name}.$3", "{name}. $1"
    ),
    Mutation({f"{_R}route.topic.replacement": "{name}.all"}, "{name}.all"),
    Mutation({f"{_R}route.topic.replacement": "{name}.${routedByValue}.v1"}, "{name}.{type}.v1"),
    Mutation({f"{_R}route.topic.replacement": None}, "outbox.event.{type}"),
    Mutation({f"{_R}route.by.field": "type"}, "{name}.Placed"),
    *_each(f"{_R}route.by.field", "", None),
    *_each(
        f"{_R}route.topic.regex", "(?<routedByValue>.*)", "(.*)", "(?<routedByValue>[a-z]+)", "(?<routedByValue>order)"
    ),
    *_each(f"{_R}route.topic.regex", "((?<routedByValue>.*)", "(?P<routedByValue>.*)", "(?<routedByValue>\\w+)", ""),
    *_each(f"{_R}route.tombstone.on.empty.payload", "true", "yes", "false"),
    Mutation({f"{_T}field.event.key": "id"}, key="id"),
    *_each(f"{_T}field.event.key", "", None),
    *_each(f"{_T}field.event.id", "", None),
    *_each(f"{_T}field.event.payload", "", None),
    *_each(f"{_T}field.event.timestamp", "", None),
    *_each(f"{_R}route.topic.replacment", "{name}.${routedByValue}", more={f"{_R}route.topic.replacement": None}),
    *_each(_PLACEMENT, "type", "type:header:id", "id:header", "type:bogus:x", "type:envelope:kind", "type:header", ""),
    *_each(
        _PLACEMENT, "type:header:eventType,", "type:header:eventType:x", "type:envelope:payload", "type:Header:t", None
    ),
    *_each(_PLACEMENT, "type:envelope:kind", more={"value.converter": JSON}),
    *_each(_PLACEMENT, "type;header", "type: header :t", "type:header:a,,source:header"),
    *_each(f"{_T}op.invalid.behavior", "warn", "error", "fatal", "nope"),
    *_each(f"{_T}field.additional.missing", "ignore", "error", "nope", None),
    *_each(f"{_T}expand.json.payload", "true", "false", "yes"),
    *_each(f"{_R}type", None, "EventRouter", MONGO_ROUTER, f"{_DEBEZIUM}transforms.EventRouter"),
    *_each("transforms", None, "", "outbox,outbox", "Outbox", "outbox,", " outbox "),
]

_READ = [
    *_each("heartbeat.interval.ms", "0", "500", None, "abc", "-1"),
    *_each("heartbeat.action.query", None, "select 1", "insert into {name}.beats (note) values ('x')"),
    *_each("heartbeat.action.query", "insert into {name}.other (note) values ('x')"),
    *_each("snapshot.mode", "initial", "never", "always", "when_needed", "initial_only", "recovery", "no_dta", None),
    *_each("snapshot.mode", "custom", "configuration_based", "NO_DATA", "schema_only"),
    *_each("skipped.operations", "c", "c,u,d,t", "none", "t", None, "u", "x", "create", "u,d,t,c", ""),
    *_each("tombstones.on.delete", "true", "false", more={"skipped.operations": "t"}),
    *_each("tombstones.on.delete", "yes"),
    *_each("time.precision.mode", "connect", "isostring", "microseconds", "nanoseconds", "adaptive", "seconds"),
    *_each("binary.handling.mode", "base64", "base46"),
    *_each("provide.transaction.metadata", "true"),
    *_each("extended.headers.enabled", "true"),
    *_each("schema.name.adjustment.mode", "avro", "avrro"),
    *_each("field.name.adjustment.mode", "avro", "avro_unicode"),
    *_each("plugin.name", "wal2json", "pgoutptu"),
    *_each("max.batch.size", "8192"),
    *_each("slot.name", "Orders-Outbox"),
    *_each("topic.creation.default.partitions", None, "1", "0"),
    *_each("topic.creation.groups", "events", more={"topic.creation.events.partitions": "2"}),
    *_each("topic.creation.events.include", "[a", ".*", more={"topic.creation.groups": "events"}),
    *_each("tasks.max", "2", "0"),
    *_each("connector.class", "PostgresConnector", "Postgres", "io.debezium.connector.PostgresConnector", None),
]

GROUPS: Mapping[str, Sequence[Mutation]] = {
    "capture": _CAPTURED,
    "names": _NAMED,
    "predicate": _PREDICATE,
    "before": list(_added(first=True)),
    "behind": list(_added(first=False)),
    "renamed": _RENAMED,
    "converters": _CONVERTED,
    "router": _ROUTED,
    "reading": _READ,
    "typos": [],
}
"""What decides whether an event arrives, by what it is about; a typo may be in any of these."""

_TYPED = (
    *("table.include.list", _PATTERN, "predicates.isOutbox.type", f"{_R}type", "connector.class", "transforms"),
    *(f"{_R}predicate", "predicates", "snapshot.mode", "key.converter", "value.converter", "skipped.operations"),
)
_NAME = "{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutated:
    """A configuration with one mutation or two.

    Args:
        number: By which it is made again, with the seed.
    """

    number: int
    groups: tuple[str, ...]
    changes: Changes = field(default_factory=dict)
    topic: str = TOPIC
    key: str = "aggregateid"

    def options(self, name: str) -> dict[str, str]:
        """Return the options of the connector of this name, whose database is called the same."""
        return config_with(DatabaseKind.POSTGRESQL, self.changes, name=name, database=name)

    @property
    def places_columns(self) -> bool:
        """Whether other columns become headers than do in the right configuration."""
        return _PLACEMENT in self.changes

    def topic_of(self, name: str, aggregate_type: str) -> str:
        """Return the topic in which an event is meant to arrive."""
        return self.topic.replace(_NAME, name).replace("{type}", aggregate_type)

    def __str__(self) -> str:
        changes = (f"{option} = {'(left out)' if value is None else value!r}" for option, value in self.changes.items())
        return f"{self.number} ({' and '.join(self.groups)}): {'; '.join(changes)}"


def mutated(seed: int, number: int) -> Mutated:
    """Return one of the configurations; the same seed and number give the same one."""
    random = Random(f"{seed}-{number}")
    groups = random.sample(list(GROUPS), random.choice((1, 1, 2)))
    changes: dict[str, str | None] = {}
    topic, key = TOPIC, "aggregateid"
    for group in groups:
        mutation = random.choice(GROUPS[group]) if GROUPS[group] else _typo(random)
        if changes.keys() & mutation.changes.keys():
            continue
        changes |= mutation.changes
        topic, key = (mutation.topic or topic), (mutation.key or key)
    return Mutated(number=number, groups=tuple(groups), changes=changes, topic=topic, key=key)


def _typo(random: Random) -> Mutation:
    """Return a value with one character dropped, doubled or in the other case, or two of them swapped."""
    option = random.choice(_TYPED)
    value = config_with(DatabaseKind.POSTGRESQL, {}, name=_NAME, database=_NAME)[option]
    kept = value.rpartition(_NAME)[0] + _NAME if _NAME in value else ""
    text = value.removeprefix(kept)
    at = random.randrange(len(text))
    left, letter, right = text[:at], text[at], text[at + 1 :]
    turned = right[:1] + letter + right[1:] if right else letter * 2
    wrong = left + random.choice((right, letter * 2 + right, letter.swapcase() + right, turned))
    return Mutation({option: kept + wrong})
