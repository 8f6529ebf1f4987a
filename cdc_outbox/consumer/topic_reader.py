"""Topics read without a group, and which of their messages a replay gives to a consumer again."""

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cdc_outbox.consumer.fencing import TopicId, TopicPartition, partition_of
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.errors import BrokerUnavailableError, ConfigError, MessageError
from cdc_outbox.event import RecordedEvent
from cdc_outbox.formats.timestamps import to_milliseconds
from cdc_outbox.kafka import clients as kafka_clients
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka import reading as kafka_reading
from cdc_outbox.kafka.broker_errors import raise_lasting, results_of, translate
from cdc_outbox.message import Message

_log = logging.getLogger("cdc_outbox.consumer.topic_reader.librdkafka")
_log.addHandler(logging.NullHandler())  # logging's last resort would print it; the error has what matters
_ANSWER_SECONDS = 10.0
"""How long the brokers may take to answer a question."""
_SILENCE_SECONDS = 30.0
"""How long a partition that holds more may give nothing; a broker that is restarted takes less."""
_POLL_SECONDS, _POLLED = 0.2, 2_000


def find_topic_ids(
    admin: "confluent.AdminClient",
    client: "confluent.Consumer",
    topics: Collection[str],
    seconds: float = _ANSWER_SECONDS,
) -> dict[str, TopicId]:
    """Return the ids of topics that exist, at least one.

    Args:
        client: Creates no topics: asking for one that does not exist makes some brokers create it.
        seconds: How long the brokers may take to answer.

    Raises:
        KafkaException: One of them does not, or the brokers do not tell.
    """
    # AdminClient.describe_cluster aborts the process now and then, with a failed assertion.
    cluster_id = client.list_topics(next(iter(topics)), timeout=seconds).cluster_id or ""
    described = admin.describe_topics(confluent.TopicCollection(sorted(topics)), request_timeout=seconds)
    found = {topic: answer.topic_id for topic, answer in results_of(described).items()}
    no_id = confluent.Uuid(0, 0)  # from brokers that have none
    return {topic: TopicId(cluster_id, "" if each == no_id else str(each)) for topic, each in found.items()}


