"""A consumer or relay in a process of its own, as its commander sees it."""

import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tests.faults.commander import AT, GO, READY, RUN, STOP
from tests.support.patience import patience
from tests.support.threads import Threads

_ROOT = Path(__file__).parents[2]


class MemberOrders(Protocol):
    """What a process is to be.

    Attributes:
        program: The module that it runs.
        member: Its name.
    """

    @property
    def program(self) -> str: ...

    @property
    def member(self) -> str: ...

    def text(self) -> str:
        """Return its argument."""


class Member:
    """A process that was started, and waits for the order to run."""

    def __init__(self, orders: MemberOrders) -> None:
        self.name = orders.member
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it is closed with the process
        self._said: list[str] = []
        self._is_running = False
        self._codes = {0, -signal.SIGKILL}
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [sys.executable, "-m", orders.program, orders.text()],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        self._threads = Threads()
        self._threads.submit(self._listen)

    def run(self) -> None:
        """Have it begin."""
        self.wait_for(READY)
        self.tell(RUN)
        self._is_running = True

    def wait_until_there(self) -> None:
        """Wait until it stands at its point."""
        self.wait_for(AT)

    def wait_for(self, word: str) -> None:
        with self._changed:
            said = self._changed.wait_for(lambda: word in self._said or self._process.poll() is not None, patience())
        assert said, f"{self.name} did not come so far as to be {word}"
        code = self._process.returncode
        assert word in self._said, f"{self.name} ended with {code} before it was {word}: {self.log()}"

    def wait_until_failed(self, error: str) -> None:
        """Wait until an error of this class ended it, which is not wrong."""
        assert self._process.wait(patience()) == 1, f"{self.name} did not fail: {self.log()}"
        assert error in self.log(), f"{self.name} did not fail with {error}: {self.log()}"
        self._codes.add(1)

    def tell(self, order: str = GO) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{order}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Tell it to stop, if it runs."""
        if self._is_running and self._process.poll() is None:
            self.tell(STOP)

    def end(self) -> list[str]:
        """Wait for its end, and return what is wrong with that."""
        if not self._is_running:
            return []
        try:
            code = self._process.wait(patience())
        except subprocess.TimeoutExpired:
            return [f"{self.name} did not stop: {self.log()}"]
        return [] if code in self._codes else [f"{self.name} ended with {code}: {self.log()}"]

    def log(self) -> str:
        """Return the last of what it logged."""
        self._log.seek(0)
        return "\n".join(self._log.read().splitlines()[-25:])

    def close(self) -> None:
        """Leave nothing behind."""
        self._process.kill()
        self._process.wait()
        self._threads.shutdown()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            if stream is not None:
                stream.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._said.append(line.strip())
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


def end_all(members: Sequence[Member]) -> list[str]:
    """Have all of them stop at once, and return what is wrong with how they ended."""
    for member in members:
        member.stop()
    return [found for member in members for found in member.end()]
