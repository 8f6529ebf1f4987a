from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cdc_outbox.connect import wait
from cdc_outbox.connect.client import ConnectorStatus, TaskStatus
from cdc_outbox.connect.timings import Timings
from cdc_outbox.connect.wait import Condition, condition_of, describe, wait_until, wait_until_up
from cdc_outbox.errors import ConnectError, ConnectorFailedError, ConnectUnavailableError


def status(state: str, *tasks: str) -> ConnectorStatus:
    return ConnectorStatus(state, tuple(TaskStatus(number, task) for number, task in enumerate(tasks)))


@pytest.mark.parametrize(
    ("found", "condition"),
    [
        (None, Condition.PENDING),
        (status("RUNNING"), Condition.PENDING),
        (status("RUNNING", "RUNNING"), Condition.UP),
        (status("RUNNING", "RUNNING", "UNASSIGNED"), Condition.PENDING),
        (status("RUNNING", "RESTARTING"), Condition.PENDING),
        (status("RUNNING", "RUNNING", "FAILED"), Condition.FAILED),
        (status("FAILED"), Condition.FAILED),
        (status("UNASSIGNED", "RUNNING"), Condition.PENDING),
        (status("PAUSED", "PAUSED"), Condition.PENDING),
        (status("STOPPED"), Condition.PENDING),
    ],
)
def test_a_connector_is_up_when_it_and_every_task_runs(found: ConnectorStatus | None, condition: Condition) -> None:
    assert condition_of(found) is condition


def test_a_status_is_one_line() -> None:
    assert describe(status("RUNNING", "RUNNING", "FAILED", "RUNNING")) == (
        "connector RUNNING, 1 task FAILED, 2 tasks RUNNING"
    )
    assert describe(status("STOPPED")) == "connector STOPPED, no task"
    assert describe(status("RUNNING")) == "connector RUNNING, no task yet"
    assert describe(None) == "not known to Connect yet"


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(wait, "time", made)
    return made


TIMINGS, BRIEF = Timings(timeout_seconds=60), Timings(timeout_seconds=2)
UP, GONE = status("RUNNING", "RUNNING"), None
FAILED = ConnectorStatus("RUNNING", (TaskStatus(0, "FAILED", "java.lang.Boom"),))


class Worker:
    """A client whose answers depend on the time; ``None`` is no answer at all."""

    def __init__(self, clock: Clock, answer: Callable[[float], ConnectorStatus | None]) -> None:
        self._clock = clock
        self._answer = answer
        self.restarted_at: list[float] = []

    def restart(self, _name: str, *, only_failed: bool) -> None:
        assert only_failed
        if self._answer(self._clock.now) is None:
            raise ConnectUnavailableError("nobody answers")
        self.restarted_at.append(self._clock.now)

    def glance_at(self, _name: str) -> ConnectorStatus:
        found = self._answer(self._clock.now)
        if found is None:
            raise ConnectUnavailableError("nobody answers")
        return found


def wait_for(
    clock: Clock, answer: Callable[[float], ConnectorStatus | None], timings: Timings = TIMINGS, worker: Any = None
) -> None:
    worker = worker or Worker(clock, answer)
    wait_until_up(worker, "orders", stable_seconds=10, timings=timings, report=lambda _text: None)


def test_a_worker_that_goes_away_during_the_stable_time_is_waited_for(clock: Clock) -> None:
    """It came up late, and the one look that fails lies behind the deadline for coming up."""
    wait_for(clock, lambda now: GONE if now < 55 or 61 <= now < 61.5 else UP)
    assert clock.now == pytest.approx(71.5, abs=0.5)


def test_a_failure_at_the_deadline_keeps_its_trace(clock: Clock) -> None:
    with pytest.raises(ConnectorFailedError) as caught:
        wait_for(clock, lambda now: GONE if now < 58.5 else FAILED)
    assert caught.value.trace == "java.lang.Boom"


