"""What a failed message is to the relay, without brokers."""

from types import SimpleNamespace

from confluent_kafka import KafkaError

from cdc_outbox.debezium.event_router.produce import RoutedEvent
from cdc_outbox.relay.kafka_sink import KafkaSink
from cdc_outbox.relay.open_partitions import Alone, OpenPartitions
from cdc_outbox.relay.relay_errors import DeliveryError, MessageRefusedError

EVENT: RoutedEvent = ("t", b"value", b"7", 2, 1, [("id", b"e-1"), ("none", None)])
RECORD = SimpleNamespace(topic=lambda: "t", partition=lambda: 2)


def make_sink(alone: Alone | None = None) -> KafkaSink:
    sink = object.__new__(KafkaSink)
    vars(sink).update(_cause=None, _partitions=OpenPartitions([], {} if alone is None else alone))
    return sink


def test_an_event_that_is_refused_alone_is_named_and_nothing_that_follows_from_it_hides_that() -> None:
    sink = make_sink()
    refused = sink._translate(KafkaError(KafkaError.INVALID_TIMESTAMP), EVENT)
    assert isinstance(refused, MessageRefusedError)
    for text in ("event e-1", "aggregate 7", "topic t", "partition 2", "9 bytes", "INVALID_TIMESTAMP"):
        assert text in str(refused)
    for code in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL):
        assert sink._translate(KafkaError(code), RECORD) is refused


def test_a_consequence_that_is_reported_first_does_not_hide_the_refusal() -> None:
    sink = make_sink()
    assert isinstance(sink._translate(KafkaError(KafkaError._PURGE_QUEUE), RECORD), DeliveryError)
    assert isinstance(sink._translate(KafkaError(KafkaError.INVALID_TIMESTAMP), EVENT), MessageRefusedError)


def test_a_refused_batch_is_tried_again_one_by_one_and_counts_once() -> None:
    alone: Alone = {}
    sink = make_sink(alone)
    failures = {sink._translate(KafkaError(KafkaError.INVALID_TIMESTAMP), RECORD) for _ in range(3)}
    assert [type(failure) for failure in failures] == [DeliveryError]
    assert alone == {("t", 2): (1_000, 1_000)}
