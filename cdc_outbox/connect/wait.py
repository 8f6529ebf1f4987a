"""When a connector counts as up: it and all its tasks run, its slot is read, and all of that stays so."""

import math
import time
from collections import Counter
from collections.abc import Callable
from enum import StrEnum

from cdc_outbox.connect.client import ConnectClient, ConnectorStatus
from cdc_outbox.connect.timings import Timings
from cdc_outbox.debezium.diagnosis import Diagnosis, diagnosis_of
from cdc_outbox.errors import (
    ConnectError,
    ConnectorFailedError,
    ConnectorNotFoundError,
    ConnectUnavailableError,
    RebalanceError,
)

PASSING = (ConnectorNotFoundError, ConnectUnavailableError, RebalanceError)
"""What a worker answers, or not, while it starts, is gone or makes room; it is asked again."""

_UNREAD = (
    "Check that the DSN and the spec's host lead to the same server. If not, drop the slot that was created on the "
    "wrong one."
)


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


class ReadinessProbe:
    """A connector's condition over time; a worker that goes away is waited for.

    Args:
        timings: Its timeout is how long the connector may go without being up, at first and each time it was.
    """

    def __init__(self, client: ConnectClient, name: str, *, timings: Timings, report: Callable[[str], None]) -> None:
        self._client = client
        self._name = name
        self._timings = timings
        self._report = report
        self._condition = Condition.PENDING
        self._since = self._last_up = time.monotonic()
        self._was_restarted = False

    def look(self) -> float | None:
        """Return for how many seconds it has been up, ``None`` if it is not.

        A task is restarted once if its failure is a race (:attr:`Diagnosis.is_race`).

        Raises:
            ConnectorFailedError: It failed, with the trace, or was not up for too long.
            ConnectUnavailableError, RebalanceError: It was not up for too long, and no worker says why.
        """
        status, silence = _look(self._client, self._name)
        now, found = time.monotonic(), condition_of(status)
        if found is not self._condition:
            self._condition, self._since = found, now
            self._report(describe(status))
        lasted = now - self._since
        if found is Condition.UP:
            self._last_up = now
            return lasted
        if found is Condition.FAILED and lasted >= self._timings.failed_seconds:
            cause = reason_of(status)
            if self._was_restarted or cause is None or not cause.is_race:
                raise failure(f"{self._name}: {describe(status)}", status)
            try:
                self._client.restart(self._name, only_failed=True)
            except PASSING:  # the next look tries again
                return None
            except ConnectError as error:
                raise failure(f"{self._name}: {describe(status)}", status) from error
            self._was_restarted, self._since = True, time.monotonic()
            self._report(f"restarted what failed: {cause.sentence}")
            return None
        if now - self._last_up >= self._timings.timeout_seconds:
            if silence is not None and silence.retryable:
                raise silence
            waited = f"{self._name} did not start within {self._timings.timeout_seconds:g} s: {describe(status)}"
            raise failure(waited, status, hint="Check the Connect worker's log.")
        return None


def wait_until_up(
    client: ConnectClient,
    name: str,
    *,
    stable_seconds: float,
    timings: Timings,
    report: Callable[[str], None],
    read_seconds: Callable[[], float | None] = lambda: math.inf,
) -> None:
    """Wait until a connector and all its tasks run, its slot is read, and both have lasted for ``stable_seconds``.

    Args:
        timings: Its timeout is for all of them to run; it restarts if they ran and ceased to, but no more than twice in
            all. The slot has as long from then on.
        read_seconds: Return for how many seconds the slot has been read, ``None`` if it is not.

    Raises:
        ConnectorFailedError: A task failed, with its trace, or the time is over.
        ConnectUnavailableError, RebalanceError: The time is over, and no worker says why.
    """
    watch = ReadinessProbe(client, name, timings=timings, report=report)
    deadline = time.monotonic() + 2 * timings.timeout_seconds + stable_seconds
    while True:
        up_seconds, lasted = watch.look(), read_seconds()
        if up_seconds is not None and up_seconds >= stable_seconds:
            if lasted is not None and lasted >= stable_seconds:
                if stable_seconds:
                    report(f"ran without interruption for {stable_seconds:g} s")
                return
            if up_seconds >= stable_seconds + timings.timeout_seconds:
                what = f"{name} to read its slot, although it runs"
                raise ConnectorFailedError(
                    f"timed out after {timings.timeout_seconds:g} s waiting for {what}", hint=_UNREAD
                )
        if up_seconds is None and time.monotonic() >= deadline:
            raise ConnectorFailedError(f"{name} started, but never ran for {stable_seconds:g} s without interruption")
        time.sleep(timings.poll_seconds)


