"""Units that were read and are not confirmed yet. Pure."""

from collections import deque
from typing import Generic

from cdc_outbox.relay.unit import PositionT, Unit


class Outstanding(Generic[PositionT]):
    """Units in the order in which they were read; each leaves when it and all before it are delivered.

    A keepalive is a unit without events, so it cannot be confirmed while a transaction before it is under way.
    One object serves one opening of a source: after that, reports of its units change nothing that is read later.

    Attributes:
        confirmable: The last position before which everything was delivered; ``None`` before the first.
    """

    def __init__(self) -> None:
        self._units: deque[Unit[PositionT]] = deque()
        self.confirmable: PositionT | None = None

    def __len__(self) -> int:
        """Return the number of units that are not delivered, or wait for one that is not."""
        return len(self._units)

    def push(self, unit: Unit[PositionT]) -> None:
        """Add the unit that was read last."""
        self._units.append(unit)

    def settle(self) -> PositionT | None:
        """Drop what is delivered, and return the last position that may be confirmed; ``None`` before the first.

        Raises:
            Exception: What the first unit that is not delivered failed with.
        """
        units = self._units
        while units:
            first = units[0]
            if first.failure is not None:
                raise first.failure
            if first.undelivered:
                break
            if first.position is not None:
                self.confirmable = first.position
            units.popleft()
        return self.confirmable
