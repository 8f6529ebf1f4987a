"""What every sink keeps to: a report for each message, in order, nothing behind a failure; and Kafka's own limits."""

import io
import json
import logging
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]

from cdc_outbox.contract.topics import Topic
from cdc_outbox.debezium.event_router import java_partition
from cdc_outbox.debezium.event_router.produce import RoutedEvent
from cdc_outbox.errors import ConfigError
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.kafka.producing import producer_settings
from cdc_outbox.message import Message
from cdc_outbox.relay import kafka_sink as kafka_sink_module
from cdc_outbox.relay.kafka_sink import KafkaSink
from cdc_outbox.relay.open_partitions import Alone
from cdc_outbox.relay.relay_errors import DeliveryError, MessageRefusedError
from cdc_outbox.relay.sinks import CallableSink, JsonLinesSink, Sink
from cdc_outbox.relay.units import Unit
from cdc_outbox.testing import Stack
from tests.support.patience import patience
from tests.support.relay_parts import Reported
from tests.support.rig import eventually
from tests.support.topic_limits import set_limit

LOG = logging.getLogger("silent")


def event(topic: str, value: bytes | None, key: bytes | None = b"k") -> RoutedEvent:
    return topic, value, key, -1, 1_700_000_000_000, [("n", value), ("n", None)]


def send_all(sink: Sink, unit: Unit[Any]) -> None:
    """Send a unit as the relay's loop does it, until all of it is taken or one of its messages failed."""
    send_rest(sink, unit, 0)


def send_rest(sink: Sink, unit: Unit[Any], sent: int) -> None:

    def step() -> bool:
        nonlocal sent
        for _ in range(100):  # without the pauses of `eventually`
            while unit.failure is None and (taken := sink.send(unit, sent)):
                sent += taken
            poll(sink)
            if sent == len(unit.events) or unit.failure is not None:
                return True
        return False

    eventually(step, "every message is taken")


def poll(sink: Sink) -> None:
    """Let reports come; brokers refuse a message at any time, and its report has the cause."""
    with suppress(DeliveryError):
        sink.poll(0.05)


def wait_for_reports(sink: Sink, unit: Unit[Any]) -> None:
    def done() -> bool:
        sink.poll(0.05)
        return unit.undelivered == 0

    eventually(done, "every report")


def wait_for_failure(sink: Sink, unit: Unit[Any]) -> None:
    def failed() -> bool:
        poll(sink)
        return unit.failure is not None

    eventually(failed, "the failure")


def make_topic(stack: Stack, **config: str) -> str:
    return make_topic_of(stack, 3, config)


def make_topic_of(stack: Stack, partitions: int, config: Mapping[str, str]) -> str:
    name = f"sink.{uuid4().hex}"
    # The messages are years old: at its next look the broker would delete them, and forget their producer.
    times = {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}
    kept = Topic(name=name, partitions=partitions, config={**times, **config})
    [made] = topics_of(stack).create([kept]).values()
    assert made is True
    eventually(lambda: name in topics_of(stack).find([name]) and stack.broker.ends(name), "the topic")
    return name


def topics_of(stack: Stack) -> Topics:
    return Topics({"bootstrap.servers": stack.broker.bootstrap_servers}, LOG)


@contextmanager
def kafka_sink(stack: Stack, *topics: str, alone: Alone | None = None, **settings: Any) -> Iterator[KafkaSink]:
    options = {"bootstrap.servers": stack.broker.bootstrap_servers} | {
        name.replace("_", "."): value for name, value in settings.items()
    }
    sink = KafkaSink(options, topics=topics, logger=LOG, alone=alone)
    try:
        yield sink
    finally:
        sink.close(0)


@pytest.mark.parametrize("kind", ["callable", "json lines", "kafka"])
def test_a_sink_reports_each_message_once_and_keeps_their_order(kind: str, outbox_stack: Stack) -> None:
    topic = make_topic(outbox_stack)
    unit = Reported([event(topic, b"%d" % number) for number in range(500)])
    if kind == "kafka":
        # Less room than there are messages, so that a send takes only some.
        with kafka_sink(outbox_stack, topic, queue_buffering_max_messages=100) as kafka:
            assert kafka.send(unit, 0) == 1  # the first of its partition
            kafka.close(10)
            assert kafka.send(unit, 1) == 100
            kafka.close(10)
            send_rest(kafka, unit, 101)
            wait_for_reports(kafka, unit)
        written = [message.value for message in outbox_stack.broker.messages(topic)]
        assert written == [b"%d" % number for number in range(500)]
    elif kind == "callable":
        taken: list[Message] = []
        send_all(CallableSink(taken.append), unit)
        assert [message.value for message in taken] == [b"%d" % number for number in range(500)]
    else:
        stream = io.StringIO()
        send_all(JsonLinesSink(stream), unit)
        assert [json.loads(line)["value"] for line in stream.getvalue().splitlines()] == [*map(str, range(500))]
    assert (unit.reports, unit.undelivered, unit.failure) == (500, 0, None)


