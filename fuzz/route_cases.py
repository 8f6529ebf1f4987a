"""Random relations, options and rows for compiled routes; every case is made from a number alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from cdc_outbox.debezium.event_router.column_values import Column

NAMES = (
    *(
        "id",
        "payload",
        "c0",
        "b0",
        "values",
        "reference",
        "__import__('os').abort()",
        "None",
        "x = 1\nraise SystemExit",
    ),
    *(
        '"',
        "'",
        '"""',
        "'''",
        "\\",
        "\\x00",
        "\\N{DEAD}",
        "{b1}",
        "%s",
        "#",
        "a\rb",
        "a\x85b",
        "a\u2028b",
        "\ufeff",
        "ж",
    ),
    *("lambda", ")", "]", "), reference(", "c0]\n#", "\U0001f600", "x" * 63, "class", "\t\f", "$1", "--", ";"),
)
"""Names of columns and headers. A comma or a colon in a name separates the entries of the option."""
_TEXTS = (
    "",
    "order",
    "Order",
    "edge.case",
    "a b",
    "ä",
    "\n",
    " ",
    " \t",
    "null",
    "{}",
    "x" * 300,
    "\U0001f600",
    "7",
    "$1",
)
_ORDINARY = ("order", "Order", "edge.case", "7")
"""Texts that make a topic."""
_IDS = ("00000000-0000-0000-0000-000000000007", "0190163d-8694-739b-aea5-966c26f8ad91")
_MOMENTS = (
    *("1970-01-01 00:00:01", "1970-01-01 00:00:00.001", "1970-01-01 00:00:00", "1970-01-01 00:00:00.0009"),
    *("1969-12-31 23:59:59.999999", "1969-12-31 23:59:59.9985", "1969-12-31 23:59:59.999", "0001-01-01 00:00:00"),
    *("9999-12-31 23:59:59.999999", "2026-02-28 12:34:56.1", "2026-02-28 12:34:56", "2026-02-28 12:34:56.000001"),
)
_ODD_MOMENTS = (
    *("infinity", "-infinity", "2026-02-28 12:34:56 BC", "2026-02-28 12:34:56.123 BC", "2026-02-28 12:34:56.1 BC"),
    *("10000-01-01 00:00:00", "10000-01-01 00:00:00.123", "294276-12-31 23:59:59.999999", ""),
)
"""Those that nothing here converts."""
TYPES: Mapping[str, Sequence[str]] = {
    "text": _TEXTS,
    "character varying(300)": _TEXTS,
    "citext": _TEXTS,
    "uuid": _IDS,
    "json": ("{}", '{ "a":  1.10 }', "null", '"ä"'),
    "jsonb": ('{"a": [1, 2]}', "null"),
    "smallint": ("0", "-32768", "7"),
    "integer": ("0", "1", "-1", "2147483647", "-2147483648"),
    "bigint": ("0", "9223372036854775807", "-1"),
    "oid": ("0", "4294967295"),
    "boolean": ("t", "f"),
    "bytea": ("\\x", "\\x00ff", "\\x7b7d"),
    "character(3)": ("x  ", "xyz", "   "),
    "numeric(10,2)": ("1.50", "-0.01", "0.00"),
    "timestamp without time zone": _MOMENTS,
    "timestamp(3) without time zone": [moment[:23] for moment in _MOMENTS],
    "timestamp(0) without time zone": [moment[:19] for moment in _MOMENTS],
    "timestamp with time zone": ("2026-01-01 00:00:00+00", "1999-12-31 23:59:59.123456+00"),
    "date": ("2026-02-28", "1969-12-31"),
    "time without time zone": ("12:00:00", "23:59:59.999999"),
    "double precision": ("1.5",),
    "numeric": ("1.5",),
    "text[]": ("{a}",),
    "inet": ("127.0.0.1",),
}
STRUCTS = frozenset({"numeric", "text[]", "inet"})
"""Types that are refused, the first of them with ``decimal.handling.mode=precise`` alone."""

