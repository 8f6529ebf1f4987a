"""How long is waited before something is tried again. Pure."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

_MAX_DOUBLINGS = 60
"""More make a number that no float holds."""
_JITTER = 0.25
"""By how much of itself a pause may be shorter, so that what failed together is not tried again together."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses, each of which is twice the one before.

    Args:
        first_seconds: The first pause.
        longest_seconds: No pause is longer.
    """

    first_seconds: float
    longest_seconds: float

    def pause(self, earlier: int, random: Random | None = None) -> float:
        """Return how many seconds to wait.

        Args:
            earlier: How many pauses there were before this one.
            random: Makes it up to a quarter shorter; ``None`` leaves it as it is.
        """
        seconds = min(self.longest_seconds, self.first_seconds * 2.0 ** min(earlier, _MAX_DOUBLINGS))
        return seconds if random is None else seconds * random.uniform(1 - _JITTER, 1)

    def within(self, seconds: float, clock: Callable[[], float]) -> Iterator[float]:
        """Give pause after pause until a time is over; the last one ends with it.

        The time is that from now on, for an attempt may itself take long to fail.

        Args:
            seconds: How long the time is.
            clock: Monotonic seconds.
        """
        return self._until(clock() + seconds, clock)

    def _until(self, deadline: float, clock: Callable[[], float]) -> Iterator[float]:
        earlier = 0
        while (left := deadline - clock()) > 0:
            yield min(self.pause(earlier), left)
            earlier += 1
