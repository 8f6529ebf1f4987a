"""Whether a consumer or a relay gets on: a function of what it says of itself."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from cdc_outbox.errors import ConfigError
from cdc_outbox.redaction import counted
from cdc_outbox.telemetry import Progress, RelayProgress


class HealthStatus(StrEnum):
    """The state of a consumer or a relay, from good to bad."""

    OK = "ok"
    DEGRADED = "degraded"
    """It makes progress, but needs the operator's attention."""
    STUCK = "stuck"
    """It makes no progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLimits:
    """Limits beyond which a consumer or a relay is not healthy.

    Args:
        stuck_after_seconds: How long there may be messages without a commit, or events without a delivery, and how
            long without polling the brokers. 60 covers recovery from a fault; set more if a single handler may take
            longer.
    """

    stuck_after_seconds: float = 60.0

    def __post_init__(self) -> None:
        if not self.stuck_after_seconds > 0:
            raise ConfigError("stuck_after_seconds must be greater than 0", field="HealthLimits.stuck_after_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """The health of a consumer or a relay, with reasons.

    Args:
        reasons: One sentence each, the worst first; empty if it is healthy.
    """

    status: HealthStatus
    reasons: tuple[str, ...]

    def as_json(self, progress: Progress | RelayProgress, *, now: float) -> dict[str, Any]:
        """Return status, reasons and figures; moments become seconds ago."""
        state = asdict(progress)
        passed = {name: state.pop(name) for name in [*state] if name.endswith(("_at", "_since"))}
        ages = {
            f"{moment.partition('_')[0]}_seconds_ago": None if at is None else round(now - at, 3)
            for moment, at in passed.items()
        }
        return {"status": self.status, "reasons": list(self.reasons), **state, **ages}


def health_of(progress: Progress | RelayProgress, *, now: float, limits: HealthLimits | None = None) -> Health:
    """Return the health by the progress: idle is healthy, messages without commits or deliveries are not.

    Args:
        now: By ``time.monotonic()``.
    """
    limit = (limits or HealthLimits()).stuck_after_seconds
    if isinstance(progress, RelayProgress):
        stuck, degraded = tuple(_relay_stops(progress, now, limit)), tuple(_relay_hindrances(progress, now))
    else:
        stuck, degraded = tuple(_stops(progress, now, limit)), tuple(_hindrances(progress))
    status = HealthStatus.STUCK if stuck else HealthStatus.DEGRADED if degraded else HealthStatus.OK
    return Health(status=status, reasons=stuck + degraded)


def _stops(progress: Progress, now: float, limit: float) -> Iterator[str]:
    """Yield the reasons why a consumer makes no progress."""
    silent = now - (progress.started_at if progress.polled_at is None else progress.polled_at)
    if silent >= limit:
        yield f"no request was sent to the brokers for {silent:.0f} s"
    if progress.waiting_since is not None:
        # The later of both: after a quiet night, the first message is not at hand since the evening.
        idle = now - max(progress.waiting_since, progress.committed_at or progress.waiting_since)
        if idle >= limit:
            yield f"messages are available, but nothing was committed for {idle:.0f} s"
    if progress.absent_since is not None and now - progress.absent_since >= limit:
        seconds = now - progress.absent_since
        yield f"the brokers answer, and it has not been a member of its group for {seconds:.0f} s"
    parked = progress.waiting_events + progress.dead_events
    if progress.max_parked_events is not None and parked >= progress.max_parked_events:
        yield f"the parking limit is reached: {parked:,} of {progress.max_parked_events:,} events"
    if progress.max_parked_bytes is not None and progress.parked_bytes >= progress.max_parked_bytes:
        yield (f"the parking limit is reached: {progress.parked_bytes:,} of {progress.max_parked_bytes:,} bytes")


def _hindrances(progress: Progress) -> Iterator[str]:
    """Yield what needs the operator's attention."""
    if progress.outage:
        yield f"waiting for {progress.outage}"
    if progress.absent_since is not None:
        yield "it is not a member of its group"
    if progress.gap_seconds is not None:
        yield f"an event has been missing for {progress.gap_seconds:.0f} s"
    if progress.dead_events:
        yield f"{counted(progress.dead_events, 'parked event')} to retry or skip"
    yield from (f"paused: {paused}" for paused in progress.paused)


def _relay_stops(progress: RelayProgress, now: float, limit: float) -> Iterator[str]:
    """Yield the reasons why a relay makes no progress; one that stands by needs to make none."""
    silent = now - (progress.started_at if progress.polled_at is None else progress.polled_at)
    if silent >= limit:
        yield f"the relay's loop has not run for {silent:.0f} s"
    if progress.waiting_since is not None:
        idle = now - max(progress.waiting_since, progress.delivered_at or progress.waiting_since)
        if idle >= limit:
            yield f"events were read, but none was delivered for {idle:.0f} s"
    if progress.failing_since is not None and now - progress.failing_since >= limit:
        yield f"every attempt has failed for {now - progress.failing_since:.0f} s"


def _relay_hindrances(progress: RelayProgress, now: float) -> Iterator[str]:
    """Yield what of a relay needs the operator's attention."""
    if progress.silent_since is not None:
        yield f"the {progress.silent} has not answered for {now - progress.silent_since:.0f} s"
    if progress.failing_since is not None:
        yield f"the last attempt failed: {progress.error}"
    if progress.warning:
        yield progress.warning