def test_a_callable_gets_nothing_behind_a_message_that_it_refused() -> None:
    taken: list[bytes | None] = []

    def deliver(message: Message) -> None:
        if message.value == b"3":
            raise ValueError("secret")
        taken.append(message.value)

    sink, unit, later = (
        CallableSink(deliver),
        Reported([event("t", b"%d" % n) for n in range(6)]),
        Reported([event("t", b"9")]),
    )
    send_all(sink, unit)
    assert sink.send(unit, 4) == sink.send(later, 0) == 0
    assert taken == [b"0", b"1", b"2"]
    assert (unit.reports, unit.undelivered, later.reports) == (4, 3, 0)
    assert isinstance(unit.failure, DeliveryError)
    assert "secret" not in str(unit.failure)


def test_a_line_has_all_of_a_message() -> None:
    stream = io.StringIO()
    unit: Unit[int] = Unit([("t", b"\xff\x00", None, 2, 7, [("a", None), ("a", "ä\x1b".encode())])])
    send_all(JsonLinesSink(stream), unit)
    assert json.loads(stream.getvalue()) == {
        "topic": "t",
        "key": None,
        "value": {"base64": "/wA="},
        "headers": [["a", None], ["a", "ä\x1b"]],
        "partition": 2,
        "timestamp_ms": 7,
    }
    assert "\x1b" not in stream.getvalue()


def test_a_message_arrives_as_it_is_on_the_partition_that_java_chooses(outbox_stack: Stack) -> None:
    topic = make_topic(outbox_stack, **{"message.timestamp.type": "CreateTime"})
    draw = Random(7)  # noqa: S311 - the same bytes each time
    keys = [b"", *(draw.randbytes(draw.randrange(1, 12)) for _ in range(200)), b"x" * 300]
    unit: Unit[int] = Unit(
        [
            *(event(topic, b"", key) for key in keys),
            event(topic, None, None),
            (topic, b"placed", b"k", 2, 5, []),
        ]
    )
    with kafka_sink(outbox_stack, topic) as sink:
        send_all(sink, unit)
        wait_for_reports(sink, unit)
    found = outbox_stack.broker.messages(topic)
    assert {message.key: message.partition for message in found if message.value == b""} == {
        key: java_partition(key, 3) for key in keys
    }
    [none] = [message for message in found if message.key is None]
    assert (none.value, none.headers, none.timestamp_ms) == (None, (("n", None), ("n", None)), 1_700_000_000_000)
    [placed] = [message for message in found if message.value == b"placed"]
    assert (placed.partition, placed.timestamp_ms) == (2, 5)


def test_small_messages_fit_into_a_topic_with_a_low_limit(outbox_stack: Stack) -> None:
    topic = make_topic(outbox_stack, **{"max.message.bytes": "50000"})
    draw = Random(7)  # noqa: S311 - the same bytes each time
    unit = Reported([event(topic, draw.randbytes(400)) for _ in range(3_000)])
    # With another topic's limit the client takes larger messages.
    with kafka_sink(outbox_stack, topic, make_topic(outbox_stack), linger_ms=50) as sink:
        send_all(sink, unit)
        wait_for_reports(sink, unit)
    assert (unit.failure, unit.reports) == (None, 3_000)
    assert [message.value for message in outbox_stack.broker.messages(topic)] == [each[1] for each in unit.events]
    batches = batches_of(outbox_stack, topic)
    assert min(producer for producer, _ in batches) >= 0  # it is idempotent
    assert sum(count for _, count in batches) == 3_000
    assert len(batches) < 300


def batches_of(stack: Stack, topic: str) -> list[tuple[int, int]]:
    """Return the producer and the number of messages of each batch in a topic, as the broker stores them."""
    found = []
    for log in (stack.broker.folder / "data").glob(f"{topic}-*/*.log"):
        data, at = log.read_bytes(), 0
        while at + 61 <= len(data):
            size, producer, count = (
                *struct.unpack_from(">i", data, at + 8),
                *struct.unpack_from(">q", data, at + 43),
                *struct.unpack_from(">i", data, at + 57),
            )
            if not count:
                break
            found.append((producer, count))
            at += 12 + size
    return found


