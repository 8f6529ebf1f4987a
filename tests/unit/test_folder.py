"""Who a stack's folder belongs to, when several look at it at once."""

import fcntl
import json
import os
from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest

from cdc_outbox.errors import StackError
from cdc_outbox.testing import folder as folder_module
from cdc_outbox.testing.folder import StackFolder
from cdc_outbox.testing.process import ProcessRecord
from tests.support.threads import Threads


@pytest.fixture
def left_over(tmp_path: Path) -> StackFolder:
    """What a crash left of the stack `try`."""
    folder = StackFolder("try", tmp_path)
    folder.path.mkdir(mode=0o700)
    (folder.path / "postgres").mkdir()
    (folder.path / "lock").touch()
    ProcessRecord(os.getpid(), 0).write(folder.path / "postgres" / "process.json")
    return folder


def before(monkeypatch: pytest.MonkeyPatch, module: Any, name: str, act: Callable[[], None]) -> None:
    """Do something once, right before a function is called for the first time."""
    function, acts = getattr(module, name), [act]

    def wrapped(*arguments: Any, **options: Any) -> Any:
        if acts:
            acts.pop()()
        return function(*arguments, **options)

    monkeypatch.setattr(module, name, wrapped)


@pytest.mark.parametrize(("module", "step"), [(fcntl, "flock"), (folder_module, "end")])
def test_a_stack_that_comes_up_while_another_clears_its_name_is_not_cleared_away(
    left_over: StackFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, step: str
) -> None:
    quicker = StackFolder("try", tmp_path)
    before(monkeypatch, module, step, quicker.occupy)
    with pytest.raises(StackError, match="a stack named 'try' is running"):
        left_over.occupy()
    assert quicker.is_held
    assert quicker.owner == ProcessRecord.of(os.getpid())
    assert quicker.find_states() == {}
    quicker.release()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["flock", "end"])
def test_down_does_not_clear_away_a_stack_that_comes_up_meanwhile(
    left_over: StackFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    quicker = StackFolder("try", tmp_path)
    before(monkeypatch, fcntl if step == "flock" else folder_module, step, quicker.occupy)
    left_over.clear_left_over()
    assert quicker.is_held
    quicker.release()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_never_seen_with_a_lock_that_nobody_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, other = StackFolder("try", tmp_path), StackFolder("other", tmp_path)
    before(monkeypatch, fcntl, "flock", other.occupy)
    folder.occupy()
    assert folder.is_held
    assert other.is_held
    folder.release()
    other.release()


def test_what_lies_in_a_folder_is_closed_to_everybody_else(tmp_path: Path) -> None:
    folder = StackFolder("try", tmp_path)
    folder.occupy()
    folder.reserve_port()
    folder.write_environment({})
    # Root's databases run as users of their own, who pass, but list nothing.
    assert folder.path.stat().st_mode & 0o777 == (0o711 if os.geteuid() == 0 else 0o700)
    found = {path.name: oct(path.stat().st_mode & 0o777) for path in folder.path.iterdir()}
    names = ("lock", "owner.json", "ports.lock", "ports.json", "environment.json")
    assert found == dict.fromkeys(names, "0o600")
    folder.release()


def test_ports_that_are_reserved_at_the_same_time_are_all_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = StackFolder("try", tmp_path)
    folder.occupy()
    others: list[Future[int]] = []
    with Threads() as threads:

        def reserve_another_one() -> None:
            others.append(threads.submit(StackFolder("try", tmp_path).reserve_port))
            wait(others, 0.2)  # without a lock it ends in this time

        before(monkeypatch, folder_module, "_can_listen", reserve_another_one)
        reserved = [folder.reserve_port(), others[0].result()]
    assert sorted(json.loads((folder.path / "ports.json").read_text())) == sorted(reserved)
    folder.release()


def test_a_stack_that_does_not_run_is_told_with_those_that_do(left_over: StackFolder, tmp_path: Path) -> None:
    folder = StackFolder("default", tmp_path)
    with pytest.raises(StackError, match="no stack named 'default' is running") as caught:
        folder.refuse_unless_held()
    assert (folder.others, caught.value.hint) == ("", "Start one with `cdc-outbox stack up`.")
    (tmp_path / f"{left_over.path.name}.0123").mkdir(mode=0o700)  # set aside
    mine, another = StackFolder("mine", tmp_path), StackFolder("another", tmp_path)
    mine.occupy()
    with pytest.raises(StackError) as caught:
        folder.refuse_unless_held()
    assert caught.value.hint == folder.others == "There is only mine: --name mine, or CDC_OUTBOX_NAME."
    another.occupy()
    assert folder.others == "There are only another, mine: --name another, or CDC_OUTBOX_NAME."
    mine.refuse_unless_held()
    for each in (mine, another):
        each.release()
