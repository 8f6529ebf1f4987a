"""A sink that writes to Kafka: idempotent, without gaps, to the partitions that Java's producer chooses."""

import logging
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any

from cdc_outbox.contract.topics import Topic
from cdc_outbox.errors import BrokerError
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka.admin import MissingTopics, Topics
from cdc_outbox.kafka.broker_errors import REFUSED_MESSAGES, sentence_of
from cdc_outbox.kafka.producing import make_producer, producer_settings
from cdc_outbox.relay.relay_errors import DeliveryError, MessageRefusedError
from cdc_outbox.relay.units import Unit

_LOG = logging.getLogger(__name__)

_BACKLOG_LINGER_MS = 100
"""How long a batch waits while there is more to read.

librdkafka sends an idempotent producer's next batch to a partition when the one before is acknowledged. Its thread
waits for that in a busy loop from when the batch has waited long enough: with 1 ms it took a third of the relay's CPU.
"""
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
        linger_ms: How long a batch waits for more messages; with 0, until there is nothing more to send.

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
        linger_ms: float = 0,
        logger: logging.Logger,
    ) -> None:
        extra = dict(kafka)
        servers = str(extra.pop("bootstrap.servers"))
        self._flushes = not linger_ms and not extra.keys() & {"linger.ms", "queue.buffering.max.ms"}
        linger_ms = linger_ms or _BACKLOG_LINGER_MS
        settings = producer_settings(bootstrap_servers=servers, topics=(), extra=extra, linger_ms=linger_ms)
        self._topics = MissingTopics(Topics(settings, logger), wanted, _LOG)
        found = self._topics.prepare([*topics])
        settings = producer_settings(bootstrap_servers=servers, topics=found, extra=extra, linger_ms=linger_ms)
        self._producer = make_producer(settings, logger)
        self._has_failed = self._is_full = False
        self._fatal: confluent.KafkaError | None = None

    def send(self, unit: Unit[Any], start: int) -> int:
        """Take messages of a unit, and return how many; as :class:`~cdc_outbox.relay.sinks.Sink` says."""
        unit.translate = self._translate
        produce, delivered, events, known = self._producer.produce, unit.delivered, unit.events, self._topics.known
        taken, self._is_full = start, False
        try:
            while taken < len(events) and not self._has_failed:
                topic, value, key, partition, timestamp_ms, headers = events[taken]
                if topic not in known:
                    self._topics.ensure(topic)
                produce(topic, value, key, partition, delivered, None, timestamp_ms, headers)  # type: ignore[arg-type] # invariant
                taken += 1
        except BufferError:
            self._is_full = True
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

    def poll(self, seconds: float) -> None:
        """Report what happened to messages, and wait for it at most so long.

        A caller that waits has nothing to send now, so batches are sent at once; unless the queue is full.

        Raises:
            DeliveryError: The producer failed; close the sink.
        """
        producer = self._producer
        is_pause = seconds > 0 and self._flushes and not self._is_full
        try:
            (producer.flush if is_pause and len(producer) else producer.poll)(seconds)
        except confluent.KafkaException as error:
            self._has_failed, self._fatal = True, error.args[0]
        except SystemError as error:
            # `flush` goes on when a fatal error was raised in it, and the reports behind that end in this.
            self._has_failed = True
            raise DeliveryError("the producer failed") from error
        if self._fatal is not None:
            raise DeliveryError(f"the producer failed: {sentence_of(self._fatal)}")

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
        kind = MessageRefusedError if error.name() in REFUSED_MESSAGES else DeliveryError
        return kind(f"a message to the topic {topic} was not delivered: {sentence_of(error)}")
