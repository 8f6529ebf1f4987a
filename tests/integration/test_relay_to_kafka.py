"""The whole relay, from the outbox to Kafka: the messages of Debezium beside it, kills, and what stops it."""

import json
import resource
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from operator import sub
from pathlib import Path
from random import Random
from types import MappingProxyType

import psycopg
import pytest

from cdc_outbox import TOMBSTONE, Event, EventFormat, Outbox, OutboxMode, PayloadType
from cdc_outbox.databases.pgoutput import Relation, RelationColumn
from cdc_outbox.debezium.event_router.compiled import milliseconds_now
from cdc_outbox.debezium.render import render
from cdc_outbox.errors import ConnectorNotFoundError, RoutingError
from cdc_outbox.message import Message
from cdc_outbox.relay.relay_errors import MessageRefusedError
from cdc_outbox.relay.transactions import MAX_EVENTS
from cdc_outbox.testing import Stack
from tests.support.pipeline import Pipeline
from tests.support.profiles import PROFILES, payload_of
from tests.support.publishers import publishers_of
from tests.support.random_rows import TIMELESS, UNKNOWN_TYPE, drop_constraints, insert_random_rows
from tests.support.relay_process import (
    PREFIX,
    create_topics,
    let_relay_publish,
    make_relay,
    make_server,
    prepare_relay,
    relay_process,
    relay_slot,
)
from tests.support.relay_thread import RelayThread
from tests.support.rig import Connection, eventually, one

MODES = {
    "json": OutboxMode.KEEP,
    "bytes": OutboxMode.DELETE,
    "envelope": OutboxMode.KEEP,
    "cloudevents-binary": OutboxMode.DELETE,
    "cloudevents-bytes": OutboxMode.KEEP,
    "cloudevents-structured": OutboxMode.KEEP,
}
"""Every profile that the relay supports, each in one of its modes."""
AGGREGATE_IDS = ["42", "ä/ö", "a b", "x" * 300, "''", "{}"]
INSERTED = [
    ("order", "", "Placed", "2026-11-20 12:34:56.123456"),
    ("order", "7", "Placed", "2026-11-20 12:34:56"),
]
"""Rows that the writer never writes: aggregate type, aggregate id, type, created_at; without payload and number."""

PLACEMENT = "transforms.outbox.table.fields.additional.placement"
LARGE = Random(7).randbytes(1_000_000).hex()  # noqa: S311 - a text that does not compress


@contextmanager
def relay_thread(pipeline: Pipeline, config: Mapping[str, str] | None = None) -> Iterator[RelayThread]:
    let_relay_publish(pipeline)
    relay = make_relay(pipeline.spec, pipeline.dsn, pipeline.stack.broker.bootstrap_servers, config)
    with RelayThread(relay) as started:
        yield started


@pytest.fixture
def made() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def make_pipeline(
    made: ExitStack, stack: Stack, extra: str = "", *, limits: Mapping[str, int] = MappingProxyType({})
) -> Pipeline:
    pipeline = Pipeline.make(stack, extra)
    made.callback(pipeline.close)
    prepare_relay(pipeline, limits)
    return pipeline


def write(connection: Connection, pipeline: Pipeline) -> int:
    """Write events in every way that the profile has, several in a transaction, and return how many."""
    outbox, payload_type = Outbox(spec=pipeline.spec), pipeline.spec.outbox.payload_type
    is_plain = pipeline.spec.outbox.format is EventFormat.PLAIN
    payloads = [payload_of(payload_type)]
    payloads += [b"", b"\x00\xff"] if payload_type is PayloadType.BYTES else ['{ "kept":  1.10 }', '"ünï"', "null"]
    count = 0
    for number, aggregate_id in enumerate(AGGREGATE_IDS * 3):
        event = Event(
            aggregate_type="order",
            aggregate_id=aggregate_id,
            type=["OrderPlaced", "Order Cancelled", "ß"][number % 3],
            payload=payloads[number % len(payloads)],
            headers={"traceparent": f"00-{number:032x}-{number:016x}-01", "x-tenant": "ü"} if number % 2 else {},
        )
        with connection.transaction():
            outbox.add(connection, event)
            outbox.add(connection, event)
        count += 2
        if pipeline.spec.outbox.format is not EventFormat.ENVELOPE and number % 5 == 0:
            with connection.transaction():
                outbox.add(connection, replace(event, payload=TOMBSTONE))
            count += 1
    if not is_plain:
        return count
    for row in INSERTED:
        connection.execute(
            "insert into outbox (id, aggregatetype, aggregateid, type, created_at) "
            "values (gen_random_uuid(), %s, %s, %s, %s)",
            row,
        )
    return count + len(INSERTED)