_STRING = "org.apache.kafka.connect.storage.StringConverter"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
_CONVERTERS = (
    *({"": _STRING}, {"": _STRING}, {"": _STRING}, {"": _JSON}, {"": _JSON, ".schemas.enable": "false"}),
    {"": _JSON, ".schemas.enable": "false", ".replace.null.with.default": "false"},
    {"": "org.apache.kafka.connect.storage.SimpleHeaderConverter"},
    {"": "org.apache.kafka.connect.converters.ByteArrayConverter"},
    {"": "io.debezium.converters.BinaryDataConverter", ".delegate.converter.type": _STRING},
    {"": "io.debezium.converters.ByteArrayConverter", ".delegate.converter.type": _STRING},
)
_REGEXES = ("(?<routedByValue>.*)", "(.*)", "order(.*)", "[a-z]*", "(edge)[.]case")
_REPLACEMENTS = ("outbox.event.${routedByValue}", "$1", "fixed", "x.$1", "")
_MICROSECONDS = 10**6


@dataclass(frozen=True, slots=True)
class RouteCase:
    """A connector's configuration, a relation and its rows.

    Args:
        used: The names of columns that the EventRouter looks at.
    """

    config: Mapping[str, str]
    columns: tuple[Column, ...]
    rows: tuple[tuple[bytes | None, ...], ...]
    used: frozenset[str]

    @property
    def is_refused(self) -> bool:
        """Whether a column that is used is of a type that has no conversion."""
        known = {"numeric"} if self.config.get("decimal.handling.mode", "precise") != "precise" else set()
        return any(column.name in self.used and column.sql_type in STRUCTS - known for column in self.columns)


def make_route_case(seed: int) -> RouteCase:
    """Return the case of a number."""
    return _Draft(Random(seed)).case()


