"""Where a consumer begins to read a partition: never ahead of what its database has, whatever the group committed.

One that has done nothing yet leaves its events alone until the topics hold one that it has a handler for.
"""

import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple, Protocol

from cdc_outbox.consumer.fencing import NO_OFFSET, Assignment, TopicId, TopicPartition
from cdc_outbox.consumer.handlers import Handlers
from cdc_outbox.consumer.item import Item, item_of
from cdc_outbox.consumer.session import Session
from cdc_outbox.consumer.topic_reader import TopicReader, find_topic_ids
from cdc_outbox.consumer.waits import ResultT, Waits
from cdc_outbox.contract.wire import WireContract
from cdc_outbox.errors import BrokerError, BrokerUnavailableError, NoHandlerError, OffsetOutOfRangeError
from cdc_outbox.kafka import clients as kafka_clients
from cdc_outbox.kafka import confluent
from cdc_outbox.kafka.broker_errors import WAITED_OUT, results_of, translate
from cdc_outbox.redaction import shortened
from cdc_outbox.text_files.document import did_you_mean

_log = logging.getLogger(__name__)

_ANSWER_SECONDS = 5.0
"""How long the brokers may take to answer a question."""
_NEVER_SECONDS = 3600.0
"""librdkafka's longest. Where it gives up a question while it waits for the coordinator, it aborts the process."""
_PATIENCE_SECONDS = 30.0
"""How old the last answer may be before other clients ask; a client may take minutes to see what has changed."""
_MARKERS = 1
"""Offsets behind the last message that may hold none: the marker of a transaction's end, which retention takes too."""
_WAITED_OUT = WAITED_OUT | {"_NOENT"}
"""The last one is said of a partition whose leader is not known yet."""


class PartitionOffsets(NamedTuple):
    """A partition, as the brokers know it.

    Args:
        first: The first offset that it holds.
        end: The offset that its next message will have.
        committed: The group's offset; ``None`` where it has none.
        leader_epoch: The number of its leader; ``None`` where the brokers do not tell.
    """

    topic_id: TopicId
    first: int
    end: int
    committed: int | None
    leader_epoch: int | None = None


class Start(NamedTuple):
    """Where to begin to read.

    Args:
        leader_epoch: If a later leader began before the offset, the messages are read from where it began; ``None``
            compares nothing.
    """

    offset: int
    leader_epoch: int | None = None


def start_of(tp: TopicPartition, assignment: Assignment, partition: PartitionOffsets) -> Start | None:
    """Return where to begin; ``None`` for the group's offset, if it is not ahead and the leader is the same. Pure.

    A leader that was elected without the last messages gave their offsets to others, which would not be read.

    Raises:
        TopicReplacedError: The stored offset counts in another topic of this name.
        OffsetOutOfRangeError: The topic ends before the stored offset, or its messages from there on are deleted.
    """
    stored, name = assignment.next_offset, f"{tp.topic}[{tp.partition}]"
    if stored is not None:
        assignment.topic_id.refuse_other(tp.topic, partition.topic_id)
        if stored > partition.end:
            raise OffsetOutOfRangeError(
                f"the database has the effects of {name} up to offset {stored}, and the topic ends at {partition.end}"
            )
        if stored < partition.first - _MARKERS:
            raise OffsetOutOfRangeError(
                f"the database has the effects of {name} up to offset {stored}, and the topic begins at "
                f"{partition.first}: the messages between were deleted, and have no effects here"
            )
    start, committed = max(partition.first, stored or 0), partition.committed
    leader = assignment.leader_epoch if stored is not None and partition.leader_epoch is not None else None
    is_led_anew = leader is not None and leader != partition.leader_epoch
    if committed is None:  # the offsets of a group expire, and a consumer that began from now has none
        return None if stored is None else Start(start, leader)
    if committed <= start and not is_led_anew:
        return None
    return Start(min(committed, start), leader if is_led_anew else None)


async def take(
    partitions: Sequence[TopicPartition],
    session: Session,
    find: Callable[[Iterable[TopicPartition]], Awaitable[Mapping[TopicPartition, PartitionOffsets]]],
) -> tuple[Mapping[TopicPartition, Assignment], dict[TopicPartition, Start]]:
    """Take partitions from their previous owners, and return where those begin that begin elsewhere than the group.

    Args:
        find: Asks the brokers, as :meth:`GroupPartitions.find` does.

    Raises:
        CdcOutboxError: As :func:`start_of` and the servers say.
    """
    found = dict(await find(partitions))
    assignments = await session.issue(partitions, {tp.topic: partition.topic_id for tp, partition in found.items()})
    # The previous owners may have continued since the brokers were asked.
    late = [tp for tp, assignment in assignments.items() if (assignment.next_offset or 0) > found[tp].end]
    found |= await find(late) if late else {}
    starts = {tp: start_of(tp, assignment, found[tp]) for tp, assignment in assignments.items()}
    for tp, start in starts.items():
        if start is not None:
            where = {"topic": tp.topic, "partition": tp.partition, "offset": start.offset}
            if start.offset < (found[tp].committed or 0):
                _log.warning("the group is ahead of the database, so a partition is read again", extra=where)
            else:
                _log.info("the group has no offset, or the leader is another one", extra=where)
    return assignments, {tp: start for tp, start in starts.items() if start is not None}


