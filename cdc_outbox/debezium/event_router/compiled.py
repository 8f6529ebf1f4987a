"""The EventRouter and its converters as one generated function for a relation of PostgreSQL.

`Routing` decides what a row becomes, in 100 µs; it is the reference. A compiled route gives the same result in a
hundredth of that time for ordinary rows, and hands every other row (a malformed or unusual value, an error) to the
reference. What cannot be compiled (an envelope, a missing column) goes to the reference as a whole.

The generated code has no text of the configuration or the catalog in it: columns are numbers, and every name, default
and converter is bound as a value.
"""

import re
import time
from binascii import unhexlify
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from cdc_outbox.contract.placements import PlacementKind
from cdc_outbox.debezium.event_router.column_values import Column, ColumnModes, base_type, column_value
from cdc_outbox.debezium.event_router.converters import (
    BytesConverter,
    Converter,
    SimpleHeaderConverter,
    StringConverter,
)
from cdc_outbox.debezium.event_router.produce import NO_TIMESTAMP, RoutedEvent, find_refusal
from cdc_outbox.debezium.event_router.record import Change, ConnectRecord
from cdc_outbox.debezium.event_router.router import is_empty
from cdc_outbox.debezium.event_router.routing import Routing, RoutingConfig
from cdc_outbox.debezium.event_router.values import ConnectType, ConnectValue, LogicalName
from cdc_outbox.errors import ConfigError, DecodeError, RoutingError
from cdc_outbox.message import Message

Route = Callable[[Sequence[bytes | None]], RoutedEvent]
"""What a row becomes: its values as pgoutput's text, in the order of the relation's columns, as an event to produce.

Raises:
    RoutingError: The connector's task would fail on the row, or the Kafka client cannot produce it.
    ConfigError: A value is of a kind whose conversion is not imitated.
    DecodeError: There are more or fewer values than columns.
"""

_SAME_TEXT = frozenset({"bigint", "citext", "integer", "json", "oid", "smallint", "text", "uuid"})
"""Types whose text is the same in PostgreSQL, in Java and in a message."""
_TEXTS = frozenset({"citext", "json", "text", "uuid"})
"""Those among them that are a STRING to Connect."""
_TRUTHS: Mapping[bytes | None, bytes | None] = {b"t": b"true", b"f": b"false", None: None}
_WHOLE_SECONDS = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_THOUSANDTHS: Mapping[bytes, int] = {b"": 0} | {
    b".%0*d" % (digits, number): number * 10 ** (3 - digits) for digits in (1, 2, 3) for number in range(10**digits)
}
"""What stands behind the seconds, as far as milliseconds go: PostgreSQL drops zeros at the end."""
_REMEMBERED = 1_000
"""So many topics, or seconds, are remembered at most: an outbox has a few types, and a backlog few rows a second."""
_ANY_PARTITION = 2**31
"""How many partitions a topic has is not known here."""


class _NotCompilableError(Exception):
    """The reference routes the rows of this relation."""


class _TopicsByType(dict[bytes, str]):
    """The topics of the aggregate types that occurred."""

    def __init__(self, topic_of: Callable[[str], str]) -> None:
        super().__init__()
        self._topic_of = topic_of

    def __missing__(self, aggregate_type: bytes) -> str:
        topic = self._topic_of(aggregate_type.decode())
        if find_refusal(Message(topic=topic, key=None, value=None), _ANY_PARTITION):
            raise KeyError(aggregate_type)
        if len(self) >= _REMEMBERED:
            self.clear()
        self[aggregate_type] = topic
        return topic


class _SecondsByText(dict[bytes, tuple[int, bytes]]):
    """Whole seconds that occurred, as milliseconds since 1970 and as the text of their number; none before 1970."""

    def __missing__(self, text: bytes) -> tuple[int, bytes]:
        if not _WHOLE_SECONDS.fullmatch(text):
            raise KeyError(text)
        seconds = int(datetime.fromisoformat(text.decode()).replace(tzinfo=UTC).timestamp())
        if seconds <= 0:
            raise KeyError(text)
        if len(self) >= _REMEMBERED:
            self.clear()
        self[text] = found = seconds * 1000, str(seconds).encode()
        return found


