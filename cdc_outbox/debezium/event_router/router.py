"""The EventRouter itself, for payloads that pass through.

Facts from Debezium's ``io.debezium.transforms.outbox.EventRouterDelegate``, held against the real one by the route
parity tests and the differential test. JSON expansion is refused, not imitated; traces of OpenTelemetry, which has to
be put beside the plugin, are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cdc_outbox.contract.placements import Placement, PlacementKind, trim
from cdc_outbox.debezium.event_router.converters import SIMPLE_HEADER, STRING, to_message
from cdc_outbox.debezium.event_router.expanded_envelope import (
    PAYLOAD,
    Envelope,
    EnvelopeMemory,
    EnvelopePlan,
    envelope_name,
    versioned,
)
from cdc_outbox.debezium.event_router.java import (
    config_exception,
    connect_exception,
    data_exception,
    null_pointer_exception,
)
from cdc_outbox.debezium.event_router.record import ENVELOPE_SUFFIX, Change, ConnectRecord
from cdc_outbox.debezium.event_router.smt_options import NEWEST_VERSION, SmtOptions, UpdateBehavior, unknown_placement
from cdc_outbox.debezium.event_router.values import (
    CONNECT_DATES,
    ConnectStruct,
    ConnectType,
    ConnectValue,
    LogicalName,
    Scalar,
)
from cdc_outbox.debezium.java_regex import InvalidRegexError, read_regex
from cdc_outbox.debezium.regex_program import Pattern, UnknownRegexError
from cdc_outbox.errors import ConfigError, RoutingError
from cdc_outbox.message import Message

Row = Mapping[str, ConnectValue]

_DEFAULT_REGEX = "(?<routedByValue>.*)"
_PER_MILLISECOND = {
    LogicalName.TIMESTAMP: 1,
    LogicalName.MICRO_TIMESTAMP: 1_000,
    LogicalName.NANO_TIMESTAMP: 1_000_000,
}
_LOOKS_BEFORE_IT_PLACES = (3, 6)
"""Since then a missing column of an envelope is looked for; Debezium 3.5 fails on it, ignored or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRouter:
    """The SMT's options, and what they do to a record.

    Args:
        timestamp_column: ``None`` leaves the connector's clock as the record's timestamp.
        version_column: Its number becomes the version of the envelope's schema; without an envelope, nothing.
        topic_regex: ``route.topic.regex``; must match the whole aggregate type, or that is the topic.
        topic_replacement: ``route.topic.replacement``; ``${name}`` and ``$1`` are groups of ``topic_regex``.
        tombstone_on_empty_payload: A payload of nothing but blanks becomes a null value. A null payload does so
            anyway with StringConverter.
        ignores_missing: A row without a placed column passes without it, instead of failing the task.
        on_update: What becomes of an updated row.
        version: Debezium's release, major and minor.

    Raises:
        RoutingError: The real one's ``configure()`` throws.
        ConfigError: The topic's regular expression is none that can be imitated.
    """

    id_column: str = "id"
    key_column: str = "aggregateid"
    payload_column: str = "payload"
    timestamp_column: str | None = None
    version_column: str | None = None
    placements: tuple[Placement, ...] = ()
    route_by_column: str = "aggregatetype"
    topic_regex: str = _DEFAULT_REGEX
    topic_replacement: str = "outbox.event.${routedByValue}"
    tombstone_on_empty_payload: bool = False
    ignores_missing: bool = False
    on_update: UpdateBehavior = UpdateBehavior.WARN
    version: tuple[int, int] = NEWEST_VERSION

    def __post_init__(self) -> None:
        self._topic_pattern()

    @classmethod
    def from_options(
        cls, options: Mapping[str, str], *, version: tuple[int, int] = NEWEST_VERSION, connector: str = ""
    ) -> "EventRouter":
        """Return the router of the options as Connect takes them, without the ``transforms.<alias>.`` prefix.

        What it does not know it ignores, as the real one does.

        Args:
            version: Debezium's release, major and minor.
            connector: Debezium's word for the database, such as ``postgresql``; ``oracle`` has column names of its own.

        Raises:
            RoutingError: The real one's ``configure()`` throws.
            ConfigError: JSON expansion is asked for, or a regular expression that cannot be imitated.
        """
        read = SmtOptions(options, version)
        # All switches and words first: one that is wrong is an error, whatever cannot be imitated beside it.
        on_update, ignores_missing, expands = read.update_behavior(), read.ignores_missing(), read.expands_json()
        tombstones, placements = read.truth("route.tombstone.on.empty.payload"), read.placements()
        fold = str.upper if connector == "oracle" else str
        router = cls(
            id_column=read.text("table.field.event.id", fold("id")),
            key_column=read.text("table.field.event.key", fold("aggregateid")),
            payload_column=read.text("table.field.event.payload", fold("payload")),
            timestamp_column=read.optional_text("table.field.event.timestamp"),
            version_column=read.optional_text("table.field.event.schema.version"),
            placements=placements,
            route_by_column=read.text("route.by.field", fold("aggregatetype")),
            topic_regex=read.text("route.topic.regex", _DEFAULT_REGEX),
            topic_replacement=read.text("route.topic.replacement", "outbox.event.${routedByValue}"),
            tombstone_on_empty_payload=tombstones,
            ignores_missing=ignores_missing,
            on_update=on_update,
            version=version,
        )
        if expands:
            raise ConfigError(
                "the expansion of JSON payloads is not supported",
                field="table.expand.json.payload",
                hint="Use `cdc-outbox simulate --engine real`, which runs Debezium's own EventRouter.",
            )
        return router

    def options(self) -> dict[str, str]:
        """Return the options as Connect takes them, without the ``transforms.<alias>.`` prefix.

        Raises:
            ConfigError: A placed name would not come out as it went in.
        """
        options = {
            "table.field.event.id": self.id_column,
            "table.field.event.key": self.key_column,
            "table.field.event.payload": self.payload_column,
            "route.by.field": self.route_by_column,
            "route.topic.replacement": self.topic_replacement,
        }
        if self.topic_regex != _DEFAULT_REGEX:
            options["route.topic.regex"] = self.topic_regex
        if self.timestamp_column is not None:
            options["table.field.event.timestamp"] = self.timestamp_column
        if self.version_column is not None:
            options["table.field.event.schema.version"] = self.version_column
        if self.placements:
            options["table.fields.additional.placement"] = ",".join(placement.entry() for placement in self.placements)
        if self.tombstone_on_empty_payload:
            options["route.tombstone.on.empty.payload"] = "true"
        if self.ignores_missing:
            options["table.field.additional.missing"] = "ignore"
        if self.on_update is not UpdateBehavior.WARN:
            options["table.op.invalid.behavior"] = self.on_update
        return options

    def route(self, row: Row, *, connector_time_ms: int) -> Message:
        """Return the message that an inserted row becomes with StringConverter for key and value.

        Its partition is ``None`` unless a column places it.

        Args:
            connector_time_ms: The envelope's ``ts_ms``, the timestamp where no column gives one.

        Raises:
            RoutingError: The real EventRouter would throw, and the task would fail.
            ConfigError: A value's text is none that can be imitated.
        """
        change = Change(row=row, connector_time_ms=connector_time_ms)
        event = self._event(ConnectRecord(topic="", value=change), change, EnvelopeMemory())
        return to_message(event, key=STRING, value=STRING, header=SIMPLE_HEADER)

    def transform(self, record: ConnectRecord, memory: EnvelopeMemory) -> ConnectRecord | None:
        """Return the record that comes out, ``None`` where it is dropped; one that is no change is returned as it is.

        Args:
            memory: What this router remembers of earlier records, from one call to the next.

        Raises:
            RoutingError: The real EventRouter would throw, and the task would fail.
        """
        value = record.value
        if value is None or (isinstance(value, ConnectValue) and value.value is None):
            return None
        if not isinstance(value, Change):
            return self._pass(record, value)
        return None if self._drops(value.operation) else self._event(record, value, memory)

    def _drops(self, operation: str) -> bool:
        """Return whether changes of an operation are dropped."""
        if operation == "u" and self.on_update is UpdateBehavior.FATAL:
            raise RoutingError("Unexpected update message received, fail.", exception="IllegalStateException")
        return operation in {"d", "u"}

    def _pass(self, record: ConnectRecord, value: ConnectStruct | ConnectValue) -> ConnectRecord | None:
        """Return what is no change; what only claims to be one fails, or is dropped, by its ``op``."""
        name = value.schema.name
        if name is None or not name.endswith(ENVELOPE_SUFFIX):
            return record
        if not isinstance(value, ConnectStruct):
            raise data_exception("Only Struct objects supported for [Detect Debezium Operation]")
        fields = {field: ConnectValue(inner.type, value.values.get(field)) for field, inner in value.schema.fields}
        operation = _typed(fields, "op", ConnectType.STRING)
        if operation is None:
            raise null_pointer_exception("op is null")
        if self._drops(str(operation)):
            return None
        if "after" not in fields:
            raise RoutingError("Unknown field: after", exception="IllegalArgumentException")
        # A struct within a struct is none of our values.
        raise data_exception("Only Struct objects supported for [Read Outbox Event]")

    def _event(self, record: ConnectRecord, change: Change, memory: EnvelopeMemory) -> ConnectRecord:
        # In the real one's order: where several columns are wrong, the first it looks at names the exception.
        row = change.row
        if row is None:
            raise data_exception("Only Struct objects supported for [Read Outbox Event], found: null")
        if self.payload_column not in row:
            raise connect_exception(f"Unable to find payload field {self.payload_column} in event")
        timestamp_ms = self._timestamp(row, change.connector_time_ms)
        event_id, payload = _column(row, self.id_column), _column(row, self.payload_column)
        headers = [*record.headers, _header("id", event_id)]
        envelope = self._envelope(row, change, payload, memory)
        partition = self._place(row, headers, envelope)
        value: ConnectStruct | ConnectValue | None = payload if envelope is None else envelope.struct()
        if self.tombstone_on_empty_payload and is_empty(payload.value):
            value = None
        key = _column(row, self.key_column)
        topic = self._topic(row)
        return replace(
            record,
            topic=topic,
            key=key,
            value=value,
            headers=tuple(headers),
            timestamp_ms=timestamp_ms,
            partition=partition,
        )

    def _envelope(self, row: Row, change: Change, payload: ConnectValue, memory: EnvelopeMemory) -> Envelope | None:
        """Return the envelope with the payload in it, ``None`` where no column is placed beside that."""
        if all(placement.kind is not PlacementKind.ENVELOPE for placement in self.placements):
            return None
        plan = EnvelopePlan(self.placements, self.ignores_missing, self.version >= _LOOKS_BEFORE_IT_PLACES)
        number = None if self.version_column is None else _typed(row, self.version_column, ConnectType.INT32)
        aggregate_type = _typed(row, self.route_by_column, ConnectType.STRING)
        name = envelope_name(change.row_schema, None if aggregate_type is None else str(aggregate_type))
        # The schema without the default in the value's place: that is what the remembered ones are found by.
        schema = row[self.payload_column].schema
        if self.version_column is None:
            if schema not in memory.by_payload:
                memory.by_payload[schema] = plan.schema(schema, row, name)
            envelope = Envelope(memory.by_payload[schema])
        else:
            version = None if number is None else int(number)
            if version not in memory.by_version:
                memory.by_version[version] = versioned(plan.schema(schema, row, name), version)
            envelope = Envelope(memory.by_version[version])
        envelope.put(PAYLOAD, payload)
        return envelope

    def _place(self, row: Row, headers: list[tuple[str, ConnectValue]], envelope: Envelope | None) -> int | None:
        """Put the placed columns where they belong, and return the partition: the last one's, also if it is null."""
        partition: int | None = None
        for placement in self.placements:
            if self.ignores_missing and placement.column not in row:
                continue
            if placement.kind is PlacementKind.HEADER:
                headers.append(_header(placement.name, _column(row, placement.column)))
            elif placement.kind is PlacementKind.PARTITION:
                number = _typed(row, placement.column, ConnectType.INT32)
                partition = None if number is None else int(number)
            elif placement.kind is PlacementKind.ENVELOPE and envelope is not None:
                envelope.put(placement.name, _column(row, placement.column))
            else:
                raise unknown_placement(placement)
        return partition

    def _topic(self, row: Row) -> str:
        aggregate_type = _typed(row, self.route_by_column, ConnectType.STRING)
        if aggregate_type is None:
            raise null_pointer_exception(f"the column {self.route_by_column} is null")
        return self.topic_of(str(aggregate_type))

    def topic_of(self, aggregate_type: str) -> str:
        """Return the topic of an aggregate type."""
        # Kafka's own options lose their blanks, Debezium's do not: the router hands these two on to a RegexRouter.
        pattern = self._topic_pattern()
        if not pattern.fullmatch(aggregate_type):
            return aggregate_type
        return pattern.replace_first(aggregate_type, trim(self.topic_replacement))

    def _topic_pattern(self) -> Pattern:
        try:
            return read_regex(trim(self.topic_regex))
        except InvalidRegexError as error:
            raise config_exception(f"route.topic.regex is not a regular expression: {error}") from error
        except UnknownRegexError as error:
            raise ConfigError(
                f"Java and Python read this part of route.topic.regex differently: {error}",
                field="route.topic.regex",
                hint="Use `cdc-outbox simulate --engine real`, which runs Debezium's own EventRouter.",
            ) from error

    def _timestamp(self, row: Row, connector_time_ms: int | None) -> int | None:
        if self.timestamp_column is None:
            return connector_time_ms
        if self.timestamp_column not in row:
            raise connect_exception(f"Unable to find timestamp field {self.timestamp_column} in event")
        number = _typed(row, self.timestamp_column, ConnectType.INT64)
        if number is None:
            return connector_time_ms
        column = row[self.timestamp_column]
        if column.logical_name not in _PER_MILLISECOND:
            raise connect_exception(f"Unsupported field type {column.logical_name or column.type} for event timestamp")
        return _divided(int(number), _PER_MILLISECOND[LogicalName(column.logical_name)])


def _column(row: Row, column: str) -> ConnectValue:
    if column not in row:
        raise data_exception(f"{column} is not a valid field name")
    return row[column].filled()


def _typed(row: Row, column: str, wanted: ConnectType) -> Scalar | None:
    """Return a value that must be of a type; a default does not take the place of a null."""
    if column not in row:
        raise data_exception(f"{column} is not a valid field name")
    found = row[column]
    if found.type is not wanted:
        raise data_exception(f"Field '{column}' is not of type {wanted}")
    if found.value is not None and found.logical_name in CONNECT_DATES:
        raise RoutingError(f"{column} is a Java Date (time.precision.mode=connect)", exception="ClassCastException")
    return found.value


def _header(name: str, value: ConnectValue) -> tuple[str, ConnectValue]:
    if value.value is None and not value.optional:
        raise data_exception("A null value requires an optional schema")
    return name, value


def is_empty(payload: Scalar | None) -> bool:
    """Return whether a payload becomes a null value where ``route.tombstone.on.empty.payload`` is set."""
    return payload is None or (isinstance(payload, str) and not trim(payload))


def _divided(number: int, by: int) -> int:
    """Divide as Java does: towards zero."""
    return number // by if number >= 0 else -(-number // by)
