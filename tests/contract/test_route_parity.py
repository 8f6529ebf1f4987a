"""The same rows through the real EventRouter and through ours make the same messages, to the byte."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from cdc_outbox import Event, Outbox
from cdc_outbox.message import Message
from cdc_outbox.router import ConnectType, ConnectValue, LogicalName, java_partition
from tests.rig import Pipeline, eventually

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
    outbox = Outbox(contract=deployed.spec.contract)
    written: dict[str, Event] = {}
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
        ours = deployed.spec.router.route(connect_values(row), connector_time_ms=0)
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
