"""A server as a process of its own: started, watched, killed, paused, and found again by another process."""

import contextlib
import json
import os
import pwd
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import psutil

from cdc_outbox.errors import StackError

_LOOK_SECONDS = 0.05
_HALT_SECONDS = 5.0
_START_TIME_TOLERANCE_SECONDS = 0.05
"""The kernel counts start times in hundredths of a second."""


def open_private(path: str | Path, flags: int) -> int:
    """Open a file that no other user may read, and follow no link in its place: an opener for :func:`open`."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def write_private(path: Path, text: str) -> None:
    """Write a file that no other user may read."""
    with open(path, "w", opener=open_private) as file:
        file.write(text)


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A process as it is written down: a pid alone may be another process's by the time it is read.

    Args:
        started: Seconds since 1970, by the kernel.
    """

    pid: int
    started: float

    @classmethod
    def of(cls, pid: int) -> "ProcessRecord":
        """Return the record of a process that runs now."""
        return cls(pid, psutil.Process(pid).create_time())

    @classmethod
    def read(cls, path: Path) -> "ProcessRecord | None":
        """Return the record that a file holds, ``None`` if there is none or it was not finished."""
        try:
            with open(path, opener=open_private) as file:
                content = json.load(file)
            return cls(int(content["pid"]), float(content["started"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Keep the record."""
        write_private(path, json.dumps(asdict(self)))

    def find(self) -> psutil.Process | None:
        """Return the process if it still is the one that was written down, is this user's, and still runs."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started) <= _START_TIME_TOLERANCE_SECONDS
            # Root's databases run as other users.
            ours = os.geteuid() in {0, process.uids().real}
            if same and ours and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None

    def family(self) -> list[psutil.Process]:
        """Return the process and its children, empty if it is gone."""
        process = self.find()
        if process is None:
            return []
        with contextlib.suppress(psutil.Error):
            return [process, *process.children(recursive=True)]
        return [process]

    def state(self) -> str:
        """Return its state: ``running``, ``paused`` or ``not running``."""
        process = self.find()
        with contextlib.suppress(psutil.Error):  # it ends between two looks
            if process is not None:
                return "paused" if process.status() == psutil.STATUS_STOPPED else "running"
        return "not running"


def end(records: Sequence[ProcessRecord], *, seconds: float) -> None:
    """Ask processes to end, all at once, and kill what is left of them and their children after the time.

    They are asked with SIGTERM and SIGINT: the first alone makes PostgreSQL wait for its sessions, the second alone
    is not heard by a JVM that was started in the background of a shell.
    """
    families = [family for record in records if (family := record.family())]
    everyone = [process for family in families for process in family]
    send(everyone, signal.SIGCONT)
    for number in (signal.SIGTERM, signal.SIGINT):
        send([family[0] for family in families], number)
    _, left = psutil.wait_procs(everyone, timeout=seconds)
    send(left, signal.SIGKILL)
    psutil.wait_procs(left, timeout=seconds)


def send(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to those that are still there."""
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.status() not in {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCommand:
    """How a server is started.

    Args:
        environment: All of it; nothing is inherited.
        user: Who to run as, ``None`` for oneself.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    user: pwd.struct_passwd | None = None


def unprivileged_user(program: str, name: str) -> pwd.struct_passwd | None:
    """Return the user for a program that refuses to run as root, ``None`` if we are not root. No user is made for it.

    Args:
        name: The user that its package makes; where there is none it is ``nobody``, whom it may share with programs
            that have nothing to do with it, and which could then read and change its data.

    Raises:
        StackError: There is neither.
    """
    if os.geteuid() != 0:
        return None
    for candidate in (name, "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(candidate)
    raise StackError(f"{program} cannot run as root, and neither the user {name} nor `nobody` exists")


def make_part_folder(folder: Path, user: pwd.struct_passwd | None) -> None:
    """Make the folder of a part that runs as another user: we own it, and the user's group may pass through it.

    Who writes into a folder can put a link there, and we write log and process record.
    """
    folder.mkdir(mode=0o700)
    if user is not None:
        os.chown(folder, -1, user.pw_gid)
        folder.chmod(0o710)


def make_data_folder(folder: Path, user: pwd.struct_passwd | None) -> None:
    """Make a folder that the part's user owns."""
    folder.mkdir(mode=0o700)
    give(folder, user)


def give(path: Path, user: pwd.struct_passwd | None) -> None:
    """Give a file or folder to the user that a part runs as, if that is another one."""
    if user is not None:
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


def run_to_end(command: ServerCommand, folder: Path, what: str, *, text: str = "") -> None:
    """Run a command that ends by itself.

    Args:
        text: What it reads from its standard input.

    Raises:
        StackError: It failed; with what it said.
    """
    done = subprocess.run(  # noqa: S603 - what the parts put together
        command.arguments, **_options(command, folder), input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise StackError(f"{what} failed: {done.stderr.strip() or done.stdout.strip()}")


def _options(command: ServerCommand, folder: Path) -> dict[str, Any]:
    return {
        "cwd": folder,
        "env": dict(command.environment),
        "user": command.user and command.user.pw_uid,
        "group": command.user and command.user.pw_gid,
        "extra_groups": None if command.user is None else [],
    }


class Server(ABC):
    """One part of a stack: a process with a folder, a log and a way to tell that it is ready.

    Args:
        folder: Its working folder, which gives it its name; log and process record lie in it.
        start_seconds: How long it may take until it answers.
    """

    def __init__(self, folder: Path, command: ServerCommand, *, start_seconds: float = 60) -> None:
        self.name = folder.name
        self.folder = folder
        self._command = command
        self._start_seconds = start_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._record: ProcessRecord | None = None

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> Self:
        """Return a handle on another process's server, which alone can reap it, from its attributes as JSON."""
        made, command, record = cls.__new__(cls), dict(state["_command"]), state["_record"]
        command["user"] = command["user"] and pwd.struct_passwd(command["user"])
        known = {"folder": Path(state["folder"]), "_command": ServerCommand(**command)}
        vars(made).update(state | known, _record=record and ProcessRecord(**record))
        return made

    @abstractmethod
    def answers(self) -> bool:
        """Return whether it can be used."""

    @property
    def log(self) -> Path:
        """Everything it said, over all its starts."""
        return self.folder / "log"

    @property
    def pid(self) -> int | None:
        """Its process id, ``None`` while it does not run."""
        return self._record.pid if self._record and self._record.find() else None

    @property
    def is_child(self) -> bool:
        """Whether this process started it, and has to reap it."""
        return self._process is not None

    @property
    def is_running(self) -> bool:
        """Whether the process exists, be it paused or not ready."""
        return self.pid is not None

    def start(self) -> None:
        """Start it and return when it is ready.

        Raises:
            StackError: It ended at once, or was not ready in time; with the last lines of its log.
        """
        if self.is_running:
            raise StackError(f"{self.name} already runs")
        with open(self.log, "ab", opener=open_private) as log:
            self._process = subprocess.Popen(  # noqa: S603 - what the parts put together
                self._command.arguments,
                **_options(self._command, self.folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A session of its own: Ctrl-C is for the process that takes the stack down in good order.
                start_new_session=True,
            )
        self._record = ProcessRecord.of(self._process.pid)
        self._record.write(self.folder / "process.json")
        self._wait_until_ready(self._process)

    def stop(self, *, seconds: float = 20.0) -> None:
        """End it in good order, by force if it does not within the time; without effect if it does not run."""
        end([self._record] if self._record else [], seconds=seconds)
        self.reap()

    def kill(self) -> None:
        """End it and its children with SIGKILL, as a crash would."""
        family = self._family()
        send(family, signal.SIGKILL)
        psutil.wait_procs(family, timeout=10)
        self.reap()

    def pause(self) -> None:
        """Halt it with SIGSTOP, and return when it has halted: it keeps its connections and answers nothing."""
        family = self._family()
        send(family, signal.SIGSTOP)
        deadline = time.monotonic() + _HALT_SECONDS
        while any(_runs(process) for process in family) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)

    def resume(self) -> None:
        """Resume it after a pause."""
        send(self._family(), signal.SIGCONT)

    def restart(self) -> None:
        """Stop it in good order and start it again on the same folder and ports."""
        self.stop()
        self.start()

    def state(self) -> str:
        """Return its state: ``running``, ``paused`` or ``not running``."""
        return self._record.state() if self._record else "not running"

    def reap(self) -> None:
        """Collect the exit status of the ended process, or it would stay as a zombie."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=10)

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + self._start_seconds
        while not self.answers():
            if process.poll() is not None:
                raise StackError(f"{self.name} exited with {process.returncode} at startup:\n{self._last_words()}")
            if time.monotonic() >= deadline:
                raise StackError(f"{self.name} was not ready within {self._start_seconds:g} s:\n{self._last_words()}")
            time.sleep(_LOOK_SECONDS)

    def _last_words(self, lines: int = 12) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _family(self) -> list[psutil.Process]:
        return self._record.family() if self._record else []
