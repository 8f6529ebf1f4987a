"""One line that changes on a terminal, and few that stay elsewhere."""

import io
import logging
import os
import threading
from dataclasses import replace

import pytest

from cdc_outbox.cli.progress import ProgressLine, progress_line
from cdc_outbox.telemetry import Progress
from tests.support.patience import patience

START = Progress(consumer="shipping", started_at=0.0, events=0, lag_events=500_000)


class Screen(io.StringIO):
    """A terminal, or a file."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal
        self.written = threading.Event()

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        length = super().write(text)
        self.written.set()
        return length


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(autouse=True)
def usual_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")


@pytest.mark.parametrize(
    ("progress", "earlier", "seconds", "line"),
    [
        (START, START, 0, "shipping: 0 events, 500,000 to go"),
        (
            replace(START, events=120_000, lag_events=380_000),
            START,
            10,
            "shipping: 120,000 events, 12,000/s, 380,000 to go, 32 s left",
        ),
        # 12,000 a second are applied, and 10,000 a second are written.
        (
            replace(START, events=120_000, lag_events=480_000),
            START,
            10,
            "shipping: 120,000 events, 12,000/s, 480,000 to go, 4 min 0 s left",
        ),
        (
            replace(START, events=120_000, lag_events=500_001),
            START,
            10,
            "shipping: 120,000 events, 12,000/s, 500,001 to go, not catching up",
        ),
        (
            replace(START, outage="the database"),
            START,
            1,
            "shipping: 0 events, 0/s, 500,000 to go, not catching up, waiting for the database",
        ),
        (replace(START, events=5, lag_events=0), START, 1, "shipping: 5 events, 5/s, 0 to go"),
        (replace(START, events=5, lag_events=None), START, 1, "shipping: 5 events, 5/s"),
        (replace(START, events=5), replace(START, lag_events=None), 1, "shipping: 5 events, 5/s, 500,000 to go"),
    ],
)
def test_a_line_says_what_is_done_how_fast_and_how_long_the_rest_takes(
    progress: Progress, earlier: Progress, seconds: float, line: str
) -> None:
    assert progress_line(progress, earlier, seconds=seconds) == line


@pytest.mark.parametrize(
    ("shrinking", "left"), [(1_000, "8 min 10 s"), (100, "1 h 21 min"), (1, "5 d 16 h"), (490_000, "1 s")]
)
def test_the_time_left_has_two_units(shrinking: int, left: str) -> None:
    now = replace(START, events=1, lag_events=490_000)
    assert progress_line(now, replace(now, lag_events=490_000 + shrinking), seconds=1).endswith(f", {left} left")


def test_on_a_terminal_each_line_takes_the_place_of_the_last_and_the_end_leaves_nothing(clock: Clock) -> None:
    screen = Screen(is_terminal=True)
    line = ProgressLine(screen, clock=clock)
    for events in (0, 1000, 499_500):
        line.show(replace(START, events=events, lag_events=500_000 - events))
        clock.now += 0.5
    first, second, after = screen.getvalue().split("\r\x1b[K")[1:]
    assert (first, second) == (
        "shipping: 0 events, 500,000 to go",
        "shipping: 1,000 events, 2,000/s, 499,000 to go, 4 min 10 s left",
    )
    assert after == ""


def test_a_line_is_never_longer_than_the_terminal(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    screen = Screen(is_terminal=True)
    ProgressLine(screen, clock=clock).show(START)
    assert screen.getvalue() == "\r\x1b[Kshipping: 0 events,"


@pytest.mark.parametrize(("is_terminal", "term"), [(False, "xterm"), (True, "dumb")])
def test_elsewhere_a_line_is_added_every_half_a_minute(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool, term: str
) -> None:
    monkeypatch.setenv("TERM", term)
    screen = Screen(is_terminal=is_terminal)
    line = ProgressLine(screen, clock=clock)
    for tick in range(121):
        line.show(replace(START, events=tick * 1000, lag_events=500_000 - tick * 1000))
        clock.now += 0.5
    assert screen.getvalue().splitlines() == [
        "shipping: 0 events, 500,000 to go",
        "shipping: 60,000 events, 2,000/s, 440,000 to go, 3 min 40 s left",
        "shipping: 120,000 events, 2,000/s, 380,000 to go, 3 min 10 s left",
    ]


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("lag", [None, 0, 999])
def test_who_has_little_to_catch_up_with_is_not_watched(clock: Clock, lag: int | None, *, is_terminal: bool) -> None:
    screen = Screen(is_terminal=is_terminal)
    ProgressLine(screen, clock=clock).show(replace(START, lag_events=lag))
    assert screen.getvalue() == ""


def test_the_rate_is_that_of_the_last_seconds(clock: Clock) -> None:
    screen = Screen(is_terminal=True)
    line = ProgressLine(screen, clock=clock)
    for events in (*range(0, 100_000, 1000), *[99_000] * 21):
        line.show(replace(START, events=events))
        clock.now += 0.5
    assert screen.getvalue().endswith("shipping: 99,000 events, 0/s, 500,000 to go, not catching up")


def test_a_log_record_gets_a_line_of_its_own(clock: Clock) -> None:
    screen = Screen(is_terminal=True)
    line = ProgressLine(screen, clock=clock)
    log = logging.StreamHandler(screen)
    log.addFilter(line)
    line.show(START)
    for text in ("first", "second"):
        log.handle(logging.makeLogRecord({"msg": text}))
    assert screen.getvalue().endswith("to go\r\x1b[Kfirst\nsecond\n")


def test_whoever_looked_may_go(clock: Clock) -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", encoding="utf-8") as pipe:  # noqa: PTH123 - a descriptor
        ProgressLine(pipe, clock=clock).show(START)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, write)  # what is still held back goes there at the end
        os.close(null)


def test_it_follows_a_consumer_until_the_end() -> None:
    class Busy:
        def progress(self) -> Progress:
            return START

    screen = Screen(is_terminal=True)
    with ProgressLine(screen).following(Busy()):
        assert screen.written.wait(timeout=patience())
    assert screen.getvalue().endswith("500,000 to go\r\x1b[K")
    assert "cdc-outbox progress" not in [thread.name for thread in threading.enumerate()]
