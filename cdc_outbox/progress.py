"""What a consumer says of itself while it runs, for who asks how it goes."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class PausedPartition:
    """A partition from which nothing is taken for now.

    Args:
        reason: Why, in a few words of ours, such as ``park is full``.
    """

    topic: str
    partition: int
    reason: str

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a consumer is. Moments are those of ``time.monotonic()``, and ``None`` for what has not been yet.

    Args:
        consumer: Its name.
        events: How many are done with since it started.
        started_at: When its last run began; when it was made, before the first one.
        polled_at: When it last asked the brokers for messages, or heard from them while a handler was at work.
        committed_at: When a transaction was last committed.
        waiting_since: Since when there has been, without a break, a message at hand that is not done with; ``None``
            while it is idle. This, and not the last commit alone, tells the idle from the stuck.
        lag_events: Messages from the ones at hand to the ends of its partitions; ``None`` before that is known.
        paused: The partitions from which nothing is taken.
        waiting_events: Events that are parked until a missing one comes or a retry is due.
        dead_events: Events that are parked until an operator decides.
        max_parked_events: How many may be parked; at that bound partitions are paused. ``None`` means no limit.
        parked_bytes: How many bytes their messages have.
        max_parked_bytes: How many they may have before partitions are paused. ``None`` means no limit.
        gap_seconds: For how long the oldest missing event has been waited for, once that is an alarm.
        outage: What is waited out at the moment, such as ``the database``; empty where all is reached.
        stopping: Whether it was told to stop, and finishes what is at hand.
    """

    consumer: str
    events: int = 0
    started_at: float
    polled_at: float | None = None
    committed_at: float | None = None
    waiting_since: float | None = None
    lag_events: int | None = None
    paused: tuple[PausedPartition, ...] = ()
    waiting_events: int = 0
    dead_events: int = 0
    max_parked_events: int | None = None
    parked_bytes: int = 0
    max_parked_bytes: int | None = None
    gap_seconds: float | None = None
    outage: str = ""
    stopping: bool = False


class HasProgress(Protocol):
    """What can be asked how it goes."""

    def progress(self) -> Progress:
        """Return how far it is, at once.

        Called from other threads, at any time, before the run and after it too: it asks no server, and waits for
        nothing that a handler may hold.
        """
