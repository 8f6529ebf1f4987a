"""What a consumer allows itself."""

from dataclasses import dataclass

from cdc_outbox.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much, how many and how long.

    Args:
        batch_events: The largest number of events in one transaction. More than 500 gain little: by then the commit is
            shared by so many that the handlers are what costs.
        handler_seconds: How long the database lets a transaction sit between two statements before it ends it, and so
            how long a consumer that was paused in the middle can keep its successor waiting.
        max_parked_events: How many events may be parked at once. At the bound the partition that would park another
            one is paused, for a cause that sets so much aside is a bug and not a bad event.
        gap_alarm_seconds: How long a predecessor may be missing before it is logged as a warning.
    """

    batch_events: int = 500
    handler_seconds: float = 60.0
    max_parked_events: int = 10_000
    gap_alarm_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name in ("batch_events", "handler_seconds", "max_parked_events", "gap_alarm_seconds"):
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be more than 0", field=f"Limits.{name}")
