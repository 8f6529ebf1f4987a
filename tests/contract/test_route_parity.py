"""The same rows through the real EventRouter and through ours make the same messages, to the byte.

Once as our pipelines write them, and once a table of edges: rows that nobody should write, in tables that nobody should
make, with the exceptions that they raise. Left out is what the worker or the broker refuses behind the router: a time
before 1970 by a millisecond or more, a negative partition. The columns are read as `cdc-outbox simulate` reads them.
"""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from cdc_outbox import Event, Outbox, RecordedEvent
from cdc_outbox.debezium.event_router import ConnectType, ConnectValue, EventRouter, LogicalName, java_partition
from cdc_outbox.debezium.event_router.column_values import Column, ColumnModes, column_value
from cdc_outbox.debezium.render import event_router_of, render
from cdc_outbox.errors import RoutingError
from cdc_outbox.message import Message
from cdc_outbox.testing import Stack
from tests.support.pipeline import Pipeline
from tests.support.rig import Connection, eventually, one
from tests.support.router_edges import EDGES, Edge

PAYLOADS: list[Any] = [
    {"plain": 1},
    {},
    [],
    '{ "kept":  "verbatim", "twice": 1.10 }',
    '"text"',
    "null",
    "1e400",
    {"ünï": "cödé \U0001f600", "quote": '"\\'},
    {"nested": [{"a": [1, 2, {"b": None}]}]},
    {"long": "x" * 100_000},
]


COLUMNS = (
    *("id", "aggregatetype", "aggregateid", "type", "payload"),
    *("sequence", "source", "traceparent", "tracestate", "created_at"),
)


@pytest.fixture
def pipeline(outbox_stack: Stack) -> Iterator[Pipeline]:
    """One whose topics keep the time that the router gives a record."""
    made = Pipeline.make(outbox_stack)
    made.create_topics()
    yield made
    made.close()


def connect_values(row: tuple[Any, ...]) -> dict[str, ConnectValue]:
    """Return a row as Debezium hands it to the router: pgoutput's columns with Debezium's types."""
    text = ConnectType.STRING
    values = dict(zip(COLUMNS, row, strict=True))
    created: datetime = values["created_at"].replace(tzinfo=UTC)
    micros = int(created.timestamp()) * 1_000_000 + created.microsecond
    typed = {
        "id": ConnectValue(text, str(values["id"]), LogicalName.UUID),
        "payload": ConnectValue(text, values["payload"], LogicalName.JSON),
        "sequence": ConnectValue(ConnectType.INT64, values["sequence"]),
        "created_at": ConnectValue(ConnectType.INT64, micros, LogicalName.MICRO_TIMESTAMP),
    }
    return {column: typed.get(column, ConnectValue(text, value)) for column, value in values.items()}


