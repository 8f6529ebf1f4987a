"""Waiting and sleeping, once for threads and once for asyncio."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, TypeVar

_GLANCE_SECONDS = 0.05
"""How long one who waits may take to notice that it is to stop."""

ResultT = TypeVar("ResultT")


def is_cancelled(error: BaseException) -> bool:
    """Return whether an error cancels the task that runs, and not only another one that it awaits."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread without an event loop; nothing can cancel it
        return False
    return task is not None and task.cancelling() > 0


class Waits(Protocol):
    """What waiting is: for the thread, or for the event loop."""

    async def call(self, function: Callable[..., ResultT], *arguments: object) -> ResultT:
        """Call what may block for a while."""

    async def sleep(self, seconds: float) -> None:
        """Wait; return early when the consumer stops."""


class Blocking:
    """Waiting, for a thread."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping

    async def call(self, function: Callable[..., ResultT], *arguments: object) -> ResultT:
        """Call it here."""
        return function(*arguments)

    async def sleep(self, seconds: float) -> None:
        """Wait; return early when the consumer stops.

        Not by the event's own ``wait``, which holds a lock for moments: a signal's handler that tells it to stop runs
        in this very thread, and would wait for that lock for ever.
        """
        until = time.monotonic() + seconds
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _GLANCE_SECONDS))


class Yielding:
    """Waiting, for an event loop."""

    def __init__(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping

    async def call(self, function: Callable[..., ResultT], *arguments: object) -> ResultT:
        """Call it in a thread, and wait for its end when cancelled too: what comes next uses the same client."""
        work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
        try:
            return await asyncio.shield(work)
        finally:
            while not work.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait([work])

    async def sleep(self, seconds: float) -> None:
        """Wait; return early when the consumer stops."""
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return
