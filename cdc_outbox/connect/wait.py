"""When a connector counts as up: it and all its tasks run, and stay so."""

import time
from collections.abc import Callable
from enum import StrEnum

from cdc_outbox.connect.client import ConnectClient, ConnectorStatus
from cdc_outbox.errors import (
    ConnectorFailedError,
    ConnectorNotFoundError,
    ConnectUnavailableError,
    RebalanceError,
)

_LOOK_SECONDS = 0.25
_FAILED_SECONDS = 3.0
"""How long a failure must last to be believed: after a restart Connect shows the last generation's for a moment."""


class Condition(StrEnum):
    """What a status amounts to."""

    UP = "up"
    PENDING = "pending"
    FAILED = "failed"


def condition_of(status: ConnectorStatus | None) -> Condition:
    """Return what a status amounts to; ``None`` stands for a connector that Connect does not know yet.

    A connector without tasks is not up: Connect says RUNNING before it has made any.
    """
    if status is None:
        return Condition.PENDING
    states = [status.state, *(task.state for task in status.tasks)]
    if "FAILED" in states:
        return Condition.FAILED
    return Condition.UP if status.tasks and set(states) == {"RUNNING"} else Condition.PENDING


def wait_until_up(
    client: ConnectClient,
    name: str,
    *,
    stable_seconds: float,
    timeout_seconds: float,
    report: Callable[[str], None],
) -> ConnectorStatus:
    """Wait until a connector and all its tasks run and have done so for ``stable_seconds``.

    A worker that goes away meanwhile is waited for.

    Args:
        timeout_seconds: For all of them to run at first; staying so has its own time.

    Raises:
        ConnectorFailedError: A task failed, with its trace, or the time is over.
    """
    deadline = time.monotonic() + timeout_seconds
    condition, since, status = Condition.PENDING, time.monotonic(), None
    while True:
        status = _look(client, name)
        now, found = time.monotonic(), condition_of(status)
        if found is not condition:
            condition, since = found, now
            report(describe(status))
        lasted = now - since
        if condition is Condition.UP and status is not None and lasted >= stable_seconds:
            if stable_seconds:
                report(f"stayed so for {stable_seconds:g} s")
            return status
        if condition is Condition.FAILED and status is not None and lasted >= _FAILED_SECONDS:
            raise ConnectorFailedError(f"{name}: {describe(status)}", trace=_trace(status))
        if condition is not Condition.UP and now >= deadline:
            raise ConnectorFailedError(
                f"{name} did not come up within {timeout_seconds:g} s: {describe(status)}",
                hint="Look into the Connect worker's log.",
            )
        time.sleep(_LOOK_SECONDS)


def wait_until_known(client: ConnectClient, name: str, *, timeout_seconds: float) -> ConnectorStatus:
    """Return a connector's status as soon as Connect has one; right after it was made, there is none."""
    found: list[ConnectorStatus] = []

    def is_known() -> bool:
        status = _look(client, name)
        found.extend([status] if status else [])
        return bool(found)

    wait_until(is_known, f"Connect to know {name}", timeout_seconds=timeout_seconds)
    return found[0]


def wait_until(holds: Callable[[], bool], what: str, *, timeout_seconds: float) -> None:
    """Wait until a condition holds.

    Raises:
        ConnectorFailedError: It did not within the time.
    """
    deadline = time.monotonic() + timeout_seconds
    while not holds():
        if time.monotonic() >= deadline:
            raise ConnectorFailedError(f"waited {timeout_seconds:g} s in vain for {what}")
        time.sleep(_LOOK_SECONDS)


def describe(status: ConnectorStatus | None) -> str:
    """Say a status in one line: ``connector RUNNING, 1 task RUNNING``."""
    if status is None:
        return "not known to Connect yet"
    states = sorted({task.state for task in status.tasks})
    counts = [(sum(task.state == state for task in status.tasks), state) for state in states]
    tasks = ", ".join(f"{count} task{'s' * (count > 1)} {state}" for count, state in counts) or "no task yet"
    return f"connector {status.state}, {tasks}"


def _look(client: ConnectClient, name: str) -> ConnectorStatus | None:
    try:
        return client.find_status(name)
    except (ConnectorNotFoundError, ConnectUnavailableError, RebalanceError):
        return None


def _trace(status: ConnectorStatus) -> str:
    traces = [status.trace, *(task.trace for task in status.tasks if task.state == "FAILED")]
    return next(filter(None, traces), "")