def test_our_event_router_and_debeziums_make_the_same_messages(deployed: Pipeline) -> None:
    outbox = Outbox(spec=deployed.spec)
    written: dict[str, RecordedEvent] = {}
    with deployed.connect() as connection:
        for number, payload in enumerate(PAYLOADS * 3):
            wanted = Event(
                aggregate_type="order" if number % 3 else "metric",
                aggregate_id=["42", "ä/ö", "a b", "x" * 300, "''", "{}"][number % 6],
                type=["OrderPlaced", "Order Cancelled", "ß"][number % 3],
                payload=payload,
                headers={"traceparent": f"00-{number:032x}-{number:016x}-01"} if number % 2 else {},
            )
            with connection.transaction():
                added = outbox.add(connection, wanted)
            written[str(added.id)] = added
        # What the writer never writes, and a plain insert may: a tombstone, and no numbers.
        with connection.transaction():
            connection.execute(
                "insert into outbox (id, aggregatetype, aggregateid, type) values (%s, 'order', '7', 'Gone')",
                (UUID(int=7),),
            )
        rows = connection.execute(
            "select id, aggregatetype, aggregateid, type, cast(payload as text), sequence, source, traceparent, "
            "tracestate, created_at from outbox"
        ).fetchall()
    topics = deployed.spec.contract.topics
    eventually(
        lambda: sum(sum(deployed.stack.broker.ends(topic).values()) for topic in topics) == len(rows), "every message"
    )
    real = {
        dict(message.headers)["id"]: message for topic in topics for message in deployed.stack.broker.messages(topic)
    }
    assert len(real) == len(rows) == len(PAYLOADS) * 3 + 1

    for row in rows:
        ours = event_router_of(deployed.spec).route(connect_values(row), connector_time_ms=0)
        theirs = real[str(row[0]).encode()]
        partition = java_partition(ours.key or b"", deployed.spec.topics.partitions)
        assert theirs == Message(
            topic=ours.topic,
            key=ours.key,
            value=ours.value,
            headers=ours.headers,
            timestamp_ms=ours.timestamp_ms,
            partition=partition,
            offset=theirs.offset,
        )
        if str(row[0]) in written:
            event = written[str(row[0])]
            # And the contract, which writes no columns of its own, says the same of the event.
            stated = deployed.spec.contract.message_of(event)
            assert (stated.topic, stated.key, stated.value, stated.timestamp_ms) == (
                ours.topic,
                ours.key,
                ours.value,
                ours.timestamp_ms,
            )
            assert dict(stated.headers) == dict(ours.headers)
            assert deployed.spec.contract.event_of(theirs).id == event.id


CONNECTOR_TIME = -(2**40)
"""Stands for the time at which the connector saw a row; no row has it."""


def edge_values(connection: Connection, edge: Edge, row: tuple[Any, ...]) -> dict[str, ConnectValue]:
    """Return a row of an edge's table, all of it text, as Debezium hands it to the router."""
    values = {}
    for (name, (sql_type, *default)), text in zip(edge.table.items(), row, strict=True):
        constant = (
            one(connection, f"select pg_catalog.quote_literal(cast({default[0]} as {sql_type}))") if default else ""
        )
        column = Column(name=name, sql_type=sql_type, default=f"{constant}::{sql_type}" if default else "")
        values[name] = column_value(column, text, ColumnModes())
    return values


def allowed(topic: str) -> str:
    """Return the topic with its last character that Kafka refuses replaced, as a second transform does it."""
    return re.sub(r"(?s)^(.*)[^A-Za-z0-9._-](.*)$", r"\1_\2", topic)


def edges_config(pipeline: Pipeline) -> dict[str, str]:
    """Return one connector with a router a table, which skips and logs what makes a router throw."""
    usual = render(pipeline.spec)
    config = {option: value for option, value in usual.items() if not option.startswith(("transforms", "predicates"))}
    names = [f"edge_{number}" for number in range(len(EDGES))]
    config |= {
        "table.include.list": ",".join(f"public\\.{name}" for name in names),
        "publication.name": "edges",
        "topic.creation.default.message.timestamp.type": "CreateTime",
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.log.include.messages": "true",
        "predicates": ",".join(names),
        "transforms": ",".join([*names, "allowed"]),
        "transforms.allowed.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.allowed.regex": r"(?s)(.*)[^A-Za-z0-9._-](.*)",
        "transforms.allowed.replacement": "$1_$2",
    }
    for name, edge in zip(names, EDGES, strict=True):
        options = edge_router(pipeline, edge).options()
        config |= {
            f"predicates.{name}.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
            f"predicates.{name}.pattern": f"{pipeline.name}\\.public\\.{name}",
            f"transforms.{name}.type": usual["transforms.outbox.type"],
            f"transforms.{name}.predicate": name,
            **{f"transforms.{name}.{option}": value for option, value in options.items()},
        }
    return config


def edge_router(pipeline: Pipeline, edge: Edge) -> EventRouter:
    """Return an edge's router with topics of the pipeline's own."""
    return replace(edge.router, topic_replacement=f"{pipeline.name}.${{routedByValue}}")