async def refuse_replaced(
    known: Mapping[TopicPartition, TopicId],
    find: Callable[[Iterable[TopicPartition]], Awaitable[Mapping[TopicPartition, PartitionOffsets]]],
) -> None:
    """Refuse to read on in a topic that was deleted and created again while it was read.

    The Kafka client may not notice: it continues at the offset where it was, and never reads what the new topic holds
    before that. One partition of each topic is asked for; brokers that do not answer are asked another time.

    Args:
        known: The topics' ids when their partitions were taken.
        find: As :func:`take` takes it.

    Raises:
        TopicReplacedError: A topic has another id.
    """
    asked = {tp.topic: tp for tp in known}
    try:
        found = await find(asked.values()) if asked else {}
    except BrokerUnavailableError:
        return
    for tp, partition in found.items():
        known[tp].refuse_other(tp.topic, partition.topic_id)


class GroupPartitions(Protocol):
    """What the brokers know of a group's partitions."""

    def find(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, PartitionOffsets]:
        """Return these.

        Raises:
            BrokerError: The brokers do not tell; :class:`BrokerUnavailableError` where trying again may help.
        """

    def members(self) -> Mapping[str, int]:
        """Return how many partitions each member of the group has, by the member's id.

        Raises:
            BrokerError: As for :meth:`find`.
        """


def _timed_out() -> "confluent.KafkaException":
    return confluent.KafkaException(confluent.KafkaError(confluent.KafkaError._TIMED_OUT))  # noqa: SLF001


class KafkaPartitions:
    """The same, asked of the brokers.

    Args:
        settings: The group's client's, whose name of the group and whose connections are used.
    """

    def __init__(self, settings: Mapping[str, Any], logger: logging.Logger) -> None:
        self._settings, self._logger = settings, logger
        self._open()

    def _open(self) -> None:
        own = {name: value for name, value in self._settings.items() if name not in kafka_clients.MEMBERSHIP}
        # The group's client answers when a fetch ends, half a second for each partition, and is not polled meanwhile.
        self._client = kafka_clients.make_consumer(own, self._logger)
        connection = kafka_clients.connection_settings(own) | {"bootstrap.servers": own["bootstrap.servers"]}
        self._admin = confluent.AdminClient(connection, logger=self._logger)
        self._answered_at = time.monotonic()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
        del self._admin  # an admin client has no other end than that of its last reference

    def find(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionOffsets]:
        """Return these partitions."""
        return self._answer(partial(self._find, [confluent.TopicPartition(*tp) for tp in partitions]))

    def members(self) -> dict[str, int]:
        """Return how many partitions each member of the group has."""
        return self._answer(self._members)

    def _members(self) -> dict[str, int]:
        group = self._settings["group.id"]
        asked = self._admin.describe_consumer_groups([group], request_timeout=_NEVER_SECONDS)
        if wait(asked.values(), _ANSWER_SECONDS).not_done:
            raise _timed_out()
        members = results_of(asked)[group].members
        return {each.member_id: len(each.assignment.topic_partitions) for each in members}

    def _answer(self, ask: Callable[[], ResultT]) -> ResultT:
        """Return what the brokers answer; where the last answer is old, make new clients for the next question."""
        try:
            answer = ask()
        except confluent.KafkaException as error:
            is_passing = _translated(error.args[0]).retryable
            if is_passing and time.monotonic() - self._answered_at >= _PATIENCE_SECONDS:
                self.close()
                self._open()
            raise _translated(error.args[0]) from error
        self._answered_at = time.monotonic()
        return answer

    def _find(self, wanted: "Sequence[confluent.TopicPartition]") -> dict[TopicPartition, PartitionOffsets]:
        ids = find_topic_ids(self._admin, self._client, {each.topic for each in wanted}, _ANSWER_SECONDS)
        committed = {
            TopicPartition(each.topic, each.partition): each.offset
            for each in self._client.committed([*wanted], timeout=_ANSWER_SECONDS)
        }
        ends = [confluent.TopicPartition(each.topic, each.partition, confluent.OFFSET_END) for each in wanted]
        leaders = {
            TopicPartition(each.topic, each.partition): each.leader_epoch
            for each in self._client.offsets_for_times(ends, timeout=_ANSWER_SECONDS)
        }
        return {
            tp: PartitionOffsets(
                ids[tp.topic],
                *self._bounds(each),
                committed[tp] if committed[tp] >= 0 else None,
                leaders[tp],
            )
            for each in wanted
            for tp in [TopicPartition(each.topic, each.partition)]
        }

    def _bounds(self, wanted: "confluent.TopicPartition") -> tuple[int, int]:
        # AdminClient.list_offsets crashes the process now and then, with a segmentation fault.
        bounds = self._client.get_watermark_offsets(wanted, timeout=_ANSWER_SECONDS, cached=False)
        if bounds is None:
            raise _timed_out()
        return bounds


