"""Pauses between retries. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

_MAX_DOUBLINGS = 60
"""More doublings overflow a float."""
_JITTER = 0.25
"""The part by which a pause may be shorter, so that clients that failed together do not retry together."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double up to a limit.

    Args:
        first_seconds: The first pause.
        longest_seconds: No pause is longer.
    """

    first_seconds: float
    longest_seconds: float

    def pause(self, earlier: int, random: Random | None = None) -> float:
        """Return how many seconds to wait.

        Args:
            earlier: The number of pauses before this one.
            random: Shortens the pause by up to a quarter; ``None`` does not.
        """
        seconds = min(self.longest_seconds, self.first_seconds * 2.0 ** min(earlier, _MAX_DOUBLINGS))
        return seconds if random is None else seconds * random.uniform(1 - _JITTER, 1)

    def within(self, seconds: float, clock: Callable[[], float]) -> Iterator[float]:
        """Yield pauses until the time is over; the last pause ends with it.

        The time begins at this call, because an attempt itself may take long to fail.

        Args:
            seconds: The time for all pauses and the attempts between them.
            clock: Monotonic seconds.
        """
        return self._until(clock() + seconds, clock)

    def _until(self, deadline: float, clock: Callable[[], float]) -> Iterator[float]:
        earlier = 0
        while (left := deadline - clock()) > 0:
            yield min(self.pause(earlier), left)
            earlier += 1