def thrown(pipeline: Pipeline) -> list[tuple[str, str]]:
    """Return table and exception of every row that made a router throw, in their order."""
    log = pipeline.stack.workers[0].log.read_text()
    error = rf"Error encountered in task {pipeline.name}-0\. Executing stage 'TRANSFORMATION' .*?"
    topic = rf"topic='{pipeline.name}\.public\.(edge_\d+)'.*?"
    return re.findall(rf"{error}{topic}\n(?:\w+\.)+(\w+)(?=[:\n])", log, re.DOTALL)


def create_edges(connection: Connection, pipeline: Pipeline) -> None:
    """Create a table an edge, and what the connector reads them by."""
    names = [f"edge_{number}" for number in range(len(EDGES))]
    for name, edge in zip(names, EDGES, strict=True):
        columns = ", ".join(
            f"{column} {sql_type} {' '.join(['default', *default] if default else [])}"
            for column, (sql_type, *default) in edge.table.items()
        )
        connection.execute(f"create table {name} ({columns})".encode())
    tables = ", ".join(names)
    connection.execute(f"create publication edges for table {tables} with (publish = 'insert')".encode())
    connection.execute(f"grant select on {tables} to connector".encode())
    connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (pipeline.spec.database.slot,))


def route_edges(connection: Connection, pipeline: Pipeline) -> tuple[list[Message], list[tuple[str, str]]]:
    """Write every row, and return the messages that our router makes, and table and exception where it raises."""
    messages: list[Message] = []
    errors: list[tuple[str, str]] = []
    for number, edge in enumerate(EDGES):
        router = edge_router(pipeline, edge)
        for place, row in enumerate(edge.rows):
            values = edge.values(row, number * 100 + place)
            watermarks = ", ".join(["%s"] * len(values))
            texts = ", ".join(f"cast({name} as text)" for name in values)
            insert = f"insert into edge_{number} ({', '.join(values)}) values ({watermarks}) returning {texts}"  # noqa: S608
            [written] = connection.execute(insert.encode(), list(values.values())).fetchall()
            try:
                columns = edge_values(connection, edge, written)
                messages.append(router.route(columns, connector_time_ms=CONNECTOR_TIME))
            except RoutingError as error:
                errors.append((f"edge_{number}", error.exception))
    return messages, errors


def by_id(messages: Sequence[Message]) -> dict[bytes | None, Message]:
    """Return the messages by their ids: the edge's number times a hundred, and the row's within it."""
    return {dict(message.headers)["id"]: message for message in messages}


def test_both_agree_at_the_edges(pipeline: Pipeline) -> None:
    began_ms = int(time.time() * 1000)
    with pipeline.connect() as connection:
        create_edges(connection, pipeline)
        messages, errors = route_edges(connection, pipeline)
    pipeline.client.put_config(edges_config(pipeline))
    topics = {allowed(message.topic) for message in messages}
    broker = pipeline.stack.broker
    # The last row makes the router throw, so when it has, all messages are on their way.
    eventually(lambda: len(thrown(pipeline)) >= len(errors), "every exception", seconds=60)
    assert thrown(pipeline) == errors
    eventually(lambda: sum(sum(broker.ends(topic).values()) for topic in topics) >= len(messages), "every message")
    expected, real = by_id(messages), by_id([message for topic in topics for message in broker.messages(topic)])

    assert len(expected) == len(messages)
    assert real.keys() == expected.keys()
    for event_id, ours in expected.items():
        theirs = real[event_id]
        chosen = theirs.partition if ours.key is None else java_partition(ours.key, pipeline.spec.topics.partitions)
        timestamp_ms = ours.timestamp_ms
        if timestamp_ms == CONNECTOR_TIME:
            timestamp_ms = theirs.timestamp_ms
            assert timestamp_ms is not None
            assert timestamp_ms >= began_ms
        assert theirs == replace(
            ours,
            topic=allowed(ours.topic),
            partition=chosen if ours.partition is None else ours.partition,
            timestamp_ms=timestamp_ms,
            offset=theirs.offset,
        ), event_id
