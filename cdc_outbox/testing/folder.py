"""The folder that a stack lives in: whose it is, which ports it took, and how it is cleared away.

The process that started a stack holds a file lock in its folder; the kernel releases it with the process, however that
ends. A folder whose lock is free is left over. Its processes are ended only if they still are those that were written
down: by the time of a crash's discovery a pid may be another process's.

The temporary folder is open to all, and the names in it can be guessed. What lies under a stack's name is believed only
if it is a folder of this user's that no other user may write to.
"""

import contextlib
import fcntl
import json
import os
import random
import re
import secrets
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from cdc_outbox.errors import ConfigError, StackError
from cdc_outbox.redaction import enumerated
from cdc_outbox.testing.process import ProcessRecord, end, open_private, write_private

HOST = "127.0.0.1"
"""Where every part listens: other hosts cannot reach a stack."""

_PORTS = range(20_000, 32_000)
"""Below what the kernel gives to outgoing connections, so that none of those takes a port between look and use."""
_END_SECONDS = 3.0
"""What a part may take to end in good order when its data are thrown away with it."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")
_SHOWN = 5
"""Names of stacks that a sentence has."""
_UNFINISHED_SECONDS = 60.0
"""A folder gets its lock within milliseconds; one that has none after this was left by a crash in between."""
_LOOK_SECONDS = 0.1


class StackFolder:
    """One stack's folder.

    Args:
        name: Letters, digits, hyphen and underscore; one stack of a name runs per user at a time.
        root: Where folders are made, by default the system's temporary folder.
    """

    def __init__(self, name: str, root: Path | None = None) -> None:
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{name!r} is not a valid name for a stack",
                field="name",
                hint="Use letters, digits, hyphens and underscores.",
            )
        self.name = name
        self._root = (root or Path(tempfile.gettempdir())).resolve()
        self.path = self._root / f"{self._prefix}{name}"
        self._lock: IO[bytes] | None = None

    @property
    def owner(self) -> ProcessRecord | None:
        """The process that holds the stack."""
        return ProcessRecord.read(self._own_path() / "owner.json")

    @property
    def is_held_here(self) -> bool:
        """Whether this object holds the stack."""
        return self._lock is not None

    @property
    def is_held(self) -> bool:
        """Whether a process holds the stack."""
        try:
            with _lock(self._own_path()) as lock:
                return lock is None
        except FileNotFoundError:
            return False

    def refuse_unless_held(self) -> None:
        """Refuse to use a stack that does not run.

        Raises:
            StackError: No process holds it; the hint names those that are held.
        """
        if not self.is_held:
            hint = self.others or "Start one with `cdc-outbox stack up`."
            raise StackError(f"no stack named {self.name!r} is running", hint=hint)

    def refuse_held(self) -> None:
        """Refuse to start a stack that runs.

        Raises:
            StackError: A process holds it.
        """
        if self.is_held:
            raise self._held()

    def _held(self) -> StackError:
        return StackError(
            f"a stack named {self.name!r} is running",
            hint=f"End it with `cdc-outbox stack down --name {self.name}`, or choose another name.",
        )

    @property
    def others(self) -> str:
        """A sentence with this user's other stacks that run, empty where none does."""
        names = {path.name.removeprefix(self._prefix) for path in self._all()} - {self.name}
        held = sorted(name for name in names if _NAME.fullmatch(name) and StackFolder(name, self._root).is_held)
        if not held:
            return ""
        there = f"There {'are' if held[1:] else 'is'} only {enumerated(held, _SHOWN)}"
        return f"{there}: --name {held[0]}, or CDC_OUTBOX_NAME."

    def occupy(self) -> None:
        """Clear away what crashed, make the folder, and hold it until :meth:`release` or the end of the process.

        Raises:
            StackError: A stack of this name is held, or its folder's name is taken by another user.
        """
        self._own_path()
        for folder in self._all():
            _clear_if_free(folder)
        new = Path(tempfile.mkdtemp(dir=self._root, prefix=f"{self._prefix}{self.name}."))
        self._lock = os.fdopen(open_private(new / "lock.new", os.O_WRONLY | os.O_CREAT), "wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        # No process ever sees a lock that is not held yet.
        (new / "lock.new").rename(new / "lock")
        ProcessRecord.of(os.getpid()).write(new / "owner.json")
        if os.geteuid() == 0:
            # PostgreSQL's own user must pass to its data; what else lies here is closed, and no other user may list it.
            new.chmod(0o711)
        try:
            # With the lock in it: no process ever sees the folder under its name without it.
            new.rename(self.path)
        except OSError as error:
            self._lock.close()
            self._lock = None
            shutil.rmtree(new)
            self._own_path()
            raise self._held() from error

    def release(self) -> None:
        """End every process that was recorded, remove the folder and let go of it; once is enough."""
        if self._lock is not None:
            if _is_ours(self.path):  # not so after another process cleared the temporary folder
                _end_parts(self.path)
                with contextlib.suppress(FileNotFoundError):
                    _remove(_set_aside(self.path))
            self._lock.close()
            self._lock = None

    def clear_left_over(self) -> bool:
        """Remove what a crash left of this stack, and return whether there was something."""
        return _clear_if_free(self._own_path())

    def reserve_port(self) -> int:
        """Return a port that no process listens on and that no stack of this user has reserved."""
        with open(self._own_path() / "ports.lock", "w", opener=open_private) as lock:
            # Copies of the stack in other processes reserve ports too.
            fcntl.flock(lock, fcntl.LOCK_EX)
            mine, others = _ports_of(self.path), [port for folder in self._all() for port in _ports_of(folder)]
            for port in random.sample(_PORTS, len(_PORTS)):  # no cryptography
                if port not in others and _can_listen(port):
                    new = self.path / "ports.json.new"
                    write_private(new, json.dumps([*mine, port]))
                    new.rename(self.path / "ports.json")
                    return port
        raise StackError(f"no port from {_PORTS.start} to {_PORTS.stop - 1} is free")

    def write_environment(self, environment: Mapping[str, str]) -> None:
        """Note how the stack is reached, and that it is ready."""
        new = self._own_path() / "environment.json.new"
        write_private(new, json.dumps(dict(environment)))
        new.rename(self.path / "environment.json")

    def find_environment(self) -> dict[str, str] | None:
        """Return how the stack is reached, ``None`` while it is not ready."""
        with contextlib.suppress(OSError, ValueError):
            environment: dict[str, str] = json.loads((self._own_path() / "environment.json").read_text())
            return environment
        return None

    def find_records(self) -> dict[str, ProcessRecord]:
        """Return the process of each part that was started, by the part's name."""
        return _records(self._own_path())

    def find_states(self) -> dict[str, str]:
        """Return what each part does, by its name."""
        return {name: record.state() for name, record in self.find_records().items()}

    def log(self, part: str) -> Path:
        """Return a part's log.

        Raises:
            StackError: There is no such part.
        """
        known = sorted(_records(self._own_path()))
        if part not in known:
            raise StackError(f"the stack has no part {part!r}", hint=f"Its parts are {', '.join(known)}.")
        return self.path / part / "log"

    def find_fatal(self, part: str, *, after: int) -> str:
        """Return the last line with FATAL in a part's log, behind a number of bytes; empty without one."""
        lines = self.log(part).read_bytes()[after:].decode(errors="replace").splitlines()
        return next((line.strip() for line in reversed(lines) if "FATAL" in line), "")

    def ask_restart(self, part: str, variables: Mapping[str, str] | None = None) -> None:
        """Ask the process that holds the stack to start a part again.

        Args:
            variables: What a Connect worker is given beside what it had.

        Raises:
            StackError: There is no such part.
        """
        self.log(part)
        new = self.path / part / "restart.new"
        write_private(new, json.dumps(dict(variables or {})))
        new.rename(self.path / part / "restart")

    def asked_restart(self, part: str) -> dict[str, str] | None:
        """Return the variables with which a part is to start again, ``None`` if that was not asked for."""
        with (
            contextlib.suppress(FileNotFoundError),
            open(self._own_path() / part / "restart", opener=open_private) as file,
        ):
            variables: dict[str, str] = json.load(file)
            return variables
        return None

    def await_restart(self, part: str, *, seconds: float) -> bool:
        """Wait until a restart that was asked for is answered, and return whether it was."""
        deadline = time.monotonic() + seconds
        while self.asked_restart(part) is not None:
            if not self.is_held or time.monotonic() >= deadline:
                self.answer_restart(part)
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def answer_restart(self, part: str) -> None:
        """Tell the process that requested it that it was done, or tried."""
        (self._own_path() / part / "restart").unlink(missing_ok=True)

    @property
    def _prefix(self) -> str:
        return f"cdc-outbox-{os.geteuid()}-"

    def _own_path(self) -> Path:
        """Return where the folder is, or would be.

        Raises:
            StackError: The path is not this user's folder, or others may write to it.
        """
        if _is_ours(self.path) is False:
            raise StackError(
                f"{self.path} is not your folder, or other users can write to it",
                hint="Another user may have created it. Choose another name, or set TMPDIR to your own folder.",
            )
        return self.path

    def _all(self) -> list[Path]:
        """Return this user's folders; another user's of the same name are ignored."""
        return [path for path in self._root.glob(f"{self._prefix}*") if _is_ours(path)]


def _is_ours(path: Path) -> bool | None:
    """Return whether it is a folder of this user's that no other user may write to, ``None`` where nothing is."""
    with contextlib.suppress(FileNotFoundError):  # cleared away since it was listed
        found = path.lstat()
        writable_by_others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not writable_by_others
    return None


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[IO[bytes] | None]:
    """Hold a folder, and yield ``None`` where another process does.

    Raises:
        FileNotFoundError: It has no lock, or is gone.
    """
    with (folder / "lock").open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
            return
        # The opened folder may have been removed since, and its name now be another stack's.
        held = os.path.samestat(os.fstat(file.fileno()), (folder / "lock").stat())
        yield file if held else None


def _clear_if_free(folder: Path) -> bool:
    """Remove a folder that no process holds, and return whether it was one.

    It is held meanwhile, and loses its name first: a new stack of that name is never removed.
    """
    try:
        with _lock(folder) as lock:
            if lock is None:
                return False
            aside = _set_aside(folder)
            _end_parts(aside)
            _remove(aside)
            return True
    except FileNotFoundError:
        return _clear_if_unfinished(folder)


def _clear_if_unfinished(folder: Path) -> bool:
    with contextlib.suppress(FileNotFoundError):
        if time.time() - folder.stat().st_mtime > _UNFINISHED_SECONDS:
            _remove(_set_aside(folder))
            return True
    return False


def _set_aside(folder: Path) -> Path:
    """Give a folder a name that no stack has; a listing of the folders still finds its lock, its parts and ports."""
    return folder.rename(folder.with_name(f"{folder.name}.{secrets.token_hex(4)}"))


def _end_parts(folder: Path) -> None:
    end(list(_records(folder).values()), seconds=_END_SECONDS)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _records(folder: Path) -> dict[str, ProcessRecord]:
    found = {path.parent.name: ProcessRecord.read(path) for path in sorted(folder.glob("*/process.json"))}
    return {name: record for name, record in found.items() if record is not None}


def _ports_of(folder: Path) -> list[int]:
    with contextlib.suppress(OSError, ValueError):
        ports: list[Any] = json.loads((folder / "ports.json").read_text())
        return [int(port) for port in ports]
    return []


def _can_listen(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
