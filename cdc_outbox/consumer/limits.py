"""What a consumer allows itself, and how long it remembers ids."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

from cdc_outbox.errors import ConfigError


class Room(NamedTuple):
    """How much more may be parked. As long as there is any, the next event is parked, whatever its size."""

    events: int = sys.maxsize
    bytes: int = sys.maxsize

    @property
    def reached(self) -> str:
        """The limit that keeps further events out of the park; empty while there is room."""
        return "max_parked_events" if self.events <= 0 else "max_parked_bytes" if self.bytes <= 0 else ""

    def without(self, events: int, bytes_: int) -> "Room":
        """Return the room after so much more was parked."""
        return Room(self.events - events, self.bytes - bytes_)


ENDLESS = Room()
"""Where nothing bounds the park."""

_MOST_KILOBYTES = 2_097_151
"""The largest queue that librdkafka takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """A consumer's limits for sizes, counts and times, and conditions for its start.

    Args:
        batch_events: The maximum of events in one transaction. More than 500 gain little: by then the commit is shared
            by so many that the handlers dominate.
        batch_seconds: How long a transaction should take; slow handlers get fewer events in each. A rebalance waits for
            the current transaction, and so does the next offset.
        batch_bytes: The maximum of bytes of keys, values and headers in one transaction, of messages read ahead for the
            next one, and of parked events read at once; librdkafka's queue holds as many again. Decoded they take
            several times as much memory.
        handler_seconds: How long a transaction may idle between two statements before the database ends it, and so how
            long a consumer that was paused in between can delay its successor.
        max_parked_events: The maximum of parked events. Then the partition that would park one more is paused, because
            the cause is probably a bug and not a bad event.
        max_parked_bytes: The maximum of bytes of keys, values and headers of parked events, with the same effect; the
            last event may exceed it.
        gap_alarm_seconds: How long a predecessor may be missing before it is logged as a warning.
        parked_poll_seconds: How often the consumer looks for parked events that another process made due.
        reach_seconds: How long the brokers may take to answer at the start, before they count as unreachable.
        horizon_days: After how many days ``cdc-outbox purge-inbox`` forgets ids: the start is refused if a topic may
            keep its events for longer. ``None`` if the inbox is never purged: then no id is forgotten, and the start
            checks nothing.
        wait_for_handled: Whether a consumer that has stored no offset yet leaves its events in the topics until one of
            them has a handler, because a misspelled event type would skip them all. With ``False`` events without a
            handler are claimed and skipped from the start.
    """

    batch_events: int = 500
    batch_seconds: float = 5.0
    batch_bytes: int = 16_000_000
    handler_seconds: float = 60.0
    max_parked_events: int = 10_000
    max_parked_bytes: int = 256_000_000
    gap_alarm_seconds: float = 30.0
    parked_poll_seconds: float = 1.0
    reach_seconds: float = 5.0
    horizon_days: float | None = None
    wait_for_handled: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, bool | None) and not value > 0:
                raise ConfigError(f"{field.name} must be greater than 0", field=f"Limits.{field.name}")

    @property
    def queue_settings(self) -> dict[str, int]:
        """Return librdkafka's settings for reading ahead; by default it requests no more from the brokers at once."""
        return {"queued.max.messages.kbytes": max(1, min(self.batch_bytes // 1024, _MOST_KILOBYTES))}

    @property
    def room(self) -> Room:
        """The number of events and bytes that may be parked."""
        return Room(self.max_parked_events, self.max_parked_bytes)


DAY_SECONDS = 86_400
_NAMED = 5
"""Topics that an error lists."""


def refuse_short_horizon(days: float, kept_seconds: Mapping[str, float | None], *, field: str, hint: str) -> None:
    """Refuse to forget ids whose events a topic may still hold: read again, they would be nothing but unknown.

    Args:
        days: After how many ids may be forgotten.
        kept_seconds: How long each topic may keep a record, ``None`` for ever.

    Raises:
        ConfigError: A topic keeps its records for longer.
    """
    longer = {
        topic: seconds
        for topic, seconds in sorted(kept_seconds.items())
        if seconds is None or seconds > days * DAY_SECONDS
    }
    if longer:
        named = [f"{topic} {_days(seconds)}" for topic, seconds in list(longer.items())[:_NAMED]]
        more = f", and {len(longer) - _NAMED:,} more topics" if len(longer) > _NAMED else ""
        raise ConfigError(
            f"a horizon of {in_words(days * DAY_SECONDS)} is shorter than the topics' retention (retention.ms and "
            f"segment.ms): {', '.join(named)}{more}",
            field=field,
            hint=hint,
        )


def _days(seconds: float | None) -> str:
    if seconds is None:
        return "for ever"
    return f"up to {in_words(seconds)}"


def in_words(seconds: float) -> str:
    """Return a duration in the largest unit of which it has one: ``30 days``, ``1 hour``."""
    units = ((DAY_SECONDS, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))
    size, unit = next((each for each in units if seconds >= each[0]), units[-1])
    count = f"{seconds / size:,.3g}"
    return f"{count} {unit}{'s' * (count != '1')}"
