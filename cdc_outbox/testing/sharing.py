"""What several processes of one test run use together: the first that asks makes it, the others get a copy."""

import fcntl
import pickle
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import IO, TypeVar

ResultT = TypeVar("ResultT")


@contextmanager
def shared(folder: Path, name: str, make: Callable[[], AbstractContextManager[ResultT]]) -> Iterator[ResultT]:
    """Make something once for all processes that ask for it, and yield it or a copy of it.

    The process that made it ends it, once every other process has left. Locks of the kernel count the users, so a
    process that was killed counts no more.

    Args:
        folder: A folder of this run alone; it holds what processes share, secrets included.
        name: The name of the shared thing.
        make: Makes it. What the context manager yields must survive :mod:`pickle`; a copy is a handle on the same
            thing.
    """
    made = folder / f"{name}.pickle"
    with (folder / f"{name}.users").open("w") as users, ExitStack() as ending:
        lock = folder / f"{name}.lock"
        with _locked(lock):
            fcntl.flock(users, fcntl.LOCK_SH)
            if made.exists():
                value: ResultT = pickle.loads(made.read_bytes())  # noqa: S301 - written below, by this run
            else:
                value = ending.enter_context(make())
                new = made.with_suffix(".new")
                new.touch(mode=0o600)
                new.write_bytes(pickle.dumps(value))
                # Complete or not there: a value that cannot be pickled leaves no file for the next process.
                new.rename(made)
                ending.callback(_wait_for_others, users)
                ending.callback(_withdraw, made, lock)
        yield value


def _withdraw(made: Path, lock: Path) -> None:
    """Hand out no more copies: a process that asks from now on makes another one."""
    with _locked(lock):
        made.unlink()


def _wait_for_others(users: IO[str]) -> None:
    fcntl.flock(users, fcntl.LOCK_UN)
    fcntl.flock(users, fcntl.LOCK_EX)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
