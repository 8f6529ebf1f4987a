"""How a consumer ends, and begins again."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.rig import eventually
from tests.support.service import Service

BROKER = """
import confluent_kafka, signal, sys

producer = confluent_kafka.Producer({"bootstrap.servers": "none:1", "test.mock.num.brokers": 1})
[broker] = producer.list_topics(timeout=10).brokers.values()
headers = {"id": "1", "eventType": "OrderPlaced", "aggregateType": "order", "sequence": "1", "source": "orders.1"}
producer.produce(sys.argv[1], b"{}", b"1", headers=headers)
producer.flush(10)
print(f"{broker.host}:{broker.port}", flush=True)
signal.pause()
"""


@contextmanager
def brokers_that_can_go(topic: str) -> "Iterator[tuple[str, subprocess.Popen[str]]]":
    """Run librdkafka's imitation of a broker, which holds one event, in a process of its own."""
    process = subprocess.Popen([sys.executable, "-c", BROKER, topic], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.communicate()


def test_a_consumer_whose_brokers_are_gone_stops_before_it_is_killed(service: Service) -> None:
    """Kubernetes waits 30 seconds; librdkafka would wait for its commits as long as a session lasts, which is 45."""
    with brokers_that_can_go(service.pipeline.topic) as (servers, process):
        consumer = service.consumer(bootstrap_servers=servers, kafka_settings={})
        with service.running(consumer):
            # The brokers go as soon as the effect is there, before the next poll sends its offset.
            eventually(service.effects, "the effect")
            process.kill()
            process.wait()
            consumer.stop()
            before = time.monotonic()
    assert time.monotonic() - before < 20


def test_a_consumer_that_was_stopped_can_run_again(service: Service) -> None:
    consumer = service.consumer()
    for count in (1, 2):
        service.pipeline.write(1)
        service.consume(count, consumer)


def test_a_stop_that_comes_before_the_run_ends_it(service: Service) -> None:
    consumer = service.consumer()
    consumer.stop()
    consumer.run()
    assert service.effects() == []


def test_the_newer_group_protocol_does_as_well(service: Service) -> None:
    service.pipeline.write(3)
    with service.running(service.consumer(kafka_settings={"group.protocol": "consumer"})):
        eventually(lambda: len(service.effects()) == 3, "three effects")