def seek_back(client: "confluent.Consumer", tp: TopicPartition, start: Start) -> None:
    """Have a partition read from a start on, unless it belongs to another consumer by now.

    Raises:
        BrokerUnavailableError: The partition is still assigned and could not be set back yet.
    """
    try:
        leader = -1 if start.leader_epoch is None else start.leader_epoch
        client.seek(confluent.TopicPartition(*tp, start.offset, leader_epoch=leader))
    except confluent.KafkaException as error:
        if tp in {(owned.topic, owned.partition) for owned in client.assignment()}:
            raise BrokerUnavailableError(f"resetting {tp.topic}[{tp.partition}] failed") from error


def _translated(error: "confluent.KafkaError") -> BrokerError:
    # A broker that starts again has no coordinator for a moment; a topic that was deleted is taken from us soon.
    if error.name() in _WAITED_OUT:
        return BrokerUnavailableError(f"{error.str()} ({error.name()})")
    return translate(error)


_SHOWN = 5
"""Event types that an error names."""


class UnhandledEvents:
    """What a consumer does with events before the first one that has a handler.

    Args:
        opened: Opens what reads the topics.
        alive: Called for each message that is read, for that may take long.
    """

    def __init__(
        self,
        *,
        handlers: Handlers,
        contract: WireContract,
        opened: Callable[[], AbstractContextManager[TopicReader]],
        waits: Waits,
        is_stopping: Callable[[], bool],
        alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._handlers, self._contract, self._opened = handlers, contract, opened
        self._waits, self._is_stopping, self._alive = waits, is_stopping, alive
        self._is_known = False
        self._has_passed = False
        """Whether messages that cannot be read were let through: then stored offsets do not tell that it has begun."""
        self._read: dict[TopicPartition, int] = {}
        self._types: Counter[str] = Counter()

    async def refuse(self, items: Sequence[Item], stored: Mapping[TopicPartition, int]) -> None:
        """Refuse to use up events while the topics hold none that has a handler.

        Args:
            stored: The next offset that the database has, by partition that is held: with one, the consumer has begun
                before.

        Raises:
            NoHandlerError: So it is.
        """
        readable = [item for item in items if not item.is_unreadable]
        if self._is_known or not items or (self._has_passed and not readable):
            return
        has_begun = not self._has_passed and any(offset != NO_OFFSET for offset in stored.values())
        if has_begun or any(map(self._has_handler, readable)) or await self._waits.call(self._find):
            self._is_known = True
        elif readable or self._types or self._is_stopping():
            raise self._error()
        else:  # nothing in the topics can be read, which no handler would fix
            self._has_passed = True

    def _find(self) -> bool:
        """Return whether the group has begun, or the unread part of the topics holds an event with a handler."""
        with self._opened() as reader:
            partitions = reader.partitions(self._contract.topics)
            if not self._read and reader.committed(partitions):  # of partitions that another instance holds, or held
                return True
            bounds = reader.bounds(partitions)
            spans = {tp: (max(first, self._read.get(tp, 0)), end) for tp, (first, end) in bounds.items()}
            for message in reader.read(spans):
                item = item_of(message, self._contract)
                if not item.is_unreadable:
                    if self._has_handler(item):
                        return True
                    self._types[item.event.type] += 1
                if self._is_stopping():
                    return False
                self._read[item.topic_partition] = (message.offset or 0) + 1
                self._alive()
        return False

    def _has_handler(self, item: Item) -> bool:
        return self._handlers.get(item.event.type) is not None

    def _error(self) -> NoHandlerError:
        # In an order that counts do not change: a text that is the same is logged once.
        handled, there = sorted(self._handlers.types), sorted(name for name, _ in self._types.most_common(_SHOWN))
        near = next(filter(None, (did_you_mean(name, there) for name in handled)), "")
        return NoHandlerError(
            f"no event in the topics has a handler, so nothing is applied; handled: {', '.join(handled)}; in the "
            f"topics: {', '.join(map(shortened, there))}{near and f'. {near}'}"
        )
