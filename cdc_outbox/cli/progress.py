"""How a long catch-up and a deployment go: on a terminal, and elsewhere."""

import contextlib
import logging
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TextIO

from cdc_outbox.redaction import visible
from cdc_outbox.telemetry import HasProgress, Progress

_LONG_EVENTS = 1_000
"""With fewer to go there is nothing to watch: they are done with before a line is read."""
_WINDOW_SECONDS = 10.0
"""Over how long a rate is taken: long enough to be read, short enough to be of now."""
_TICK_SECONDS = 0.5
_LOG_SECONDS = 30.0
"""Between two lines where each of them stays."""
_CLEAR = "\r\x1b[K"


def progress_line(progress: Progress, earlier: Progress, *, seconds: float) -> str:
    """Return how it goes in one line: done, rate, to go, time left.

    Args:
        earlier: What it said so many seconds before; what came in meanwhile is in both.
        seconds: 0 where there is no earlier one yet.
    """
    parts = [f"{progress.events:,} events"]
    if seconds > 0:
        parts.append(f"{(progress.events - earlier.events) / seconds:,.0f}/s")
    if progress.lag_events is not None:
        parts.append(f"{progress.lag_events:,} to go")
    if progress.lag_events and earlier.lag_events is not None and seconds > 0:
        # By how fast the rest shrinks, and not by how fast events are applied: new ones are written meanwhile.
        shrinking = (earlier.lag_events - progress.lag_events) / seconds
        parts.append(f"{_duration(progress.lag_events / shrinking)} left" if shrinking > 0 else "not catching up")
    if progress.outage:
        parts.append(f"waiting for {progress.outage}")
    return f"{progress.consumer}: {', '.join(parts)}"


class ProgressLine:
    """Show how a consumer goes while it has much to catch up with, and nothing otherwise.

    Args:
        stream: Where it goes; on a terminal each line takes the last one's place, elsewhere one is added every 30 s.
        clock: Seconds, growing.
    """

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._rewrites = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._lock = threading.Lock()
        self._past: deque[tuple[float, Progress]] = deque()
        self._said_at: float | None = None
        self._is_shown = False

    def show(self, progress: Progress) -> None:
        """Take note, and show it if it is time to."""
        with self._lock:
            now = self._clock()
            self._past.append((now, progress))
            # The one that is just older than the window stays, or a slow ticker would never have a rate.
            while len(self._past) > 2 and self._past[1][0] <= now - _WINDOW_SECONDS:
                self._past.popleft()
            if (progress.lag_events or 0) < _LONG_EVENTS:
                self._clear()
                return
            then, earlier = self._past[0]
            line = progress_line(progress, earlier, seconds=now - then)
            if self._rewrites:
                columns = shutil.get_terminal_size().columns
                self._write(_CLEAR + line[: columns - 1])
                self._is_shown = True
            elif self._said_at is None or now - self._said_at >= _LOG_SECONDS:
                self._said_at = now
                self._write(f"{line}\n")

    def filter(self, record: logging.LogRecord) -> bool:  # noqa: ARG002 - logging's signature
        """Make room for a log record: as a filter of what logs to the same terminal, which holds none back."""
        with self._lock:
            self._clear()
        return True

    @contextlib.contextmanager
    def following(self, consumer: HasProgress) -> Iterator[None]:
        """Show a consumer's progress from a thread of its own, until the block ends."""
        over = threading.Event()

        def follow() -> None:
            while not over.wait(_TICK_SECONDS):
                self.show(consumer.progress())

        thread = threading.Thread(target=follow, name="cdc-outbox progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self._clear()

    def _clear(self) -> None:
        if self._is_shown:
            self._is_shown = False
            self._write(_CLEAR)

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the reader has gone; the consumer continues
            self._stream.write(text)
            self._stream.flush()


def _duration(seconds: float) -> str:
    """Return a time that is left in the two largest units, which is exact enough."""
    whole = round(seconds)
    for size, unit, part, smaller in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size:,} {unit} {whole % size // part} {smaller}"
    return f"{whole} s"


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
        """Leave the last line as it was reported, without seconds."""
        if self._line:
            self._write(f"{_CLEAR}{self._line}\n")
            self._line = ""

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the reader has gone; the deployment continues
            self._stream.write(text)
            self._stream.flush()
