"""Both ways of an event to its row write the same row and refuse the same events, in every profile."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from cdc_outbox import TOMBSTONE, Event, EventFormat, EventSchemas, Outbox, OutboxMode
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.drivers.psycopg2 import Psycopg2
from cdc_outbox.databases.drivers.sqlite3 import Sqlite3
from cdc_outbox.databases.migrations import upgrade
from cdc_outbox.databases.sql import NAMED
from cdc_outbox.databases.table import OutboxTable
from cdc_outbox.errors import DatabaseError, EventError
from cdc_outbox.spec import Spec, parse_spec
from cdc_outbox.writer import outbox as outbox_module
from cdc_outbox.writer import plain_insertion
from cdc_outbox.writer.draft import draft
from cdc_outbox.writer.outbox_schema import outbox_component
from cdc_outbox.writer.outbox_statements import OutboxStatements
from cdc_outbox.writer.plain_insertion import compile_parameters, is_plain
from tests.support.profiles import PROFILES, payload_of

ID = "0198c0de-0000-7000-8000-000000000001"
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
MAX_BYTES = 2_000
SPEC = """\
version: 1
name: orders
database: {kind: sqlite}
aggregates:
  order: {sequence: gapless}
  metric: {sequence: METRIC}
  cart: {sequence: increasing}
