"""When a failed connector is restarted, and when it is given up."""

import pytest

from cdc_outbox.connect.restart_policy import RestartAction, RestartOptions, RestartPolicy
from cdc_outbox.connect.wait import Condition
from cdc_outbox.errors import ConfigError

OPTIONS = RestartOptions(max_restarts=3, first_pause_seconds=5, max_pause_seconds=15, calm_seconds=100)


def acts(guard: RestartPolicy, condition: Condition, *moments: int) -> dict[int, RestartAction]:
    found: dict[int, RestartAction] = {}
    for moment in moments:
        act = guard.see(condition, float(moment))
        if act is RestartAction.RESTART:
            guard.restarted(float(moment))
        if act is not RestartAction.NOTHING:
            found[moment] = act
    return found


def test_a_failure_is_acted_upon_with_growing_pauses_and_given_up_at_the_end() -> None:
    found = acts(RestartPolicy(OPTIONS), Condition.FAILED, *range(100))
    assert dict(list(found.items())[:4]) == {
        5: RestartAction.RESTART,
        15: RestartAction.RESTART,
        30: RestartAction.RESTART,
        45: RestartAction.GIVE_UP,
    }


def test_a_failure_that_passes_by_itself_is_left_alone() -> None:
    guard = RestartPolicy(OPTIONS)
    assert acts(guard, Condition.FAILED, 0, 4) == {}
    assert acts(guard, Condition.UP, 5) == {}
    assert acts(guard, Condition.FAILED, 6, 10) == {}
    assert acts(guard, Condition.FAILED, 11) == {11: RestartAction.RESTART}


def test_one_that_fails_again_and_again_is_given_up_though_it_runs_in_between() -> None:
    guard = RestartPolicy(
        RestartOptions(max_restarts=3, first_pause_seconds=15, max_pause_seconds=15, calm_seconds=100)
    )
    found: list[RestartAction] = []
    for now in range(0, 400, 100):
        found += acts(guard, Condition.FAILED, now, now + 15).values()
        acts(guard, Condition.UP, now + 16, now + 99)
    assert found == [RestartAction.RESTART, RestartAction.RESTART, RestartAction.RESTART, RestartAction.GIVE_UP]


def test_one_that_runs_for_long_begins_anew() -> None:
    guard = RestartPolicy(OPTIONS)
    acts(guard, Condition.FAILED, 0, 5)
    assert guard.restarts == 1
    acts(guard, Condition.UP, 6, 106)
    assert guard.restarts == 0


def test_a_restart_that_could_not_be_made_does_not_count_and_is_tried_again() -> None:
    guard = RestartPolicy(OPTIONS)
    assert [guard.see(Condition.FAILED, moment) for moment in (0.0, 5.0, 6.0)] == [
        RestartAction.NOTHING,
        RestartAction.RESTART,
        RestartAction.RESTART,
    ]
    assert guard.restarts == 0


def test_what_is_paused_is_never_restarted() -> None:
    assert acts(RestartPolicy(OPTIONS), Condition.PENDING, *range(0, 1000, 10)) == {}


def test_a_guard_that_never_restarts_is_refused() -> None:
    with pytest.raises(ConfigError):
        RestartOptions(max_restarts=0)
