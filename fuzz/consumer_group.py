"""A topic, a consumer group and its clients, in memory: what of Kafka a consumer's loop meets."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaPartition

from cdc_outbox.consumer.fencing import TopicId, TopicPartition
from cdc_outbox.consumer.start_offsets import PartitionOffsets
from cdc_outbox.message import Message

_Callback = Callable[["Client", list[KafkaPartition]], None]


@dataclass(frozen=True)
class Record:
    """A message as librdkafka gives it."""

    message: Message

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return self.message.topic

    def partition(self) -> int | None:
        return self.message.partition

    def offset(self) -> int | None:
        return self.message.offset

    def key(self) -> bytes | None:
        return self.message.key

    def value(self) -> bytes | None:
        return self.message.value

    def headers(self) -> list[tuple[str, bytes | None]]:
        return list(self.message.headers)

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_NOT_AVAILABLE, -1

    def leader_epoch(self) -> int | None:
        return self.message.leader_epoch


class Group:
    """Logs, committed offsets, and who has which partition."""

    def __init__(self, places: Iterable[TopicPartition]) -> None:
        self.logs: dict[TopicPartition, list[Message]] = {place: [] for place in places}
        self.committed: dict[TopicPartition, int] = {}
        self.holders: dict[TopicPartition, Client | None] = dict.fromkeys(self.logs)
        self._targets: dict[TopicPartition, Client] = {}

    def give(self, place: TopicPartition, client: "Client") -> None:
        """Move a partition in the cooperative way: its holder gives it up first; to the holder itself it comes anew."""
        holder = self.holders[place]
        self._targets[place] = client
        if holder is None:
            self._hand_over(place)
        else:
            holder.events.append(("revoke", [place]))

    def give_up(self, place: TopicPartition, client: "Client") -> None:
        """Take what a client gave up, for whoever is to have it."""
        if self.holders[place] is client:
            self.holders[place] = None
            self._hand_over(place)

    def evict(self, client: "Client", heir: "Client") -> None:
        """Take a client for dead, and give what it has to another; it hears of that when it polls next."""
        lost = [place for place, holder in self.holders.items() if holder is client]
        client.is_member = False
        client.events = deque(event for event in client.events if event[0] == "answer")
        client.events.append(("lost", sorted({*lost, *client.positions})))  # those too that it lost and did not hear of
        for place in lost:
            self.holders[place], self._targets[place] = None, heir
            self._hand_over(place)
        for place, target in self._targets.items():
            if target is client:
                self._targets[place] = heir

    def _hand_over(self, place: TopicPartition) -> None:
        client = self._targets.get(place)
        if client is not None:
            self.holders[place] = client
            client.events.append(("assign", [place]))


class Client:
    """What the loop, the poller and the offsets use of ``confluent_kafka.Consumer``.

    Args:
        hook: Called before each call with its name.
        answered: Takes the answers to asynchronous commits.
    """

    def __init__(self, group: Group, hook: Callable[[str], None], answered: Callable[..., None]) -> None:
        self.group = group
        self.is_member = True
        self.refusals = 0
        """How many commits a rebalance that goes on refuses."""
        self.events: deque[tuple[str, Any]] = deque()
        self.positions: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.polled: Callable[[], None] | None = None
        """Called after each poll."""
        self._hook, self._answered = hook, answered
        self._callbacks: dict[str, _Callback] = {}

    def subscribe(self, _topics: list[str], **callbacks: _Callback) -> None:
        self._callbacks = callbacks

    def list_topics(self, **_options: float) -> SimpleNamespace:
        topics = {place.topic: SimpleNamespace(partitions={}) for place in self.group.logs}
        for place in self.group.logs:
            topics[place.topic].partitions[place.partition] = None
        return SimpleNamespace(topics=topics)

    def poll(self, _seconds: float) -> Record | None:
        self._hook("poll")
        self._serve()
        records = self._fetched(1)
        if self.polled is not None:
            self.polled()
        return records[0] if records else None

    def consume(self, events: int, _seconds: float) -> list[Record]:
        self._hook("consume")
        self._serve()
        return self._fetched(events)

    def commit(self, *, offsets: list[KafkaPartition], asynchronous: bool) -> list[KafkaPartition] | None:
        self._hook("offsets")
        error = None
        if not self.is_member:
            error = KafkaError(KafkaError.UNKNOWN_MEMBER_ID)
        elif self.refusals:
            self.refusals -= 1
            error = KafkaError(KafkaError.REBALANCE_IN_PROGRESS)
        else:
            self.group.committed |= {
                TopicPartition(offset.topic, offset.partition): offset.offset for offset in offsets
            }
        if asynchronous:
            self.events.append(("answer", (error, offsets)))
            return None
        if error is not None:
            raise KafkaException(error)
        return offsets

    def seek(self, position: KafkaPartition) -> None:
        place = TopicPartition(position.topic, position.partition)
        if place not in self.positions:
            raise KafkaException(KafkaError(KafkaError._STATE))  # noqa: SLF001
        self.positions[place] = position.offset

    def position(self, places: list[KafkaPartition]) -> list[KafkaPartition]:
        return [
            KafkaPartition(*place, self.positions.get(TopicPartition(*place), -1001))
            for place in ((one.topic, one.partition) for one in places)
        ]

    def get_watermark_offsets(self, position: KafkaPartition, **_options: bool) -> tuple[int, int]:
        return 0, len(self.group.logs[TopicPartition(position.topic, position.partition)])

    def find(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionOffsets]:
        """Return what the brokers know of partitions."""
        committed = self.group.committed
        return {
            place: PartitionOffsets(
                TopicId("cluster", place.topic), 0, len(self.group.logs[place]), committed.get(place)
            )
            for place in places
        }

    def memberid(self) -> str:
        return "this one"

    def members(self) -> dict[str, int]:
        """Return how many partitions each member of the group has."""
        return {self.memberid(): len(self.positions)}

    def assignment(self) -> list[KafkaPartition]:
        return _partitions(self.positions)

    def pause(self, places: list[KafkaPartition]) -> None:
        self.paused |= self._assigned(places)

    def resume(self, places: list[KafkaPartition]) -> None:
        self.paused -= self._assigned(places)

    def _assigned(self, places: list[KafkaPartition]) -> set[TopicPartition]:
        wanted = {TopicPartition(place.topic, place.partition) for place in places}
        if not wanted <= self.positions.keys():
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))  # noqa: SLF001
        return wanted

    def _fetched(self, events: int) -> list[Record]:
        records: list[Record] = []
        for place in sorted(self.positions.keys() - self.paused):
            log = self.group.logs[place]
            fetched = log[self.positions[place] :][: events - len(records)]
            self.positions[place] += len(fetched)
            records += map(Record, fetched)
        return records

    def _serve(self) -> None:
        """Call back for what happened since the last poll."""
        while self.events:
            kind, what = self.events.popleft()
            match kind:
                case "answer":
                    self._answered(*what)
                case "assign":
                    self._callbacks["on_assign"](self, _partitions(what))
                    self.positions |= {place: self.group.committed.get(place, 0) for place in what}
                case "revoke" if set(what) <= self.positions.keys():
                    self._callbacks["on_revoke"](self, _partitions(what))
                    self._forget(what)
                    for place in what:
                        self.group.give_up(place, self)
                case "lost":
                    self._callbacks["on_lost"](self, _partitions(what))
                    self._forget(self.positions.keys() & what)
                    self.is_member = True

    def _forget(self, places: Iterable[TopicPartition]) -> None:
        for place in list(places):
            del self.positions[place]
            self.paused.discard(place)


def _partitions(places: Iterable[Sequence[Any]]) -> list[KafkaPartition]:
    return [KafkaPartition(topic, partition) for topic, partition in places]
