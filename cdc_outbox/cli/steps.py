"""How a deployment goes: on a terminal the step at hand with its seconds, elsewhere one line a step."""

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from cdc_outbox.safe_text import visible

_TICK_SECONDS = 0.5
_CLEAR = "\r\x1b[K"


class Steps:
    """Show steps, and remember them.

    Args:
        stream: Where they go; on a terminal the last one shows for how long it lasts.
        clock: Seconds, growing.
    """

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.done: list[tuple[str, str]] = []
        self._stream = stream
        self._clock = clock
        self._rewrites = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._lock = threading.Lock()
        self._line, self._since = "", 0.0

    def report(self, step: str, text: str) -> None:
        """Show a step that was done, or begins."""
        with self._lock:
            self.done.append((step, text))
            self._settle()
            line = visible(f"{step:<10} {text}")
            if self._rewrites:
                self._line, self._since = line, self._clock()
                self._write(line)
            else:
                self._write(f"{line}\n")

    def wait(self, what: str) -> None:
        """Show what Connect is waited for."""
        self.report("connect", f"waiting: {what}")

    def tick(self) -> None:
        """Show for how long the last step lasts."""
        with self._lock:
            seconds = self._clock() - self._since
            if self._line and seconds >= 1:
                columns = shutil.get_terminal_size().columns
                self._write(_CLEAR + f"{self._line}  ({seconds:.0f} s)"[: columns - 1])

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        """Keep the seconds going until the block ends."""
        over = threading.Event()

        def follow() -> None:
            while not over.wait(_TICK_SECONDS):
                self.tick()

        thread = threading.Thread(target=follow, name="cdc-outbox steps", daemon=True)
        if self._rewrites:
            thread.start()
        try:
            yield
        finally:
            over.set()
            if self._rewrites:
                thread.join()
            with self._lock:
                self._settle()

    def _settle(self) -> None:
        """Leave the last line as it was told, without seconds."""
        if self._line:
            self._write(f"{_CLEAR}{self._line}\n")
            self._line = ""

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # who looked has gone; the deployment goes on
            self._stream.write(text)
            self._stream.flush()