def comparable(pipeline: Pipeline, prefix: str, began_ms: int) -> list[Message]:
    """Return what a publisher has published, without what differs between two topics, and without later times."""
    found = []
    for topic in (pipeline.topic, pipeline.spec.contract.topic_of(UNKNOWN_TYPE)):
        for message in pipeline.stack.broker.messages(prefix + topic):
            timestamp_ms = message.timestamp_ms
            if topic != pipeline.topic or message.key == TIMELESS.encode():
                assert timestamp_ms is not None
                assert timestamp_ms >= began_ms
                timestamp_ms = None
            found.append(replace(message, topic=topic, timestamp_ms=timestamp_ms, offset=None))
    return found


def by_partition(messages: list[Message]) -> tuple[dict[tuple[str, int | None], list[Message]], Counter[Message]]:
    """Return the messages of each partition in their order, and those without a key, which may go to any."""
    found: dict[tuple[str, int | None], list[Message]] = {}
    for message in messages:
        if message.key is not None:
            found.setdefault((message.topic, message.partition), []).append(message)
    return found, Counter(replace(message, partition=None) for message in messages if message.key is None)


def with_a_repeated_header(config: Mapping[str, str]) -> dict[str, str]:
    """Return a configuration in which two columns have the same header, which no spec can have."""
    return {**config, PLACEMENT: f"{config[PLACEMENT]},tracestate:header:x-tenant"}


