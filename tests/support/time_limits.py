"""Bounds for what must neither hang nor take longer than its input is long."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn


class HangError(Exception):
    """Something took too long."""


def _stop(*_: object) -> NoReturn:
    raise HangError


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise :class:`HangError` in the main thread if the block takes longer; blocks must not be nested."""
    before = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the seconds of CPU that a call costs this thread; compare them with those of another call."""
    began_at = time.thread_time()
    work()
    return time.thread_time() - began_at
