"""Something that several processes use is made once, and ended when the last of them has left."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cdc_outbox.testing import sharing
from cdc_outbox.testing.sharing import shared
from tests.support.patience import patience
from tests.support.rig import eventually
from tests.support.threads import Threads


class Maker:
    """Makes numbers, and notes which of them were ended."""

    def __init__(self) -> None:
        self.made = 0
        self.ended: list[int] = []

    @contextmanager
    def __call__(self) -> Iterator[list[int]]:
        self.made += 1
        number = self.made
        yield [number]
        self.ended.append(number)


def test_the_second_gets_a_copy_and_the_first_ends_it_once_the_second_has_left(tmp_path: Path) -> None:
    maker, entered, leave = Maker(), threading.Event(), threading.Event()

    def second() -> list[int]:
        with shared(tmp_path, "it", maker, list[int]) as value:
            entered.set()
            leave.wait(patience())
            assert maker.ended == []
            return value

    def leave_later() -> None:
        leave.wait(0.1)
        leave.set()

    with Threads() as pool:
        with shared(tmp_path, "it", maker, list[int]) as first:
            copy = pool.submit(second)
            assert entered.wait(patience())
            pool.submit(leave_later)
        assert maker.ended == [1]
        assert leave.is_set()
        assert (copy.result(patience()), maker.made) == (first, 1)
        assert copy.result() is not first


def test_a_user_after_the_end_gets_another_one(tmp_path: Path) -> None:
    maker = Maker()
    for number in (1, 2):
        with shared(tmp_path, "it", maker, list[int]) as value:
            assert value == [number]
    assert maker.ended == [1, 2]


def test_what_could_not_be_made_is_tried_again_by_the_next(tmp_path: Path) -> None:
    @contextmanager
    def failing() -> Iterator[int]:
        raise OSError("no port is free")
        yield 1

    with pytest.raises(OSError, match="no port is free"), shared(tmp_path, "it", failing, int):
        pass
    with shared(tmp_path, "it", Maker(), list) as value:
        assert value == [1]


def test_a_value_that_cannot_be_copied_fails_alike_in_every_process(tmp_path: Path) -> None:
    @contextmanager
    def make() -> Iterator[object]:
        yield threading.Lock()

    for _ in range(2):
        with pytest.raises(TypeError, match="__dict__"), shared(tmp_path, "it", make, list):
            pass


USER = """
import pathlib, sys, time
from cdc_outbox.testing.sharing import shared
folder = pathlib.Path(sys.argv[1])
with shared(folder, "it", lambda: 1 / 0, list):
    (folder / "entered").touch()
    time.sleep(60)
"""


def test_a_process_that_was_killed_counts_no_more(tmp_path: Path) -> None:
    maker = Maker()
    with (
        shared(tmp_path, "it", maker, list[int]),
        subprocess.Popen([sys.executable, "-c", USER, str(tmp_path)]) as user,
    ):
        eventually((tmp_path / "entered").exists, "the other process to use it")
        user.kill()
    assert maker.ended == [1]


def test_others_cannot_read_what_is_shared(tmp_path: Path) -> None:
    with shared(tmp_path, "it", Maker(), list):
        assert (tmp_path / "it.json").stat().st_mode & 0o077 == 0


def test_no_module_of_the_package_reads_pickles() -> None:
    package = Path(sharing.__file__).parents[1]
    assert [path.name for path in package.rglob("*.py") if "import pickle" in path.read_text()] == []
