"""Produce the time to a topic at a steady rate: python -m benchmarks.steady_producer SERVERS TOPIC RATE COUNT."""

import sys
import time

from confluent_kafka import Producer


def main() -> None:
    """Produce one message at a time, each as soon as it is due."""
    servers, topic, rate, count = sys.argv[1:]
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 0})
    start = time.time()
    for number in range(int(count)):
        time.sleep(max(0.0, start + number / int(rate) - time.time()))
        producer.produce(topic, repr(time.time()), str(number))
        producer.poll(0)
    producer.flush()


if __name__ == "__main__":
    main()