class _Draft:
    def __init__(self, random: Random) -> None:
        self._random = random
        self._names = random.sample(NAMES, len(NAMES))

    def _rarely(self, share: int) -> bool:
        return not self._random.randrange(share)

    def _pick(self, usual: Sequence[str], share: int = 25) -> str:
        """Return one of the usual types, and rarely any other."""
        return self._random.choice([*TYPES] if self._rarely(share) else usual)

    def _name(self, usual: str) -> str:
        return usual if self._random.random() < 0.3 else self._names.pop()

    def case(self) -> RouteCase:
        router, columns = "transforms.outbox.", {}
        config = {"transforms": "outbox", f"{router}type": "io.debezium.transforms.outbox.EventRouter"}
        for option, usual, types in (
            ("table.field.event.id", "id", ("uuid", "text", "bigint")),
            ("table.field.event.key", "aggregateid", ("text", "character varying(300)", "uuid", "bigint")),
            ("table.field.event.payload", "payload", ("json", "jsonb", "text", "bytea")),
            ("route.by.field", "aggregatetype", ("text", "character varying(300)")),
        ):
            name = self._name(usual)
            config[router + option] = name
            if not self._rarely(100):
                columns[name] = self._pick(types)
        if self._random.random() < 0.8:
            config[f"{router}table.field.event.timestamp"] = name = self._name("created_at")
            moments = [each for each in TYPES if each.startswith("timestamp") and "with time" not in each]
            columns[name] = self._pick(moments)
        used = {value for option, value in config.items() if option.startswith((f"{router}table", f"{router}route"))}
        for _ in range(self._random.randrange(4)):
            columns[self._names.pop()] = self._random.choice([*TYPES])
        placed = self._placements(config, columns)
        self._options(config)
        return self._filled(config, columns, frozenset(used | placed))

    def _placements(self, config: dict[str, str], columns: dict[str, str]) -> set[str]:
        entries, placed = [], set()
        for _ in range(self._random.randrange(8)):
            name = self._random.choice([*columns]) if self._rarely(4) else self._names.pop()
            if name != name.strip("".join(map(chr, range(33)))):
                continue
            kind = "header"
            if self._rarely(15):
                kind = self._random.choice(("partition", "envelope", "partition", "envelope", "partition", "nowhere"))
            if not self._rarely(40) and name not in columns:
                columns[name] = "integer" if kind == "partition" else self._random.choice([*TYPES][:-4])
                if self._rarely(30):
                    columns[name] = self._random.choice([*STRUCTS])
            alias = f":{self._random.choice(NAMES)}" if self._random.random() < 0.4 else ""
            entries.append(f"{name}:{kind}{alias}")
            placed.add(name)
        if entries:
            config["transforms.outbox.table.fields.additional.placement"] = ",".join(entries)
        return placed

    def _options(self, config: dict[str, str]) -> None:
        pick, router = self._random.choice, "transforms.outbox."
        config[f"{router}table.field.additional.missing"] = pick(("ignore", "ignore", "error"))
        config[f"{router}route.tombstone.on.empty.payload"] = pick(("true", "false", "false"))
        if self._rarely(4):
            config[f"{router}route.topic.regex"] = pick(_REGEXES)
            config[f"{router}route.topic.replacement"] = pick(_REPLACEMENTS)
        for option in ("key.converter", "value.converter", "header.converter"):
            usual = self._random.random() < 0.8
            converter = _CONVERTERS[0] if usual else pick(_CONVERTERS)
            config |= {option + name: value for name, value in converter.items()}
        if self._random.random() < 0.5 and config["header.converter"] == _STRING:
            del config["header.converter"]
        for option, values in (
            ("binary.handling.mode", ("bytes", "base64", "hex", "base64-url-safe")),
            ("decimal.handling.mode", ("precise", "string", "double")),
            ("time.precision.mode", ("adaptive", "adaptive_time_microseconds", "connect")),
        ):
            if self._rarely(8):
                config[option] = pick(values)

    def _filled(self, config: dict[str, str], types: Mapping[str, str], used: frozenset[str]) -> RouteCase:
        names = self._random.sample([*types], len(types))
        columns = tuple(self._column(name, types[name]) for name in names)
        values: list[Callable[[], bytes | None]] = [self._value(column, column.name in used) for column in columns]
        rows = tuple(tuple(value() for value in values) for _ in range(self._random.randrange(1, 4)))
        if self._rarely(200):
            rows = (*rows, rows[0][:-1], (*rows[0], None))
        return RouteCase(config, columns, rows, used)

    def _column(self, name: str, sql_type: str) -> Column:
        default = ""
        if self._rarely(8) and sql_type not in STRUCTS:
            default = f"'{self._random.choice(TYPES[sql_type])}'::{sql_type}"
        return Column(name=name, sql_type=sql_type, not_null=self._rarely(6), default=default)

    def _value(self, column: Column, is_used: bool) -> Callable[[], bytes | None]:  # noqa: FBT001 - private
        texts = [*TYPES[column.sql_type]]
        ordinary = [text for text in _ORDINARY if text in texts]
        if is_used and column.sql_type.startswith("timestamp") and self._rarely(10):
            texts += _ODD_MOMENTS
        share = 40 if column.not_null or ordinary else 7

        def value() -> bytes | None:
            if self._rarely(share):
                return None
            if column.sql_type == "integer" and self._random.random() < 0.7:
                return b"%d" % self._random.randrange(100)
            if " without" in column.sql_type and column.sql_type.startswith("timestamp") and not self._rarely(14):
                return self._moment(column.sql_type)
            return self._random.choice(ordinary if ordinary and not self._rarely(12) else texts).encode()

        return value

    def _moment(self, sql_type: str) -> bytes:
        """Return a moment of this century as PostgreSQL writes it, without the zeros at its end."""
        digits = {"(0)": 0, "(3)": 3}.get(sql_type[9:12], 6)
        pick = self._random.randrange
        whole = f"20{pick(100):02}-{1 + pick(12):02}-{1 + pick(28):02} {pick(24):02}:{pick(60):02}:{pick(60):02}"
        fraction = f".{pick(_MICROSECONDS):06}"[: 1 + digits].rstrip("0").rstrip(".") if not self._rarely(5) else ""
        return f"{whole}{fraction}".encode()
