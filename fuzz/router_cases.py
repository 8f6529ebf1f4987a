"""Random configurations and rows for the EventRouter, most of which make a message.

Every case is made from a number alone. What a case is about is written down as marks, so that a run can count how often
each option's value and each converter's cell occurred.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from cdc_outbox.debezium.event_router import (
    Change,
    ConnectRecord,
    ConnectSchema,
    ConnectStruct,
    ConnectType,
    ConnectValue,
    LogicalName,
    RoutingConfig,
)
from cdc_outbox.debezium.event_router.routing import EVENT_ROUTER, ConnectPlugin
from cdc_outbox.debezium.event_router.values import Scalar
from fuzz.router_regexes import BROKEN, BROKEN_REPLACEMENTS, FIXED, OUTSIDE, REPLACEMENTS, TEXTS, random_regex
from fuzz.router_tables import (
    BROKEN_CONVERTERS,
    BROKEN_PLACEMENTS,
    BROKEN_SWITCHES,
    BYTES_ONLY,
    CONVERTERS,
    KINDS,
    NULLS,
    ODD_PLACEMENTS,
    OTHERS,
    SWITCHES,
    TIMES,
    Kind,
)

T, L = ConnectType, LogicalName


@dataclass(frozen=True, slots=True)
class Case:
    """One connector's configuration, and the records that it sees, in their order.

    Args:
        watermarks: What it is about.
    """

    config: RoutingConfig
    records: tuple[ConnectRecord, ...]
    watermarks: frozenset[str]


@dataclass
class _Draft:
    """A case in the making.

    Args:
        number: Which of its sort: what every run needs often enough is taken in turn, the rest is random.
        position: ``key`` or ``value``, where the case is about a converter's cell, and nothing else may go wrong.
    """

    random: Random
    number: int
    position: str = ""
    converter: str = ""
    kind: str = ""
    options: dict[str, str] = field(default_factory=dict)
    watermarks: set[str] = field(default_factory=set)
    columns: dict[str, Kind] = field(default_factory=dict)
    texts: Sequence[str] = TEXTS

    @property
    def is_wild(self) -> bool:
        """Whether anything may go wrong."""
        return not self.position

    def mishap(self, probability: float) -> bool:
        """Tell whether something goes wrong, with this probability."""
        return self.is_wild and self.chance(probability)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def set(self, option: str, value: str, mark: str | None = None) -> None:
        self.options[option] = value
        self.watermarks.add(f"{option}={value if mark is None else mark}")

    def make(self) -> Case:
        self._columns()
        self._switches()
        self._names()
        self._placements()
        self._topics()
        config = self._config()
        if self.is_wild and self.number % 8 == 0:
            self._break(self.number // 8)
        records = tuple(self._record() for _ in range(self.random.choice([1, 1, 2, 3]) if self.is_wild else 3))
        router = ConnectPlugin(EVENT_ROUTER, dict(self.options))
        return Case(replace(config, router=router), records, frozenset(self.watermarks))

    def _columns(self) -> None:
        payload = self.random.choices(list(KINDS), weights=[6, 8, 1, 1, 1, 1, 1, 8, 2, 1])[0]
        key = self.random.choices(list(KINDS), weights=[8, 1, 4, 1, 2, 2, 1, 2, 1, 1])[0]
        if self.position == "key":
            key = self.kind
        elif self.position:
            payload = _COLUMN_OF.get(self.kind, self.kind)
        self.columns = {
            "id": KINDS[self.random.choices(["uuid", "text", "int32", "bytes"], weights=[8, 1, 1, 1])[0]],
            "aggregatetype": Kind(T.STRING, lambda random: random.choice(self.texts)),
            "aggregateid": KINDS[key],
            "payload": KINDS[payload],
            "type": KINDS["text"],
            "flag": KINDS["boolean"],
            "p": Kind(T.INT32, lambda random: random.randrange(8)),
            "q": Kind(T.INT32, lambda random: random.randrange(8)),
            "version": Kind(T.INT32, lambda random: random.randrange(1, 3)),
            "at": TIMES["MicroTimestamp"],
            "date": Kind(T.INT32, lambda random: random.randrange(9), L.CONNECT_DATE),
            "ratio": Kind(T.FLOAT64, lambda _: 1),
            **NULLS,
            **{name: kind for name, kind in KINDS.items() if name in {"int16", "int64", "bytes", "decimal", "json"}},
        }
        self.watermarks |= {f"payload={payload}", f"key={key}"}

    def _switches(self) -> None:
        for option, values in SWITCHES.items():
            if self.chance(0.15):
                self.set(option, self.random.choice(values))
        if self.kind == "tombstone":
            self.set("route.tombstone.on.empty.payload", "true")
        elif self.position:
            self.options.pop("route.tombstone.on.empty.payload", None)
        elif self.chance(0.25):
            self.set("route.tombstone.on.empty.payload", "true")

    def _names(self) -> None:
        names = {"id": "id", "key": "aggregateid", "payload": "payload"}
        for role, column in names.items():
            if self.chance(0.1):
                other = self.random.choice(sorted(KINDS.keys() & self.columns.keys()))
                self.columns[f"my_{role}"] = self.columns[other] if self.mishap(0.3) else self.columns.pop(column)
                self.set(f"table.field.event.{role}", f"my_{role}")
            elif self.mishap(0.03):
                self.set(f"table.field.event.{role}", self.random.choice(["nowhere", ""]), "missing")
        if self.chance(0.1):
            self.columns["kind"] = self.columns.pop("aggregatetype")
            self.set("route.by.field", "kind")
        elif self.mishap(0.03):
            self.set("route.by.field", self.random.choice(["nowhere", "int64"]), "unfit")
        if self.chance(0.4):
            weights = [5, 7, 5, 1, 1, 1, 1] if self.is_wild else [1, 1, 1, 0, 0, 0, 0]
            time = self.random.choices(list(TIMES), weights=weights)[0]
            self.columns["at"] = TIMES[time]
            self.set("table.field.event.timestamp", "at", time)
        elif self.mishap(0.03):
            self.set("table.field.event.timestamp", "nowhere", "missing")

    def _placements(self) -> None:
        if self.mishap(0.28):
            mark, text = ODD_PLACEMENTS[self.number % len(ODD_PLACEMENTS)]
            self.set("table.fields.additional.placement", text, mark)
        elif self.kind == "struct" or self.chance(0.6):
            entries = [self._placement(number) for number in range(self.random.randrange(1, 5))]
            self.set("table.fields.additional.placement", self.random.choice([",", ", "]).join(entries), "usual")
        if self.chance(0.2):
            column = self.random.choices(
                ["version", "int64", "nowhere"], weights=[8, 1, 1] if self.is_wild else [1, 0, 0]
            )[0]
            self.set("table.field.event.schema.version", column)

    def _placement(self, number: int) -> str:
        placed = self.random.choices(["header", "envelope", "partition"], weights=[5, 3, 1])[0]
        if self.position == "value" and placed == "envelope":
            placed = "header"
        if self.kind == "struct" and number == 0:
            placed = "envelope"
        if placed == "partition":
            self.watermarks.add("placed partition")
            return f"{self.random.choice('pq')}:partition{self.random.choice(['', ':x'])}"
        column = self.random.choice(["type", "flag", "int16", "int64", "bytes", "decimal", "json", "version", *NULLS])
        alias = f":alias{number}" if placed == "envelope" or self.chance(0.5) else ""
        self.watermarks.add(f"placed {placed} {column}")
        return f"{column}:{placed}{alias}"

    def _topics(self) -> None:
        text = self.random.choice(TEXTS)
        draw = self.random.random()
        if draw < 0.2:
            self.set("route.topic.regex", FIXED[self.number % len(FIXED)])
        elif draw < 0.5:
            self.texts = (text, text, self.random.choice(TEXTS))
            self.set("route.topic.regex", random_regex(self.random, text), "random")
        elif self.mishap(0.05):
            self.set("route.topic.regex", self.random.choice(OUTSIDE), "outside")
        if draw < 0.5 and "routedByValue" not in self.options["route.topic.regex"]:
            self.set("route.topic.replacement", self.random.choice(["topic.$0", "all", "a\\$b\\\\", ""]))
        if self.mishap(0.2):
            self.set("route.topic.replacement", REPLACEMENTS[self.number % len(REPLACEMENTS)])
            if self.chance(0.5):
                self.set("route.topic.regex", "(?<first>.)(?<rest>.*)")
        elif self.mishap(0.03):
            self.set("route.topic.replacement", self.random.choice(BROKEN_REPLACEMENTS), "broken")

    def _config(self) -> RoutingConfig:
        is_bytes = self.columns.get("payload", KINDS["text"]).type is T.BYTES
        key, value = self._converter(bytes_are_likely=False), self._converter(bytes_are_likely=is_bytes)
        if self.position == "key":
            key, value = self.converter, "String"
        elif self.position:
            key, value = "String", self.converter
        self.watermarks |= {f"key.converter={key}", f"value.converter={value}"}
        if self.mishap(0.03):
            broken = self.random.choice(BROKEN_CONVERTERS)
            self.watermarks.add("broken converter")
            return self._around(CONVERTERS[key], broken)
        return self._around(CONVERTERS[key], CONVERTERS[value])

    def _around(self, key: ConnectPlugin, value: ConnectPlugin) -> RoutingConfig:
        header = ConnectPlugin("org.apache.kafka.connect.storage.SimpleHeaderConverter")
        return RoutingConfig(router=ConnectPlugin(EVENT_ROUTER), key=key, value=value, header=header)

    def _converter(self, *, bytes_are_likely: bool) -> str:
        weights = [
            8.0 if name == "String" else 1.0 if name in BYTES_ONLY and not bytes_are_likely else 3.0
            for name in CONVERTERS
        ]
        if not bytes_are_likely:
            weights = [
                weight / 3 if name in BYTES_ONLY else weight for name, weight in zip(CONVERTERS, weights, strict=True)
            ]
        return self.random.choices(list(CONVERTERS), weights=weights)[0]

    def _break(self, number: int) -> None:
        broken = {
            **BROKEN_SWITCHES,
            "table.fields.additional.placement": BROKEN_PLACEMENTS,
            "route.topic.regex": BROKEN,
        }
        option = list(broken)[number % len(broken)]
        self.set(option, self.random.choice(broken[option]), "broken")

    def _record(self) -> ConnectRecord:
        if self.mishap(0.05):
            return self._other()
        operation = self.random.choices("crudt", weights=[70, 20, 3, 3, 1] if self.is_wild else [3, 1, 0, 0, 0])[0]
        self.watermarks.add(f"op={operation}")
        row = None if operation in "dt" else {name: self._value(name, kind) for name, kind in self.columns.items()}
        change = Change(
            row=row,
            operation=operation,
            connector_time_ms=self.random.choice([1_700_000_000_000, 0]),
            row_schema=self.random.choices(["srv.public.outbox.Value", "Value"], weights=[9, 1])[0],
        )
        context = (("__debezium.context.taskId", ConnectValue(T.STRING, "0")),) if self.chance(0.2) else ()
        return ConnectRecord(topic="srv.public.outbox", value=change, headers=context)

    def _other(self) -> ConnectRecord:
        kind = self.random.choice(OTHERS)
        self.watermarks.add(f"record={kind}")
        # A router fills nulls with defaults; in what passes it the converter does.
        filled = ("n", ConnectSchema(type=T.INT32, default=7, optional=self.chance(0.5)))
        key = ConnectStruct(
            ConnectSchema(
                type=T.STRUCT, name="srv.Key", optional=False, fields=(("id", ConnectSchema(type=T.STRING)), filled)
            ),
            {"id": "1"},
        )
        heartbeat = ConnectSchema(
            type=T.STRUCT,
            name="io.debezium.connector.common.Heartbeat",
            version=1,
            optional=False,
            fields=(("ts_ms", ConnectSchema(type=T.INT64, optional=False)), filled),
        )
        claimed = [("op", ConnectSchema(type=self.random.choice([T.STRING, T.STRING, T.STRING, T.INT32])))]
        claimed.append(("after", ConnectSchema(type=T.STRING, default=self.random.choice([None, "x"]))))
        fields = heartbeat.fields + tuple(claimed[: self.random.randrange(3)])
        operation = self.random.choice([*"crudtx", None]) if claimed[0][1].type is T.STRING else 1
        false = ConnectStruct(
            replace(heartbeat, name="x.Heartbeat.Envelope", fields=fields), {"ts_ms": 1, "op": operation}
        )
        values: Mapping[str, ConnectStruct | ConnectValue | None] = {
            "tombstone": None,
            "heartbeat": ConnectStruct(heartbeat, {"ts_ms": 1}),
            "false envelope": false,
            "text": ConnectValue(T.STRING, "x"),
            "text envelope": ConnectValue(T.STRING, "x", "a.Envelope"),
        }
        return ConnectRecord(topic="heartbeat", key=key, value=values[kind], partition=1, timestamp_ms=5)

    def _value(self, name: str, kind: Kind) -> ConnectValue:
        is_payload = name in {"payload", "my_payload"}
        if is_payload and self.kind in _PAYLOADS:
            return ConnectValue(kind.type, self.random.choice(_PAYLOADS[self.kind]), kind.name)
        is_null = kind.items is not None
        default = kind.make(self.random) if self.chance(0.05) and not is_null and kind.type is not T.FLOAT64 else None
        value: Scalar | None = kind.make(self.random)
        optional = self.chance(0.8)
        if is_null or ((optional or default is not None) and self.mishap(0.12 if is_payload else 0.04)):
            value, optional = None, optional or is_null
        elif is_payload and kind.type is T.STRING and self.mishap(0.15):
            value = self.random.choice(["", " ", "\n\t\x00\x1f", "\x85", "\xa0", "null"])
        elif is_payload and kind.type is T.BYTES and kind.name is None and self.mishap(0.1):
            value = b""
        return ConnectValue(kind.type, value, kind.name, default, optional, kind.parameters, kind.keys, kind.items)


def make_case(seed: int) -> Case:
    """Return the case of a number, always the same: three in five are about a converter's cell, in turn."""
    block, place = divmod(seed, 5)
    if place < 3:
        cells = all_cells()
        number = block * 3 + place
        position, converter, kind = cells[number % len(cells)]
        return _Draft(Random(seed), number, position, converter, kind).make()
    return _Draft(Random(seed), block * 2 + place - 3).make()


