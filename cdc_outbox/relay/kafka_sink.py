"""A sink that writes to Kafka: idempotent, without gaps, to the partitions that Java's producer chooses."""

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from operator import itemgetter
from time import monotonic
from typing import Any

from cdc_outbox.contract.topics import Topic
from cdc_outbox.debezium.event_router.produce import RoutedEvent
from cdc_outbox.errors import BrokerError
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka.admin import MissingTopics, Topics, shape_of
from cdc_outbox.kafka.broker_errors import REFUSED_MESSAGES, sentence_of
from cdc_outbox.kafka.producing import make_producer, producer_settings
from cdc_outbox.relay.open_partitions import Alone, OpenPartitions, Report
from cdc_outbox.relay.relay_errors import DeliveryError, MessageRefusedError
from cdc_outbox.relay.units import Unit

_LOG = logging.getLogger(__name__)

_TIMESTAMP_MS = itemgetter(4)
"""Of a routed event."""
_CONSEQUENCES = frozenset({"_FATAL", "_GAPLESS_GUARANTEE", "_PURGE_INFLIGHT", "_PURGE_QUEUE"})
"""What happens to messages because another one failed."""
_SIZES = frozenset({"MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"})
_BACKLOG_LINGER_MS = 100
"""How long a batch waits while there is more to read.

librdkafka sends an idempotent producer's next batch to a partition when the one before is acknowledged. Its thread
waits for that in a busy loop from when the batch has waited long enough: with 1 ms it took a third of the relay's CPU.
"""
_PURGED_SECONDS = 5.0
"""How long the reports of messages that were given up may take; they need no broker."""
_POLL_SECONDS = 0.1
"""The longest that nothing else happens, such as a signal."""
_FIRST_SECONDS = 0.01
"""Between two looks whether a first message was answered; others that are under way may take longer."""
_LOOK_SECONDS = 5.0
"""Between two questions whether the topics are the same ones, with the same partitions."""
_REFRESH_SECONDS = 1.0
"""How long the producer may take to learn that a topic has changed."""