def milliseconds_now() -> int:
    """Return the current time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteCompiler:
    """Makes the routes of one connector's configuration.

    Args:
        skipped_operations: Those that the connector drops before the EventRouter sees them.
        raw_topic: The topic of the table's rows before they are routed; an envelope's schema is named after it.
        clock: Gives a row without a time one, in milliseconds since 1970.
    """

    routing: Routing
    modes: ColumnModes = field(default_factory=ColumnModes)
    skipped_operations: frozenset[str] = frozenset("t")
    raw_topic: str = ""
    clock: Callable[[], int] = milliseconds_now

    @classmethod
    def from_config(cls, config: Mapping[str, str], *, raw_topic: str = "") -> "RouteCompiler":
        """Return the compiler for the flat configuration that Connect would get.

        Raises:
            RoutingError: The connector's task would fail before its first row.
            ConfigError: It asks for what is not imitated.
        """
        skipped = config.get("skipped.operations", "t").lower().split(",")
        return cls(
            routing=Routing.from_config(RoutingConfig.from_config(config), connector="postgresql"),
            modes=ColumnModes(config),
            skipped_operations=frozenset(operation.strip() for operation in skipped),
            raw_topic=raw_topic,
        )

    def drop(self, operation: str) -> None:
        """Drop an updated (``u``), deleted (``d``) or truncated (``t``) row, as the EventRouter does.

        Raises:
            RoutingError: The connector's task would fail.
        """
        if operation not in self.skipped_operations:
            change = Change(row=None, operation=operation, connector_time_ms=self.clock())
            self.routing.message(ConnectRecord(topic=self.raw_topic, value=change))

    def compile(self, columns: Sequence[Column]) -> Route:
        """Return the route of a relation.

        Args:
            columns: In the relation's order.

        Raises:
            ConfigError: A column that the EventRouter uses is of a type that is not imitated.
        """
        reference = self.reference(columns)
        try:
            return _RouteSource(self, columns, reference).route()
        except (_NotCompilableError, RoutingError):
            return reference

    def reference(self, columns: Sequence[Column]) -> Route:
        """Return the route that asks the EventRouter itself about every row.

        Raises:
            ConfigError: A column that the EventRouter uses is of a type that is not imitated.
        """
        used = [(number, column) for number, column in enumerate(columns) if column.name in self._used]
        for _, column in used:
            self._refuse_opaque(column)

        def route(values: Sequence[bytes | None]) -> RoutedEvent:
            if len(values) != len(columns):
                raise DecodeError(f"a row has {len(values)} values, and its relation {len(columns)} columns")
            row = {column.name: self.value(column, values[number]) for number, column in used}
            now = self.clock()
            change = Change(row=row, connector_time_ms=now, row_schema=f"{self.raw_topic}.Value")
            message = self.routing.message(ConnectRecord(topic=self.raw_topic, value=change))
            if message is None:  # an inserted row always becomes one
                raise RoutingError("the EventRouter drops inserted rows", exception="ConnectException")
            return _routed(message, now)

        return route

    @property
    def _used(self) -> frozenset[str | None]:
        router = self.routing.router
        names = {router.id_column, router.key_column, router.payload_column, router.route_by_column}
        placed = {placement.column for placement in router.placements}
        version = {router.version_column} if self.has_envelope else set()
        return frozenset({*names, *placed, router.timestamp_column, *version})

    @property
    def has_envelope(self) -> bool:
        """Whether payload and columns become a struct together."""
        return any(placement.kind is PlacementKind.ENVELOPE for placement in self.routing.router.placements)

    def _refuse_opaque(self, column: Column) -> None:
        if self.value(column, None).type is ConnectType.STRUCT:
            raise ConfigError(
                f"the column {column.name} is of the type {column.sql_type}, which the relay cannot convert",
                field=column.name,
                hint="Use a column of the type text instead, or publish with Debezium.",
            )

    def value(self, column: Column, text: bytes | None) -> ConnectValue:
        """Return a column's value as the EventRouter gets it; errors are those of a :data:`Route`."""
        try:
            return column_value(column, None if text is None else text.decode(), self.modes)
        except UnicodeDecodeError as error:
            raise DecodeError(f"the value of the column {column.name} is not UTF-8") from error


