"""What Debezium makes of PostgreSQL's columns: a column and its text as a typed value. Pure."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from uuid import UUID

from cdc_outbox.debezium.event_router import ConnectType, ConnectValue, LogicalName
from cdc_outbox.debezium.event_router.values import Scalar
from cdc_outbox.errors import ConfigError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TYPE = re.compile(
    r"(?P<name>[a-z_][a-z0-9_ ]*?) *(?:\((?P<length>\d+) *(?:, *(?P<scale>\d+))?\))?"
    r"(?P<zone> with(?:out)? time zone)?(?P<array>(?:\[\])*)"
)
_SYNONYMS = {
    "bool": "boolean",
    "char": "character",
    "character varying": "text",
    "decimal": "numeric",
    "double precision": "float8",
    "int": "integer",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "jsonb": "json",
    "real": "float4",
    "varchar": "text",
}
_PLAIN: Mapping[str, tuple[ConnectType, str | None]] = {
    "bigint": (ConnectType.INT64, None),
    "boolean": (ConnectType.BOOLEAN, None),
    "citext": (ConnectType.STRING, None),
    "float4": (ConnectType.FLOAT32, None),
    "float8": (ConnectType.FLOAT64, None),
    "integer": (ConnectType.INT32, None),
    "json": (ConnectType.STRING, LogicalName.JSON),
    "oid": (ConnectType.INT64, None),
    "smallint": (ConnectType.INT16, None),
    "text": (ConnectType.STRING, None),
    "uuid": (ConnectType.STRING, LogicalName.UUID),
}
_BITS = {ConnectType.INT16: 16, ConnectType.INT32: 32, ConnectType.INT64: 64}
_CALL = re.compile(r"\(?[A-Za-z0-9_.]+\((?:.+)?\)")
"""The beginnings of defaults that Debezium reads as function calls: it puts a placeholder in place of the result."""
_MOMENTS = {"current_timestamp", "current_time", "current_date", "localtime", "localtimestamp"}
_PLACEHOLDERS = (
    dict.fromkeys(("bigint", "integer", "smallint"), "0")
    | dict.fromkeys(("float4", "float8", "numeric"), "0.0")
    | dict.fromkeys(("date", "timestamp", "timestamptz"), "1970-01-01")
    | {"boolean": "false", "character": "", "json": "{}", "text": "", "time": "00:00", "uuid": str(UUID(int=0))}
)
_LITERAL = re.compile(r"'([^']*(?:''[^']*)*)'")
_UP_TO_MILLISECONDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column, its type and its default as PostgreSQL spells them."""

    name: str
    sql_type: str
    not_null: bool = False
    default: str = ""


@dataclass(frozen=True, slots=True)
class ColumnModes:
    """The connector's options that decide how columns reach the EventRouter, with Debezium's defaults."""

    config: Mapping[str, str] = field(default_factory=dict)

    def choice(self, option: str, known: tuple[str, ...]) -> str:
        """Return an option's value, the first one by default.

        Raises:
            ConfigError: What Debezium does then is not known here.
        """
        chosen = self.config.get(option, known[0]).strip().lower()
        if chosen not in known:
            raise ConfigError(f"{option}={chosen} is not supported here", field=option)
        return chosen


def column_value(column: Column, text: str | None, modes: ColumnModes) -> ConnectValue:
    """Return a column's value as the EventRouter gets it.

    A type whose values nothing here looks into (an array, a point) is a struct without a value.

    Args:
        text: As ``cast(… as text)`` gives it with PostgreSQL's own settings, times in ISO 8601; ``None`` for null.

    Raises:
        ConfigError: The text is none of the type.
    """
    try:
        # Half a surrogate pair, which JSON can write and no database holds.
        (text or "").encode()
        value = _typed(column.sql_type, text, modes)
    except (ValueError, InvalidOperation, OverflowError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"the value is not of type {column.sql_type}", field=column.name) from error
    fallback = _default_value(column, modes)
    return ConnectValue(
        value.type, value.value, value.logical_name, fallback, not column.not_null, parameters=value.parameters
    )


def base_type(sql_type: str) -> str:
    """Return a type's name without its length, and without its synonyms."""
    parts = _TYPE.fullmatch(sql_type.strip().lower())
    if parts is None or parts["array"]:
        return ""
    name = f"{parts['name']}tz" if parts["zone"] == " with time zone" else parts["name"]
    return _SYNONYMS.get(name, name)


def _typed(sql_type: str, text: str | None, modes: ColumnModes) -> ConnectValue:
    name, parts = base_type(sql_type), _TYPE.fullmatch(sql_type.strip().lower())
    length = None if parts is None or parts["length"] is None else int(parts["length"])
    match name:
        case "bytea":
            return _bytes(text, modes.choice("binary.handling.mode", ("bytes", "base64", "base64-url-safe", "hex")))
        case "numeric":
            scale = int(parts["scale"] or 0) if parts else 0
            return _decimal(text, length, scale, modes.choice("decimal.handling.mode", ("precise", "string", "double")))
        case "character" | "timestamptz":
            return _text(name, text, length)
        case "timestamp" | "time" | "date":
            mode = modes.choice("time.precision.mode", ("adaptive", "adaptive_time_microseconds", "connect"))
            return _time(name, text, 6 if length is None else length, mode)
        case _ if name in _PLAIN:
            kind, logical_name = _PLAIN[name]
            return ConnectValue(kind, None if text is None else _scalar(kind, text), logical_name)
        case _:
            return ConnectValue(ConnectType.STRUCT, None)