@pytest.mark.parametrize("profile", MODES)
def test_the_relays_messages_are_debeziums(
    made: ExitStack, outbox_stack: Stack, profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = Pipeline.text
    # CloudEvents are numbered.
    monkeypatch.setattr(
        Pipeline, "text", lambda name, extra: text(name, extra).replace("  metric: {sequence: none}\n", "")
    )
    extra = f"outbox: {{mode: {MODES[profile]}, headers: {{tenant: x-tenant}}{PROFILES[profile]}}}\n"
    pipeline, began_ms = make_pipeline(made, outbox_stack, extra), milliseconds_now()
    create_topics(pipeline, "")
    config = dict(render(pipeline.spec))
    if profile == "bytes":
        config = with_a_repeated_header(config)
    # One transaction of the plain profile does not fit into a unit.
    rows, largest = (700, 2 * MAX_EVENTS) if profile == "json" else (260, 40)
    with pipeline.connect() as connection:
        create_slot(connection, pipeline)
        count = write(connection, pipeline)
        count += insert_random_rows(connection, pipeline.spec, rows, seed=profile, largest=largest)
    # Debezium reads the columns from the catalog when it meets the table: as late as the relay, after the last change.
    pipeline.client.put_config(config)
    topics = [pipeline.topic, pipeline.spec.contract.topic_of(UNKNOWN_TYPE)]

    def published(prefix: str) -> bool:
        with suppress(ConnectorNotFoundError):  # it was just made
            assert [task for task in pipeline.client.find_status(pipeline.name).tasks if task.state == "FAILED"] == []
        return sum(sum(outbox_stack.broker.ends(prefix + topic).values()) for topic in topics) >= count

    with relay_thread(pipeline, config) as running:
        for prefix in ("", PREFIX):
            eventually(
                lambda prefix=prefix: running.error or published(prefix),  # type: ignore[misc]
                f"every message of {prefix!r}",
                seconds=60 if prefix else 240,  # a connector's first batch may wait for all tasks of a busy worker
            )
        assert running.error is None
    ours, theirs = comparable(pipeline, PREFIX, began_ms), comparable(pipeline, "", began_ms)
    assert len(ours) == len(theirs) == count
    keyed, keyless = by_partition(ours)
    expected, expected_keyless = by_partition(theirs)
    for partition, messages in expected.items():
        # The first difference alone: a whole partition would not be printed.
        assert next((pair for pair in zip(keyed[partition], messages, strict=True) if pair[0] != pair[1]), None) is None
    assert keyed.keys() == expected.keys()
    assert keyless == expected_keyless
    assert len(keyed) > pipeline.spec.topics.partitions  # of the unknown type too


DEFAULTS = {
    "bigint": ("7", "abs(-1)", "null::bigint"),
    "boolean": ("true", "starts_with('a', 'a')"),
    "char(3)": ("'ab'", "upper('x')"),
    "date": ("'2026-01-02'", "current_date", "make_date(2026, 1, 2)"),
    "integer": ("-3", "'4'", "(1 + 2)", "length('abc')"),
    "jsonb": ("""'{"a": "it''s"}'""", "jsonb_build_array(1)"),
    "numeric(10, 2)": ("1.5", "round(1.2)"),
    "smallint": ("5", "'6'::smallint"),
    "text": ("'a''b'", "upper('x')", "'a' || 'b'", "session_user", "'f(x)'"),
    "time": ("'12:34:56'", "localtime"),
    "timestamp": ("'2026-01-02 03:04:05.678901'", "localtimestamp", "timezone('utc', now())"),
    "timestamp(3)": ("now()",),
    "timestamptz": ("'2026-01-02 03:04:05+00'", "now()", "current_timestamp"),
    "uuid": ("'6f3c511c-0000-4000-8000-000000000000'", "gen_random_uuid()"),
}
"""Defaults of columns, by their type."""


def test_a_null_becomes_the_default_of_its_column_or_a_placeholder_for_a_call(
    made: ExitStack, outbox_stack: Stack
) -> None:
    pipeline = make_pipeline(made, outbox_stack)
    create_topics(pipeline, "")
    columns = [(kind, default) for kind, defaults in DEFAULTS.items() for default in defaults]
    names = [f"column_{number}" for number in range(len(columns))]
    config = dict(render(pipeline.spec))
    config[PLACEMENT] += "".join(f",{name}:header" for name in names)
    with pipeline.connect() as connection:
        connection.execute("alter table outbox alter column created_at drop not null")
        for name, (kind, default) in zip(names, columns, strict=True):
            connection.execute(f"alter table outbox add column {name} {kind} default {default}".encode())
        with relay_thread(pipeline, config) as running:
            create_slot(connection, pipeline)
            pipeline.client.put_config(config)
            connection.execute(
                f"insert into outbox (id, aggregatetype, aggregateid, type, created_at, {', '.join(names)}) "  # noqa: S608
                f"values (gen_random_uuid(), 'order', '1', 'Placed', null{', null' * len(names)})".encode()
            )
            topics = [pipeline.topic, PREFIX + pipeline.topic]
            eventually(lambda: running.error or all(map(outbox_stack.broker.messages, topics)), "both messages")
            assert running.error is None
    theirs, ours = (dict(outbox_stack.broker.messages(topic)[0].headers) for topic in topics)
    texts = {name: f"{kind} default {default}" for name, (kind, default) in zip(names, columns, strict=True)}
    assert {texts.get(name, name): value for name, value in ours.items()} == {
        texts.get(name, name): value for name, value in theirs.items()
    }


def create_slot(connection: Connection, pipeline: Pipeline) -> None:
    """Create the connector's slot, which holds what is written from now on."""
    connection.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", (pipeline.spec.database.slot,))


STOPS: Mapping[str, tuple[Mapping[str, str | None], str, str]] = {
    "the beginning of 1970": ({"created_at": "1970-01-01 00:00:00.0009"}, "", "1970-01-01T00:00:00.000"),
    "a time before 1970": ({"created_at": "1969-12-31 23:59:59.998"}, "InvalidRecordException", "times before 1970"),
    "a time in the future": ({"created_at": "2100-01-01"}, "from producer send callback", "INVALID_TIMESTAMP"),
    "no aggregate type": ({"aggregatetype": None}, "NullPointerException", "the column aggregatetype is null"),
    "an illegal topic": ({"aggregatetype": "a b"}, "InvalidTopicException", "does not accept the topic name"),
    "too large a payload": ({"payload": json.dumps(LARGE)}, "RecordTooLargeException", "MSG_SIZE_TOO_LARGE"),
}
"""What the columns of a row are, why Debezium's task fails, nothing if it does not, and why the relay stops."""


@pytest.mark.parametrize("case", STOPS)
def test_a_row_that_stops_a_publisher_lets_nothing_behind_it_pass(
    made: ExitStack, outbox_stack: Stack, case: str
) -> None:
    columns, trace, error = STOPS[case]
    pipeline = make_pipeline(made, outbox_stack)
    create_topics(pipeline, "")
    usual = {
        "aggregatetype": "order",
        "aggregateid": "1",
        "type": "Placed",
        "payload": "{}",
        "created_at": "2026-01-01",
    }
    names = ", ".join(usual)
    insert = f"insert into outbox (id, {names}) values (gen_random_uuid(), %s, %s, %s, %s, %s)"  # noqa: S608

    def failed() -> bool:
        return any(trace in task.trace for task in pipeline.client.find_status(pipeline.name).tasks)

    with pipeline.connect() as connection, relay_thread(pipeline) as running:
        drop_constraints(connection, pipeline.spec)
        create_slot(connection, pipeline)
        pipeline.client.put_config(dict(render(pipeline.spec)))
        for row in (usual, {**usual, **columns}, usual):
            connection.execute(insert.encode(), [*row.values()])
        eventually(lambda: running.error, "the relay to stop")
        if trace:
            eventually(failed, "the connector's task to fail")
        else:
            eventually(lambda: len(pipeline.messages()) == 3, "the connector to go on")
    assert isinstance(running.error, RoutingError | MessageRefusedError)
    assert error in str(running.error)
    times = [message.timestamp_ms for message in pipeline.messages()]
    assert len(times) <= 1 if trace else times[1] == 0
    assert len(outbox_stack.broker.messages(PREFIX + pipeline.topic)) <= 1


def test_kills_lose_and_invent_nothing(made: ExitStack, outbox_stack: Stack) -> None:
    pipeline = make_pipeline(made, outbox_stack)
    text = Pipeline.text(pipeline.name)
    broker, topic = outbox_stack.broker, PREFIX + pipeline.topic
    outbox, written = Outbox(spec=pipeline.spec), []
    with psycopg.connect(pipeline.dsn) as connection:
        for kill in range(4):
            with relay_process(pipeline, text) as process:
                for number in range(300):
                    event = Event(aggregate_type="order", aggregate_id=str(number % 7), type="Placed", payload={})
                    written.append(outbox.add(connection, event))
                    if number % 10 == 9:
                        connection.commit()
                seen = sum(broker.ends(topic).values())
                # In the midst of the last events, which are more than a unit holds in the end.
                eventually(lambda seen=seen: sum(broker.ends(topic).values()) > seen, f"events before kill {kill}")  # type: ignore[misc]
                process.kill()
    with relay_process(pipeline, text):
        first: dict[str | None, Message] = {}

        def all_arrived() -> bool:
            first.clear()
            for message in broker.messages(topic):
                first.setdefault(pipeline.spec.contract.event_of(message).id, message)
            return len(first) >= len(written)

        eventually(all_arrived, "every event")
    assert {event.id for event in written} == first.keys()
    order = [pipeline.spec.contract.event_of(message) for message in first.values()]
    for aggregate_id in map(str, range(7)):
        expected = [event.id for event in written if event.aggregate_id == aggregate_id]
        assert [event.id for event in order if event.aggregate_id == aggregate_id] == expected


def test_a_second_relay_takes_over_when_the_first_is_killed(made: ExitStack, outbox_stack: Stack) -> None:
    pipeline = make_pipeline(made, outbox_stack)
    text, slot = Pipeline.text(pipeline.name), relay_slot(pipeline.spec)
    reader = "select active_pid is not null from pg_replication_slots where slot_name = %s"

    def epoch() -> int:
        found = publishers_of(connection, pipeline.spec.outbox).find()
        assert found is not None
        return found.epoch

    with pipeline.connect() as connection, relay_process(pipeline, text) as first:
        eventually(lambda: epoch() == 2 and one(connection, reader, slot), "the first to read")
        with relay_process(pipeline, text) as second:
            pipeline.write(3)
            eventually(lambda: len(outbox_stack.broker.messages(PREFIX + pipeline.topic)) == 3, "the first's events")
            assert epoch() == 2
            first.kill()
            pipeline.write(3)
            eventually(lambda: epoch() == 3, "the second to take over")
            relayed = PREFIX + pipeline.topic
            eventually(lambda: len({each.headers for each in outbox_stack.broker.messages(relayed)}) == 6, "all events")
            assert second.poll() is None


@pytest.mark.parametrize("ends", [12, 1_000])
def test_ends_of_the_stream_leave_descriptors_threads_and_memory_as_they_were(
    made: ExitStack, outbox_stack: Stack, ends: int
) -> None:
    pipeline = make_pipeline(made, outbox_stack)
    slot, topic, broker = relay_slot(pipeline.spec), PREFIX + pipeline.topic, outbox_stack.broker
    terminate = "select count(pg_terminate_backend(active_pid)) from pg_replication_slots where slot_name = %s"
    with pipeline.connect() as connection, relay_process(pipeline, Pipeline.text(pipeline.name)) as process:
        folder = Path(f"/proc/{process.pid}")

        def used() -> tuple[int, int]:
            return len([*(folder / "fd").iterdir()]), len([*(folder / "task").iterdir()])

        def megabytes() -> float:
            return int((folder / "statm").read_text().split()[1]) * resource.getpagesize() / 2**20

        before, memory = (0, 0), 0.0
        for number in range(ends):
            pipeline.write(1)
            eventually(lambda number=number: sum(broker.ends(topic).values()) > number, "the event")  # type: ignore[misc]
            if number == ends // 3:  # the allocator has had its share by then
                before, memory = used(), megabytes()
            eventually(lambda: one(connection, terminate, slot), "the stream to end")
        pipeline.write(1)
        eventually(lambda: sum(broker.ends(topic).values()) > ends, "the last event")
        # Clients open and close a connection now and then; each end left five descriptors and five threads.
        eventually(lambda: max(map(sub, used(), before)) <= 5, lambda: f"{before} again, not {used()}")
        assert megabytes() - memory < 16


@pytest.mark.parametrize("refusing", ["client", "broker"])
def test_a_message_that_is_too_large_stops_the_relay(made: ExitStack, outbox_stack: Stack, refusing: str) -> None:
    # The client takes what fits into any topic.
    limits = {"metric": 2**22} if refusing == "broker" else {}
    pipeline = make_pipeline(made, outbox_stack, limits=limits)
    pipeline.write(3)
    with psycopg.connect(pipeline.dsn) as connection:
        large = Event(aggregate_type="order", aggregate_id="1", type="Placed", payload={"large": LARGE})
        Outbox(spec=pipeline.spec, max_message_bytes=3_000_000).add(connection, large)
    pipeline.write(3)
    with relay_thread(pipeline) as running:
        eventually(lambda: running.error, "the relay to stop")
    assert isinstance(running.error, MessageRefusedError)
    assert PREFIX + pipeline.topic in str(running.error)
    found = outbox_stack.broker.messages(PREFIX + pipeline.topic)
    assert len({message.headers for message in found}) <= 3


def test_columns_have_the_types_that_they_had_when_the_row_was_written(made: ExitStack, outbox_stack: Stack) -> None:
    pipeline = make_pipeline(made, outbox_stack)
    server = make_server(pipeline.spec, pipeline.dsn)
    made.callback(server.close)
    with pipeline.connect() as connection:
        connection.execute("create type colour as enum ('red')")
        connection.execute("create domain price as numeric(10, 2)")
        kinds = {
            "created_at": "timestamp(3)",
            "type": "price",
            "source": "colour",
            "dropped": "bigint",
        }
        oids = {
            name: one(connection, "select cast(to_regtype(%s) as oid)", kind.partition("(")[0])
            for name, kind in kinds.items()
        }
        relation = Relation(
            1,
            "public",
            "outbox",
            tuple(RelationColumn(name, oid, 3 if name == "created_at" else -1) for name, oid in oids.items()),
        )
        columns = {column.name: column for column in server.read_columns(relation)}
    assert {name: column.sql_type for name, column in columns.items()} == {
        "created_at": "timestamp(3) without time zone",
        "type": "numeric",
        "source": "text",
        "dropped": "bigint",
    }
    assert columns["type"].not_null
    assert not columns["dropped"].not_null
