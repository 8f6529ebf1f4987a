"""How long is waited before something is tried again."""

from random import Random

import pytest

from cdc_outbox.backoff import Backoff


def test_each_pause_is_twice_the_one_before_up_to_the_longest() -> None:
    backoff = Backoff(0.25, 4)
    assert [backoff.pause(earlier) for earlier in range(7)] == [0.25, 0.5, 1, 2, 4, 4, 4]


def test_pauses_without_number_have_a_length_all_the_same() -> None:
    assert Backoff(5, 600).pause(10**6) == 600


def test_the_longest_pause_is_the_first_one_too_where_it_is_shorter() -> None:
    assert Backoff(5, 1).pause(0) == 1


@pytest.mark.parametrize("earlier", [0, 2, 10])
def test_jitter_makes_a_pause_up_to_a_quarter_shorter_and_never_longer(earlier: int) -> None:
    random, whole = Random(1), Backoff(0.25, 4).pause(earlier)  # noqa: S311 - no secret
    found = [Backoff(0.25, 4).pause(earlier, random) for _ in range(200)]
    assert 0.75 * whole <= min(found) < 0.8 * whole
    assert 0.95 * whole < max(found) <= whole


def test_pauses_end_with_the_time_that_they_have() -> None:
    now, taken = [0.0], []
    for pause in Backoff(0.25, 4).within(30, lambda: now[0]):
        taken.append(pause)
        now[0] += pause
    assert taken[:6] == [0.25, 0.5, 1, 2, 4, 4]
    assert sum(taken) == 30


def test_an_attempt_that_takes_long_to_fail_leaves_no_pause() -> None:
    now = [0.0]
    left = Backoff(0.25, 4).within(30, lambda: now[0])
    now[0] = 50.0
    assert list(left) == []
