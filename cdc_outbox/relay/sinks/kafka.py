"""A sink that writes to Kafka: idempotent, without gaps, to the partitions that Java's producer chooses."""

import logging
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any

from cdc_outbox.contract.topics import Topic, find_loss
from cdc_outbox.errors import BrokerError
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka.admin import Topics
from cdc_outbox.kafka.producing import make_producer, producer_settings
from cdc_outbox.relay.relay_errors import DeliveryError, MessageRefusedError
from cdc_outbox.relay.unit import Unit

_LOG = logging.getLogger(__name__)

_REFUSALS = frozenset(
    {
        "CLUSTER_AUTHORIZATION_FAILED",
        "INVALID_MSG",
        "INVALID_RECORD",
        "INVALID_TIMESTAMP",
        "MSG_SIZE_TOO_LARGE",
        "POLICY_VIOLATION",
        "RECORD_LIST_TOO_LARGE",
        "TOPIC_AUTHORIZATION_FAILED",
        "TOPIC_EXCEPTION",
        "UNKNOWN_TOPIC_OR_PART",
        "_UNKNOWN_PARTITION",
        "_UNKNOWN_TOPIC",
    }
)
"""What the brokers answer again to the same message."""
_PURGED_SECONDS = 5.0
"""How long the reports of messages that were given up may take; they need no broker."""
_POLL_SECONDS = 0.1
"""The longest that nothing else happens, such as a signal."""


class KafkaSink:
    """Writes messages to Kafka.

    Args:
        kafka: librdkafka's settings, ``bootstrap.servers`` among them.
        topics: The topics that are written to; batches fit into the one with the lowest limit.
        wanted: Returns how to create a topic of this name that does not exist: those of ``topics`` at once, others at
            their first message. Without it, a message to a missing topic is refused.
        linger_ms: How long a batch waits for more messages.

    Raises:
        ConfigError: A setting would break a promise, or librdkafka refuses it.
        BrokerError: The brokers do not answer.
    """

    def __init__(
        self,
        kafka: Mapping[str, Any],
        *,
        topics: Iterable[str],
        wanted: Callable[[str], Topic] | None = None,
        linger_ms: float = 1,
        logger: logging.Logger,
    ) -> None:
        extra = dict(kafka)
        servers = str(extra.pop("bootstrap.servers"))
        settings = producer_settings(bootstrap_servers=servers, topics=(), extra=extra, linger_ms=linger_ms)
        self._topics, self._wanted = Topics(settings, logger), wanted
        names = [*topics]
        self._known = {*self._topics.find(names)}
        for name in names if wanted else ():
            self._create(name)
        found = self._topics.find(names).values()
        brokers = self._topics.count_brokers()
        for loss in filter(None, (find_loss(topic, brokers=brokers) for topic in found)):
            _LOG.warning("acknowledged messages can be lost: %s", loss)
        settings = producer_settings(bootstrap_servers=servers, topics=found, extra=extra, linger_ms=linger_ms)
        self._producer = make_producer(settings, logger)
        self._has_failed = False
        self._fatal: confluent.KafkaError | None = None

    def send(self, unit: Unit[Any], start: int) -> int:
        """Take messages of a unit, and return how many; as :class:`~cdc_outbox.relay.sinks.Sink` says."""
        unit.translate = self._translate
        produce, delivered, events, known = self._producer.produce, unit.delivered, unit.events, self._known
        taken = start
        try:
            while taken < len(events) and not self._has_failed:
                topic, value, key, partition, timestamp_ms, headers = events[taken]
                if topic not in known:
                    self._create(topic)
                produce(topic, value, key, partition, delivered, None, timestamp_ms, headers)  # type: ignore[arg-type] # invariant
                taken += 1
        except BufferError:
            pass
        except confluent.KafkaException as error:
            if error.args[0].fatal():
                # An earlier message failed. Its own report has the cause, and comes with the next poll.
                self._has_failed, self._fatal = True, error.args[0]
            else:
                # It was refused before it was queued, so nothing else reports it.
                delivered(error.args[0], events[taken])
                taken += 1
        except BrokerError as error:
            delivered(error, events[taken])
            taken += 1
        return taken - start

    def _create(self, topic: str) -> None:
        """Create a topic unless it is there, as Connect does at its first message.

        Raises:
            BrokerError: The brokers refuse it, or do not answer.
        """
        if topic not in self._known and self._wanted is not None and not self._topics.find([topic]):
            created = self._topics.create([self._wanted(topic)])[topic]
            if isinstance(created, BrokerError):
                raise created
            _LOG.info("created the topic %s", topic)
        self._known.add(topic)

    def poll(self, seconds: float) -> None:
        """Report what happened to messages, and wait for it at most so long.

        Raises:
            DeliveryError: The producer failed; close the sink.
        """
        try:
            self._producer.poll(seconds)
        except confluent.KafkaException as error:
            self._has_failed, self._fatal = True, error.args[0]
        if self._fatal is not None:
            raise DeliveryError(f"the producer failed: {_sentence(self._fatal)}")

    def close(self, seconds: float) -> None:
        """Deliver what was taken, for so long at most; after a failure, or with 0, give it up and report that."""
        if not self._has_failed and seconds > 0:
            self._serve(seconds)
        if self._has_failed or len(self._producer):
            # In flight too: their reports must not reach units that are read after this sink.
            self._producer.purge(in_queue=True, in_flight=True)
            self._serve(_PURGED_SECONDS)

    def _serve(self, seconds: float) -> None:
        # To purge a message in flight is a fatal error where gaps are forbidden. `flush` goes on with it pending, and
        # the reports behind it end in a SystemError; `poll` raises it, and the next one goes on.
        deadline = monotonic() + seconds
        while len(self._producer) and (left := deadline - monotonic()) > 0:
            try:
                self._producer.poll(min(left, _POLL_SECONDS))
            except confluent.KafkaException:
                self._has_failed = True

    def _translate(self, error: object, record: object) -> Exception:
        """Return our error for a failed message. The client calls this: it never raises."""
        self._has_failed = True
        topic = record[0] if isinstance(record, tuple) else getattr(record, "topic", str)()
        if not isinstance(error, confluent.KafkaError):
            is_passing = not isinstance(error, BrokerError) or error.retryable
            return (DeliveryError if is_passing else MessageRefusedError)(f"no topic {topic}: {error}")
        kind = MessageRefusedError if error.name() in _REFUSALS else DeliveryError
        return kind(f"a message to the topic {topic} was not delivered: {_sentence(error)}")


def _sentence(error: "confluent.KafkaError") -> str:
    return f"{error.str()} ({error.name()})"