class KafkaSink:
    """Writes messages to Kafka.

    Args:
        kafka: librdkafka's settings, ``bootstrap.servers`` among them.
        topics: The topics that are written to; batches fit into the one with the lowest limit.
        wanted: Returns how to create a topic of this name that does not exist: those of ``topics`` at once, others at
            their first message. Without it, a message to a missing topic is refused.
        linger_ms: How long a batch waits for more messages; with 0, until there is nothing more to send.
        alone: The partitions whose messages go one by one, as the sink before this one noted it.

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
        alone: Alone | None = None,
    ) -> None:
        extra = dict(kafka)
        servers = str(extra.pop("bootstrap.servers"))
        self._flushes = not linger_ms and not extra.keys() & {"linger.ms", "queue.buffering.max.ms"}
        linger_ms = linger_ms or _BACKLOG_LINGER_MS
        settings = producer_settings(bootstrap_servers=servers, topics=(), extra=extra, linger_ms=linger_ms)
        self._brokers = Topics(settings, logger)
        self._topics = MissingTopics(self._brokers, wanted, _LOG)
        found = self._topics.prepare([*topics])
        settings = producer_settings(bootstrap_servers=servers, topics=found, extra=extra, linger_ms=linger_ms)
        self._producer = make_producer(settings, logger)
        stamped = [topic.name for topic in found if topic.config.get("message.timestamp.type") == "LogAppendTime"]
        self._partitions = OpenPartitions(stamped, {} if alone is None else alone)
        self._learn(topic.name for topic in found)
        self._asked: Mapping[str, Future[confluent.TopicDescription]] = {}
        self._look_at = monotonic() + _LOOK_SECONDS
        self._has_failed = self._is_full = self._waits = False
        self._fatal: confluent.KafkaError | None = None
        self._cause: Exception | None = None

    def send(self, unit: Unit[Any], start: int) -> int:
        """Take messages of a unit, and return how many; as :class:`~cdc_outbox.relay.sinks.Sink` says."""
        unit.translate = self._translate
        produce, delivered, events = self._producer.produce, unit.delivered, unit.events
        ready = self._partitions.ready(map(_TIMESTAMP_MS, events))
        taken, self._is_full, self._waits = start, False, False
        try:
            while taken < len(events) and not self._has_failed:
                topic, value, key, partition, timestamp_ms, headers = events[taken]
                if topic in ready:
                    produce(topic, value, key, partition, delivered, None, timestamp_ms, headers)  # type: ignore[arg-type] # invariant
                elif not self._produce_in_turn(events[taken], delivered):
                    self._waits = True
                    break
                taken += 1
        except BufferError:
            self._is_full = True
        except confluent.KafkaException as error:
            if error.args[0].fatal() or error.args[0].name() == "_FATAL":
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

    def _produce_in_turn(self, event: RoutedEvent, delivered: Report) -> bool:
        """Send a message unless it must wait for the first one of its partition."""
        topic, value, key, partition, timestamp_ms, headers = event
        partitions = self._partitions
        if topic not in partitions.topics:
            self._topics.ensure(topic)
            self._learn([topic])
        place = partitions.place(event)
        report = partitions.report(event, place, delivered)
        if report is None:
            return False
        chosen = place if key is None else partition
        self._producer.produce(topic, value, key, chosen, report, None, timestamp_ms, headers)  # type: ignore[arg-type] # invariant
        if report is not delivered:
            partitions.sent(topic, place)
        return True

    def _learn(self, names: Iterable[str]) -> None:
        for name, shape in self._brokers.shapes(names).items():
            self._partitions.learn(name, *shape)

    def _look(self) -> None:
        """Ask what the topics are, or use the answers; wait for none."""
        now = monotonic()
        if not self._asked and now >= self._look_at:
            self._look_at = now + _LOOK_SECONDS
            self._asked = self._brokers.ask_shapes(self._partitions.topics)
        elif self._asked and all(answer.done() for answer in self._asked.values()):
            asked, self._asked = self._asked, {}
            for name, answer in asked.items():
                with suppress(confluent.KafkaException):
                    if self._partitions.learn(name, *shape_of(answer)):
                        # Both must mean the same partition of a key.
                        self._producer.list_topics(name, timeout=_REFRESH_SECONDS)

    def poll(self, seconds: float) -> None:
        """Report what happened to messages, and wait for it at most so long.

        A caller that waits has nothing to send now, so batches are sent at once; unless the queue is full.

        Raises:
            DeliveryError: The producer failed; close the sink.
        """
        self._look()
        producer = self._producer
        is_pause = seconds > 0 and self._flushes and not self._is_full
        if self._waits:
            seconds = min(seconds, _FIRST_SECONDS)
        try:
            (producer.flush if (is_pause or self._waits) and len(producer) else producer.poll)(seconds)
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
        """Return our error for a failed message. The client calls this: it never raises.

        Args:
            record: An event that went alone, or the client's record of one among others.
        """
        self._has_failed = True
        if isinstance(error, confluent.KafkaError) and error.name() in _CONSEQUENCES:
            return self._cause or self._cause_of(error, record)
        self._cause = self._cause or self._cause_of(error, record)  # of a batch, each message reports it
        return self._cause

    def _cause_of(self, error: object, record: Any) -> Exception:  # noqa: ANN401 - as `_translate` says
        topic = record[0] if isinstance(record, tuple) else record.topic()
        if not isinstance(error, confluent.KafkaError):
            is_passing = not isinstance(error, BrokerError) or error.retryable
            return (DeliveryError if is_passing else MessageRefusedError)(f"no topic {topic}: {error}")
        if error.name() not in REFUSED_MESSAGES:
            return DeliveryError(f"a message to the topic {topic} was not delivered: {sentence_of(error)}")
        if isinstance(record, tuple):
            return MessageRefusedError(self._refusal(error, record))
        self._partitions.refused(topic, record.partition())
        where = f"the topic {topic}, partition {record.partition()}"
        return DeliveryError(
            f"messages to {where} were refused: {sentence_of(error)}",
            hint="The relay sends them one by one to find the one that is refused.",
        )

    def _refusal(self, error: "confluent.KafkaError", event: RoutedEvent) -> str:
        topic, value, key, partition, _, headers = event
        event_id, aggregate = ((text or b"").decode(errors="replace") for text in (dict(headers).get("id"), key))
        bytes_ = sum(len(each or b"") for each in (key, value, *(value for _, value in headers)))
        limit = ""
        if error.name() in _SIZES:
            with suppress(BrokerError, KeyError):
                limit = f"; max.message.bytes is {self._brokers.find([topic])[topic].config['max.message.bytes']}"
        return (
            f"the event {event_id} of the aggregate {aggregate}, {bytes_} bytes before compression, is refused by the "
            f"topic {topic}, partition {partition}: {sentence_of(error)}{limit}"
        )
