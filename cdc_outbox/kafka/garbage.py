"""How often this process looks for garbage while it handles events."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_OBJECTS_BETWEEN_COLLECTIONS = 100_000


class _Collector:
    """The process's garbage collector: one, however many consumers run beside each other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = self._threshold = 0
        self._is_frozen = False

    @contextmanager
    def seldom(self) -> Iterator[None]:
        """Run it seldom until the last of these blocks ends, and pass over what exists as the first begins.

        Reference counts free nearly all of the dozen objects that each event is. To look for cycles among them, and
        among all that was imported, took a fifth of the CPU. What the process itself has frozen, or set
        higher, stays as it is.
        """
        with self._lock:
            if not self._blocks:
                self._begin()
            self._blocks += 1
        try:
            yield
        finally:
            with self._lock:
                self._blocks -= 1
                if not self._blocks:
                    self._end()

    def _begin(self) -> None:
        self._threshold, *_ = gc.get_threshold()
        if self._threshold < _OBJECTS_BETWEEN_COLLECTIONS:
            gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
        self._is_frozen = not gc.get_freeze_count()
        if self._is_frozen:
            gc.freeze()

    def _end(self) -> None:
        if gc.get_threshold()[0] == _OBJECTS_BETWEEN_COLLECTIONS:
            gc.set_threshold(self._threshold)
        if self._is_frozen:
            gc.unfreeze()


collecting_seldom = _Collector().seldom
