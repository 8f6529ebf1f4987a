"""What frameworks call around a commit.

Before it, a failure is that of the transaction. After it nothing can be undone, so each call runs, and a failure is
logged.
"""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cdc_outbox.errors import CdcOutboxError
from cdc_outbox.redaction import enumerated

_log = logging.getLogger(__name__)


class ListenerError(CdcOutboxError):
    """A listener of the application raised before the commit, which did not happen; its error is the cause."""

    hint = "Correct the listener: its error is the cause (__cause__)."


def log_callback(error: Exception, events: Sequence[object]) -> None:
    """Log what a callback or a listener raised, with the events whose handlers it may belong to."""
    fields = {"reason": type(error).__name__, "events": enumerated([*map(str, events)]) if events else ""}
    _log.error("callback failed after the commit", exc_info=error, extra=fields)


class AfterCommit(NamedTuple):
    """A callback that the handler of these events registered; another one's failure does not prevent it."""

    call: Callable[[], object]
    events: Sequence[object]

    def __call__(self) -> None:
        """Call it, and log what it raises."""
        try:
            self.call()
        except Exception as error:  # noqa: BLE001 - the transaction is committed
            log_callback(error, self.events)
