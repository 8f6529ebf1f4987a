"""Settings of a producer whose messages arrive in their order, without a gap, on the partitions that Java chooses."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from cdc_outbox.contract.topics import Topic
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka.clients import REPEATS, refuse_settings, refusing_settings

_ORDER = "a message would be lost, repeated or disordered after an error"
_REPORTS = "the relay needs the report of every message"
_FITTED = "it is fitted to the limits of the topics"
_REFUSED = {
    "acks": "a message counts as delivered only when every in-sync replica has it",
    "allow.auto.create.topics": "a topic that was created by producing to it has the wrong number of partitions",
    "batch.size": _FITTED,
    "bootstrap.servers": "it has a parameter of its own",
    "default.topic.config": "what stands in it overrides everything else",
    "delivery.report.only.error": _REPORTS,
    "delivery.timeout.ms": "it is another name of message.timeout.ms",
    "dr_cb": _REPORTS,
    "dr_msg_cb": _REPORTS,
    "enable.gapless.guarantee": _ORDER,
    "enable.idempotence": _ORDER,
    "max.in.flight": "it is another name of max.in.flight.requests.per.connection",
    "max.in.flight.requests.per.connection": _ORDER,
    "message.max.bytes": _FITTED,
    "message.send.max.retries": _ORDER,
    "message.timeout.ms": "a message that is given up while the brokers are down would leave a gap",
    "metadata.broker.list": "it is another name of bootstrap.servers",
    "msg_order_cmp": _ORDER,
    "on_delivery": _REPORTS,
    "partitioner": "a key must have the partition that Java's producer chooses",
    "queuing.strategy": _ORDER,
    "request.required.acks": "it is another name of acks",
    "retries": "it is another name of message.send.max.retries",
    "transactional.id": "consumers that read uncommitted messages would see aborted ones",
}
"""Settings that would break a promise, and the reason."""
_DEFAULT_LIMIT = 1_048_588
"""Kafka's own ``max.message.bytes``, for topics that do not exist yet."""
_BATCH_SHARE = 0.98
"""A batch has a header of its own: of 50,000 bytes, batches of 49,000 were measured to pass."""
_MOST_BATCH_BYTES = 1_000_000
_MOST_MESSAGE_BYTES = 15_000_000
"""The least that the client takes. It counts bytes before compression, a topic's limit counts those after it."""


def producer_settings(
    *, bootstrap_servers: str, topics: Iterable[Topic], extra: Mapping[str, Any], linger_ms: float = 1
) -> dict[str, Any]:
    """Return librdkafka's settings for a producer without gaps.

    Args:
        topics: Those that are written to, with their settings, as far as they exist. librdkafka does not split a batch
            that the broker refuses, as Java's producer does: a batch must fit into the topic with the lowest limit.
        extra: The user's own settings: security, compression, timeouts of connections.
        linger_ms: How long a batch waits for more messages.

    Raises:
        ConfigError: A setting would break a promise, or run code.
    """
    refuse_settings(extra, _REFUSED)
    limits = [int(topic.config.get("max.message.bytes", _DEFAULT_LIMIT)) for topic in topics] or [_DEFAULT_LIMIT]
    most = max(_MOST_MESSAGE_BYTES, *limits)
    return {
        "compression.type": "lz4",
        "linger.ms": linger_ms,
        # A message without a key takes part in the same batches.
        "sticky.partitioning.linger.ms": 0,
        # Bounds the memory: a queued message of 200 bytes with seven headers takes 1,077; kilobytes count payloads.
        "queue.buffering.max.messages": 16_000,
        "queue.buffering.max.kbytes": max(16_384, most // 1_000),  # a message without room waits for ever
        **extra,
        "bootstrap.servers": bootstrap_servers,
        "enable.idempotence": True,
        "enable.gapless.guarantee": True,
        "message.timeout.ms": 0,
        "partitioner": "murmur2_random",
        "batch.num.messages": 20_000,
        "batch.size": min(_MOST_BATCH_BYTES, int(min(limits) * _BATCH_SHARE)),
        "message.max.bytes": most,
        "allow.auto.create.topics": False,
    }


def _is_about_the_user(record: logging.LogRecord) -> bool:
    """Leave out librdkafka's warning that a setting is experimental which no user chose."""
    text = record.getMessage()
    return not (text.startswith("CONFWARN") and "enable.gapless.guarantee" in text)


def make_producer(settings: Mapping[str, Any], logger: logging.Logger) -> "confluent.Producer":
    """Return a producer.

    Raises:
        ConfigError: librdkafka does not know a setting, or refuses its value.
    """
    logger.addFilter(REPEATS)
    logger.addFilter(_is_about_the_user)
    with refusing_settings():
        return confluent.Producer(dict(settings), logger=logger)
