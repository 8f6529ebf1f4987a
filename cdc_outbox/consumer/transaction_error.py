"""Our error for what made an inbox transaction fail."""

from collections.abc import Callable, Sequence

from cdc_outbox.consumer.calls import ours_of, several
from cdc_outbox.drivers import is_of_driver
from cdc_outbox.errors import (
    CdcOutboxError,
    ConsumerError,
    DatabaseUnavailableError,
    MessageError,
    TransactionAbortedError,
    TransactionConflictError,
)
from cdc_outbox.event import Event

_FAILED_TRANSACTION = "25P02"
"""https://www.postgresql.org/docs/current/errcodes-appendix.html: a statement came after one that failed."""


def error_of(
    error: Exception, events: Sequence[Event], text_of: Callable[[BaseException], str]
) -> CdcOutboxError | None:
    """Return our error for one that a transaction raised, ``None`` for a bug of ours.

    Args:
        events: Those of the transaction.
        text_of: Returns what to add of the error's own text.
    """
    return _aborted(error, events) or ours_of(error) or _refused(error, events, text_of(error))


def _aborted(error: Exception, events: Sequence[Event]) -> ConsumerError | None:
    """Return the error of a transaction that had failed before our statement did: some drivers tell only then."""
    if getattr(error, "sqlstate", None) != _FAILED_TRANSACTION:
        return None
    return TransactionAbortedError(f"a handler of {several(events)} swallowed an SQL error")


def _refused(error: Exception, events: Sequence[Event], text: str) -> CdcOutboxError | None:
    """Return the error of what the database refused; what our own code raises is no event's fault."""
    if isinstance(error, ConnectionError):  # the socket's own, which SQLAlchemy lets pass under asyncpg
        return DatabaseUnavailableError("the connection broke")
    if isinstance(error, TimeoutError):  # asyncpg's ``command_timeout``
        return TransactionConflictError("an answer of the server was waited for longer than the connection allows")
    if isinstance(error, UnicodeEncodeError):
        return MessageError("the event holds half a surrogate pair, which no database takes")
    if not is_of_driver(error):
        return None
    return ConsumerError(f"{several(events)} could not be applied: {type(error).__name__}{text}")
