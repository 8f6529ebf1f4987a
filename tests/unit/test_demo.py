"""How long the demo's writers write, and what is said of a run that failed."""

import signal
import threading
from collections.abc import Callable
from dataclasses import fields
from unittest.mock import Mock

import pytest

from examples.orders import demo
from examples.orders.evidence import Evidence

SHARE = demo.ORDERS // demo.WRITERS


@pytest.fixture
def evidence() -> Callable[..., Evidence]:
    return lambda **counts: Evidence(**{field.name: 0 for field in fields(Evidence)} | counts)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "WAVE_SECONDS", 0)


def test_writers_place_their_share_where_the_kills_hit_in_time() -> None:
    killed = threading.Event()
    placed = 0
    for placed, _ in enumerate(demo.numbers(killed), 1):
        if placed == SHARE // 2:
            killed.set()
    assert placed == SHARE


def test_writers_go_on_until_the_kills_have_hit_and_not_for_ever() -> None:
    killed = threading.Event()
    numbers = []
    for number in demo.numbers(killed):
        numbers.append(number)
        if number == 2 * SHARE:
            killed.set()
    assert numbers == list(range(2 * SHARE + 1))
    assert len(list(demo.numbers(threading.Event()))) == demo.MOST * SHARE


def test_a_failure_is_told_with_its_cause_before_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], evidence: Callable[..., Evidence]
) -> None:
    monkeypatch.setattr(signal, "signal", Mock())
    monkeypatch.setattr("sys.argv", ["demo"])
    monkeypatch.setattr(demo, "show", lambda **_: (["nothing was in flight"], evidence(lost=1)))
    assert demo.main() == 1
    *_, missed, broken, end = capsys.readouterr().out.splitlines()
    assert (missed, broken) == ("FAILED: nothing was in flight", "FAILED: a promise was broken")
    assert end.startswith("done in ")
    monkeypatch.setattr(demo, "show", lambda **_: ([], evidence()))
    assert demo.main() == 0
    assert "FAILED" not in capsys.readouterr().out