def _routed(message: Message, now: int) -> RoutedEvent:
    refusal = find_refusal(message, _ANY_PARTITION)
    if message.timestamp_ms == 0:
        # librdkafka takes 0 for the current time.
        refusal = refusal or "the Kafka client cannot produce the time 1970-01-01T00:00:00.000"
    if refusal:
        raise RoutingError(refusal, exception="ConnectException", stage="produce")
    timestamp_ms = now if message.timestamp_ms in {None, NO_TIMESTAMP} else message.timestamp_ms
    partition = -1 if message.partition is None else message.partition
    return message.topic, message.value, message.key, partition, timestamp_ms or now, list(message.headers)


class _RouteSource:
    """The source of one route, and the values that it names."""

    def __init__(self, compiler: RouteCompiler, columns: Sequence[Column], reference: Route) -> None:
        self._compiler = compiler
        self._columns = {column.name: (number, column) for number, column in enumerate(columns)}
        self._bound: dict[str, Any] = {"reference": reference}
        self._guards: dict[str, None] = {}
        self._moments: dict[str, str] = {}

    def route(self) -> Route:
        """Return the function.

        Raises:
            _NotCompilableError: It cannot be generated.
            RoutingError: The reference raises the same, or another error, for every row.
        """
        router, routing = self._compiler.routing.router, self._compiler.routing
        if self._compiler.has_envelope:
            raise _NotCompilableError
        headers = [self._header("id", router.id_column)]
        partition = "-1"
        for placement in router.placements:
            if router.ignores_missing and placement.column not in self._columns:
                continue
            match placement.kind:
                case PlacementKind.HEADER:
                    headers.append(self._header(placement.name, placement.column))
                case PlacementKind.PARTITION:
                    partition = self._partition(placement.column)
                case _:
                    raise _NotCompilableError
        key = self._converted(router.key_column, routing.key)
        routed = f"{self._topic()}, {self._payload()}, {key}, {partition}, {self._timestamp()}, [{', '.join(headers)}]"
        names = "".join(f"c{number}, " for number in range(len(self._columns)))
        guards = " or ".join(self._guards)
        source = "\n".join(
            (
                "def route(values):",
                "    try:",
                f"        {names}= values",
                *((f"        if {guards}: return reference(values)",) if guards else ()),
                *(f"        {moment}" for moment in self._moments.values()),
                f"        return {routed}",
                # Whatever it is: the reference gives the right result, or the right error.
                "    except Exception:",
                "        return reference(values)",
            )
        )
        exec(source, self._bound)  # noqa: S102 - indices and our own words alone
        route: Route = self._bound["route"]
        return route

    def _bind(self, value: object) -> str:
        name = f"b{len(self._bound)}"
        self._bound[name] = value
        return name

    def _find(self, name: str | None) -> tuple[str, Column]:
        """Return the variable of a column, and the column."""
        if name not in self._columns:
            raise _NotCompilableError
        number, column = self._columns[name]
        return f"c{number}", column

    def _null(self, column: Column) -> ConnectValue:
        return self._compiler.value(column, None)

    def _header(self, name: str, column_name: str) -> str:
        variable, column = self._find(column_name)
        if column.not_null and self._null(column).filled().value is None:
            self._guards[f"{variable} is None"] = None
        return f"({self._bind(name)}, {self._converted(column_name, self._compiler.routing.header)})"

    def _converted(self, column_name: str, converter: Converter) -> str:
        """Return the expression of what a converter makes of a column."""
        variable, column = self._find(column_name)
        null = self._null(column).filled()
        direct = self._direct(variable, column, converter)
        if direct is None:

            def convert(text: bytes | None) -> bytes | None:
                return converter.convert(self._compiler.value(column, text).filled())

            return f"{self._bind(convert)}({variable})"
        if null.value is None:
            return direct
        return f"({direct} if {variable} is not None else {self._bind(converter.convert(null))})"

    def _direct(self, variable: str, column: Column, converter: Converter) -> str | None:
        """Return the expression of a value that is no null, ``None`` if only the converter knows; a null stays one."""
        if isinstance(converter, BytesConverter):
            if base_type(column.sql_type) == "bytea":
                is_plain = converter.takes_buffers and self._null(column).type is ConnectType.BYTES
                return f"{self._bind(_octets)}({variable})" if is_plain else None
            return None if converter.delegate is None else self._direct(variable, column, converter.delegate)
        if not isinstance(converter, StringConverter | SimpleHeaderConverter):
            return None
        kind = base_type(column.sql_type)
        if kind == "boolean":
            return f"{self._bind(_TRUTHS)}[{variable}]"
        if digits := self._digits(column):
            self._split(variable)
            return f't{variable} + {variable}[20:].ljust({digits}, b"0")'
        return variable if kind in _SAME_TEXT else None

    def _payload(self) -> str:
        routing = self._compiler.routing
        variable, column = self._find(routing.router.payload_column)
        if not routing.router.tombstone_on_empty_payload:
            return self._converted(column.name, routing.value)

        def convert(text: bytes | None) -> bytes | None:
            payload = self._compiler.value(column, text).filled()
            return routing.value.convert(None if is_empty(payload.value) else payload)

        return f"{self._bind(convert)}({variable})"

    def _topic(self) -> str:
        variable, column = self._find(self._compiler.routing.router.route_by_column)
        if base_type(column.sql_type) not in _TEXTS:
            raise _NotCompilableError
        return f"{self._bind(_TopicsByType(self._compiler.routing.router.topic_of))}[{variable}]"

    def _timestamp(self) -> str:
        name = self._compiler.routing.router.timestamp_column
        if name is None:
            return f"{self._bind(self._compiler.clock)}()"
        variable, column = self._find(name)
        if self._digits(column) is None:
            raise _NotCompilableError
        self._split(variable)
        return f"m{variable} + {self._bind(_THOUSANDTHS)}[{variable}[19:23]]"

    def _digits(self, column: Column) -> int | None:
        """Return how many digits behind the second a moment's number has, ``None`` for what is no such number."""
        is_local = base_type(column.sql_type) == "timestamp"
        name = self._null(column).logical_name if is_local else None
        return {LogicalName.TIMESTAMP: 3, LogicalName.MICRO_TIMESTAMP: 6}.get(LogicalName(name)) if name else None

    def _split(self, variable: str) -> None:
        """Have the whole seconds of a moment at hand: milliseconds in ``m…``, the text of seconds in ``t…``."""
        # To the reference go nulls, and years before Christ, which end on a C.
        self._guards[f"{variable} is None or {variable}[-1] == 67"] = None
        if variable not in self._moments:
            self._moments[variable] = f"m{variable}, t{variable} = {self._bind(_SecondsByText())}[{variable}[:19]]"

    def _partition(self, column_name: str) -> str:
        variable, column = self._find(column_name)
        if base_type(column.sql_type) != "integer":
            raise _NotCompilableError
        return f"{self._bind(_partition)}({variable})"


def _octets(text: bytes | None) -> bytes | None:
    if text is None:
        return None
    if text[:2] != b"\\x":
        raise ValueError
    return unhexlify(text[2:])


def _partition(text: bytes | None) -> int:
    number = -1 if text is None else int(text)
    if text is not None and number < 0:
        raise ValueError
    return number
