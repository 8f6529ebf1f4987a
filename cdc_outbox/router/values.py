"""Values as Kafka Connect sees them: a type, and a logical name where the plain type does not say enough."""

import base64
from dataclasses import dataclass
from enum import StrEnum


class ConnectType(StrEnum):
    """Connect's schema types that an outbox row is made of."""

    STRING = "STRING"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    BOOLEAN = "BOOLEAN"
    BYTES = "BYTES"


class LogicalName(StrEnum):
    """Debezium's schema names that the EventRouter or a converter looks at."""

    UUID = "io.debezium.data.Uuid"
    JSON = "io.debezium.data.Json"
    TIMESTAMP = "io.debezium.time.Timestamp"
    MICRO_TIMESTAMP = "io.debezium.time.MicroTimestamp"
    NANO_TIMESTAMP = "io.debezium.time.NanoTimestamp"
    ZONED_TIMESTAMP = "io.debezium.time.ZonedTimestamp"


@dataclass(frozen=True, slots=True)
class ConnectValue:
    """One column of a row.

    Args:
        value: ``None`` for SQL's null.
        logical_name: A :class:`LogicalName`, or any other name; ``None`` for a plain type.
        default: The column's constant default, which Debezium keeps in the schema.
    """

    type: ConnectType
    value: str | int | bool | bytes | None
    logical_name: str | None = None
    default: str | int | bool | bytes | None = None

    @property
    def filled(self) -> str | int | bool | bytes | None:
        """The value, and the default in the place of a null: what Connect's ``Struct.get`` returns.

        Its ``getString``, ``getInt32`` and ``getInt64`` return the null.
        """
        return self.default if self.value is None else self.value

    def text(self) -> bytes | None:
        """Return what StringConverter and SimpleHeaderConverter make of ``filled``: UTF-8, ``None`` for null.

        Bytes become base64, which is what SimpleHeaderConverter makes of them; StringConverter makes rubbish,
        so a router refuses a key or a payload of bytes.
        """
        match self.filled:
            case None:
                return None
            case bool(truth):
                return b"true" if truth else b"false"
            case bytes(octets):
                return base64.b64encode(octets)
            case other:
                return str(other).encode()
