"""The EventRouter itself, for payloads that pass through with StringConverter.

Facts from Debezium 3.7's ``io.debezium.transforms.outbox.EventRouterDelegate``, held against the real one by the
route parity tests. Envelopes, JSON expansion and other converters are refused, not imitated. What comes after the
EventRouter is left to who sends: Connect's worker takes -1 for no timestamp and refuses an earlier one and a negative
partition, the broker refuses most characters in a topic's name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from cdc_outbox.errors import ConfigError, RoutingError
from cdc_outbox.message import Message
from cdc_outbox.router.values import ConnectType, ConnectValue, LogicalName

_ROUTED = "${routedByValue}"
_LINE_TERMINATORS = frozenset("\n\r\u0085\u2028\u2029")
"""What ``.`` does not match in Java, so that the default ``route.topic.regex`` fails on it."""
_JAVA_BLANKS = "".join(map(chr, range(0x21)))
"""What Java's ``String.trim`` takes away, other characters than Python's ``str.strip``."""
_PER_MILLISECOND = {
    LogicalName.TIMESTAMP: 1,
    LogicalName.MICRO_TIMESTAMP: 1_000,
    LogicalName.NANO_TIMESTAMP: 1_000_000,
}


class PlacementKind(StrEnum):
    """Where an additional column goes."""

    HEADER = "header"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True)
class Placement:
    """One entry of ``table.fields.additional.placement``.

    Args:
        alias: The header's name, the column's own by default; a partition has none.
    """

    column: str
    kind: PlacementKind = PlacementKind.HEADER
    alias: str | None = None

    def __post_init__(self) -> None:
        for name in (self.column, self.column if self.alias is None else self.alias):
            if name != name.strip() or not name or set(name) & set(":,"):
                raise ConfigError(
                    f"{name!r} cannot be placed: it is empty, or holds a colon, a comma or a blank at an end",
                    field="placements",
                )

    @property
    def header(self) -> str:
        """The name of the header that the column becomes."""
        return self.alias or self.column

    def __str__(self) -> str:
        return ":".join(filter(None, (self.column, self.kind, self.alias)))


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRouter:
    """The SMT's options, and what they do to a row.

    Args:
        timestamp_column: ``None`` leaves the connector's clock as the record's timestamp.
        topic_replacement: ``route.topic.replacement``; ``${routedByValue}`` is the only group.
        tombstone_on_empty_payload: A payload of nothing but blanks becomes a null value. A null payload does so
            anyway with StringConverter.
        ignores_missing: A row without a placed column passes without the header, instead of failing the task.
    """

    id_column: str = "id"
    key_column: str = "aggregateid"
    payload_column: str = "payload"
    timestamp_column: str | None = None
    placements: tuple[Placement, ...] = ()
    route_by_column: str = "aggregatetype"
    topic_replacement: str = f"outbox.event.{_ROUTED}"
    tombstone_on_empty_payload: bool = False
    ignores_missing: bool = False

    def __post_init__(self) -> None:
        if set(self.topic_replacement.replace(_ROUTED, "")) & set("$\\"):
            raise ConfigError(f"the topic replacement may name no group but {_ROUTED}", field="topic_replacement")

    def options(self) -> dict[str, str]:
        """Return the options as Connect takes them, without the ``transforms.<alias>.`` prefix."""
        options = {
            "table.field.event.id": self.id_column,
            "table.field.event.key": self.key_column,
            "table.field.event.payload": self.payload_column,
            "route.by.field": self.route_by_column,
            "route.topic.replacement": self.topic_replacement,
        }
        if self.timestamp_column is not None:
            options["table.field.event.timestamp"] = self.timestamp_column
        if self.placements:
            options["table.fields.additional.placement"] = ",".join(map(str, self.placements))
        if self.tombstone_on_empty_payload:
            options["route.tombstone.on.empty.payload"] = "true"
        if self.ignores_missing:
            options["table.field.additional.missing"] = "ignore"
        return options

    def route(self, row: Mapping[str, ConnectValue], *, connector_time_ms: int) -> Message:
        """Return the message that an inserted row becomes, its partition ``None`` unless a column places it.

        Args:
            connector_time_ms: The envelope's ``ts_ms``, the timestamp where no column gives one.

        Raises:
            RoutingError: The real EventRouter would throw, and the task would fail.
            ConfigError: The key or the payload is of bytes, which StringConverter makes rubbish of.
        """
        # In the real one's order: where several columns are wrong, the first it looks at names the exception.
        if self.payload_column not in row:
            raise _connect_error(f"Unable to find payload field {self.payload_column} in event")
        timestamp_ms = self._timestamp(row, connector_time_ms)
        event_id, payload = _column(row, self.id_column), row[self.payload_column]
        headers, partition = self._placed(row)
        key = _column(row, self.key_column)
        topic = self._topic(row)
        for name, column in (("key", key), ("payload", payload)):
            if column.type is ConnectType.BYTES:
                raise ConfigError(f"a {name} of bytes does not pass StringConverter", field=name)
        return Message(
            topic=topic,
            key=key.text(),
            value=None if self._is_tombstone(payload) else payload.text(),
            headers=(("id", event_id.text()), *headers),
            timestamp_ms=timestamp_ms,
            partition=partition,
        )

    def _is_tombstone(self, payload: ConnectValue) -> bool:
        return self.tombstone_on_empty_payload and not (payload.text() or b"").decode().strip(_JAVA_BLANKS)

    def _topic(self, row: Mapping[str, ConnectValue]) -> str:
        routed_by = _typed(row, self.route_by_column, ConnectType.STRING).value
        if routed_by is None:
            raise RoutingError(f"the column {self.route_by_column} is null", exception="NullPointerException")
        if _LINE_TERMINATORS & set(str(routed_by)):
            return str(routed_by)
        return self.topic_replacement.replace(_ROUTED, str(routed_by))

    def _placed(self, row: Mapping[str, ConnectValue]) -> tuple[list[tuple[str, bytes | None]], int | None]:
        """Return the headers, and the partition; of several columns that place it, the last wins, also by a null."""
        headers: list[tuple[str, bytes | None]] = []
        partition: int | None = None
        for placement in self.placements:
            if self.ignores_missing and placement.column not in row:
                continue
            if placement.kind is PlacementKind.HEADER:
                headers.append((placement.header, _column(row, placement.column).text()))
            else:
                number = _typed(row, placement.column, ConnectType.INT32).value
                partition = None if number is None else int(number)
        return headers, partition

    def _timestamp(self, row: Mapping[str, ConnectValue], connector_time_ms: int) -> int:
        if self.timestamp_column is None:
            return connector_time_ms
        if self.timestamp_column not in row:
            raise _connect_error(f"Unable to find timestamp field {self.timestamp_column} in event")
        column = _typed(row, self.timestamp_column, ConnectType.INT64)
        if column.value is None:
            return connector_time_ms
        if column.logical_name not in _PER_MILLISECOND:
            raise _connect_error(f"Unsupported field type {column.logical_name or column.type} for event timestamp")
        return _divided(int(column.value), _PER_MILLISECOND[LogicalName(column.logical_name)])


def _column(row: Mapping[str, ConnectValue], column: str) -> ConnectValue:
    if column not in row:
        raise RoutingError(f"{column} is not a valid field name", exception="DataException")
    return row[column]


def _typed(row: Mapping[str, ConnectValue], column: str, wanted: ConnectType) -> ConnectValue:
    found = _column(row, column)
    if found.type is not wanted:
        raise RoutingError(f"Field '{column}' is not of type {wanted}", exception="DataException")
    return found


def _connect_error(message: str) -> RoutingError:
    return RoutingError(message, exception="ConnectException")


def _divided(number: int, by: int) -> int:
    """Divide as Java does: towards zero."""
    return number // by if number >= 0 else -(-number // by)