def test_nothing_arrives_behind_a_message_that_is_too_large_and_the_next_sink_names_it(outbox_stack: Stack) -> None:
    topic, alone = make_topic(outbox_stack, **{"max.message.bytes": "50000"}), dict[tuple[str, int], tuple[int, int]]()
    large = Random(7).randbytes(60_000)  # noqa: S311 - bytes that do not compress
    values = [b"0", b"1", large, *(b"%d" % number for number in range(3, 200))]

    def send() -> Reported:
        unit = Reported([(topic, value, b"k", -1, 1, [("id", b"%d" % number)]) for number, value in enumerate(values)])
        with kafka_sink(outbox_stack, topic, alone=alone) as sink:
            send_all(sink, unit)
            wait_for_failure(sink, unit)
            assert sink.send(unit, 0) == 0
            sink.close(5)
            reports = unit.reports
            sink.close(5)
            assert unit.reports == reports <= 200
        return unit

    failures = [send().failure, send().failure]
    assert [type(failure) for failure in failures] == [DeliveryError, MessageRefusedError]
    assert topic in str(failures[0])
    place = java_partition(b"k", 3)
    for text in (
        topic,
        f"partition {place}",
        "the event 2 ",
        "the aggregate k,",
        "60002 bytes",
        "max.message.bytes is 50000",
    ):
        assert text in str(failures[1])
    written = [message.value for message in outbox_stack.broker.messages(topic)]
    assert set(written) <= {b"0", b"1"}


REFUSALS: dict[str, dict[str, str]] = {
    "MSG_SIZE_TOO_LARGE": {},
    "INVALID_TIMESTAMP": {"message.timestamp.type": "CreateTime", "message.timestamp.before.max.ms": "1000"},
    "INVALID_RECORD": {"cleanup.policy": "compact"},
}


@pytest.mark.parametrize("refusal", REFUSALS)
def test_nothing_arrives_behind_the_first_message_of_a_producer_that_is_refused(
    refusal: str, outbox_stack: Stack
) -> None:
    topic = make_topic(outbox_stack, **{"max.message.bytes": "50000"} | REFUSALS[refusal])
    key, now = None if refusal == "INVALID_RECORD" else b"k", time.time_ns() // 1_000_000
    # It fills a batch, so that the next message is in one of its own.
    large = Random(7).randbytes(60_000 if refusal == "MSG_SIZE_TOO_LARGE" else 48_900)  # noqa: S311
    first: RoutedEvent = (topic, large, key, 0, now - 60_000 if refusal == "INVALID_TIMESTAMP" else now, [])
    unit = Reported([first, *((topic, b"%d" % number, b"k", 0, now, []) for number in range(2, 100))])
    with kafka_sink(outbox_stack, topic, make_topic(outbox_stack)) as sink:
        send_all(sink, unit)
        wait_for_failure(sink, unit)
    assert isinstance(unit.failure, MessageRefusedError)
    assert refusal in str(unit.failure)
    assert outbox_stack.broker.messages(topic) == []


def test_a_large_message_that_compresses_into_its_topics_limit_arrives(outbox_stack: Stack) -> None:
    topic = make_topic(outbox_stack, **{"max.message.bytes": "50000"})
    unit = Reported([event(topic, b"0" * 5_000_000), event(topic, b"0" * 5_000_000), event(topic, b"1")])
    with kafka_sink(outbox_stack, topic) as sink:
        send_all(sink, unit)
        eventually(lambda: was_reported(sink, unit), "the reports")
    assert unit.failure is None
    assert [len(message.value or b"") for message in outbox_stack.broker.messages(topic)] == [5_000_000, 5_000_000, 1]


def test_a_limit_that_was_lowered_below_a_batch_in_which_each_message_fits_is_no_refusal(outbox_stack: Stack) -> None:
    topic, alone = make_topic(outbox_stack), dict[tuple[str, int], tuple[int, int]]()
    draw = Random(7)  # noqa: S311 - the same bytes each time
    values = [draw.randbytes(5_000) for _ in range(100)]

    def is_delivered() -> bool:
        """Send all of it, as a relay does in each attempt."""
        unit = Reported([event(topic, value) for value in values])
        with kafka_sink(outbox_stack, topic, alone=alone, linger_ms=200) as sink:
            send_rest(sink, unit, sink.send(unit, 0))
            set_limit(outbox_stack.broker.bootstrap_servers, topic, 50_000)
            eventually(lambda: was_reported(sink, unit), "the reports")
        assert not isinstance(unit.failure, MessageRefusedError)
        return unit.failure is None

    eventually(is_delivered, "everything")
    written = [message.value for message in outbox_stack.broker.messages(topic)]
    assert [*dict.fromkeys(written)] == values


