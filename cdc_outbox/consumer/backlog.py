"""Events that were polled and are not applied yet, and how many go into the next transaction."""

import math
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Sequence, Set
from dataclasses import replace

from cdc_outbox.consumer.fencing import TopicPartition, topic_partition_of
from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.ordering import Aggregate
from cdc_outbox.kafka import confluent


class BatchSize:
    """The size of the next batch: it grows while all goes well, and finds the culprit when something does not.

    Args:
        most: The largest batch, in events.
        seconds: How long a batch should take, judging by the pace of the last one.
    """

    def __init__(self, most: int, seconds: float = math.inf) -> None:
        self._most = most
        self._seconds = seconds
        self._size = 1
        self._single = 0

    def next(self) -> int:
        """Return how many events the next batch may have."""
        return 1 if self._single else self._size

    def succeeded(self, events: int, seconds: float = 0.0) -> None:
        """Note a committed batch, and how long it took.

        The next one has twice as many, if this one was full, and no more than fit into the time; unless a failed batch
        is still gone through one by one.
        """
        if self._single:
            self._single = max(0, self._single - events)
        elif events >= self._size:
            self._size = min(self._most, events * 2)
        if seconds * self._size > self._seconds * events:
            self._size = max(1, int(self._seconds * events / seconds))

    def conflicted(self) -> None:
        """Note that others were in the way: the smaller the transaction, the less it meets."""
        self._size = max(1, self._size // 2)

    def failed(self, events: int) -> None:
        """Note that one event of a batch failed: all of them come again, one by one."""
        self._single = events


class Backlog:
    """A queue of events, whose head is the next batch; unread records wait behind the events.

    Args:
        most: The largest batch, in events.
        read: Turns a record of the Kafka client into an event's item.
        seconds: How long a batch should take.
        most_bytes: The largest batch, in bytes of keys, values and headers; one event may have more.
        isolated: Event types whose events are a batch each.
    """

    def __init__(
        self,
        most: int,
        read: "Callable[[confluent.Message], Item] | None" = None,
        *,
        seconds: float = math.inf,
        most_bytes: float = math.inf,
        isolated: Set[str] = frozenset(),
    ) -> None:
        self.size = BatchSize(most, seconds)
        self._most_bytes, self._isolated = most_bytes, isolated
        self._items: deque[Item] = deque()
        self._read = read
        self._unread: deque[confluent.Message] = deque()
        self.bytes = 0
        """How many bytes of keys, values and headers the events have, without the unread records."""

    def __len__(self) -> int:
        return len(self._items)

    @property
    def unread(self) -> int:
        """The number of unread records."""
        return len(self._unread)

    def waiting(self) -> Counter[TopicPartition]:
        """Return how much of each partition is at hand, read or not."""
        return Counter([*(item.topic_partition for item in self._items), *map(origin_of, self._unread)])

    def put(self, items: Sequence[Item]) -> None:
        """Add events at the end."""
        self._items.extend(items)
        self.bytes += _bytes_of(items)

    def put_unread(self, record: "confluent.Message") -> None:
        """Add a record at the end."""
        self._unread.append(record)

    def read_one(self) -> bool:
        """Read a record; return whether unread records are left.

        One, because many statements take no longer than reading two, and what is read then is waited for.
        """
        if self._read is not None and self._unread:
            item = self._read(self._unread.popleft())
            self._items.append(item)
            self.bytes += item.size
        return bool(self._unread)

    def put_back(self, items: Sequence[Item]) -> None:
        """Have events come again before all others; one that was tried before its turn is still here."""
        items = [item for item in items if not item.turn.is_ahead]
        self._items.extendleft(reversed(items))
        self.bytes += _bytes_of(items)

    def find_first(self, rank: Callable[[Item], tuple[int, int]]) -> Item | None:
        """Return the event of the lowest rank, of those that have none of their aggregate before them.

        Where earlier events of its partition are here, its partition is read on at the first of them.
        """
        firsts: dict[Aggregate, Item] = {}
        starts: dict[TopicPartition, Item] = {}
        for item in self._items:
            firsts.setdefault(item.aggregate, item)
            starts.setdefault(item.topic_partition, item)
        found = min((item for item in firsts.values() if item.failure is None), key=rank, default=None)
        if found is None or found.parked is not None or (start := starts[found.topic_partition]) is found:
            return found
        return replace(found, turn=replace(found.turn, resumes_at=start.message.offset or 0))

    def bring_forward(self, found: Item) -> None:
        """Put the first event of a partition, or a parked one, before all others."""
        self.put_back(self.drop_if(lambda item: item is found))

    def done_before_its_turn(self, done: Item) -> None:
        """Remove an event, for which the one before it in its partition stands from now on."""
        before: Item | None = None
        for item in self._items:
            if item.message is done.message:
                break
            before = item if item.topic_partition == done.topic_partition else before
        if before is not None:
            before.turn = replace(before.turn, last=done.last)
        self.drop_if(lambda item: item.message is done.message)

    def take(
        self,
        partitions: Container[TopicPartition] | None = None,
        is_alone: Callable[[Item], bool] | None = None,
        most: int | None = None,
    ) -> list[Item]:
        """Return the next batch, without those that belong to another consumer by now.

        Args:
            partitions: The partitions that this consumer owns; ``None`` for all.
            is_alone: Tells of an event that it is to have a transaction of its own; ``None`` where none is.
            most: How many events; ``None`` for as many as the next batch may have.
        """
        items: list[Item] = []
        most = self.size.next() if most is None else most
        room = self._most_bytes
        while self._items and len(items) < most:
            item = self._items[0]
            if partitions is None or item.topic_partition in partitions:
                if items and is_alone is not None and (is_alone(item) or is_alone(items[-1])):
                    break
                if items and self._isolated and self._isolated & {item.event.type, items[-1].event.type}:
                    break
                room -= item.size
                if items and room < 0:
                    break
                items.append(item)
            self._items.popleft()
            self.bytes -= item.size
        return items

    def drop(self, tp: TopicPartition) -> list[int]:
        """Remove what was polled of a partition, read or not, and return the offsets."""
        items = self.drop_if(lambda item: item.topic_partition == tp)
        unread = [record for record in self._unread if origin_of(record) == tp]
        self._unread = deque(record for record in self._unread if origin_of(record) != tp)
        return [*(item.message.offset or 0 for item in items), *(record.offset() or 0 for record in unread)]

    def drop_if(self, is_dropped: Callable[[Item], bool]) -> list[Item]:
        """Remove and return the events of which this holds."""
        dropped = [item for item in self._items if is_dropped(item)]
        self._items = deque(item for item in self._items if not is_dropped(item))
        self.bytes -= _bytes_of(dropped)
        return dropped


def _bytes_of(items: Iterable[Item]) -> int:
    return sum(item.size for item in items)


def origin_of(record: "confluent.Message") -> TopicPartition:
    """Return the partition that a record of the Kafka client was read from."""
    return topic_partition_of(record.topic() or "", record.partition())
