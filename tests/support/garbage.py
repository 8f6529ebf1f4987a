"""What is freed without the garbage collector: when its last reference goes."""

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

MadeT = TypeVar("MadeT")


@contextmanager
def uncollected() -> Iterator[None]:
    """Have nothing collected in the block."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Instances(Generic[MadeT]):
    """Objects that are made one after the other, without a reference that keeps one alive."""

    def __init__(self) -> None:
        self._made: list[weakref.ref[MadeT]] = []
        self.alive: list[int] = []
        """Each time that one was made, how many of those before were alive."""

    def add(self, made: MadeT) -> MadeT:
        """Note one, and return it."""
        self.alive.append(self.count())
        self._made.append(weakref.ref(made))
        return made

    def count(self) -> int:
        """Return how many are alive."""
        return sum(each() is not None for each in self._made)
