"""Where a consumer begins to read a partition: never ahead of what its database has, whatever the group committed.

A database that was restored, or that lost commits in a failover, goes back to offsets that the group is ahead of. What
lies between was applied in a database that is gone: it is read again, and what is left of it is told by its id.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from cdc_outbox import kafka, kafka_client
from cdc_outbox.consumer.epochs import Place, Tenure, TopicId
from cdc_outbox.consumer.session import Session
from cdc_outbox.consumer.topics import find_topic_ids
from cdc_outbox.errors import BrokerError, BrokerUnavailableError, OffsetOutOfRangeError, TopicReplacedError
from cdc_outbox.kafka_errors import WAITED_OUT, translate

_log = logging.getLogger(__name__)

_ANSWER_SECONDS = 5.0
"""How long the brokers may take to answer a question."""
_MARKERS = 1
"""Offsets behind the last message that may hold none: the marker of a transaction's end, which retention takes too."""
_WAITED_OUT = WAITED_OUT | {"_NOENT"}
"""The last one is said of a partition whose leader is not known yet."""


class Partition(NamedTuple):
    """A partition, as the brokers know it.

    Args:
        first: The first offset that it holds.
        end: The offset that its next message will have.
        committed: The group's offset; ``None`` where it has none.
    """

    topic_id: TopicId
    first: int
    end: int
    committed: int | None


def start_of(place: Place, tenure: Tenure, partition: Partition) -> int | None:
    """Return the offset to go back to; ``None`` where the group's is not ahead of the database's. Pure.

    Raises:
        TopicReplacedError: The stored offset counts in another topic of this name.
        OffsetOutOfRangeError: The topic ends before the stored offset, or its messages from there on are deleted.
    """
    stored, name = tenure.next_offset, f"{place.topic}[{place.partition}]"
    if stored is not None:
        _refuse_another_topic(place.topic, tenure.topic_id, partition.topic_id)
        if stored > partition.end:
            raise OffsetOutOfRangeError(
                f"the database has the effects of {name} up to offset {stored}, and the topic ends at {partition.end}"
            )
        if stored < partition.first - _MARKERS:
            raise OffsetOutOfRangeError(
                f"the database has the effects of {name} up to offset {stored}, and the topic begins at "
                f"{partition.first}: what was between them was deleted, and has no effects here"
            )
    start = max(partition.first, stored or 0)
    return start if partition.committed is not None and partition.committed > start else None


def _refuse_another_topic(topic: str, known: TopicId, found: TopicId) -> None:
    for what, stored, now in zip(TopicId._fields, known, found, strict=True):
        if stored and now and stored != now:
            raise TopicReplacedError(
                f"{topic} is not the topic that the database has effects of: the {what}'s id was {stored}, and is {now}"
            )


async def take(
    places: Sequence[Place], session: Session, find: Callable[[Iterable[Place]], Awaitable[Mapping[Place, Partition]]]
) -> tuple[Mapping[Place, Tenure], dict[Place, int]]:
    """Take partitions from whoever had them before, and return where those begin that the group is ahead in.

    Args:
        find: Asks the brokers, as :meth:`Partitions.find` does.

    Raises:
        CdcOutboxError: As :func:`start_of` and the servers say.
    """
    found = dict(await find(places))
    tenures = await session.issue(places, {place.topic: partition.topic_id for place, partition in found.items()})
    # Who had them last may have gone on since the brokers were asked.
    late = [place for place, tenure in tenures.items() if (tenure.next_offset or 0) > found[place].end]
    found |= await find(late) if late else {}
    starts = {place: start_of(place, tenure, found[place]) for place, tenure in tenures.items()}
    for place, start in starts.items():
        if start is not None:
            where = {"topic": place.topic, "partition": place.partition, "offset": start}
            _log.warning("the group is ahead of the database, so a partition is read again", extra=where)
    return tenures, {place: start for place, start in starts.items() if start is not None}


