"""What becomes of an event whose handler failed."""

import logging
import sqlite3
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from cdc_outbox.consumer.item import Item
from cdc_outbox.consumer.parked_events import Failure, ParkedEvent, Reason, State
from cdc_outbox.consumer.retries import Retry, RetryTracker
from cdc_outbox.errors import ConfigError, DatabaseError, DuplicateEventError, HandlerError, MessageError
from cdc_outbox.message import Message
from tests.support.events import make_event

MESSAGE = Message(topic="t", key=b"1", value=b"{}", partition=0, offset=7)
ITEM = Item(event=make_event(1), message=MESSAGE)


class Clock:
    """Monotonic seconds, moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def parked(attempts: int) -> Item:
    row = ParkedEvent(
        parked_id=1,
        event_id=ITEM.event_id,
        state=State.WAITING,
        reason=Reason.FAILED,
        blocks=True,
        forced=False,
        attempts=attempts,
        message=MESSAGE,
        is_due=True,
        aggregate=ITEM.aggregate,
    )
    return replace(ITEM, parked=row)


def raised(cause: Exception) -> HandlerError:
    error = HandlerError("the handler raised")
    error.__cause__ = cause
    return error


def poison(clock: Clock | None = None, **retry: Any) -> RetryTracker:
    return RetryTracker(Retry(**retry), clock=clock or Clock())


def test_it_is_tried_again_at_once_with_growing_pauses_and_then_parked() -> None:
    clock, pauses = Clock(), []
    judge = poison(clock, inline_retry_seconds=2.0, first_pause_seconds=0.1)
    while True:
        item, pause = judge.judge(ITEM, raised(ValueError()))
        if pause is None:
            break
        assert item is ITEM
        pauses.append(pause)
        clock.now += pause
    assert len(pauses) == 4
    assert all(0.075 * 2**place <= pause <= 0.1 * 2**place for place, pause in enumerate(pauses))
    assert sum(pauses) <= 2.0
    assert item.failure
    assert (item.failure.reason, item.failure.state, item.failure.attempts) == (Reason.FAILED, State.WAITING, 1)


def test_a_traceback_is_logged_once_for_all_tries_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    clock, tries = Clock(), 0
    pause: float | None = 0.0
    judge = poison(clock)
    while pause is not None:
        _, pause = judge.judge(ITEM, raised(ValueError("the account is closed")))
        clock.now += pause or 0
        tries += 1
    assert tries > 3
    assert caplog.text.count("ValueError: the account is closed") == 1
    judge.judge(parked(1), raised(ValueError("the account is closed")))
    assert caplog.text.count("ValueError: the account is closed") == 2


def test_an_event_that_fails_again_is_not_told_as_another_one(caplog: pytest.LogCaptureFixture) -> None:
    judge = poison(inline_retry_seconds=0.0, max_attempts=4)
    for item in (ITEM, parked(0), parked(1), parked(2), parked(3)):
        judge.judge(item, raised(ValueError()))
    told = [(record.message, vars(record)["attempts"], "retry_seconds" in vars(record)) for record in caplog.records]
    assert told == [
        ("event is parked", 1, True),
        ("event is parked", 1, True),  # it waited for another one until now
        ("parked event failed again", 2, True),
        ("parked event failed again", 3, True),
        ("event is dead", 4, False),
    ]


def test_a_traceback_says_nothing_private_where_texts_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    error: BaseException | None = None
    try:
        try:
            int("card 4711")
        except ValueError:
            raise LookupError("card 4712")  # noqa: B904 - what it comes from is shown all the same
    except LookupError as caught:
        caught.add_note("card 4713")
        caught.__context__.__cause__ = caught  # type: ignore[union-attr]
        error = caught
    assert isinstance(error, LookupError)
    RetryTracker(Retry(error_texts=False), clock=Clock()).judge(ITEM, raised(error))
    [record] = [record for record in caplog.records if record.message == "handler failed"]
    told = logging.Formatter().format(record)
    assert all(word in told for word in ("Traceback", "test_retries.py", "ValueError", "LookupError"))
    assert "card" not in told.replace('"card 471', "")


def test_what_is_applied_after_a_hiccup_begins_anew() -> None:
    clock = Clock()
    judge = poison(clock)
    judge.judge(ITEM, raised(ValueError()))
    clock.now += 3600
    judge.forget([ITEM])
    assert judge.judge(ITEM, raised(ValueError()))[1] is not None


@pytest.mark.parametrize("kind", [DatabaseError, DuplicateEventError])
def test_what_an_outbox_raised_is_hopeless_by_the_drivers_own_error_too(kind: type[Exception]) -> None:
    error = kind("the outbox refused")
    error.__cause__ = sqlite3.IntegrityError("x")
    assert Retry(park_at_once=(sqlite3.IntegrityError,)).is_hopeless(error)
    assert Retry(park_at_once=(kind,)).is_hopeless(error)
    assert not Retry(park_at_once=(sqlite3.OperationalError,)).is_hopeless(error)


def test_what_comes_out_of_the_park_goes_back_at_once_for_twice_as_long() -> None:
    judge = poison(parked_pause_seconds=5.0, longest_pause_seconds=30.0, max_attempts=9)
    seconds = []
    for attempts in range(1, 8):
        item, pause = judge.judge(parked(attempts), raised(ValueError()))
        assert pause is None
        assert item.failure
        assert item.failure.attempts == attempts + 1
        seconds.append(item.failure.retry_seconds or 0)
    assert all(
        0.75 * expected <= found <= expected
        for found, expected in zip(seconds, [10, 20, 30, 30, 30, 30, 30], strict=True)
    )


@pytest.mark.parametrize(("attempts", "state"), [(1, State.WAITING), (2, State.DEAD)])
def test_after_its_attempts_it_is_dead(attempts: int, state: State) -> None:
    item, _ = poison(max_attempts=3).judge(parked(attempts), raised(ValueError()))
    assert item.failure
    assert item.failure.state is state


def test_what_another_try_cannot_mend_is_dead_at_once() -> None:
    judge = poison(park_at_once=(LookupError,))
    item, pause = judge.judge(ITEM, raised(KeyError()))
    assert pause is None
    assert item.failure == Failure(reason=Reason.FAILED, error="the handler raised", attempts=1)
    assert item.failure.state is State.DEAD
    assert judge.judge(ITEM, raised(ValueError()))[1] is not None


def test_a_message_that_breaks_the_contract_is_not_tried_again() -> None:
    item, pause = poison().judge(ITEM, MessageError("the id cannot be a key"))
    assert pause is None
    assert item.is_unreadable
    assert item.event_id.startswith("t[0]@7#")


@pytest.mark.parametrize(
    "wrong",
    [{"first_pause_seconds": 0}, {"parked_pause_seconds": -1}, {"inline_retry_seconds": -1}, {"max_attempts": 0}],
)
def test_a_retry_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Retry(**wrong)


def test_attempts_without_number_have_a_pause_all_the_same() -> None:
    retry = Retry(max_attempts=10**9)
    random = Random(1)  # noqa: S311 - no secret
    assert retry.parked_pause(10**6, random) is not None
    assert retry.inline_pause(10**6, 0, random) is None


def test_no_pause_of_either_kind_is_longer_than_the_longest() -> None:
    retry, random = Retry(inline_retry_seconds=60, longest_pause_seconds=0.4), Random(1)  # noqa: S311 - no secret
    inline = [retry.inline_pause(tries, 0, random) or 60 for tries in range(1, 9)]
    parked = [retry.parked_pause(attempts, random) or 60 for attempts in range(1, 9)]
    assert max(*inline, *parked) <= 0.4


def test_an_event_whose_partition_went_is_tried_from_the_first_when_it_comes_again() -> None:
    clock = Clock()
    judge = poison(clock, inline_retry_seconds=2.0)
    judge.judge(ITEM, raised(ValueError()))
    clock.now = 60.0
    judge.keep(lambda place: place == ITEM.topic_partition)
    assert judge.judge(ITEM, raised(ValueError()))[1] is None, "its two seconds are over"
    judge.keep(lambda place: place != ITEM.topic_partition)
    assert judge.judge(ITEM, raised(ValueError()))[1] is not None


def test_an_event_under_which_the_connection_breaks_three_times_is_dead_as_one_that_crashes() -> None:
    other = Item(event=make_event(1, "2"), message=MESSAGE)
    judge = poison()
    assert [judge.lost([each]) for each in (ITEM, other, ITEM, ITEM)] == [False, False, False, True]
    [judged, pause] = judge.judge(ITEM, HandlerError("the connection broke again"))
    assert judged.failure is not None
    assert (judged.failure.reason, judged.failure.state, pause) == (Reason.CRASHED, State.DEAD, None)
    judge.forget([ITEM])
    assert not judge.lost([ITEM])


def test_a_batch_under_which_the_connection_breaks_twice_is_handled_one_by_one() -> None:
    others = [Item(event=make_event(1, str(number)), message=MESSAGE) for number in range(2, 5)]
    judge = poison()
    assert [judge.lost([ITEM, *others]), judge.lost([ITEM, *others])] == [False, True]
    assert [judge.lost([ITEM]), judge.lost([ITEM])] == [False, True]
    assert judge.judge(others[0], raised(ValueError()))[0] is others[0], "it was only beside the one that did it"


def test_a_connection_that_broke_before_the_database_was_unreachable_is_no_events_failure() -> None:
    judge = poison()
    for _ in range(3):
        assert not judge.lost([ITEM])
        assert not judge.lost([])


@pytest.mark.parametrize(("attempts", "fields"), [(1, {"attempts", "retry_seconds"}), (9, {"attempts"})])
def test_what_is_logged_of_it_has_a_time_where_there_is_one(
    caplog: pytest.LogCaptureFixture, attempts: int, fields: set[str]
) -> None:
    poison(max_attempts=10).judge(parked(attempts), raised(ValueError()))
    [record] = caplog.records
    told = vars(record)
    assert {"attempts", "retry_seconds"} & told.keys() == fields
    assert told.get("retry_seconds") == (round(told["retry_seconds"], 2) if "retry_seconds" in fields else None)