def _scalar(kind: ConnectType, text: str) -> Scalar:
    if kind in _BITS:
        number, end = int(text), 1 << _BITS[kind] - 1
        if not -end <= number < end:
            raise ValueError(text)
        return number
    if kind is ConnectType.BOOLEAN:
        if text.lower() not in {"true", "false", "t", "f"}:
            raise ValueError(text)
        return text.lower().startswith("t")
    return text


def _bytes(text: str | None, mode: str) -> ConnectValue:
    kind = ConnectType.BYTES if mode == "bytes" else ConnectType.STRING
    if text is None:
        return ConnectValue(kind, None)
    octets = bytes.fromhex(text[2:]) if text.startswith("\\x") else text.encode()
    match mode:
        case "bytes":
            return ConnectValue(kind, octets)
        case "hex":
            return ConnectValue(kind, octets.hex())
        case "base64":
            return ConnectValue(kind, base64.b64encode(octets).decode())
        case _:
            return ConnectValue(kind, base64.urlsafe_b64encode(octets).decode())


def _decimal(text: str | None, precision: int | None, scale: int, mode: str) -> ConnectValue:
    if mode == "string":
        return ConnectValue(ConnectType.STRING, text)
    if mode == "double":
        return ConnectValue(ConnectType.FLOAT64, text)
    if precision is None:
        # Each value has a scale of its own then, in a struct.
        return ConnectValue(ConnectType.STRUCT, None, "io.debezium.data.VariableScaleDecimal")
    value = None if text is None else Decimal(text).quantize(Decimal(1).scaleb(-scale))
    parameters = (("scale", str(scale)), ("connect.decimal.precision", str(precision)))
    return ConnectValue(ConnectType.BYTES, value, LogicalName.DECIMAL, parameters=parameters)


def _time(name: str, text: str | None, digits: int, mode: str) -> ConnectValue:
    micros = None if text is None else _microseconds(name, text)
    if mode == "connect":
        kind, logical_name, unit = {
            "timestamp": (ConnectType.INT64, LogicalName.CONNECT_TIMESTAMP, 1_000),
            "time": (ConnectType.INT32, LogicalName.CONNECT_TIME, 1_000),
            "date": (ConnectType.INT32, LogicalName.CONNECT_DATE, 86_400_000_000),
        }[name]
    elif name == "date":
        kind, logical_name, unit = ConnectType.INT32, "io.debezium.time.Date", 86_400_000_000  # type: ignore[assignment]
    elif name == "timestamp":
        is_short = digits <= _UP_TO_MILLISECONDS
        kind, unit = ConnectType.INT64, 1_000 if is_short else 1
        logical_name = LogicalName.TIMESTAMP if is_short else LogicalName.MICRO_TIMESTAMP
    else:
        is_short = digits <= _UP_TO_MILLISECONDS and mode == "adaptive"
        kind, unit = (ConnectType.INT32, 1_000) if is_short else (ConnectType.INT64, 1)
        logical_name = f"io.debezium.time.{'Time' if is_short else 'MicroTime'}"  # type: ignore[assignment]
    return ConnectValue(kind, None if micros is None else micros // unit, logical_name)


def _text(name: str, text: str | None, length: int | None) -> ConnectValue:
    """Return what is a text to Connect, and no plain one to PostgreSQL: it casts blanks and time zones away."""
    if name == "character":
        return ConnectValue(ConnectType.STRING, None if text is None else text.ljust(length or 1))
    return ConnectValue(
        ConnectType.STRING, None if text is None else _instant(text, length), LogicalName.ZONED_TIMESTAMP
    )


def _instant(text: str, digits: int | None) -> str:
    """Return a moment in UTC, with as many digits of a second as its column has."""
    moment = datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    whole, _, fraction = moment.isoformat(timespec="microseconds").partition(".")
    return f"{whole}{'' if digits == 0 else '.' + fraction[: 6 if digits is None else digits]}Z"


def _microseconds(name: str, text: str) -> int:
    """Return the microseconds since 1970, or of a time since midnight."""
    if name == "time":
        moment = datetime.combine(_EPOCH, time.fromisoformat(text), tzinfo=UTC)
    else:
        moment = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _default_value(column: Column, modes: ColumnModes) -> Scalar | None:
    """Return what takes the place of a null: a constant, a placeholder for a call, or nothing.

    As PostgresDefaultValueConverter of Debezium 3.7 reads a default; what it cannot read is no default.
    """
    default, name = column.default, base_type(column.sql_type)
    if not default or name not in _PLACEHOLDERS:
        return None
    if _CALL.match(default) or default.lower() in _MOMENTS:
        text = _PLACEHOLDERS[name]
    else:
        literal = _LITERAL.search(default)
        text = default if literal is None else literal[1].replace("''", "'")
    try:
        return text if name == "character" else _typed(column.sql_type, text, modes).value
    except (ValueError, InvalidOperation, OverflowError):
        return None
