"""What somebody else puts under the name of a stack's folder is neither believed nor obeyed."""

import fcntl
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from cdc_outbox.errors import StackError
from cdc_outbox.testing.folder import StackFolder
from cdc_outbox.testing.process import ProcessRecord, Server, ServerCommand, end
from tests.support.commands import run_command

NOBODY = 65534


@pytest.fixture
def bystander() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that no stack has started."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


@pytest.fixture
def folder(tmp_path: Path, bystander: "subprocess.Popen[bytes]") -> Iterator[StackFolder]:
    """A held folder whose owner is said to be the bystander."""
    folder = StackFolder("try", tmp_path)
    (folder.path / "postgres").mkdir(parents=True)
    folder.path.chmod(0o700)
    ProcessRecord.of(bystander.pid).write(folder.path / "owner.json")
    ProcessRecord.of(bystander.pid).write(folder.path / "postgres" / "process.json")
    (folder.path / "environment.json").write_text(json.dumps({"CDC_OUTBOX_DSN": "host=evil"}))
    with (folder.path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def open_to_all(folder: StackFolder) -> None:
    folder.path.chmod(0o777)


def open_to_the_group(folder: StackFolder) -> None:
    folder.path.chmod(0o770)


def a_link(folder: StackFolder) -> None:
    folder.path.rename(folder.path.with_name("elsewhere"))
    folder.path.symlink_to("elsewhere")


def of_another_user(folder: StackFolder) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives a folder away")
    os.chown(folder.path, NOBODY, NOBODY)


PLANTS: list[Callable[[StackFolder], None]] = [open_to_all, open_to_the_group, a_link, of_another_user]


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("command", ["env", "down", "status", "logs", "restart", "up"])
def test_a_command_refuses_a_folder_that_others_may_write_to(
    command: str, plant: Callable[[StackFolder], None], folder: StackFolder, bystander: "subprocess.Popen[bytes]"
) -> None:
    plant(folder)
    part = ["postgres"] if command in {"logs", "restart"} else []
    options = ["--no-kafka"] if command == "up" else []
    done = run_command("stack", command, *part, "--name", "try", *options, env={"TMPDIR": str(folder.path.parent)})
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{folder.path} is not your folder, or other users can write to it" in done.stderr
    assert "set TMPDIR to your own folder" in done.stderr
    assert bystander.poll() is None
    assert sorted(path.name for path in (folder.path / "postgres").iterdir()) == ["process.json"]


def test_ports_and_parts_of_such_a_folder_are_not_looked_at(folder: StackFolder, tmp_path: Path) -> None:
    open_to_all(folder)
    other = StackFolder("other", tmp_path)
    other.occupy()
    other.release()
    with pytest.raises(StackError, match="is not your folder"):
        folder.find_states()
    with pytest.raises(StackError, match="is not your folder"):
        folder.reserve_port()
    assert not (folder.path / "ports.lock").exists()


@pytest.mark.parametrize("name", ["X=1; id; export Y", "orders_dsn", "ÄRGER", "1A", "", "A\n"])
def test_a_name_that_a_shell_would_take_for_more_is_not_printed(name: str, folder: StackFolder) -> None:
    (folder.path / "environment.json").write_text(json.dumps({"CDC_OUTBOX_DSN": "host=127.0.0.1", name: "x"}))
    done = run_command("stack", "env", "--name", "try", env={"TMPDIR": str(folder.path.parent)})
    assert (done.returncode, done.stdout) == (1, "")
    assert "is not a valid variable" in done.stderr


class Sleeping(Server):
    """A part that only sleeps."""

    def answers(self) -> bool:
        return True


def test_no_link_is_followed_to_a_log_or_a_record(tmp_path: Path) -> None:
    target, folder = tmp_path / "target", tmp_path / "part"
    target.touch()
    folder.mkdir()
    part = Sleeping(folder, ServerCommand(arguments=["/bin/sleep", "60"], environment={}))
    for name in ("log", "process.json"):
        (folder / name).symlink_to(target)
        with pytest.raises(OSError, match="symbolic link"):
            part.start()
        (folder / name).unlink()
        part.kill()
    assert target.read_text() == ""
    ProcessRecord.of(os.getpid()).write(target)
    (folder / "process.json").symlink_to(target)
    assert ProcessRecord.read(target) is not None
    assert ProcessRecord.read(folder / "process.json") is None


def test_a_process_of_another_user_is_not_ended(
    bystander: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    record = ProcessRecord.of(bystander.pid)
    monkeypatch.setattr(os, "geteuid", Mock(return_value=os.geteuid() + 1))
    assert record.state() == "not running"
    end([record], seconds=0.1)
    assert bystander.poll() is None
