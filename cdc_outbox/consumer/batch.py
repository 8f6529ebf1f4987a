"""How many events go into the next transaction. Pure."""

import math


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
