"""Steps are lines in a log, and one line that lives on a terminal."""

import io

import pytest

from cdc_outbox.cli.progress import Steps


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_elsewhere_each_step_is_a_line() -> None:
    stream = io.StringIO()
    steps = Steps(stream)
    with steps.shown():
        steps.report("preflight", "the database is ready")
        steps.report("wait", "connector RUNNING,\n1 task \x1b[2J RUNNING")
        steps.tick()
    assert stream.getvalue() == (
        "preflight  the database is ready\nwait       connector RUNNING,\\n1 task \\x1b[2J RUNNING\n"
    )
    assert [step for step, _ in steps.done] == ["preflight", "wait"]


def test_on_a_terminal_the_step_at_hand_shows_its_seconds_and_leaves_none_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream, now = Terminal(), [0.0]
    steps = Steps(stream, clock=lambda: now[0])
    steps.report("wait", "connector RUNNING")
    steps.tick()
    now[0] = 4.2
    steps.tick()
    steps.report("wait", "1 task RUNNING")
    shown = stream.getvalue().split("\r\x1b[K")
    assert shown == [
        "wait       connector RUNNING",
        "wait       connector RUNNING  (4 s)",
        "wait       connector RUNNING\nwait       1 task RUNNING",
    ]
    with steps.shown():
        pass
    assert stream.getvalue().endswith("\r\x1b[Kwait       1 task RUNNING\n")


def test_a_terminal_that_is_gone_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    steps = Steps(stream)
    stream.close = lambda: None  # type: ignore[method-assign]
    steps.report("plan", "nothing to change")
    io.StringIO.close(stream)
    steps.report("wait", "connector RUNNING")
    assert len(steps.done) == 2