async def refuse_replaced(
    known: Mapping[Place, TopicId], find: Callable[[Iterable[Place]], Awaitable[Mapping[Place, Partition]]]
) -> None:
    """Refuse to read on in a topic that was deleted and created anew while it was read.

    The Kafka client may not notice: it goes on at the offset where it was, and what the new topic holds before that is
    never read. One partition of each topic is asked for; brokers that do not answer are asked another time.

    Args:
        known: The topics' ids when their partitions were taken.
        find: As :func:`take` takes it.

    Raises:
        TopicReplacedError: A topic has another id.
    """
    asked = {place.topic: place for place in known}
    try:
        found = await find(asked.values()) if asked else {}
    except BrokerUnavailableError:
        return
    for place, partition in found.items():
        _refuse_another_topic(place.topic, known[place], partition.topic_id)


class Partitions(Protocol):
    """What the brokers know of a group's partitions."""

    def find(self, places: Iterable[Place]) -> Mapping[Place, Partition]:
        """Return these.

        Raises:
            BrokerError: The brokers do not tell; :class:`BrokerUnavailableError` where trying again may help.
        """


class KafkaPartitions:
    """The same, asked of the brokers.

    Args:
        settings: The group's client's, whose name of the group and whose connections are used.
    """

    def __init__(self, settings: Mapping[str, Any], logger: logging.Logger) -> None:
        # The group's client answers when a fetch ends, half a second for each partition, and is not polled meanwhile.
        self._client = kafka.make_consumer(
            {name: value for name, value in settings.items() if name not in kafka.MEMBERSHIP}, logger
        )
        servers = {"bootstrap.servers": settings["bootstrap.servers"]}
        self._admin = kafka_client.AdminClient({**kafka.connection_settings(settings), **servers}, logger=logger)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def find(self, places: Iterable[Place]) -> dict[Place, Partition]:
        """Return these partitions."""
        wanted = [kafka_client.TopicPartition(*place) for place in places]
        topics = {each.topic for each in wanted}
        try:
            ids = find_topic_ids(self._admin, topics, _ANSWER_SECONDS)
            committed = {
                Place(each.topic, each.partition): each.offset
                for each in self._client.committed(wanted, timeout=_ANSWER_SECONDS)
            }
            return {
                place: Partition(
                    ids[place.topic],
                    *self._bounds(each),
                    committed[place] if committed[place] >= 0 else None,
                )
                for each in wanted
                for place in [Place(each.topic, each.partition)]
            }
        except kafka_client.KafkaException as error:
            raise _translated(error.args[0]) from error

    def _bounds(self, wanted: "kafka_client.TopicPartition") -> tuple[int, int]:
        # AdminClient.list_offsets crashes the process now and then, with a segmentation fault.
        bounds = self._client.get_watermark_offsets(wanted, timeout=_ANSWER_SECONDS, cached=False)
        if bounds is None:
            raise BrokerUnavailableError(f"no answer about {wanted.topic}[{wanted.partition}]")
        return bounds


def seek_back(client: "kafka_client.Consumer", place: Place, offset: int) -> None:
    """Have a partition read from an offset on, unless it belongs to another consumer by now.

    Raises:
        BrokerUnavailableError: The partition is ours and could not be set back yet.
    """
    try:
        client.seek(kafka_client.TopicPartition(*place, offset))
    except kafka_client.KafkaException as error:
        if place in {(owned.topic, owned.partition) for owned in client.assignment()}:
            raise BrokerUnavailableError(f"{place.topic}[{place.partition}] could not be set back") from error


def _translated(error: "kafka_client.KafkaError") -> BrokerError:
    # A broker that starts again has no coordinator for a moment; a topic that was deleted is taken from us soon.
    if error.name() in _WAITED_OUT:
        return BrokerUnavailableError(f"{error.str()} ({error.name()})")
    return translate(error)
