"""A relay in a thread of the test."""

from typing import Self

from cdc_outbox.errors import CdcOutboxError
from cdc_outbox.relay import Relay
from tests.support.threads import Threads


class RelayThread:
    """A relay that runs until the end of a ``with`` block, and the error that ended it before."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.error: CdcOutboxError | None = None
        self._threads = Threads()

    def _run(self) -> None:
        try:
            self.relay.run()
        except CdcOutboxError as error:
            self.error = error

    def __enter__(self) -> Self:
        self.ended = self._threads.submit(self._run)
        return self

    def __exit__(self, *_: object) -> None:
        self.relay.stop()
        self._threads.shutdown()
