"""What a relay has delivered, for its health and its metrics."""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from cdc_outbox.relay.relay_errors import SlotInUseError
from cdc_outbox.relay.units import Unit
from cdc_outbox.telemetry import GuardedMetrics, Metrics, RelayProgress, RelayState

_GAUGES_SECONDS = 1.0
"""Between two reports of the gauges: a scraper asks less often."""
_STABLE_SECONDS = 5.0
"""After so long without anything to deliver, an attempt counts as one that succeeded."""
_SILENT_SECONDS = 10.0
"""After so long without an answer a connection counts as silent: a server that works answers sooner as a rule."""


class RelayStats:
    """Notes what the relay's loop does.

    Args:
        relay: Its name.
        metrics: Receives the series ``cdc_outbox_relay_…``.
        heartbeat_topic: Its messages are no events.

    Attributes:
        progress: Replaced as a whole, so that other threads may read it.
    """

    def __init__(
        self, relay: str, metrics: Metrics, clock: Callable[[], float], heartbeat_topic: str | None = None
    ) -> None:
        self._heartbeat_topic = heartbeat_topic
        self._relay, self._metrics, self._clock = relay, GuardedMetrics(metrics), clock
        self._units = deque[tuple[Unit[Any], int, float]]()
        self._silent: Mapping[str, float | None] = {}
        self._told_at = self._reads_at = clock()
        self.progress = RelayProgress(relay=relay, state=RelayState.WAITING, started_at=self._told_at)
        self._count_delivered(0)
        self._tell(self._told_at)

    def opens(self) -> None:
        """Note that an attempt begins; it reads everything again that was not confirmed."""
        self._units.clear()
        self.progress = replace(self.progress, polled_at=self._clock(), waiting_since=None)

    def reads(self) -> None:
        """Note that source and sink were opened."""
        self.progress = replace(self.progress, state=RelayState.READING)
        self._reads_at = self._clock()
        self._tell(self._reads_at)

    def sends(self, unit: Unit[Any]) -> None:
        """Note that the events of a unit are given to the sink."""
        heartbeats = [event[0] for event in unit.events].count(self._heartbeat_topic or "")
        self._units.append((unit, len(unit.events) - heartbeats, self._clock()))

    def settle(self, now: float, lag_bytes: int | None, warning: str, silent: Mapping[str, float | None]) -> int:
        """Note what was delivered since the last call, and return how many events that are.

        Args:
            silent: Since when the source's connections have not answered.
        """
        units, delivered = self._units, 0
        while units and not units[0][0].undelivered:
            delivered += units.popleft()[1]
        self.progress = replace(
            self.progress,
            events=self.progress.events + delivered,
            polled_at=now,
            delivered_at=now if delivered else self.progress.delivered_at,
            waiting_since=units[0][2] if units else None,
            lag_bytes=lag_bytes,
            warning=warning,
        )
        self._hears(now, silent)
        if delivered or (not units and now - self._reads_at >= _STABLE_SECONDS):
            self.progress = replace(self.progress, failing_since=None, error="")
        if delivered:
            self._count_delivered(delivered)
        if now - self._told_at >= _GAUGES_SECONDS:
            self._tell(now)
        return delivered

    def fails(self, error: Exception, silent: Mapping[str, float | None]) -> None:
        """Note that an attempt ended with an error, and another one follows."""
        now, name = self._clock(), type(error).__name__
        self._hears(now, silent)
        if isinstance(error, SlotInUseError):
            self.progress = replace(self.progress, state=RelayState.STANDBY, failing_since=None, error="")
        else:
            since = self.progress.failing_since or now
            self.progress = replace(self.progress, state=RelayState.WAITING, failing_since=since, error=name)
            self._metrics.count("cdc_outbox_relay_errors_total", relay=self._relay, error=name)
        self._tell(now)

    def _hears(self, now: float, silent: Mapping[str, float | None]) -> None:
        """Note which connections are silent; the sink is while nothing of what it has is delivered."""
        since = self.progress.waiting_since
        sink = None if since is None else max(since, self.progress.delivered_at or since)
        self._silent = {**silent, "sink": sink}
        late = [(at, name) for name, at in self._silent.items() if at is not None and now - at >= _SILENT_SECONDS]
        silent_since, name = min(late, default=(None, ""))
        self.progress = replace(self.progress, silent=name, silent_since=silent_since)

    def stops(self) -> None:
        """Note that the relay was stopped."""
        self.progress = replace(self.progress, state=RelayState.STOPPING)

    def _count_delivered(self, events: int) -> None:
        self._metrics.count("cdc_outbox_relay_events_total", events, relay=self._relay)
        self._metrics.set("cdc_outbox_relay_last_delivery_timestamp_seconds", time.time(), relay=self._relay)

    def _tell(self, now: float) -> None:
        self._told_at = now
        is_reading = self.progress.state in {RelayState.READING, RelayState.STOPPING}
        since = self.progress.waiting_since
        oldest = 0.0 if since is None else now - since
        for name, value in {
            "reading": float(is_reading),
            "lag_bytes": self.progress.lag_bytes if is_reading else None,
            "oldest_undelivered_seconds": oldest,
        }.items():
            self._metrics.set(f"cdc_outbox_relay_{name}", value, relay=self._relay)
        for name, at in self._silent.items():
            silent = 0.0 if at is None else now - at
            self._metrics.set("cdc_outbox_relay_silent_seconds", silent, relay=self._relay, connection=name)
