"""Work for the client while the server works."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, runtime_checkable

from cdc_outbox.drivers import AnyConnection

Meanwhile = Callable[[], bool]
"""Do a little of what comes next, and tell whether there is more to do; it touches no connection."""


def nothing_else() -> bool:
    """Have nothing else to do."""
    return False


@runtime_checkable
class Overlapping(Protocol):
    """A driver that can do something else until the server answers."""

    def overlapping(self, connection: AnyConnection, meanwhile: Meanwhile) -> AbstractContextManager[None]:
        """Call this again and again while a statement of the block waits for its answer."""


def overlapping(driver: object, connection: AnyConnection, meanwhile: Meanwhile) -> AbstractContextManager[None]:
    """Return the block in which that is done, where the driver can do it."""
    return driver.overlapping(connection, meanwhile) if isinstance(driver, Overlapping) else nullcontext()
