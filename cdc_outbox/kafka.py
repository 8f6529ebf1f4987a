"""Where librdkafka's settings are chosen, and its errors become ours."""

import logging
from collections.abc import Mapping
from typing import Any, cast

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message

from cdc_outbox import message
from cdc_outbox.errors import BrokerError, BrokerUnavailableError, ConfigError

_REFUSED = {
    "allow.auto.create.topics": "a topic that was created by asking for it has the wrong number of partitions",
    "auto.commit.enable": "an offset may be committed only after its effects",
    "auto.offset.reset": "a consumer that starts elsewhere than at the earliest offset skips events",
    "bootstrap.servers": "it has a parameter of its own",
    "default.topic.config": "what stands in it overrides everything else",
    "enable.auto.commit": "an offset may be committed only after its effects",
    "enable.auto.offset.store": "an offset may be stored only after its effects",
    "enable.partition.eof": "the consumer has no use for it",
    "group.id": "it is the consumer's name",
    "isolation.level": "what a producer aborted must not have effects",
    "metadata.broker.list": "it is another name of bootstrap.servers",
    "on_commit": "the consumer needs the answers itself",
}
"""Settings that would break a promise, and the reason."""

_UNREACHABLE = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - librdkafka's local errors are spelt so
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
    }
)

PASSING_ERRORS = frozenset(
    {
        *_UNREACHABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,  # not created yet
        KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001 - the next poll joins the group again
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
    }
)
"""What a consumer reports and gets over by itself."""


def consumer_settings(*, bootstrap_servers: str, group: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return librdkafka's settings for a consumer whose offsets follow its effects.

    Args:
        extra: The user's own settings: security, timeouts, assignment strategy.

    Raises:
        ConfigError: A setting would break a promise.
    """
    for key in sorted(extra.keys() & _REFUSED.keys()):
        raise ConfigError(f"{key} cannot be set: {_REFUSED[key]}", field=f"kafka.{key}")
    # Leaving partitions where they are: after a member came or went, the others go on without a pause. The newer
    # protocol does so by itself, and takes no strategy.
    newer = str(extra.get("group.protocol", "classic")).lower() == "consumer"
    return {
        **({} if newer else {"partition.assignment.strategy": "cooperative-sticky"}),
        # A topic that Connect creates after the consumer started is seen within this time, not in five minutes.
        "topic.metadata.refresh.interval.ms": 5_000,
        **extra,
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "isolation.level": "read_committed",
        "allow.auto.create.topics": False,
    }


def make_consumer(settings: Mapping[str, Any], logger: logging.Logger) -> Consumer:
    """Return a client, not subscribed to anything yet.

    Raises:
        ConfigError: librdkafka does not know a setting, or refuses its value.
    """
    try:
        return Consumer(dict(settings), logger=logger)
    except KafkaException as error:
        raise ConfigError(error.args[0].str(), field="kafka") from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"a setting has a value of the wrong type: {error}", field="kafka") from error


def translate(error: KafkaError) -> BrokerError:
    """Return our error for one of librdkafka's, by its code."""
    sentence = f"{error.str()} ({error.name()})"
    return BrokerUnavailableError(sentence) if error.code() in _UNREACHABLE else BrokerError(sentence)


def message_of(record: "Message[bytes, bytes]") -> message.Message:
    """Return a record of a topic as a value."""
    kind, timestamp = record.timestamp()
    return message.Message(
        topic=record.topic() or "",
        partition=record.partition(),
        offset=record.offset(),
        key=record.key(),
        value=record.value(),
        headers=tuple(cast("list[tuple[str, bytes | None]]", record.headers() or [])),
        timestamp_ms=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp,
    )
