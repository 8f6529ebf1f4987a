"""A broker that is down for a while, once everybody has come to their point."""

import threading
from contextlib import suppress
from dataclasses import dataclass, field

from cdc_outbox.errors import StackError
from cdc_outbox.testing.broker import Broker
from tests.support.patience import patience
from tests.support.rig import eventually
from tests.support.threads import Threads


@dataclass
class BrokerOutage:
    """One outage for some relays at once: those that have nothing to do with it need another broker.

    Args:
        parties: How many relays come to their points.
        threads: What the end of the outage waits on.
        kills: Whether the broker is killed and started again; otherwise it is paused, and keeps its connections.
    """

    broker: Broker
    parties: int
    threads: Threads
    seconds: float = 8.0
    kills: bool = False
    _here: int = field(default=0, init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)
    _is_down: threading.Event = field(default_factory=threading.Event, init=False)
    _is_over: threading.Event = field(default_factory=threading.Event, init=False)

    def arrive(self) -> None:
        """Wait until the broker is down."""
        with self._changed:
            self._here += 1
            self._begin_if_complete()
        assert self._is_down.wait(patience(120)), "the others did not come to their points"

    def leave(self) -> None:
        """Tell that one does not come."""
        with self._changed:
            self.parties -= 1
            self._begin_if_complete()

    def wait_for_half(self) -> None:
        """Wait until half of the time is over."""
        assert not self._is_over.wait(self.seconds / 2), "the outage is over already"

    def wait_until_over(self) -> None:
        """Wait until the broker answers again."""
        assert self._is_over.wait(patience(self.seconds + 120)), "the broker does not answer"

    def _begin_if_complete(self) -> None:
        if self._here < self.parties or not self._here or self._is_down.is_set():
            return
        if self.kills:
            self.broker.kill()
        else:
            self.broker.pause()
        self._is_down.set()
        self.threads.submit(self._end)

    def _end(self) -> None:
        threading.Event().wait(self.seconds)
        if self.kills:
            with suppress(StackError):  # it takes longer where there is much to do
                self.broker.start()
        else:
            self.broker.resume()
        eventually(self.broker.answers, "the broker", seconds=120)
        self._is_over.set()