def all_cells() -> list[tuple[str, str, str]]:
    """Return every cell: ``key`` or ``value``, the converter, and what it is given."""
    kinds = {"key": list(KINDS), "value": [*KINDS, *_PAYLOADS, "struct"]}
    return [(position, name, kind) for position in kinds for name in CONVERTERS for kind in kinds[position]]


_PAYLOADS: Mapping[str, Sequence[Scalar | None]] = {
    "tombstone": (None, "", " \n"),
    "string null": (None,),
    "bytes null": (None,),
    "string empty": ("",),
    "bytes empty": (b"",),
}
_COLUMN_OF = {
    "tombstone": "text",
    "string null": "text",
    "bytes null": "bytes",
    "string empty": "json",
    "bytes empty": "bytes",
    "struct": "json",
}
"""In which kind of column they are."""


def cell(position: str, converter: str, value: Change | ConnectStruct | ConnectValue | None) -> str:
    """Return the name of what a converter was given."""
    return f"{position} {converter}: {_kind_of(value)}"


def _kind_of(value: Change | ConnectStruct | ConnectValue | None) -> str:
    match value:
        case None:
            return "tombstone"
        case ConnectStruct() | Change():
            return "struct"
        case ConnectValue(value=None):
            return f"{value.type.lower()} null"
        case ConnectValue(value="" | b""):
            return f"{value.type.lower()} empty"
        case ConnectValue():
            return (value.logical_name or value.type).rpartition(".")[2].lower()