@pytest.mark.parametrize("seconds", [1.0, 5.0])
def test_a_failure_counts_once_it_has_lasted(clock: Clock, seconds: float) -> None:
    timings = replace(TIMINGS, failed_seconds=seconds)
    with pytest.raises(ConnectorFailedError):
        wait_for(clock, lambda now: FAILED if now >= 10 else GONE, timings)
    assert clock.now == pytest.approx(10 + seconds, abs=0.5)


def test_a_failure_that_passes_does_not_count(clock: Clock) -> None:
    wait_for(clock, lambda now: FAILED if 10 <= now < 14 else UP, replace(TIMINGS, failed_seconds=5))
    assert clock.now == pytest.approx(24, abs=0.5)


def test_what_comes_and_goes_is_not_waited_for_for_ever(clock: Clock) -> None:
    with pytest.raises(ConnectorFailedError, match="never ran for 10 s without interruption"):
        wait_for(clock, lambda now: UP if now % 10 < 5 else GONE)
    assert clock.now < 140


def test_what_never_comes_up_fails_in_time(clock: Clock) -> None:
    with pytest.raises(ConnectorFailedError, match=f"did not start within {TIMINGS.timeout_seconds:g} s"):
        wait_for(clock, lambda _now: status("RUNNING"))
    assert clock.now == pytest.approx(TIMINGS.timeout_seconds, abs=0.5)


def test_a_connector_is_not_blamed_for_workers_that_do_not_answer(clock: Clock) -> None:
    with pytest.raises(ConnectUnavailableError, match="nobody answers"):
        wait_for(clock, lambda now: UP if now < 5 else GONE)
    assert clock.now == pytest.approx(5 + TIMINGS.timeout_seconds, abs=0.5)

    def silent() -> bool:
        raise ConnectUnavailableError("nobody answers")

    with pytest.raises(ConnectUnavailableError, match="nobody answers"):
        wait_until(silent, "something", timings=BRIEF)


def test_a_condition_is_looked_at_again_after_an_answer_that_did_not_come(clock: Clock) -> None:
    def holds() -> bool:
        if clock.now < 1:
            raise ConnectUnavailableError("nobody answers")
        return True

    wait_until(holds, "something", timings=BRIEF)
    with pytest.raises(ConnectorFailedError, match="waiting for something"):
        wait_until(lambda: False, "something", timings=BRIEF)


RACE = (
    "RejectedExecutionException: Task x.KafkaSchemaHistory$1@2 rejected from java.util.concurrent.ThreadPoolExecutor@3"
)


def test_a_task_that_failed_by_a_race_is_restarted_once(clock: Clock) -> None:
    failed = ConnectorStatus("RUNNING", (TaskStatus(0, "FAILED", trace=RACE),))

    def answer(now: float) -> ConnectorStatus:
        return UP if any(now > at + 1 for at in cured.restarted_at) else failed

    cured: Any = Worker(clock, answer)
    wait_for(clock, answer, worker=cured)
    assert len(cured.restarted_at) == 1
    lasting: Any = Worker(clock, lambda _now: failed)
    with pytest.raises(ConnectorFailedError, match="schema history"):
        wait_for(clock, lambda _now: failed, worker=lasting)
    assert len(lasting.restarted_at) == 1


def test_a_restart_that_is_refused_leaves_the_failure_as_it_is(clock: Clock) -> None:
    failed = ConnectorStatus("RUNNING", (TaskStatus(0, "FAILED", trace=RACE),))

    class Refusing(Worker):
        def restart(self, _name: str, *, only_failed: bool) -> None:
            raise ConnectError(f"403: {only_failed}")

    worker: Any = Refusing(clock, lambda _now: failed)
    with pytest.raises(ConnectorFailedError, match="schema history") as caught:
        wait_for(clock, lambda _now: failed, worker=worker)
    assert caught.value.trace == RACE
