"""What several processes of one test run use together: the first that asks makes it, the others get a handle on it."""

import fcntl
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, is_dataclass
from io import IOBase
from pathlib import Path
from typing import Any, TypeVar

from cdc_outbox.debezium.event_router.jvm.jars import locked
from cdc_outbox.testing.process import write_private

ResultT = TypeVar("ResultT")


@contextmanager
def shared(
    folder: Path, name: str, make: Callable[[], AbstractContextManager[ResultT]], from_json: Callable[[Any], ResultT]
) -> Iterator[ResultT]:
    """Make something once for all processes that ask for it, and yield it, or a handle on it by its attributes as JSON.

    The process that made it ends it, once every other process has left. Locks of the kernel count the users, so a
    process that was killed counts no more. The folder is this run's alone: its files hold secrets.
    """
    made, lock = folder / f"{name}.json", folder / f"{name}.lock"
    with (folder / f"{name}.users").open("w") as users, ExitStack() as ending:
        with locked(lock):
            fcntl.flock(users, fcntl.LOCK_SH)
            if is_there := made.exists():
                value = from_json(json.loads(made.read_text()))
            else:
                value = ending.enter_context(make())
                write_private(made, json.dumps(value, default=_as_json))
        try:
            yield value
        finally:
            if not is_there:
                with locked(lock):
                    made.unlink()  # a process that asks from now on makes another one
                fcntl.flock(users, fcntl.LOCK_UN)
                fcntl.flock(users, fcntl.LOCK_EX)  # waits for the others


def _as_json(part: Any) -> object:  # noqa: ANN401 - of any class
    if isinstance(part, Path):
        return str(part)
    if isinstance(part, subprocess.Popen | IOBase):
        return None  # children and locks stay with this process
    return asdict(part) if is_dataclass(part) and not isinstance(part, type) else vars(part)
