"""How many events go into the next transaction. Pure."""


class BatchSize:
    """The size of the next batch: it grows while all goes well, and finds the culprit when something does not.

    Args:
        most: The largest batch, in events.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 1
        self._single = 0

    def next(self) -> int:
        """Return how many events the next batch may have."""
        return 1 if self._single else self._size

    def succeeded(self, events: int) -> None:
        """Note a committed batch: twice as many next time, unless a failed batch is still gone through one by one."""
        if self._single:
            self._single = max(0, self._single - events)
        else:
            self._size = min(self._most, max(self._size, events) * 2)

    def conflicted(self) -> None:
        """Note that others were in the way: the smaller the transaction, the less it meets."""
        self._size = max(1, self._size // 2)

    def failed(self, events: int) -> None:
        """Note that one event of a batch failed: all of them come again, one by one."""
        self._single = events
