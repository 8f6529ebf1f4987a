"""A bound for what must never hang."""

import signal
from collections.abc import Iterator
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
