"""Events that were polled and are not applied yet."""

from collections import deque
from collections.abc import Callable, Sequence

from cdc_outbox.consumer.batch import BatchSize
from cdc_outbox.consumer.epochs import Place
from cdc_outbox.consumer.item import Item


class Backlog:
    """A queue of events, from whose head the next batch is taken.

    Args:
        most: The largest batch, in events.
    """

    def __init__(self, most: int) -> None:
        self.size = BatchSize(most)
        self._items: deque[Item] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, items: Sequence[Item]) -> None:
        """Add events at the end."""
        self._items.extend(items)

    def put_back(self, items: Sequence[Item]) -> None:
        """Have events come again before all others."""
        self._items.extendleft(reversed(items))

    def take(self, is_ours: Callable[[Item], bool], is_alone: Callable[[Item], bool]) -> list[Item]:
        """Return the next batch, without those that belong to somebody else by now.

        Args:
            is_alone: Tells of an event that it is to have a transaction of its own.
        """
        items: list[Item] = []
        most = self.size.next()
        while self._items and len(items) < most:
            if is_ours(self._items[0]):
                if items and (is_alone(self._items[0]) or is_alone(items[-1])):
                    break
                items.append(self._items[0])
            self._items.popleft()
        return items

    def drop(self, place: Place) -> list[Item]:
        """Remove and return a partition's events."""
        return self.drop_if(lambda item: item.place == place)

    def drop_if(self, is_dropped: Callable[[Item], bool]) -> list[Item]:
        """Remove and return the events of which this holds."""
        dropped = [item for item in self._items if is_dropped(item)]
        self._items = deque(item for item in self._items if not is_dropped(item))
        return dropped
