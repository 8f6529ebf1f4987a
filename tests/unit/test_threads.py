"""Threads of a test: they end with a block, and their errors are the test's."""

import threading

import pytest

from tests.support.patience import patience
from tests.support.threads import Threads


def fail() -> None:
    raise LookupError("in a thread")


def test_what_a_thread_returns_is_asked_for() -> None:
    with Threads() as threads:
        assert threads.submit(pow, 2, 3).result() == 8
        assert list(threads.map(abs, [-1, -2])) == [1, 2]


def test_an_error_that_is_not_asked_for_is_raised_at_the_end() -> None:
    with pytest.raises(LookupError, match="in a thread"), Threads() as threads:
        threads.submit(fail)


def test_an_error_that_was_asked_for_is_raised_once() -> None:
    with Threads() as threads:
        failing = threads.submit(fail)
        with pytest.raises(LookupError, match="in a thread"):
            failing.result()


def test_the_error_of_a_thread_explains_why_the_block_failed() -> None:
    def wait_in_vain() -> None:
        with Threads() as threads:
            threads.submit(fail)
            raise AssertionError

    with pytest.raises(LookupError, match="in a thread") as caught:
        wait_in_vain()
    assert isinstance(caught.value.__context__, AssertionError)


def test_a_thread_that_does_not_end_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr("tests.support.threads.patience", lambda _seconds: 0.01)
    with pytest.raises(AssertionError, match=r"waited in vain for the end of Event\.wait"), Threads() as threads:
        threads.submit(over.wait)
    over.set()


def test_as_many_run_at_a_time_as_there_are_places() -> None:
    running, most = set[int](), list[int]()

    def run(number: int) -> None:
        running.add(number)
        most.append(len(running))
        threading.Event().wait(0.001)
        running.remove(number)

    with Threads(2) as threads:
        list(threads.map(run, range(20)))
    assert len(most) == 20
    assert max(most) <= 2


def test_what_has_not_begun_when_the_block_fails_is_left_out() -> None:
    begun, over = threading.Event(), threading.Event()

    def run() -> None:
        begun.set()
        over.wait()

    def fail_early() -> None:
        with Threads(1) as threads:
            threads.submit(run)
            assert begun.wait(patience())
            threads.submit(fail).add_done_callback(lambda _late: over.set())
            raise AssertionError("the block's error")

    with pytest.raises(AssertionError, match="the block's error"):
        fail_early()
