"""A partition that is followed from its last messages on."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

from cdc_outbox.errors import BrokerUnavailableError
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka.broker_errors import raise_stopping, translate
from cdc_outbox.kafka.clients import connection_settings, consumer_settings, make_consumer
from cdc_outbox.kafka.reading import find_topics, message_of
from cdc_outbox.message import Message

_ANSWER_SECONDS = 10.0


class PartitionTail:
    """The last messages of a topic's first partition, and those that come after them.

    Args:
        settings: librdkafka's, of any client: those about connections are taken, and ``bootstrap.servers``.
        most: How many of the last messages the first read returns.
        group: What the client says that it is; nothing is committed for it.
    """

    def __init__(
        self, topic: str, settings: Mapping[str, Any], *, most: int, group: str, logger: logging.Logger
    ) -> None:
        self._topic, self._most, self._logger = topic, most, logger
        self._servers = str(settings["bootstrap.servers"])
        extra = connection_settings(settings)
        own = consumer_settings(bootstrap_servers=self._servers, group=group, extra=extra)
        self._client = make_consumer({**own, "enable.partition.eof": True}, logger)
        self._is_assigned = self._has_read = False

    def read(self) -> Iterator[Message]:
        """Yield what is new; none of a topic that does not exist.

        The first read waits for the end of the topic; later ones wait for no message, and brokers that do not answer
        then have nothing new.

        Raises:
            BrokerUnavailableError: The brokers do not answer at the first read.
            BrokerError: They refuse.
        """
        has_ended = self._has_read
        try:
            exists = self._is_assigned or self._assign()
        except BrokerUnavailableError:
            if not self._has_read:
                raise
            return
        while exists:
            record = self._client.poll(0 if has_ended else _ANSWER_SECONDS)
            if record is None:
                break
            error = record.error()
            if error is None:
                yield message_of(record)
            elif error.name() == "_PARTITION_EOF":
                has_ended = True
            else:
                raise_stopping(error, has_joined=has_ended)
        if exists and not has_ended:
            raise BrokerUnavailableError(f"the topic {self._topic} could not be read to its end")
        self._has_read = True

    def _assign(self) -> bool:
        partitions = find_topics(self._client, servers=self._servers).get(self._topic)
        if partitions is None:
            return False
        if len(partitions) > 1:
            self._logger.warning(
                "the topic %s has %d partitions; only messages in partition 0 are read", self._topic, len(partitions)
            )
        partition = confluent.TopicPartition(self._topic, 0)
        try:
            first, end = self._client.get_watermark_offsets(partition, timeout=_ANSWER_SECONDS)
        except confluent.KafkaException as error:
            raise translate(error.args[0], self._servers) from error
        partition.offset = max(first, end - self._most)
        self._client.assign([partition])
        self._is_assigned = True
        return True

    def close(self) -> None:
        """Close the client."""
        self._client.close()
