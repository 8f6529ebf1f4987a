"""What is looked at before an event becomes statements, and how many those are."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc_outbox import (
    TOMBSTONE,
    ConfigError,
    Event,
    EventError,
    EventFormat,
    EventSchemas,
    Outbox,
    OutboxError,
    OutboxMode,
    OutboxTable,
    PayloadType,
    SequenceMode,
    WireContract,
    load_spec,
)
from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.sql import NAMED, PYFORMAT
from cdc_outbox.testing import MemoryOutbox, assert_event
from cdc_outbox.writer.draft import Draft, draft
from cdc_outbox.writer.outbox_statements import OutboxStatements

ROOT = Path(__file__).parents[2]
SPEC = load_spec(ROOT / "connectors/orders.yaml")


def drafted(payload: object, *, limit: int | None = None, schemas: EventSchemas | None = None) -> Draft:
    table = OutboxTable(payload_type=PayloadType.BYTES if isinstance(payload, bytes) else PayloadType.JSON)
    event = Event(aggregate_type="order", aggregate_id="42", type="Placed", payload=payload)
    return draft(event, table, Dialect.POSTGRESQL, max_message_bytes=limit, schemas=schemas)


@pytest.mark.parametrize(
    ("payload", "encoded", "size"),
    [({"a": "ü"}, '{"a":"ü"}', 10), (' "ü"', ' "ü"', 5), (b"\0\xff", b"\0\xff", 2), (TOMBSTONE, None, 0)],
)
def test_the_limit_counts_the_bytes_of_what_is_stored(payload: object, encoded: object, size: int) -> None:
    key = len("42")
    assert drafted(payload, limit=size + key).payload == encoded
    with pytest.raises(EventError, match=f"{size + key} bytes; the limit is {size + key - 1}"):
        drafted(payload, limit=size + key - 1)


def test_a_payload_is_held_to_the_schema_of_its_type() -> None:
    schemas = EventSchemas({("Placed", None): {"required": ["total"]}})
    assert drafted({"total": 1}, schemas=schemas).payload == '{"total":1}'
    with pytest.raises(EventError, match="breaks its schema"):
        drafted({}, schemas=schemas)


@pytest.mark.parametrize(
    ("dialect", "counts", "reads"),
    [(Dialect.POSTGRESQL, [1, 1, 1], 0), (Dialect.MYSQL, [4, 3, 1], 1), (Dialect.SQLITE, [2, 5, 1], 0)],
)
def test_an_event_costs_as_many_statements_as_the_docs_say(dialect: Dialect, counts: list[int], reads: int) -> None:
    for forgotten, outbox_mode in enumerate((OutboxMode.KEEP, OutboxMode.DELETE)):
        table = OutboxTable(mode=outbox_mode)
        found = []
        for mode in (SequenceMode.GAPLESS, SequenceMode.INCREASING, SequenceMode.NONE):
            statements = OutboxStatements(
                table=table, contract=WireContract(aggregates={"order": mode}), dialect=dialect, style=NAMED
            )
            sequence = 1 if mode is SequenceMode.INCREASING else None
            event = Event(aggregate_type="order", aggregate_id="1", type="X", payload={}, sequence=sequence)
            steps, block, *_ = statements.add(draft(event, table, dialect)).plan
            several = dialect is Dialect.MYSQL and (forgotten or mode.is_numbered)
            assert (block is not None) == several  # and it is one statement
            assert sum(step.reads_back for step in steps) == reads  # MySQL alone runs these
            found.append(len(steps) - reads)
        assert found == [count + forgotten for count in counts]


def test_an_envelope_is_not_what_a_schema_speaks_of_and_is_counted_as_deep_as_it_is() -> None:
    table = OutboxTable(format=EventFormat.CLOUDEVENTS_STRUCTURED)
    schemas = EventSchemas({("Placed", None): {"properties": {"total": {}}, "additionalProperties": False}})
    event = Event(aggregate_type="order", aggregate_id="42", type="Placed", payload={"total": 1})
    made = draft(event, table, Dialect.MYSQL, schemas=schemas)
    assert json.loads(str(made.payload))["data"] == {"total": 1}
    assert json.loads(str(made.payload))["id"] == made.id
    deep = "[" * 31 + "]" * 31
    assert draft(replace(event, payload=deep), OutboxTable(), Dialect.MYSQL).payload == deep
    with pytest.raises(EventError, match="deep"):
        draft(replace(event, payload=deep), table, Dialect.MYSQL)


@pytest.mark.parametrize("dialect", [Dialect.MYSQL, Dialect.SQLITE])
def test_logical_messages_are_postgresqls(dialect: Dialect) -> None:
    with pytest.raises(ConfigError, match="has no logical messages"):
        OutboxStatements(table=OutboxTable(mode=OutboxMode.MESSAGE), contract=None, dialect=dialect, style=PYFORMAT)


def test_what_is_passed_in_the_wrong_place_is_named() -> None:
    outbox, connection = MemoryOutbox(), sqlite3.connect(":memory:")
    event: Any = Event(aggregate_type="order", aggregate_id="", type="Placed", payload={})
    with closing(connection):
        for call in (lambda: outbox.add(event, connection), lambda: outbox.add_all(event, [connection])):  # type: ignore[arg-type, list-item]
            with pytest.raises(EventError, match="event must be an Event, not Connection"):
                call()
    with pytest.raises(EventError, match="not an empty string"):
        outbox.add(None, event)
    with pytest.raises(ConfigError, match="contract must be a WireContract, not str"):
        MemoryOutbox(contract="orders.yaml")
    with pytest.raises(ConfigError, match="spec must be a Spec, not str"):
        MemoryOutbox(spec="orders.yaml")


def test_a_connection_to_another_kind_of_database_is_refused() -> None:
    event = Event(aggregate_type="customer", aggregate_id="1", type="Placed", payload={})
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(OutboxError, match="the connection's database is sqlite, and the spec's is postgresql"),
    ):
        Outbox(spec=SPEC).add(connection, event)
    memory = MemoryOutbox(spec=SPEC)
    with memory.transaction() as transaction:
        assert memory.add(transaction, event).sequence == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"contract": SPEC.contract}, "a contract does not contain the table that the connector reads"),
        ({"spec": SPEC, "table": SPEC.outbox}, "table or contract"),
        ({"spec": SPEC, "contract": SPEC.contract}, "table or contract"),
        (
            {"table": replace(SPEC.outbox, headers={}), "contract": SPEC.contract},
            "headers none, but the contract names ",
        ),
        ({"table": OutboxTable(payload_type=PayloadType.BYTES), "contract": SPEC.contract}, "payload_type is bytes"),
    ],
)
def test_an_outbox_that_would_write_past_its_connector_is_refused(options: Any, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason) as raised:
        MemoryOutbox(**options)
    assert raised.value.hint


def test_none_of_an_event_is_not_a_count() -> None:
    with pytest.raises(ValueError, match="assert not events"):
        assert_event([], "Placed", count=0)


@pytest.mark.parametrize("mode", [OutboxMode.DELETE, OutboxMode.MESSAGE])
def test_an_id_of_ones_own_is_refused_where_no_row_tells_that_it_was_written(mode: OutboxMode) -> None:
    """A second number for it would be a conflict to every consumer."""
    contract = WireContract(aggregates={each.value: each for each in SequenceMode})
    table = OutboxTable(mode=mode)
    statements = OutboxStatements(table=table, contract=contract, dialect=Dialect.POSTGRESQL, style=PYFORMAT)
    event = Event(aggregate_type="gapless", aggregate_id="1", type="X", payload={})
    mine = replace(event, id="0198c0de-0000-7000-8000-000000000001")
    with pytest.raises(EventError, match="cannot be detected"):
        statements.add(draft(mine, table, Dialect.POSTGRESQL))
    for safe in (
        event,
        replace(mine, aggregate_type="increasing", sequence=1),  # its number tells
        replace(mine, aggregate_type="none"),  # consumers skip it by its id
    ):
        statements.add(draft(safe, table, Dialect.POSTGRESQL))