class TopicReader:
    """Reads what topics hold.

    Args:
        settings: As :func:`cdc_outbox.kafka.clients.consumer_settings` returns them; the group in them is asked for its
            offsets only.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        own = {name: value for name, value in settings.items() if name not in kafka_clients.MEMBERSHIP}
        self._settings = {**own, "enable.partition.eof": True}
        self._client = kafka_clients.make_consumer(self._settings, _log)

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
        except confluent.KafkaException as error:
            raise translate(error.args[0], str(settings["bootstrap.servers"])) from error
        finally:
            reader._client.close()

    def partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        """Return the partitions of those topics that exist."""
        known = kafka_reading.find_topics(self._client, servers=str(self._settings["bootstrap.servers"]))
        return [TopicPartition(topic, number) for topic in sorted(topics) for number in known.get(topic, ())]

    def ids(self, topics: Collection[str]) -> dict[str, TopicId]:
        """Return the ids of topics that exist."""
        return find_topic_ids(self._admin(), self._client, topics) if topics else {}

    def bounds(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first offset that each partition holds, and the one that its next message will have."""
        found = {}
        for tp in partitions:
            first, end = self._client.get_watermark_offsets(confluent.TopicPartition(*tp), timeout=_ANSWER_SECONDS)
            found[tp] = (first, end)
        return found

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the group's offsets, without the partitions that have none."""
        if not partitions:
            return {}
        answers = self._client.committed([confluent.TopicPartition(*tp) for tp in partitions], timeout=_ANSWER_SECONDS)
        return {TopicPartition(each.topic, each.partition): each.offset for each in answers if each.offset >= 0}

    def offsets_at(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """Return the first offset with this timestamp or a later one, without partitions that have none."""
        if not partitions:
            return {}
        asked = [confluent.TopicPartition(*tp, timestamp_ms) for tp in partitions]
        answers = self._client.offsets_for_times(asked, timeout=_ANSWER_SECONDS)
        return {TopicPartition(each.topic, each.partition): each.offset for each in answers if each.offset >= 0}

    def compacted(self, topics: Collection[str]) -> set[str]:
        """Return the topics that keep only the latest message of a key, without those whose settings cannot be read."""
        if not topics:
            return set()
        admin = self._admin()
        asked = [confluent.ConfigResource(confluent.ResourceType.TOPIC, topic) for topic in topics]
        found = set()
        for resource, answer in admin.describe_configs(asked, request_timeout=_ANSWER_SECONDS).items():
            if not answer.exception() and "compact" in (answer.result()["cleanup.policy"].value or ""):
                found.add(resource.name)
        return found

    def members(self, group: str) -> int:
        """Return how many consumers are in a group."""
        admin = self._admin()
        try:
            answers = results_of(admin.describe_consumer_groups([group], request_timeout=_ANSWER_SECONDS))
            return len(answers[group].members)
        except confluent.KafkaException as error:
            if error.args[0].code() == confluent.KafkaError.GROUP_ID_NOT_FOUND:
                return 0
            raise

    def _admin(self) -> "confluent.AdminClient":
        servers = {"bootstrap.servers": self._settings["bootstrap.servers"]}
        return confluent.AdminClient({**kafka_clients.connection_settings(self._settings), **servers}, logger=_log)

    def spans(self, selection: "Selection", contract: WireContract) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first offset and the end to read of each partition for a selection, as it is now."""
        known = self.partitions(selection.topics(contract))
        partitions = [tp for tp in known if selection.partition in {None, tp.partition}]
        if known and not partitions:
            raise ConfigError(
                f"{known[0].topic} has no partition {selection.partition}: it has {len(known)}, from 0",
                field="Selection.partition",
            )
        bounds = self.bounds(partitions)
        if selection.since is not None:
            starts = self.offsets_at(partitions, to_milliseconds(selection.since.astimezone(UTC) - _CLOCK_SKEW))
            bounds = {tp: (max(first, starts.get(tp, end)), end) for tp, (first, end) in bounds.items()}
        wanted = selection.first_offset or 0
        after_last = None if selection.last_offset is None else selection.last_offset + 1
        return {
            tp: (max(first, wanted), end if after_last is None else min(end, after_last))
            for tp, (first, end) in bounds.items()
        }

    def read(self, spans: Mapping[TopicPartition, tuple[int, int]]) -> Iterator[Message]:
        """Return the messages from each partition's first offset up to its end, which is not counted in.

        Each partition's come in order. What retention has taken meanwhile is left out.

        Raises:
            BrokerUnavailableError: A partition that holds more gives nothing.
        """
        left = {tp: end for tp, (first, end) in spans.items() if first < end}
        if not left:
            return
        self._client.assign([confluent.TopicPartition(*tp, spans[tp][0]) for tp in left])
        heard_at = time.monotonic()
        try:
            while left:
                for record in kafka_reading.polled(self._client, _POLL_SECONDS, _POLLED):
                    heard_at = time.monotonic()
                    yield from self._received(record, left)
                if time.monotonic() - heard_at > _SILENCE_SECONDS:
                    names = ", ".join(f"{topic}[{partition}]" for topic, partition in left)
                    raise BrokerUnavailableError(f"{names} could not be read to the end")
        finally:
            # A pause outlives the assignment.
            self._client.resume(self._client.assignment())
            self._client.unassign()

    def _received(self, record: "confluent.Message", left: dict[TopicPartition, int]) -> Iterator[Message]:
        tp, error = TopicPartition(record.topic() or "", record.partition() or 0), record.error()
        if error is not None and error.name() != "_PARTITION_EOF":
            raise_lasting(error)
            return
        if tp not in left:
            return
        offset = record.offset() or 0
        if error is None and offset < left[tp]:
            yield kafka_reading.message_of(record)
        # Behind the last message there may be what a transaction left there, which no reader ever gets.
        if error is not None or offset >= left[tp] - 1:
            del left[tp]
            self._client.pause([confluent.TopicPartition(*tp)])


_CLOCK_SKEW = timedelta(minutes=10)
"""How far the brokers' clock may be behind the database's: they find the first message by the time of its arrival."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The messages to deliver again: those that match every filter.

    Raises:
        ConfigError: No message can match every filter.

    Args:
        topic: One of the contract's; ``None`` for all.
        aggregate: Its type and its id.
        event_type: For example ``OrderPlaced``.
        since: Events created at this time or later (``RecordedEvent.created_at``).
        before: Events created earlier than this.
        partition: With ``topic``, unless there is but one.
        first_offset: In that partition; ``last_offset`` is included.
    """

    topic: str | None = None
    aggregate: tuple[str, str] | None = None
    event_type: str | None = None
    since: datetime | None = None
    before: datetime | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None

    def __post_init__(self) -> None:
        if self.since is not None and self.before is not None and self.since.timestamp() >= self.before.timestamp():
            raise ConfigError(f"no event can match: {self.since} is not before {self.before}", field="Selection.before")
        offsets = self.first_offset, self.last_offset
        if self.partition is None and offsets != (None, None):
            raise ConfigError("offset filters need a partition; set Selection.partition", field="Selection.partition")
        if None not in offsets and (self.last_offset or 0) < (self.first_offset or 0):
            raise ConfigError(
                f"no message can match: offset {offsets[0]} is after {offsets[1]}", field="Selection.last_offset"
            )

    def topics(self, contract: WireContract) -> tuple[str, ...]:
        """Return the topics that hold such messages.

        Raises:
            ConfigError: The contract has no such topic or aggregate type, or it is not clear whose partition is meant.
        """
        topics = contract.topics
        if self.aggregate is not None:
            contract.mode_of(self.aggregate[0])
            topics = (contract.topic_of(self.aggregate[0]),)
        if self.topic is not None:
            if self.topic not in topics:
                raise ConfigError(f"the topic {self.topic!r} is none of {', '.join(topics)}", field="Selection.topic")
            topics = (self.topic,)
        if self.partition is not None and len(topics) > 1:
            raise ConfigError("a partition needs a topic; set Selection.topic", field="Selection.topic")
        return topics

    def takes(self, event: RecordedEvent) -> bool:
        """Return whether an event's message matches."""
        made = event.created_at
        return (
            self.aggregate in {None, (event.aggregate_type, event.aggregate_id)}
            and self.event_type in {None, event.type}
            and (self.since is None or made >= self.since.astimezone(UTC))
            and (self.before is None or made < self.before.astimezone(UTC))
        )

    @property
    def passes_over(self) -> bool:
        """Whether it may include an event of an aggregate and leave out an earlier one."""
        return any(each is not None for each in (self.event_type, self.since, self.before, self.first_offset))


def refuse_ahead(
    selection: Selection,
    reader: TopicReader,
    contract: WireContract,
    spans: Mapping[TopicPartition, tuple[int, int]],
) -> None:
    """Refuse a selection that passes over events which the consumer has not read yet, where their numbers have gaps.

    Nothing shows there that an event is missing: applied too late, it would contradict what was applied. Where numbers
    have no gaps, what is passed over is waited for.

    Raises:
        ConfigError: The selection passes over one.
        BrokerError: The brokers do not answer.
    """
    increasing = {name for name, mode in contract.aggregates.items() if mode.is_numbered and not mode.is_gapless}
    increasing -= set(contract.latest)
    topics = {contract.topic_of(name) for name in increasing}
    partitions = [tp for tp in spans if tp.topic in topics]
    if not selection.passes_over or not partitions:
        return
    committed, bounds = reader.committed(partitions), reader.bounds(partitions)
    unread = {tp: (max(first, committed.get(tp, 0)), spans[tp][1]) for tp, (first, _) in bounds.items()}
    left_out: set[tuple[str, str]] = set()
    for message in reader.read(unread):
        try:
            event = contract.event_of(message)
        except MessageError:
            continue
        aggregate = event.aggregate_type, event.aggregate_id
        first, _ = spans[partition_of(message)]
        if event.aggregate_type not in increasing:
            continue
        if not ((message.offset or 0) >= first and selection.takes(event)):
            left_out.add(aggregate)
        elif aggregate in left_out:
            name = "/".join(aggregate)
            raise ConfigError(
                f"{event} at {message.position} is selected, but an earlier event of {name} is not, and the consumer "
                "has not read that one yet: it would then be a conflict",
                field="Selection",
                hint="Run the consumer until it has read the topics to the end, or replay whole aggregates.",
            )
