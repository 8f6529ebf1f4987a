"""A relay in a thread of the test."""

import threading
from typing import Self

from cdc_outbox.errors import CdcOutboxError
from cdc_outbox.relay import Relay
from tests.support.patience import patience


class RelayThread:
    """A relay that runs until the end of a ``with`` block, and the error that ended it before."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.error: CdcOutboxError | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.relay.run()
        except CdcOutboxError as error:
            self.error = error

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.relay.stop()
        self._thread.join(patience())
        assert not self._thread.is_alive()