def wanted_marks() -> frozenset[str]:
    """Return every mark that a run must see often enough, but for converters' cells."""
    watermarks = {f"{option}={value}" for option, values in SWITCHES.items() for value in values}
    watermarks |= {f"{option}=broken" for option in (*BROKEN_SWITCHES, "table.fields.additional.placement")}
    watermarks |= {f"table.fields.additional.placement={mark}" for mark, _ in (*ODD_PLACEMENTS, ("usual", ""))}
    watermarks |= {f"table.field.event.timestamp={time}" for time in (*TIMES, "missing")}
    watermarks |= {
        f"table.field.event.{role}={name}" for role in ("id", "key", "payload") for name in (f"my_{role}", "missing")
    }
    watermarks |= {f"table.field.event.schema.version={column}" for column in ("version", "int64", "nowhere")}
    watermarks |= {f"route.topic.regex={regex}" for regex in (*FIXED, "random", "broken", "outside")}
    watermarks |= {f"route.topic.replacement={text}" for text in (*REPLACEMENTS, "broken")}
    watermarks |= {"route.by.field=kind", "route.by.field=unfit", "placed partition", "broken converter"}
    watermarks |= {f"op={operation}" for operation in "crudt"}
    watermarks |= {f"record={kind}" for kind in OTHERS}
    watermarks |= {f"placed {place} {name}" for place in ("header", "envelope") for name in NULLS}
    return frozenset(watermarks)


def wanted_cells() -> frozenset[str]:
    """Return the mark of every cell."""
    return frozenset(f"{position} {name}: {_KIND_SHOWN.get(kind, kind)}" for position, name, kind in all_cells())


_KIND_SHOWN = {"text": "string", "exponent": "decimal"}
