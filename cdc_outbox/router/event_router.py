"""The EventRouter itself, for payloads that pass through with StringConverter.

Facts from Debezium 3.7's ``io.debezium.transforms.outbox.EventRouterDelegate``, held against the real one by the
route parity test. Envelopes, JSON expansion and other converters are refused, not imitated.
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
    """

    id_column: str = "id"
    key_column: str = "aggregateid"
    payload_column: str = "payload"
    timestamp_column: str | None = None
    placements: tuple[Placement, ...] = ()
    route_by_column: str = "aggregatetype"
    topic_replacement: str = f"outbox.event.{_ROUTED}"
    tombstone_on_empty_payload: bool = False

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
        return options

    def route(self, row: Mapping[str, ConnectValue], *, connector_time_ms: int) -> Message:
        """Return the message that an inserted row becomes, its partition ``None`` unless a column places it.

        Args:
            connector_time_ms: The envelope's ``ts_ms``, the timestamp where no column gives one.

        Raises:
            RoutingError: The real EventRouter would throw, and the task would fail.
        """
        event_id = self._column(row, self.id_column)
        payload = self._payload(row)
        return Message(
            topic=self._topic(self._column(row, self.route_by_column)),
            key=self._column(row, self.key_column).text(),
            value=None if self._is_tombstone(payload) else payload.text(),
            headers=(("id", event_id.text()), *self._headers(row)),
            timestamp_ms=self._timestamp(row, connector_time_ms),
            partition=self._partition(row),
        )

    def _payload(self, row: Mapping[str, ConnectValue]) -> ConnectValue:
        if self.payload_column not in row:
            raise RoutingError(
                f"Unable to find payload field {self.payload_column} in event", exception="ConnectException"
            )
        payload = row[self.payload_column]
        if payload.type is not ConnectType.STRING:
            raise ConfigError(f"a {payload.type} payload does not pass StringConverter", field="payload")
        return payload

    def _is_tombstone(self, payload: ConnectValue) -> bool:
        blank = self.tombstone_on_empty_payload and not str(payload.value).strip()
        return payload.value is None or blank

    def _topic(self, routed_by: ConnectValue) -> str:
        if not isinstance(routed_by.value, str):
            kind = "NullPointerException" if routed_by.value is None else "DataException"
            raise RoutingError(f"the column {self.route_by_column} is not a string", exception=kind)
        if _LINE_TERMINATORS & set(routed_by.value):
            return routed_by.value
        return self.topic_replacement.replace(_ROUTED, routed_by.value)

    def _headers(self, row: Mapping[str, ConnectValue]) -> list[tuple[str, bytes | None]]:
        return [
            (placement.header, self._column(row, placement.column).text())
            for placement in self.placements
            if placement.kind is PlacementKind.HEADER
        ]

    def _partition(self, row: Mapping[str, ConnectValue]) -> int | None:
        for placement in self.placements:
            if placement.kind is PlacementKind.PARTITION:
                column = self._column(row, placement.column)
                if column.type is not ConnectType.INT32:
                    raise RoutingError(f"the column {placement.column} is not of type INT32", exception="DataException")
                return None if column.value is None else int(column.value)
        return None

    def _timestamp(self, row: Mapping[str, ConnectValue], connector_time_ms: int) -> int:
        if self.timestamp_column is None:
            return connector_time_ms
        column = self._column(row, self.timestamp_column)
        if column.type is not ConnectType.INT64 or column.logical_name not in _PER_MILLISECOND:
            raise RoutingError(
                f"the column {self.timestamp_column} is not a timestamp without time zone",
                exception="DataException",
            )
        if column.value is None:
            return connector_time_ms
        return int(column.value) // _PER_MILLISECOND[LogicalName(column.logical_name)]

    @staticmethod
    def _column(row: Mapping[str, ConnectValue], column: str) -> ConnectValue:
        if column not in row:
            raise RoutingError(f"{column} is not a valid field name", exception="DataException")
        return row[column]
