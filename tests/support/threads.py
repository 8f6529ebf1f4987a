"""Threads of a test: they end with a block of the test, and what they raise is raised there."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from tests.support.patience import SECONDS, patience

P = ParamSpec("P")
T = TypeVar("T")


class Result(Future[T]):
    """What a thread returns or raises, which :meth:`result` waits for with :func:`patience`."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds
        self.is_read = False

    def result(self, timeout: float | None = None) -> T:
        self.is_read = True
        return super().result(patience(self._seconds) if timeout is None else timeout)


class Threads(Executor):
    """Threads that end before the block does.

    The end of the block waits for them, and raises the first error that the test did not ask for: also where the block
    itself fails, because as a rule this is why. A thread that does not end fails the test, and does not keep pytest
    from ending, as one of a ``ThreadPoolExecutor`` would.

    Args:
        at_once: How many run at the same time; others wait for their turn.
        seconds: What each takes at most on an idle machine, its turn included: by default a few waits of its own.
    """

    def __init__(self, at_once: int = 64, *, seconds: float = 5 * SECONDS) -> None:
        self._seconds = seconds
        self._places = threading.Semaphore(at_once)
        self._threads: dict[threading.Thread, Result[Any]] = {}

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Result[T]:
        result: Result[T] = Result(self._seconds)

        def run() -> None:
            with self._places:
                if not result.set_running_or_notify_cancel():
                    return
                try:
                    result.set_result(fn(*args, **kwargs))
                except BaseException as error:  # noqa: BLE001 - raised where the result is read, or at the end
                    result.set_exception(error)

        thread = threading.Thread(target=run, name=getattr(fn, "__qualname__", repr(fn)), daemon=True)
        self._threads[thread] = result
        thread.start()
        return result

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(cancel_futures=error is not None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - Executor's
        """Do what the end of the block does."""
        for result in self._threads.values() if cancel_futures else ():
            result.cancel()
        for thread in self._threads:
            thread.join(patience(self._seconds))
        alive = [thread.name for thread in self._threads if thread.is_alive()]
        assert not alive, f"waited in vain for the end of {', '.join(alive)}"
        for result in self._threads.values():
            if not result.is_read and not result.cancelled():
                result.result()
