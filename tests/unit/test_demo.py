"""How long the demo's writers write, when it ends its services, and what is said of a run that failed."""

import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
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


SLOW = """
import signal, sys
open(sys.argv[1]).read()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("INFO", sys.argv[2], file=sys.stderr, flush=True)
signal.pause()
"""


class Released(threading.Event):
    """An event whose first wait lets a service start at last."""

    def __init__(self, fifo: Path) -> None:
        super().__init__()
        self._fifo = fifo

    def wait(self, timeout: float | None = None) -> bool:
        if self._fifo.exists():
            self._fifo.write_text("")  # returns when the service has opened it
            self._fifo.unlink()
        return super().wait(timeout)


@pytest.mark.parametrize(
    "text", ["log reads consumer=shipping", "log reading slot orders", "log standing by: the slot"]
)
def test_a_service_that_is_slow_to_start_is_ended_once_it_has_joined(
    text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    service = demo.Service([sys.executable, "-c", SLOW, str(fifo), text], os.environ)
    service.joined = Released(fifo)
    assert demo.end([service]) == [0]
    assert capfd.readouterr().err == f"INFO {text}\n"


def test_a_service_that_died_before_it_joined_is_not_waited_for_and_one_that_the_demo_killed_does_not_count() -> None:
    dying, died = (demo.Service([sys.executable, "-c", "raise SystemExit(3)"], os.environ) for _ in range(2))
    killed = demo.Service([sys.executable, "-c", "import signal; signal.pause()"], os.environ)
    killed.kill()
    for ended in (died, killed):
        ended.wait()
    assert demo.end([dying, died, killed]) == [3, 3]
