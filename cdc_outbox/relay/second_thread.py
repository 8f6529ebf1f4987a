"""The thread beside a relay's loop: it calls a server that may never answer, and the loop waits a bounded time."""

import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from threading import Thread
from typing import Any, TypeVar

from cdc_outbox.databases.drivers.sqlstate import CANCELED
from cdc_outbox.errors import (
    CdcOutboxError,
    DatabaseAccessError,
    DatabaseError,
    DatabaseUnavailableError,
    TransactionConflictError,
)

T = TypeVar("T")

END_SECONDS = 2.0
"""How long a relay that is stopped still waits for an answer, and the end of a stream may take."""
_LOOK_SECONDS = 0.05
"""Between two looks whether the relay was stopped."""
_PRIVILEGE = "42501"


class DaemonThreads(Executor):
    """Makes each call in a thread of its own, for which the end of the process does not wait."""

    def submit(self, fn: Callable[..., T], /, *arguments: Any, **options: Any) -> Future[T]:
        """Start the thread."""
        future = Future[T]()

        def run() -> None:
            try:
                future.set_result(fn(*arguments, **options))
            except BaseException as error:  # noqa: BLE001 - raised where the result is used
                future.set_exception(error)

        Thread(target=run, name="cdc-outbox relay's server", daemon=True).start()
        return future


class SecondThread:
    """Makes one call at a time.

    Args:
        executor: Makes the calls.
        clock: Monotonic seconds.
        silence_seconds: After so long without an answer the server counts as lost.

    Attributes:
        is_stopping: Returns whether the relay was stopped; then calls are waited for no longer than it takes to end.
        waiting_since: Since when an answer has been awaited in vain; ``None`` while the server answers.
    """

    def __init__(self, executor: Executor, clock: Callable[[], float], silence_seconds: float) -> None:
        self._executor, self._clock, self._silence_seconds = executor, clock, silence_seconds
        self.is_stopping: Callable[[], bool] = lambda: False
        self.waiting_since: float | None = None
        self._running: Future[Any] | None = None
        self._then: Callable[[Any, float], object] = lambda *_: None
        self._began = 0.0
        self._has_answered = False

    @property
    def is_idle(self) -> bool:
        """Whether no call is made."""
        return self._running is None

    def is_late(self, now: float, seconds: float) -> bool:
        """Return whether the call has taken so long."""
        return self._running is not None and now - self._began >= seconds

    def start(self, work: Callable[[], Any], then: Callable[[Any, float], object], now: float) -> None:
        """Make a call, and use its result, or raise its error, in a later :meth:`finish`."""
        self._running, self._then, self._began = self._executor.submit(work), then, now
        self.waiting_since = now if self.waiting_since is None else self.waiting_since

    def finish(self, now: float) -> bool:
        """Use the result of the call if it has ended, and return whether there was one.

        Raises:
            DatabaseUnavailableError: The server has not answered in time, or refuses a login that it accepted before.
            TransactionConflictError: A lock or a time limit kept the statement from its result.
            Exception: What else the call raised.
        """
        running = self._running
        if running is None or not running.done():
            self._require_answer(now, self._silence_seconds)
            return False
        self._running = None
        try:
            result = running.result()
        except DatabaseUnavailableError:
            raise
        except CdcOutboxError as error:
            self.waiting_since = None
            self._raise_passing(error)
            raise
        self._has_answered, self.waiting_since = True, None
        self._then(result, now)
        return True

    def _raise_passing(self, error: CdcOutboxError) -> None:
        code = error.sqlstate if isinstance(error, DatabaseError) else ""
        if code == CANCELED:
            raise TransactionConflictError(str(error), sqlstate=code) from error
        # A database that is restored does not exist for a while; libpq does not tell that from a wrong password.
        if isinstance(error, DatabaseAccessError) and code != _PRIVILEGE and self._has_answered:
            raise DatabaseUnavailableError(str(error), sqlstate=code, hint=error.hint) from error

    def _require_answer(self, now: float, seconds: float) -> None:
        if self.is_late(now, seconds):
            raise DatabaseUnavailableError(f"the database has not answered for {now - self._began:.0f} s")

    def call(self, work: Callable[[], T], seconds: float | None = None) -> T:
        """Return what a call returns, after the one that is made, and wait for each so long at most.

        Raises:
            Exception: As :meth:`finish`.
        """
        results: list[T] = []
        self._await(seconds)
        self.start(work, lambda result, _: results.append(result), self._clock())
        self._await(seconds)
        return results[0]

    def _await(self, seconds: float | None) -> None:
        while self._running is not None:
            self.wait(_LOOK_SECONDS)
            now = self._clock()
            if not self._running.done():
                limit = END_SECONDS if seconds is None and self.is_stopping() else seconds
                self._require_answer(now, self._silence_seconds if limit is None else limit)
            self.finish(now)

    def wait(self, seconds: float) -> None:
        """Wait until the call has ended, at most so long."""
        if self._running is None:
            time.sleep(seconds)
        else:
            wait([self._running], seconds)

    def leave(self, close: Callable[[], None]) -> bool:
        """Close what the calls use, once none uses it any more, and return whether that is now."""
        running, self._running = self._running, None
        if running is None or running.done():
            close()
            return True
        running.add_done_callback(lambda _: close())
        return False