def was_reported(sink: Sink, unit: Unit[Any]) -> bool:
    poll(sink)
    return unit.failure is not None or not unit.undelivered


@pytest.mark.parametrize("change", ["created again", "more partitions"])
def test_a_partition_of_a_changed_topic_is_closed(
    outbox_stack: Stack, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_sink_module, "_LOOK_SECONDS", 0.0)
    topic, place = make_topic(outbox_stack), 0 if change == "created again" else 3
    with kafka_sink(outbox_stack, topic) as sink:
        first = Reported([(topic, b"first", b"k", number, 1, []) for number in range(3)])
        send_all(sink, first)
        wait_for_reports(sink, first)
        unit = Reported([(topic, b"%d" % number, b"k", place, 1, []) for number in range(9)])
        if change == "created again":
            outbox_stack.broker.delete_topics(topic)
            eventually(lambda: topic not in outbox_stack.broker.topics(), "the topic to be gone")
            [made] = topics_of(outbox_stack).create([Topic(name=topic, partitions=3)]).values()
            assert made is True
        else:
            admin = AdminClient({"bootstrap.servers": outbox_stack.broker.bootstrap_servers})
            admin.create_partitions([NewPartitions(topic, 4)])[topic].result(patience())

        def is_closed() -> bool:
            sink.poll(0.05)
            known = sink._partitions.topics[topic]
            return known.partitions == (3 if change == "created again" else 4) and place not in known.opened

        eventually(is_closed, "the partition to be closed")
        assert sink.send(unit, 0) == 1
        send_rest(sink, unit, 1)
        wait_for_reports(sink, unit)
    written = [message.value for message in outbox_stack.broker.messages(topic)]
    assert [value for value in written if value != b"first"] == [each[1] for each in unit.events]


def test_three_hundred_partitions_are_opened_by_far_fewer_round_trips(outbox_stack: Stack) -> None:
    name, trips = make_topic_of(outbox_stack, 300, {}), set[int]()
    unit = Reported([event(name, b"1", b"%d" % number) for number in range(4_000)])
    with kafka_sink(outbox_stack, name) as sink:
        sent = 0

        def is_taken() -> bool:
            nonlocal sent
            for _ in range(100):
                while taken := sink.send(unit, sent):
                    sent += taken
                sink.poll(0.05)
                trips.add(len(sink._partitions.topics[name].opened))
            return sent == len(unit.events)

        eventually(is_taken, "every message is taken")
        assert name in sink._partitions._ready
        wait_for_reports(sink, unit)
    # Of some ten milliseconds each; one by one, there would be 300.
    assert len(trips) < 200


def test_a_message_that_was_refused_comes_before_those_behind_it_once_the_topic_takes_it(outbox_stack: Stack) -> None:
    topic = make_topic(outbox_stack, **{"max.message.bytes": "50000"})
    # With another topic's limit the broker refuses what the client has taken.
    topics = [topic, make_topic(outbox_stack)]
    large = Random(7).randbytes(60_000)  # noqa: S311 - bytes that do not compress
    values = [b"0", b"1", large, *(b"%d" % number for number in range(3, 200))]

    def written() -> list[bytes | None]:
        return [message.value for message in outbox_stack.broker.messages(topic)]

    def was_refused(sink: KafkaSink, unit: Unit[Any]) -> bool:
        poll(sink)
        return unit.failure is not None or len(written()) > 2

    def is_delivered() -> bool:
        """Send all of it again, as a relay does that starts again."""
        again = Reported([event(topic, value) for value in values])
        with kafka_sink(outbox_stack, *topics) as sink:
            send_all(sink, again)
            eventually(lambda: was_reported(sink, again), "the reports")
        return again.failure is None

    unit = Reported([event(topic, value) for value in values])
    with kafka_sink(outbox_stack, *topics) as sink:
        send_all(sink, unit)
        eventually(lambda: was_refused(sink, unit), "the message to be refused")
        set_limit(outbox_stack.broker.bootstrap_servers, topic, 200_000)  # a header has the same bytes
        eventually(lambda: was_reported(sink, unit), "the reports")
    if unit.undelivered:
        eventually(is_delivered, "the topic to take the message")
    assert [*dict.fromkeys(written())] == values


