"""When an event whose handler failed is tried again, and when no more. Pure."""

from dataclasses import dataclass
from random import Random

from cdc_outbox.errors import ConfigError

_MAX_DOUBLINGS = 60
"""More make a number that no float holds."""
_JITTER = 0.25
"""By how much of itself a pause varies, so that what failed together is not tried again together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How failing events are tried again.

    Args:
        inline_retry_seconds: How long an event is tried again at once while its partition waits. Long enough for a
            hiccup, and short enough that the other aggregates hardly notice.
        first_pause_seconds: The first of those pauses; each is twice the one before.
        parked_pause_seconds: How long it is parked after that; twice as long after each further attempt.
        longest_pause_seconds: The longest of these: what is mended is noticed within that time.
        max_attempts: After how many attempts it is dead; what is tried again at once counts as one. With the pauses
            above 25 attempts take three hours, and never less than two: a system that one aggregate alone needs may be
            away for as long.
        park_at_once: Errors that another try cannot mend: the event is dead after the first one.
    """

    inline_retry_seconds: float = 2.0
    first_pause_seconds: float = 0.05
    parked_pause_seconds: float = 5.0
    longest_pause_seconds: float = 600.0
    max_attempts: int = 25
    park_at_once: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        for name in ("first_pause_seconds", "parked_pause_seconds", "longest_pause_seconds"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be greater than 0", field=f"Retry.{name}")
        if self.inline_retry_seconds < 0:
            raise ConfigError("inline_retry_seconds must not be negative", field="Retry.inline_retry_seconds")
        if self.max_attempts < 1:
            raise ConfigError("max_attempts must be at least 1", field="Retry.max_attempts")

    def is_hopeless(self, error: BaseException | None) -> bool:
        """Tell whether an error is one that another try cannot mend."""
        return isinstance(error, self.park_at_once)

    def inline_pause(self, tries: int, elapsed_seconds: float, random: Random) -> float | None:
        """Return how long to wait before the next try at once, ``None`` where that would take too long.

        Args:
            tries: How many there were, at least one.
            elapsed_seconds: Since the first of them failed.
        """
        pause = _jittered(self.first_pause_seconds * 2 ** min(tries - 1, _MAX_DOUBLINGS), random)
        return pause if elapsed_seconds + pause <= self.inline_retry_seconds else None

    def parked_pause(self, attempts: int, random: Random) -> float | None:
        """Return how long an event is parked after so many attempts, ``None`` where it is dead."""
        if attempts >= self.max_attempts:
            return None
        return _jittered(
            min(self.longest_pause_seconds, self.parked_pause_seconds * 2 ** min(attempts - 1, _MAX_DOUBLINGS)), random
        )


def _jittered(seconds: float, random: Random) -> float:
    return seconds * random.uniform(1 - _JITTER, 1 + _JITTER)
