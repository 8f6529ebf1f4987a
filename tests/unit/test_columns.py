"""PostgreSQL's columns as Debezium reads them; the route parity tests hold the types against the real connector."""

from decimal import Decimal

import pytest

from cdc_outbox.debezium.event_router import ConnectType, ConnectValue, LogicalName
from cdc_outbox.debezium.event_router.column_values import Column, ColumnModes, column_value
from cdc_outbox.debezium.event_router.outbox_rows import parse_row
from cdc_outbox.errors import ConfigError

T = ConnectType


def typed(sql_type: str, text: str | None, **config: str) -> ConnectValue:
    options = {name.replace("_", "."): value for name, value in config.items()}
    return column_value(Column(name="x", sql_type=sql_type), text, ColumnModes(options))


@pytest.mark.parametrize(
    ("sql_type", "text", "kind", "logical_name", "value"),
    [
        ("character varying(9)", "x", T.STRING, None, "x"),
        ("char(3)", "x", T.STRING, None, "x  "),
        ("jsonb", '{"a": 1}', T.STRING, LogicalName.JSON, '{"a": 1}'),
        ("int4", "7", T.INT32, None, 7),
        ("BIGINT", "-1", T.INT64, None, -1),
        ("bool", "t", T.BOOLEAN, None, True),
        ("bytea", "\\x00ff", T.BYTES, None, b"\x00\xff"),
        ("bytea", "ä", T.BYTES, None, "ä".encode()),
        ("numeric(6, 2)", "1.5", T.BYTES, LogicalName.DECIMAL, Decimal("1.50")),
        ("timestamp", "2026-01-01T00:00:00.5", T.INT64, LogicalName.MICRO_TIMESTAMP, 1767225600500000),
        ("timestamp(3) without time zone", "2026-01-01", T.INT64, LogicalName.TIMESTAMP, 1767225600000),
        ("timestamptz", "2026-01-01T01:00+01", T.STRING, LogicalName.ZONED_TIMESTAMP, "2026-01-01T00:00:00.000000Z"),
        ("date", "1970-01-02", T.INT32, "io.debezium.time.Date", 1),
        ("text[]", "{a}", T.STRUCT, None, None),
        ("text", None, T.STRING, None, None),
    ],
)
def test_a_column_is_read_so(
    sql_type: str, text: str | None, kind: ConnectType, logical_name: str | None, value: object
) -> None:
    found = typed(sql_type, text)
    assert (found.type, found.logical_name, found.value) == (kind, logical_name, value)


def test_the_connectors_modes_change_the_types() -> None:
    assert typed("bytea", "\\x00ff", binary_handling_mode="hex").value == "00ff"
    assert typed("bytea", "\\xfbff", binary_handling_mode="base64-url-safe").value == "-_8="
    assert typed("numeric(6,2)", "1.5", decimal_handling_mode="string").value == "1.5"
    assert typed("numeric(6,2)", "1.5", decimal_handling_mode="double").type is T.FLOAT64
    assert typed("timestamp", "1970-01-01T00:00:01", time_precision_mode="connect").value == 1000
    with pytest.raises(ConfigError, match="not supported here"):
        typed("timestamp", None, time_precision_mode="isostring")


@pytest.mark.parametrize(
    ("default", "kept"),
    [
        ("'it''s'::text", "it's"),
        ("7", "7"),
        ("now()", ""),
        ("", None),
        ("'a'::text || 'b'", "a"),
        ("SESSION_USER", "SESSION_USER"),
    ],
)
def test_a_default_is_read_as_debezium_reads_it(default: str, kept: str | None) -> None:
    found = column_value(Column(name="x", sql_type="text", not_null=True, default=default), "x", ColumnModes())
    assert found.default == kept
    assert not found.optional


@pytest.mark.parametrize(
    ("sql_type", "text"),
    [
        ("int", "1.5"),
        ("boolean", "yes"),
        ("bytea", "\\xf"),
        ("numeric(3,1)", "x"),
        ("date", "today"),
        ("time", "x"),
        ("smallint", "32768"),
        ("text", "\ud800"),
    ],
)
def test_a_text_that_is_none_of_the_type_is_refused_without_being_shown(sql_type: str, text: str) -> None:
    with pytest.raises(ConfigError, match="the value is no") as caught:
        typed(sql_type, text)
    assert (caught.value.field, text in str(caught.value).split()) == ("x", False)


def test_a_row_that_is_written_down_takes_its_types_from_what_is_known_declared_or_guessed() -> None:
    columns = (Column(name="id", sql_type="uuid"), Column(name="payload", sql_type="json"))
    row = parse_row(
        '{"payload": {"a": 1.10, "b": [null, "ä"]}, "n": 1, "flag": true, "p": 3, "gone": null}',
        columns,
        {"p": "integer"},
        ColumnModes(),
    )
    assert row["payload"].value == '{"a": 1.10, "b": [null, "ä"]}'
    assert (row["id"].value, row["id"].logical_name) == (None, LogicalName.UUID)
    assert [row[name].type for name in ("n", "flag", "p", "gone")] == [T.INT64, T.BOOLEAN, T.INT32, T.STRING]