def test_a_missing_topic_is_refused_and_not_made(outbox_stack: Stack) -> None:
    topic = f"sink.{uuid4().hex}"
    unit = Reported([event(topic, b"1"), event(topic, b"2")])
    with kafka_sink(outbox_stack, topic, topic_metadata_propagation_max_ms=100) as sink:
        send_all(sink, unit)
        wait_for_failure(sink, unit)
    assert isinstance(unit.failure, MessageRefusedError)
    assert unit.reports == 1
    assert topic not in outbox_stack.broker.topics()


def test_missing_topics_are_created_as_wanted_and_one_that_brokers_refuse_stops_the_relay(outbox_stack: Stack) -> None:
    known, unknown, refused = f"sink.{uuid4().hex}", f"sink.{uuid4().hex}", "sink.ö"
    options = {"bootstrap.servers": outbox_stack.broker.bootstrap_servers}

    def wanted(name: str) -> Topic:
        return Topic(name=name, partitions=2, config={"retention.ms": "-1"})

    unit = Reported([event(known, b"1"), event(unknown, b"2"), event(refused, b"3"), event(known, b"4")])
    sink = KafkaSink(options, topics=[known], wanted=wanted, logger=LOG)
    try:
        assert known in outbox_stack.broker.topics()
        assert sink.send(unit, 0) == 3

        def reported() -> bool:
            sink.poll(0.05)
            return unit.reports == 3

        eventually(reported, "the reports")
    finally:
        sink.close(0)
    assert isinstance(unit.failure, MessageRefusedError)
    assert refused in str(unit.failure)
    for topic, value in ((known, b"1"), (unknown, b"2")):
        assert [message.value for message in outbox_stack.broker.messages(topic)] == [value]
        assert topics_of(outbox_stack).find([topic])[topic].partitions == 2


def test_messages_to_brokers_that_do_not_answer_wait_and_are_given_up_at_the_end(outbox_stack: Stack) -> None:
    topic = make_topic(outbox_stack)
    unit = Reported([event(topic, b"1", b"a"), event(topic, b"2", b"b")])
    with kafka_sink(outbox_stack, topic, linger_ms=60_000) as sink:
        assert sink.send(unit, 0) == 2  # of two partitions
        sink.poll(0)
        assert (unit.reports, unit.failure) == (0, None)
        sink.close(0)
    assert unit.reports == 2
    assert isinstance(unit.failure, DeliveryError)
    assert outbox_stack.broker.messages(topic) == []


def test_messages_go_at_once_when_there_is_nothing_more_to_send(outbox_stack: Stack) -> None:
    topic = make_topic(outbox_stack)
    for linger_ms, polls, is_sent in ((0, [0.001] * 2_000, True), (60_000, [0.001] * 200, False)):
        unit = Reported([event(topic, b"1")])
        with kafka_sink(outbox_stack, topic, linger_ms=linger_ms) as sink:
            assert sink.send(unit, 0) == 1
            for seconds in polls:
                sink.poll(seconds)
            assert bool(unit.reports) is is_sent


@pytest.mark.parametrize(
    "key",
    [
        *("acks", "request.required.acks", "enable.idempotence", "partitioner", "batch.size", "message.max.bytes"),
        *("message.timeout.ms", "delivery.timeout.ms", "max.in.flight", "max.in.flight.requests.per.connection"),
        *("retries", "message.send.max.retries", "enable.gapless.guarantee", "transactional.id", "on_delivery"),
        *("dr_msg_cb", "dr_cb", "delivery.report.only.error", "default.topic.config", "queuing.strategy"),
        *("metadata.broker.list", "plugin.library.paths"),
    ],
)
def test_a_setting_of_a_producer_that_breaks_a_promise_is_refused(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} cannot be set"):
        producer_settings(bootstrap_servers="b:1", topics=(), extra={key: "x"})


def test_a_producer_waits_for_brokers_and_batches_fit_the_topics() -> None:
    limits = [
        Topic(name=str(limit), partitions=1, config={"max.message.bytes": str(limit)}) for limit in (50_000, 2**21)
    ]
    settings = producer_settings(bootstrap_servers="b:1", topics=limits, extra={"linger.ms": 7})
    assert (settings["batch.size"], settings["message.max.bytes"], settings["linger.ms"]) == (49_000, 15_000_000, 7)
    assert (settings["message.timeout.ms"], settings["partitioner"]) == (0, "murmur2_random")
    assert settings["enable.idempotence"] is settings["enable.gapless.guarantee"] is True
