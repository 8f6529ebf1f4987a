"""Rows that nobody should write, in tables that nobody should make, with the options that they are routed with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from cdc_outbox.contract.placements import Placement, PlacementKind
from cdc_outbox.debezium.event_router import EventRouter

EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the column has no time zone either
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Edge:
    """A table, the options it is routed with, and its rows.

    Args:
        columns: Beside or instead of the usual ones: SQL type and, in a second text, the default; ``None`` for none.
        rows: What differs from a row that every router takes.
    """

    rows: Sequence[Mapping[str, Any]]
    columns: Mapping[str, Sequence[str] | None] = field(default_factory=dict)
    router: EventRouter = field(default_factory=EventRouter)

    @property
    def table(self) -> dict[str, Sequence[str]]:
        usual: dict[str, Sequence[str] | None] = {"id": ["integer"]}
        usual |= {name: ["text"] for name in ("aggregatetype", "aggregateid", "payload")}
        return {name: column for name, column in {**usual, **self.columns}.items() if column is not None}

    def values(self, row: Mapping[str, Any], event_id: int) -> dict[str, Any]:
        usual = {"id": event_id, "aggregatetype": "edge", "aggregateid": "1", "payload": "{}"}
        return {name: row.get(name, usual.get(name)) for name in self.table}


AT = EventRouter(timestamp_column="at")
PARTITIONED = EventRouter(placements=(Placement("p", PlacementKind.PARTITION),))
TWICE = EventRouter(placements=(*PARTITIONED.placements, Placement("q", PlacementKind.PARTITION)))
PLACED = ("flag", "small", "whole", "large", "octets", "words")
TYPED = {
    "price": ("numeric(10,2)", ("1.50", "-0.01", "12345678.90", "0")),
    "fine": ("numeric(12,9)", ("0.000000001", "0", "1", "-1.5")),
    "key": ("uuid", (str(UUID(int=7)),)),
    "document": ("jsonb", ('{"b":1,  "a":[]}', "null")),
    "code": ("varchar(20)", ("x", "")),
    "padded": ("character(3)", ("x", "xyz")),
    "day": ("date", ("2026-02-28", "1969-12-31")),
    "short": ("time(3)", ("12:00:00.5",)),
    "long": ("time(6)", ("23:59:59.999999",)),
    "moment": ("timestamp(3)", ("2026-01-01 00:00:00.001",)),
    "instant": ("timestamptz", ("2026-01-01 00:00+02", "1999-12-31 23:59:59.123456+00")),
    "second": ("timestamptz(0)", ("2026-01-01 00:00+02",)),
    "tenth": ("timestamp(1) with time zone", ("2026-01-01 00:00:00.1-01",)),
    "object": ("oid", ("4294967295", "0")),
}
"""Columns of every type that is carried: how Debezium reads it, and how we do, for each of these values."""

EDGES = [
    # Payloads: what counts as empty, with the option and without.
    *(
        Edge(
            [
                {"payload": text}
                for text in (None, "", " ", "\t\n\x0b\x0c\r\x1c\x1f", "\x01", "\x85", "\xa0", "\u2003", "null")
            ],
            router=EventRouter(tombstone_on_empty_payload=tombstones),
        )
        for tombstones in (False, True)
    ),
    Edge(
        [{"payload": number} for number in (0, -(2**63), None)],
        {"payload": ["bigint"]},
        EventRouter(tombstone_on_empty_payload=True),
    ),
    Edge([{"payload": truth} for truth in (True, False)], {"payload": ["boolean"]}),
    # Topics: Java's line terminators, and what Python takes for some.
    Edge([{"aggregatetype": f"edge{separator}row"} for separator in "\n\r\x85\u2028\u2029\x0b\x0c\x1c\x1e $\\"]),
    Edge([{"aggregatetype": text} for text in ("\nedge", "edge\n", "Edge", "edge")]),
    # Keys and ids of other types.
    Edge([{"aggregateid": key} for key in (None, "", "ä")]),
    Edge([{"aggregateid": key} for key in (7, -7, None)], {"aggregateid": ["smallint"]}),
    Edge([{"aggregateid": key} for key in (True, False)], {"aggregateid": ["boolean"]}),
    # Bytes, of which StringConverter makes nothing useful, and the same both times.
    Edge([{"payload": b"\x00\xff"}, {"payload": b""}, {}], {"payload": ["bytea"]}),
    Edge([{"aggregateid": b"key"}, {"aggregateid": None}], {"aggregateid": ["bytea"]}),
    # An envelope, of which it makes Java's text.
    Edge(
        [{"words": "x", "octets": b"y"}, {"words": None, "aggregatetype": "second"}],
        {"words": ["text"], "octets": ["bytea"]},
        EventRouter(placements=tuple(Placement(name, PlacementKind.ENVELOPE) for name in ("words", "octets"))),
    ),
    # Headers of every type.
    Edge(
        [
            dict(zip(PLACED, (True, -(2**15), 2**31 - 1, -(2**63), b"\x00\xff\xfe", " a\n"), strict=True)),
            dict(zip(PLACED, (False, 0, 0, 0, b"", ""), strict=True)),
            {},
        ],
        dict(zip(PLACED, (["boolean"], ["smallint"], ["integer"], ["bigint"], ["bytea"], ["text"]), strict=True)),
        EventRouter(placements=tuple(Placement(column) for column in PLACED)),
    ),
    Edge(
        [
            {name: values[number] for name, (_, values) in TYPED.items() if number < len(values)}
            for number in range(max(len(values) for _, values in TYPED.values()) + 1)
        ],
        {name: [sql_type] for name, (sql_type, _) in TYPED.items()},
        EventRouter(placements=tuple(map(Placement, TYPED))),
    ),
    # A default takes the place of a null.
    Edge(
        [{"aggregateid": None, "payload": None}, {"words": "", "whole": 1, "flag": True, "p": 1}],
        {
            "aggregateid": ["text", "'key'"],
            "payload": ["text", "'[]'"],
            "words": ["text", "'none'"],
            "whole": ["integer", "7"],
            "flag": ["boolean", "false"],
            "p": ["integer", "2"],
            "at": ["timestamp(6)", "'2020-01-01 00:00:00'"],
        },
        EventRouter(
            timestamp_column="at",
            placements=(*map(Placement, ("words", "whole", "flag")), *PARTITIONED.placements),
            tombstone_on_empty_payload=True,
        ),
    ),
    Edge([{"aggregatetype": None}], {"aggregatetype": ["text", "'edge'"]}),
    # Partitions.
    Edge([{"p": number} for number in (0, 1, 2, None)], {"p": ["integer"]}, PARTITIONED),
    Edge([{"p": 1, "q": 2}, {"p": 1}, {"q": 0}], {"p": ["integer"], "q": ["integer"]}, TWICE),
    *(Edge([{"p": 1}, {}], {"p": [sql_type]}, PARTITIONED) for sql_type in ("smallint", "bigint", "text")),
    # Timestamps.
    Edge(
        [{"at": EPOCH + micros * MICROSECOND} for micros in (1_999, -999, 0, 10**15 + 999)] + [{}],
        {"at": ["timestamp(6)"]},
        AT,
    ),
    Edge([{"at": EPOCH + timedelta(milliseconds=1_234)}, {}], {"at": ["timestamp(3)"]}, AT),
    Edge([{"at": 1_000}, {}], {"at": ["bigint"]}, AT),
    Edge([{"at": "12:00"}, {}], {"at": ["time(6)"]}, AT),
    Edge([{"at": "2026-01-01 00:00+00"}, {}], {"at": ["timestamptz"]}, AT),
    # What the task would fail on.
    Edge([{}], {"payload": None, "id": None}, AT),
    Edge([{}], {"id": None}, AT),
    Edge([{}], {"id": None, "aggregateid": None}),
    Edge([{}], {"aggregateid": None}),
    Edge([{}], {"aggregatetype": None}),
    Edge([{}], router=EventRouter(placements=(Placement("nowhere"),))),
    Edge([{}], router=PARTITIONED),
    # The same columns, missing and not missed.
    Edge(
        [{"words": "x"}, {}],
        {"words": ["text"]},
        EventRouter(placements=(Placement("nowhere"), Placement("words")), ignores_missing=True),
    ),
    Edge([{}], router=replace(PARTITIONED, ignores_missing=True)),
    Edge([{"aggregatetype": None}]),
    Edge([{"aggregatetype": 1}, {"aggregatetype": None}], {"aggregatetype": ["integer"]}),
]
