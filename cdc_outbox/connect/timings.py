"""How long is waited for Connect's workers, for connectors and for slots, and how often each is looked at."""

from dataclasses import dataclass, fields

from cdc_outbox.backoff import Backoff
from cdc_outbox.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """What a deployment, its rollback, lifecycle commands and the REST client wait for.

    Args:
        timeout_seconds: How long each step may take, such as until connector and tasks run at all. A rebalance and a
            slow login fit in.
        poll_seconds: Between two looks at what is waited for.
        probe_seconds: How long each system may take to answer ``status``, ``doctor`` and ``verify`` at all, and Connect
            to validate for ``doctor``, which waits for the database: a worker is busy with another connector, or a
            login goes over a slow network.
        known_seconds: How long ``doctor`` and ``plan`` wait for Connect to know a connector that was just made.
        failed_seconds: How long a failure must last to be believed: after a restart Connect shows the last generation's
            for a moment.
        stale_seconds: How long one of several workers may show the configuration that was before.
        linger_seconds: How long the server may hold a slot for a reader that is gone.
        snapshot_seconds: How long rows may take that are published again; a million take about a minute.
        restored_seconds: For how long what ran before must run again after a rollback: the failure of the change shows
            for a moment after it is gone.
        late_seconds: How long a worker may still be busy with a request whose sender did not wait for the answer.
        reach_seconds: How long a connection to a worker may take.
        answer_seconds: How long a worker's answer may take: a validation opens a database connection, which may take
            its time.
        first_pause_seconds: Before a request is repeated. Each further pause is twice as long.
        longest_pause_seconds: The longest of these pauses.
    """

    timeout_seconds: float = 60.0
    poll_seconds: float = 0.25
    probe_seconds: float = 7.0
    known_seconds: float = 30.0
    failed_seconds: float = 3.0
    stale_seconds: float = 3.0
    linger_seconds: float = 10.0
    snapshot_seconds: float = 3600.0
    restored_seconds: float = 2.0
    late_seconds: float = 3.0
    reach_seconds: float = 5.0
    answer_seconds: float = 60.0
    first_pause_seconds: float = 0.25
    longest_pause_seconds: float = 4.0

    def __post_init__(self) -> None:
        for field in fields(self):
            if not getattr(self, field.name) > 0:
                raise ConfigError(f"{field.name} must be greater than 0", field=f"Timings.{field.name}")

    @property
    def backoff(self) -> Backoff:
        """The pauses before a request is repeated."""
        return Backoff(self.first_pause_seconds, self.longest_pause_seconds)
