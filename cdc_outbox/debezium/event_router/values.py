"""Values as Kafka Connect sees them: a schema, and a value or none."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

Scalar = str | int | bool | bytes | Decimal
"""What a column holds: bytes as Java's ``ByteBuffer``, which is what the relational connectors hand over."""


class ConnectType(StrEnum):
    """Connect's schema types."""

    STRING = "STRING"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FLOAT32 = "FLOAT32"
    FLOAT64 = "FLOAT64"
    BOOLEAN = "BOOLEAN"
    BYTES = "BYTES"
    ARRAY = "ARRAY"
    MAP = "MAP"
    STRUCT = "STRUCT"


class LogicalName(StrEnum):
    """Schema names that the EventRouter or a converter looks at."""

    UUID = "io.debezium.data.Uuid"
    JSON = "io.debezium.data.Json"
    TIMESTAMP = "io.debezium.time.Timestamp"
    MICRO_TIMESTAMP = "io.debezium.time.MicroTimestamp"
    NANO_TIMESTAMP = "io.debezium.time.NanoTimestamp"
    ZONED_TIMESTAMP = "io.debezium.time.ZonedTimestamp"
    DECIMAL = "org.apache.kafka.connect.data.Decimal"
    CONNECT_DATE = "org.apache.kafka.connect.data.Date"
    CONNECT_TIME = "org.apache.kafka.connect.data.Time"
    CONNECT_TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"


CONNECT_DATES = frozenset({LogicalName.CONNECT_DATE, LogicalName.CONNECT_TIME, LogicalName.CONNECT_TIMESTAMP})
"""Schemas whose values are of Java's ``Date``, though their type says a number: ``time.precision.mode=connect``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectSchema:
    """What a value may be; two that are equal are the same to Connect.

    Args:
        fields: Of a struct, in their order.
        keys: What a map's keys are.
        items: What an array holds, or a map's values are; ``None`` where that is not known.
    """

    type: ConnectType
    name: str | None = None
    optional: bool = True
    version: int | None = None
    default: Scalar | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    fields: tuple[tuple[str, "ConnectSchema"], ...] = ()
    keys: "ConnectSchema | None" = None
    items: "ConnectSchema | None" = None

    @property
    def java_class(self) -> str:
        """The kind of Java object that its values are."""
        if self.name in CONNECT_DATES:
            return "Date"
        return "BigDecimal" if self.name == LogicalName.DECIMAL else self.type


@dataclass(frozen=True, slots=True)
class ConnectValue:
    """One column of a row.

    Args:
        value: ``None`` for SQL's null. Of an array, a map, a struct or a floating-point number it may be anything:
            nothing here looks into it.
        logical_name: A :class:`LogicalName`, or any other name; ``None`` for a plain type. Those that Connect and
            Debezium give are all of version 1.
        default: The column's constant default, which Debezium keeps in the schema.
        parameters: Of the schema, such as a decimal's ``scale``.
        keys: As a :class:`ConnectSchema` has them.
        items: As a :class:`ConnectSchema` has them.
    """

    type: ConnectType
    value: Scalar | None
    logical_name: str | None = None
    default: Scalar | None = None
    optional: bool = True
    parameters: tuple[tuple[str, str], ...] = ()
    keys: ConnectSchema | None = None
    items: ConnectSchema | None = None

    @property
    def schema(self) -> ConnectSchema:
        """The schema alone."""
        return ConnectSchema(
            type=self.type,
            name=self.logical_name,
            optional=self.optional,
            version=None if self.logical_name is None else 1,
            default=self.default,
            parameters=self.parameters,
            keys=self.keys,
            items=self.items,
        )

    def filled(self) -> "ConnectValue":
        """Return it with the default in the place of a null, as Connect's ``Struct.get`` does.

        Its ``getString``, ``getInt32`` and ``getInt64`` return the null.
        """
        return self if self.value is not None or self.default is None else replace(self, value=self.default)


@dataclass(frozen=True, slots=True)
class ConnectStruct:
    """A struct of plain fields: an event with its envelope, a heartbeat.

    Args:
        values: By the fields' names; a field may be missing, which is a null.
    """

    schema: ConnectSchema
    values: Mapping[str, Scalar | None]