def wait_until_known(client: ConnectClient, name: str, *, timings: Timings) -> ConnectorStatus:
    """Return a connector's status as soon as Connect has one; right after it was made, there is none."""
    found: list[ConnectorStatus] = []

    def is_known() -> bool:
        found.append(client.glance_at(name))
        return True

    wait_until(is_known, f"Connect to know {name}", timings=timings)
    return found[0]


def wait_until(
    holds: Callable[[], bool],
    what: str,
    *,
    timings: Timings,
    timeout_seconds: float | None = None,
    hint: str = "",
) -> None:
    """Wait until a condition holds; while Connect does not answer, it does not.

    Args:
        timeout_seconds: ``None`` is that of ``timings``.

    Raises:
        ConnectorFailedError: It did not within the time.
        ConnectUnavailableError, RebalanceError: Nor did Connect answer at the end of it.
    """
    seconds = timings.timeout_seconds if timeout_seconds is None else timeout_seconds
    deadline = time.monotonic() + seconds
    while True:
        silence: ConnectError | None = None
        try:
            if holds():
                return
        except PASSING as error:
            silence = error
        if time.monotonic() >= deadline:
            if silence is not None and silence.retryable:
                raise silence
            raise ConnectorFailedError(f"timed out after {seconds:g} s waiting for {what}", hint=hint) from silence
        time.sleep(timings.poll_seconds)


def describe(status: ConnectorStatus | None) -> str:
    """Say a status in one line: ``connector RUNNING, 1 task RUNNING``."""
    if status is None:
        return "not known to Connect yet"
    counts = sorted(Counter(task.state for task in status.tasks).items())
    tasks = ", ".join(f"{count} task{'s' * (count > 1)} {state}" for state, count in counts)
    tasks = tasks or ("no task" if status.is_halted else "no task yet")
    return f"connector {status.state}, {tasks}"


def failure(message: str, status: ConnectorStatus | None, *, hint: str = "") -> ConnectorFailedError:
    """Return the error for a connector that does not run: with its trace, and the reason and a remedy where known.

    Args:
        hint: Where they are not.
    """
    trace = trace_of(status)
    cause = diagnosis_of(trace)
    if cause is None:
        return ConnectorFailedError(message, trace=trace, hint=hint)
    return ConnectorFailedError(f"{message}. {cause.sentence}", trace=trace, hint=cause.remedy)


def reason_of(status: ConnectorStatus | None) -> Diagnosis | None:
    """Return why something failed, in the trace's own first line where no more is known; ``None`` without a trace."""
    trace = trace_of(status)
    return diagnosis_of(trace) or (Diagnosis(trace.splitlines()[0], remedy="") if trace else None)


def _look(client: ConnectClient, name: str) -> tuple[ConnectorStatus | None, ConnectError | None]:
    """Return the status, or why there is none."""
    try:
        return client.glance_at(name), None
    except PASSING as silence:
        return None, silence


def trace_of(status: ConnectorStatus | None) -> str:
    """Return the trace of what failed first, empty if nothing did."""
    if status is None:
        return ""
    traces = [status.trace, *(task.trace for task in status.tasks if task.state == "FAILED")]
    return next(filter(None, traces), "")