outbox: {headers: {tenant: x-tenant}PROFILE}
"""


class Words(str):
    """A text of a class of its own."""

    __slots__ = ()


def deep(levels: int) -> object:
    return [deep(levels - 1)] if levels else 1


ORDER = Event(aggregate_type="order", aggregate_id="42", type="Placed", payload={"total": 10})
EVENTS: Mapping[str, Event] = {
    "plain": ORDER,
    "not numbered": replace(ORDER, aggregate_type="metric"),
    "numbered by the caller": replace(ORDER, aggregate_type="cart", sequence=7),
    "its own id": replace(ORDER, id=ID.upper()),
    "headers": replace(ORDER, headers={"traceparent": "00-1", "x-tenant": "ü"}),
    "other letters": replace(ORDER, aggregate_id="ü", type="é", payload={"ß": ["😀", '"\\']}),
    "text": replace(ORDER, payload=' {"as": 1.10, "is": "\\u00e9"} '),
    "text of a class": replace(ORDER, payload=Words('{"a": 1}')),
    "tombstone": replace(ORDER, payload=TOMBSTONE),
    "nested": replace(ORDER, payload={"lines": [{"n": (1, None)}, {"n": (2, 0.5)}]}),
    "bytes": replace(ORDER, payload=b"{}"),
    "none": replace(ORDER, payload=None),
    "key": replace(ORDER, payload={"a": [{1: 1}]}),
    "nan": replace(ORDER, payload=[float("nan")]),
    "deep": replace(ORDER, payload=deep(101)),
    "text too deep": replace(ORDER, payload="[" * 101 + "]" * 101),
    "surrogate": replace(ORDER, payload={"a": "\ud800"}),
    "escaped NUL": replace(ORDER, payload='"\\u0000"'),
    "as large as it may be": replace(ORDER, payload='"' + "x" * (MAX_BYTES - 4) + '"'),
    "too large": replace(ORDER, payload='"' + "x" * (MAX_BYTES - 3) + '"'),
    "too large in bytes": replace(ORDER, payload={"a": "ü" * (MAX_BYTES // 2)}),
    "too large by its headers": replace(ORDER, headers={"x-tenant": "x" * MAX_BYTES}),
    "no such header": replace(ORDER, headers={"tenant": "x"}),
    "header of no text": replace(ORDER, headers={"x-tenant": 1}),  # type: ignore[dict-item]
    "no id": replace(ORDER, id="42"),
    "no aggregate": replace(ORDER, aggregate_id=""),
    "aggregate too long": replace(ORDER, aggregate_id="ü" * 501),
    "aggregate of no text": replace(ORDER, aggregate_id=42),  # type: ignore[arg-type]
    "type too long": replace(ORDER, type="x" * 250),
    "type of no text": replace(ORDER, type=["x"]),  # type: ignore[arg-type]
    "NUL": replace(ORDER, type="a\0b"),
    "unknown aggregate": replace(ORDER, aggregate_type="invoice"),
    "number of ours": replace(ORDER, sequence=1),
    "number of nobody": replace(ORDER, aggregate_type="cart"),
}


def spec_of(profile: str) -> Spec:
    metric = "increasing" if "cloudevents" in profile else "none"  # CloudEvents have a source, as numbered events do
    return parse_spec(SPEC.replace("METRIC", metric).replace("PROFILE", PROFILES[profile]))


@pytest.fixture
def connect() -> Any:
    """Return what opens a database with the outbox of a table."""
    opened: list[sqlite3.Connection] = []

    def connect(table: OutboxTable) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:")
        opened.append(connection)
        component = outbox_component(table, first_source="orders.1", dialect=Dialect.SQLITE)
        upgrade(lambda sql: Sqlite3().fetch(connection, sql), component)
        connection.commit()
        return connection

    yield connect
    for connection in opened:
        connection.close()


def outcome(connection: sqlite3.Connection, spec: Spec, event: Event) -> object:
    """Return the row that an event becomes, or the error that refuses it."""
    try:
        written = Outbox(spec=spec, max_message_bytes=MAX_BYTES).add(connection, event)
    except EventError as error:
        return type(error), str(error), error.hint
    with closing(connection.cursor()) as cursor:
        cursor.execute("select * from outbox where id = ?", [written.id])
        [row] = cursor.fetchall()
        names = [column[0] for column in cursor.description]
    connection.rollback()
    changing = {"created_at", "ce_time", *([] if event.id else ["id"])}
    if spec.outbox.format is EventFormat.CLOUDEVENTS_STRUCTURED:
        changing.add("payload")  # which holds id and time
    return {name: value for name, value in zip(names, row, strict=True) if name not in changing} | {
        "event": replace(written, id="", created_at=MOMENT),
    }


def compare(monkeypatch: pytest.MonkeyPatch, connect: Callable[[OutboxTable], sqlite3.Connection], profile: str) -> int:
    """Assert that both ways do the same with each event, and return how many were written."""
    spec = spec_of(profile)
    connection = connect(spec.outbox)
    written = 0
    for name, each in EVENTS.items():
        typical = payload_of(spec.outbox.payload_type)
        event = replace(each, payload=typical) if name != "bytes" and each.payload == ORDER.payload else each
        ours = outcome(connection, spec, event)
        with monkeypatch.context() as patch:
            patch.setattr(outbox_module, "is_plain", lambda _: False)
            theirs = outcome(connection, spec, event)
        assert ours == theirs, name
        written += isinstance(ours, dict)
    return written


@pytest.mark.parametrize("profile", PROFILES)
def test_both_ways_write_the_same_rows(
    monkeypatch: pytest.MonkeyPatch, connect: Callable[[OutboxTable], sqlite3.Connection], profile: str
) -> None:
    assert compare(monkeypatch, connect, profile) > 5


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("name", EVENTS)
def test_both_ways_send_the_same_statements_to_every_database(dialect: Dialect, name: str) -> None:
    spec, event = spec_of("json"), EVENTS[name]
    statements = OutboxStatements(table=spec.outbox, contract=spec.contract, dialect=dialect, style=NAMED)

    def general(event: Event) -> Any:
        return statements.add(draft(event, spec.outbox, dialect, max_message_bytes=MAX_BYTES))[:2]

    plain = compile_parameters(statements, MAX_BYTES)
    for earlier in EVENTS.values():  # of which it remembers the names
        with suppress(EventError):
            plain(earlier)
    found: list[object] = []
    for way in (general, plain):
        try:
            plan, parameters = way(event)
        except EventError as error:
            found.append((str(error), error.hint))
        else:
            own = {key for key in ("id", "mark") if event.id is None or key == "mark"}
            ids = {parameters[key] for key in own & parameters.keys()}
            assert len(ids) <= 1
            found.append((plan, {**parameters, **dict.fromkeys(own, "")}))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("check", "plant"),
    [
        ("check_names", lambda _: None),
        ("check_aggregate_id", lambda _: 0),
        ("checked_id", lambda event_id: event_id),
        ("checked_columns", lambda *_: {}),
        ("check_size", lambda *_: None),
        ("stored_form", lambda encoded, _: encoded),
        ("size_of", lambda *_: 0),
    ],
)
def test_a_way_that_leaves_out_a_check_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
    connect: Callable[[OutboxTable], sqlite3.Connection],
    check: str,
    plant: Callable[..., object],
) -> None:
    monkeypatch.setattr(plain_insertion, check, plant)
    with pytest.raises((AssertionError, DatabaseError)):
        compare(monkeypatch, connect, "json")


def test_what_is_more_than_the_event_takes_the_general_way() -> None:
    assert is_plain(OutboxTable())
    for profile in PROFILES.keys() - {"json"}:
        assert not is_plain(spec_of(profile).outbox)
    for mode in (OutboxMode.DELETE, OutboxMode.MESSAGE):
        assert not is_plain(OutboxTable(mode=mode))


def test_a_schema_is_asked_of_plain_events_too(connect: Callable[[OutboxTable], sqlite3.Connection]) -> None:
    schemas = EventSchemas({("Placed", None): {"required": ["customer"]}})
    with pytest.raises(EventError, match="breaks its schema"):
        Outbox(schemas=schemas).add(connect(OutboxTable()), ORDER)


@pytest.mark.parametrize(
    ("column", "moment"),
    [
        ("2026-11-28 01:02:03.12", datetime(2026, 11, 28, 1, 2, 3, 120_000, UTC)),
        ("2026-11-28T01:02:03+02", datetime(2026, 11, 27, 23, 2, 3, tzinfo=UTC)),
        ("2026-11-28", datetime(2026, 11, 28, tzinfo=UTC)),
        (datetime(2026, 11, 28), datetime(2026, 11, 28, tzinfo=UTC)),  # noqa: DTZ001 - as a driver returns it
    ],
)
def test_a_time_is_read_from_what_a_column_returns(column: object, moment: datetime) -> None:
    written = OutboxStatements.written_alone(ORDER, ID, [("orders.1", column)])
    assert (written.created_at, written.created_at.tzinfo is None) == (moment, False)


def test_an_adopted_table_gets_every_column_and_each_value_as_what_it_is() -> None:
    style = Psycopg2.style
    own, adopted = (
        OutboxStatements(table=OutboxTable(adopted=adopted), contract=None, dialect=Dialect.POSTGRESQL, style=style)
        for adopted in (False, True)
    )
    without = replace(ORDER, headers={})
    [(short, given), (whole, all_given)] = [
        (plan.steps[0].sql, parameters)
        for plan, parameters in (compile_parameters(each, MAX_BYTES)(without) for each in (own, adopted))
    ]
    assert all_given == given | {"id": all_given["id"], "header_traceparent": None, "header_tracestate": None}
    assert "traceparent" not in short
    assert "cast(%(" not in short
    assert "traceparent" in whole
    assert whole.count("cast(%(") == 2
