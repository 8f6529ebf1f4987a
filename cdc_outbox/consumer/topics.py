"""Topics read without a group: no offset is committed, and nobody's partitions move."""

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cdc_outbox import kafka, kafka_client
from cdc_outbox.consumer.epochs import Place, TopicId
from cdc_outbox.errors import BrokerUnavailableError
from cdc_outbox.kafka_errors import raise_lasting, translate
from cdc_outbox.message import Message

_log = logging.getLogger("cdc_outbox.consumer.topics.librdkafka")
_log.addHandler(logging.NullHandler())  # logging's last resort would print it; the error has what matters
_ANSWER_SECONDS = 10.0
"""How long the brokers may take to answer a question."""
_SILENCE_SECONDS = 30.0
"""How long a partition that holds more may give nothing; a broker that is restarted takes less."""
_POLL_SECONDS, _POLLED = 0.2, 2_000


def find_topic_ids(
    admin: "kafka_client.AdminClient", topics: Collection[str], seconds: float = _ANSWER_SECONDS
) -> dict[str, TopicId]:
    """Return the ids of topics that exist.

    Args:
        seconds: How long the brokers may take to answer.

    Raises:
        KafkaException: One of them does not, or the brokers do not tell.
    """
    cluster = admin.describe_cluster(request_timeout=seconds)
    described = admin.describe_topics(kafka_client.TopicCollection(sorted(topics)), request_timeout=seconds)
    cluster_id = cluster.result().cluster_id or ""
    found = {topic: answer.result().topic_id for topic, answer in described.items()}
    no_id = kafka_client.Uuid(0, 0)  # from brokers that have none
    return {topic: TopicId(cluster_id, "" if each == no_id else str(each)) for topic, each in found.items()}


class TopicReader:
    """Reads what topics hold.

    Args:
        settings: As :func:`cdc_outbox.kafka.consumer_settings` returns them; the group in them is asked for its
            offsets only.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        own = {name: value for name, value in settings.items() if name not in kafka.MEMBERSHIP}
        self._settings = {**own, "enable.partition.eof": True}
        self._client = kafka.make_consumer(self._settings, _log)

    @classmethod
    @contextmanager
    def opened(cls, settings: Mapping[str, Any]) -> "Iterator[TopicReader]":
        """Read, and close at the end.

        Raises:
            BrokerError: From any of the methods; :class:`BrokerUnavailableError` where trying again may help.
        """
        reader = cls(settings)
        try:
            yield reader
        except kafka_client.KafkaException as error:
            raise translate(error.args[0], str(settings["bootstrap.servers"])) from error
        finally:
            reader._client.close()

    def places(self, topics: Collection[str]) -> list[Place]:
        """Return the partitions of those topics that exist."""
        known = kafka.find_topics(self._client, servers=str(self._settings["bootstrap.servers"]))
        return [Place(topic, number) for topic in sorted(topics) for number in known.get(topic, ())]

    def ids(self, topics: Collection[str]) -> dict[str, TopicId]:
        """Return the ids of topics that exist."""
        return find_topic_ids(self._admin(), topics) if topics else {}

    def bounds(self, places: Iterable[Place]) -> dict[Place, tuple[int, int]]:
        """Return the first offset that each partition holds, and the one that its next message will have."""
        found = {}
        for place in places:
            first, end = self._client.get_watermark_offsets(
                kafka_client.TopicPartition(*place), timeout=_ANSWER_SECONDS
            )
            found[place] = (first, end)
        return found

    def committed(self, places: Collection[Place]) -> dict[Place, int]:
        """Return the group's offsets, without the partitions that have none."""
        if not places:
            return {}
        answers = self._client.committed(
            [kafka_client.TopicPartition(*place) for place in places], timeout=_ANSWER_SECONDS
        )
        return {Place(each.topic, each.partition): each.offset for each in answers if each.offset >= 0}

    def offsets_at(self, places: Collection[Place], timestamp_ms: int) -> dict[Place, int]:
        """Return the first offset with this timestamp or a later one, without partitions that have none."""
        if not places:
            return {}
        asked = [kafka_client.TopicPartition(*place, timestamp_ms) for place in places]
        answers = self._client.offsets_for_times(asked, timeout=_ANSWER_SECONDS)
        return {Place(each.topic, each.partition): each.offset for each in answers if each.offset >= 0}

    def compacted(self, topics: Collection[str]) -> set[str]:
        """Return those topics that keep but the latest message of a key; of those that nobody may ask about, none."""
        if not topics:
            return set()
        admin = self._admin()
        asked = [kafka_client.ConfigResource(kafka_client.ResourceType.TOPIC, topic) for topic in topics]
        found = set()
        for resource, answer in admin.describe_configs(asked, request_timeout=_ANSWER_SECONDS).items():
            try:
                policy = answer.result()["cleanup.policy"].value or ""
            except kafka_client.KafkaException:
                continue
            if "compact" in policy:
                found.add(resource.name)
        return found

    def members(self, group: str) -> int:
        """Return how many consumers are in a group."""
        admin = self._admin()
        [answer] = admin.describe_consumer_groups([group], request_timeout=_ANSWER_SECONDS).values()
        try:
            return len(answer.result().members)
        except kafka_client.KafkaException as error:
            if error.args[0].code() == kafka_client.KafkaError.GROUP_ID_NOT_FOUND:
                return 0
            raise

    def _admin(self) -> "kafka_client.AdminClient":
        servers = {"bootstrap.servers": self._settings["bootstrap.servers"]}
        return kafka_client.AdminClient({**kafka.connection_settings(self._settings), **servers}, logger=_log)

    def read(self, spans: Mapping[Place, tuple[int, int]]) -> Iterator[Message]:
        """Return the messages from each partition's first offset up to its end, which is not counted in.

        Each partition's come in order. What retention has taken meanwhile is left out.

        Raises:
            BrokerUnavailableError: A partition that holds more gives nothing.
        """
        left = {place: end for place, (first, end) in spans.items() if first < end}
        if not left:
            return
        self._client.assign([kafka_client.TopicPartition(*place, spans[place][0]) for place in left])
        heard_at = time.monotonic()
        try:
            while left:
                for record in kafka.polled(self._client, _POLL_SECONDS, _POLLED):
                    heard_at = time.monotonic()
                    yield from self._received(record, left)
                if time.monotonic() - heard_at > _SILENCE_SECONDS:
                    names = ", ".join(f"{topic}[{partition}]" for topic, partition in left)
                    raise BrokerUnavailableError(f"{names} could not be read to the end")
        finally:
            # A pause outlives the assignment.
            self._client.resume(self._client.assignment())
            self._client.unassign()

    def _received(self, record: "kafka_client.Message", left: dict[Place, int]) -> Iterator[Message]:
        place, error = Place(record.topic() or "", record.partition() or 0), record.error()
        if error is not None and error.name() != "_PARTITION_EOF":
            raise_lasting(error)
            return
        if place not in left:
            return
        offset = record.offset() or 0
        if error is None and offset < left[place]:
            yield kafka.message_of(record)
        # Behind the last message there may be what a transaction left there, which no reader ever gets.
        if error is not None or offset >= left[place] - 1:
            del left[place]
            self._client.pause([kafka_client.TopicPartition(*place)])
