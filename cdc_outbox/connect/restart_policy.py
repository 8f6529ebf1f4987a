"""When a connector that failed is restarted, and when it is given up. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from cdc_outbox.backoff import Backoff
from cdc_outbox.connect.wait import Condition
from cdc_outbox.errors import ConfigError


class RestartAction(StrEnum):
    """The action to take on a connector now."""

    NOTHING = "nothing"
    RESTART = "restart"
    GIVE_UP = "give up"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartOptions:
    """How patient the policy is.

    Args:
        max_restarts: In a row. Six of them, with their pauses, outlast what passes by itself: a database's failover, a
            deployment of the brokers.
        first_pause_seconds: Before the first restart; a failure shows for a moment after a restart that helped.
        max_pause_seconds: Each pause is twice the one before, up to this.
        calm_seconds: For how long a connector must run before its restarts are forgotten.
    """

    max_restarts: int = 6
    first_pause_seconds: float = 5.0
    max_pause_seconds: float = 300.0
    calm_seconds: float = 300.0

    def __post_init__(self) -> None:
        if self.max_restarts < 1 or min(self.first_pause_seconds, self.max_pause_seconds, self.calm_seconds) < 0:
            raise ConfigError("max_restarts must be at least 1, and no pause may be negative", field="RestartOptions")

    def pause_seconds(self, restarts: int) -> float:
        """Return how long a failure must last before the next restart, after so many in a row."""
        return Backoff(self.first_pause_seconds, self.max_pause_seconds).pause(restarts)


class RestartPolicy:
    """One connector over time: restarts with growing pauses, and an end to them."""

    def __init__(self, options: RestartOptions) -> None:
        self._options = options
        self._condition = Condition.PENDING
        self._since: float | None = None
        self.restarts = 0

    def see(self, condition: Condition, now: float) -> RestartAction:
        """Record a condition, and return the action to take; a restart counts once it was made.

        Args:
            now: Seconds, growing.
        """
        if condition is not self._condition or self._since is None:
            self._condition, self._since = condition, now
        lasted = now - self._since
        if condition is Condition.UP and lasted >= self._options.calm_seconds:
            self.restarts = 0
        if condition is not Condition.FAILED or lasted < self._options.pause_seconds(self.restarts):
            return RestartAction.NOTHING
        return RestartAction.GIVE_UP if self.restarts >= self._options.max_restarts else RestartAction.RESTART

    def restarted(self, now: float) -> None:
        """Count a restart; its result is waited for again, also where Connect never shows it run in between."""
        self.restarts += 1
        self._since = now
